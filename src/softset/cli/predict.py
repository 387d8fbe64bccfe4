"""``softset predict``: labels and probabilities for new rows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import category_columns, check_columns, check_files, need, stem
from softset.cli.outputs import fresh_name, print_json


@app.command("predict")
def run(
    model: opt.ModelFile,
    file: opt.DataFile,
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
    """
    need("pandas")
    check_files(model, file)
    from softset.storage.files import check_writable

    path = output or fresh_name(f"{stem(file)}-predictions.csv")
    check_writable(path, force, inputs=[model, file])

    from softset.classifiers.model import load_model
    from softset.tables.files import expanded, read_table, write_table

    found = load_model(model)
    frame = read_table(
        file, sep=sep, encoding=encoding, decimal=decimal, text=category_columns(found)
    )
    kept = expanded(keep or [], frame.columns)
    check_columns(file, frame, kept)
    trained = {c.name for c in found.encoder.columns_} if found.encoder is not None else set()
    apart = set(kept) - trained
    result = _predictions(found, frame[[c for c in frame.columns if c not in apart]])
    for i, name in enumerate(kept):
        if name in result:
            raise ValueError(f"--keep {name}: the predictions have a column of that name.")
        result.insert(i, name, frame[name].to_numpy())
    write_table(result, path, force=force)
    decided = [n for n in result if n not in kept and not n.startswith("p_")]
    counts = {n: result[n].value_counts().to_dict() for n in decided}
    if as_json:
        print_json({"output": str(path), "rows": len(result), "predictions": counts})
        return
    print(f"{path}: {len(result)} rows")
    for name, numbers in counts.items():
        print(f"{name}: " + ", ".join(f"{c} {n}" for c, n in numbers.items()))


def _predictions(model: Any, frame: Any) -> Any:
    import pandas as pd

    p, decided = model.predict_both(frame)
    if model.task == "multilabel":
        labels = model.target or [str(c) for c in model.classes_.tolist()]
        columns = {f"prediction_{n}": decided[:, i] for i, n in enumerate(labels)}
    else:
        labels = [str(c) for c in model.classes_.tolist()]
        columns = {"prediction": decided}
    columns.update({f"p_{n}": p[:, i] for i, n in enumerate(labels)})
    return pd.DataFrame(columns)
