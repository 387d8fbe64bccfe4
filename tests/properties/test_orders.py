"""Names and orders mean nothing: rename the classes, take labels, rows or columns in another order,
and whatever is said moves with them. What is read of the first label, class or row in the place of
its own cannot agree with both orders."""

from __future__ import annotations

import warnings
from functools import cache
from typing import ClassVar
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

import softset as ss
from softset.classifiers.explaining import (
    explain_row,
    permutation_importances,
    worst_mistakes,
)
from softset.classifiers.watching import watch
from softset.comparison import candidates, comparing, runs
from softset.decisions.intervals import metric_table
from softset.decisions.promises import promised_decision, promises_of
from softset.decisions.reference import Reference
from softset.decisions.shift import estimated_shift, shifted_decision, stated_prior, stated_shift
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_goal
from softset.tasks import get_task
from tests.properties.test_weights import MODELS
from tests.reference import random_problem

pytestmark = pytest.mark.usefixtures("quick_parts")
N = 240
ORDER = [2, 0, 3, 1]  # of labels or classes
GOAL, ALERTS = "precision@recall>=0.6", "recall@alerts<=60/120"


# --- what is said of scores, label by label and class by class ------------------------------------


def problem(task):
    """Scores, of labels with ties that differ from one to the other; weights, some of them 0."""
    z, y = (t.numpy() for t in random_problem(task, n=N))
    if task == "multilabel":
        z[:, 1], z[:, 2] = z[:, 1].round(1), z[:, 2].round()
    return z, y, np.random.default_rng(0).integers(0, 4, N).astype(float)


def each_beta(order):
    betas = np.array([0.3, 1.0, 3.0, 2.0])[order]
    return ss.FBeta(tuple(betas.tolist()))


def promised(goal, from_logits=True):
    def run(task, z, y, w, order):
        p = z if from_logits else expit(z)
        found = ss.promise(
            p, y, goal, confidence=0.6, task=task, from_logits=from_logits, sample_weight=w
        )
        names = ("threshold", "logit", "value", "plain", "positives", "rows", "needed")
        return [[float(getattr(f, n) or 0) for n in names] for f in found]

    return run


def own_promises(task, z, y, w, order):
    """Of a metric that differs from label to label."""
    goal = get_goal(ss.At(each_beta(order), recall=0.6))
    return [[p.logit, p.value] for p in promises_of(goal, z, y, w, 0.6, exact=True)]


def offsets(found):
    return np.asarray(found) - np.mean(found)


def tuned(metric, **settings):
    def run(task, z, y, w, order):
        m = each_beta(order) if metric is None else metric
        return ss.best_threshold(z, y, m, task=task, sample_weight=w, from_logits=True, **settings)

    return run


def by_tuner(task, z, y, w, order):
    found = Tuner(get_goal(each_beta(order)), task).tune(z, y, w).logit
    return offsets(found) if task == "multiclass" else found


def of_reference(task, z, y, w, order):
    """Quantiles and bins of each label; of classes their own."""
    found = Reference.of(get_task(task), z, y, w, w)
    if task == "multiclass":
        means = [found.points_of(0, k).mean() for k in range(4)]
        decided = found.decided.reshape(4, 4, -1)[range(4), range(4)]
        return np.column_stack([found.prior[0], found.rows[0], means, decided])
    rows = [found.tuning_rows(k, np.array([0.9, 0.1])) for k in range(4)]
    sums = [[(s * v).sum(), (t * v).sum(), found.bins(k)[1].max()] for k, (s, t, v) in
            enumerate(rows)]  # fmt: skip
    return np.column_stack([found.prior, found.rows, sums])


def adapted(task, z, y, w, order):
    reference = Reference.of(get_task(task), z, y, w, w)
    new = z[::2] + 0.3 * np.asarray(order)
    found = estimated_shift(reference, new, list("abcd"))
    columns = np.column_stack([found.after, found.low, found.high, found.by_decisions])
    return np.column_stack([columns, np.full(4, found.distance), np.full(4, found.p_value)])


def at_prevalence(goal, confidence=None):
    def run(task, z, y, w, order):
        task, m = get_task(task), get_goal(each_beta(order) if goal is None else goal)
        tuner, reference = Tuner(m, task), Reference.of(task, z, y, w, w)
        decision = tuner.tune(z, y, w)
        if confidence:
            decision = promised_decision(decision, m, z, y, w, confidence, exact=True)
        to = [0.1, 0.4, 0.2, 0.3]
        prior = stated_prior(reference, [to[k] for k in order], range(4))
        moved = shifted_decision(decision, tuner, reference, stated_shift(reference, prior, "abcd"))
        found = offsets(moved.logit) if task.exclusive else moved.logit
        return np.column_stack([found, [p.value or 0 for p in moved.promises] or found])

    return run


