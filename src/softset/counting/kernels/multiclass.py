"""Counts of several classes for any step, in PyTorch: scores ``[*lead, N, C]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softset.counting.kernels.operators import count, describable
from softset.counting.numerics import lowered, readable, summed, wide
from softset.counting.steps import IdentityStep, LinearStep, SigmoidStep, Step
from softset.counting.values import check_rows

if TYPE_CHECKING:
    from softset.counting.kernels.interface import Counted
    from softset.counting.problem import Problem

# Fewer classes than this are faster on a CPU class by class than row by row.
FEW_CLASSES = 64


def largest(x: Tensor, among: Tensor | None = None) -> Tensor:
    """True for the largest of each row, the first of equal ones; ``among`` those that are True."""
    x = x.detach() if among is None else x.detach().masked_fill(~among, float("-inf"))
    return torch.arange(x.shape[-1], device=x.device) == x.argmax(-1, keepdim=True)


def memberships(p: Tensor, step: Step) -> Tensor:
    """``g = H(p, tau) / sum H`` with ``tau`` the mean of the two largest (paper 002 eq. 3 to 5)."""
    first = largest(p)
    tau = torch.where(first | largest(p, ~first), p, 0.0).sum(-1, keepdim=True) / 2
    h = step(p, tau)
    return h / h.sum(-1, keepdim=True)


def all_but(g: Tensor) -> Tensor:
    """``1 - g``: what a row gives to all classes but one. Only the largest can be next to 1, and
    for it the others are added up."""
    first = largest(g)
    return torch.where(first, torch.where(first, 0.0, g).sum(-1, keepdim=True), 1 - g)


class MulticlassKernel:
    """``tp[y] += w g[y]``, ``fp += w g`` of the other classes, and so on, for any step, in one
    pass.

    ``soft`` targets are fractions of the classes ``[*lead, N, C]``: ``tp += w y g``.
    """

    def __init__(
        self, step: Step, from_logits: bool, dtype: torch.dtype, soft: bool = False
    ) -> None:
        self.step, self.from_logits = step, from_logits
        self.dtype = dtype  # of elementwise work
        self.soft = soft

    def members(self, z: Tensor) -> Tensor:
        z = z.to(self.dtype)
        return memberships(torch.softmax(z, -1) if self.from_logits else z, self.step)

    def compose(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        if torch.compiler.is_compiling() and self.from_logits and describable(self.step):
            return count(z, y, w, self.step, self.soft)
        dtype = wide(z.device)
        g = self.members(z).to(dtype)
        w = None if w is None else w.to(dtype).expand(g.shape[:-1]).unsqueeze(-1)
        g, rest = (x if w is None else x * w for x in (g, all_but(g)))
        if self.soft:
            own = y.to(dtype)
            return torch.stack([(a * b).sum(-2) for a in (g, rest) for b in (own, 1 - own)])
        own = y.unsqueeze(-1) == torch.arange(z.shape[-1], device=z.device)
        cells = [torch.where(b, a, 0.0).sum(-2) for a in (g, rest) for b in (own, ~own)]
        return torch.stack(cells)

    def in_place(self, problem: Problem) -> Counted | None:
        """Nothing: it needs arguments laid out."""
        return None

    def counted(self, z: Tensor, y: Tensor, w: Tensor | None, keep: bool = False) -> Counted:
        return _Multiclass(self, z, y, w)

    def count(self, z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        return _Multiclass(self, z, y, w).cells

    def gradient(
        self, z: Tensor, y: Tensor, w: Tensor | None, positive: Tensor, negative: Tensor
    ) -> Tensor:
        return _Multiclass(self, z, y, w).gradient(positive, negative)


class _Multiclass:
    """The cells in one pass, and their gradient. Tensors are ``[*lead, C, N]`` here."""

    def __init__(self, kernel: MulticlassKernel, z: Tensor, y: Tensor, w: Tensor | None) -> None:
        self.kernel, self.dtype, self.soft = kernel, z.dtype, kernel.soft
        self.y = y.mT.to(kernel.dtype) if self.soft else y.unsqueeze(-2)
        self.w = None if w is None else w.to(kernel.dtype).expand(z.shape[:-1]).unsqueeze(-2)
        self.p = p = self._probabilities(z)
        largest, first = p.max(-2, keepdim=True)
        if isinstance(kernel.step, IdentityStep):
            self.degrees: _Degrees = _Identity(p)
        else:
            p.scatter_(-2, first, -1.0)
            second, at = p.max(-2, keepdim=True)
            p.scatter_(-2, first, largest)
            two, total = torch.cat([first, at], -2), largest + second
            step = kernel.step
            if type(step) is LinearStep and kernel.from_logits:
                self.degrees = _Linear(step, p, two, total)
            elif type(step) is SigmoidStep:
                self.degrees = _Sigmoid(step, p, two, total)
            else:
                self.degrees = _Any(step, p, two, total)
        h = self.degrees.h
        self.sum = h.sum(-2, keepdim=True)
        others = h.scatter(-2, first, 0.0).sum(-2, keepdim=True)
        both = p.new_empty(2, *h.shape)
        torch.div(h, self.sum, out=both[0])
        torch.sub(1.0, both[0], out=both[1])
        both[1].scatter_(-2, first, others / self.sum)
        if self.w is not None:
            both.mul_(self.w)
        self.cells = self._cells(both)
        self.g = both[0]
        if readable(z, y, w):
            check_rows(z, self.cells)

    def _probabilities(self, z: Tensor) -> Tensor:
        """As a tensor that may be changed for a moment."""
        z = z.to(self.kernel.dtype)
        few = z.is_cpu and z.shape[-1] < FEW_CLASSES
        if not self.kernel.from_logits:
            return z.mT.clone(memory_format=torch.contiguous_format) if few else z.clone().mT
        if few or z.stride(-1) != 1:
            return torch.softmax(z.mT, -2)
        return torch.softmax(z, -1).mT

    def _cells(self, both: Tensor) -> Tensor:
        if self.soft:
            own = both * self.y
            others = both * (1 - self.y)
            return torch.stack([summed(own), summed(others)], 1).flatten(0, 1)
        at = self.y.expand(2, *self.y.shape)
        self.own = own = both.gather(-2, at)
        both.scatter_(-2, at, 0.0)
        cells = torch.zeros(2, 2, *both.shape[1:-1], dtype=wide(both.device), device=both.device)
        cells[:, 0].scatter_add_(-1, at.squeeze(-2), own.squeeze(-2).to(cells.dtype))
        summed(both, out=cells[:, 1])
        return cells.flatten(0, 1)

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores."""
        positive, negative = (x.to(self.kernel.dtype) for x in (positive, negative))
        w, by = self.w, negative.unsqueeze(-1)
        if self.soft:
            r = torch.addcmul(by, self.y, positive.unsqueeze(-1) - by)
            mean = (r * self.g).sum(-2, keepdim=True)
            q = (r if w is None else r * w) - mean
        else:
            own = positive.gather(-1, self.y.squeeze(-2)).unsqueeze(-2)
            mean = (self.g * by).sum(-2, keepdim=True).addcmul_(own, self.own[0])
            q = (by if w is None else by * w) - mean
            q.scatter_(-2, self.y, (own if w is None else own * w) - mean)
        out = self.degrees.pull(q.div_(self.sum))
        if self.kernel.from_logits:
            out = torch._softmax_backward_data(out, self.p, -2, out.dtype)
        return lowered(out, self.dtype).mT


