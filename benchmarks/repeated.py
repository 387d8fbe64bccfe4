"""Tables whose rows repeat (a few categories): is the model as good as where no two rows are equal?

    python benchmarks/repeated.py run      # resumable: finished fits are kept in --results
    python benchmarks/repeated.py show     # the tables, from the results
    python benchmarks/repeated.py limit    # equal rows together or not, where the rule changes

Options of ``run``: --parts adult,simulated,yardstick,compare, --models A,B, --draws N (the first),
--only TEXT (of a table's name).

Every classifier is fitted on the dummies of a table for F1, and again with a column of noise of
size 1e-9 beside them, which makes all rows different and nothing else. ``compare(quick=True)`` is
run with ``duplicates="together"`` and ``"ignore"`` instead. The reference is logistic regression
with scikit-learn's ``TunedThresholdClassifierCV``.

- adult: the pairs and triples of its 8 categorical columns (84 tables), TRAIN rows, TEST others.
- simulated: 4 to 512 different rows, main effects and interactions, drawn as SIMULATED says.
- yardstick: the tuning half of ``efficacy.py``, a quarter tested, at most 2,000 rows a set but all
  of mammography (one of its rows is there 3,329 times); macro F1 for several classes.
- compare: 12 of the tables above, drawn by a fixed seed, one draw.

Draw 0 of all tables comes before draw 1, linear models before boosting before networks: a run that
is stopped early has whole tables.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import efficacy
import softset as ss
from common import DATA, append, read
from softset.tables import splits

RESULTS = Path(__file__).parent / "results" / "repeated.jsonl"
TRAIN, TEST, DRAWS = 2_000, 20_000, 5
# Values of each column: 4 to 512 different rows.
SIMULATED = ((2, 2), (3, 3), (2, 2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 5), (6, 6, 7), (8, 8, 8))
COLUMNS = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"]
COLUMNS += ["native-country"]
COMPARED = 12
LIMIT = ("linear", "boosting")
GOAL, WORST = 0.01, 0.03  # below the reference: in the mean, and in any table


class Split(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    def with_noise(self) -> Split:
        random = np.random.RandomState(1)
        beside = [1e-9 * random.randn(len(x), 1) for x in (self.x, self.x_test)]
        return self._replace(
            x=np.hstack([self.x, beside[0]]), x_test=np.hstack([self.x_test, beside[1]])
        )


class Cell(NamedTuple):
    part: str
    table: str
    draw: int
    model: str
    noise: bool


# --- tables ---------------------------------------------------------------------------------------


@cache
def _adult(directory: Path) -> tuple[pd.DataFrame, np.ndarray]:
    frame = pd.read_parquet(directory / "adult.parquet")
    return frame, (frame["income"] == ">50K").to_numpy().astype(int)


def adult(directory: Path, name: str, draw: int) -> Split:
    frame, y = _adult(directory)
    rows = np.random.RandomState(draw).permutation(len(y))[: TRAIN + TEST]
    x = pd.get_dummies(frame.iloc[rows][name.split(", ")]).to_numpy(float)
    return Split(x[:TRAIN], y[rows[:TRAIN]], x[TRAIN:], y[rows[TRAIN:]])


def simulated(directory: Path, name: str, draw: int) -> Split:
    """Draws are of problems too: effects of values, interactions of pairs, shares of values."""
    values = [int(v) for v in name.split(" x ")]
    random = np.random.RandomState([draw, *values])
    cells = np.stack(
        [random.choice(v, TRAIN + TEST, p=random.dirichlet(np.full(v, 3.0))) for v in values], 1
    )
    logit = random.uniform(-2.5, 0.0) + sum(
        random.randn(v)[c] for v, c in zip(values, cells.T, strict=True)
    )
    for i, j in combinations(range(len(values)), 2):
        logit += random.randn(values[i], values[j])[cells[:, i], cells[:, j]]
    y = (random.rand(len(logit)) < 1 / (1 + np.exp(-logit))).astype(int)
    x = np.hstack([np.eye(v)[c] for v, c in zip(values, cells.T, strict=True)])
    return Split(x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:])


def yardstick(directory: Path, name: str, draw: int) -> Split:
    table = efficacy.load(directory, name, 10**6 if name == "mammography" else 2_000)
    split = efficacy.splits(table, draw + 1)[draw]
    return Split(split.train.x, split.train.y, split.test.x, split.test.y)


MAKE: dict[str, Callable[[Path, str, int], Split]] = {
    "adult": adult,
    "simulated": simulated,
    "yardstick": yardstick,
}


def tables(directory: Path) -> dict[str, list[str]]:
    return {
        "adult": [", ".join(c) for k in (2, 3) for c in combinations(COLUMNS, k)],
        "simulated": [" x ".join(map(str, values)) for values in SIMULATED],
        "yardstick": efficacy.halves(directory)["tune"],
    }


# --- models ---------------------------------------------------------------------------------------


def _reference(metric: str) -> object:
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return TunedThresholdClassifierCV(linear, scoring="f1") if metric == "f1" else linear


MODELS: dict[str, Callable[[str], object]] = {
    "linear": ss.MetricLinearClassifier,
    "reference": _reference,
    "boosting": lambda metric: ss.MetricBoostingClassifier(metric, random_state=0),
    "network": lambda metric: ss.MetricMLPClassifier(metric, random_state=0),
}


def fit(cell: Cell, split: Split) -> dict:
    """The F1 of test rows, and for ``compare`` also what it said to expect."""
    several = split.y.max() > 1
    metric = "f1_macro" if several else "f1"
    said, warned = {}, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if cell.model == "compare":
            duplicates = "ignore" if cell.noise else "together"
            found = ss.compare(
                split.x, split.y, metric, quick=True, n_jobs=1, duplicates=duplicates
            )
            model = found.model
            expected = next(c.mean for c in found.candidates if c.id == found.winner)
            said = {"winner": found.winner, "expected": round(expected, 5)}
        else:
            own = split.with_noise() if cell.noise else split
            split, model = own, MODELS[cell.model](metric).fit(own.x, own.y)
        warned = sorted({str(w.message)[:60] for w in caught if w.category is UserWarning})
    decided = model.predict(split.x_test)
    score = f1_score(split.y_test, decided, average="macro" if several else "binary")
    return {"f1": round(float(score), 5), **said, "warned": warned}


# --- run and show ---------------------------------------------------------------------------------


def cells(directory: Path) -> Iterator[Cell]:
    """All that is to be run, the most telling first."""
    known = tables(directory)
    everything = [(part, name) for part, names in known.items() for name in names]
    drawn = np.random.RandomState(0).permutation(len(everything))[:COMPARED]
    for draw in range(DRAWS):
        for model in MODELS:
            for part, name in everything:
                if part == "yardstick" and draw > 2:
                    continue
                for noise in (False, True) if model != "reference" else (False,):
                    yield Cell(part, name, draw, model, noise)
        if draw == 0:
            for i in drawn:
                for noise in (False, True):
                    yield Cell(*everything[i], 0, "compare", noise)


def run(args: argparse.Namespace) -> None:
    done = {tuple(r[name] for name in Cell._fields) for r in read(args.results)}
    for cell in cells(args.data_dir):
        part = "compare" if cell.model == "compare" else cell.part
        wanted = part in args.parts and cell.draw < args.draws and args.only in cell.table
        if tuple(cell) in done or not wanted or cell.model not in args.models:
            continue
        split = MAKE[cell.part](args.data_dir, cell.table, cell.draw)
        started = time.process_time()
        record = {**cell._asdict(), **fit(cell, split)}
        record |= {
            "distinct": len(np.unique(split.x, axis=0)),
            "rows": len(split.y),
            "seconds": round(time.process_time() - started, 2),
        }
        append(args.results, record)
        print(*cell, record["f1"], record["seconds"], flush=True)


def show(args: argparse.Namespace) -> None:
    found = pd.DataFrame(read(args.results))
    everything = list(cells(args.data_dir))
    print(f"{len(found)} of {len(everything)} fits, {found.seconds.sum() / 3600:.2f} core-hours\n")
    keys = ["part", "table", "draw"]
    reference = found[found.model == "reference"].set_index(keys).f1
    columns = ["tables", "fits", "F1", "noise", "mean - noise", "worst", "reference"]
    columns += ["mean - reference", "worst"]
    print("| tables | model | " + " | ".join(columns[0:]) + " |")
    print("|---" * (len(columns) + 2) + "|")
    missed = []
    for model in ("linear", "boosting", "network", "compare"):
        for part in MAKE:
            own = found[(found.model == model) & (found.part == part)]
            plain, noisy = (own[own.noise == n].set_index(keys).f1 for n in (False, True))
            both = pd.DataFrame({"f1": plain, "noise": noisy, "reference": reference}).dropna()
            if both.empty:
                continue
            gains = both.groupby("table").mean()
            line = [part, model, len(gains), len(both), f"{gains.f1.mean():.3f}"]
            for other in ("noise", "reference"):
                gain = gains.f1 - gains[other]
                line += [f"{gains[other].mean():.3f}", f"{gain.mean():+.3f}", f"{gain.min():+.3f}"]
                missed += [
                    f"- {model}, {part}, {name}: {own.f1:.3f}, {other} {own[other]:.3f}"
                    for name, own in gains[gain < -WORST].iterrows()
                ]
                if gain.mean() < -GOAL:
                    missed.append(f"- {model}, {part}: {gain.mean():+.3f} in the mean of {other}")
            print("| " + " | ".join(map(str, line)) + " |")
    print(f"\nBelow by more than {WORST} in a table, or {GOAL} in the mean:", *missed, sep="\n")
    compared = found[found.model == "compare"]
    if len(compared):
        for noise, own in compared.groupby("noise"):
            off = own.expected - own.f1
            print(
                f"\ncompare, {'ignore' if noise else 'together'}: F1 {own.f1.mean():.3f}, "
                f"expected - F1 {off.mean():+.3f} ({off.min():+.3f} to {off.max():+.3f})"
            )
    done = {tuple(r) for r in found[list(Cell._fields)].itertuples(index=False)}
    left = pd.DataFrame([c for c in everything if tuple(c) not in done])
    if len(left):
        print("\nNot run:", left.groupby(["part", "model"]).size().to_string(), sep="\n")


def limit(args: argparse.Namespace) -> None:
    """Adult by its first 7 and all 8 columns: just above half of the rows are different."""
    ways = {
        "together": lambda codes, share: np.unique(codes, return_inverse=True)[1].ravel(),
        "apart": lambda codes, share: None,
    }
    print("columns draw different " + " ".join(f"{m}-{w}" for m in LIMIT for w in ways))
    found = []
    for columns, draw in product((7, 8), range(3)):
        split = adult(args.data_dir, ", ".join(COLUMNS[:columns]), draw)
        values = []
        for model, (way, rule) in product(LIMIT, ways.items()):
            cell = Cell("adult", way, draw, model, False)
            with mock.patch.object(splits, "kept_together", rule):
                values.append(fit(cell, split)["f1"])
        found.append(values)
        different = len(np.unique(split.x, axis=0)) / TRAIN
        print(columns, draw, f"{different:.2f}", *(f"{v:.3f}" for v in values), flush=True)
    print("mean", *(f"{v:.3f}" for v in np.mean(found, 0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "show", "limit"])
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--parts", default="adult,simulated,yardstick,compare")
    parser.add_argument("--models", default="linear,reference,boosting,network,compare")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.parts, args.models = args.parts.split(","), args.models.split(",")
    {"run": run, "show": show, "limit": limit}[args.command](args)


if __name__ == "__main__":
    main()