def evaluated(metric, **settings):
    def run(task, z, y, w, order):
        goal = ss.METRICS[metric].make(average=None) if isinstance(metric, str) else metric(order)
        found = ss.evaluate(z, y, goal, task=task, sample_weight=w, from_logits=True, **settings)
        return np.broadcast_to(found, 4)

    return run


def of_table(task, z, y, w, order):
    decided = z.argmax(1) if task == "multiclass" else (z >= 0).astype(int)
    rows = metric_table(
        z, decided, y, task=task, from_logits=True, sample_weight=w, metrics=["mcc", "f1", "auroc"]
    )
    return np.tile([row.value for row in rows], (4, 1))


def of_loss(make):
    def run(task, z, y, w, order):
        x = torch.tensor(z, requires_grad=True)
        value = make(task, order)(x, torch.tensor(y), torch.tensor(w))
        value.backward()
        return np.vstack([x.grad, np.full((1, 4), value.item())]).T

    return run


def class_weight(task, order):
    v = np.array([0.5, 2.0, 1.0, 3.0])[order]
    return ss.MetricLoss(each_beta(order), task=task, class_weight=v.tolist())


LABELS, CLASSES = ("multilabel",), ("multiclass",)
BOTH = LABELS + CLASSES
SAID = {
    "promise": (promised(GOAL), LABELS),
    "promise of probabilities": (promised(GOAL, from_logits=False), LABELS),
    "promise of alerts": (promised(ALERTS), LABELS),
    "promise of precision": (promised("recall@precision>=0.4"), LABELS),
    "promise with a metric each": (own_promises, LABELS),
    "tuned": (tuned(None), LABELS),
    "tuned, shrunk": (tuned(None, shrink=True), LABELS),
    "tuned in turn": (tuned("f1_micro"), LABELS),
    "tuner": (by_tuner, BOTH),
    "reference": (of_reference, BOTH),
    "adapt": (adapted, BOTH),
    "at_prevalence": (at_prevalence(None), BOTH),
    "at_prevalence of alerts": (at_prevalence("recall@alerts<=0.4", 0.6), LABELS),
    "evaluate": (evaluated("f1"), BOTH),
    "evaluate auroc": (evaluated("auroc"), BOTH),
    "evaluate average_precision": (evaluated("average_precision"), BOTH),
    "evaluate at k": (evaluated(lambda o: ss.At(ss.Recall(average=None), k=2)), BOTH),
    "evaluate a metric each": (evaluated(each_beta), BOTH),
    "evaluate weighted": (evaluated(lambda _: ss.Jaccard("weighted")), BOTH),
    "intervals": (of_table, BOTH),
    "MetricLoss": (of_loss(lambda t, o: ss.MetricLoss(each_beta(o), task=t)), BOTH),
    "MetricLoss over thresholds": (
        of_loss(lambda t, o: ss.MetricLoss("f1", task=t, thresholds=[0.2, 0.6])), LABELS
    ),
    "MetricLoss with class weights": (of_loss(class_weight), BOTH),
    "MetricLoss at a constraint": (of_loss(lambda t, _: ss.MetricLoss(GOAL, task=t)), LABELS),
    "MetricLoss at k": (of_loss(lambda t, _: ss.MetricLoss("recall@2", task=t)), BOTH),
    "average precision": (of_loss(lambda t, _: ss.MetricLoss("average_precision", task=t)), BOTH),
    "LovaszLoss": (of_loss(lambda t, _: ss.LovaszLoss(task=t)), BOTH),
    "CrossEntropyLoss": (of_loss(lambda t, _: ss.CrossEntropyLoss(task=t)), BOTH),
}  # fmt: skip


@pytest.mark.parametrize(("name", "task"), [(n, t) for n, (_, ts) in SAID.items() for t in ts])
def test_labels_and_classes_in_another_order(name, task):
    run, _ = SAID[name]
    z, y, w = problem(task)
    found = np.asarray(run(task, z, y, w, np.arange(4)))
    target = np.argsort(ORDER)[y] if task == "multiclass" else y[:, ORDER]
    other = np.asarray(run(task, np.ascontiguousarray(z[:, ORDER]), target, w, np.array(ORDER)))
    np.testing.assert_allclose(other, found[ORDER], rtol=1e-6, atol=1e-9)


