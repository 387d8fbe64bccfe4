"""What the tests of losses and counts do not see of the binary kernels."""

from __future__ import annotations

import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using


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


def test_thresholds_in_float64_leave_no_rounding_where_there_are_no_negatives():
    """Of float32 scores, at a threshold for each label, without the kernels in C."""
    z = torch.rand(9, 3, generator=torch.Generator().manual_seed(0))
    y = torch.ones(9, 3, dtype=torch.long)
    with using("torch"):
        c = ss.confusion(
            z, y, task="multilabel", step=ss.LinearStep(), threshold=[0.2, 0.5, 0.8],
            from_logits=True,
        )  # fmt: skip
    assert c.fp.tolist() == [0, 0, 0]
    assert c.tn.tolist() == [0, 0, 0]
