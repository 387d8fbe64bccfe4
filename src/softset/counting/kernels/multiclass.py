"""Counts of several classes for any step, in PyTorch: scores ``[*lead, N, C]``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from softset.counting.numerics import Constants, checked, lowered, readable, summed, wide
from softset.counting.steps import IdentityStep, LinearStep, SigmoidStep, Step
from softset.counting.values import check_rows

if TYPE_CHECKING:
    from softset.counting.kernels.interface import Counted, Kernel
    from softset.counting.problem import Problem

# A smaller ``delta`` of a step is taken for this one: slopes are in units of the first.
FLAT = 1e-12
threshold_backward = torch.ops.aten.threshold_backward


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
            return _counted_by_operator(z, y, w, self.step, self.soft)
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


@lru_cache(maxsize=16)
def _classes(count: int) -> Constants:
    """Their numbers, one below the other."""
    return Constants(np.arange(count, dtype=np.float64)[:, None])


class _Multiclass:
    """The cells in one pass, and their gradient. Tensors are ``[*lead, C, N]`` here."""

    def __init__(self, kernel: MulticlassKernel, z: Tensor, y: Tensor, w: Tensor | None) -> None:
        self.kernel, self.dtype, self.soft = kernel, z.dtype, kernel.soft
        # Which class is that of the row: a mask, or fractions.
        if self.soft:
            self.y = y.mT.to(kernel.dtype)
        else:
            (classes,) = _classes(z.shape[-1]).beside(z)
            self.y = y.unsqueeze(-2) == classes
        self.w = None if w is None else w.to(kernel.dtype).expand(z.shape[:-1]).unsqueeze(-2)
        z = z.mT.to(kernel.dtype)
        if kernel.from_logits:
            self.p = torch.softmax(z, -2)
        else:
            self.p = z.contiguous()
        both = self.p.new_empty(2, *self.p.shape)
        self.degrees, first = self._degrees(both[0])
        h = both[0]
        self.sum = h.sum(-2, keepdim=True)
        others = h.scatter(-2, first, 0.0).sum(-2, keepdim=True)
        torch.sub(self.sum, h, out=both[1])
        both[1].scatter_(-2, first, others)  # which a difference would have lost
        both.div_(self.sum)
        if self.w is not None:
            both.mul_(self.w)
        self.g, self.cells = both[0], self._cells(both)
        if readable(z, y, w):
            check_rows(z.mT, self.cells)

    def _degrees(self, h: Tensor) -> tuple[_Degrees, Tensor]:
        """Into ``h``; and the number of the largest class."""
        p, step = self.p, self.kernel.step
        shape = (*p.shape[:-2], 2, p.shape[-1])
        values, two = p.new_empty(shape), torch.empty(shape, dtype=torch.long, device=p.device)
        (largest, second), (first, at) = (torch.tensor_split(t, 2, -2) for t in (values, two))
        torch.max(p, -2, keepdim=True, out=(largest, first))
        if isinstance(step, IdentityStep):
            return _Identity(p, h), first
        torch.max(p.scatter(-2, first, -1.0), -2, keepdim=True, out=(second, at))
        total = values.sum(-2, keepdim=True)
        if type(step) is LinearStep and self.kernel.from_logits:
            return _Linear(step, p, two, total, h), first
        kind = _Sigmoid if type(step) is SigmoidStep else _Any
        return kind(step, p, two, total, h), first  # type: ignore[arg-type]

    def _cells(self, both: Tensor) -> Tensor:
        terms = both.new_empty(2, *both.shape)
        own, others = terms[:, 0], terms[:, 1]
        torch.mul(both, self.y, out=own)
        if self.soft:
            torch.mul(both, 1 - self.y, out=others)
        else:  # exactly the one or the other
            torch.sub(both, own, out=others)
        return summed(terms).flatten(0, 1)

    def gradient(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The derivative by the scores."""
        positive, negative = (x.to(self.kernel.dtype).unsqueeze(-1) for x in (positive, negative))
        if self.soft:
            r = torch.addcmul(negative, self.y, positive - negative)
        else:
            r = torch.where(self.y, positive, negative)
        return self.from_memberships(r)

    def from_memberships(self, r: Tensor) -> Tensor:
        """The derivative by the scores, from that by the memberships."""
        mean = (r * self.g).sum(-2, keepdim=True)
        r = r if self.w is None else r * self.w
        out = self.degrees.pull(r.sub_(mean).div_(self.sum))
        if self.kernel.from_logits:
            out = torch._softmax_backward_data(out, self.p, -2, out.dtype)
        return lowered(out, self.dtype).mT


