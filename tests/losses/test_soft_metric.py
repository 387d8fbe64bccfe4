from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F

import softset as ss
from tests.reference import TASKS, random_problem

MEAN_LOSSES = {
    "cross-entropy": ss.CrossEntropyLoss,
    "absolute": ss.MeanAbsoluteErrorLoss,
    "focal": ss.FocalLoss,
    "focal 0.5": lambda **k: ss.FocalLoss(0.5, **k),
}


def every_loss(task):
    for make in MEAN_LOSSES.values():
        yield make(task=task)
    yield ss.MetricLoss("f1", task=task)
    if task != "multiclass":
        p = 0.3 if task == "binary" else [0.3, 0.4, 0.5, 0.6]
        yield ss.SurrogateFBetaLoss(p)
        yield ss.SurrogateFBetaLoss(p, beta=2, q=0.7)


# the metric


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


# the others


def test_cross_entropies_equal_pytorch():
    z, y = random_problem("binary")
    torch.testing.assert_close(
        ss.CrossEntropyLoss()(z, y), F.binary_cross_entropy_with_logits(z, y.double())
    )
    z, y = random_problem("multilabel")
    torch.testing.assert_close(
        ss.CrossEntropyLoss(task="multilabel")(z, y),
        F.binary_cross_entropy_with_logits(z, y.double()),
    )
    z, y = random_problem("multiclass")
    torch.testing.assert_close(ss.CrossEntropyLoss(task="multiclass")(z, y), F.cross_entropy(z, y))


def test_absolute_and_focal_by_hand():
    p = torch.tensor([0.8, 0.3], dtype=torch.float64)
    z, y = torch.logit(p), torch.tensor([1, 0])
    right = torch.tensor([0.8, 0.7], dtype=torch.float64)
    torch.testing.assert_close(ss.MeanAbsoluteErrorLoss()(z, y), (2 - 2 * right).mean())
    focal = (-((1 - right) ** 3) * right.log()).mean()
    torch.testing.assert_close(ss.FocalLoss(3.0)(z, y), focal)
    two = torch.stack([torch.zeros(2, dtype=torch.float64), z], 1)
    for make in MEAN_LOSSES.values():
        torch.testing.assert_close(make(task="multiclass")(two, y), make()(z, y))
    torch.testing.assert_close(ss.FocalLoss(0.0)(z, y), ss.CrossEntropyLoss()(z, y))


def test_class_balanced_weights_are_those_of_the_training_set():
    z, y = random_problem("binary", n=60)
    v = ss.balanced_class_weight(y)
    assert v.tolist() == [60 / 40, 60 / 20]
    each = F.binary_cross_entropy_with_logits(z, y.double(), reduction="none")
    expected = each[y == 1].mean() + each[y == 0].mean()  # paper 004 eq. 15
    torch.testing.assert_close(ss.CrossEntropyLoss(class_weight=v)(z, y), expected)
    with pytest.raises(ValueError, match="every class 0 to 2"):
        ss.balanced_class_weight(y, classes=3)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_surrogate_by_hand(beta):
    p, f = 0.2, torch.tensor([0.7, 0.4], dtype=torch.float64)
    z, y = torch.logit(f), torch.tensor([1, 0])
    c = beta**2 * p / (1 - p)
    positive, negative = -math.log(0.7), math.log(c + 0.4)
    plain = ss.SurrogateFBetaLoss(p, beta, class_balanced=False)
    assert plain(z, y).item() == pytest.approx((positive + negative) / 2)
    balanced = ss.SurrogateFBetaLoss(p, beta)
    assert balanced(z, y).item() == pytest.approx((positive / 0.2 + negative / 0.8) / 2)
    q = 0.6
    noisy = ss.SurrogateFBetaLoss(p, beta, q=q, class_balanced=False)  # eq. 25
    expected = (1 - 0.7**q) / q + ((c + 0.4) ** q - 1) / q
    assert noisy(z, y).item() == pytest.approx(expected / 2)


