"""Weight 0 is no row; weight k is k rows, in sums; all weights times one number change nothing.

Over every public entry that takes weights: one that is added without a case here fails. Values with
weights of their own are compared with a plain oracle in ``test_option_pairs``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import softset as ss
from softset.classifiers import blending, path
from softset.decisions.confidence import threshold_interval
from softset.decisions.constants import ConstantWarning
from softset.decisions.intervals import cost_interval, metric_table
from softset.decisions.reference import Reference
from softset.decisions.resampling import tuning_gain
from softset.decisions.shift import estimated_shift
from softset.decisions.tuner import Tuner
from softset.tasks import get_task
from tests.reference import TASKS, random_problem

N = 48
CURVES = ("auroc", "average_precision")


class Entry(NamedTuple):
    """``run(task, z, y, w, sets)`` -> numbers; ``copies``: whether weight k is k rows."""

    run: Callable[..., Any]
    tasks: tuple[str, ...] = TASKS
    copies: bool = True
    scale: bool = True


def problem(task, seed=0):
    """Scores, labels, weights 0 to 3 and sets; one label has only rows of weight 0."""
    z, y = random_problem(task, n=N, seed=seed)
    w = np.random.default_rng(seed).integers(0, 4, N).astype(float)
    sets = torch.tensor([4, 4, 2, 9] * (N // 4))
    w[sets.numpy() == 9] = np.where(np.arange(N // 4) % 2, 0, 2)
    return z, y, w, sets


def with_gradient(loss):
    """A loss and its slopes, those of copies together."""

    def run(task, z, y, w, sets, copies):
        x = z.clone().requires_grad_()
        value = loss(task, x, y, None if w is None else torch.tensor(w), sets)
        (slopes,) = torch.autograd.grad(value, x)
        rows = torch.zeros(N, *z.shape[1:], dtype=z.dtype)
        return [value.item(), *rows.index_add(0, copies, slopes).flatten().tolist()]

    return run


def plain(function):
    def run(task, z, y, w, sets, copies):
        found = function(task, z, y, w, sets)
        return np.ravel(np.asarray(found, dtype=float))

    return run


def in_batches(task, z, y, w, sets, copies):
    """A loss with a memory: three batches, of which one weighs nothing."""
    loss, found = ss.MetricLoss("f1", task=task, ema_decay=0.6), []
    w = np.ones(len(z)) if w is None else w
    order = copies.numpy() % 3
    for batch in (0, 1, 2, 0):
        at = torch.tensor(np.flatnonzero(order == batch))
        weight = torch.tensor(w)[at] * (batch != 1)
        x = z[at].clone().requires_grad_()
        value = loss(x, y[at], weight)
        (slopes,) = torch.autograd.grad(value, x, allow_unused=True, materialize_grads=True)
        found += [value.item(), float((slopes * z[at].cos()).sum())]
    return found


def accumulated(passes):
    def run(task, z, y, w, sets, copies):
        torch.manual_seed(0)
        features = z.reshape(len(z), -1)
        model = nn.Linear(features.shape[1], 1 if task == "binary" else 4).double()
        weight = torch.ones(len(z)) if w is None else torch.tensor(w)
        parts = list(zip(features.split(7), y.split(7), weight.split(7), strict=True))
        value = ss.accumulate(model, ss.MetricLoss("mcc", task=task), parts, passes=passes)
        return [value.item(), *(g.sum().item() for g in (p.grad for p in model.parameters()))]

    return run


def by_hand(task, z, y, w, sets, copies):
    x = z.clone().requires_grad_()
    weight = torch.ones(len(z)) if w is None else torch.tensor(w)
    total = ss.training.Accumulation(ss.MetricLoss("jaccard", task=task))
    parts = list(zip(x.split(9), y.split(9), weight.split(9), strict=True))
    for part in parts:
        total.count(*part)
    sum(total(*part) for part in parts).backward()
    return [total.value.item(), float((x.grad * z.cos()).sum())]


def objective(make, target):
    """Slopes of one row and of all its copies together, in units of the largest."""

    def run(task, z, y, w, sets, copies):
        found = make(target)
        g, h = found(y.numpy(), z.numpy(), w)
        floor = 1e-6  # of the curvature of every row
        sums = [np.zeros((N, *z.shape[1:])) for _ in range(2)]
        for total, each in zip(sums, (g, h - floor), strict=True):
            np.add.at(total, copies.numpy(), each)
        value = np.ravel(found.evaluate(y.numpy(), z.numpy(), w))
        value = [float(v) for v in value if v not in (found.goal.name, "True")]
        return np.concatenate([*(s.ravel() / np.abs(sums[0]).max() for s in sums), value])

    return run


def mixture(task, z, y, w, sets):
    loss = 0.5 * ss.CrossEntropyLoss(task=task) + ss.MetricLoss("dice", task=task)
    loss = loss + 2.0 * ss.LovaszLoss(task=task)
    return loss(z, y, w, sets)


def shrunk(task, z, y, w, sets):
    if task == "multiclass":
        return ss.best_offsets(z, y, "f1", sample_weight=w, shrink=True, from_logits=True)
    return ss.best_threshold(z, y, "f1", task=task, sample_weight=w, shrink=True, from_logits=True)


def tuned(metric):
    def run(task, z, y, w, sets):
        if task == "multiclass":
            return ss.best_offsets(z, y, metric, sample_weight=w, from_logits=True)
        return ss.best_threshold(z, y, metric, task=task, sample_weight=w, from_logits=True)

    return plain(run)


def left_out(shrink):
    """Weight 0 as ``ignore_index``."""

    def run(task, z, y, w, sets):
        zero = torch.tensor(w == 0)
        y = torch.where(zero if task != "multilabel" else zero[:, None], -1, y)
        if task == "multiclass":
            return ss.best_offsets(z, y, "f1", ignore_index=-1, shrink=shrink, from_logits=True)
        return ss.best_threshold(
            z, y, "f1", task=task, ignore_index=-1, shrink=shrink, from_logits=True
        )

    return plain(run)


def evaluated(metric, **settings):
    def run(task, z, y, w, sets):
        return ss.evaluate(z, y, metric, task=task, sample_weight=w, **settings)

    return plain(run)


def in_sets(task, z, y, w, sets):
    return ss.evaluate(z, y, "f1", task=task, sample_weight=w, per=sets, from_logits=True)


def promised(goal, joint=False):
    """Scales of weights mean nothing; of uneven ones there are fewer effective rows."""

    def run(task, z, y, w, sets):
        settings = {"task": task, "sample_weight": w, "joint": joint, "confidence": 0.4}
        found = ss.promise(z, y, goal, **settings)
        found = found if isinstance(found, list) else [found]
        names = ("logit", "value", "plain", "positives", "rows", "needed")
        assert any(f.logit is not None for f in found)
        return [[float(getattr(f, n) or 0) for n in names] for f in found]

    return plain(run)


def by_costs(task, z, y, w, sets, copies):
    amount = 30 * np.random.default_rng(0).random(N)[copies.numpy()]
    rule = ss.cost_decision(z, y, "cost(fn=amount, fp=5)", {"amount": amount}, sample_weight=w)
    names = ("logit", "row_cost", "threshold_cost", "plain_cost", "constant_cost", "by_row", "rows")
    costs = np.outer(amount, [0.0, 0.2, 1.0, 0.1])
    w = np.ones(len(z)) if w is None else w
    row = cost_interval(ss.Cost(fn="amount"), (z > 0).numpy(), y.numpy(), costs, 0.9, w)
    return [*(getattr(rule, name) for name in names), rule.calibration.slope, *row[1:]]


def intervals(task, z, y, w, sets):
    p = {"binary": torch.sigmoid(z), "multilabel": torch.sigmoid(z)}.get(task, z.softmax(-1))
    decided = z.argmax(1) if task == "multiclass" else (z > 0).long()
    found = metric_table(p, decided, y, task=task, sample_weight=w, metrics=["mcc", "f1", "auroc"])
    return [[row.value, row.low, row.high] for row in found]


def reference(task, z, y, w, sets):
    """Its quantiles and bins, and what it says of new scores."""
    w = np.ones(len(z)) if w is None else w
    z, y = (z.log_softmax(-1) if task == "multiclass" else z).numpy(), y.numpy()
    found = Reference.of(get_task(task), z, y, w, w)
    shift = estimated_shift(found, np.tile(z[w > 0][:8], (3,) + (1,) * (z.ndim - 1)), list("abcd"))
    packed = [np.ravel(v) for v in found.packed().values()]
    return np.concatenate([*packed, shift.after, shift.low, shift.high, shift.by_decisions])


def rates_of_classes(task, z, y, w, sets):
    """The fraction of each class, and of its rows that each class is predicted for."""
    found = Reference.of(get_task(task), z.log_softmax(-1).numpy(), y.numpy(), w)
    decided = found.decided.reshape(4, 4, -1).sum(2)
    return [*found.prior, *(decided / decided.sum(1, keepdims=True))]


def uncertain(what):
    """The interval of the best threshold, or the gain of tuning."""

    def run(task, z, y, w, sets):
        w = np.ones(len(z)) if w is None else w
        z, y = (z.log_softmax(-1) if task == "multiclass" else z).numpy(), y.numpy()
        tuner = Tuner(ss.get_metric("f1"), task, "exact")
        if what == "interval":
            return threshold_interval(tuner, z, y, w, 0)
        some = w > 0
        z, y, w = z[some], y[some], w[some]
        return tuning_gain(tuner, tuner.crossed(z, y, w), z, y, w, 0)

    return plain(run)


CROSS = {"binary": 0.3, "multiclass": [4, 3, 2, 1], "multilabel": [0.1, 0.2, 0.3, 0.4]}
LABELS = ("binary", "multilabel")


def of_loss(make):
    return with_gradient(lambda task, z, y, w, sets: make(task)(z, y, w))


ENTRIES: dict[str, Entry] = {
    "metric_loss": Entry(
        with_gradient(lambda t, z, y, w, s: ss.metric_loss(z, y, "f1", task=t, sample_weight=w))
    ),
    "metric_loss in sets": Entry(
        with_gradient(
            lambda t, z, y, w, s: ss.metric_loss(z, y, "f1", task=t, sample_weight=w, per=s)
        )
    ),
    "MetricLoss": Entry(of_loss(lambda t: ss.MetricLoss("mcc", task=t))),
    "MetricLoss with memory": Entry(in_batches),
    "CrossEntropyLoss": Entry(of_loss(lambda t: ss.CrossEntropyLoss(task=t))),
    "MeanAbsoluteErrorLoss": Entry(of_loss(lambda t: ss.losses.MeanAbsoluteErrorLoss(task=t))),
    "FocalLoss": Entry(of_loss(lambda t: ss.FocalLoss(task=t))),
    "LogitAdjustedLoss": Entry(of_loss(lambda t: ss.LogitAdjustedLoss(CROSS[t], task=t))),
    "AsymmetricLoss": Entry(of_loss(lambda t: ss.AsymmetricLoss(task=t)), LABELS),
    "SurrogateFBetaLoss": Entry(of_loss(lambda t: ss.SurrogateFBetaLoss(CROSS[t])), LABELS),
    "LovaszLoss": Entry(of_loss(lambda t: ss.LovaszLoss(task=t))),
    "LovaszLoss in sets": Entry(
        with_gradient(lambda t, z, y, w, s: ss.LovaszLoss(task=t)(z, y, w, s))
    ),
    "Mixture": Entry(with_gradient(mixture)),
    "accumulate": Entry(accumulated(2)),
    "accumulate in one pass": Entry(accumulated(1)),
    "Accumulation": Entry(by_hand),
    "confusion": Entry(
        plain(
            lambda t, z, y, w, s: ss.confusion(z, y, task=t, sample_weight=w, from_logits=True).tp
        ),
        scale=False,
    ),
    "evaluate": Entry(evaluated("f1")),
    "evaluate auroc": Entry(evaluated("auroc")),
    "evaluate average_precision": Entry(evaluated("average_precision_micro")),
    "evaluate at k": Entry(evaluated("recall@2"), ("multiclass", "multilabel")),
    "evaluate in sets": Entry(plain(in_sets)),
    "best_threshold": Entry(tuned("f1"), LABELS),
    "best_threshold in turn": Entry(tuned("f1_micro"), LABELS),
    "best_threshold, left out": Entry(left_out(False), LABELS, copies=False),
    "best_threshold, shrunk and left out": Entry(left_out(True), LABELS, copies=False),
    "best_offsets": Entry(tuned("f1"), ("multiclass",)),
    "best_offsets, left out": Entry(left_out(False), ("multiclass",), copies=False),
    "best_offsets, shrunk and left out": Entry(left_out(True), ("multiclass",), copies=False),
    "best_offsets of a matrix": Entry(tuned("quadratic_kappa"), ("multiclass",)),
    "best_threshold, shrunk": Entry(plain(shrunk), ("multilabel",), copies=False),
    "best_offsets, shrunk": Entry(plain(shrunk), ("multiclass",), copies=False),
    "promise": Entry(promised("precision@recall>=0.5"), LABELS, copies=False),
    "promise of alerts": Entry(promised("recall@alerts<=20/40"), LABELS, copies=False),
    "promise of precision": Entry(promised("recall@precision>=0.4"), LABELS, copies=False),
    "promise of two": Entry(promised("f1@recall>=0.3&fpr<=0.8", True), LABELS, copies=False),
    "cost_decision": Entry(by_costs, ("binary",), copies=False),
    "metric_table": Entry(plain(intervals), copies=False),
    "reference": Entry(plain(reference), copies=False),
    "reference of classes": Entry(plain(rates_of_classes), ("multiclass",)),
    "threshold_interval": Entry(uncertain("interval"), copies=False),
    "tuning_gain": Entry(uncertain("gain"), LABELS, copies=False),
    "xgboost_objective": Entry(objective(ss.xgboost_objective, "f1"), ("binary", "multiclass")),
    "lightgbm_objective": Entry(objective(ss.lightgbm_objective, "mcc"), ("binary", "multiclass")),
}
CASES = [(name, task) for name, entry in ENTRIES.items() for task in entry.tasks]


@pytest.mark.parametrize(("name", "task"), CASES)
def test_weights_are_rows(name, task):
    entry = ENTRIES[name]
    z, y, w, sets = problem(task)
    each = torch.arange(N)
    found = entry.run(task, z, y, w, sets, each)
    some = torch.tensor(w > 0)
    without = entry.run(task, z[some], y[some], w[w > 0], sets[some], each[some])
    np.testing.assert_allclose(without, found, rtol=1e-9, atol=1e-12)
    if entry.copies:
        times = torch.tensor(w).long()
        parts = [t.repeat_interleave(times, 0) for t in (z, y, sets, each)]
        copies = entry.run(task, parts[0], parts[1], None, parts[2], parts[3])
        np.testing.assert_allclose(copies, found, rtol=1e-8, atol=1e-11)
    for factor in (1000.0, 1 / 1000) if entry.scale else ():
        scaled = entry.run(task, z, y, factor * w, sets, each)
        np.testing.assert_allclose(scaled, found, rtol=1e-8, atol=1e-11)


# --- classifiers ----------------------------------------------------------------------------------

SMALL = {"hidden_layer_sizes": (4,), "max_epochs": 12, "n_networks": 3, "learning_rate": 0.03}
SMALL |= {"validation_fraction": 0.34}
TREES = {"n_estimators": 8, "n_metric_estimators": 4, "patience": 4}
EVERY = {"bagging_fraction": 1.0, "feature_fraction": 1.0, "min_data_in_leaf": 5}
MODELS: dict[str, Callable[[], Any]] = {
    "MetricMLPClassifier": lambda: ss.MetricMLPClassifier(**SMALL, random_state=0),
    "MetricLinearClassifier": lambda: ss.MetricLinearClassifier(cv=3, path=(0.03,)),
    "MetricBoostingClassifier": lambda: ss.MetricBoostingClassifier(
        **TREES, params=EVERY, random_state=0
    ),
    "xgboost": lambda: ss.MetricBoostingClassifier(
        **TREES, library="xgboost", params={"subsample": 1, "colsample_bytree": 1},
        random_state=0,
    ),
    "forest": lambda: ss.MetricThresholdClassifier(
        RandomForestClassifier(15, random_state=0), cv="oob", random_state=0
    ),
    "MetricThresholdClassifier": lambda: ss.MetricThresholdClassifier(
        DecisionTreeClassifier(max_depth=4, random_state=0), cv=3, random_state=0
    ),
    "MetricEnsembleClassifier": lambda: ss.MetricEnsembleClassifier(
        base_models=["linear", "forest"], cv=2, random_state=0
    ),
}  # fmt: skip
STREAMED = ("MetricMLPClassifier", "MetricBoostingClassifier", "xgboost", "MetricLinearClassifier")


def table(task, n=160, seed=0):
    """Inputs and labels with a signal; classes 0, 1 (and 2)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    noisy = x + 0.7 * rng.normal(size=x.shape)
    if task == "multiclass":
        return x, noisy.argmax(1)
    y = (noisy[:, :2] > 0.6).astype(int)
    return x, y[:, 0] if task == "binary" else y


