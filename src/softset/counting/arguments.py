"""The arguments of losses, counts and evaluations as tensors: their shapes, and their layout.

Scores are ``(N, *)`` or ``(N, 1, *)`` (binary), ``(N, C, *)`` (multiclass) or ``(N, L, *)``
(multilabel), with ``*`` for any number of dimensions: the positions of a row, such as the pixels
of an image. Leading batch dimensions may stand before. Targets of several classes are ``(N, *)``
or ``(N, 1, *)``.

``Shapes`` are checked once. From there tensors are seen with the classes at the end, as the kernels
in C read them (no number is moved), or they are laid out as ``Problem`` has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softset.checks import check_number
from softset.counting.numerics import NOTHING, readable, wide, working
from softset.counting.values import Invalid, check_classes, check_fractions
from softset.tasks import Task
from softset.typing import TensorLike

Shape = Sequence[int]
# What all kernels read as 0 and 1; other types are converted.
LABELS = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64)
# Weights whose largest is outside of this are counted in units of it: their products and sums would
# leave float32, or be lost next to 1.
USUAL_WEIGHTS = (1e-6, 1e6)


class Shapes(NamedTuple):
    """What the shapes of scores and target say. With ``images`` each of N is a problem of its own:
    one batch dimension more."""

    task: Task
    batch: Shape
    positions: Shape  # (N, *)
    by_class: bool  # whether the target holds a number for each class
    images: bool

    def classes_last(self, t: Tensor) -> Tensor:
        """Scores, or a target in their shape, as ``[*batch, *positions, classes]``; a target may
        come without batch dimensions."""
        if self.task.single:
            complete = t.shape == self.positions
            return (t if complete else t.reshape(*self._lead(t), *self.positions)).unsqueeze(-1)
        rank = len(self.positions)
        return t if rank == 1 else t.movedim(-rank, -1)

    def target(self, y: Tensor) -> Tensor:
        """The target as ``[*batch, *positions]``, with the classes at the end where it has them; it
        may come without batch dimensions."""
        if self.task.exclusive and not self.by_class:
            complete = y.shape == self.positions
            return y if complete else y.reshape(*self._lead(y), *self.positions)
        return self.classes_last(y)

    def _lead(self, t: Tensor) -> Shape:
        """The batch dimensions that ``t`` has."""
        return self.batch if t.numel() == _size(self.batch) * _size(self.positions) else ()

    def flat_scores(self, z: Tensor) -> Tensor:
        """Scores in the layout of ``Problem``."""
        return self._flat(self.classes_last(z), True)

    def flat_target(self, y: Tensor) -> Tensor:
        """The target in the layout of ``Problem``."""
        by_class = self.by_class or not self.task.exclusive
        y = self._flat(self.target(y), by_class)
        shape = (*self.batch, *y.shape[y.dim() - self._rank(by_class) :])
        return y.expand(shape)

    def _rank(self, by_class: bool) -> int:
        """Dimensions after those of the batch."""
        return 1 + self.images + (by_class and not self.task.single)

    def _flat(self, t: Tensor, by_class: bool) -> Tensor:
        """``[*batch, *positions, (classes)]`` as ``Problem`` has it."""
        lead = t.dim() - len(self.positions) - by_class + self.images
        if self.task.independent:
            t, lead = t.movedim(-1, lead), lead + 1
        elif by_class and self.task.exclusive:
            return t.reshape(*t.shape[:lead], -1, t.shape[-1])
        return t.reshape(*t.shape[:lead], -1)

    def flat_weight(self, w: Tensor) -> Tensor:
        """Weights ``[*batch, *positions]`` that broadcast with the target."""
        w = w.reshape(*w.shape[: w.dim() - len(self.positions) + self.images], -1)
        return w.unsqueeze(-2) if self.task.independent else w

    def by_position(self, name: str, t: Tensor, batch: bool = True) -> Tensor:
        """One number for each position, ``[*batch, *positions]`` or ``[*positions]``: from one for
        each of N, or one for each position ``(N, *)``, in rows or in one column."""
        positions = tuple(self.positions)
        n, many = positions[0], _size(positions[1:])
        for lead in [tuple(self.batch), ()] if batch and self.batch else [()]:
            inner = tuple(t.shape[len(lead) :]) if t.shape[: len(lead)] == lead else None
            if inner in (positions, (n, 1, *positions[1:]), (n * many,), (n * many, 1)):
                return t.reshape(*lead, *positions)
            if inner in ((n,), (n, 1)):
                each = t.reshape(*lead, n, *[1] * (len(positions) - 1))
                return each.expand(*lead, *positions)
        wanted = f"({n},)" if len(positions) == 1 else f"({n},) or {positions}"
        raise ValueError(f"{name} must have shape {wanted}, got {list(t.shape)}.")


def _size(shape: Shape) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def check_shapes(
    z: Tensor, y: Tensor, task: Task, batch_dims: int, images: bool = False, soft: bool = False
) -> Shapes:
    """Refuse shapes that do not fit. With ``soft`` the target of several classes may hold their
    probabilities, in the shape of the scores."""
    got = f"scores {list(z.shape)}, target {list(y.shape)}, batch_dims={batch_dims}"
    if not 0 <= batch_dims <= z.dim():
        raise ValueError(f"batch_dims must be leading dimensions of scores, got {got}.")
    batch, inner = z.shape[:batch_dims], z.shape[batch_dims:]
    by_class = False
    if task.single:
        positions = _binary(z.shape, y.shape, inner, batch_dims, got)
    elif task.independent:
        if len(inner) < 2:
            raise ValueError(f"scores must be (N, L, ...) for task='multilabel', got {got}.")
        if y.shape not in (z.shape, inner):
            raise ValueError(f"target must have the shape of scores, got {got}.")
        positions = inner[:1] + inner[2:]
    else:
        by_class = soft and y.is_floating_point() and y.shape in (z.shape, inner)
        positions = _multiclass(z.shape, y.shape, inner, batch_dims, by_class, got)
    return Shapes(task, batch, positions, by_class, images)


def _binary(z: Shape, y: Shape, inner: Shape, batch_dims: int, got: str) -> Shape:
    if not inner:
        raise ValueError(f"scores must be (N, ...) or (N, 1, ...) for task='binary', got {got}.")
    if len(inner) == 2 and inner[1] == 2:
        raise ValueError(
            f"scores must be (N, ...) or (N, 1, ...) for task='binary', not (N, 2), got {got}. For "
            "two columns use task='multiclass', or pass one: scores[:, 1] of probabilities, "
            "scores[:, 1] - scores[:, 0] of logits."
        )
    if y != z and not _alike(y, z, batch_dims) and not _alike(y, inner, 0):
        raise ValueError(
            "target must have the shape of scores, (N, ...) or (N, 1, ...) for task='binary', got "
            f"{got}. For a column of scores for each class use task='multiclass'."
        )
    return (*inner[:1], *inner[2:]) if len(inner) > 1 and inner[1] == 1 else inner


def _multiclass(
    z: Shape, y: Shape, inner: Shape, batch_dims: int, by_class: bool, got: str
) -> Shape:
    if len(inner) < 2:
        raise ValueError(f"scores must be (N, C) or (N, C, ...) for task='multiclass', got {got}.")
    if inner[1] < 2:
        hint = " Use task='binary' for one column."
        raise ValueError(f"scores must have at least two classes, got {got}.{hint}")
    positions = (*inner[:1], *inner[2:])
    with_batch = (*z[:batch_dims], *positions)
    if by_class or _alike(y, with_batch, batch_dims) or _alike(y, positions, 0):
        return positions
    hint = " For probabilities of the classes use soft_targets=True, and floats."
    raise ValueError(
        "target must have the shape of scores without the classes, got "
        f"{got}.{hint if y in (z, inner) else ''}"
    )


def _alike(one: Shape, other: Shape, batch_dims: int) -> bool:
    """Whether two shapes are the same, with or without the one channel in ``(N, 1, *)``."""
    one, other, at = tuple(one), tuple(other), batch_dims + 1
    if one == other:
        return True

    def without_channel(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:at] + shape[at + 1 :] if shape[at : at + 1] == (1,) else shape

    return without_channel(one) in (other, without_channel(other)) or one == without_channel(other)


class Arguments(NamedTuple):
    """What ``arrange`` got, as tensors whose shapes fit."""

    scores: Tensor
    target: Tensor
    sample_weight: Tensor | None  # one for each position
    class_weight: Tensor | None
    ignore_index: int | None
    from_logits: bool
    soft: bool
    shapes: Shapes
    with_graph: bool  # whether gradients were on

    @property
    def classes(self) -> int:
        """How many classes or labels; one for a binary problem."""
        return 1 if self.shapes.task.single else self.scores.shape[len(self.shapes.batch) + 1]

    def laid_out(self) -> dict[str, Tensor | float | None]:
        """``z``, ``y``, ``w`` and ``unit`` of a ``Problem``, their values checked."""
        with torch.set_grad_enabled(self.with_graph):
            return self._laid_out()

    def _laid_out(self) -> dict[str, Tensor | float | None]:
        shapes, task, by_class = self.shapes, self.shapes.task, self.shapes.by_class
        z, y = shapes.flat_scores(self.scores), self.target
        invalid = Invalid(readable(self.scores, y, self.sample_weight, self.class_weight))
        if task.exclusive and not by_class:
            y = _class_numbers(y, invalid)
        elif not task.exclusive and y.dtype not in LABELS:
            y = y.to(torch.float32 if y.is_floating_point() else torch.int64)
        y = shapes.flat_target(y)
        w, unit = None, 1.0
        weights = wide(z.device) if invalid.careful else working(z)
        if self.sample_weight is not None:
            w = shapes.flat_weight(self.sample_weight).to(weights)
            w, unit = _in_units("sample_weight", w, invalid, math.prod(shapes.positions))
        number = self.ignore_index
        if number is not None and holds(y.dtype, int(number)):
            ignored = y == int(number)
            ignored = ignored.all(-1) if by_class else ignored
            w = torch.ones_like(ignored, dtype=weights) if w is None else w
            w = torch.where(ignored, 0.0, w)
            # An ignored row may hold anything, NaN too: it gets scores without a favorite.
            rows = ignored.unsqueeze(-1) if task.exclusive else ignored
            filler = 1 / z.shape[-1] if by_class else 0
            y = torch.where(rows if by_class else ignored, torch.full_like(y, filler), y)
            z = torch.where(rows, 0.0 if self.from_logits else 1 / z.shape[-1], z)
        if not self.from_logits:
            _check_probabilities(z, invalid)
        if self.soft:
            check_fractions(y, by_class, invalid)
        elif task.exclusive:
            y = check_classes(y, z.shape[-1], invalid)
        elif not invalid.careful:  # else the kernels check labels in passing
            invalid.labels(y)
        if by_class:  # fractions that were rounded add up all the same
            y = y.to(weights) / y.sum(-1, keepdim=True, dtype=weights)
        if self.class_weight is not None:
            y, w, unit = _weighted(y, w, unit, self.class_weight.to(weights), self, invalid)
        if w is not None and invalid.careful:
            # Next to others of about 1, these are nothing; a metric of them alone would leave
            # float32.
            w = torch.where(w < NOTHING, 0.0, w)
        return {"z": z, "y": y, "w": w, "unit": unit, "invalid": invalid.any()}


def _check_probabilities(z: Tensor, invalid: Invalid) -> None:
    if not invalid.careful:
        invalid.outside(z.detach(), 0, 1)
        return
    low, high = torch.aminmax(z.detach())
    if low < 0 or high > 1:
        worst = float(low if low < 0 else high)
        raise ValueError(
            f"scores must be probabilities in [0, 1] with from_logits=False, got {worst:g}. "
            "Pass from_logits=True for logits."
        )


def _class_numbers(y: Tensor, invalid: Invalid) -> Tensor:
    """Integers, in whichever type they came."""
    if not y.is_floating_point():
        return y.to(torch.long)
    if not invalid.careful:
        invalid.where(y != y.round())
    elif not torch.equal(y, y.round()):
        raise ValueError(
            f"target must hold class numbers (integers) for task='multiclass', got {y.dtype}. For "
            "probabilities of the classes, in the shape of scores, use soft_targets=True."
        )
    return y.to(torch.long)


def holds(dtype: torch.dtype, number: int) -> bool:
    """Whether a target of this dtype can hold an integer; a comparison would round it."""
    if dtype.is_floating_point:
        return abs(number) <= 2 / torch.finfo(dtype).eps
    info = torch.iinfo(dtype) if dtype != torch.bool else None
    return info is None or info.min <= number <= info.max


def as_numbers(name: str, x: TensorLike, device: torch.device | None = None) -> Tensor:
    """A tensor from what holds numbers: an array, a column of a table, a list, whose numbers keep
    their digits."""
    if isinstance(x, Tensor):
        return x if device is None else x.to(device)
    if device is None and torch.get_default_device().type == "meta":
        device = torch.device("cpu")  # numbers that are there are not thrown away
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


def _in_units(name: str, w: Tensor, invalid: Invalid, n: int = 1) -> tuple[Tensor, float]:
    """Weights, checked, and their unit: a power of two next to the largest where that is far from
    1, so that no digit is lost. ``n`` of them must have a sum."""
    if not invalid.careful:
        invalid.where(w.detach().amin() < 0)
        return w, 1.0
    low, high = (float(v) for v in torch.aminmax(w.detach()))
    if not low >= 0 or not high < math.inf:
        raise ValueError(f"{name} must be finite and not negative, got {low:g} to {high:g}.")
    if high == 0:
        raise ValueError(f"{name} must not be zero everywhere.")
    if high * n == math.inf:
        raise ValueError(f"{name} must have a finite sum, got {high:g} in {n} rows. Divide it.")
    if USUAL_WEIGHTS[0] <= high <= USUAL_WEIGHTS[1]:
        return w, 1.0
    unit = 2.0 ** math.floor(math.log2(high))
    return w / unit, unit


def _weighted(
    y: Tensor, w: Tensor | None, unit: float, v: Tensor, arguments: Arguments, invalid: Invalid
) -> tuple[Tensor, Tensor, float]:
    """Target, weights and their unit with the weights of the classes in them."""
    task, soft = arguments.shapes.task, arguments.soft
    v, unit_of_classes = _in_units("class_weight", v, invalid)
    each = by_class(v, y, task, soft)
    if soft and not task.independent:
        # A part y of weight v_1 and a part 1 - y of weight v_0 are one example of both weights.
        weighted = y.to(v.dtype) * (v if task.exclusive else v[1])
        mass = each.unsqueeze(-1) if task.exclusive else each
        y = torch.where(mass > 0, weighted / torch.where(mass > 0, mass, 1.0), y.to(v.dtype))
    unit *= unit_of_classes
    if not 1e-305 < unit < math.inf or unit * y.numel() == math.inf:
        raise ValueError(
            f"sample_weight times class_weight must be numbers that floats can hold, got {unit:g}. "
            "Divide or multiply one of them: metrics do not depend on the scale of weights."
        )
    return y, each if w is None else w * each, unit


def of_classes(class_weight: TensorLike, task: Task, classes: int, device: torch.device) -> Tensor:
    """One number for each class."""
    v = as_numbers("class_weight", class_weight, device).to(wide(device))
    size = 2 if task.single else classes
    if v.shape != (size,):
        raise ValueError(
            f"class_weight must hold {size} numbers for task={task!r}, got shape {list(v.shape)}."
        )
    if readable(v):
        check_number("class_weight", v.detach(), 0, math.inf, closed="low")
    return v


def by_class(v: Tensor, y: Tensor, task: Task, soft: bool) -> Tensor:
    """The weight of each label, from those of the classes."""
    if task.independent:
        return v.unsqueeze(-1).expand(y.shape)
    if soft:
        y = y.to(v.dtype)
        return y @ v if task.exclusive else torch.lerp(v[0], v[1], y)
    return torch.where(y > 0, v[1], v[0]) if task.single else v[y]
