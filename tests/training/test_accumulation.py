from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from tests.memory import needs_proc, printed
from tests.reference import TASKS

CASES = [
    ("f1", "binary"),
    ("mcc", "binary"),
    ("jaccard", "binary"),
    ("auroc", "binary"),
    ("f1", "multiclass"),
    ("auroc", "multiclass"),
    ("cohen_kappa", "multiclass"),
    ("f1", "multilabel"),
    (lambda c: c.matrix.diagonal().sum() / c.total[0], "multiclass"),
]


def rows(task, n=60, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=g, dtype=dtype)
    w = torch.rand(n, generator=g, dtype=torch.float64)
    noisy = x + torch.randn(n, 5, generator=g, dtype=dtype)
    if task == "binary":
        y = (noisy[:, 0] > 1).long()
    else:
        y = noisy[:, :3].argmax(1) if task == "multiclass" else (noisy[:, :3] > 0.5).long()
    return x, y, w


def network(task, *layers, seed=0):
    torch.manual_seed(seed)
    body = layers or (nn.Linear(5, 7), nn.Tanh())
    return nn.Sequential(*body, nn.Linear(7, 1 if task == "binary" else 3)).double()


def cut(*tensors, sizes=(7, 20, 1, 32)):
    return list(zip(*(t.split(list(sizes)) for t in tensors), strict=True))


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def check(model, expected, tolerance=1e-12):
    for got, wanted in zip(gradients(model), expected, strict=True):
        assert (got - wanted).abs().max() <= tolerance


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("metric", "task"), CASES)
def test_micro_batches_are_the_whole_batch(metric, task, weighted, passes):
    data = rows(task) if weighted else rows(task)[:2]
    model, loss = network(task), ss.MetricLoss(metric, task=task)
    whole = loss(model(data[0]), *data[1:])
    whole.backward()
    expected = gradients(model)
    model.zero_grad()
    value = ss.accumulate(model, loss, cut(*data), passes=passes)
    assert not value.requires_grad
    torch.testing.assert_close(value, whole.detach(), rtol=1e-12, atol=1e-12)
    check(model, expected)
    # it adds, as backward() does
    ss.accumulate(model, loss, cut(*data), passes=passes)
    check(model, [2 * g for g in expected])


@pytest.mark.parametrize("task", TASKS)
def test_micro_batches_without_rows_or_weights_add_nothing(task):
    x, y, w = rows(task)
    w[7:27] = 0
    model, loss = network(task), ss.MetricLoss("f1", task=task)
    loss(model(x), y, w).backward()
    expected = gradients(model)
    model.zero_grad()
    ss.accumulate(model, loss, cut(x, y, w, sizes=(0, 7, 20, 33)))
    check(model, expected)


def test_a_loop_of_ones_own():
    x, y, _ = rows("binary")
    model, loss = network("binary"), ss.MetricLoss("mcc")
    whole = loss(model(x), y)
    whole.backward()
    expected = gradients(model)
    model.zero_grad()
    total = ss.training.Accumulation(loss)
    with torch.no_grad():
        for part, labels in cut(x, y):
            total.count(model(part), labels)
    values = []
    for part, labels in reversed(cut(x, y)):  # in any order
        values.append(total(model(part), labels))
        (1024 * values[-1]).backward()  # as a scaler does
    torch.testing.assert_close(total.value, whole.detach())
    torch.testing.assert_close(sum(values).detach(), whole.detach())
    check(model, [1024 * g for g in expected], 1e-9)
    with pytest.raises(ValueError, match="new Accumulation"):
        total.count(model(x), y)


def test_both_passes_see_the_same_dropout():
    x, y, _ = rows("binary")
    model, loss = network("binary", nn.Linear(5, 7), nn.Dropout(0.5)), ss.MetricLoss("f1")
    parts = cut(x, y)
    torch.manual_seed(3)
    scores = torch.cat([model(part) for part, _ in parts])  # the same masks in one batch
    after = torch.rand(1)
    loss(scores, y).backward()
    expected = gradients(model)
    model.zero_grad()
    torch.manual_seed(3)
    ss.accumulate(model, loss, parts)
    check(model, expected)
    assert torch.equal(torch.rand(1), after)  # as after one pass


def test_running_statistics_are_updated_once():
    x, y, _ = rows("binary")
    model = network("binary", nn.Linear(5, 7), nn.BatchNorm1d(7))
    loss, parts = ss.MetricLoss("f1"), cut(x, y, sizes=(20, 25, 15))
    twin = copy.deepcopy(model)
    scores = torch.cat([twin(part) for part, _ in parts])  # statistics of each micro-batch
    loss(scores, y).backward()
    ss.accumulate(model, loss, parts)
    check(model, gradients(twin))
    for got, wanted in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(got, wanted)
    assert int(model[1].num_batches_tracked) == 3


def test_random_rows_are_drawn_alike():
    """A shuffling loader and augmentation by the usual generators."""
    x, y, _ = rows("binary")

    class Noisy(torch.utils.data.Dataset):
        seen = []

        def __len__(self):
            return len(x)

        def __getitem__(self, i):
            self.seen.append(i)
            return x[i] + torch.randn(5) + random.random() + np.random.random(), y[i]

    ss.accumulate(network("binary"), ss.MetricLoss(), DataLoader(Noisy(), 16, shuffle=True))
    assert Noisy.seen[:60] == Noisy.seen[60:]


