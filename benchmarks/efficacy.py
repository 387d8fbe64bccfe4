"""How good a score do our classifiers give, against the usual ones cut as well as they can be?

    python benchmarks/efficacy.py tune      # the half that everything is chosen on
    python benchmarks/efficacy.py confirm   # the other half: once, when all is chosen
    python benchmarks/efficacy.py time      # the default network beside scikit-learn's

Options: --data-dir DIR, --out FILE, --splits 3, --rows N (at most), --models A,B, --sets A,B, and
--suffix TEXT, which is added to names (for a run with the sources of another version).

Every rival is fitted six times for a set and split: for out-of-fold scores (five folds, equal rows
together) and for scores of the test rows. They are kept in ``results/scores/`` and cut for each
metric: at 1/2, by our ``MetricThresholdClassifier`` and, where the two are compared, by
scikit-learn's ``TunedThresholdClassifierCV``, all on the same folds. Networks are fitted once and
cut for each metric; what is trained for the metric is fitted for F1 alone, the ensemble also for
MCC. One JSON line for each set, split, classifier, cut and metric goes to ``--out``; what is there
is skipped. All sets come once before any has a second split, and the classifiers of the claims
before other rivals: a run that is stopped early has whole tables. ``efficacy_tables.py`` prints
them; ``efficacy_rules.py`` and ``efficacy_networks.py`` choose by the tuning half how to cut, how
to blend, and which networks; ``automl.py`` adds FLAML and AutoGluon.

Sets: of the 22 by name, the first 11 tune and the last 11 confirm (siblings are neighbors); Adult,
CocktailParty, digits and iris tune; credit card, protein homology, wine and Fashion-MNIST confirm.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

import softset as ss
from softset.classifiers.network import PhasedClassifier
from softset.tables.rows import alike
from softset.tables.splits import repeated_folds
from softset.tasks import BINARY, MULTICLASS, Task

DATA = Path(os.environ.get("SOFTSET_DATA") or Path(__file__).parents[2] / "shared" / "data")
OUT = Path(__file__).parent / "results" / "efficacy.jsonl"
METRICS = ("f1", "mcc", "f2", "balanced_accuracy")
CLAIMED = ("f1", "mcc")  # what several classes have, and where scikit-learn's cut is compared
FOLDS, TEST_FOLDS = 5, 4  # a quarter of the rows is tested
SEED = 0


# --- data -----------------------------------------------------------------------------------------


def halves(directory: Path) -> dict[str, list[str]]:
    names = sorted(p.stem for p in (directory / "imblearn_zenodo").glob("*.parquet"))
    return {
        "tune": [*names[:11], "adult", "cocktailparty", "digits", "iris"],
        "confirm": [*names[11:], "creditcard", "protein", "wine", "fashion"],
    }


@dataclass(frozen=True)
class Table:
    """A data set: inputs, class numbers, weights."""

    name: str
    x: np.ndarray
    y: np.ndarray
    w: np.ndarray

    @property
    def task(self) -> Task:
        return BINARY if self.y.max() == 1 else MULTICLASS

    def take(self, rows: np.ndarray) -> Table:
        return Table(self.name, self.x[rows], self.y[rows], self.w[rows])


def load(directory: Path, name: str, most: int) -> Table:
    """The set, or ``most`` of its rows, drawn within classes; rare classes stay whole."""
    x, y = _read(directory, name)
    w = np.where(y == 0, 284315 / 15154, 1.0) if name == "creditcard" else np.ones(len(y))
    table = Table(name, x, y, w)
    if len(y) <= most:
        return table
    random = np.random.RandomState(SEED)
    counts = np.bincount(y)
    fair = most // len(counts)
    room = most - np.minimum(counts, fair).sum()
    extra = np.maximum(counts - fair, 0)
    wanted = np.minimum(counts, fair) + np.floor(room * extra / max(1, extra.sum())).astype(int)
    rows = [random.permutation(np.flatnonzero(y == k))[:n] for k, n in enumerate(wanted)]
    if len(counts) == 2:  # shares matter: both classes by the same factor, at least 200 of each
        least = np.minimum(counts, 200)
        size = np.maximum(least, np.round(counts * most / len(y)).astype(int))
        rows = [random.permutation(np.flatnonzero(y == k))[: size[k]] for k in (0, 1)]
    return table.take(np.sort(np.concatenate(rows)))


def _read(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    own = {"digits": load_digits, "iris": load_iris, "wine": load_wine}
    if name in own:
        return own[name](return_X_y=True)
    if name == "fashion":
        images = np.load(directory / "fashion_mnist.npz")
        pooled = images["x_train"].reshape(-1, 14, 2, 14, 2).mean((2, 4))
        return pooled.reshape(-1, 196), images["y_train"].astype(int)
    if name == "cocktailparty":
        from softset_papers.datasets.papers import load_paper_set  # noqa: PLC0415

        found = load_paper_set("cocktailparty", directory)
        return found.x, found.y
    files = {"creditcard": "creditcard_subset", "protein": "protein_homo_kdd04"}
    path = directory / "imblearn_zenodo" / f"{name}.parquet"
    path = path if path.exists() else directory / f"{files.get(name, name)}.parquet"
    unused = ["split", "source", "EXAMPLE_ID", "BLOCK_ID", "fnlwgt"]
    frame = pd.read_parquet(path).drop(columns=unused, errors="ignore")
    target = next(c for c in ("label", "income", "Class", "target") if c in frame)
    y = frame.pop(target).isin([1, ">50K"]).to_numpy().astype(int)
    return pd.get_dummies(frame).to_numpy(dtype=np.float64), y


@dataclass(frozen=True)
class Split:
    """Training and test rows of a set, and the folds of the training rows."""

    number: int
    train: Table
    test: Table
    fold: np.ndarray

    def folds(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for k in range(FOLDS):
            yield np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)


def splits(table: Table, count: int) -> list[Split]:
    groups, found = alike(table.x, 1 / TEST_FOLDS), []
    for number, place in enumerate(repeated_folds(table.y, groups, TEST_FOLDS, count, SEED)):
        train, test = table.take(place != 0), table.take(place == 0)
        fold = repeated_folds(train.y, alike(train.x, 1 / FOLDS), FOLDS, 1, SEED)[0]
        found.append(Split(number, train, test, fold))
    return found


# --- classifiers ----------------------------------------------------------------------------------


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _lightgbm(**settings: Any) -> Any:
    from lightgbm import LGBMClassifier  # noqa: PLC0415

    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=SEED, **settings)


def _xgboost() -> Any:
    from xgboost import XGBClassifier  # noqa: PLC0415

    return XGBClassifier(n_jobs=1, random_state=SEED)


def _imbalanced(name: str) -> Any:
    import imblearn.ensemble  # noqa: PLC0415

    return getattr(imblearn.ensemble, name)(random_state=SEED)


# The four of the first claim; then the other rivals, at their libraries' defaults.
FOUR: dict[str, Callable[[], Any]] = {
    "logistic": lambda: _scaled(LogisticRegression(max_iter=500)),
    "forest": lambda: RandomForestClassifier(random_state=SEED),
    "extra-trees": lambda: ExtraTreesClassifier(random_state=SEED),
    "hist-boosting": lambda: HistGradientBoostingClassifier(random_state=SEED),
}
RIVALS: dict[str, Callable[[], Any]] = {
    **FOUR,
    "mlp": lambda: _scaled(MLPClassifier(max_iter=300, early_stopping=True, random_state=SEED)),
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "logistic-weighted": lambda: _scaled(LogisticRegression(max_iter=500, class_weight="balanced")),
    "forest-weighted": lambda: RandomForestClassifier(class_weight="balanced", random_state=SEED),
    "extra-trees-weighted": lambda: ExtraTreesClassifier(
        class_weight="balanced", random_state=SEED
    ),
    "hist-boosting-weighted": lambda: HistGradientBoostingClassifier(
        class_weight="balanced", random_state=SEED
    ),
    "lightgbm-weighted": lambda: _lightgbm(class_weight="balanced"),
    "balanced-forest": lambda: _imbalanced("BalancedRandomForestClassifier"),
    "easy-ensemble": lambda: _imbalanced("EasyEnsembleClassifier"),
}
NEEDS = {
    "lightgbm": "lightgbm",
    "lightgbm-weighted": "lightgbm",
    "xgboost": "xgboost",
    "balanced-forest": "imblearn",
    "easy-ensemble": "imblearn",
}


def available(names: list[str]) -> list[str]:
    missing = [n for n in names if n in NEEDS and find_spec(NEEDS[n]) is None]
    if missing:
        print(f"left out, because their library is missing: {', '.join(missing)}", flush=True)
    return [n for n in names if n not in missing]


# --- scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Probabilities ``[rows, classes]``: out of fold, and of test rows by the model of all
    training rows (``test``) or by the mean of the fold models (``mean``)."""

    oof: np.ndarray
    test: np.ndarray
    mean: np.ndarray
    seconds: float  # of processor time for all fits


