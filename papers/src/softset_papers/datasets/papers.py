"""The papers' tabular sets: read from local files, as raw numbers; what each of them is.

A set is read from a directory (``data_dir``) that holds one parquet file for each, see ``INFO``.
``softset_papers.datasets.download`` writes those files for people with internet.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softset.checks import check_choice
from softset.tables.synthetic import load_synthetic

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]
# All legitimate and fraudulent transactions of the full credit card file.
LEGITIMATE, FRAUDS = 284_315, 492


@dataclass(frozen=True)
class PaperSet:
    """One set as numbers: ``x [n, f]``, ``y`` in {0, 1}, and what a fair split needs to know.

    ``weight`` restores a prior that the file does not have; ``official_test`` marks rows of an
    official test file.
    """

    name: str
    x: Floats
    y: NDArray[np.int64]
    features: tuple[str, ...]
    weight: Floats | None = None
    official_test: NDArray[np.bool_] | None = None
    note: str = ""


@dataclass(frozen=True)
class Info:
    """What is known about a set before it is read."""

    title: str
    rows: int
    features: int
    positives: int
    licence: str
    origin: str
    files: tuple[str, ...] = ()
    openml: int | None = None
    read: Callable[[Path], PaperSet] | None = field(default=None, repr=False)


def load_paper_set(name: str, data_dir: str | os.PathLike[str] | None = None) -> PaperSet:
    """A set of the papers by name (``PAPER_SETS``), its files read from ``data_dir``.

    ``data_dir`` may be left out when the environment variable ``SOFTSET_DATA`` names it; the
    synthetic sets need none.

    >>> data = load_paper_set("synthetic-5")
    >>> data.x.shape, int(data.y.sum())
    ((5250, 3), 250)
    """
    check_choice("name", name, PAPER_SETS)
    info = PAPER_SETS[name]
    if info.read is None:
        x, y = load_synthetic(info.positives)
        return PaperSet(name, x.astype(np.float64), y, ("x1", "x2", "x3"))
    return info.read(data_directory(data_dir, name))


def data_directory(data_dir: str | os.PathLike[str] | None, name: str) -> Path:
    """Where the files are: the argument, or the environment variable ``SOFTSET_DATA``."""
    given = data_dir if data_dir is not None else os.environ.get("SOFTSET_DATA")
    if given is None:
        raise ValueError(
            f"data_dir is needed for the set {name!r}: give the directory with its files "
            "(--data-dir), or set SOFTSET_DATA. 'softset datasets' says where to get them."
        )
    path = Path(given)
    if not path.is_dir():
        raise ValueError(f"data_dir must be a directory, got {str(given)!r}, which is none.")
    return path


def has_files(name: str, directory: Path) -> bool:
    """Whether ``directory`` holds what the set needs."""
    return all((directory / file).is_file() for file in PAPER_SETS[name].files)


def equitability(y: NDArray[Any]) -> float:
    """Shannon equitability: the entropy of the class shares over that of equal shares.

    >>> import numpy as np
    >>> round(equitability(np.array([0, 0, 0, 1])), 4)
    0.8113
    """
    shares = np.unique(y, return_counts=True)[1] / len(y)
    if len(shares) < 2:
        return 0.0
    return float(-(shares * np.log(shares)).sum() / math.log(len(shares)))


# --- reading ------------------------------------------------------------------------------------


def read_table(path: Path, columns: Sequence[str]) -> pandas.DataFrame:
    """These columns of a parquet file; anything wrong with it is a ``ValueError``."""
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        raise ValueError(
            f"reading {path.name} needs pandas and pyarrow. Install softset[cli]."
        ) from error
    if not path.is_file():
        raise ValueError(
            f"{path.name} is not in {str(path.parent)!r}. 'softset datasets' says where to get it."
        )
    try:
        table = pandas.read_parquet(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path.name} is not a readable parquet file: {reason}") from error
    missing = [c for c in columns if c not in table.columns]
    if missing:
        raise ValueError(
            f"{path.name} must have the column {missing[0]!r}, got {', '.join(table.columns)}."
        )
    if len(table) == 0:
        raise ValueError(f"{path.name} has 0 rows.")
    return table[list(columns)]


def _numbers(path: Path, table: pandas.DataFrame) -> Floats:
    try:
        x = table.to_numpy(dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name} must hold numbers in its features: {error}.") from error
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{path.name} must hold finite numbers, got {x[row, column]} in row {row}, "
            f"column {table.columns[column]!r}."
        )
    return x


def _labels(path: Path, column: pandas.Series, positive: Any, negative: Any) -> NDArray[np.int64]:
    """1 for ``positive``, 0 for ``negative``, an error for anything else."""
    values = column.astype(str).to_numpy()
    y = values == str(positive)
    other = values[~y & (values != str(negative))]
    if len(other):
        raise ValueError(
            f"{path.name} must hold {positive!r} and {negative!r} in {column.name!r}, "
            f"got {other[0]!r}."
        )
    return y.astype(np.int64)


ADULT_NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_CATEGORIES = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)


def _adult_table(directory: Path) -> tuple[Path, pandas.DataFrame]:
    path = directory / "adult.parquet"
    columns = [*ADULT_NUMBERS, *ADULT_CATEGORIES, "income", "split"]
    return path, read_table(path, columns)


def read_adult(directory: Path) -> PaperSet:
    """Categories one-hot (``?`` is a value of its own), ``fnlwgt`` left out: paper 000's text."""
    path, table = _adult_table(directory)
    columns, names = [_numbers(path, table[list(ADULT_NUMBERS)])], list(ADULT_NUMBERS)
    for name in ADULT_CATEGORIES:
        values = table[name].astype(str).to_numpy()
        kinds = np.unique(values)
        columns.append((values[:, None] == kinds[None, :]).astype(np.float64))
        names += [f"{name}={kind}" for kind in kinds]
    y = _labels(path, table["income"], ">50K", "<=50K")
    return PaperSet("adult", np.hstack(columns), y, tuple(names))


