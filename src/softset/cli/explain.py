"""``softset explain``: which columns drive a model, and where it is most wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import ReadOptions, check_files, need, options_of_model, read_for
from softset.cli.outputs import console, print_json, verbosity

if TYPE_CHECKING:
    from rich.text import Text

    from softset.classifiers.explaining import Mistake
    from softset.classifiers.model import Importance, Model


@app.command("explain")
def run(
    model: opt.ModelFile,
    file: opt.DataFile,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="The true labels; by default the target of training.",
        ),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(help="Explain this row alone; 1 is the first after the column names."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Shuffles of each column.")] = 5,
    most: Annotated[int, typer.Option(help="How many columns and wrong rows to show.")] = 15,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Which columns drive a model, and which rows it gets most wrong.

    \b
    softset explain model.softset test.csv
    softset explain model.softset test.csv --row 17

    A column matters as much as the metric falls when its values are shuffled among the rows. Use
    rows that the model was not trained on.
    """
    need("pandas", *([] if as_json else ["rich"]))
    check_files(model, file)

    from softset.classifiers.explaining import permutation_importances, worst_mistakes
    from softset.classifiers.model import load_model

    fitted = load_model(model)
    if row is not None:
        options: ReadOptions = {"sep": sep, "encoding": encoding, "decimal": decimal}
        _explain_row(fitted, file, row, most, seed, as_json, **options)
        return
    wanted = target or fitted.target
    if not wanted:
        raise ValueError("the model does not name its target column: give it with --target COLUMN.")
    data = read_for(fitted, file, wanted, sep=sep, encoding=encoding, decimal=decimal)
    importances = permutation_importances(
        fitted, data.table, data.labels, repeats=repeats, random_state=seed, verbose=verbosity()
    )
    mistakes = worst_mistakes(fitted, data.table, data.labels, most=most)
    importances = importances[:most]
    if as_json:
        print_json(
            {
                "file": file.name,
                "metric": fitted.metric,
                "positive": fitted.positive or None,
                "rows": len(data.table),
                "importances": [asdict(i) for i in importances],
                "mistakes": [{**asdict(m), "row": m.row + 1} for m in mistakes],
            }
        )
        return
    title = f"{file.name}: {len(data.table)} rows"
    if fitted.positive:
        title += f", {fitted.positive} in training"
    _print(importances, mistakes, fitted.metric, title)


def _explain_row(
    model: Model,
    file: Path,
    row: int,
    most: int,
    seed: int,
    as_json: bool,
    **options: Unpack[ReadOptions],
) -> None:
    """What each column adds to the score of one row."""
    from rich.table import Table

    from softset.classifiers.explaining import explain_row
    from softset.tables.files import read_table

    options |= options_of_model(model)
    table = read_table(file, **options)
    if not 1 <= row <= len(table):
        raise ValueError(
            f"--row must be from 1 to {len(table)}, the rows of {file.name}, got {row}."
        )
    explanation = explain_row(model, table, row - 1, random_state=seed)
    explanation = replace(explanation, contributions=explanation.contributions[:most])
    if as_json:
        facts = {"file": file.name, "metric": model.metric, "positive": model.positive or None}
        print_json({**facts, **asdict(explanation), "row": row})
        return
    out = console()
    heading = f"row {row}: {explanation.predicted}, probability {explanation.probability:.3f}"
    out.print(f"{file.name}, {heading}", style="bold", markup=False)
    shown = Table(box=None, pad_edge=False)
    scored = explanation.predicted
    if model.task.single:
        scored = model.classes_[model.classifier._labels.positive]
    for name in ("column", "value", f"adds to the score of {scored}"):
        shown.add_column(name, justify="left" if name == "column" else "right")
    for c in explanation.contributions:
        shown.add_row(_plain(c.column), _plain(c.value), f"{c.adds:+.3f}")
    out.print(shown)
    start = "intercept" if explanation.exact else "mean score of other rows"
    out.print(
        f"{start} {explanation.base:+.3f}, score of this row {explanation.score:+.3f}", markup=False
    )


def _print(
    importances: Sequence[Importance], mistakes: Sequence[Mistake], metric: str, title: str
) -> None:
    from rich.table import Table

    out = console()
    out.print(title, style="bold", markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("column")
    table.add_column(f"{metric} falls by, shuffled", justify="right")
    table.add_column("±", justify="right")
    for i in importances:
        table.add_row(_plain(i.column), f"{i.falls:.4f}", f"{i.spread:.4f}")
    out.print(table)
    if not mistakes:
        out.print("\nno row is wrong")
        return
    out.print("\nmost wrong (row 1 is the first after the column names)", style="bold")
    table = Table(box=None, pad_edge=False)
    for name in ("row", "truth", "predicted", "wrong by, in logits"):
        table.add_column(name, justify="left" if name in ("truth", "predicted") else "right")
    for m in mistakes:
        table.add_row(str(m.row + 1), _plain(m.truth), _plain(m.predicted), f"{m.margin:.2f}")
    out.print(table)


def _plain(value: object) -> Text:
    """A name as it is, without the markup that it may look like."""
    from rich.text import Text

    return Text(str(value))
