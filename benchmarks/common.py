"""What benchmarks on the data sets share: sets, splits, results files, tests over sets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student
from scipy.stats import wilcoxon
from sklearn.model_selection import StratifiedShuffleSplit

import softset as ss

DATA = Path(os.environ.get("SOFTSET_DATA") or Path(__file__).parents[2] / "shared" / "data")
TEST = 0.3
_FILES = {"creditcard": "creditcard_subset", "protein": "protein_homo_kdd04"}


# --- data -----------------------------------------------------------------------------------------


def zenodo(directory: Path) -> list[str]:
    """The names of the 22 imbalanced sets."""
    return sorted(p.stem for p in (directory / "imblearn_zenodo").glob("*.parquet"))


def load(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, 0 and 1, weights."""
    if name == "cocktailparty":
        from softset_papers.datasets.papers import load_paper_set  # noqa: PLC0415

        found = load_paper_set("cocktailparty", directory)
        return found.x, found.y, np.ones(len(found.y))
    path = directory / "imblearn_zenodo" / f"{name}.parquet"
    path = path if path.exists() else directory / f"{_FILES.get(name, name)}.parquet"
    frame = pd.read_parquet(path).drop(
        columns=["split", "source", "EXAMPLE_ID", "BLOCK_ID", "fnlwgt"], errors="ignore"
    )
    target = next(c for c in ("label", "income", "Class", "target") if c in frame)
    y = frame.pop(target).isin([1, ">50K"]).to_numpy().astype(int)
    frame = pd.get_dummies(frame)
    w = np.where(y == 0, 284315 / 15154, 1.0) if name == "creditcard" else np.ones(len(y))
    x = frame.to_numpy(dtype=np.float64)
    if name == "protein":  # a third of the negatives, for time
        keep = (y == 1) | (np.random.RandomState(0).rand(len(y)) < 1 / 3)
        x, y, w = x[keep], y[keep], w[keep]
    return x, y, w


def splits(y: np.ndarray, count: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows, 70 and 30 %; more of them begin with the same ones."""
    dealt = StratifiedShuffleSplit(count, test_size=TEST, random_state=seed)
    return list(dealt.split(np.zeros(len(y)), y))


def value(decided, y, w, metric, task: str = "binary") -> float:
    """The metric of decisions: 0 and 1, or one-hot rows of several classes."""
    scores = np.asarray(decided, float)
    return float(ss.evaluate(scores, y, metric, task=task, from_logits=False, sample_weight=w))


# --- results --------------------------------------------------------------------------------------


def read(path: Path) -> list[dict]:
    """The records of a results file; none where there is no file.

    A last line that was cut off when a run was stopped is left out.
    """
    if not Path(path).exists():
        return []
    lines = Path(path).read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def append(path: Path, record: dict) -> None:
    """One more line, behind what is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        if file.tell() and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(record).encode() + b"\n")


# --- over sets ------------------------------------------------------------------------------------


class OverSets(NamedTuple):
    """Gains of several sets: their mean with a 95 % interval, how many are above and below zero,
    and the p-values of Wilcoxon's test, two-sided and that the gain is above zero."""

    mean: float
    low: float
    high: float
    better: int
    worse: int
    equal: int
    p: float
    p_above: float


def over_sets(gains: Iterable[float]) -> OverSets:
    """One gain for each set."""
    found: Sequence[float] = np.array(list(gains), dtype=float)
    n = len(found)
    mean = float(np.mean(found))
    reach = float("nan")
    if n > 1:
        reach = float(student.ppf(0.975, n - 1) * np.std(found, ddof=1) / np.sqrt(n))
    moved = [g for g in found if abs(g) > 1e-12]
    better, worse = sum(g > 0 for g in moved), sum(g < 0 for g in moved)
    tests = (
        float(wilcoxon(moved, alternative=side).pvalue) if moved else 1.0
        for side in ("two-sided", "greater")
    )
    return OverSets(mean, mean - reach, mean + reach, better, worse, n - len(moved), *tests)
