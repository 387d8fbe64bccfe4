"""Optimizers of a stack do what ``torch.optim`` does to each member."""

from __future__ import annotations

import pytest
import torch

from softset.training.updates import OPTIMIZERS, Updater

RATES, DECAYS = (0.1, 0.001, 0.02), (0.0, 0.1, 0.3)


def by_torch(optimizer, rate, decay, parameter):
    if optimizer == "sgd":
        return torch.optim.SGD([parameter], lr=rate, momentum=0.9, weight_decay=decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
    return kind([parameter], lr=rate, weight_decay=decay)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_row_moves_as_with_torch_and_may_leave(optimizer):
    g = torch.Generator().manual_seed(0)
    flat = torch.randn(3, 7, generator=g, dtype=torch.float64)
    alone = [row.clone().requires_grad_() for row in flat]
    theirs = [by_torch(optimizer, *a) for a in zip(RATES, DECAYS, alone, strict=True)]
    ours = Updater(optimizer, flat, torch.tensor(RATES), torch.tensor(DECAYS))
    rows = [0, 1, 2]
    for i in range(20):
        grad = torch.randn(3, 7, generator=g, dtype=torch.float64)
        if i == 10:  # the second leaves, and the state goes through a file
            rows, flat = [0, 2], flat[[0, 2]]
            ours.keep(torch.tensor(rows))
            state = ours.state_dict()
            ours = Updater(optimizer, flat, torch.tensor(RATES)[rows], torch.tensor(DECAYS)[rows])
            ours.load_state_dict(state)
        ours.step(flat, grad[rows])
        for k in rows:
            alone[k].grad = grad[k]
            theirs[k].step()
    torch.testing.assert_close(
        flat, torch.stack([alone[k].detach() for k in rows]), rtol=1e-6, atol=1e-7
    )