def fitted(name, x, y, w, streamed=False):
    model = MODELS[name]()
    w = np.ones(len(x)) if w is None else w
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if len(np.unique(w)) > 1:  # by what weighs, no model here is useless
            warnings.simplefilter("error", ConstantWarning)
        if streamed:
            return model.fit([(a, b, c) for a, b, c in zip(*map(_halves, (x, y, w)), strict=True)])
        return model.fit(x, y, w)


def _halves(a):
    return a[: len(a) // 2], a[len(a) // 2 :]


def described(model, x):
    """What it has learned: probabilities, the decision, and what it says about them."""
    found = [model.predict_proba(x), model.decision_.logit]
    if isinstance(model, ss.MetricThresholdClassifier):
        found += [model.interval_, list(model.gain_)]
    if isinstance(model, ss.MetricEnsembleClassifier):
        found += [model.score_, [part.weight for part in model.base_models_]]
    return np.concatenate([np.ravel(f) for f in found])


pytestmark = pytest.mark.usefixtures("quick_parts")
# Of those that are slow with several classes or labels, two classes alone.
SLOW = ("MetricEnsembleClassifier", "MetricThresholdClassifier")
FITS = [(n, task, False) for n in MODELS for task in (TASKS if n not in SLOW else ["binary"])]
FITS += [(name, "binary", True) for name in STREAMED]


@pytest.mark.parametrize(("name", "task", "streamed"), FITS)
def test_a_model_of_weight_0_rows_is_that_without_them_whatever_the_unit(name, task, streamed):
    x, y = table(task)
    rng = np.random.default_rng(1)
    w = rng.uniform(0.3, 2, len(x)) * (rng.random(len(x)) < 0.8)
    found = described(fitted(name, x, y, w, streamed), x)
    without = fitted(name, x[w > 0], y[w > 0], 1024 * w[w > 0], streamed)
    np.testing.assert_allclose(described(without, x), found, rtol=1e-6, atol=1e-9)


SLOW = ("MetricEnsembleClassifier", "MetricThresholdClassifier")  # of several classes


LIED_TO = [(*f, None) for f in FITS if f[0] not in SLOW or f[1] == "binary"]
LIED_TO += [("MetricLinearClassifier", t, b, 160) for t in TASKS for b in (False, True)]


@pytest.mark.parametrize(("name", "task", "streamed", "most"), LIED_TO)
def test_rows_of_little_weight_decide_nothing(name, task, streamed, most, monkeypatch):
    """Most rows are lies, and weigh a thousandth: what is learned, held out, chosen and said is
    about the others. A path may be chosen on a sample of ``most`` rows."""
    monkeypatch.setattr(path, "MOST_ROWS", most or path.MOST_ROWS)
    x, y = table(task, 400, seed=2)
    truth = np.random.default_rng(3).random(len(x)) < 0.4
    lies = np.where(truth, y, (y + 1) % 3) if task == "multiclass" else y.copy()
    if task != "multiclass":
        lies[~truth] = 1 - lies[~truth]
    w = np.where(truth, 1.0, 1e-3)
    model = fitted(name, x, lies, w, streamed)
    clean, labels = table(task, 400, seed=4)
    known = fitted(name, x[truth], y[truth], np.ones(truth.sum()), streamed)
    right, wanted = ((m.predict(clean) == labels).mean() for m in (model, known))
    assert right > wanted - 0.08
    assert right > (fitted(name, x, lies, None, streamed).predict(clean) == labels).mean() + 0.1
    assert model.score(x, lies, w) == pytest.approx(model.score(x[truth], y[truth]), abs=0.02)
    # Of few rows that are held out, as far as it is no chance.
    prior = [m.reference_.prior.ravel() for m in (model, known)]
    assert prior[0] == pytest.approx(prior[1], abs=0.12)
    if task == "binary":  # of both classes, how many scores are high
        high = [m.reference_.fraction_above(0, 0.0) for m in (model, known)]
        assert high[0] == pytest.approx(high[1], abs=0.3)
    if isinstance(model, ss.MetricEnsembleClassifier):
        assert model.score_ == pytest.approx(known.score_, abs=0.08)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier that learns nothing: its first column is the logit."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


@pytest.mark.filterwarnings("ignore:Given.fit takes no sample_weight")
def test_what_is_said_of_a_threshold_is_about_weighted_rows():
    """Of the rows that weigh something, those beyond 1.5 are positive; of the more numerous others,
    those beyond -1.5."""
    rng = np.random.default_rng(0)
    z = rng.normal(scale=2, size=600)
    heavy = rng.random(600) < 0.4
    y = (z + 0.5 * rng.normal(size=600) > np.where(heavy, 1.5, -1.5)).astype(int)
    for factor in (1.0, 1000.0):
        w = factor * np.where(heavy, 1.0, 1e-3)
        model = ss.MetricThresholdClassifier(Given(), "f1", random_state=0).fit(z[:, None], y, w)
        for cut in (model.threshold_, *model.interval_):
            assert 0 < np.log(cut / (1 - cut)) < 3
        plain = f1_score(y, z >= 0, sample_weight=w)
        assert model.gain_.plain == pytest.approx(plain, abs=1e-12)
        best = f1_score(y, z >= 1.5, sample_weight=w)
        assert model.gain_.value == pytest.approx(best, abs=0.05)
        assert model.gain_.low < model.gain_.gain < model.gain_.high
        assert model.gain_.low > (best - plain) / 3


@pytest.mark.parametrize("most", [20_000, 150])
@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_parts_of_an_ensemble_are_weighed_by_weighted_rows(factor, most, monkeypatch):
    """One part is right about the rows that weigh something, the other about the others; all of
    them, or a sample."""
    monkeypatch.setattr(blending, "MOST_ROWS", most)
    rng = np.random.default_rng(0)
    y, heavy = rng.integers(0, 2, 400), rng.random(400) < 0.4
    right = rng.normal(size=(2, 400)) + 3 * y - 1.5
    lost = rng.normal(size=(2, 400))
    scores = np.where([heavy, ~heavy], right, lost)
    w, tuner = np.where(heavy, 1.0, 1e-3), Tuner(ss.get_metric("f1"), "binary")
    found = blending.blend_weights(scores, y, factor * w, tuner)
    assert found[0] > 0.65
    assert blending.blend_weights(scores, y, np.where(heavy, 1e-3, factor), tuner)[1] > 0.65


@pytest.mark.parametrize("task", TASKS)
def test_a_model_of_a_table(task):
    x, y = table(task)
    w = np.random.default_rng(1).integers(0, 3, len(x)).astype(float)
    frame, some = pd.DataFrame(x, columns=list("abc")), w > 0
    settings = {"recipe": "linear-tuned"}
    found = ss.train_model(frame, y, sample_weight=w, **settings)
    without = ss.train_model(frame[some], y[some], sample_weight=w[some], **settings)
    np.testing.assert_allclose(without.predict_proba(frame), found.predict_proba(frame), rtol=1e-6)


# --- nothing is forgotten -------------------------------------------------------------------------

# By another name above, or a table around a classifier of above.
ELSEWHERE = {
    "train_model": "test_a_model_of_a_table",
    "train_members": "classes only",
}


def test_every_entry_that_takes_weights_is_here():
    known = {name.split(",")[0].split(" ")[0] for name in ENTRIES} | set(MODELS) | set(ELSEWHERE)
    for name in ss.__all__:
        thing = getattr(ss, name)
        if not callable(thing):
            continue
        calls = (
            [thing]
            if not inspect.isclass(thing)
            else [getattr(thing, m) for m in ("fit", "forward", "__call__") if m in dir(thing)]
        )
        takes = any("sample_weight" in _parameters(call) for call in calls)
        assert not takes or name in known, f"{name} takes weights: add it here"


def _parameters(call):
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return {}