def test_surrogate_limits_in_q():
    z, y = random_problem("binary")
    limit = ss.SurrogateFBetaLoss(0.3, 2.0)(z, y)
    gaps = [abs(ss.SurrogateFBetaLoss(0.3, 2.0, q=q)(z, y) - limit) for q in (1e-2, 1e-5, 1e-9)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-8
    half = ss.SurrogateFBetaLoss(0.5, 1.0, q=1.0, class_balanced=False)(z, y)
    torch.testing.assert_close(half, ss.MeanAbsoluteErrorLoss()(z, y) / 2)


def test_surrogate_has_the_gradient_condition_of_f_beta():
    # paper 004 eq. 22: with equal scores in each class, Jensen's inequality is an equality, and the
    # derivatives by the two class means stand in the ratio of eq. 12
    q0, q1, p, beta = 0.3, 0.1, 0.2, 1.5
    z = torch.logit(torch.tensor([1 - q0] * 2 + [q1] * 8, dtype=torch.float64)).requires_grad_()
    y = torch.tensor([1] * 2 + [0] * 8)
    f = torch.sigmoid(z)
    mean0, mean1 = (1 - f[:2]).mean(), f[2:].mean()
    by_mean = []
    for mean in (mean0, mean1):
        (g,) = torch.autograd.grad(mean, z, retain_graph=True)
        (total,) = torch.autograd.grad(ss.SurrogateFBetaLoss(p, beta)(z, y), z)
        by_mean.append((total @ g) / (g @ g))
    expected = (1 / (1 - q0)) / (1 / (beta**2 * p / (1 - p) + q1))
    assert (by_mean[0] / by_mean[1]).item() == pytest.approx(expected)


@pytest.mark.parametrize("task", TASKS)
def test_all_losses_share_one_signature(task):
    z, y = random_problem(task, n=20)
    w = torch.arange(20) % 3
    repeated = z.repeat_interleave(w, 0), y.repeat_interleave(w, 0)
    for loss in every_loss(task):
        assert loss(z, y).shape == ()
        torch.testing.assert_close(loss(z, y, w), loss(*repeated))
        assert loss(z.float(), y).dtype == torch.float32
        for copied in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
            assert torch.equal(copied(z, y), loss(z, y))
        x = z.clone().requires_grad_()
        assert torch.autograd.gradcheck(loss, (x, y))
        assert torch.autograd.gradgradcheck(loss, (x, y))


@pytest.mark.parametrize("task", TASKS)
def test_all_losses_survive_extreme_logits(task):
    for size in (20.0, 1e4):
        shape = (6,) if task == "binary" else (6, 4)
        z = torch.full(shape, size)
        z[::2] = -size
        y = (
            torch.zeros(6).long()
            if task == "multiclass"
            else (torch.arange(z.numel()) % 2).reshape(shape)
        )
        for dtype in (torch.float32, torch.bfloat16):
            for loss in every_loss(task):
                x = z.to(dtype, copy=True).requires_grad_()
                value = loss(x, y)
                value.backward()
                assert torch.isfinite(value), loss
                assert torch.isfinite(x.grad).all(), loss


@pytest.mark.parametrize("task", TASKS)
def test_ignored_entries_are_left_out_of_every_loss(task):
    z, y = random_problem(task, n=20)
    marked = y.clone()
    marked[:4] = -1
    for make in (*MEAN_LOSSES.values(), lambda **k: ss.MetricLoss("f1", **k)):
        loss = make(task=task, ignore_index=-1)
        torch.testing.assert_close(loss(z, marked), loss(z[4:], y[4:]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.SurrogateFBetaLoss(0), "prevalence must be in"),
        (lambda: ss.SurrogateFBetaLoss(0.5, beta=-1), "beta must be in"),
        (lambda: ss.SurrogateFBetaLoss(0.5, q=2), "q must be in"),
        (lambda: ss.FocalLoss(-1), "gamma must be in"),
        (lambda: ss.CrossEntropyLoss(task="x"), "task must be one of"),
        (lambda: ss.CrossEntropyLoss(class_weight={0: 1.0}), "class_weight must hold numbers"),
        (lambda: ss.MetricLoss(class_weight={0: 1.0}), "class_weight must hold numbers"),
        (lambda: ss.balanced_class_weight(["a", "b"]), "target must hold numbers"),
        (lambda: ss.CrossEntropyLoss()(torch.zeros(2), torch.tensor([-1, 1])), "target > 0"),
        (
            lambda: ss.CrossEntropyLoss(class_weight=[1.0])(torch.zeros(2), torch.ones(2)),
            "class_weight",
        ),
        (
            lambda: ss.CrossEntropyLoss(task="multiclass")(torch.zeros(2, 2), torch.tensor([0, 2])),
            "classes 0 to 1",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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


@pytest.mark.parametrize("step", [None, ss.SigmoidStep(), ss.HardStep()])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_a_long_column_has_the_counts_of_its_float64_copy(step, kind):
    """Float32 is summed by blocks of rows; 150,001 rows end in the middle of one."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(150_001, generator=generator) - 3
    y = torch.rand(150_001, generator=generator) < 0.02
    step = ss.LinearStep(0.1) if step is None else step
    found = ss.confusion(z, y.to(kind), step=step)
    exact = ss.confusion(z.double(), y, step=step)
    for cell in ("tp", "fp", "fn", "tn"):
        torch.testing.assert_close(getattr(found, cell), getattr(exact, cell), rtol=2e-7, atol=0)


@pytest.mark.parametrize("label", [0.5, 2.0, -1.0, 1e-6, float("nan")])
def test_a_stray_label_is_found_in_a_long_column(label):
    y = torch.zeros(150_001)
    y[::50] = 1
    y[140_003] = label
    with pytest.raises(ValueError, match="target must hold 0 and 1 only"):
        ss.metric_loss(torch.zeros(150_001), y)
