"""Small fits and commands whose numbers are kept: ``python -m tests.unchanged.cases`` writes them.

These are no oracle: they say that nothing has changed, not that it is right, which the other tests
do. They see what others can't: a start, a scale, a weight in a rule of choice that only makes a
model a little worse. Where a change is meant, write the numbers again and look at the difference.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import tempfile
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import softset as ss
from softset.classifiers.explaining import permutation_importances, worst_mistakes
from softset.classifiers.model import train_model
from tests.cli.box import Box

FILE = Path(__file__).parent / "numbers.json"
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "lightgbm", "xgboost", "pandas", "pyarrow")
TASKS = ("binary", "multiclass", "multilabel")
ROWS, NEW = 150, 40
Numbers = dict[str, Any]
CASES: dict[str, Callable[[], Numbers]] = {}


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def drawn(task: str, n: int = ROWS, seed: int = 0) -> tuple[Any, Any, Any]:
    """Rows, labels (the second class or label rarer) and weights, some of them 0."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 4))
    x[:, 3] = x[:, 3].round()
    noise = random.logistic(size=(3, n))
    first = 1.5 * x[:, 0] - x[:, 1] - 1.2 + noise[0] > 0
    second = x[:, 2] + x[:, 0] * x[:, 1] - 1 + noise[1] > 0
    y: Any = first.astype(int)
    if task == "multiclass":
        y = np.where(first, 2, second.astype(int))
    elif task == "multilabel":
        y = np.column_stack([first, second]).astype(int)
    return x, y, random.integers(0, 4, n) / 2


def squeezed(value: Any) -> Any:
    """An array as a few numbers that change if any of its entries does."""
    if value is None or isinstance(value, str | bool):
        return value
    a = np.asarray(value, dtype=np.float64).ravel()
    if a.size <= 6:
        return [float(v) for v in a]
    finite = np.where(np.isfinite(a), a, 12.34)
    random = np.random.default_rng(a.size)
    return [float(finite @ random.normal(size=a.size)) for _ in range(3)] + [float(a.size)]


def case(name: str) -> Callable[[Callable[[], Numbers]], Callable[[], Numbers]]:
    def keep(function: Callable[[], Numbers]) -> Callable[[], Numbers]:
        CASES[name] = function
        return function

    return keep


def described(model: Any, x: Any, y: Any, w: Any) -> Numbers:
    """What a user can read from a fitted classifier."""
    found: Numbers = {
        "decisions": model.decision_function(x),
        "classes": (model.predict(x) == model.classes_[-1]) if y.ndim == 1 else model.predict(x),
        "score": model.score(x, y),
        "weighted score": model.score(x, y, sample_weight=w),
    }
    names = ["threshold_", "offsets_", "interval_", "coef_", "intercept_", "score_"]
    names += [
        "history_",
        "n_metric_estimators_",
        "n_estimators_",
        "chosen_",
        "feature_importances_",
    ]
    for name in names:
        value = getattr(model, name, None)
        nested = isinstance(value, list | dict)
        found[name] = list(_numbers_in("", value).values()) if nested else value
    if getattr(model, "gain_", None) is not None:
        found["gain"] = list(model.gain_)
    found["out of fold"] = model.oof_scores_
    for part in getattr(model, "base_models_", []):
        found[f"part {part.name}"] = [part.weight, part.adds]
    return found


MODELS: dict[str, Callable[..., Any]] = {
    "linear": ss.MetricLinearClassifier,
    "linear sparse": ss.MetricLinearClassifier,
    "network": lambda metric, **more: ss.MetricMLPClassifier(
        metric,
        recipe="warm",
        n_networks=2,
        hidden_layer_sizes=(8,),
        max_epochs=6,
        random_state=0,
        **more,
    ),
    "boosting": lambda metric, **more: ss.MetricBoostingClassifier(
        metric, n_estimators=8, n_metric_estimators=5, random_state=0, **more
    ),
    "xgboost": lambda metric, **more: ss.MetricBoostingClassifier(
        metric, library="xgboost", n_estimators=8, n_metric_estimators=5, random_state=0, **more
    ),
}


def _classifier(kind: str, task: str, weighted: bool) -> Numbers:
    x, y, w = drawn(task)
    new, truth, v = drawn(task, NEW, 1)
    more: dict[str, Any] = {}
    if weighted:
        more["class_weight"] = "balanced"
        if task == "binary":
            more["pos_label"] = 0
    model = MODELS[kind]("f2" if weighted else "f1", **more)
    if kind == "linear sparse":
        x, new = sparse.csr_matrix(x), sparse.csr_matrix(new)
    model.fit(x, y, sample_weight=w if weighted else None)
    found = described(model, new, truth, v)
    if kind == "linear" and task == "binary":
        card = model.scorecard(10)
        found |= {"points": card.points(new), "card": card.score_}
        found["start"] = model.logistic_part().decision_function(new)
    return found


for _kind, _task, _weighted in product(MODELS, TASKS, (False, True)):
    CASES[f"{_kind} {_task}{' weighted' if _weighted else ''}"] = (
        lambda k=_kind, t=_task, w=_weighted: _classifier(k, t, w)
    )


