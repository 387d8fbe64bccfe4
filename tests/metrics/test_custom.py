from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as skm
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from softset.tasks import BINARY, MULTICLASS, MULTILABEL
from tests.reference import random_problem


def cost(c):
    return 1 - (5 * c.fn + c.fp) / c.total


def test_a_custom_metric_is_a_loss_an_evaluator_and_a_tuner():
    z, y = random_problem("binary", n=80)
    said = z >= 0
    fn, fp = ((y == 1) & ~said).sum(), ((y == 0) & said).sum()
    assert ss.evaluate(z, y, cost, from_logits=True) == pytest.approx(1 - (5 * fn + fp).item() / 80)
    x = z.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ss.metric_loss(x, y, cost), (x,))
    tau = ss.best_threshold(z, y, cost, from_logits=True)
    assert ss.evaluate(z, y, cost, threshold=tau, from_logits=True) >= ss.evaluate(
        z, y, cost, from_logits=True
    )
    grid = ss.metric_loss(x, y, cost, thresholds=[0.3, 0.6])
    each = [ss.metric_loss(x, y, cost, threshold=t) for t in (0.3, 0.6)]
    assert grid.item() == pytest.approx(sum(e.item() for e in each) / 2)


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_a_custom_metric_sees_one_confusion_at_a_time(task):
    def worst_recall(c):
        return (c.tp / c.support).min()

    parts = [random_problem(task, seed=s) for s in range(3)]
    z, y = (torch.stack([p[k] for p in parts]) for k in (0, 1))
    together = ss.metric_loss(z, y, worst_recall, task=task, batch_dims=1)
    alone = [ss.metric_loss(a, b, worst_recall, task=task) for a, b in parts]
    torch.testing.assert_close(together, torch.stack(alone))


def test_a_custom_metric_that_reads_the_matrix_gets_it():
    def no_confusion_of_first_with_last(c):
        return 1 - (c.matrix[0, -1] + c.matrix[-1, 0]) / c.total[0]

    z, y = random_problem("multiclass")
    z.requires_grad_()
    loss = ss.MetricLoss(no_confusion_of_first_with_last, task="multiclass")
    assert torch.autograd.gradcheck(lambda z: loss(z, y), (z,))
    hard = ss.confusion(z, y, task="multiclass", matrix=True, from_logits=True).matrix
    expected = 1 - (hard[0, -1] + hard[-1, 0]).item() / len(y)
    got = ss.evaluate(z, y, no_confusion_of_first_with_last, task="multiclass", from_logits=True)
    assert got == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda c: c.tp / (c.tp - c.tp), "it is inf|it is nan"),
        (lambda c: torch.floor(c.tp / c.total), "its gradient is zero"),
        (lambda c: c.tp.detach() / c.total.detach(), "no gradient"),
        (lambda c: c.tp.item() / c.total.item(), "returned float, not a tensor"),
        (lambda c: torch.stack([c.tp, c.fp]), "not one number"),
        (lambda c: c.true_positives, "it raised AttributeError"),
        (lambda c: torch.sqrt(c.tp - c.tp) + c.tp, "gradient is not finite"),
    ],
)
def test_a_custom_metric_that_cannot_be_trained_on_is_refused(metric, message):
    with pytest.raises(ValueError, match=f"is refused: on example binary counts.*({message})"):
        ss.MetricLoss(metric)


def test_a_function_without_a_gradient_may_judge():
    def rounded(c):
        return torch.floor(10 * c.matrix.diagonal().sum() / c.total[0]) / 10

    z, y = random_problem("multiclass")
    right = (z.argmax(1) == y).double().mean().item()
    assert ss.evaluate(z, y, rounded, task="multiclass", from_logits=True) == pytest.approx(
        int(10 * right) / 10
    )
    with pytest.raises(ValueError, match="is refused"):
        ss.metric_loss(z, y, rounded, task="multiclass")


def test_who_reads_the_matrix_is_told_by_the_error_not_by_its_words():
    """A function that fails with the same words is refused for failing."""

    def grumbling(c):
        raise ValueError("pass matrix=True")

    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="refused: on example multiclass counts it raised"):
        ss.metric_loss(z, y, grumbling, task="multiclass")
    trace = ss.get_metric(lambda c: c.matrix.diagonal().sum() / c.total[0])
    diagonal = ss.get_metric(lambda c: c.tp.sum() / c.total[0])
    assert trace.wants_matrix(MULTICLASS, 4, training=True)
    assert not diagonal.wants_matrix(MULTICLASS, 4, training=True)
    assert diagonal.wants_matrix(MULTICLASS, 4)  # where it judges it may read what it likes
    assert not any(m.wants_matrix(t, 2) for m in (trace, ss.F1()) for t in (BINARY, MULTILABEL))


# --- one number -----------------------------------------------------------------------------------