# --- classifiers ----------------------------------------------------------------------------------

SETTINGS = {
    "f1": {"metric": "f1"},
    "promise": {"metric": GOAL, "confidence": 0.6},
    "alerts": {"metric": "recall@alerts<=40/100", "confidence": 0.6},
    "costs": {"metric": "cost(fn=amount, fp=5)"},
    "profit": {"metric": "profit(tp=amount, fp=-5)"},
}
MADE = {
    **{name: make for name, make in MODELS.items() if name != "MetricThresholdClassifier"},
    "MetricThresholdClassifier": lambda: ss.MetricThresholdClassifier(
        LogisticRegression(), cv=3, random_state=0
    ),
}
RENAMED = [
    *(("MetricLinearClassifier", kind) for kind in SETTINGS),
    *(("MetricThresholdClassifier", kind) for kind in SETTINGS),
    *(("MetricBoostingClassifier", kind) for kind in ("f1", "promise", "costs")),
    *(("MetricMLPClassifier", kind) for kind in ("alerts", "profit")),
    ("xgboost", "costs"),
    ("forest", "promise"),
    ("MetricEnsembleClassifier", "costs"),
]


def table(n=N, seed=0):
    """Columns, of which one is an amount, and which rows are positive."""
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    y = x["a"] - 0.5 * x["b"] + 0.8 * rng.normal(size=n) > 0.5
    return x.assign(amount=np.exp(1 + rng.normal(size=n))), y.to_numpy()


def quietly(call, *data, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(*data, **given)


@cache
def renamed(name, kind, names):
    """The same model with other names of its classes, ``names[1]`` of the positive one."""
    x, y = table()
    w = np.random.default_rng(1).integers(0, 4, N)
    model = MADE[name]().set_params(pos_label=names[1], **SETTINGS[kind])
    return quietly(model.fit, x, np.where(y, names[1], names[0]), w)


def told(model, names):
    """All that it says of new rows, the positive class first."""
    (x, y), said = table(90, seed=2), {}
    labels = np.where(y, names[1], names[0])
    at = model.classes_.tolist().index(names[1])
    sign = 1 if at == 1 else -1
    said["probabilities"] = model.predict_proba(x)[:, [at, 1 - at]]
    said["decisions"] = model.predict(x) == names[1]
    said["margins"] = sign * model.decision_function(x)
    said["scores"] = model.score(x, labels), model.score(x, labels, 1 + np.arange(90) % 3)
    said["out of fold"] = model.oof_scores_
    said["threshold"] = model.threshold_
    if model.promise_ is not None:
        said["promise"] = {**model.promise_.packed(), "goal": 0, "rate": 0, "reason": 0}
        said["checked"] = [c[1:4] for c in model.promise_.check(said["decisions"], y)]
    said["mistakes"] = [(m.row, m.margin) for m in worst_mistakes(model, x, labels)]
    said["importances"] = [
        (i.falls, i.spread) for i in permutation_importances(model, x, labels, most_rows=60)
    ]
    rule = model.decision_.costs
    if rule is not None:
        said["costs"] = [rule.row_cost, rule.threshold_cost, rule.plain_cost, rule.constant_cost]
        assert said["scores"][0] != said["scores"][1]
        return said
    row = explain_row(model, x, 7)
    adds = {c.column: c.adds for c in row.contributions}
    said["explained"] = [row.probability, row.score, row.base, *map(adds.get, "abc")]
    said["reference"] = np.concatenate([np.ravel(v) for v in model.reference_.packed().values()])
    prevalence = {names[1]: 0.1, names[0]: 0.9}
    moved, adapted = model.at_prevalence(prevalence), quietly(model.adapt, x[:50])
    assert adapted.shift_.names == moved.shift_.names == [names[1]]
    assert moved.shift_.after == moved.at_prevalence(0.3).shift_.before == pytest.approx([0.1])
    assert moved.shift_.before == pytest.approx(model.reference_.prior[0, 1:])
    shift = adapted.shift_
    said["moved"] = [moved.threshold_, adapted.threshold_, *shift.after, *shift.low, *shift.high]
    seen = watch(model, x, labels, time=np.arange(90) // 15)
    said["watched"] = [
        [*r.hits, *r.rows, r.bound or 0, *r.values] for r in [*seen.rates, *seen.alerts]
    ]
    said["goal over time"] = [seen.goal_values, seen.goal_low, seen.goal_high]
    if hasattr(model, "to_torch"):
        p, decided = model.to_torch()(torch.tensor(x.to_numpy()))
        said["exported"] = np.column_stack([p[:, [at, 1 - at]], decided == at])
    return said


def numbers(value):
    value = list(value.values()) if isinstance(value, dict) else value
    values = [np.nan if v is None else v for v in value] if isinstance(value, list) else value
    return np.asarray(values, dtype=float)


@pytest.mark.parametrize(("name", "kind"), RENAMED)
def test_another_name_of_the_positive_class(name, kind):
    ways = [("no", "yes"), ("well", "ill")]
    found, other = (told(renamed(name, kind, names), names) for names in ways)
    assert found.keys() == other.keys()
    for what, value in found.items():
        np.testing.assert_allclose(
            numbers(other[what]), numbers(value), rtol=1e-6, atol=1e-9, err_msg=what
        )


# Folds are dealt by the rarest label of a row, so that their order has a say.
PAIRS = [(np.flatnonzero(np.arange(N) % 3 != k), np.flatnonzero(np.arange(N) % 3 == k))
         for k in range(3)]  # fmt: skip
LABELED = {
    "MetricLinearClassifier": {"metric": GOAL, "confidence": 0.6, "cv": PAIRS},
    "MetricThresholdClassifier": {"cv": PAIRS},
    "MetricBoostingClassifier": {"metric": "recall@alerts<=40/100", "confidence": 0.6},
}


@cache
def labeled(name, order):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4))
    y = (x + 0.7 * rng.normal(size=x.shape) > [0.2, 0.5, 0.8, 0.0]).astype(int)[:, order]
    model = MADE[name]().set_params(**LABELED[name])
    if "estimator" in model.get_params():
        model.set_params(estimator=MultiOutputClassifier(LogisticRegression()))
    weights = [{0: 1.0, 1: v} for v in np.array([1.0, 2.0, 4.0, 0.5])[list(order)]]
    if "class_weight" in model.get_params(deep=False):
        model.set_params(class_weight=weights)
    return quietly(model.fit, x, y, rng.integers(0, 4, N))


