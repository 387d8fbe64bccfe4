"""Arguments and options that commands share, each defined once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer


def seconds(text: str) -> float:
    """A duration in seconds: ``90``, ``90s``, ``10m`` or ``2h``.

    >>> seconds("90"), seconds("1.5m")
    (90.0, 90.0)
    """
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:].lower())
    try:
        value = float(text if unit is None else text[:-1]) * (unit or 1)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise typer.BadParameter(
            f"expected a positive duration such as 90s, 10m or 2h, got {text!r}."
        )
    return value


_TABLE = (
    "A table: .csv, .tsv (also .gz), .parquet, .arrow, .feather, .xlsx; - is standard input, as "
    "CSV."
)
DataFile = Annotated[Path, typer.Argument(help=_TABLE)]
_OR_FILES = " Or a directory of Parquet files, which need not fit into memory."
DataFiles = Annotated[Path, typer.Argument(help=_TABLE + _OR_FILES)]
ModelFile = Annotated[Path, typer.Argument(help="A model of `softset train` or `compare`.")]
Target = Annotated[
    list[str],
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="The column to predict. Several (repeat it, or a,b) are labels of 0 and 1 each.",
    ),
]
MaybeTarget = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="The column with the true labels. Several (repeat it, or a,b) are labels of 0 and 1 "
        "each. With --time it may have gaps, or be left out.",
    ),
]
MetricName = Annotated[
    str,
    typer.Option(
        "--metric",
        "-m",
        help="Metric to optimize: f1, f2, mcc, auroc, 'precision@recall>=0.9', "
        "'cost(fn=50, fp=1)', …",
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        help="Keep the constraint of --metric on new rows with this probability: 0.95.",
    ),
]
PosLabel = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS", help="The positive class of two; by default 1, yes, or the rarer one."
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Columns to leave out.")
]
Sep = Annotated[str | None, typer.Option(help="What separates fields: ',', ';', tab.")]
Encoding = Annotated[str | None, typer.Option(help="Of a text file: utf-8, latin-1, utf-16, …")]
Decimal = Annotated[str, typer.Option(help="The decimal mark of a text file, '.' or ','.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        parser=seconds,
        help="Time for all of it: 90s, 10m, 2h; a bare number is seconds. No limit by default.",
    ),
]
Jobs = Annotated[int | None, typer.Option(help="Runs at once; all cores if left out.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
ScoreColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="COLUMN",
        help="Column(s) with probabilities: of the positive class, or one for each class or label, "
        "in order. Left out: the columns p_<class> that `softset predict` writes.",
    ),
]
Logits = Annotated[bool, typer.Option("--logits", help="Scores are logits, not probabilities.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")
]
