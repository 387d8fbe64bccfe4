"""``softset predict``: labels and probabilities for new rows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import category_columns, check_columns, check_files, need, stem
from softset.cli.on_disk import predicted
from softset.cli.outputs import fresh_name, print_json


@app.command("predict")
def run(
    model: opt.ModelFile,
    file: opt.DataFiles,
    output: opt.Output = None,
    force: opt.Force = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Columns of the file to keep, such as an identifier."),
    ] = None,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    as_json: opt.AsJson = False,
) -> None:
    """Write labels and probabilities for the rows of a file.

    \b
    softset predict model.softset new.csv
    softset predict model.softset new.parquet --keep customer -o predictions.csv

    Columns are found by name. A missing one is an error, further ones are ignored.

    A Parquet file beyond memory, or a directory of such files, is read block by block.
    """
    need("pandas")
    check_files(model, file, directory=file)
    from softset.storage.files import check_writable

    path = output or fresh_name(f"{stem(file)}-predictions.csv", force)
    check_writable(path, force, inputs=[model, file])

    from softset.classifiers.model import load_model
    from softset.tables.files import read_table, write_blocks, write_table
    from softset.tables.parquet_rows import ParquetRows, is_beyond_memory
    from softset.tables.reading import check_columns as check_names
    from softset.tables.reading import expanded, refuse_text_options

    found = load_model(model)
    tally = _Tally(found)
    if is_beyond_memory(file):
        refuse_text_options(file.name, sep, encoding, decimal)
        rows = ParquetRows(file)
        tally.kept = expanded(keep or [], rows.columns)
        check_names(file.name, rows.columns, tally.kept)
        write_blocks(predicted(rows, tally), path, force=force)
    else:
        frame = read_table(
            file, sep=sep, encoding=encoding, decimal=decimal, text=category_columns(found)
        )
        tally.kept = expanded(keep or [], frame.columns)
        check_columns(file, frame, tally.kept)
        write_table(tally(frame), path, force=force)
    if as_json:
        print_json({"output": str(path), "rows": tally.rows, "predictions": tally.counts})
        return
    kept = "" if tally.kept else ", in the order of the file (--keep COLUMN copies its columns)"
    print(f"{path}: {tally.rows} rows{kept}")
    for name, numbers in tally.counts.items():
        print(f"{name}: " + ", ".join(f"{c} {n}" for c, n in numbers.items()))


class _Tally:
    """Predictions of one table after the other, and how many there were of each class."""

    def __init__(self, model: Any) -> None:
        self.model, self.rows = model, 0
        self.kept: list[str] = []  # columns of the table to keep
        self.counts: dict[str, dict[Any, int]] = {}

    def __call__(self, frame: Any) -> Any:
        encoder = self.model.encoder
        trained = {c.name for c in encoder.columns_} if encoder is not None else set()
        apart = set(self.kept) - trained
        result = _predictions(self.model, frame[[c for c in frame.columns if c not in apart]])
        for name in [n for n in result if not n.startswith("p_")]:
            numbers = self.counts.setdefault(name, {})
            for value, count in result[name].value_counts().items():
                numbers[value] = numbers.get(value, 0) + int(count)
        self.rows += len(result)
        for i, name in enumerate(self.kept):
            if name in result:
                raise ValueError(f"--keep {name}: the predictions have a column of that name.")
            result.insert(i, name, frame[name].to_numpy())
        return result


def _predictions(model: Any, frame: Any) -> Any:
    import pandas as pd

    p, decided = model.predict_both(frame)
    if model.task.independent:
        labels = model.target or [str(c) for c in model.classes_.tolist()]
        columns = {f"prediction_{n}": decided[:, i] for i, n in enumerate(labels)}
    else:
        labels = [str(c) for c in model.classes_.tolist()]
        columns = {"prediction": decided}
    columns.update({f"p_{n}": p[:, i] for i, n in enumerate(labels)})
    return pd.DataFrame(columns)
