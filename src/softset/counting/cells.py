"""Scores, labels and a step -> ``Confusion``: soft (or hard) counts per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_choice
from softset.counting.kernels.binary import BinaryKernel
from softset.counting.kernels.careful import all_but_each
from softset.counting.kernels.choice import (
    Scores,
    binary_kernel,
    careful_kernels,
    multiclass_kernel,
)
from softset.counting.kernels.interface import Counts, Kernel, count
from softset.counting.kernels.multiclass import MulticlassKernel
from softset.counting.numerics import (
    at_least_zero,
    full_precision,
    raised,
    under_transform,
    wide,
    working,
)
from softset.counting.problem import Problem, arrange, as_numbers
from softset.counting.steps import Step, check_step, is_hard, is_learnt
from softset.counting.values import check_binary, check_labels, check_not_nan, check_rows
from softset.tasks import BINARY, MULTICLASS, Task, get_task

# A difference that is a smaller share than this is the rounding of weights, and zero.
ROUNDING = 1e-12
# Shares of the total below which ``total - predicted`` has lost so many digits that it shows.
LITTLE = {torch.float32: 1e-2, torch.float64: 1e-6}


class MatrixNotCountedError(ValueError):
    """The matrix of several classes was read, and is counted on request only."""


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
    task: Task = BINARY
    counted_matrix: Tensor | None = None
    # Counted on their own where almost all is predicted, and subtraction would leave rounding.
    counted_tn: Tensor | None = None
    counted_rejected: Tensor | None = None
    counted_negatives: Tensor | None = None
    left_out: int | None = None  # a class that ``ignore_index`` names: averages are without it

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", get_task(self.task))

    @property
    def fn(self) -> Tensor:
        return self._between(self.support, self.tp, self.counted_rejected)

    @property
    def fp(self) -> Tensor:
        return self._between(self.predicted, self.tp, self.counted_negatives)

    def _between(self, row: Tensor, tp: Tensor, column: Tensor | None) -> Tensor:
        """A cell that is neither ``tp`` nor ``tn``: ``row - tp``, or ``column - tn`` where that is
        the smaller sum, of which less is rounding."""
        by_row = at_least_zero(row - tp, ROUNDING * row)
        if column is None or self.counted_tn is None:
            return by_row
        by_column = at_least_zero(column - self.counted_tn, ROUNDING * column)
        return torch.where(row < column, by_row, by_column)

    @property
    def tn(self) -> Tensor:
        if self.counted_tn is not None:
            return self.counted_tn
        return at_least_zero(
            (self.total - self.support) - (self.predicted - self.tp), ROUNDING * self.total
        )

    @property
    def negatives(self) -> Tensor:
        """``total - support``."""
        if self.counted_negatives is not None:
            return self.counted_negatives
        return at_least_zero(self.total - self.support, ROUNDING * self.total)

    @property
    def rejected(self) -> Tensor:
        """``total - predicted``."""
        if self.counted_rejected is not None:
            return self.counted_rejected
        return at_least_zero(self.total - self.predicted, ROUNDING * self.total)

    def complete(self) -> Confusion:
        """With all cells as tensors of its own: so that confusions that were counted apart, on
        several machines, hold the same tensors and can be summed one by one."""
        return replace(
            self,
            counted_tn=self.tn,
            counted_rejected=self.rejected,
            counted_negatives=self.negatives,
        )

    @property
    def matrix(self) -> Tensor:
        """Rows true, columns predicted: ``[..., 2, 2]`` for a positive class, or ``[..., C, C]``.

        For several classes it is counted on request only: ``confusion(..., matrix=True)``.
        """
        if self.counted_matrix is not None:
            return self.counted_matrix
        if self.task.exclusive:
            raise MatrixNotCountedError("matrix was not counted; pass matrix=True to confusion().")
        cells = torch.stack([self.tn, self.fp, self.fn, self.tp], -1)
        return cells.reshape(*self.tp.shape, 2, 2)

    @classmethod
    def from_matrix(cls, matrix: Any, task: str = "multiclass") -> Confusion:
        """From counts ``[..., C, C]``, rows true and columns predicted.

        ``task="binary"`` takes ``[..., 2, 2]`` and makes the second class the positive one.
        """
        check_choice("task", task, (BINARY, MULTICLASS))
        task, m = get_task(task), as_numbers("matrix", matrix)
        m = m if m.is_floating_point() else m.to(torch.float64)
        if m.dim() < 2 or m.shape[-1] != m.shape[-2] or (task.single and m.shape[-1] != 2):
            wanted = "[..., 2, 2]" if task.single else "[..., C, C]"
            raise ValueError(f"matrix must have shape {wanted}, got {list(m.shape)}.")
        tp, predicted, support = m.diagonal(dim1=-2, dim2=-1), m.sum(-2), m.sum(-1)
        total = m.sum((-2, -1)).unsqueeze(-1).expand(tp.shape)
        if task.single:
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
        a, b = self, other
        if (a.counted_rejected is None) != (b.counted_rejected is None):
            a, b = a.complete(), b.complete()
        sums = {
            f.name: getattr(a, f.name) + getattr(b, f.name)
            for f in fields(a)
            if isinstance(getattr(a, f.name), Tensor) and isinstance(getattr(b, f.name), Tensor)
        }
        return replace(a, **({"counted_matrix": None} | sums))


def joined(parts: Sequence[Confusion], dim: int, order: Tensor) -> Confusion:
    """Confusions one after another along a dimension, then in this order."""
    if any(c.counted_rejected is not None for c in parts):
        parts = [c.complete() for c in parts]
    names = [f.name for f in fields(Confusion) if isinstance(getattr(parts[0], f.name), Tensor)]
    together: dict[str, Any] = {
        name: torch.cat([getattr(c, name) for c in parts], dim).index_select(dim, order)
        for name in names
    }
    return replace(parts[0], **together)


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
    per: Any = "batch",
    soft_targets: bool = False,
    matrix: bool = False,
) -> Confusion:
    """Count how ``scores`` and ``target`` meet; hard decisions without a ``step``, else soft ones.

    binary: ``tp = sum w y H(p, tau)``, ``predicted = sum w H(p, tau)`` (paper 000 eq. 6);
    multiclass: each row belongs to class j to the degree ``H(p_j, tau) / sum H`` with ``tau`` the
    mean of its two largest probabilities (paper 002 eq. 3 to 5), or wholly to its first largest;
    multilabel: one binary confusion for each label.

    Args:
        scores: logits (probabilities with ``from_logits=False``): ``(N, ...)`` or ``(N, 1, ...)``
            binary, ``(N, C, ...)`` multiclass, ``(N, L, ...)`` multilabel; ``...`` are positions,
            such as pixels.
        target: 0/1 of the same shape, or class numbers ``(N, ...)`` or ``(N, 1, ...)``.
        step: ``LinearStep()``, ``SigmoidStep()``, …, or any differentiable ``step(p, tau)``.
        threshold: in (0, 1); positive means ``p >= threshold``. One for each label if you like.
        thresholds: a grid in (0, 1); counts get a dimension for it.
        offsets: multiclass only, added to the log-probabilities of the classes.
        sample_weight: ``(N,)``, or one for each position ``(N, ...)``; not negative. Next to
            weights of about 1, those below 1e-30 count as none.
        class_weight: weight of an example by its class: two (binary) or C numbers; by label, L.
        ignore_index: a target value that marks entries to leave out. A class of that number is
            left out of averages, too.
        batch_dims: so many leading dimensions are independent problems. ``target`` and
            ``sample_weight`` may come without them, and step parameters may be tensors of that
            shape.
        per: ``"batch"``: all positions are counted together. ``"image"``: each of N is a set of
            its own; or whole numbers ``(N,)`` or ``(N, ...)`` that say which set a position belongs
            to. Counts get a dimension for the sets, in the order of their numbers.
        soft_targets: targets may be fractions in [0, 1], in which all counts are linear; of several
            classes, their probabilities in the shape of the scores.
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
        per=per,
        soft_targets=soft_targets,
    )
    return count_cells(
        problem,
        step,
        threshold=threshold,
        thresholds=thresholds,
        offsets=offsets,
        matrix=matrix,
    )