def by_true_class(g: Tensor, y: Tensor, soft: bool) -> Tensor:
    """Memberships ``[*lead, N, C]`` added up in the row of their true class, ``[*lead, C, C]``."""
    if soft:
        return y.to(g.dtype).mT @ g
    zeros = g.new_zeros(*g.shape[:-2], g.shape[-1], g.shape[-1])
    return zeros.scatter_add(-2, y.unsqueeze(-1).expand_as(g), g)


class MatrixCounted(torch.autograd.Function):
    """The matrix of several classes as one node of the graph."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Tensor | None, kernel: MulticlassKernel
    ) -> Tensor:
        ctx.save_for_backward(z, y, w)
        ctx.kernel, ctx.counted = kernel, _Multiclass(kernel, z, y, w)
        return by_true_class(ctx.counted.g.mT.to(wide(z.device)), y, kernel.soft)

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor | None, ...]:
        z, y, w = ctx.saved_tensors
        kernel, dtype = ctx.kernel, ctx.kernel.dtype
        if torch.is_grad_enabled():  # a second derivative is wanted
            g = kernel.members(z).to(wide(z.device))
            matrix = by_true_class(g if w is None else g * w.unsqueeze(-1), y, kernel.soft)
            return (*torch.autograd.grad(matrix, z, adjoint, create_graph=True), None, None, None)
        adjoint = adjoint.to(dtype)
        if kernel.soft:
            r = (y.to(dtype) @ adjoint).mT
        else:
            shape = (*z.shape[:-1], z.shape[-1])
            r = adjoint.gather(-2, y.unsqueeze(-1).expand(shape)).mT
        return ctx.counted.from_memberships(r.contiguous()), None, None, None


class _Degrees:
    """``h = H(p, tau)`` of every class, times any number of the row; and the derivative by ``p``
    from one by ``h``."""

    def pull(self, q: Tensor) -> Tensor:
        raise NotImplementedError


class _Identity(_Degrees):
    def __init__(self, p: Tensor, h: Tensor) -> None:
        h.copy_(p)

    def pull(self, q: Tensor) -> Tensor:
        return q


class _Linear(_Degrees):
    """In ``u = p / (2 tau)`` the corners are the same for all rows, and only the largest class can
    be above the upper one: of probabilities that add up to 1, ``tau`` is at most 1/2.

    In units of its first slope the degree is ``u + steeper (u - a)+ - bend (u - b)+``, in which
    ``bend`` depends on ``total = 2 tau``.
    """

    def __init__(self, step: LinearStep, p: Tensor, two: Tensor, total: Tensor, h: Tensor) -> None:
        delta, width = step.delta, step.width
        delta = delta.clamp(min=FLAT) if isinstance(delta, Tensor) else max(delta, FLAT)
        a, b = (1 - width / 2) / 2, (1 + width / 2) / 2
        middle = (1 - 2 * delta) * 2 * a / (delta * width)
        numbers = a, b, a / b, middle - 1, a / b + middle, b * b / a, -b / a
        a, b, self.ratio, self.steeper, bend, slope, at_zero = (
            x.to(p.dtype) if isinstance(x, Tensor) else x for x in numbers
        )
        self.two, self.total = two, total
        self.u = p / total
        self.over, self.past = _above(self.u, a), _above(self.u, b)
        self.falling = _line(total, at_zero, slope).reciprocal_()
        self.bend = self.falling + bend
        _plus(self.u, self.over, self.steeper, h)
        h.addcmul_(self.past, self.bend, value=-1)

    def pull(self, q: Tensor) -> Tensor:
        by_u = _plus(q, threshold_backward(q, self.over, 0), self.steeper)
        by_u.addcmul_(threshold_backward(q, self.past, 0), self.bend, value=-1)
        # The derivative by the total, times the total: u falls with it, and so does the bend.
        each = (self.falling,) * 3
        if isinstance(self.ratio, Tensor):
            bending = self.falling + self.falling**2 / self.ratio
        else:
            bending = torch.addcmul(*each, value=1 / self.ratio)
        by_total = q.mul_(self.past).mul_(bending)
        by_total = by_total.addcmul_(by_u, self.u, value=-1).sum(-2, keepdim=True)
        return by_u.scatter_add_(-2, self.two, by_total.expand_as(self.two)).div_(self.total)


class _Sigmoid(_Degrees):
    def __init__(self, step: SigmoidStep, p: Tensor, two: Tensor, total: Tensor, h: Tensor) -> None:
        self.two, self.k = two, step.k
        self.h = torch.sigmoid(step.k * (p - total / 2))
        h.copy_(self.h)

    def pull(self, q: Tensor) -> Tensor:
        by = q * self.k * self.h * (1 - self.h)
        return by.scatter_add(-2, self.two, by.sum(-2, keepdim=True).expand_as(self.two) / -2)


class _Any(_Degrees):
    """A step of the user's own, differentiated by autograd."""

    def __init__(self, step: Step, p: Tensor, two: Tensor, total: Tensor, h: Tensor) -> None:
        self.two = two
        with torch.enable_grad():
            self.p, self.tau = p.detach().requires_grad_(), (total / 2).requires_grad_()
            made = step(self.p, self.tau)
        self.made = made
        h.copy_(made.detach())

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


