"""Scores, labels and a step -> ``Confusion``: soft (or hard) counts per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softset.counting.confusion import ROUNDING, joined
from softset.counting.confusion import Confusion as Confusion  # noqa: PLC0414 (exported)
from softset.counting.kernels.binary import Tau
from softset.counting.kernels.choice import kernel_for, usual_kernel
from softset.counting.kernels.interface import Counted, Kernel, count, differentiable, laid_out
from softset.counting.kernels.multiclass import MatrixCounted, MulticlassKernel, by_true_class
from softset.counting.numerics import (
    all_but_each,
    at_least_zero,
    full_precision,
    raised,
    readable,
    under_transform,
    wide,
)
from softset.counting.problem import Problem, arrange, check_thresholds
from softset.counting.steps import Step, check_step, is_hard, is_learned
from softset.counting.values import check_binary, check_labels, check_not_nan, check_rows
from softset.tasks import MULTICLASS
from softset.typing import Groups, TensorLike, Threshold, Weights


def confusion(
    scores: TensorLike,
    target: TensorLike,
    *,
    task: str = "binary",
    step: Step | None = None,
    threshold: Threshold = 0.5,
    thresholds: Threshold | None = None,
    offsets: TensorLike | None = None,
    from_logits: bool | None = None,
    sample_weight: Weights = None,
    class_weight: Weights = None,
    ignore_index: int | None = None,
    batch_dims: int = 0,
    per: Groups = "batch",
    soft_targets: bool = False,
    matrix: bool = False,
) -> Confusion:
    """Count how ``scores`` and ``target`` meet; hard decisions without a ``step``, else soft ones.

    binary: ``tp = sum w y H(p, tau)``, ``predicted = sum w H(p, tau)`` (paper 000 eq. 6);
    multiclass: each row belongs to class j to the degree ``H(p_j, tau) / sum H`` with ``tau`` the
    mean of its two largest probabilities (paper 002 eq. 3 to 5), or wholly to its first largest;
    multilabel: one binary confusion for each label.

    Args:
        scores: logits, or probabilities with ``from_logits=False``; where all lie in [0, 1], say
            which, by ``from_logits=True`` or ``False``. Shape ``(N, ...)`` or ``(N, 1, ...)``
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
            its own; or integers ``(N,)`` or ``(N, ...)`` that say which set a position belongs
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
    threshold: Threshold = 0.5,
    thresholds: Threshold | None = None,
    offsets: TensorLike | None = None,
    matrix: bool = False,
) -> Confusion:
    """``confusion`` of a problem that is arranged already."""
    if problem.numbers is not None:
        confusions = [
            count_cells(
                part,
                step,
                threshold=threshold,
                thresholds=thresholds,
                offsets=offsets,
                matrix=matrix,
            )
            for part in problem.by_set()
        ]
        return joined(confusions, problem.batch_dims, problem.set_order())
    counting = Counting.of(problem, step, threshold, thresholds, offsets)
    if counting.kernel is None:
        return _hard(counting, matrix)
    if matrix and problem.task.exclusive:
        with full_precision(problem.z):
            return _with_matrix(counting)
    return counting.cells()