def read_adult_codes(directory: Path) -> PaperSet:
    """Categories as integer codes and the official test file: what paper 000's code does."""
    path, table = _adult_table(directory)
    names = [*ADULT_NUMBERS, *ADULT_CATEGORIES]
    codes = {c: np.unique(table[c].astype(str), return_inverse=True)[1] for c in ADULT_CATEGORIES}
    y = _labels(path, table["income"], ">50K", "<=50K")
    test = _labels(path, table["split"], "test", "train").astype(bool)
    x = _numbers(path, table[names].assign(**codes))
    return PaperSet("adult-codes", x, y, tuple(names), official_test=test)


def read_adult_as_read(directory: Path) -> PaperSet:
    """As ``read_adult_codes``, with ages as the authors' code of paper 000 comes to read them.

    The official test file begins with a line of text, which makes pandas read its ages as text. So
    one column holds numbers (training) and text (test), and coding its values gives every test age
    a number above those of all training ages: for a network the people of the test file are older
    than any it has seen.
    """
    data = read_adult_codes(directory)
    assert data.official_test is not None
    x = data.x.copy()
    seen = 0
    for rows in (~data.official_test, data.official_test):
        ages, codes = np.unique(x[rows, 0], return_inverse=True)
        x[rows, 0] = codes.ravel() + seen
        seen += len(ages)
    return replace(data, name="adult-as-read", x=x)


def read_mammography(directory: Path) -> PaperSet:
    """Six features as they are."""
    path = directory / "mammography.parquet"
    names = [f"attr{i}" for i in range(1, 7)]
    table = read_table(path, [*names, "class"])
    y = _labels(path, table["class"], 1, -1)
    return PaperSet("mammography", _numbers(path, table[names]), y, tuple(names))


_CARD_COLUMNS = (*(f"V{i}" for i in range(1, 29)), "Amount", "Class")