def count_cells(
    problem: Problem,
    step: Step | None = None,
    *,
    threshold: Any = 0.5,
    thresholds: Any = None,
    offsets: Any = None,
    matrix: bool = False,
    rest: bool = True,
) -> Confusion:
    """``confusion`` of a problem that is arranged already.

    ``tn`` and ``rejected`` are differences, counted on their own where these have lost their
    digits. Without ``rest`` they are not: for metrics that do not read them.
    """
    if problem.numbers is not None:
        settings = {"threshold": threshold, "thresholds": thresholds, "offsets": offsets}
        settings |= {"matrix": matrix, "rest": rest}
        parts = [count_cells(part, step, **settings) for part in problem.by_set()]
        return joined(parts, problem.batch_dims, problem.set_order())
    counting = Counting.of(problem, step, threshold, thresholds, offsets)
    if counting.kernel is None:
        return _hard(counting, matrix)
    if matrix and problem.task.exclusive:
        with full_precision(problem.z):
            return _with_matrix(counting)
    return counting.cells(rest)


@dataclass(frozen=True)
class Counting:
    """A problem with its step and its thresholds, checked; without a kernel decisions are hard."""

    problem: Problem
    step: Step | None
    taus: Sequence[Any]
    grid: bool
    kernel: Kernel | None

    @classmethod
    def of(
        cls,
        problem: Problem,
        step: Step | None,
        threshold: Any = 0.5,
        thresholds: Any = None,
        offsets: Any = None,
    ) -> Counting:
        """Check the arguments of ``count_cells`` and choose the kernel."""
        if step is not None:
            check_step(step)
            step = problem.spread(step)
        if problem.task.exclusive:
            if thresholds is not None or not _is_default(threshold):
                raise ValueError(
                    "threshold and thresholds do not apply to task='multiclass', where the largest "
                    "score decides. Shift the classes with offsets instead."
                )
            problem = problem if offsets is None else problem.shifted(offsets)
            if step is None or is_hard(step):
                return cls(problem, step, (), False, None)
            return cls(problem, step, (), False, multiclass_kernel(Scores.of(problem), step))
        if offsets is not None:
            raise ValueError(
                f"offsets are for task='multiclass', not {problem.task!r}. Use threshold."
            )
        taus, grid = problem.thresholds(threshold, thresholds)
        if step is None or is_hard(step):
            return cls(problem, step, taus, grid, None)
        return cls(problem, step, taus, grid, binary_kernel(Scores.of(problem), step, taus, grid))

    @property
    def learnt(self) -> bool:
        """Whether anything but the scores wants a gradient."""
        if not torch.is_grad_enabled():
            return False
        given = (self.problem.w, *self.taus)
        if any(isinstance(t, Tensor) and t.requires_grad for t in given):
            return True
        return self.step is not None and is_learnt(self.step, self.problem.z)

    def cells(self, rest: bool) -> Confusion:
        """Soft cells; ``rest`` as in ``count_cells``."""
        assert self.kernel is not None
        assert self.step is not None
        z, y, w, learnt = self.problem.z, self.problem.y, self.problem.w, self.learnt
        opaque = under_transform(z, y, w)
        counts = count(self.kernel, z, y, w, plain=learnt)
        if learnt and not opaque:
            self.check(counts)
        if not (rest if opaque else _cancels(counts, self.kernel.dtype, rest)):
            return self.confusion(counts)
        careful, others = careful_kernels(self.problem, self.step, self.taus, self.grid)
        z = raised(z, careful.dtype)  # in which the two gradients add up
        counts = count(careful, z, y, w, plain=learnt)
        return self.confusion(counts, count(others, z, y, w, plain=learnt))

    def check(self, counts: Counts) -> None:
        """Refuse labels and scores that a kernel would have refused."""
        z, y = self.problem.z.detach(), self.problem.y
        if self.problem.task.exclusive:
            return check_rows(z, counts[1].detach())
        if not self.problem.soft:
            check_labels(y)
        return check_binary(z, y, None, counts[1].detach(), self.problem.soft)

    def confusion(self, counts: Counts, others: Counts | None = None) -> Confusion:
        """In the units and in the order of dimensions that are promised."""
        problem = self.problem
        c = Confusion(*counts, MULTICLASS if problem.exclusive else problem.task)
        if others is not None:
            tn, rejected, negatives, _ = others
            c = replace(c, counted_tn=tn, counted_rejected=rejected, counted_negatives=negatives)
        c = in_units(c, problem)
        if problem.task.independent and self.grid:
            c = c.map(lambda t: t.movedim(-1, -2))
        return c


