"""What commands share: options, reading a labelled file, progress, tables and JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from softset.training.progress import Line

# --- options --------------------------------------------------------------------------------------

DataFile = Annotated[
    Path,
    typer.Argument(help="A table: .csv, .tsv, .csv.gz, .parquet, .arrow or .feather."),
]
Target = Annotated[
    list[str],
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="The column to predict. Several (repeat it, or a,b) are labels of 0 and 1 each.",
    ),
]
MetricName = Annotated[
    str,
    typer.Option("--metric", "-m", help="What to be good at: f1, f2, mcc, auroc, …"),
]
PosLabel = Annotated[
    str | None,
    typer.Option(metavar="CLASS", help="The positive class of two; the last in order if left out."),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Columns to leave out.")
]
Sep = Annotated[str | None, typer.Option(help="What separates fields: ',', ';', tab.")]
Encoding = Annotated[str | None, typer.Option(help="Of a text file: utf-8, latin-1, utf-16, …")]
Decimal = Annotated[str, typer.Option(help="The decimal mark of a text file, '.' or ','.")]
Seed = Annotated[int, typer.Option(help="Of everything random.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")
]


# --- data -----------------------------------------------------------------------------------------


@dataclass
class Labelled:
    """A table, what is to be predicted, and the names of the target columns."""

    table: Any
    y: Any
    target: list[str]
    groups: Any = None
    weight: Any = None


def read_labelled(
    path: Path,
    target: Sequence[str],
    *,
    groups: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
    text: Sequence[str] = (),
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
) -> Labelled:
    """The table in a file without its target, and the target."""
    from softset.tables.files import expanded, read_table
    from softset.tables.labels import label_matrix

    frame = read_table(
        path,
        labels=target,
        drop=drop or (),
        text=text,
        sep=sep,
        encoding=encoding,
        decimal=decimal,
    )
    wanted = expanded(target, frame.columns)
    apart = [name for name in (groups, weight) if name is not None]
    check_columns(path, frame, [*wanted, *apart])
    y = frame[wanted]
    for name in [*wanted, *apart]:
        _refuse_missing(path, name, frame[name])
    found = Labelled(frame.drop(columns=[*wanted, *apart]), y, wanted)
    if not len(found.table.columns):
        raise ValueError(f"{path.name} has no column but {', '.join([*wanted, *apart])}.")
    if len(wanted) == 1:
        found.y = frame[wanted[0]].to_numpy()
    else:
        import pandas as pd

        found.y = pd.DataFrame(label_matrix(y.to_numpy(dtype=object)), columns=wanted)
    found.groups = None if groups is None else frame[groups]
    found.weight = None if weight is None else frame[weight].to_numpy()
    return found


def names(given: Sequence[str] | None) -> list[str]:
    """Columns as given, and the parts of "a,b"."""
    return list(dict.fromkeys(p.strip() for n in given or [] for p in (n, *n.split(","))))


def check_columns(path: Path, frame: Any, wanted: Iterable[str]) -> None:
    """Refuse names of columns that are not there."""
    from softset.checks import listed, nearest

    columns = [str(c) for c in frame.columns]
    for name in wanted:
        if name not in columns:
            raise ValueError(
                f"{path.name} has no column {name!r}.{nearest(name, columns)} Its columns: "
                f"{listed(columns, 30)}."
            )


def _refuse_missing(path: Path, name: str, series: Any) -> None:
    rows = [i + 1 for i, gone in enumerate(series.isna()) if gone]
    if rows:
        shown = ", ".join(map(str, rows[:10])) + (", …" if len(rows) > 10 else "")
        raise ValueError(
            f"{path.name}: column {name!r} is missing in {len(rows)} row(s): {shown} (row 1 is "
            "the first after the column names). Fill or remove them; a class with an empty name "
            'is written "".'
        )


# --- output ---------------------------------------------------------------------------------------


def fresh_name(name: str) -> Path:
    """``name`` in this directory, with a number if it is taken."""
    path, stem, suffix = Path(name), Path(name).stem, Path(name).suffix
    count = 2
    while path.exists():
        path = Path(f"{stem}-{count}{suffix}")
        count += 1
    return path


def print_json(document: Any) -> None:
    """One JSON document; what is no number there is null."""
    print(json.dumps(_finite(document), indent=2, ensure_ascii=False, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """A line for the reader, on standard error."""
    print(text, file=sys.stderr)


def console() -> Any:
    """Where tables go: as wide as the terminal, 120 columns in a pipe."""
    from rich.console import Console

    plain = not sys.stdout.isatty()
    return Console(width=120 if plain else None, highlight=False, soft_wrap=False, markup=False)


class Progress(Line):
    """A live line with the time left, on a terminal only.

    ``intro`` is said when the first step is done: before, bad input may still be the only line.
    """

    def __init__(self, what: str, intro: str = "") -> None:
        super().__init__(what, plain=False)
        self.intro = intro

    def __call__(self, done: int, total: int, seconds_left: float) -> None:
        if self.intro:
            say(self.intro)
            self.intro = ""
        self.show(done, total, "" if math.isnan(seconds_left) else f"{duration(seconds_left)} left")


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(42.3), duration(125), duration(7300)
    ('42 s', '2 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
