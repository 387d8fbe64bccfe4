"""The kernels in Triton against the composition, by Triton's interpreter (``make test-gpu``), and
compiled for GPUs that are not there."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import softset as ss

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs TRITON_INTERPRET=1: make test-gpu", allow_module_level=True)

from torch._subclasses.fake_tensor import FakeTensorMode

from softset.counting.kernels.choice import Scores, using
from softset.counting.kernels.triton import operators
from softset.counting.kernels.triton.kernels import levels_of
from softset.counting.kernels.triton.operators import cells, cells_gradient
from softset.metrics.registry import METRICS, get_metric
from tests.operations import Operations
from tests.reference import is_area

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "triton_kernels.py"
LINEAR = ss.LinearStep(0.2, 1.0)


@pytest.fixture(scope="module")
def script():
    """``benchmarks/triton_kernels.py``, which draws problems and compares."""
    specification = importlib.util.spec_from_file_location("triton_kernels", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules["triton_kernels"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def large_tiles(monkeypatch):
    """The interpreter takes as long for a large tile as for a small one."""
    monkeypatch.setattr(operators, "TILES", {False: 2**14, True: 2**14})


@pytest.mark.parametrize("seed", range(60))
def test_random_problems_are_the_composition(script, seed, monkeypatch):
    monkeypatch.setattr(script, "MOST", 2 * 10**4)
    case = script.draw(random.Random(seed))
    errors, allowed = script.compare(case), script.ALLOWED[case.z.dtype]
    assert errors.cells <= allowed, f"{errors}: {case}"
    assert errors.gradient <= allowed, f"{errors}: {case}"


def counted(
    z, y, step=LINEAR, w=None, v=None, *, exclusive=True, tau=0.5, ignored=None, wide=False
):
    code = {ss.LinearStep: 0, ss.SigmoidStep: 1, ss.IdentityStep: 2}[type(step)]
    levels = levels_of(step, tau, exclusive)
    return cells(z, y, w, v, 0, exclusive, code, levels, True, False, ignored, wide)


@pytest.mark.parametrize("classes", [2, 3, 19, 513])
def test_cells_add_up_to_the_weights(classes):
    z, y = torch.randn(70, classes) * 5, torch.randint(0, classes, (70,))
    w = torch.rand(70)
    tp, fp, fn, tn = counted(z, y, w=w)
    of_class = torch.zeros(classes).double().index_add(0, y, w.double())
    torch.testing.assert_close(tp + fn, of_class, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(
        tp + fp + fn + tn, w.sum().double().expand(classes), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("classes", [3, 600])
@pytest.mark.parametrize("bad", ["nan", "inf", "class", "weight"])
def test_bad_input_makes_every_class_nan(classes, bad):
    z, y, w = torch.randn(40, classes), torch.randint(0, classes, (40,)), torch.ones(40)
    if bad == "class":
        y[7] = classes
    elif bad == "weight":
        w[7] = -1.0
    else:
        z[7, 1] = math.nan if bad == "nan" else math.inf
    assert counted(z, y, w=w).sum(0).isnan().all()
    y[7] = 255
    assert counted(z, y, w=w, ignored=255).isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, 2.0, -1.0])
def test_bad_labels_and_scores_make_a_binary_count_nan(bad):
    z, y = torch.randn(40, 1), (torch.rand(40, 1) < 0.5).float()
    if math.isnan(bad):
        z[3] = bad
    else:
        y[3] = bad
    assert counted(z, y, exclusive=False).isnan().any()
    y[3] = 9.0
    assert counted(z, y, exclusive=False, ignored=9).isfinite().all()


def test_rows_that_are_left_out_have_no_gradient():
    z, y = torch.randn(50, 7), torch.randint(0, 7, (50,))
    keep = torch.arange(50) % 3 > 0
    x = z.clone().requires_grad_()
    whole = counted(torch.where(keep[:, None], x, math.nan), torch.where(keep, y, -1), ignored=-1)
    some = counted(z[keep], y[keep])
    torch.testing.assert_close(whole.detach(), some, rtol=1e-7, atol=1e-12)
    (gradient,) = torch.autograd.grad(whole[0].sum(), x)
    assert (gradient[~keep] == 0).all()
    assert (gradient[keep] != 0).any()


def test_the_largest_score_may_be_far_from_all_others():
    z = torch.tensor([[0.0, -math.inf, -200.0], [1e4, 0.0, -1e4]]).requires_grad_()
    found = counted(z, torch.tensor([1, 0]))
    assert found.isfinite().all()
    (gradient,) = torch.autograd.grad(found[2].sum(), z)
    assert gradient.isfinite().all()


def test_gradients_of_half_precision_stay_finite():
    z = torch.randn(8, 4, dtype=torch.float16)
    y = torch.randint(0, 4, (8,))
    positive, negative = torch.randn(2, 4, dtype=torch.float64) * 1e9
    settings = (0, True, 0, [0.2, 1.0], True, False, None, False)
    found = cells_gradient(z, y, None, None, positive, negative, *settings)
    assert found.isfinite().all()
    assert found.abs().max() == torch.finfo(torch.float16).max


def test_operators_are_registered_as_pytorch_wants_them():
    for exclusive, levels in ((True, [0.2, 1.0]), (False, levels_of(LINEAR, 0.5, False))):
        z = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
        y = torch.randint(0, 2, (12,) if exclusive else (12, 3))
        settings = (0, exclusive, 0, levels, True, False, None, True)
        torch.library.opcheck(cells, (z, y, None, None, *settings))


def test_compile_and_export_pass_over_the_operators():
    def cost(z, y):
        tp, fp, fn, _ = counted(z, y)
        return 1 - (2 * tp / (2 * tp + fp + fn)).mean()

    z, y = torch.randn(30, 5), torch.randint(0, 5, (30,))
    made = torch.compile(cost, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (30, 17):
        x = z[:rows].clone().requires_grad_()
        plain = z[:rows].clone().requires_grad_()
        made(x, y[:rows]).backward()
        cost(plain, y[:rows]).backward()
        assert torch.equal(x.grad, plain.grad)

    class Cost(torch.nn.Module):
        def forward(self, z, y):
            return cost(z, y)

    program = torch.export.export(Cost(), (z, y))
    assert any("softset.cells" in str(node.target) for node in program.graph.nodes)
    assert torch.equal(program.module()(z, y), cost(z, y))


# --- behind the losses --------------------------------------------------------------------------


@pytest.fixture
def triton():
    with using("triton"):
        yield


def problem(task, shape, seed=0):
    """Scores, target with ignored positions, and weights."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(shape, generator=g) * 2
    positions = shape[:1] + shape[2:] if len(shape) > 1 else shape
    y = torch.randint(0, shape[1] if task == "multiclass" else 2,
                      positions if task == "multiclass" else shape, generator=g)  # fmt: skip
    y[torch.rand(y.shape, generator=g) < 0.1] = 255
    return z, y, torch.rand(positions, generator=g) + 0.1