def _cancels(counts: Counts, dtype: torch.dtype, rest: bool = True) -> bool:
    """Whether so little is negative (with ``rest``: or rejected, or both) that it is mostly
    rounding, as the difference that it is."""
    tp, predicted, support, total = (t.detach() for t in counts)
    negatives = total - support
    few = (negatives > 0) & (negatives < LITTLE[dtype if rest else torch.float64] * total)
    if rest:
        few |= (total - predicted) < LITTLE[dtype] * total
        few |= negatives - (predicted - tp) < LITTLE[dtype] * negatives
    return bool(few.any())


def in_units(c: Confusion, problem: Problem) -> Confusion:
    """Counts in the units of the weights, of the classes that averages are over."""
    c = replace(c, left_out=problem.left_out)
    return c if problem.unit == 1 else c.map(lambda t: t * problem.unit)


def _is_default(threshold: Any) -> bool:
    return isinstance(threshold, int | float) and threshold == 0.5


@torch.no_grad()
def _hard(counting: Counting, matrix: bool) -> Confusion:
    problem = counting.problem
    if problem.task.exclusive:
        return in_units(_hard_multiclass(problem, matrix), problem)
    z, y, w = problem.z, problem.y, problem.w

    # Logits are compared as they are: many have one probability. In float64, so that a threshold
    # between two neighbouring float32 scores stays between.
    taus, dtype = counting.taus, wide(z.device)
    if problem.from_logits:
        taus = [torch.logit(torch.as_tensor(t, dtype=dtype, device=z.device)) for t in taus]

    def kernel(decide: Step) -> BinaryKernel:
        return BinaryKernel(decide, taus, counting.grid, False, working(z), problem.soft)

    hard = kernel(lambda s, tau: s.to(wide(s.device)) >= tau)
    if under_transform(z, y, w):
        return counting.confusion(hard.compose(z, y, w))
    check_not_nan(z, torch.isnan(z))
    counts = hard.count(z, y, w)
    if w is None or not _cancels(counts, torch.float64):
        return counting.confusion(counts)
    others = kernel(lambda s, tau: s.to(wide(s.device)) < tau)
    negative = 1 - y.to(wide(y.device)) if problem.soft else y == 0
    return counting.confusion(counts, others.count(z, negative, w))


