"""What commands read: first whether it is there at all, with nothing heavy imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The extra that brings a package.
_EXTRAS = {"pandas": "cli", "rich": "cli", "jinja2": "report"}
_EXTRAS |= {"lightgbm": "boosting", "xgboost": "boosting"}


def need(*packages: str) -> None:
    """Refuse to begin without packages that the work will need at its end.

    >>> need("json")
    """
    missing = [p for p in packages if find_spec(p) is None]
    if missing:
        extras = ",".join(dict.fromkeys(_EXTRAS[p] for p in missing))
        one = "is" if len(missing) == 1 else "are"
        raise ImportError(
            f"{' and '.join(missing)} {one} not installed: pip install 'softset[{extras}]'"
        )


def check_files(*paths: Path, directory: Path | None = None) -> None:
    """Refuse names of files that are not there, before anything heavy is imported; one of them may
    be a directory."""
    for path in paths:
        if path.is_dir() and path != directory:
            raise ValueError(f"{path} is a directory; a file is expected.")
        if str(path) != "-" and not path.exists():
            raise FileNotFoundError(f"there is no file {str(path)!r}.")


def stem(path: Path) -> str:
    """The name of a file without its endings.

    >>> stem(Path("data/adult.csv.gz")), stem(Path("-"))
    ('adult', 'stdin')
    """
    return "stdin" if str(path) == "-" else path.name.split(".")[0]


def parts(given: Sequence[str] | None) -> list[str]:
    """What was given several times, or separated by commas (outside of parentheses).

    >>> parts(["f1,mcc", "auroc", "cost(fn=50, fp=1)"])
    ['f1', 'mcc', 'auroc', 'cost(fn=50, fp=1)']
    """
    split = (p.strip() for item in given or [] for p in re.split(r",(?![^(]*\))", item) if p)
    return list(dict.fromkeys(split))


@dataclass
class Labeled:
    """A table, what is to be predicted, and the names of the target columns."""

    table: Any
    y: Any
    target: list[str]
    groups: Any = None
    weight: Any = None

    @property
    def labels(self) -> Any:
        """``y`` as an array, of several targets ``(n, labels)``."""
        return self.y.to_numpy() if len(self.target) > 1 else self.y


def read_labeled(
    path: Path,
    target: Sequence[str],
    *,
    groups: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
    **reading: Any,
) -> Labeled:
    """The table in a file without its target, and the target; ``reading`` as for ``read_table``."""
    from softset.tables.files import read_table
    from softset.tables.labels import label_matrix
    from softset.tables.reading import expanded

    frame = read_table(path, labels=target, drop=drop or (), **reading)
    wanted = expanded(target, frame.columns)
    apart = [name for name in (groups, weight) if name is not None]
    check_columns(path, frame, [*wanted, *apart])
    if weight is not None:
        _refuse_missing(path, weight, frame[weight])
        frame = frame[frame[weight] != 0]  # no rows at all
        if not len(frame):
            raise ValueError(f"{path.name}: all weights in column {weight!r} are zero.")
    for name in [*wanted, *apart]:
        _refuse_missing(path, name, frame[name])
    frame = frame.reset_index(drop=True)
    table = frame.drop(columns=[*wanted, *apart])
    if not len(table.columns):
        raise ValueError(f"{path.name} has no column but {', '.join([*wanted, *apart])}.")
    if len(wanted) == 1:
        y = frame[wanted[0]].to_numpy()
    else:
        import pandas as pd

        y = pd.DataFrame(label_matrix(frame[wanted].to_numpy(dtype=object)), columns=wanted)
    return Labeled(
        table,
        y,
        wanted,
        groups=None if groups is None else frame[groups],
        weight=None if weight is None else frame[weight].to_numpy(),
    )


def read_for(model: Any, path: Path, target: Sequence[str], **reading: Any) -> Labeled:
    """``read_labeled`` of rows with the labels of a model: columns that it takes as text stay
    text, and several targets are in its order, whatever order they are named in."""
    text = [c for c in category_columns(model) if c not in target]
    data = read_labeled(path, target, text=text, **reading)
    known = model.target if len(model.target) > 1 else data.target  # a model need not name them
    several = len(data.target) > 1
    if several != model.task.independent or (several and sorted(known) != sorted(data.target)):
        wanted = ", ".join(model.target) or "one column"
        raise ValueError(f"the model predicts {wanted}; --target names {', '.join(data.target)}.")
    return replace(data, y=data.y[known], target=known) if several else data


def category_columns(model: Any) -> list[str]:
    """The columns that a model takes as text."""
    from softset.tables.encoder import KINDS

    text = {kind.kind for kind in KINDS if kind.is_text}
    known = model.encoder.columns_ if model.encoder is not None else []
    return [c.name for c in known if c.kind in text]


def check_columns(path: Path, frame: Any, wanted: Iterable[str]) -> None:
    """Refuse names of columns that are not there."""
    from softset.tables import reading

    reading.check_columns(path.name, [str(c) for c in frame.columns], wanted)


def _refuse_missing(path: Path, name: str, series: Any) -> None:
    rows = [i + 1 for i in series.index[series.isna()]]
    if rows:
        shown = ", ".join(map(str, rows[:10])) + (", …" if len(rows) > 10 else "")
        raise ValueError(
            f"{path.name}: column {name!r} is missing in {len(rows)} row(s): {shown} (row 1 is "
            "the first after the column names). Fill or remove them; a class with an empty name "
            'is written "".'
        )
