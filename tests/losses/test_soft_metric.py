from __future__ import annotations

import pytest
import torch

import softset as ss
from tests.reference import TASKS, random_problem


def test_the_module_is_the_function():
    for task in TASKS:
        z, y = random_problem(task)
        w = torch.rand(60)
        loss = ss.MetricLoss("f2", task=task, step=ss.SigmoidStep(5))
        assert loss(z, y, w) == ss.metric_loss(
            z, y, "f2", task=task, step=ss.SigmoidStep(5), sample_weight=w
        )
        c = loss.confusion(z, y)
        assert ss.FBeta(2)(c).item() == pytest.approx(1 - loss(z, y).item())
        assert not c.tp.requires_grad
    assert "FBeta" in repr(loss)


def test_default_steps_are_those_of_the_papers():
    assert ss.MetricLoss().step == ss.LinearStep(0.1)
    assert ss.MetricLoss(task="multilabel").step == ss.LinearStep(0.1)
    assert ss.MetricLoss(task="multiclass").step == ss.LinearStep(0.2, 1.0)


def test_smoothed_f_beta_of_seed_004():
    # eq. 24 in smoothed proportions equals F-beta of the counts with the identity step
    z, y = random_problem("binary")
    f, yes = torch.sigmoid(z), y == 1
    p, q0, q1 = yes.double().mean(), (1 - f[yes]).mean(), f[~yes].mean()
    for beta in (0.5, 1.0, 3.0):
        b = beta**2
        expected = (1 + b) * p * (1 - q0) / (p * (b + 1 - q0 - q1) + q1)
        got = 1 - ss.metric_loss(z, y, ss.FBeta(beta), step=ss.IdentityStep())
        torch.testing.assert_close(got, expected)


def test_a_batch_without_positives():
    z, y = torch.tensor([2.0, -1.0, 0.3], dtype=torch.float64), torch.zeros(3)
    h = ss.LinearStep()(torch.sigmoid(z), 0.5)
    assert ss.metric_loss(z, y).item() == pytest.approx(h.mean().item())
    ignoring = z.clone().requires_grad_()
    loss = ss.metric_loss(ignoring, y, empty="ignore")
    assert loss.item() == 0
    loss.backward()
    assert (ignoring.grad == 0).all()
    # of two labels, the one with support counts
    two, labels = torch.stack([z, z], 1), torch.tensor([[0, 1], [0, 0], [0, 1]])
    only = ss.metric_loss(z, labels[:, 1])
    assert ss.metric_loss(two, labels, task="multilabel", empty="ignore").item() == pytest.approx(
        only.item()
    )
    both = ss.metric_loss(two, labels, task="multilabel")
    assert both.item() == pytest.approx((only.item() + h.mean().item()) / 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f11x"}, "not known"),
        ({"empty": "drop"}, "empty must be one of"),
        ({"task": "regression"}, "task must be one of"),
        ({"threshold": 1.0}, "threshold must be in"),
        ({"task": "multiclass", "threshold": 0.3}, "do not apply to task='multiclass'"),
        ({"metric": ss.F1(average=None)}, "average=None"),
        ({"metric": ss.MCC(average="micro"), "task": "multiclass"}, "does not fit MCC"),
        ({"metric": ss.FBeta((1, 2))}, "beta has 2 values"),
    ],
)
def test_mistakes_are_found_when_the_loss_is_made(settings, message):
    with pytest.raises(ValueError, match=message):
        ss.MetricLoss(**settings)


def test_it_trains():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=g)
    y = (x[:, 0] + 0.5 * torch.randn(400, generator=g) > 1.3).long()
    for metric in ("f1", "mcc", "balanced_accuracy", "auroc"):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        loss, optimiser = ss.MetricLoss(metric), torch.optim.Adam(model.parameters(), 0.1)
        before = ss.evaluate(model(x), y, metric)
        for _ in range(100):
            optimiser.zero_grad()
            loss(model(x), y).backward()
            optimiser.step()
        assert ss.evaluate(model(x), y, metric) > max(before, 0.5)


@pytest.mark.parametrize("metric", ["f1", "f2", "precision", "recall", "jaccard"])
@pytest.mark.parametrize("empty", ["penalise", "ignore"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_short_way_leads_to_the_same_loss(metric, empty, task, monkeypatch):
    z, y = random_problem(task, n=50)
    w = torch.rand(50, dtype=torch.float64)
    settings = {"task": task, "empty": empty} | ({"threshold": 0.3} if task == "binary" else {})
    for labels, weights in ((y, w), (y, None), (y * 0, w)):
        short, long = z.clone().requires_grad_(), z.clone().requires_grad_()
        a = ss.metric_loss(short, labels, metric, sample_weight=weights, **settings)
        with monkeypatch.context() as without:
            without.setattr("softset.losses.soft_metric._shortcut", lambda *_, **__: None)
            b = ss.metric_loss(long, labels, metric, sample_weight=weights, **settings)
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        (a * 3).backward()
        (b * 3).backward()
        torch.testing.assert_close(short.grad, long.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("n", [50, 150_001])
def test_a_graph_can_be_walked_twice(task, n):
    """The gradient is written over what the forward pass left: a second walk must not see that."""
    generator = torch.Generator().manual_seed(0)
    classes = 3 if task == "multiclass" else 2
    y = torch.randint(0, classes, (n,), generator=generator)
    shape = (n, classes) if task == "multiclass" else (n,)
    z = torch.randn(shape, generator=generator).requires_grad_()
    loss = ss.metric_loss(z, y, "f1", task=task)
    (first,) = torch.autograd.grad(loss, z, retain_graph=True)
    before = first.clone()
    (second,) = torch.autograd.grad(loss, z)
    assert torch.equal(first, before)
    assert torch.equal(second, before)
