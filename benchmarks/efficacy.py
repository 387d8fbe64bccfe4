"""How good a score do our classifiers give, against the usual ones cut as well as they can be?

    python benchmarks/efficacy.py tune      # the half that everything is chosen on
    python benchmarks/efficacy.py confirm   # the other half: once, when all is chosen
    python benchmarks/efficacy.py show      # tables of what was measured

Options: --data-dir DIR, --out FILE, --splits 3, --rows N (at most), --models A,B, --sets A,B.

Every rival is fitted six times for a set and split: for out-of-fold scores (five folds, equal rows
together) and for scores of the test rows. They are kept in ``results/scores/`` and cut for each
metric: at 1/2, by scikit-learn's ``TunedThresholdClassifierCV`` and by our
``MetricThresholdClassifier``, all on the same folds. Our own classifiers are trained for a metric,
so they are fitted for each. One JSON line for each set, split, classifier, cut and metric goes to
``--out``; what is there is skipped. ``efficacy_rules.py`` chooses by the tuning half how to cut and
how to blend.

Sets: of the 22 by name, the first 11 tune and the last 11 confirm (siblings are neighbours); Adult,
CocktailParty, digits and iris tune; credit card, protein homology, wine and Fashion-MNIST confirm.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range, wilcoxon
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

import softset as ss
from softset.comparison.statistics import holm, paired
from softset.tables.rows import alike
from softset.tables.splits import repeated_folds

DATA = Path(os.environ.get("SOFTSET_DATA") or Path(__file__).parents[2] / "shared" / "data")
OUT = Path(__file__).parent / "results" / "efficacy.jsonl"
METRICS = ("f1", "mcc", "f2", "balanced_accuracy")
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
    def task(self) -> str:
        return "binary" if self.y.max() == 1 else "multiclass"

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


def splits(table: Table, count: int) -> Iterator[Split]:
    groups = alike(table.x)
    for number, place in enumerate(repeated_folds(table.y, groups, TEST_FOLDS, count, SEED)):
        train, test = table.take(place != 0), table.take(place == 0)
        fold = repeated_folds(train.y, alike(train.x), FOLDS, 1, SEED)[0]
        yield Split(number, train, test, fold)


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
    if np.ptp(table.w) == 0:
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


class Cut(ss.MetricThresholdClassifier):
    """Without intervals, which nobody looks at here."""

    def _describe(self, crossed: Any, scores: Any, y: Any, w: Any, seed: int) -> None:
        pass


def cuts(split: Split, found: Scores, metric: str) -> dict[str, np.ndarray]:
    """Decisions of the test rows by each way of cutting the same scores."""
    told = Told(np.concatenate([found.oof, found.test]))
    n = len(split.fold)
    rows, test = np.arange(n)[:, None], n + np.arange(len(split.test.y))[:, None]
    folds = list(split.folds())
    ours = Cut(told, metric, cv=folds, random_state=SEED)
    decided = {
        "half": found.test.argmax(1),
        "ours": ours.fit(rows, split.train.y, sample_weight=split.train.w).predict(test),
    }
    # scikit-learn's takes two classes, and weights of the metric by routing only.
    if split.train.task == "binary" and np.ptp(split.train.w) == 0:
        score = make_scorer(lambda y, said: value(np.asarray(said), y, None, metric, "binary"))
        theirs = TunedThresholdClassifierCV(told, scoring=score, cv=folds)
        decided["sklearn"] = theirs.fit(rows, split.train.y).predict(test)
    return decided


def value(decided: np.ndarray, y: np.ndarray, w: Any, metric: str, task: str) -> float:
    p = np.eye(y.max() + 1)[decided] if task == "multiclass" else decided.astype(float)
    return float(ss.evaluate(p, y, metric, task=task, from_logits=False, sample_weight=w))


OWN: dict[str, Callable[[str], Any]] = {
    "MetricLinearClassifier": ss.MetricLinearClassifier,
    "MetricForestClassifier": lambda metric: ss.MetricForestClassifier(metric, random_state=SEED),
    "MetricBoostingClassifier": lambda metric: ss.MetricBoostingClassifier(
        metric, random_state=SEED
    ),
    "MetricClassifier": lambda metric: ss.MetricClassifier(metric, random_state=SEED),
    "MetricEnsembleClassifier": lambda metric: ss.MetricEnsembleClassifier(
        metric, random_state=SEED
    ),
}


def measure(half: str, args: argparse.Namespace) -> None:
    """Append what is not there yet."""
    done = {(r["set"], r["split"], r["rows"], r["model"], r["metric"]) for r in read(args.out)}
    names = [n for n in halves(args.data_dir)[half] if not args.sets or n in args.sets]
    models = [m for m in available([*RIVALS, *OWN]) if not args.models or m in args.models]
    for name in names:
        started = time.process_time()
        for split in splits(load(args.data_dir, name, args.rows), args.splits):
            for model in models:
                key = (name, split.number, len(split.fold), model)
                wanted = [m for m in METRICS if (*key, m) not in done]
                for metric in wanted:
                    found = _measured(split, model, metric, args.scores)
                    first = {"half": half, "set": name, "split": split.number}
                    first |= {"rows": len(split.fold), "positives": int((split.train.y == 1).sum())}
                    lines = [
                        json.dumps({**first, "model": model, "metric": metric, **line})
                        for line in found
                    ]
                    with open(args.out, "a", encoding="utf-8") as file:
                        file.write("\n".join(lines) + "\n")
        print(f"{name}: {time.process_time() - started:.0f} s of processor time", flush=True)


def _measured(split: Split, model: str, metric: str, folder: Path) -> list[dict[str, Any]]:
    test = split.test
    if model in RIVALS:
        found = scores(split, model, RIVALS[model], folder)
        decided, seconds = cuts(split, found, metric), found.seconds
    else:
        started = time.process_time()
        weight = split.train.w if np.ptp(split.train.w) else None
        fitted = OWN[model](metric).fit(split.train.x, split.train.y, sample_weight=weight)
        seconds = time.process_time() - started
        decided = {"own": fitted.predict(test.x)}
    return [
        {
            "cut": cut,
            "value": round(value(said, test.y, test.w, metric, test.task), 6),
            "seconds": round(seconds, 2),
        }
        for cut, said in decided.items()
    ]


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- tables ---------------------------------------------------------------------------------------


def show(args: argparse.Namespace) -> None:
    for half in ("tune", "confirm"):
        for metric in METRICS:
            records = [r for r in read(args.out) if (r["half"], r["metric"]) == (half, metric)]
            if records:
                print(f"\n## {metric}, sets that {half}\n")
                show_means(records)
                show_claim(records)


def show_means(records: list[dict[str, Any]]) -> None:
    """Mean over sets, mean rank, and how far apart ranks must be (Nemenyi, 5 %)."""
    table = pd.DataFrame(records)
    table["model"] = table["model"] + ", " + table["cut"]
    table = table[~table["cut"].isin(["sklearn"])]
    by_set = table.pivot_table(index="set", columns="model", values="value")
    by_set = by_set.dropna(axis=1)
    ranks = pd.DataFrame(
        rankdata(-by_set.round(6), axis=1), index=by_set.index, columns=by_set.columns
    )
    seconds = table.groupby("model")["seconds"].mean()
    sets, count = ranks.shape
    q = studentized_range.ppf(0.95, count, np.inf) / np.sqrt(2)
    apart = q * np.sqrt(count * (count + 1) / (6 * sets))
    best = ranks.mean().idxmin()
    print(f"{sets} sets; mean ranks less than {apart:.2f} apart do not differ clearly (5 %).\n")
    print("| classifier, cut | mean | mean rank | wins / ties / losses of the best | s |")
    print("|---|---|---|---|---|")
    for model in ranks.mean().sort_values().index:
        difference = (by_set[best] - by_set[model]).round(6)
        won = f"{(difference > 0).sum()} / {(difference == 0).sum()} / {(difference < 0).sum()}"
        print(
            f"| {model} | {by_set[model].mean():.4f} | {ranks[model].mean():.2f} | "
            f"{'' if model == best else won} | {seconds[model]:.1f} |"
        )


def show_claim(records: list[dict[str, Any]]) -> None:
    """``MetricThresholdClassifier`` against ``TunedThresholdClassifierCV``, same scores."""
    table = pd.DataFrame([r for r in records if r["model"] in FOUR])
    if "sklearn" not in set(table.get("cut", [])):
        return
    wide = table.pivot_table(index=["set", "split", "model"], columns="cut", values="value")
    wide = wide.dropna()
    gain = (wide["ours"] - wide["sklearn"]).unstack("model")
    means = gain.groupby("set").mean()
    print("\nMetricThresholdClassifier minus TunedThresholdClassifierCV, same scores:\n")
    print("| | " + " | ".join(means.columns) + " | all four |\n|---" + "|---" * 5 + "|")
    every = means.mean(axis=1)
    columns = [*(means[m] for m in means.columns), every]
    print("| mean over sets | " + " | ".join(f"{c.mean():+.4f}" for c in columns) + " |")
    tests = [wilcoxon(c, alternative="greater").pvalue if c.any() else 1.0 for c in columns]
    print("| one-sided Wilcoxon p | " + " | ".join(f"{p:.3f}" for p in tests) + " |")
    pairs = [(name, model) for name in means.index for model in means.columns]
    positives = {r["set"]: r["positives"] for r in records}
    found = []
    for name, model in pairs:
        differences = gain.loc[name, model].tolist()
        # A positive in the test rows is worth about this much of the metric.
        one_row = (TEST_FOLDS - 1) / positives[name]
        found.append(paired(differences, [0.0] * len(differences), 1 / TEST_FOLDS, one_row))
    adjusted = holm([t.p for t in found])
    worse = [
        f"{model} on {name}"
        for (name, model), t, p in zip(pairs, found, adjusted, strict=True)
        if p < 0.05 and t.mean < 0
    ]
    print(f"\nclearly worse: {', '.join(worse) or 'none'}")


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
    return parser.parse_args()


def main() -> None:
    args = arguments("tune", "confirm", "show")
    show(args) if args.what == "show" else measure(args.what, args)


if __name__ == "__main__":
    main()