class _Degrees:
    """``h = H(p, tau)`` of every class, and the derivative by ``p`` from one by ``h``."""

    h: Tensor

    def pull(self, q: Tensor) -> Tensor:
        raise NotImplementedError


class _Identity(_Degrees):
    def __init__(self, p: Tensor) -> None:
        self.h = p

    def pull(self, q: Tensor) -> Tensor:
        return q


class _Linear(_Degrees):
    """In ``u = p / (2 tau)`` the corners are the same for all rows, and only the largest class can
    be above the upper one: of probabilities that add up to 1, ``tau`` is at most 1/2."""

    def __init__(self, step: LinearStep, p: Tensor, two: Tensor, total: Tensor) -> None:
        delta, width = step.delta, step.width
        self.two, self.total = two, total
        corners = (1 - width / 2) / 2, (1 + width / 2) / 2
        slopes = 2 * delta / (1 - width / 2), 2 * (1 - 2 * delta) / width  # by u
        a, b, self.low, self.middle, delta = (
            x.to(p.dtype) if isinstance(x, Tensor) else x for x in (*corners, *slopes, delta)
        )
        self.u = p / total
        self.past = _above(self.u, b)
        self.over = self.u.clamp(a, b).sub_(a)
        self.beyond = _line(total, 1.0, -b)
        self.high = delta * total / self.beyond
        h = _plus(self.u.clamp(max=a).mul_(self.low), self.over, self.middle)
        self.h = h.addcmul_(self.past, self.high)

    def pull(self, q: Tensor) -> Tensor:
        slope = _line(self.over.sign(), self.low, self.middle - self.low)
        by_u = torch.lerp(slope, self.high, self.past.sign()).mul_(q)
        # The derivative by the total, times the total: u falls with it, and the last slope rises.
        by_total = q.mul_(self.past).mul_(self.high / self.beyond)
        by_total = by_total.addcmul_(by_u, self.u, value=-1).sum(-2, keepdim=True)
        return by_u.scatter_add_(-2, self.two, by_total.expand_as(self.two)).div_(self.total)