def scores(split: Split, model: str, make: Callable[[], Any], folder: Path) -> Scores:
    """Made once, then read."""
    path = folder / f"{split.train.name}-{len(split.fold)}-{split.number}-{model}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        started = time.process_time()
        classes = split.train.y.max() + 1
        oof = np.zeros((len(split.fold), classes))
        mean = np.zeros((len(split.test.y), classes))
        for train, test in split.folds():
            part = _fitted(make(), split.train.take(train))
            oof[test] = part.predict_proba(split.train.x[test])
            mean += part.predict_proba(split.test.x) / FOLDS
        whole = _fitted(make(), split.train).predict_proba(split.test.x)
        seconds = time.process_time() - started
        part = path.with_suffix(".part.npz")
        np.savez(part, oof=oof, test=whole, mean=mean, seconds=seconds)
        part.replace(path)
    found = np.load(path)
    return Scores(found["oof"], found["test"], found["mean"], float(found["seconds"]))


def _fitted(model: Any, table: Table) -> Any:
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if np.ptp(table.w) == 0 or not has_fit_parameter(last, "sample_weight"):  # EasyEnsemble
        return model.fit(table.x, table.y)
    if hasattr(model, "steps"):
        return model.fit(table.x, table.y, **{f"{model.steps[-1][0]}__sample_weight": table.w})
    return model.fit(table.x, table.y, sample_weight=table.w)