def value_and_gradient(loss, z, y, w=None):
    x = z.clone(memory_format=torch.preserve_format).requires_grad_()
    with Operations() as operations:
        value = loss(x, y, w)
        value.backward()
    return value.detach(), x.grad, operations


SHAPES = [
    ("binary", (300,)),
    ("binary", (2, 1, 9, 8)),
    ("multilabel", (60, 4)),
    ("multiclass", (200, 7)),
    ("multiclass", (2, 5, 9, 8)),
]
OPTIONS = [
    {},
    {"step": ss.SigmoidStep()},
    {"step": ss.IdentityStep()},
    {"class_weight": True},
    {"per": "image"},
    {"empty": "ignore"},
]


@pytest.mark.parametrize(
    ("task", "shape", "options"),
    [
        (*row, options)
        for row in SHAPES
        for options in OPTIONS
        if "per" not in options or row[1][2:]
    ],
)
def test_a_loss_is_that_of_the_other_kernels(task, shape, options):
    classes = 2 if task == "binary" else shape[1]
    options = dict(options)
    if options.pop("class_weight", None):
        options["class_weight"] = torch.linspace(0.5, 2, classes)
    z, y, w = problem(task, shape)
    found = []
    for kernels, check in (("torch", "full"), ("triton", "device"), ("triton", "full")):
        loss = ss.MetricLoss("f1", task=task, ignore_index=255, check=check, **options)
        with using(kernels):
            found.append(value_and_gradient(loss, z, y, w))
    size = float(found[0][1].abs().max())
    for value, slope, operations in found[1:]:
        torch.testing.assert_close(value, found[0][0], rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(slope, found[0][1], rtol=0, atol=2e-6 * size)
        assert operations.names["softset.cells"] == operations.names["softset.cells_gradient"] == 1


def test_images_where_they_lie(triton):
    z, y, w = problem("multiclass", (2, 5, 9, 8))
    loss = ss.MetricLoss("jaccard", task="multiclass", ignore_index=255)
    value, slope, _ = value_and_gradient(loss, z, y, w)
    larger = torch.zeros(2, 5, 9, 11)
    larger[..., :8] = z
    for other in (z.contiguous(memory_format=torch.channels_last), larger[..., :8]):
        again, found, operations = value_and_gradient(loss, other, y, w)
        torch.testing.assert_close(again, value, rtol=1e-6, atol=0)
        torch.testing.assert_close(found, slope, rtol=1e-5, atol=1e-8)
        assert not {"aten.clone", "aten.copy_", "aten._to_copy"} & {
            name for name in operations.names if operations.names[name] > 3
        }


AT_A_THRESHOLD = [m for m in METRICS if not is_area(get_metric(m))]
# Of several classes they read the matrix, which PyTorch counts.
OF_A_MATRIX = ("linear_kappa", "quadratic_kappa")
VARIANTS = [
    {},
    {"empty": "ignore", "ignore_index": 1},
    {"per": "image"},
    {"per": "image", "empty": "ignore", "average": "weighted"},
    {"average": "micro", "ignore_index": 1},
]


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("metric", AT_A_THRESHOLD)
def test_a_metric_and_its_derivatives_are_one_kernel(metric, options):
    """At most 25 operations, forward and backward, however many scores there are, and none that
    waits. A count is two: the kernel, and the sum of what its programs counted."""
    options = dict(options)
    average = options.pop("average", None)
    for task, classes in (("binary", 1), ("multilabel", 3), ("multiclass", 5)):
        made = get_metric(metric)
        if task == "multiclass" and (metric in OF_A_MATRIX or (average and made.joint)):
            continue
        made = replace(made, average=average) if average else made
        z, y, w = problem(task, (3, classes, 9, 7) if "per" in options else (101, classes))
        if task == "binary" and "per" not in options:
            z, y = z[:, 0], y[:, 0]
        y = torch.where(y == 255, 0, y)
        loss = ss.MetricLoss(made, task=task, check="device", **options)
        with using("torch"):
            wanted, slope, _ = value_and_gradient(loss, z, y, w)
        with using("triton"):
            value, found, operations = value_and_gradient(loss, z, y, w)
        assert operations.names["softset.formula"] == operations.names["softset.cells"] == 1
        assert operations.count + operations.names["softset.cells"] <= 25
        assert not operations.waiting
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found, slope, rtol=0, atol=1e-5 * float(slope.abs().max()))


