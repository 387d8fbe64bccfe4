"""What commands read; whether files exist is checked before anything heavy is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from softset.classifiers.model import Model
    from softset.typing import Array, Frame, Series

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


def split_values(values: Sequence[str] | None) -> list[str]:
    """The values of an option that is repeated, or separated by commas outside of parentheses.

    >>> split_values(["f1,mcc", "auroc", "cost(fn=50, fp=1)"])
    ['f1', 'mcc', 'auroc', 'cost(fn=50, fp=1)']
    """
    split = (p.strip() for item in values or [] for p in re.split(r",(?![^(]*\))", item) if p)
    return list(dict.fromkeys(split))


class ReadOptions(TypedDict, total=False):
    """The options of ``read_table`` that a command passes on."""

    sep: str | None
    encoding: str | None
    decimal: str
    text: Sequence[str]
    thousands: Sequence[str]


@dataclass
class Labeled:
    """A table, the values to predict, and the names of the target columns."""

    table: Frame
    y: Array | Frame
    target: list[str]
    groups: Series | None = None
    weight: Array | None = None

    @property
    def labels(self) -> Array:
        """``y`` as an array, ``(n, labels)`` for multilabel targets."""
        import numpy as np

        return np.asarray(self.y)


def read_labeled(
    path: Path,
    target: Sequence[str],
    *,
    groups: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
    **options: Unpack[ReadOptions],
) -> Labeled:
    """The table in a file without its target, and the target; ``options`` go to ``read_table``."""
    from softset.tables.files import read_table
    from softset.tables.labels import label_matrix
    from softset.tables.reading import expanded

    frame = read_table(path, labels=target, drop=drop or (), **options)
    names = expanded(target, frame.columns)
    apart = [name for name in (groups, weight) if name is not None]
    check_columns(path, frame, [*names, *apart])
    if weight is not None:
        _refuse_missing(path, weight, frame[weight])
        frame = frame[frame[weight] != 0]
        if not len(frame):
            raise ValueError(f"{path.name}: all weights in column {weight!r} are zero.")
    for name in [*names, *apart]:
        _refuse_missing(path, name, frame[name])
    table = frame.drop(columns=[*names, *apart])
    if not len(table.columns):
        raise ValueError(f"{path.name} has no column but {', '.join([*names, *apart])}.")
    if len(names) == 1:
        y = frame[names[0]].to_numpy()
    else:
        import pandas as pd

        y = pd.DataFrame(label_matrix(frame[names].to_numpy(dtype=object)), columns=names)
    return Labeled(
        table,
        y,
        names,
        groups=None if groups is None else frame[groups].reset_index(drop=True),
        weight=None if weight is None else frame[weight].to_numpy(),
    )


def read_for(
    model: Model, path: Path, target: Sequence[str], **options: Unpack[ReadOptions]
) -> Labeled:
    """``read_labeled`` of rows with the labels of a model: columns are read as the model takes
    them, and multilabel targets are in its order, whatever order they are named in."""
    options |= options_of_model(model)
    options["text"] = [name for name in options["text"] if name not in target]
    data = read_labeled(path, target, **options)
    names = model.target if len(model.target) > 1 else data.target  # a model need not name them
    several = len(data.target) > 1
    if several != model.task.independent or (several and sorted(names) != sorted(data.target)):
        expected = ", ".join(model.target) or "one column"
        raise ValueError(f"the model predicts {expected}; --target names {', '.join(data.target)}.")
    return replace(data, y=data.y[names], target=names) if several else data


def options_of_model(model: Model) -> ReadOptions:
    """How a file for a model is read: which columns stay text, and which separate thousands."""
    from softset.tables.encoder import KINDS

    text = {kind.kind for kind in KINDS if kind.is_text}
    columns = model.encoder.columns_ if model.encoder is not None else []
    return {
        "text": [c.name for c in columns if c.kind in text],
        "thousands": [c.name for c in columns if c.thousands],
    }


def check_columns(path: Path, frame: Frame, names: Iterable[str]) -> None:
    """Refuse ``names`` that are no columns of the table."""
    from softset.tables import reading

    reading.check_columns(path.name, [str(c) for c in frame.columns], names)


def _refuse_missing(path: Path, name: str, series: Series) -> None:
    rows = [i + 1 for i in series.index[series.isna()]]
    if rows:
        shown = ", ".join(map(str, rows[:10])) + (", …" if len(rows) > 10 else "")
        raise ValueError(
            f"{path.name}: column {name!r} is missing in {len(rows)} row(s): {shown} (row 1 is "
            "the first after the column names). Fill or remove them; a class with an empty name "
            'is written "".'
        )