class _Sigmoid(_Degrees):
    def __init__(self, step: SigmoidStep, p: Tensor, two: Tensor, total: Tensor) -> None:
        self.two, self.k = two, step.k
        self.h = torch.sigmoid(step.k * (p - total / 2))

    def pull(self, q: Tensor) -> Tensor:
        by = q * self.k * self.h * (1 - self.h)
        return by.scatter_add(-2, self.two, by.sum(-2, keepdim=True).expand_as(self.two) / -2)


class _Any(_Degrees):
    """A step of the user's own, differentiated by autograd."""

    def __init__(self, step: Step, p: Tensor, two: Tensor, total: Tensor) -> None:
        self.two = two
        with torch.enable_grad():
            self.p, self.tau = p.detach().requires_grad_(), (total / 2).requires_grad_()
            made = step(self.p, self.tau)
        self.made, self.h = made, made.detach().to(p.dtype)

    def pull(self, q: Tensor) -> Tensor:
        if not self.made.requires_grad:
            return torch.zeros_like(q)
        by, by_tau = torch.autograd.grad(
            self.made,
            (self.p, self.tau),
            q.to(self.made.dtype),
            allow_unused=True,
            materialize_grads=True,
            retain_graph=True,
        )
        return by.scatter_add(-2, self.two, by_tau.expand_as(self.two) / 2)


def _above(u: Tensor, corner: float | Tensor) -> Tensor:
    """``max(u - corner, 0)`` of what is not negative."""
    if isinstance(corner, Tensor):
        return (u - corner).clamp_(min=0)
    return torch.nn.functional.softshrink(u, corner)


def _line(x: Tensor, at_zero: float | Tensor, slope: float | Tensor) -> Tensor:
    """``at_zero + slope x``."""
    if isinstance(at_zero, Tensor) or isinstance(slope, Tensor):
        return at_zero + slope * x
    return torch.rsub(x, at_zero, alpha=-slope)


def _plus(h: Tensor, x: Tensor, factor: float | Tensor) -> Tensor:
    """``h + factor x``, in the place of ``h``."""
    return h.addcmul_(x, factor) if isinstance(factor, Tensor) else h.add_(x, alpha=factor)