def test_both_classes_and_a_cost(triton):
    z, y, _ = problem("binary", (101,))
    y = torch.where(y == 255, 0, y)
    for metric in (ss.F1(both_classes=True), ss.Cost(fn=5, fp=1), ss.FBeta(3.0)):
        loss = ss.MetricLoss(metric, check="device")
        value, slope, operations = value_and_gradient(loss, z, y)
        assert operations.names["softset.formula"] == 1
        with using("torch"):
            wanted, other, _ = value_and_gradient(loss, z, y)
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(slope, other, rtol=0, atol=1e-5 * float(other.abs().max()))


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_a_batch_of_one_class_has_a_finite_gradient(task, triton):
    """Of which a denominator is 0."""
    z = torch.randn(30) if task == "binary" else torch.randn(30, 4)
    for metric in AT_A_THRESHOLD:
        if task == "multiclass" and metric in OF_A_MATRIX:
            continue
        for label in (0, 1):
            y = torch.full((30,), label)
            loss = ss.MetricLoss(metric, task=task, check="device")
            value, slope, _ = value_and_gradient(loss, z, y)
            with using("torch"):
                wanted, other, _ = value_and_gradient(loss, z, y)
            torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-6, msg=metric)
            assert slope.isfinite().all(), metric
            assert (slope - other).abs().max() <= 1e-5 * other.abs().max() + 1e-9, metric


