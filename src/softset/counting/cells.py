"""Scores, labels and a step -> ``Confusion``: soft (or hard) counts per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.choice import binary_kernel, multiclass_kernel
from softset.counting.kernels.interface import Counts, count
from softset.counting.kernels.multiclass import memberships
from softset.counting.numerics import full_precision, under_transform, wide, working
from softset.counting.problem import (
    Problem,
    _is_default,
    _spread_step,
    _taus,
    arrange,
    as_numbers,
    probabilities,
    to_logits,
)
from softset.counting.steps import Step, check_step, is_hard
from softset.counting.values import _refuse_nan


@dataclass(frozen=True)
class Confusion:
    """Counts per class; a class is the positive one (binary), a class or a label.

    Shapes: binary ``[*batch, *thresholds]``, multiclass ``[*batch, classes]``, multilabel
    ``[*batch, *thresholds, labels]``. Two sums, ``tp`` and ``predicted``, are counted; the other
    cells follow by subtraction, so that ``tp + fn`` is the number of positives whatever the step.
    Confusions of the same task add up: ``a + b``.

    >>> import torch
    >>> c = Confusion.from_matrix(torch.tensor([[5.0, 1.0], [2.0, 4.0]]), task="binary")
    >>> [float(v) for v in (c.tp, c.fp, c.fn, c.tn)]
    [4.0, 1.0, 2.0, 5.0]
    """

    tp: Tensor
    predicted: Tensor
    support: Tensor
    total: Tensor
    task: str = "binary"
    counted_matrix: Tensor | None = None

    @property
    def fn(self) -> Tensor:
        return self._rest(self.support, self.tp)

    @property
    def fp(self) -> Tensor:
        return self._rest(self.predicted, self.tp)

    @property
    def tn(self) -> Tensor:
        return self._rest(self.total - self.support, self.predicted - self.tp)

    @property
    def negatives(self) -> Tensor:
        """``total - support``."""
        return self._rest(self.total, self.support)

    @property
    def rejected(self) -> Tensor:
        """``total - predicted``."""
        return self._rest(self.total, self.predicted)

    def _rest(self, whole: Tensor, part: Tensor) -> Tensor:
        """``whole - part``, exactly zero where only the rounding of weights is left."""
        rest = whole - part
        return torch.where(rest > 1e-12 * self.total, rest, 0.0)

    @property
    def matrix(self) -> Tensor:
        """Rows true, columns predicted: ``[..., 2, 2]`` for a positive class, or ``[..., C, C]``.

        For several classes it is counted on request only: ``confusion(..., matrix=True)``.
        """
        if self.counted_matrix is not None:
            return self.counted_matrix
        if self.task == "multiclass":
            raise ValueError("matrix was not counted; pass matrix=True to confusion().")
        cells = torch.stack([self.tn, self.fp, self.fn, self.tp], -1)
        return cells.reshape(*self.tp.shape, 2, 2)

    @classmethod
    def from_matrix(cls, matrix: Any, task: str = "multiclass") -> Confusion:
        """From counts ``[..., C, C]``, rows true and columns predicted.

        ``task="binary"`` takes ``[..., 2, 2]`` and makes the second class the positive one.
        """
        check_choice("task", task, ("binary", "multiclass"))
        m = as_numbers("matrix", matrix)
        m = m if m.is_floating_point() else m.to(torch.float64)
        if m.dim() < 2 or m.shape[-1] != m.shape[-2] or (task == "binary" and m.shape[-1] != 2):
            wanted = "[..., 2, 2]" if task == "binary" else "[..., C, C]"
            raise ValueError(f"matrix must have shape {wanted}, got {list(m.shape)}.")
        tp, predicted, support = m.diagonal(dim1=-2, dim2=-1), m.sum(-2), m.sum(-1)
        total = m.sum((-2, -1)).unsqueeze(-1).expand(tp.shape)
        if task == "binary":
            return cls(tp[..., 1], predicted[..., 1], support[..., 1], total[..., 1])
        return cls(tp, predicted, support, total, task, m)

    def map(self, function: Any) -> Confusion:
        """Apply a function to every tensor."""
        changed = {
            f.name: function(value)
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Tensor)
        }
        return replace(self, **changed)

    def detach(self) -> Confusion:
        """The same counts, cut from the graph."""
        return self.map(Tensor.detach)

    def __add__(self, other: Confusion) -> Confusion:
        if not isinstance(other, Confusion):
            return NotImplemented
        if self.task != other.task:
            raise ValueError(f"cannot add a {other.task} confusion to a {self.task} one.")
        both = self.counted_matrix is not None and other.counted_matrix is not None
        return Confusion(
            self.tp + other.tp,
            self.predicted + other.predicted,
            self.support + other.support,
            self.total + other.total,
            self.task,
            self.counted_matrix + other.counted_matrix if both else None,  # type: ignore[operator]
        )


def confusion(
    scores: Any,
    target: Any,
    *,
    task: str = "binary",
    step: Step | None = None,
    threshold: Any = 0.5,
    thresholds: Any = None,
    offsets: Any = None,
    from_logits: bool = True,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
    batch_dims: int = 0,
    matrix: bool = False,
) -> Confusion:
    """Count how ``scores`` and ``target`` meet; hard decisions without a ``step``, else soft ones.

    binary: ``tp = sum w y H(p, tau)``, ``predicted = sum w H(p, tau)`` (paper 000 eq. 6);
    multiclass: each row belongs to class j to the degree ``H(p_j, tau) / sum H`` with ``tau`` the
    mean of its two largest probabilities (paper 002 eq. 3 to 5), or wholly to its first largest;
    multilabel: one binary confusion for each label.

    Args:
        scores: logits (probabilities with ``from_logits=False``): ``(N,)`` or ``(N, 1)`` binary,
            ``(N, C, ...)`` multiclass, ``(N, L)`` multilabel.
        target: 0/1 of the same shape, or class numbers ``(N, ...)``.
        step: ``LinearStep()``, ``SigmoidStep()``, …, or any differentiable ``step(p, tau)``.
        threshold: in (0, 1); positive means ``p >= threshold``. One for each label if you like.
        thresholds: a grid in (0, 1); counts get a dimension for it.
        offsets: multiclass only, added to the log-probabilities of the classes.
        sample_weight: ``(N,)``, not negative.
        class_weight: weight of an example by its class: two (binary) or C numbers; by label, L.
        ignore_index: a target value that marks entries to leave out.
        batch_dims: so many leading dimensions are independent problems. ``target`` and
            ``sample_weight`` may come without them, and step parameters may be tensors of that
            shape.
        matrix: count the C x C matrix too (multiclass).

    >>> import torch
    >>> c = confusion(torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1, 1, 0]))
    >>> [int(v) for v in (c.tp, c.fp, c.fn, c.tn)]
    [1, 1, 1, 0]
    >>> from softset import LinearStep
    >>> soft = confusion(torch.tensor([2.0, -1.0]), torch.tensor([1, 1]), step=LinearStep())
    >>> round(float(soft.tp + soft.fn), 6)
    2.0
    """
    problem = arrange(
        scores,
        target,
        task=task,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
        batch_dims=batch_dims,
    )
    if step is not None:
        check_step(step)
        step = _spread_step(step, problem)
    if task == "multiclass":
        if thresholds is not None or not _is_default(threshold):
            raise ValueError(
                "threshold and thresholds do not apply to task='multiclass', where the largest "
                "score decides. Shift the classes with offsets instead."
            )
        return _multiclass(problem, step, offsets, from_logits, matrix)
    if offsets is not None:
        raise ValueError(f"offsets are for task='multiclass', not {task!r}. Use threshold.")
    taus, grid = _taus(threshold, thresholds, problem)
    if step is None or is_hard(step):
        tp, predicted, support, total = _hard_binary(problem, taus, grid, from_logits)
    else:
        kernel = binary_kernel(problem.z, step, taus, grid, from_logits)
        tp, predicted, support, total = count(kernel, problem.z, problem.y, problem.w)
    c = Confusion(tp, predicted, support, total, task)
    return c.map(lambda t: t.movedim(-1, -2)) if task == "multilabel" and grid else c


@torch.no_grad()
def _hard_binary(problem: Problem, taus: Sequence[Any], grid: bool, from_logits: bool) -> Counts:
    z, y, w, _, _ = problem
    # In float64: a threshold between two neighbouring float32 probabilities must stay between.
    hard = BinaryKernel(
        lambda p, tau: p.to(wide(p.device)) >= tau, taus, grid, from_logits, working(z)
    )
    if under_transform(z, y, w):
        return hard.compose(z, y, w)
    _refuse_nan(z, torch.isnan(z))
    return hard.count(z, y, w)[0]


def _multiclass(
    problem: Problem, step: Step | None, offsets: Any, from_logits: bool, matrix: bool
) -> Confusion:
    z, y, w, task, _ = problem
    if offsets is not None:
        shift = as_numbers("offsets", offsets, z.device).to(wide(z.device))
        if shift.shape != z.shape[-1:]:
            raise ValueError(
                f"offsets must hold one number for each of {z.shape[-1]} classes, got shape "
                f"{list(shift.shape)}."
            )
        # In float64: an offset between two neighbouring float32 scores must stay between.
        z = to_logits(z, from_logits) + shift
        from_logits = True
    if step is None or is_hard(step):
        return _hard_multiclass(z.detach(), y, w, matrix)
    if matrix:
        with full_precision(z):
            return _with_matrix(memberships(probabilities(z, task, from_logits), step), y, w)
    return Confusion(*count(multiclass_kernel(z, step, from_logits), z, y, w), task)


def _hard_multiclass(z: Tensor, y: Tensor, w: Tensor | None, matrix: bool) -> Confusion:
    _refuse_nan(z, torch.isnan(z).any(-1))
    decided = z.argmax(-1)
    classes, dtype = z.shape[-1], wide(z.device)
    ones = torch.ones_like(y, dtype=dtype) if w is None else w.to(dtype).expand(y.shape)
    zeros = torch.zeros(*y.shape[:-1], classes * classes if matrix else classes)
    zeros = zeros.to(z.device, dtype)
    if matrix:
        m = zeros.scatter_add(-1, y * classes + decided, ones)
        return Confusion.from_matrix(m.reshape(*y.shape[:-1], classes, classes))
    tp = zeros.scatter_add(-1, y, ones * (decided == y))
    predicted = zeros.scatter_add(-1, decided, ones)
    support = zeros.scatter_add(-1, y, ones)
    total = support.sum(-1, keepdim=True).expand_as(support)
    return Confusion(tp, predicted, support, total, "multiclass")


def _with_matrix(g: Tensor, y: Tensor, w: Tensor | None) -> Confusion:
    """Row i of the matrix is the sum of memberships of examples of class i."""
    _refuse_nan(g, torch.isnan(g).any(-1))
    classes, g = g.shape[-1], g.to(wide(g.device))
    if w is not None:
        g = g * w.unsqueeze(-1)
    zeros = torch.zeros(*g.shape[:-2], classes, classes).to(g)
    return Confusion.from_matrix(zeros.scatter_add(-2, y.unsqueeze(-1).expand_as(g), g))
