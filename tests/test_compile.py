"""``torch.compile(fullgraph=True)`` on a training step."""

from __future__ import annotations

import pytest
import torch

import softset as ss
from softset.metrics.registry import METRICS, get_metric
from tests.reference import TASKS, is_area, random_problem

# One metric of each class: F2 is F1 with another number. A limited area has branches of its own.
FORMULAS = list({type(get_metric(m)): m for m in METRICS if m != "partial_auroc"}.values())
FORMULAS.append("partial_auroc")


ANY = ("auroc", "f1", "mcc")
# Those whose code is more than a ratio of sums, and one that is not.
DIFFERENT = ("f0.5", "balanced_accuracy", "gmean", "mcc", "quadratic_kappa")
DIFFERENT += ("auroc", "average_precision", "partial_auroc")


def in_turn(metrics, quick):
    """The quick ones with one task, the tasks in turn; all with every task in the slow tests."""
    turn = {(metric, TASKS[i % len(TASKS)]) for i, metric in enumerate(quick)}
    pairs = [(metric, task) for metric in metrics for task in TASKS]
    return [pytest.param(*p, marks=() if p in turn else pytest.mark.slow) for p in pairs]


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize(("metric", "task"), in_turn(FORMULAS, DIFFERENT))
def test_a_training_step_compiles_without_a_break(metric, task):
    torch.compiler.reset()
    torch.manual_seed(0)
    _, y = random_problem(task, n=32)
    x = torch.randn(32, 5)
    model = torch.nn.Linear(5, 1 if task == "binary" else 4)
    # A short grid, as the compiler takes a while for each threshold.
    grid = (0.25, 0.75) if is_area(ss.get_metric(metric)) else None
    loss = ss.MetricLoss(metric, task=task, thresholds=grid)

    def step(x, y):
        model.zero_grad()
        value = loss(model(x), y)
        value.backward()
        return value.detach()

    eager = step(x, y)
    expected = [p.grad.clone() for p in model.parameters()]
    # aot_eager traces forward and backward whole, as inductor does, and needs no C++ compiler
    forward = torch.compile(lambda x, y: loss(model(x), y), fullgraph=True, backend="aot_eager")
    model.zero_grad()
    value = forward(x, y)
    value.backward()
    torch.testing.assert_close(value.detach(), eager, rtol=1e-5, atol=1e-6)
    for parameter, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize(("metric", "task"), in_turn(ANY, ANY[:0:-1]))
def test_batches_of_any_size_compile_once(metric, task):
    torch.compiler.reset()
    grid = (0.25, 0.5, 0.75) if metric == "auroc" else None
    loss = ss.MetricLoss(metric, task=task, thresholds=grid)
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (32, 45):
        z, y = random_problem(task, n=n, dtype=torch.float32)
        x, again = z.clone().requires_grad_(), z.clone().requires_grad_()
        loss(x, y).backward()
        compiled(again, y).backward()
        torch.testing.assert_close(again.grad, x.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_several_classes_are_few_kernels_that_are_compiled_once():
    """By inductor's own count; batches of two sizes."""
    from torch._dynamo.utils import counters  # noqa: PLC0415
    from torch._inductor import metrics  # noqa: PLC0415

    torch.compiler.reset()
    metrics.reset()
    counters.clear()
    loss = ss.MetricLoss("f1", task="multiclass")
    compiled = torch.compile(loss, fullgraph=True, dynamic=True)
    for n in (64, 77):
        z, y = random_problem("multiclass", n=n, classes=10, dtype=torch.float32)
        x, again = z.clone().requires_grad_(), z.clone().requires_grad_()
        loss(x, y).backward()
        compiled(again, y).backward()
        torch.testing.assert_close(again.grad, x.grad)
    assert counters["stats"]["unique_graphs"] == 1
    assert 0 < metrics.generated_kernel_count <= 12