def _threshold(estimator: Any, task: str, weighted: bool, **more: Any) -> Numbers:
    x, y, w = drawn(task, 300)
    new, truth, v = drawn(task, NEW, 1)
    model = ss.MetricThresholdClassifier(estimator, "f1", random_state=0, **more)
    model.fit(x, y, sample_weight=w if weighted else None)
    return described(model, new, truth, v)


@case("threshold binary")
def _() -> Numbers:
    return _threshold(LogisticRegression(), "binary", weighted=True)


@case("threshold multiclass")
def _() -> Numbers:
    return _threshold(LogisticRegression(), "multiclass", weighted=True)


@case("threshold without refit")
def _() -> Numbers:
    return _threshold(LogisticRegression(), "multiclass", weighted=False, refit=False)


@case("threshold of a margin")
def _() -> Numbers:
    return _threshold(LinearSVC(), "binary", weighted=True, pos_label=0)


@case("threshold of labels")
def _() -> Numbers:
    forest = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)
    return _threshold(forest, "multilabel", weighted=True)


for _task in TASKS:

    def _ensemble(task: str = _task) -> Numbers:
        x, y, w = drawn(task)
        new, truth, v = drawn(task, NEW, 1)
        model = ss.MetricEnsembleClassifier(
            "f1", base_models=["linear", "boosting"], cv=3, time_limit=None, random_state=0
        )
        return described(model.fit(x, y, sample_weight=w), new, truth, v)

    CASES[f"ensemble {_task}"] = _ensemble


def _frame(n: int = 240) -> tuple[pd.DataFrame, Any, Any]:
    """A table with a category, a missing number and a date."""
    x, y, w = drawn("binary", n, 2)
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["kind"] = np.where(x[:, 0] > 0.5, "high", np.where(x[:, 0] < -0.5, "low", "middle"))
    frame.loc[::7, "b"] = np.nan
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) % 50, "D")
    return frame, np.where(y == 1, "yes", "no"), w


@case("a table")
def _() -> Numbers:
    frame, y, w = _frame()
    model = train_model(frame, y, "f1", recipe="linear-tuned", sample_weight=w, pos_label="no")
    importances = permutation_importances(model, frame, y)
    return {
        "probabilities": model.predict_proba(frame),
        "importances": [row.falls for row in importances],
        "mistakes": [row.row for row in worst_mistakes(model, frame, y, most=6)],
    }


for _recipe in ("boosting", "cross-entropy"):

    def _streamed(recipe: str = _recipe) -> Numbers:
        frame, y, w = _frame(600)
        frame = frame.assign(y=y, w=w)
        with tempfile.TemporaryDirectory() as folder:
            for k, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
                file = Path(folder) / f"{k}.parquet"
                frame.iloc[part].to_parquet(file, index=False, row_group_size=64)
            rows = ss.ParquetRows(folder, "y", sample_weight="w")
            small: dict[str, Any] = {"n_estimators": 8, "n_metric_estimators": 4}
            if recipe == "cross-entropy":
                small = {"n_networks": 2, "max_epochs": 2}
            model = train_model(rows, metric="f1", recipe=f"{recipe}-tuned", **small)
        classifier = model.classifier
        threshold = getattr(classifier, "threshold_", None)
        return {"probabilities": model.predict_proba(frame[:50]), "threshold": threshold}

    CASES[f"streamed {_recipe}"] = _streamed


@case("compare")
def _() -> Numbers:
    x, y, _ = drawn("multiclass", 180)
    wanted = ["linear", "linear-tuned", "linear-metric", "boosting", "boosting-tuned"]
    groups = np.arange(180) // 2
    found = ss.compare(x, y, "f1", groups=groups, quick=True, candidates=wanted, n_jobs=1)
    numbers: Numbers = {c.id: c.scores for c in found.candidates}
    return numbers | _numbers_in("gains", dataclasses.asdict(found.gains))


@case("commands")
def _() -> Numbers:
    with tempfile.TemporaryDirectory() as home:
        box = Box(Path(home))
        said = {
            "evaluate": box.evaluate("-t", "y", "--level", "0.9"),
            "tune": box.tune("-t", "y", "--metric", "mcc"),
            "train": box.train("--sample-weight", "w", "--pos-label", "no", drop="who,other").json,
            "explain": box.explain("-t", "two"),
            "compare": box.compare("--groups", "who", drop="other,w,v").facts,
        }
        return {k: v for name, c in said.items() for k, v in _numbers_in(name, c).items()}


def _numbers_in(name: str, content: Any) -> Numbers:
    """All numbers of a JSON text, by where they stand."""
    if isinstance(content, dict):
        inner = [(f"{name} {key}", each) for key, each in content.items()]
    elif isinstance(content, list | tuple):
        inner = [(f"{name} {i}", each) for i, each in enumerate(content)]
    else:
        timed = any(word in name for word in ("seconds", "duration", "bytes", "size"))
        return {name: content} if isinstance(content, int | float) and not timed else {}
    return {k: v for where, each in inner for k, v in _numbers_in(where, each).items()}


def made(name: str) -> Numbers:
    """The numbers of a case, few for each array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {k: squeezed(v) for k, v in CASES[name]().items() if v is not None}


if __name__ == "__main__":
    numbers = {name: made(name) for name in CASES}
    content = {"versions": versions(), "numbers": numbers}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{len(numbers)} cases, {FILE.stat().st_size} bytes")
