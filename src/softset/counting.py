"""Scores, labels and a step -> ``Confusion``: soft (or hard) counts per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from softset._tools import check_choice, check_number, under_transform
from softset.fused import Counts, check_classes, count, full_precision, refuse_rows, wide, working
from softset.fused_binary import BinaryKernel, LinearKernel, grid_kernel
from softset.fused_multiclass import MulticlassKernel, MulticlassLinearKernel, memberships
from softset.steps import LinearStep, Step, check_step, is_hard

THRESHOLD_HINT = "Pass logits with from_logits=True or move the threshold inside."
TASKS = ("binary", "multiclass", "multilabel")


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


class Problem(NamedTuple):
    """Checked arguments in the layout of the kernels, see ``fused``.

    ``z`` and ``y`` are ``[*batch, N]`` (binary), ``[*batch, labels, N]`` (multilabel), or ``z`` is
    ``[*batch, N, C]`` and ``y`` is ``[*batch, N]`` (multiclass); ``w`` broadcasts with ``y``.
    """

    z: Tensor
    y: Tensor
    w: Tensor | None
    task: str
    batch_dims: int


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


# --- arguments ----------------------------------------------------------------------------------


def arrange(
    scores: Any,
    target: Any,
    *,
    task: str,
    from_logits: bool,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
    batch_dims: int = 0,
) -> Problem:
    """Check shapes and dtypes and bring everything into the layout of the kernels."""
    check_choice("task", task, TASKS)
    z = as_numbers("scores", scores)
    y = given = as_numbers("target", target, z.device)
    if not z.is_floating_point():
        if z.is_complex():
            raise ValueError(f"scores must be real numbers, got {z.dtype}.")
        z = z.to(torch.float64 if z.dtype == torch.int64 else torch.float32)
    if y.is_complex():
        raise ValueError(f"target must be bool, integer or float, got {y.dtype}.")
    z, y = _shapes(z, y, task, batch_dims)
    if z.numel() == 0:
        raise ValueError(f"scores are empty: shape {list(z.shape)}.")
    w = _weights(sample_weight, z, y, task, batch_dims, given.shape)
    if ignore_index is not None:
        ignored = y == ignore_index
        w = torch.ones_like(y, dtype=wide(z.device)) if w is None else w
        w = torch.where(ignored, 0.0, w)
        y = torch.where(ignored, torch.zeros_like(y), y)
        # A left-out row may hold anything, NaN too: it gets scores without a favourite.
        rows = ignored.unsqueeze(-1) if task == "multiclass" else ignored
        z = torch.where(rows, 0.0 if from_logits else 1 / z.shape[-1], z)
    if not from_logits and not under_transform(z):
        low, high = torch.aminmax(z.detach())
        if low < 0 or high > 1:
            worst = float(low if low < 0 else high)
            raise ValueError(
                f"scores must be probabilities in [0, 1] with from_logits=False, got {worst:g}. "
                "Pass from_logits=True for logits."
            )
    if task == "multiclass" and not under_transform(z, y):
        check_classes(y, z.shape[-1])
    if class_weight is not None:
        by_class = weights_by_class(class_weight, z, y, task)
        w = by_class if w is None else w * by_class
    return Problem(z, y, w, task, batch_dims)


def as_numbers(name: str, x: Any, device: torch.device | None = None) -> Tensor:
    """A tensor from what holds numbers: an array, a column of a table, a list, whose numbers keep
    their digits."""
    if isinstance(x, Tensor):
        return x if device is None else x.to(device)
    try:
        if isinstance(x, list | tuple):
            t = torch.as_tensor(x, device=device)
            dtype = wide(t.device) if t.is_floating_point() else t.dtype
            return torch.as_tensor(x, dtype=dtype, device=device)
        array = np.asarray(x, order="C")
        return torch.as_tensor(array if array.flags.writeable else array.copy(), device=device)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"{name} must hold numbers (a tensor, an array or a list), got {type(x).__name__}."
        ) from None


def _shapes(z: Tensor, y: Tensor, task: str, batch_dims: int) -> tuple[Tensor, Tensor]:
    """Scores and target in kernel layout, target expanded over the batch dimensions."""
    if task == "binary" and z.dim() == 1 and y.shape == z.shape and not batch_dims:
        return z, y
    plain = z.dim() == 2 and y.dtype == torch.long and y.shape == z.shape[:1] and not batch_dims
    if task == "multiclass" and plain and z.shape[1] > 1:
        return z, y
    got = f"scores {list(z.shape)}, target {list(y.shape)}, batch_dims={batch_dims}"
    inner = z.dim() - batch_dims
    batch = z.shape[:batch_dims]

    if task == "binary":
        if inner == 2 and z.shape[-1] == 1:
            z, inner = z.squeeze(-1), 1
        if inner == 2 and z.shape[-1] == 2:
            raise ValueError(
                f"scores must be (N,) or (N, 1) for task='binary', got {got}. For two columns use "
                "task='multiclass', or pass scores[:, 1] - scores[:, 0]."
            )
        if inner != 1:
            raise ValueError(f"scores must be (N,) or (N, 1) for task='binary', got {got}.")
        if y.dim() > 1 and y.shape[-1] == 1 and y.shape[:-1] in (z.shape, z.shape[-1:]):
            y = y.squeeze(-1)
        if y.shape not in (z.shape, z.shape[-1:]):
            raise ValueError(f"target must have the shape of scores, got {got}.")
        return z, y.expand(z.shape)

    if task == "multilabel":
        if inner != 2:
            raise ValueError(f"scores must be (N, L) for task='multilabel', got {got}.")
        if y.shape not in (z.shape, z.shape[-2:]):
            raise ValueError(f"target must have the shape of scores, got {got}.")
        return z.mT, y.expand(z.shape).mT

    if inner < 2:
        raise ValueError(f"scores must be (N, C) or (N, C, ...) for task='multiclass', got {got}.")
    if z.shape[batch_dims + 1] < 2:
        hint = " Use task='binary' for one column."
        raise ValueError(f"scores must have at least two classes, got {got}.{hint}")
    if y.is_floating_point() or y.dtype == torch.bool:
        if y.is_floating_point() and not under_transform(y) and not torch.equal(y, y.round()):
            raise ValueError(
                f"target must hold class numbers (integers) for task='multiclass', got {y.dtype}."
            )
        y = y.to(torch.long)
    z = z.movedim(batch_dims + 1, -1)
    rows = z.shape[batch_dims:-1]
    if y.shape not in (z.shape[:-1], rows):
        raise ValueError(f"target must have the shape of scores without the classes, got {got}.")
    y = y.expand(z.shape[:-1])
    return z.reshape(*batch, -1, z.shape[-1]), y.reshape(*batch, -1).to(torch.long)


def _weights(
    sample_weight: Any, z: Tensor, y: Tensor, task: str, batch_dims: int, given: Sequence[int]
) -> Tensor | None:
    """Weights that broadcast with ``y``; ``given`` is the shape the target came in."""
    if sample_weight is None:
        return None
    w = as_numbers("sample_weight", sample_weight, z.device)
    n = y.shape[-1]
    batch = z.shape[:batch_dims]
    if task == "multiclass" and len(given) > 1 and not batch_dims:
        # (N, C, ...) scores: one weight for each of N, or one for each entry of target
        if w.shape == given[:1]:
            w = w.repeat_interleave(n // given[0])
        elif w.shape == given:
            w = w.reshape(-1)
    if w.dim() > 1 and w.shape[-1] == 1 and w.shape[:-1] in ((n,), (*batch, n)):
        w = w.squeeze(-1)
    if w.shape not in ((n,), (*batch, n)):
        raise ValueError(f"sample_weight must have shape ({n},), got {list(w.shape)}.")
    if not under_transform(w):
        low, high = (float(v) for v in torch.aminmax(w))
        if not low >= 0 or not high < float("inf"):
            raise ValueError(
                f"sample_weight must be finite and not negative, got {low:g} to {high:g}."
            )
        if high == 0:
            raise ValueError("sample_weight must not be zero everywhere.")
    w = w.to(wide(z.device))
    return w.unsqueeze(-2) if task == "multilabel" else w


def weights_by_class(class_weight: Any, z: Tensor, y: Tensor, task: str) -> Tensor:
    """The weight of each example by its class (by its label, where there are several)."""
    v = as_numbers("class_weight", class_weight, z.device).to(wide(z.device))
    size = 2 if task == "binary" else z.shape[-1 if task == "multiclass" else -2]
    if v.shape != (size,):
        raise ValueError(
            f"class_weight must hold {size} numbers for task={task!r}, got shape {list(v.shape)}."
        )
    if not under_transform(v):
        check_number("class_weight", v, 0, float("inf"), closed="low")
    if task == "multilabel":
        return v.unsqueeze(-1).expand(y.shape)
    if task == "binary":
        return torch.where(y > 0, v[1], v[0])
    return v[y]


@lru_cache(maxsize=16)  # to check a thousand numbers shows in the time of a million rows
def _grid(thresholds: tuple[float, ...]) -> tuple[float, ...]:
    """A grid of thresholds, checked."""
    if not thresholds:
        raise ValueError("thresholds must be a list of numbers, got none.")
    check_number("thresholds", thresholds, 0, 1, hint=THRESHOLD_HINT)
    return thresholds


@lru_cache(maxsize=16)
def _is_uniform(grid: tuple[float, ...]) -> bool:
    """Whether it is ``1/K, 2/K, … (K-1)/K``."""
    size = len(grid) + 1
    return size > 2 and all(abs(t - i / size) < 1e-12 for i, t in enumerate(grid, 1))


def _taus(threshold: Any, thresholds: Any, problem: Problem) -> tuple[Sequence[Any], bool]:
    """The thresholds as numbers, or tensors that broadcast with ``[*lead, 1]``."""
    if thresholds is not None:
        values = thresholds.tolist() if hasattr(thresholds, "tolist") else thresholds
        try:
            values = tuple(values)
            if any(type(v) is not float for v in values):
                values = tuple(float(v) for v in values)
        except (TypeError, ValueError):
            message = f"thresholds must be a list of numbers, got {thresholds!r}."
            raise ValueError(message) from None
        return _grid(values), True
    check_number("threshold", threshold, 0, 1, hint=THRESHOLD_HINT)
    if isinstance(threshold, int | float):
        return [float(threshold)], False
    values = as_numbers("threshold", threshold, problem.z.device).to(wide(problem.z.device))
    if values.dim() == 0:
        return [float(values)], False
    lead = problem.z.shape[:-1]
    if values.shape not in (lead, lead[-1:]):
        raise ValueError(
            f"threshold must be one number, or one for each label {list(lead[-1:])}, got shape "
            f"{list(values.shape)}. For a grid use thresholds."
        )
    return [values.unsqueeze(-1)], False


def _is_default(threshold: Any) -> bool:
    return isinstance(threshold, int | float) and threshold == 0.5


def _spread_step(step: Step, problem: Problem) -> Step:
    """Give step parameters of the batch shape the trailing dimensions they broadcast over."""
    batch = problem.z.shape[: problem.batch_dims]
    changed = {}
    for name, value in getattr(step, "__dict__", {}).items():
        if isinstance(value, Tensor) and value.dim() > 0:
            if value.shape != batch:
                raise ValueError(
                    f"step.{name} must be a number or have the batch shape {list(batch)}, got "
                    f"shape {list(value.shape)}."
                )
            extra = problem.z.dim() - problem.batch_dims
            value = value.to(problem.z.device, working(problem.z))
            changed[name] = value.reshape(*batch, *[1] * extra)
    return replace(step, **changed) if changed else step  # type: ignore[type-var]


# --- counting -----------------------------------------------------------------------------------


def binary_kernel(
    z: Tensor, step: Step, taus: Sequence[Any], grid: bool, from_logits: bool
) -> BinaryKernel:
    """The fastest kernel for a step and its thresholds."""
    if isinstance(taus[0], Tensor):
        taus = [tau.to(working(z)) for tau in taus]
    if not isinstance(step, LinearStep):
        return BinaryKernel(step, taus, grid, from_logits, working(z))
    plain = isinstance(step.delta, int | float) and isinstance(step.width, int | float)
    if grid and plain and step.width == 1 and _is_uniform(tuple(taus)):
        return grid_kernel(step, len(taus) + 1, from_logits, working(z))
    _, b, _, m2, m3 = step.pieces(max(taus) if grid else taus[0])  # the steepest
    return LinearKernel(step, taus, grid, from_logits, _resolving(z, m2 * b, m3))


def multiclass_kernel(z: Tensor, step: Step, from_logits: bool) -> MulticlassKernel:
    """The fastest kernel for a step."""
    if isinstance(step, LinearStep) and from_logits:
        steepest = (1 - 2 * step.delta) / step.width
        return MulticlassLinearKernel(step, _resolving(z, steepest))
    return MulticlassKernel(step, from_logits, working(z))


def _resolving(z: Tensor, *slopes: Any) -> torch.dtype:
    """The dtype of work, which is float64 where a step is so steep that the rounding of float32
    shows in its value."""
    if z.dtype == torch.float64:
        return z.dtype
    for slope in slopes:
        if isinstance(slope, Tensor):
            slope = 0.0 if under_transform(slope) else float(slope.max())
        if slope > 1000:
            return wide(z.device)
    return working(z)


def probabilities(z: Tensor, task: str, from_logits: bool) -> Tensor:
    """Probabilities in kernel layout, as every decision sees them."""
    z = z.to(working(z))
    if not from_logits:
        return z
    return torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)


def to_logits(z: Tensor, from_logits: bool) -> Tensor:
    """Scores of several classes as logits, in float64; a probability of zero counts as the least
    number, so that an offset can raise it."""
    z = z.to(wide(z.device))
    return z if from_logits else z.clamp(min=torch.finfo(z.dtype).tiny).log()


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


def _refuse_nan(z: Tensor, bad: Tensor) -> None:
    if not under_transform(z) and bad.any():
        refuse_rows(bad)