class Told(ClassifierMixin, BaseEstimator):
    """A classifier that says what scores it was told: of row ``i`` those in line ``i``.

    With it, cuts by any library are made on the same scores without fitting anything again.
    """

    def __init__(self, p: Any = None) -> None:
        self.p = p

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Told:
        self.classes_ = np.arange(self.p.shape[1])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.p[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X: Any) -> np.ndarray:
        return self.predict_proba(X).argmax(1)


# --- measuring ------------------------------------------------------------------------------------


def cuts(split: Split, found: Scores, metric: str, theirs: bool) -> dict[str, np.ndarray]:
    """Decisions of the test rows by each way of cutting the same scores."""
    told = Told(np.concatenate([found.oof, found.test]))
    n = len(split.fold)
    rows, test = np.arange(n)[:, None], n + np.arange(len(split.test.y))[:, None]
    folds = list(split.folds())
    ours = ss.MetricThresholdClassifier(told, metric, cv=folds, random_state=SEED)
    decided = {
        "half": found.test.argmax(1),
        "ours": ours.fit(rows, split.train.y, sample_weight=split.train.w).predict(test),
    }
    # scikit-learn's takes two classes, and weights of the metric by routing only.
    if theirs and split.train.task == "binary" and np.ptp(split.train.w) == 0:
        score = make_scorer(lambda y, said: value(np.asarray(said), y, None, metric, "binary"))
        tuned = TunedThresholdClassifierCV(told, scoring=score, cv=folds)
        decided["sklearn"] = tuned.fit(rows, split.train.y).predict(test)
    return decided


def value(decided: np.ndarray, y: np.ndarray, w: Any, metric: str, task: str) -> float:
    p = np.eye(y.max() + 1)[decided] if task == "multiclass" else decided.astype(float)
    return float(ss.evaluate(p, y, metric, task=task, from_logits=False, sample_weight=w))


OWN: dict[str, Callable[[str], Any]] = {
    # No limit of the clock, which would depend on what else the machine does.
    "MetricEnsembleClassifier": lambda metric: ss.MetricEnsembleClassifier(
        metric, time_limit=None, random_state=SEED
    ),
    "MetricLinearClassifier": ss.MetricLinearClassifier,
    "forest-oob": lambda metric: ss.MetricThresholdClassifier(
        RandomForestClassifier(200, random_state=SEED), metric, cv="oob"
    ),
    "MetricBoostingClassifier": lambda metric: ss.MetricBoostingClassifier(
        metric, random_state=SEED
    ),
}
NETWORKS = {"cross-entropy": "MetricMLPClassifier", "warm": "MetricMLPClassifier-warm"}
CLAIMS = [*FOUR, "mlp", "lightgbm", "xgboost", *NETWORKS.values(), "MetricEnsembleClassifier"]


