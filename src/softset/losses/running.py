"""Counts over many batches: what a small batch cannot tell, the ones before it can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softset.checks import check_number
from softset.counting.flat import carried


class RunningCounts(nn.Module):
    """An exponentially weighted mean of the counts of batches, the last one included.

    ``e_t = m e_(t-1) + (1 - m) C_t``, divided by ``1 - m^t``, so that the first batches count in
    full. It has the value of the mean and the derivative of ``C_t``: a metric ``f`` of it has the
    gradient ``f'(mean) dC_t``, whose expectation is that of ``f`` of the expected counts as far as
    the mean is right (stochastic compositional optimization). The counts of a smaller batch are
    smaller: every row has the same weight.

    >>> running = RunningCounts(0.5)
    >>> [round(running(torch.tensor([x])).item(), 4) for x in (1.0, 4.0, 4.0)]
    [1.0, 3.0, 3.5714]
    """

    counts: Tensor
    weight: Tensor

    def __init__(self, ema_decay: float) -> None:
        super().__init__()
        check_number(
            "ema_decay", ema_decay, 0, 1, closed="low", hint="0.9 remembers about 10 batches."
        )
        self.ema_decay = float(ema_decay)
        self.register_buffer("counts", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("weight", torch.zeros((), dtype=torch.float64))

    def forward(self, flat: Tensor) -> Tensor:
        """Take in the counts of a batch, ``[size]``."""
        now, m = flat.detach(), self.ema_decay
        if self.counts.numel() == 0:
            self.counts = torch.zeros_like(now)
        if self.counts.shape != now.shape:
            raise ValueError(
                f"the loss remembers {len(self.counts)} counts and got {len(now)}: the number of "
                "classes or of thresholds has changed. Make a new loss."
            )
        self.counts = m * self.counts.to(now) + (1 - m) * now
        self.weight = m * self.weight.to(now) + (1 - m)
        return carried(self.counts / self.weight, flat)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, object], prefix: str, *others: Any
    ) -> None:
        saved = state_dict.get(f"{prefix}counts")
        if isinstance(saved, Tensor):  # their number is known after the first batch
            self.counts = self.counts.new_zeros(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def extra_repr(self) -> str:
        return f"ema_decay={self.ema_decay}"
