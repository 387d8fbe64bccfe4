"""The real Accelerate; ``make test-integrations`` installs it."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import softset as ss

accelerate = pytest.importorskip("accelerate")
CountedMetric = pytest.importorskip("softset.integrations.torchmetrics").CountedMetric


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=g)
    return x, (x[:, 0] + 0.3 * torch.randn(n, generator=g) > 1).long()


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_a_loop_learns_and_its_f1_is_that_of_all_rows():
    """The example of docs/integrations.md."""
    torch.manual_seed(0)
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(4, 1)
    loader = DataLoader(TensorDataset(*rows(512, 0)), 64, shuffle=True)
    held_out = DataLoader(TensorDataset(*rows(210, 1)), 16)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    model, optimizer, loader, held_out = accelerator.prepare(model, optimizer, loader, held_out)
    loss = ss.MetricLoss("f1", sync="auto")
    for _ in range(15):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(loss(model(x), y))
            optimizer.step()
    counted = CountedMetric("f1")
    with torch.no_grad():
        for x, y in held_out:
            counted.update(*accelerator.gather_for_metrics((model(x), y)))
    x, y = rows(210, 1)
    with torch.no_grad():
        f1 = ss.evaluate(model(x).squeeze(1), y, "f1", from_logits=True)
    assert float(counted.compute()) == pytest.approx(f1)
    assert f1 > 0.75


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_exact_accumulation_through_its_backward():
    """One step of all rows in micro-batches, as ``Accumulation`` has it for any engine."""
    accelerator = accelerate.Accelerator(cpu=True)
    x, y = rows(256, 0)
    model = accelerator.prepare(torch.nn.Linear(4, 1).double())
    loss = ss.MetricLoss("f1")
    loss(model(x.double()), y).backward()
    wanted = model.weight.grad.clone()
    model.zero_grad()
    micro = list(zip(x.double().split(32), y.split(32), strict=True))
    total = ss.training.Accumulation(loss)
    with torch.no_grad():
        for a, b in micro:
            total.count(model(a), b)
    for a, b in micro:
        accelerator.backward(total(model(a), b))
    assert (model.weight.grad - wanted).abs().max() < 1e-12