def told_of_labels(model, order):
    """All that it says of new rows, label by label."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 4))
    y = (x > 0.4).astype(int)[:, order]
    said = {"probabilities": model.predict_proba(x).T, "threshold": model.threshold_}
    said["decisions"], said["out of fold"] = model.predict(x).T, model.oof_scores_.T
    said["prior"], said["rows"] = model.reference_.prior, model.reference_.rows
    to = np.array([0.1, 0.3, 0.6, 0.2])[list(order)]
    adapted = quietly(model.adapt, x[:50])
    said["at_prevalence"] = model.at_prevalence(to.tolist()).threshold_
    if "C" in model.get_params():  # scores of trees lie on the edges of bins, but for rounding
        said["adapted"] = np.column_stack([adapted.threshold_, adapted.shift_.after])
    if model.promise_ is not None:
        said["promises"] = [[p.logit or 0, p.value or 0, p.positives] for p in model.promise_]
    seen = watch(model, x, y, time=np.arange(90) // 15)
    rates = {r.name: [*r.hits, *r.rows, r.bound or 0] for r in [*seen.rates, *seen.alerts]}
    assert {r.name for r in seen.alerts} == {f"alerts of {k}" for k in range(4)}
    said["watched"] = [
        [v for name, own in rates.items() if name.endswith(f" of {k}") for v in own]
        for k in range(4)
    ]
    return said


@pytest.mark.parametrize("name", LABELED)
def test_a_model_of_labels_in_another_order(name):
    found, other = (
        told_of_labels(labeled(name, order), order) for order in ((0, 1, 2, 3), tuple(ORDER))
    )
    for what, value in found.items():
        np.testing.assert_allclose(
            numbers(other[what]), numbers(value)[ORDER], rtol=1e-6, atol=1e-9, err_msg=what
        )


ANY_ORDER = ("MetricLinearClassifier", "MetricBoostingClassifier", "xgboost", "MetricMLPClassifier")


@pytest.mark.parametrize("kind", ["f1", "costs"])
@pytest.mark.parametrize("name", ANY_ORDER)
def test_rows_in_another_order(name, kind):
    """Each with its label, weight and costs."""
    (x, y), order = table(), np.random.default_rng(3).permutation(N)
    w = np.random.default_rng(1).uniform(0.5, 2, N) * (np.arange(N) % 5 > 0)
    new, found = table(90, seed=2)[0], []
    for rows in (np.arange(N), order):
        model = MADE[name]().set_params(**SETTINGS[kind])
        quietly(model.fit, x.iloc[rows], y[rows], w[rows])
        back = np.argsort(rows)
        rule = model.decision_.costs
        costs = [] if rule is None else [rule.row_cost, rule.threshold_cost, rule.constant_cost]
        found.append([model.predict_proba(new), model.oof_scores_[back], model.threshold_, costs])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


# --- costs and weights go with their rows ---------------------------------------------------------


class Noting(ss.MetricLinearClassifier):
    """Checks that the costs it gets are those of its rows, by their first and their last column, of
    which one may have been shuffled."""

    calls: ClassVar[list[str]] = []

    def _note(self, name, x, costs):
        amount = dict(table()[0][["a", "amount"]].to_numpy().tolist())
        own = [[amount[v] for v in x[:, 0]], x[:, -1]]
        assert any(np.array_equal(np.asarray(costs)[:, 2], a) for a in own), name
        self.calls.append(name)

    def fit(self, X, y, sample_weight=None, sample_cost=None):
        self._note("fit", X, sample_cost)
        return super().fit(X, y, sample_weight, sample_cost)

    def predict(self, X, sample_cost=None):
        self._note("predict", X, sample_cost)
        return super().predict(X, sample_cost)

    def score(self, X, y, sample_weight=None, sample_cost=None):
        self._note("score", X, sample_cost)
        return super().score(X, y, sample_weight, sample_cost)


@pytest.mark.parametrize("most_rows", [None, 60])
def test_costs_go_with_their_rows_through_a_comparison(monkeypatch, most_rows):
    """In all fits, scores and the refit, of all rows or of a sample in groups, sorted by label."""
    monkeypatch.setattr(candidates, "MetricLinearClassifier", Noting)
    monkeypatch.setattr(Noting, "calls", [])
    if most_rows:
        monkeypatch.setattr(runs, "FEWEST_ROWS", most_rows)
        monkeypatch.setattr(runs, "NUMBERS_A_SECOND", 0)
        monkeypatch.setattr(comparing, "winner_importances", lambda *_: [])
        monkeypatch.setattr(comparing.Summary, "_refit_rows", lambda *_: most_rows)
    x, y = (np.asarray(a) for a in table())
    x, y = x[np.argsort(y)], np.sort(y)
    found = ss.compare(
        x,
        y,
        "cost(fn=amount, fp=5)",
        candidates=["linear", "linear-tuned"],
        cv=2,
        repeats=1,
        n_jobs=1,
        groups=np.arange(N) // 3,
        sample_cost={"amount": x[:, -1]},
        time_limit=60 if most_rows else None,
    )
    assert found.data.used == (pytest.approx(most_rows, rel=0.25) if most_rows else N)
    assert {"fit", "predict", "score"} <= set(Noting.calls)


def test_costs_go_with_the_rows_that_are_drawn():
    """Of the rows for importances."""
    x, y = table()
    model = quietly(ss.MetricLinearClassifier("cost(fn=amount, fp=5)", path=()).fit, x, y)
    seen = []

    def score(rows, labels, sample_weight=None, sample_cost=None):
        seen.append((rows["amount"].to_numpy(), np.asarray(sample_cost)[:, 2]))
        return 0.5

    with patch.object(model, "score", score):
        permutation_importances(model, x, y, most_rows=60, repeats=1)
    assert len(seen) == 1 + 4
    np.testing.assert_array_equal(*seen[0])  # not shuffled
    for _, costs in seen[1:]:  # a column is shuffled, and the costs are not
        np.testing.assert_array_equal(costs, seen[0][1])


@pytest.mark.parametrize("name", ["MetricLinearClassifier", "MetricEnsembleClassifier", "forest"])
def test_another_unit_of_money(name):
    """Decisions stay, and what is said of money is in the unit."""
    (x, y), found = table(), []
    new, labels = table(90, seed=2)
    for unit in (1.0, 1000.0):
        costs = {"sample_cost": unit * np.column_stack([0 * y, 5 + 0 * y, x["amount"], 0 * y])}
        model = MADE[name]().set_params(metric=ss.Cost(fn=unit))
        quietly(model.fit, x, y, **costs)
        costs = unit * np.column_stack([0 * labels, 5 + 0 * labels, new["amount"], 0 * labels])
        rule = model.decision_.costs
        said = [rule.row_cost, rule.threshold_cost, rule.plain_cost, rule.constant_cost]
        said += [model.score(new, labels, sample_cost=costs), getattr(model, "score_", 0.0)]
        found.append((np.array(said) / unit, model.predict(new, sample_cost=costs), rule.logit))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)