@dataclass(frozen=True)
class Counting:
    """A problem with its step and its thresholds, checked; without a kernel decisions are hard."""

    problem: Problem
    step: Step | None
    taus: Sequence[Tau]
    grid: bool
    kernel: Kernel | None
    usual: bool = False  # there is nothing to be learned but scores and weights

    @classmethod
    def of(
        cls,
        problem: Problem,
        step: Step | None,
        threshold: Threshold = 0.5,
        thresholds: Threshold | None = None,
        offsets: TensorLike | None = None,
    ) -> Counting:
        """Check the arguments of ``count_cells`` and choose the kernel."""
        if thresholds is None and offsets is None and type(threshold) is float:
            kernel = usual_kernel(problem, step, threshold)
            if kernel is not None:
                return cls(problem, step, (threshold,), False, kernel, usual=True)
        if step is not None:
            check_step(step)
            step = problem.spread(step)
        if problem.task.exclusive:
            check_thresholds(problem.task, threshold, thresholds)
            problem = problem if offsets is None else problem.shifted(offsets)
            if step is None or is_hard(step):
                return cls(problem, step, (), False, None)
            return cls(problem, step, (), False, kernel_for(problem, step, (), False))
        if offsets is not None:
            raise ValueError(
                f"offsets are for task='multiclass', not {problem.task!r}. Use threshold."
            )
        taus, grid = problem.thresholds(threshold, thresholds)
        if step is None or is_hard(step):
            return cls(problem, step, taus, grid, None)
        return cls(problem, step, taus, grid, kernel_for(problem, step, taus, grid))

    @property
    def learned(self) -> bool:
        """Whether anything but the scores wants a gradient."""
        if not torch.is_grad_enabled():
            return False
        made_of = self.problem.arguments
        weights = (self.problem.w,) if made_of is None else made_of[2:4]
        tensors = (*weights, *self.taus)
        if any(isinstance(t, Tensor) and t.requires_grad for t in tensors):
            return True
        return self.step is not None and is_learned(self.step, self.problem.scores)

    def cells(self) -> Confusion:
        """The soft counts."""
        assert self.kernel is not None
        counted = self.in_place()
        if counted is not None:
            return self.counted(counted)
        problem, learned = self.problem, self.learned
        cells = count(self.kernel, problem, plain=learned)
        if learned and readable(problem.z, problem.y, problem.w):
            self.check(cells)
        return self.confusion(cells)

    def in_place(self) -> Counted | None:
        """What the kernel counts of the arguments where they lie in memory, if it does."""
        if self.kernel is None or (not self.usual and self.learned):
            return None
        return self.kernel.in_place(self.problem)

    def laid_out(self) -> Counted | None:
        """What the kernel counts of arguments that are laid out, if there is nothing to be learned
        but scores."""
        problem = self.problem
        if self.kernel is None or self.learned:
            return None
        if under_transform(problem.z, problem.y, problem.w):
            return None
        return laid_out(self.kernel, problem)

    def counted(self, counted: Counted) -> Confusion:
        """With the graph of the scores; weights that were read in place are in their own units."""
        assert self.kernel is not None
        cells = differentiable(self.problem.scores, self.kernel, self.problem, counted)
        return self.confusion(cells, unit=1.0)

    def check(self, cells: Tensor) -> None:
        """Refuse labels and scores that a kernel would have refused."""
        z, y = self.problem.z.detach(), self.problem.y
        if self.problem.task.exclusive:
            return check_rows(z, cells.detach())
        if not self.problem.soft:
            check_labels(y)
        return check_binary(z, y, None, cells.detach(), self.problem.soft)

    def oriented(self, cells: Tensor) -> Tensor:
        """Cells of a kernel in the order of dimensions of a confusion, and the other way round."""
        return cells.mT if self.problem.task.independent and self.grid else cells

    def confusion(self, cells: Tensor, unit: float | None = None) -> Confusion:
        """In the units and in the order of dimensions that are promised."""
        problem = self.problem
        c = Confusion.of(self.oriented(cells), MULTICLASS if problem.exclusive else problem.task)
        return in_units(c, problem, unit)


def in_units(c: Confusion, problem: Problem, unit: float | None = None) -> Confusion:
    """Counts in the units of the weights, of the classes that averages are over."""
    c = c if problem.left_out is None else replace(c, left_out=problem.left_out)
    unit = problem.unit if unit is None else unit
    return c if unit == 1 else c.map(lambda t: t * unit)