X = np.random.RandomState(0).randn(60, 3)
Y = (X + np.random.RandomState(1).randn(60, 3)).argmax(1)
Z = torch.from_numpy(X)


def iou_of_each(c):
    return c.tp / (c.tp + c.fp + c.fn)


def loaded():
    rows = TensorDataset(Z.float(), torch.from_numpy(Y))
    return DataLoader(rows, batch_size=60), DataLoader(rows, batch_size=60)


JUDGED = {"task": "multiclass"}
TAKING_A_METRIC = {
    "evaluate": lambda m: ss.evaluate(Z, Y, m, **JUDGED),
    "metric_loss": lambda m: ss.metric_loss(Z, Y, m, **JUDGED),
    "MetricLoss": lambda m: ss.MetricLoss(m, **JUDGED)(Z, torch.from_numpy(Y)),
    "best_offsets": lambda m: ss.best_offsets(Z, Y, m, from_logits=True),
    "best_threshold": lambda m: ss.best_threshold(
        Z, np.eye(3)[Y], m, task="multilabel", from_logits=True
    ),
    "fit": lambda m: ss.training.fit(
        torch.nn.Linear(3, 3), "cross-entropy", *loaded(), metric=m, **JUDGED
    ),
    "network": lambda m: ss.MetricMLPClassifier(m, n_networks=1, max_epochs=1).fit(X, Y),
    "linear": lambda m: ss.MetricLinearClassifier(m).fit(X, Y),
    "forest": lambda m: ss.MetricThresholdClassifier(RandomForestClassifier(5), m, cv="oob").fit(
        X, Y
    ),
    "boosting": lambda m: ss.MetricBoostingClassifier(m, n_estimators=1).fit(X, Y),
    "threshold": lambda m: ss.MetricThresholdClassifier(LogisticRegression(), m).fit(X, Y),
    "ensemble": lambda m: ss.MetricEnsembleClassifier(m, base_models=["forest"], cv=2).fit(X, Y),
    "score": lambda m: ss.MetricLinearClassifier(m, threshold=None).fit(X, Y).score(X, Y),
    "lightgbm": lambda m: ss.lightgbm_objective(m)(Y, X),
    "xgboost": lambda m: ss.xgboost_objective(m)(Y, X),
    "compare": lambda m: ss.compare(X, Y, m, candidates=["linear", "linear-tuned"], n_jobs=1),
}


@pytest.mark.parametrize("name", TAKING_A_METRIC)
def test_a_metric_of_several_numbers_is_refused_by_all(name):
    wanted = r"metric iou_of_each .*(must return one number.*got shape|returned shape) \[3\]"
    with pytest.raises(ValueError, match=wanted):
        TAKING_A_METRIC[name](iou_of_each)
    if name not in ("evaluate", "score"):
        with pytest.raises(ValueError, match="average=None gives several numbers"):
            TAKING_A_METRIC[name](ss.F1(average=None))


def cost_with_an_if(c):
    """A plain ``if`` on a value."""
    if c.fp > c.tp:
        return 0.5 * c.tp / (c.tp + c.fp + 1)
    return c.tp / (c.tp + c.fp + 1)


def cost_by_where(c):
    return torch.where(c.fp > c.tp, 0.5, 1.0) * c.tp / (c.tp + c.fp + 1)


@pytest.mark.parametrize("call", [ss.best_threshold, ss.evaluate])
def test_a_metric_with_a_plain_if_is_that_with_where(call):
    z, y = random_problem("binary", n=40)
    assert call(z, y, cost_with_an_if) == pytest.approx(call(z, y, cost_by_where))


def test_a_metric_with_a_plain_if_trains_and_tunes_a_classifier():
    x = np.random.default_rng(0).normal(size=(80, 2))
    y = (x[:, 0] > 0.8).astype(int)
    plain = ss.MetricLinearClassifier(cost_with_an_if, cv=2, path=()).fit(x, y)
    other = ss.MetricLinearClassifier(cost_by_where, cv=2, path=()).fit(x, y)
    assert plain.threshold_ == pytest.approx(other.threshold_)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (ss.F1, r"metric must be called first: F1\(\)"),
        (skm.f1_score, "scikit-learn's f1_score. Pass 'f1'"),
        (skm.matthews_corrcoef, "Pass 'mcc'"),
        (skm.hinge_loss, "scikit-learn's hinge_loss"),
    ],
)
def test_a_metric_that_is_none_is_refused_in_one_line_that_names_ours(metric, message):
    x, y = np.arange(20.0)[:, None], np.arange(20) % 2
    for call in (
        lambda: ss.MetricLoss(metric),
        lambda: ss.MetricLinearClassifier(metric).fit(x, y),
        lambda: ss.evaluate(x[:, 0] - 5, y, metric),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
