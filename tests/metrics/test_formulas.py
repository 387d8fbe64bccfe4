from __future__ import annotations

import pytest
import sklearn.metrics as skm
import torch

import softset as ss
from tests.reference import random_problem


def test_f_beta_by_hand():
    # tp 4, fp 1, fn 2: precision 0.8, recall 2/3
    c = ss.Confusion.from_matrix([[5, 1], [2, 4]], task="binary")
    assert float(ss.F1()(c)) == pytest.approx(8 / 11)
    for beta in (0.5, 1.0, 2.0):
        b = beta**2
        expected = (1 + b) * 0.8 * (2 / 3) / (b * 0.8 + 2 / 3)
        assert float(ss.FBeta(beta)(c)) == pytest.approx(expected)


def test_beta_for_each_class():
    z, y = random_problem("multiclass", classes=3)
    each = ss.evaluate(z, y, ss.FBeta((0.5, 1, 2), average=None), task="multiclass")
    for k, beta in enumerate((0.5, 1, 2)):
        expected = skm.fbeta_score(y, z.argmax(1), beta=beta, average=None)[k]
        assert each[k] == pytest.approx(expected)
    with pytest.raises(ValueError, match="beta has 2 values"):
        ss.metric_loss(z, y, ss.FBeta((1, 2)), task="multiclass")


@pytest.mark.parametrize(
    "name",
    ["f1", "f1_macro", "f1_micro", "f1_weighted", "precision_macro", "recall_weighted",
     "jaccard_micro", "accuracy", "balanced_accuracy", "matthews_corrcoef", "roc_auc",
     "average_precision"],
)  # fmt: skip
def test_scorer_names_mean_what_they_mean_in_scikit_learn(name):
    z, y = random_problem("binary", n=90)
    scorer = skm.get_scorer(name)
    scores = torch.sigmoid(z) if name in ("roc_auc", "average_precision") else (z >= 0)
    kwargs = {k: v for k, v in scorer._kwargs.items() if k != "pos_label"}
    expected = scorer._score_func(y.numpy(), scores.numpy(), **kwargs)
    assert ss.evaluate(z, y, name) == pytest.approx(expected, abs=1e-12)


def test_names_lead_back_to_the_metric():
    for name in ss.METRICS:
        assert ss.get_metric(name).name == name
        assert ss.get_metric(ss.get_metric(name).name) == ss.get_metric(name)
    for name in ("f3", "f1_micro", "f2_macro", "recall_weighted"):
        assert ss.get_metric(name).name == name
    assert ss.get_metric("F1") == ss.F1()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("f1_scor", "Did you mean 'f1'"),
        ("recal", "Did you mean 'recall'"),
        ("mcc_macro", "mcc is not averaged"),
        ("f0", "not known"),
        (3, "metric must be a name"),
        (ss.MCC, "must be called first"),
    ],
)
def test_unknown_metrics_are_refused_with_a_hint(metric, message):
    with pytest.raises(ValueError, match=message):
        ss.get_metric(metric)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "x", [1, 0]])
def test_bad_beta_is_refused(bad):
    with pytest.raises(ValueError, match="beta must be"):
        ss.FBeta(bad)


def test_bad_average_is_refused():
    with pytest.raises(ValueError, match="average must be one of"):
        ss.F1(average="mean")
    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="does not fit MCC"):
        ss.evaluate(z, y, ss.MCC(average="micro"), task="multiclass")


def test_a_class_neither_present_nor_predicted_does_not_count():
    y, said = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0])
    z = torch.nn.functional.one_hot(said, 4).double()
    for name in ("f1", "recall", "jaccard"):
        expected = getattr(skm, f"{name}_score")(y, said, average="macro")
        assert ss.evaluate(z, y, name, task="multiclass") == pytest.approx(expected)
    # a loss averages over the classes with support
    z = torch.randn(4, 4, dtype=torch.float64)
    c = ss.confusion(z, y, task="multiclass", step=ss.LinearStep.at_temperature(0.2))
    f1 = ss.F1(average=None)(c)
    assert ss.metric_loss(z, y, "f1", task="multiclass").item() == pytest.approx(
        1 - f1[:2].mean().item()
    )


def test_mcc_does_not_overflow():
    cell = 100_000_000
    c = ss.Confusion.from_matrix(torch.tensor([[cell, cell // 2], [cell // 4, cell]]), "binary")
    small = ss.Confusion.from_matrix([[4, 2], [1, 4]], "binary")
    assert float(ss.MCC()(c)) == pytest.approx(float(ss.MCC()(small)))


# your own


def cost(c):
    return 1 - (5 * c.fn + c.fp) / c.total


def test_a_custom_metric_is_a_loss_an_evaluator_and_a_tuner():
    z, y = random_problem("binary", n=80)
    said = z >= 0
    fn, fp = ((y == 1) & ~said).sum(), ((y == 0) & said).sum()
    assert ss.evaluate(z, y, cost) == pytest.approx(1 - (5 * fn + fp).item() / 80)
    x = z.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ss.metric_loss(x, y, cost), (x,))
    tau = ss.best_threshold(z, y, cost)
    assert ss.evaluate(z, y, cost, threshold=tau) >= ss.evaluate(z, y, cost)
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
    hard = ss.confusion(z, y, task="multiclass", matrix=True).matrix
    expected = 1 - (hard[0, -1] + hard[-1, 0]).item() / len(y)
    got = ss.evaluate(z, y, no_confusion_of_first_with_last, task="multiclass")
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
    with pytest.raises(ValueError, match=f"is refused: on made-up binary counts.*({message})"):
        ss.MetricLoss(metric)
