"""The kernels in Triton, compiled for GPUs that are not there (``make test-gpu``)."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch

import softset as ss

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter compiles nothing: make test-gpu", allow_module_level=True)

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "triton_kernels.py"


@pytest.fixture(scope="module")
def script():
    """``benchmarks/triton_kernels.py``, whose table is of all kernels."""
    specification = importlib.util.spec_from_file_location("triton_kernels", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules["triton_kernels"] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("kernel", ["count", "gradient"])
@pytest.mark.parametrize(
    ("family", "classes", "image"),
    [("binary", 1, False), ("multiclass", 19, True), ("multiclass", 128, False)],
)
@pytest.mark.filterwarnings("ignore")
def test_a_kernel_compiles_without_spills(script, family, classes, image, kernel, arch):
    launch = script.launch(family, classes, ss.LinearStep(0.1), torch.float32, image)
    cells = torch.empty(1, 1, 4, classes, dtype=torch.float64, device="meta")
    if kernel == "count":
        call = launch.count_call(cells)
    else:
        call = launch.gradient_call(cells[0, :, 0], cells[0, :, 1])
    made = script.compiled(*call, launch.constants, arch)
    assert "red.global" not in made.asm["ptx"], "a sum with atomics has other bits every time"
    assert "atom.global" not in made.asm["ptx"]
    found = script.usage(made, arch)
    assert 0 < found.registers <= 255
    assert found.spilled == 0


@pytest.mark.parametrize(
    ("metric", "family"), [("f1", "binary"), ("mcc", "multiclass"), ("cohen_kappa", "multilabel")]
)
@pytest.mark.filterwarnings("ignore")
def test_a_formula_compiles_without_spills(script, metric, family):
    kernel, arguments = script.formula_of(metric, family, 1 if family == "binary" else 128)
    for arch in (80, 90):
        warps = script.formulas.warps(arguments[0])
        found = script.usage(script.compiled(kernel, arguments, {}, arch, warps), arch)
        assert 0 < found.registers <= 255
        assert found.spilled == 0