def _hard_multiclass(problem: Problem, matrix: bool) -> Confusion:
    z, y, classes = problem.z.detach(), problem.y, problem.classes
    check_not_nan(z, torch.isnan(z).any(-1))
    decided, ones = z.argmax(-1), problem.weights()
    if problem.soft:
        return _hard_shares(problem, decided, ones, matrix)
    zeros = ones.new_zeros(*y.shape[:-1], classes * classes if matrix else classes)
    if matrix:
        m = zeros.scatter_add(-1, y * classes + decided, ones)
        return Confusion.from_matrix(m.reshape(*y.shape[:-1], classes, classes))
    right = decided == y
    tp = zeros.scatter_add(-1, y, ones * right)
    predicted = zeros.scatter_add(-1, decided, ones)
    support = zeros.scatter_add(-1, y, ones)
    total = support.sum(-1, keepdim=True).expand_as(support)
    c = Confusion(tp, predicted, support, total, MULTICLASS)
    if (
        problem.w is None
        or under_transform(z)
        or not _cancels((tp, predicted, support, total), torch.float64)
    ):
        return c
    rejected = all_but_each(predicted)
    tn = (rejected - zeros.scatter_add(-1, y, ones * ~right)).clamp(min=0)
    negatives = all_but_each(support)
    return replace(c, counted_tn=tn, counted_rejected=rejected, counted_negatives=negatives)


def _hard_shares(problem: Problem, decided: Tensor, w: Tensor, matrix: bool) -> Confusion:
    """Hard decisions against shares of the classes: row i of the matrix gets ``w y_i``."""
    wy = problem.y.to(w.dtype) * w.unsqueeze(-1)
    made = torch.nn.functional.one_hot(decided, problem.classes).to(w.dtype)
    if matrix:
        return Confusion.from_matrix(wy.mT @ made)
    predicted, support = (made * w.unsqueeze(-1)).sum(-2), wy.sum(-2)
    total = w.sum(-1, keepdim=True).expand_as(support)
    return Confusion((wy * made).sum(-2), predicted, support, total, MULTICLASS)


def _with_matrix(counting: Counting) -> Confusion:
    """Row i of the matrix is the sum of memberships of examples of class i."""
    problem, kernel = counting.problem, counting.kernel
    assert isinstance(kernel, MulticlassKernel)
    g = kernel.members(raised(problem.z, kernel.dtype))
    check_not_nan(problem.z, torch.isnan(g).any(-1))
    classes, g = problem.classes, g.to(wide(g.device))
    if problem.w is not None:
        g = g * problem.w.unsqueeze(-1)
    if problem.soft:
        c = Confusion.from_matrix(problem.y.to(g.dtype).mT @ g)
    else:
        zeros = g.new_zeros(*g.shape[:-2], classes, classes)
        at = problem.y.unsqueeze(-1).expand_as(g)
        c = Confusion.from_matrix(zeros.scatter_add(-2, at, g))
    return in_units(c, problem)