@torch.no_grad()
def _hard(counting: Counting, matrix: bool) -> Confusion:
    problem = counting.problem
    if problem.task.exclusive:
        return in_units(_hard_multiclass(problem, matrix), problem)
    z, y, w = problem.z, problem.y, problem.w

    if readable(z, y):
        check_not_nan(z, torch.isnan(z))
        if not problem.soft:
            check_labels(y)
    # Logits are compared as they are: many have one probability. In float64, so that a threshold
    # between two neighboring float32 scores stays between.
    dtype = wide(z.device)
    z = z.to(dtype)
    each = []
    for tau in counting.taus:
        threshold = torch.as_tensor(tau, dtype=dtype, device=z.device)
        yes = z >= (torch.logit(threshold) if problem.from_logits else threshold)
        each.append(torch.stack([_mass(decided, y, w) for decided in (yes, ~yes)]).flatten(0, 1))
    return counting.confusion(torch.stack(each, -1) if counting.grid else each[0])


def _mass(decided: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
    """The weight of positives and of negatives that were decided so."""
    if w is None and not y.is_floating_point():
        positive = y > 0
        pairs = (decided & positive, decided & ~positive)
        return torch.stack([pair.sum(-1) for pair in pairs]).to(wide(y.device))
    weights = decided.to(wide(y.device)) if w is None else decided * w.to(wide(y.device))
    positives = weights * y
    return torch.stack([positives.sum(-1), (weights - positives).sum(-1)])


def _hard_multiclass(problem: Problem, matrix: bool) -> Confusion:
    z, y, classes = problem.z.detach(), problem.y, problem.classes
    check_not_nan(z, torch.isnan(z).any(-1))
    decided, ones = z.argmax(-1), problem.weights()
    if problem.soft:
        return _hard_fractions(problem, decided, ones, matrix)
    zeros = ones.new_zeros(*y.shape[:-1], classes * classes if matrix else classes)
    if matrix:
        m = zeros.scatter_add(-1, y * classes + decided, ones)
        return Confusion.from_matrix(m.reshape(*y.shape[:-1], classes, classes))
    right = ones * (decided == y)
    wrong = ones - right
    tp = zeros.scatter_add(-1, y, right)
    fp = zeros.scatter_add(-1, decided, wrong)
    fn = zeros.scatter_add(-1, y, wrong)
    negatives = all_but_each(tp + fn)
    return Confusion(tp, fp, fn, at_least_zero(negatives - fp, ROUNDING * negatives), MULTICLASS)


def _hard_fractions(problem: Problem, decided: Tensor, w: Tensor, matrix: bool) -> Confusion:
    """Hard decisions against fractions of the classes: row i of the matrix gets ``w y_i``."""
    wy = problem.y.to(w.dtype) * w.unsqueeze(-1)
    one_hot = torch.nn.functional.one_hot(decided, problem.classes).to(w.dtype)
    if matrix:
        return Confusion.from_matrix(wy.mT @ one_hot)
    wn = w.unsqueeze(-1) - wy
    cells = (wy * one_hot, wn * one_hot, wy * (1 - one_hot), wn * (1 - one_hot))
    return Confusion.of((t.sum(-2) for t in cells), MULTICLASS)


def _with_matrix(counting: Counting) -> Confusion:
    """Row i of the matrix is the sum of memberships of examples of class i."""
    problem, kernel = counting.problem, counting.kernel
    assert isinstance(kernel, MulticlassKernel)
    z, y, w = problem.z, problem.y, problem.w
    if not readable(z, y, w) and not under_transform(z, y, w) and not counting.learned:
        matrix = MatrixCounted.apply(z, y, w, kernel)  # type: ignore[no-untyped-call]
        if problem.invalid is not None:
            matrix = torch.where(problem.invalid, torch.nan, matrix)
    else:
        g = kernel.members(raised(z, kernel.dtype))
        check_not_nan(z, torch.isnan(g).any(-1))
        g = g.to(wide(g.device))
        matrix = by_true_class(g if w is None else g * w.unsqueeze(-1), y, problem.soft)
    return in_units(Confusion.from_matrix(matrix), problem)
