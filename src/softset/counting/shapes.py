"""Which shapes scores, targets, weights and set numbers may have, and the layout they go into.

Scores are ``(N, *)`` or ``(N, 1, *)`` (binary), ``(N, C, *)`` (multiclass) or ``(N, L, *)``
(multilabel), with ``*`` for any number of dimensions: the positions of a row, such as the pixels
of an image. Leading batch dimensions may stand before. Targets of several classes are ``(N, *)``
or ``(N, 1, *)``.

``Shapes`` are checked once. From there tensors are seen with the classes at the end, as the kernels
in C read them (no number is moved), or they are laid out as ``Problem`` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from softset.tasks import Task

Shape = Sequence[int]


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
            whole = t.shape == self.positions
            return (t if whole else t.reshape(*self._lead(t), *self.positions)).unsqueeze(-1)
        rank = len(self.positions)
        return t if rank == 1 else t.movedim(-rank, -1)

    def target(self, y: Tensor) -> Tensor:
        """The target as ``[*batch, *positions]``, with the classes at the end where it has them; it
        may come without batch dimensions."""
        if self.task.exclusive and not self.by_class:
            whole = y.shape == self.positions
            return y if whole else y.reshape(*self._lead(y), *self.positions)
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
            own = tuple(t.shape[len(lead) :]) if t.shape[: len(lead)] == lead else None
            if own in (positions, (n, 1, *positions[1:]), (n * many,), (n * many, 1)):
                return t.reshape(*lead, *positions)
            if own in ((n,), (n, 1)):
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
    whole = (*z[:batch_dims], *positions)
    if by_class or _alike(y, whole, batch_dims) or _alike(y, positions, 0):
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