def _plus(h: Tensor, x: Tensor, factor: float | Tensor, out: Tensor | None = None) -> Tensor:
    """``h + factor x``."""
    if isinstance(factor, Tensor):
        return torch.addcmul(h, x, factor, out=out)
    return torch.add(h, x, alpha=factor, out=out)


# --- as operators of PyTorch: ``softset::count`` and ``softset::gradient``
#
# ``torch.compile`` and ``torch.export`` pass over them: they know the shape of what comes out, and
# its derivative, and the fastest kernel for the device counts when they are called. What the
# compiler would make of the plain composition is slower: it can't fuse the search for the two
# largest classes with what follows.

DESCRIBED: tuple[type, ...] = (LinearStep, SigmoidStep, IdentityStep)


def describable(step: Step) -> bool:
    """Whether a step is one of ours, of numbers: operators take numbers and tensors."""
    numbers = getattr(step, "__dict__", {}).values()
    return type(step) in DESCRIBED and all(isinstance(v, int | float) for v in numbers)


def _counted_by_operator(z: Tensor, y: Tensor, w: Tensor | None, step: Step, soft: bool) -> Tensor:
    """The cells ``[4, *lead, C]`` of logits ``[*lead, N, C]``."""
    numbers = [float(v) for v in vars(step).values()]
    return _count(z, y, w, DESCRIBED.index(type(step)), numbers, soft)


def _kernel(z: Tensor, step: int, numbers: list[float], soft: bool) -> Kernel:
    from softset.counting.kernels.choice import Scores, multiclass_kernel  # noqa: PLC0415

    scores = Scores.reading(z, from_logits=True, soft=soft)
    return multiclass_kernel(scores, DESCRIBED[step](*numbers))


@torch.library.custom_op("softset::count", mutates_args=())
def _count(
    z: Tensor,
    y: Tensor,
    w: Tensor | None,
    step: int,
    numbers: list[float],
    soft: bool,
) -> Tensor:
    with checked("auto"):
        return _kernel(z, step, numbers, soft).count(z.detach(), y, w).clone()


@_count.register_fake
def _(z: Tensor, y: Tensor, w: Tensor | None, *settings: object) -> Tensor:
    return z.new_empty((4, *z.shape[:-2], z.shape[-1]), dtype=wide(z.device))


@torch.library.custom_op("softset::gradient", mutates_args=())
def _gradient(
    z: Tensor,
    y: Tensor,
    w: Tensor | None,
    adjoint: Tensor,
    step: int,
    numbers: list[float],
    soft: bool,
) -> Tensor:
    tp, fp, fn, tn = adjoint
    kernel = _kernel(z, step, numbers, soft)
    with checked("device"):
        return kernel.gradient(z.detach(), y, w, tp - fn, fp - tn).contiguous()


@_gradient.register_fake
def _(z: Tensor, *settings: object) -> Tensor:
    return torch.empty_like(z, memory_format=torch.contiguous_format)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.settings = inputs[3:]


def _backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor | None, ...]:
    return _gradient(*ctx.saved_tensors, adjoint, *ctx.settings), *[None] * 5


_count.register_autograd(_backward, setup_context=_remember)
