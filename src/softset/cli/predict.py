"""``softset predict``: labels and probabilities for new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import check_columns, check_files, need, options_of_model, stem
from softset.cli.on_disk import predicted
from softset.cli.outputs import PLAIN_EVERY, fresh_name, print_json, say
from softset.progress import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from softset.classifiers.model import Model
    from softset.typing import Frame, Label


@app.command("predict")
def run(
    model: opt.ModelFile,
    file: opt.DataFiles,
    output: opt.Output = None,
    force: opt.Force = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Columns to copy as they are, such as an identifier."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Decide at this probability, and not at the threshold of the model."),
    ] = None,
    prevalence: Annotated[
        str | None,
        typer.Option(
            help="Decide for this fraction of the positive class among the new rows (0.01); of "
            "labels or classes one each (0.2,0.5,0.3); or `estimate` it from the rows.",
        ),
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
    softset predict model.softset new.csv --prevalence 0.01

    Columns are matched by name. A missing one is an error, others are ignored. Each row is judged
    alone: what a column cannot hold counts as missing, with a warning.

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

    fitted = before = load_model(model)
    if threshold is not None and prevalence is not None:
        raise ValueError("--threshold and --prevalence both move the threshold: give one of them.")
    if threshold is not None:
        fitted = fitted.with_threshold(threshold)
        if fitted.classifier.calibrated_:
            say("softset: note: --threshold is about the score before it is calibrated (p_...).")
    if prevalence is not None and prevalence != "estimate":
        fitted = fitted.at_prevalence(_fractions(prevalence))
    elif prevalence is not None and is_beyond_memory(file):
        raise ValueError(
            "--prevalence estimate needs the rows in memory; estimate it on some of them, and "
            "state it: --prevalence 0.01."
        )
    predictions = _Predictions(fitted)
    if is_beyond_memory(file):
        refuse_text_options(file.name, sep, encoding, decimal)
        rows = ParquetRows(file)
        predictions.kept = expanded(keep or [], rows.columns)
        check_names(file.name, rows.columns, predictions.kept)
        kinds = {name: rows.schema.field(name).type for name in predictions.kept}
        write_blocks(
            _shown(predicted(rows, predictions), predictions, rows.rows),
            path,
            force=force,
            kinds=kinds,
        )
    else:
        options = options_of_model(fitted)
        text = [*options["text"], *(keep or [])]
        frame = read_table(
            file,
            sep=sep,
            encoding=encoding,
            decimal=decimal,
            text=text,
            thousands=options["thousands"],
        )
        predictions.kept = expanded(keep or [], frame.columns)
        check_columns(file, frame, predictions.kept)
        if prevalence == "estimate":
            predictions.model = fitted = fitted.adapt(frame)
        write_table(predictions(frame), path, force=force)
    moved = fitted.shift if prevalence is not None else None
    if as_json:
        facts: dict[str, object] = {"output": str(path), "positive": fitted.positive or None}
        facts |= {"rows": predictions.rows, "predictions": predictions.counts}
        print_json(facts if moved is None else {**facts, "shift": moved.packed()})
        return
    hint = ", in the order of the file (--keep COLUMN copies its columns)"
    print(f"{path}: {predictions.rows} rows{'' if predictions.kept else hint}")
    if fitted.positive:
        print(f"{fitted.positive} in training")
    for name, numbers in predictions.counts.items():
        print(f"{name}: " + ", ".join(f"{c} {n}" for c, n in numbers.items()))
    if moved is not None:
        print(f"{moved}\n{_moved_threshold(before, fitted)}")


def _shown(blocks: Iterable[Frame], predictions: _Predictions, rows: int) -> Iterator[Frame]:
    """The blocks, while a line tells how many rows are done."""
    with Line("predict", every=PLAIN_EVERY) as line:
        for block in blocks:
            line.show(predictions.rows, rows)
            yield block


def _fractions(text: str) -> float | list[float]:
    """The prevalence of one class, or of several."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--prevalence must be a fraction such as 0.01, or `estimate`, got {text!r}."
        ) from None
    return values[0] if len(values) == 1 else values


def _moved_threshold(before: Model, after: Model) -> str:
    import numpy as np

    old, new = (np.round(m.threshold, 4).tolist() for m in (before, after))
    what = f"{before.task.parameter}: {old}"
    promises = after.classifier.decision_.promises
    if old != new:
        return "\n".join([f"{what} -> {new}", *map(str, promises)])
    lines = [f"{what}, as before"]
    if before.classifier.decision_.promises and not promises:
        lines.append("Nothing is promised any more.")
    return "\n".join(lines + [f"The promise stands. {promise}" for promise in promises])


class _Predictions:
    """Predictions for one table after the other, and the count of each class so far."""

    def __init__(self, model: Model) -> None:
        self.model, self.rows = model, 0
        self.kept: list[str] = []  # columns of the table to copy
        self.counts: dict[str, dict[Label, int]] = {}

    def __call__(self, frame: Frame) -> Frame:
        encoder = self.model.encoder
        trained = {c.name for c in encoder.columns_} if encoder is not None else set()
        only_kept = set(self.kept) - trained
        result = _predict(self.model, frame[[c for c in frame.columns if c not in only_kept]])
        for name in [n for n in result if not n.startswith("p_")]:
            numbers = self.counts.setdefault(name, {})
            for value, count in result[name].value_counts().items():
                numbers[value] = numbers.get(value, 0) + int(count)
        self.rows += len(result)
        for i, name in enumerate(self.kept):
            if name in result:
                raise ValueError(f"--keep {name}: the predictions have a column of that name.")
            cells = frame[name].reset_index(drop=True)
            result.insert(i, name, cells.astype(object) if cells.dtype == "category" else cells)
        result.attrs["exact"] = self.kept
        return result


def _predict(model: Model, frame: Frame) -> Frame:
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
