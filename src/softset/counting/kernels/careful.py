"""Counts where others would lose their digits, in float64 and by autograd: slower, and rare.

These kernels sum ``1 - H`` on its own: ``total - predicted`` is mere rounding where almost all is
predicted.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.interface import Counts
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.steps import rest_of


class RestKernel(BinaryKernel):
    """The same problem from the other side: ``tn``, ``rejected``, ``negatives`` and ``total``."""

    def degrees(self, z: Tensor) -> Iterator[Tensor]:
        p, q = self.probabilities(z), self.others(z)
        return (rest_of(self.step, p, q, tau) for tau in self.taus)

    def labels(self, y: Tensor) -> Tensor:
        return 1 - super().labels(y)


class MulticlassRestKernel(MulticlassKernel):
    """For each class the rows of the others: ``tn``, ``rejected``, ``negatives`` and ``total``."""

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
        g = self.members(z)
        # What a row gives to all classes but one: only the largest can be next to 1, and for it the
        # others are added up.
        top = g.detach().argmax(-1, keepdim=True)
        others = g.scatter(-1, top, 0.0).sum(-1, keepdim=True)
        rest = (1 - g).scatter(-1, top, others)
        if self.soft:
            y = y.to(g.dtype)
            ones = torch.ones_like(y[..., 0]) if w is None else w.to(g.dtype).expand(y.shape[:-1])
            rest = rest * ones.unsqueeze(-1)
            support = (y * ones.unsqueeze(-1)).sum(-2)
            total = ones.sum(-1, keepdim=True).expand_as(support)
            return (rest * (1 - y)).sum(-2), rest.sum(-2), all_but_each(support), total
        ones = torch.ones_like(y, dtype=g.dtype) if w is None else w.to(g.dtype).expand(y.shape)
        own = y.unsqueeze(-1)
        tn = (rest.scatter(-1, own, 0.0) * ones.unsqueeze(-1)).sum(-2)
        zeros = torch.zeros_like(tn)
        missed = zeros.scatter_add(-1, y, rest.gather(-1, own).squeeze(-1) * ones)
        support = zeros.scatter_add(-1, y, ones)
        total = ones.sum(-1, keepdim=True).expand_as(support)
        return tn, tn + missed, all_but_each(support), total


def all_but_each(x: Tensor) -> Tensor:
    """The sum of the others, for every element of the last dimension; nothing is subtracted.

    >>> all_but_each(torch.tensor([1.0, 2.0, 4.0])).tolist()
    [6.0, 5.0, 3.0]
    """
    before = torch.nn.functional.pad(x.cumsum(-1)[..., :-1], (1, 0))
    after = torch.nn.functional.pad(x.flip(-1).cumsum(-1)[..., :-1], (1, 0))
    return before + after.flip(-1)