def test_autocast():
    x, y, _ = rows("binary", n=256, dtype=torch.float32)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    loss = ss.MetricLoss("f1")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole = loss(model(x), y)
        whole.backward()
    expected = gradients(model)
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):  # which remembers weights without a graph
        value = ss.accumulate(model, loss, list(zip(x.split(64), y.split(64), strict=True)))
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, whole.detach())
    for got, wanted in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0.05, atol=1e-3 * float(wanted.abs().max()))


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_model_and_loss():
    torch.compiler.reset()
    x, y, _ = rows("binary", n=64)
    model, loss = network("binary", nn.Linear(5, 7), nn.Dropout(0.5)), ss.MetricLoss("f1")
    parts = list(zip(x.split(16), y.split(16), strict=True))
    torch.manual_seed(3)
    ss.accumulate(model, loss, parts)
    expected = gradients(model)
    model.zero_grad()
    torch.manual_seed(3)
    compiled = (torch.compile(m, backend="aot_eager") for m in (model, loss))
    ss.accumulate(*compiled, parts)
    check(model, expected)


def test_with_memory_all_micro_batches_are_one_batch():
    model = network("binary")
    one, parts = (ss.MetricLoss("f1", ema_decay=0.8) for _ in range(2))
    for seed in range(3):
        x, y, _ = rows("binary", seed=seed)
        model.zero_grad()
        whole = one(model(x), y)
        whole.backward()
        expected = gradients(model)
        model.zero_grad()
        value = ss.accumulate(model, parts, cut(x, y))
        torch.testing.assert_close(value, whole.detach())
        check(model, expected)
    torch.testing.assert_close(one.running.counts, parts.running.counts)
    torch.testing.assert_close(one.running.weight, parts.running.weight)


def test_what_is_learnt_besides_the_model():
    """A threshold and weights of rows have their gradient too."""
    x, y, w = rows("binary")
    model = network("binary")
    tau = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    w.requires_grad_()
    loss = ss.MetricLoss("mcc", threshold=tau)
    expected = torch.autograd.grad(loss(model(x), y, w), [tau, w])
    ss.accumulate(model, loss, cut(x, y, w))
    torch.testing.assert_close(tau.grad, expected[0])
    torch.testing.assert_close(w.grad, expected[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": nn.BCEWithLogitsLoss()}, "loss must be a MetricLoss, got BCEWithLogitsLoss"),
        ({"loss": ss.MetricLoss(step=ss.HardStep())}, "step with a gradient"),
        ({"loss": ss.MetricLoss("precision@recall>=0.8")}, "threshold of 'precision@recall>=0.8'"),
        ({"micro_batches": iter([])}, "gone through twice.*passes=1"),
        ({"micro_batches": []}, "no micro-batch was counted"),
        ({"micro_batches": [], "passes": 1}, "no micro-batch was counted"),
        ({"micro_batches": [torch.zeros(3, 5)]}, r"must hold \(x, y\) or"),
        ({"passes": 3}, "passes must be one of"),
    ],
)
def test_what_cannot_be_accumulated_is_refused(change, message):
    x, y, _ = rows("binary")
    given = {"loss": ss.MetricLoss(), "micro_batches": cut(x, y)} | change
    with pytest.raises(ValueError, match=message):
        ss.accumulate(network("binary"), **given)


def test_other_rows_in_the_second_pass_are_noticed():
    x, y, _ = rows("binary")

    class Shuffled:
        def __init__(self, parts):
            self.parts, self.turn = parts, 0

        def __iter__(self):
            self.turn += 1
            return iter(self.parts[self.turn - 1])

    def run(first, second):
        ss.accumulate(network("binary"), ss.MetricLoss(), Shuffled([first, second]))

    parts = cut(x, y)
    with pytest.raises(ValueError, match="micro-batch 1 has other counts"):
        run(parts, parts[::-1])
    with pytest.raises(ValueError, match="gave 4 batches, then 3"):
        run(parts, parts[:3])
    with pytest.raises(ValueError, match="gave 3 batches, then 4"):
        run(parts[:3], parts)


def test_a_failed_first_pass_leaves_no_trace():
    x, y, _ = rows("binary")
    x[50, 0] = torch.nan
    model = network("binary", nn.Linear(5, 7), nn.BatchNorm1d(7))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="NaN"):
        ss.accumulate(model, ss.MetricLoss(), cut(x, y, sizes=(20, 20, 20)))
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_loaders_of_tensors():
    x, y, w = rows("binary")
    model, loss = network("binary"), ss.MetricLoss("f1")
    loader = DataLoader(TensorDataset(x, y, w), 16, shuffle=True)
    value = ss.accumulate(model, loss, loader)
    torch.testing.assert_close(value, loss(model(x), y, w).detach())


MEMORY = """
import sys, torch
import softset as ss
from tests.memory import peak

ROWS, SIZE = int(sys.argv[1]), 100_000

class Batches:  # made when they are asked for
    def __iter__(self):
        for number in range(ROWS // SIZE):
            g = torch.Generator().manual_seed(number)
            x = torch.randn(SIZE, 20, generator=g)
            yield x, (x[:, 0] > 2).long()

model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
loss = ss.MetricLoss("f1")
ss.accumulate(model, loss, [(torch.randn(64, 20), torch.arange(64) % 2)])  # all is imported
before = peak()
if sys.argv[2] == "step":
    for x, y in Batches():
        loss(model(x), y).backward()
else:
    ss.accumulate(model, loss, Batches())
print(peak() - before)
"""


@pytest.mark.slow
@needs_proc
def test_ten_million_rows_take_the_memory_of_one_micro_batch():
    def taken(rows, how):
        return int(*printed(MEMORY, rows, how))

    step = taken(100_000, "step")
    assert step > 10_000  # kB
    assert taken(10_000_000, "accumulate") < 1.5 * step


def test_a_mean_over_sets_is_refused():
    with pytest.raises(ValueError, match="per='batch'"):
        ss.training.Accumulation(ss.MetricLoss("f1", per="image"))
