from __future__ import annotations

import copy
import pickle

import pytest
import torch

import softset as ss
from softset.losses.running import RunningCounts
from tests.reference import TASKS, is_area, random_problem

CASES = [
    ("f1", {}),
    ("mcc", {}),
    ("auroc", {}),
    ("f1", {"task": "multiclass"}),
    ("auroc", {"task": "multiclass"}),
    ("f1", {"task": "multilabel"}),
    ("jaccard", {"thresholds": [0.25, 0.5, 0.75]}),
    (lambda c: c.matrix.diagonal().sum() / c.total[0], {"task": "multiclass"}),
]


def by_hand(metric, settings, batches, ema_decay):
    """Loss and gradient of the last batch: counts are weighted by powers of ``ema_decay``, and the
    metric's slope at their mean meets the derivative of the last ones."""
    metric = ss.get_metric(metric)
    task, grid = settings.get("task", "binary"), settings.get("thresholds")
    if is_area(metric):
        grid = [i / 100 for i in range(1, 100)]
        if task == "multiclass":
            batches = [
                (torch.softmax(z, 1), torch.nn.functional.one_hot(y, z.shape[1]))
                for z, y in batches
            ]
    multi = task == "multiclass" and not is_area(metric)
    step = ss.LinearStep.at_temperature(0.2) if task == "multiclass" else ss.LinearStep(0.1)
    count = {
        "task": "multilabel" if task == "multiclass" and is_area(metric) else task,
        "from_logits": not (task == "multiclass" and is_area(metric)),
        "step": step,
        "thresholds": grid,
        "matrix": multi,
    }
    each = [ss.confusion(z, y, **count) for z, y in batches]
    weights = [ema_decay ** (len(each) - 1 - t) for t in range(len(each))]
    names = ["tp", "fp", "fn", "tn"] + (["counted_matrix"] if multi else [])
    mean = {
        n: sum(w * getattr(c, n).detach() for w, c in zip(weights, each, strict=True))
        / sum(weights)
        for n in names
    }
    leaves = {n: t.clone().requires_grad_() for n, t in mean.items()}
    value = metric(ss.Confusion(task=each[0].task, **leaves), empty="penalize")
    loss = 1 - (value if grid is None or is_area(metric) else value.mean(-1))
    slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    carried = sum(
        (s * getattr(each[-1], n)).sum()
        for n, s in zip(names, slopes, strict=True)
        if s is not None
    )
    return loss.detach(), carried


