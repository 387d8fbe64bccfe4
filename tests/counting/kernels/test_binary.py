"""What the tests of losses and counts do not see of the binary kernels."""

from __future__ import annotations

import pytest
import torch

import softset as ss


@pytest.mark.parametrize("step", [None, ss.SigmoidStep(), ss.HardStep()])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32])
def test_a_long_column_has_the_counts_of_its_float64_copy(step, kind):
    """Float32 is summed by blocks of rows; 150,001 rows end in the middle of one."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(150_001, generator=generator) - 3
    y = torch.rand(150_001, generator=generator) < 0.02
    step = ss.LinearStep(0.1) if step is None else step
    found = ss.confusion(z, y.to(kind), step=step, from_logits=True)
    exact = ss.confusion(z.double(), y, step=step, from_logits=True)
    for cell in ("tp", "fp", "fn", "tn"):
        torch.testing.assert_close(getattr(found, cell), getattr(exact, cell), rtol=2e-7, atol=0)