def _read_card(path: Path, name: str) -> PaperSet:
    """``Time`` left out, the logarithm of ``Amount`` (0 occurs, so 0.001 is added)."""
    table = read_table(path, _CARD_COLUMNS)
    y = _labels(path, table["Class"], 1, 0)
    x = _numbers(path, table.drop(columns="Class"))
    if (x[:, -1] < 0).any():
        raise ValueError(f"{path.name} must not hold negative amounts, got {x[:, -1].min()}.")
    x[:, -1] = np.log(x[:, -1] + 0.001)
    return PaperSet(name, x, y, (*_CARD_COLUMNS[:-2], "log Amount"))


def read_creditcard(directory: Path) -> PaperSet:
    """The full file, when one has it."""
    return _read_card(directory / "creditcard.parquet", "creditcard")


def read_creditcard_subset(directory: Path) -> PaperSet:
    """All frauds and a sample of the rest, which is weighted to restore the original prior."""
    data = _read_card(directory / "creditcard_subset.parquet", "creditcard-subset")
    weight = np.where(data.y == 1, FRAUDS / data.y.sum(), LEGITIMATE / (data.y == 0).sum())
    note = f"each legitimate row weighs {weight.max():.2f}"
    return PaperSet(data.name, data.x, data.y, data.features, weight=weight, note=note)


def read_cocktailparty(directory: Path) -> PaperSet:
    """Pairs of people; see ``softset_papers.datasets.pairs``."""
    from softset_papers.datasets import pairs

    path = directory / "cocktailparty.parquet"
    people = read_table(path, pairs.COLUMNS)
    if people[["x", "y", "theta"]].isna().to_numpy().any():
        tracks = read_table(directory / "cocktailparty_tracks.parquet", pairs.TRACK_COLUMNS)
        people = pairs.fill_untracked(people, tracks)
    x, y = pairs.pair_features(people)
    return PaperSet("cocktailparty", x, y, pairs.FEATURES)


_UCI = "CC BY 4.0 (UCI)"
_NO_OPENML = (
    "Zen et al. 2010, tev.fbk.eu (CocktailParty); annotations also in the repository "
    "rospoly/F-Formation on GitHub"
)
PAPER_SETS: dict[str, Info] = {
    "synthetic-33": Info(
        "Synthetic 33 %", 7500, 3, 2500, "BSD-3-Clause", "made here, as paper 000 supplement 4.1.1"
    ),
    "synthetic-5": Info(
        "Synthetic 5 %", 5250, 3, 250, "BSD-3-Clause", "made here, as paper 000 supplement 4.1.1"
    ),
    "cocktailparty": Info(
        "CocktailParty pairs",
        4800,
        22,
        1454,
        "none stated",
        _NO_OPENML,
        ("cocktailparty.parquet", "cocktailparty_tracks.parquet"),
        read=read_cocktailparty,
    ),
    "adult": Info(
        "Adult, one-hot", 48842, 107, 11687, _UCI, "OpenML 1590", ("adult.parquet",), 1590,
        read_adult,
    ),
    "adult-codes": Info(
        "Adult, integer codes, official test file", 48842, 13, 11687, _UCI, "OpenML 1590",
        ("adult.parquet",), 1590, read_adult_codes,
    ),
    "adult-as-read": Info(
        "Adult as the authors' code reads it: test ages coded apart", 48842, 13, 11687, _UCI,
        "OpenML 1590", ("adult.parquet",), 1590, read_adult_as_read,
    ),
    "mammography": Info(
        "Mammography", 11183, 6, 260, "none stated", "OpenML 310", ("mammography.parquet",), 310,
        read_mammography,
    ),
    "creditcard": Info(
        "Credit card fraud", LEGITIMATE + FRAUDS, 29, FRAUDS, "DbCL 1.0", "OpenML 42175",
        ("creditcard.parquet",), 42175, read_creditcard,
    ),
    "creditcard-subset": Info(
        "Credit card subset",
        15646,
        29,
        FRAUDS,
        "DbCL 1.0",
        "all frauds and 5.3 % of the rest, pooled from public samples",
        ("creditcard_subset.parquet",),
        read=read_creditcard_subset,
    ),
}  # fmt: skip
"""Every set by name."""