@pytest.mark.parametrize(("metric", "settings"), CASES)
def test_the_slope_is_that_of_the_mean_and_the_derivative_that_of_the_batch(metric, settings):
    loss = ss.MetricLoss(metric, ema_decay=0.7, **settings)
    seen = []
    for seed, n in enumerate((40, 40, 17)):
        z, y = random_problem(settings.get("task", "binary"), n=n, seed=seed)
        z.requires_grad_()
        seen.append((z, y))
        value = loss(z, y)
        value.backward()
        expected, carried = by_hand(metric, settings, seen, 0.7)
        torch.testing.assert_close(value.detach(), expected, rtol=1e-12, atol=1e-12)
        (gradient,) = torch.autograd.grad(carried, z)
        torch.testing.assert_close(z.grad, gradient, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("task", TASKS)
def test_the_first_batch_counts_in_full(task):
    z, y = random_problem(task)
    plain, first = z.clone().requires_grad_(), z.clone().requires_grad_()
    ss.metric_loss(plain, y, "f1", task=task).backward()
    ss.MetricLoss("f1", task=task, ema_decay=0.99)(first, y).backward()
    torch.testing.assert_close(first.grad, plain.grad, rtol=1e-10, atol=1e-14)


def test_without_memory_nothing_is_kept():
    loss = ss.MetricLoss("f1", ema_decay=0)
    z, y = random_problem("binary")
    assert loss(z.requires_grad_(), y) == ss.metric_loss(z, y)
    assert loss.state_dict() == {}
    assert list(loss.buffers()) == []


def test_a_batch_without_positives_learns_from_those_before():
    loss = ss.MetricLoss("f1", ema_decay=0.9)
    z, y = random_problem("binary")
    loss(z.requires_grad_(), y)
    few = torch.tensor([1.0, -2.0, 0.3], dtype=torch.float64, requires_grad=True)
    loss(few, torch.zeros(3)).backward()
    # its false positives enter at the slope of F1, not at that of their share of three rows
    alone = few.detach().clone().requires_grad_()
    ss.metric_loss(alone, torch.zeros(3)).backward()
    assert (few.grad > 0).all()
    assert (few.grad < alone.grad / 5).all()


def test_on_average_the_gradient_is_that_of_the_whole():
    """Small batches of a fixed model: their mean gradient with ema_decay is that of all rows; that
    of
    plain small batches is not."""
    g = torch.Generator().manual_seed(0)
    n, size = 20_000, 20
    y = (torch.rand(n, generator=g) < 0.05).long()
    x = torch.randn(n, 3, generator=g, dtype=torch.float64) + y[:, None]
    weight = torch.tensor([0.9, 0.2, -0.3], dtype=torch.float64, requires_grad=True)

    def gradient(loss, rows):
        (d,) = torch.autograd.grad(loss(x[rows] @ weight - 2, y[rows]), weight)
        return d

    whole = gradient(ss.MetricLoss("f1"), slice(None))

    def error(ema_decay):
        loss = ss.MetricLoss("f1", ema_decay=ema_decay)
        each = [gradient(loss, rows) for rows in torch.randperm(n, generator=g).split(size)]
        mean = torch.stack(each[200:]).mean(0)
        return float((mean - whole).norm() / whole.norm())

    assert error(0.99) < 0.1
    assert error(0.0) > 0.25


def test_only_training_is_remembered():
    loss = ss.MetricLoss("f1", ema_decay=0.9)
    z, y = random_problem("binary")
    loss(z.requires_grad_(), y)
    before = copy.deepcopy(loss.state_dict())
    with torch.no_grad():
        assert loss(z[:20], y[:20]) == ss.metric_loss(z[:20], y[:20])
    assert all(torch.equal(before[k], v) for k, v in loss.state_dict().items())


@pytest.mark.parametrize("again", ["state_dict", "pickle", "deepcopy"])
def test_a_restored_loss_goes_on_bit_for_bit(again):
    loss = ss.MetricLoss("auroc", ema_decay=0.9)
    problems = [random_problem("binary", seed=s) for s in range(4)]
    for z, y in problems[:2]:
        loss(z.requires_grad_(), y)
    if again == "state_dict":
        other = ss.MetricLoss("auroc", ema_decay=0.9)
        other.load_state_dict(loss.state_dict())
    else:
        other = pickle.loads(pickle.dumps(loss)) if again == "pickle" else copy.deepcopy(loss)
    for z, y in problems[2:]:
        assert torch.equal(loss(z.requires_grad_(), y), other(z, y))


def test_a_copy_remembers_for_itself():
    loss = ss.MetricLoss("f1", ema_decay=0.9)
    z, y = random_problem("binary")
    twin = copy.copy(loss)
    twin(z.requires_grad_(), y)
    assert float(loss.running.weight) == 0
    assert float(twin.running.weight) == pytest.approx(0.1)


@pytest.mark.parametrize("ema_decay", [1.0, -0.1, float("nan"), "0.9"])
def test_memory_is_a_share(ema_decay):
    with pytest.raises(ValueError, match="ema_decay must be"):
        ss.MetricLoss(ema_decay=ema_decay)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="step with a gradient"):
        ss.MetricLoss(ema_decay=0.9, step=ss.HardStep())
    loss = ss.MetricLoss("f1", task="multiclass", ema_decay=0.9)
    z, y = random_problem("multiclass")
    loss(z.requires_grad_(), y)
    with pytest.raises(ValueError, match="number of classes or of thresholds has changed"):
        loss(torch.cat([z, z], 1), y)
    with pytest.raises(ValueError, match="one network"):
        loss.of_members(z[None], y, None)


def test_batches_of_independent_problems():
    loss = ss.MetricLoss("f1", batch_dims=1, ema_decay=0.5)
    alone = [ss.MetricLoss("f1", ema_decay=0.5) for _ in range(2)]
    for seed in range(3):
        rows = [random_problem("binary", seed=seed + 10 * k) for k in range(2)]
        z, y = (torch.stack(t) for t in zip(*rows, strict=True))
        values = loss(z.requires_grad_(), y)
        expected = [one(z[k], y[k]) for k, one in enumerate(alone)]
        torch.testing.assert_close(values, torch.stack(expected))


def test_running_counts_in_half_precision_models():
    loss = ss.MetricLoss("f1", ema_decay=0.9).half()
    z, y = random_problem("binary", dtype=torch.float16)
    assert loss(z.requires_grad_(), y).isfinite()
    assert loss.running.counts.dtype == torch.float64


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_it_compiles_without_a_break():
    torch.compiler.reset()
    eager, loss = ss.MetricLoss("f1", ema_decay=0.9), ss.MetricLoss("f1", ema_decay=0.9)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        z, y = random_problem("binary", seed=seed)
        one, two = z.clone().requires_grad_(), z.clone().requires_grad_()
        value = eager(one, y)
        value.backward()
        again = compiled(two, y)
        again.backward()
        torch.testing.assert_close(again, value)
        torch.testing.assert_close(two.grad, one.grad)


def test_the_mean_by_hand():
    running = RunningCounts(0.8)
    means = [running(torch.tensor([x, 1.0], dtype=torch.float64)) for x in (2.0, 5.0, -1.0)]
    expected = (0.64 * 2 + 0.8 * 5 - 1) / (0.64 + 0.8 + 1)
    assert means[-1].tolist() == pytest.approx([expected, 1.0])


@pytest.mark.parametrize("part", [{"ema_decay": 0.5}, {"sync": "auto"}])
def test_a_mean_over_sets_has_no_counts_to_remember_or_to_sum(part):
    with pytest.raises(ValueError, match="per='batch'"):
        ss.MetricLoss("f1", per="image", **part)
    loss = ss.MetricLoss("f1", **part)
    with pytest.raises(ValueError, match="set numbers"):
        loss(torch.zeros(4, requires_grad=True), torch.ones(4), per=torch.tensor([0, 0, 1, 1]))
