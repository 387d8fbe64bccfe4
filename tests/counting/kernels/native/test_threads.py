"""The kernels in C on several threads: the same bits, and only where there is work for them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import softset as ss
from softset.counting.kernels.native.kernels import SIZE as TASK_SIZE
from softset.counting.kernels.native.library import PARALLEL, native

# test_task.py fails for a library that was built before the sources changed.
LIBRARY = native()
pytestmark = pytest.mark.skipif(
    LIBRARY is None or LIBRARY.task_size != TASK_SIZE or not PARALLEL.address,
    reason="the kernels in C, or OpenMP, are not there",
)
SIZE = 2**15  # scores, from which on threads share the work
SHAPES = {
    "binary": [(40_000,), (3, 120, 130), (SIZE + 1,)],
    "multilabel": [(9_000, 5), (2, 3, 90, 91)],
    "multiclass": [(20_000, 3), (4_001, 19), (2, 12, 70, 75), (1_500, 300)],
}
CASES = [(task, shape) for task, shapes in SHAPES.items() for shape in shapes]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def teams(monkeypatch):
    """The numbers of threads that OpenMP is asked for; one thread does the work of all."""
    seen = []
    work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    @ctypes.CFUNCTYPE(None, work, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    def parallel(run, data, count, flags):
        seen.append(count)
        for _ in range(count):
            run(data)

    monkeypatch.setattr(PARALLEL, "address", ctypes.cast(parallel, ctypes.c_void_p).value)
    yield seen
    del parallel  # not before: C has its address


def problem(task, shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(shape, generator=g) * 3
    positions = shape if task == "binary" else shape[:1] + shape[2:]
    y = torch.randint(0, shape[1] if task == "multiclass" else 2, positions, generator=g)
    y = y if task != "multilabel" else (torch.rand(shape, generator=g) < 0.3).long()
    y[torch.rand(y.shape, generator=g) < 0.1] = 255
    return z, y, torch.rand(positions, generator=g) + 0.1


def numbers(task, shape, metric="mcc", seed=0):
    """Cells, loss and gradient."""
    z, y, w = problem(task, shape, seed)
    z.requires_grad_()
    loss = ss.MetricLoss(metric, task=task, ignore_index=255)
    value = loss(z, y, w)
    (slope,) = torch.autograd.grad(value, z)
    cells = torch.stack([*vars(loss.confusion(z, y, w)).values()][:4])
    return cells, value.detach(), slope


@pytest.mark.parametrize(("task", "shape"), CASES)
def test_the_same_bits_for_every_number_of_threads(task, shape):
    found = []
    for count in (1, 2, 3, 2):
        torch.set_num_threads(count)
        found.append(numbers(task, shape))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one, two)


def test_the_same_bits_of_an_area():
    found = []
    for count in (1, 3):
        torch.set_num_threads(count)
        found.append(numbers("binary", (50_000,), "auroc"))
    assert torch.equal(found[0][1], found[1][1])
    assert torch.equal(found[0][2], found[1][2])


@pytest.mark.parametrize(("task", "shape"), CASES)
def test_parts_are_the_whole(task, shape):
    """What is counted in parts is what a composition counts at once."""
    torch.set_num_threads(2)
    z, y, w = problem(task, shape)
    loss = ss.MetricLoss("f1", task=task, ignore_index=255)
    (slope,) = torch.autograd.grad(loss(z.requires_grad_(), y, w), z)
    wanted = torch.func.grad(lambda x: loss(x, y, w))(z.detach().double())
    torch.testing.assert_close(
        slope.double(), wanted, rtol=1e-3, atol=1e-6 * float(wanted.abs().max())
    )


@pytest.mark.parametrize(("task", "shape"), CASES)
def test_threads_share_large_problems(task, shape, teams):
    torch.set_num_threads(3)
    numbers(task, shape)
    assert teams
    assert set(teams) <= {2, 3}


@pytest.mark.parametrize(
    ("task", "shape"),
    [("binary", (SIZE - 1,)), ("multiclass", (1_700, 19)), ("multilabel", (70, 4))],
)
def test_small_problems_have_one_thread(task, shape, teams):
    torch.set_num_threads(3)
    numbers(task, shape)
    assert teams == []


def test_one_thread_is_respected(teams):
    torch.set_num_threads(1)
    numbers("binary", (4 * SIZE,))
    assert teams == []


def test_calls_from_several_threads_at_once():
    torch.set_num_threads(2)
    wanted = [numbers("multiclass", (6_000, 19), seed=seed) for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: numbers("multiclass", (6_000, 19), seed=seed), range(6)))
    for one, two in zip(wanted, found, strict=True):
        assert torch.equal(one[0], two[0])
        assert torch.equal(one[2], two[2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_process_counts_alone():
    """OpenMP would wait there for threads that it does not have."""
    code = """
import os, warnings, torch, softset as ss
warnings.simplefilter("ignore")
torch.set_num_threads(2)
z, y = torch.randn(200_000), torch.arange(200_000) % 2
wanted = ss.MetricLoss("f1").confusion(z, y).tp
child = os.fork()
if not child:
    os._exit(0 if torch.equal(ss.MetricLoss("f1").confusion(z, y).tp, wanted) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "0"


@pytest.mark.parametrize("bad", ["scores", "target", "weight"])
def test_bad_input_in_the_last_part_is_refused(bad):
    torch.set_num_threads(2)
    z, y, w = torch.randn(60_000), torch.arange(60_000) % 2, torch.ones(60_000)
    if bad == "scores":
        z[-1] = torch.nan
    elif bad == "target":
        y[-1] = 7
    else:
        w[-1] = -1.0
    with pytest.raises(ValueError, match=bad):
        ss.MetricLoss("f1")(z, y, w)