def test_probabilities_and_fractions_of_one_class(triton):
    z, y = torch.rand(80), torch.rand(80)
    loss = ss.MetricLoss("f1", from_logits=False, soft_targets=True, check="device")
    value, slope, operations = value_and_gradient(loss, z, y)
    assert operations.names["softset.cells"] == 1
    with using("torch"):
        wanted, other, _ = value_and_gradient(loss, z, y)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(slope, other, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("binary", {"thresholds": [0.2, 0.5]}),
        ("multilabel", {"threshold": torch.tensor([0.2, 0.4, 0.6])}),
        ("multiclass", {"from_logits": False}),
        ("multiclass", {"soft_targets": True}),
    ],
)
def test_what_they_do_not_do_pytorch_does(task, settings, triton):
    z = torch.randn(40) if task == "binary" else torch.randn(40, 3)
    z = z.softmax(-1) if not settings.get("from_logits", True) else z
    y = torch.randint(0, 2, z.shape) if task != "multiclass" else torch.randint(0, 3, (40,))
    y = torch.rand(40, 3).softmax(-1) if settings.get("soft_targets") else y
    loss = ss.MetricLoss("f1", task=task, **settings)
    value, slope, operations = value_and_gradient(loss, z, y)
    assert not operations.names["softset.cells"]
    with using("torch"):
        wanted, other, _ = value_and_gradient(loss, z, y)
    assert torch.equal(value, wanted)
    assert torch.equal(slope, other)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_bad_input_is_named_or_nan(task, triton):
    z = torch.randn(40) if task == "binary" else torch.randn(40, 3)
    y = torch.arange(40) % 2
    z[5] = math.nan
    with pytest.raises(ValueError, match="scores must not be NaN: the first bad row is 5"):
        ss.MetricLoss("f1", task=task)(z, y)
    assert ss.MetricLoss("f1", task=task, check="device")(z, y).isnan()


def test_second_derivatives_are_those_of_the_composition(triton):
    z, y = torch.randn(12, 3, dtype=torch.float64), torch.arange(12) % 3
    loss = ss.MetricLoss("f1", task="multiclass", step=ss.SigmoidStep())
    twice = []
    for kernels in ("triton", "torch"):
        x = z.clone().requires_grad_()
        with using(kernels):
            (first,) = torch.autograd.grad(loss(x, y), x, create_graph=True)
            twice.append(torch.autograd.grad((first**2).sum(), x)[0])
    torch.testing.assert_close(*twice, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_a_compiled_loss_calls_the_operators(task, triton):
    z = torch.randn(30) if task == "binary" else torch.randn(30, 5)
    y = torch.randint(0, 5, (30,)) if task == "multiclass" else torch.randint(0, 2, z.shape)
    loss = ss.MetricLoss("f1", task=task)
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    made = torch.compile(loss, fullgraph=True, backend=backend, dynamic=True)
    for rows in (30, 17):
        x, plain = (z[:rows].clone().requires_grad_() for _ in range(2))
        labels = y[:rows].clone()
        made(x, labels).backward()
        loss(plain, labels).backward()
        torch.testing.assert_close(x.grad, plain.grad, rtol=1e-5, atol=1e-8)
    assert sum("softset.cells" in name for name in seen) == 1


def test_they_are_chosen_on_a_gpu():
    with FakeTensorMode():
        z = torch.empty(64, 5, device="cuda:0")
        assert Scores.reading(z, from_logits=True, soft=False).kernels == "triton"
        with using("torch"):
            assert Scores.reading(z, from_logits=True, soft=False).kernels == "torch"


def test_positions_in_more_dimensions_than_are_walked_through(triton):
    larger = torch.randn(2, 3, 4, 5, 6)
    z, y = larger[:, :, ::2, ::2, ::2], torch.randint(0, 3, (2, 2, 3, 3))
    loss = ss.MetricLoss("f1", task="multiclass")
    value, slope, _ = value_and_gradient(loss, z, y)
    wanted, other, _ = value_and_gradient(loss, z.contiguous(), y)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(slope, other)


def test_tensors_on_the_cpu_need_the_interpreter(triton, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1"):
        ss.MetricLoss("f1")(torch.randn(30), torch.arange(30) % 2)