def measure(half: str, args: argparse.Namespace) -> None:
    """Append what is not there yet."""
    names = [n for n in halves(args.data_dir)[half] if not args.sets or n in args.sets]
    known = available([*RIVALS, *OWN, *NETWORKS.values()])
    models = [m for m in known if not args.models or m in args.models]
    turns = [[m for m in models if m in CLAIMS], [m for m in models if m not in CLAIMS]]
    tables = {name: load(args.data_dir, name, args.rows) for name in names}
    started = time.process_time()
    for number, turn in product(range(args.splits), turns):
        for name, table in tables.items() if turn else ():
            split = splits(table, number + 1)[number]
            first = {"half": half, "set": name, "split": number, "rows": len(split.fold)}
            first["positives"] = int((split.train.y == 1).sum())
            found = [r for r in read(args.out) if (r["set"], r["split"]) == (name, number)]
            done = {(r["model"], r["metric"]) for r in found if r["rows"] == first["rows"]}
            for line in measured(split, turn, args, done):
                with open(args.out, "a", encoding="utf-8") as file:
                    file.write(json.dumps({**first, **line}) + "\n")
            spent = time.process_time() - started
            print(f"split {number}, {name}: {spent:.0f} s of processor time so far", flush=True)


def measured(
    split: Split, models: list[str], args: argparse.Namespace, done: set[tuple[str, ...]]
) -> Iterator[dict[str, Any]]:
    """What each model has on the test rows: a line for each cut and metric."""
    metrics = METRICS if split.train.task == "binary" else CLAIMED
    for model in models:
        label = model + args.suffix
        if model in RIVALS:
            for metric in metrics:
                if (label, metric) not in done:
                    found = scores(split, model, RIVALS[model], args.scores)
                    theirs = model in FOUR and metric in CLAIMED
                    for cut, said in cuts(split, found, metric, theirs).items():
                        yield _line(split, label, metric, cut, said, found.seconds)
        elif model in OWN:
            for metric in CLAIMED if model == "MetricEnsembleClassifier" else ("f1",):
                if (label, metric) not in done:
                    fitted, seconds = _own(OWN[model](metric), split)
                    yield _line(split, label, metric, "own", fitted.predict(split.test.x), seconds)
    labels = {r: name + args.suffix for r, name in NETWORKS.items() if name in models}
    if any((label, "f1") not in done for label in labels.values()):
        model, seconds = _own(PhasedClassifier("f1", recipe="warm", random_state=SEED), split)
        for recipe, label in labels.items():
            for metric in metrics if recipe == "cross-entropy" else ("f1",):
                own = model if recipe == "warm" else model.first_phase(metric=metric)
                spent = seconds if recipe == "warm" else seconds * model.first_phase_share
                if (label, metric) not in done:
                    yield _line(split, label, metric, "own", own.predict(split.test.x), spent)


def _own(model: Any, split: Split) -> tuple[Any, float]:
    """Fitted, and the processor time of it."""
    weight = split.train.w if np.ptp(split.train.w) else None
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes too rare to be held out
        model.fit(split.train.x, split.train.y, sample_weight=weight)
    return model, time.process_time() - started


def _line(
    split: Split, model: str, metric: str, cut: str, said: np.ndarray, seconds: float
) -> dict[str, Any]:
    found = value(said, split.test.y, split.test.w, metric, split.test.task)
    line = {"model": model, "metric": metric, "cut": cut}
    return {**line, "value": round(found, 6), "seconds": round(seconds, 2)}


def compare_times(args: argparse.Namespace) -> None:
    """The default network beside scikit-learn's with a tuned threshold, fits in turn."""
    print(
        "| set | rows | MetricMLPClassifier, s | TunedThresholdClassifierCV(MLPClassifier()), s |"
    )
    print("|---|---|---|---|")
    for name in args.sets or ("pen_digits", "mammography", "letter_img", "adult"):
        table = load(args.data_dir, name, args.rows)
        makers: list[Callable[[], Any]] = [
            lambda: ss.MetricMLPClassifier("f1", random_state=SEED),
            lambda: TunedThresholdClassifierCV(
                _scaled(MLPClassifier(random_state=SEED)), scoring="f1", random_state=SEED
            ),
        ]
        found: list[float] = []
        for make in makers:
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-learn's says where it has not converged
                make().fit(table.x, table.y)
            found.append(time.perf_counter() - started)
        print(f"| {name} | {len(table.y)} | {found[0]:.1f} | {found[1]:.1f} |", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def arguments(*choices: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=choices)
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--scores", type=Path, default=OUT.parent / "scores")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--sets", type=lambda text: text.split(","))
    parser.add_argument("--suffix", default="")
    return parser.parse_args()


def main() -> None:
    args = arguments("tune", "confirm", "time")
    compare_times(args) if args.what == "time" else measure(args.what, args)


if __name__ == "__main__":
    main()
