"""What the tests of losses and counts do not see of the binary kernels."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import softset as ss
from softset.counting.kernels.blocks import CHUNK


@pytest.mark.parametrize("kind", [torch.float32, torch.int64])
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
def test_chunks_share_their_memory(kind, metric):
    """Large tensors made for every chunk leave holes in the heap: twice the memory, by chance."""
    n = 16 * CHUNK
    z, y = torch.randn(n, requires_grad=True), (torch.arange(n) % 10 == 0).to(kind)
    loss = ss.MetricLoss(metric)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss(z, y).backward()
    large = [e for e in seen.events() if e.self_cpu_memory_usage >= CHUNK and e.cpu_children == []]
    assert 0 < len(large) < 16
