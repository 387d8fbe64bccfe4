"""The kernels in Triton against the composition, by Triton's interpreter (``make test-gpu``), and
compiled for GPUs that are not there."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import sys
from pathlib import Path

import pytest
import torch

import softset as ss

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs TRITON_INTERPRET=1: make test-gpu", allow_module_level=True)

from softset.counting.kernels.triton import operators
from softset.counting.kernels.triton.kernels import levels_of
from softset.counting.kernels.triton.operators import cells, cells_gradient

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
