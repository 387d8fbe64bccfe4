"""Which shapes scores, targets, weights and set numbers may have, and the layout they go into.

Scores are ``(N, *)`` or ``(N, 1, *)`` (binary), ``(N, C, *)`` (multiclass) or ``(N, L, *)``
(multilabel), with ``*`` for any number of dimensions: the positions of a row, such as the pixels
of an image. Leading batch dimensions may stand before. Targets of several classes are ``(N, *)``
or ``(N, 1, *)``. The layout is that of ``Problem``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from softset.counting.numerics import under_transform
from softset.tasks import Task

Shape = Sequence[int]


class Laid(NamedTuple):
    """Scores and target in the layout of the kernels."""

    z: Tensor
    y: Tensor
    positions: Shape  # (N, *)
    by_class: bool = False  # whether the target holds a number for each class


def lay_out(
    z: Tensor, y: Tensor, task: Task, batch_dims: int, images: bool = False, soft: bool = False
) -> Laid:
    """Bring scores and target into the layout of the kernels.

    With ``images`` each of N is a problem of its own: one batch dimension more. With ``soft`` the
    target of several classes may hold their probabilities, in the shape of the scores.
    """
    if not batch_dims and not images:  # the usual ones, at once: it shows in small batches
        if task.single and z.dim() == 1 and y.shape == z.shape:
            return Laid(z, y, z.shape)
        plain = z.dim() == 2 and y.dtype == torch.long and y.shape == z.shape[:1]
        if task.exclusive and plain and z.shape[1] > 1:
            return Laid(z, y, y.shape)
    got = f"scores {list(z.shape)}, target {list(y.shape)}, batch_dims={batch_dims}"
    if not 0 <= batch_dims <= z.dim():
        raise ValueError(f"batch_dims must be leading dimensions of scores, got {got}.")
    if task.single:
        return _binary(z, y, batch_dims, images, got)
    if task.independent:
        return _multilabel(z, y, batch_dims, images, got)
    return _multiclass(z, y, batch_dims, images, soft, got)


def _binary(z: Tensor, y: Tensor, batch_dims: int, images: bool, got: str) -> Laid:
    inner = z.shape[batch_dims:]
    if not inner:
        raise ValueError(f"scores must be (N, ...) or (N, 1, ...) for task='binary', got {got}.")
    if len(inner) == 2 and inner[1] == 2:
        raise ValueError(
            f"scores must be (N, ...) or (N, 1, ...) for task='binary', not (N, 2), got {got}. For "
            "two columns use task='multiclass', or pass one: scores[:, 1] of probabilities, "
            "scores[:, 1] - scores[:, 0] of logits."
        )
    batch = z.shape[:batch_dims]
    if _alike(y.shape, z.shape, batch_dims):
        y = y.reshape(*batch, inner[0], -1)
    elif _alike(y.shape, inner, 0):
        y = y.reshape(inner[0], -1)
    else:
        raise ValueError(
            "target must have the shape of scores, (N, ...) or (N, 1, ...) for task='binary', got "
            f"{got}. For a column of scores for each class use task='multiclass'."
        )
    positions = inner[:1] + inner[2:] if len(inner) > 1 and inner[1] == 1 else inner
    z = z.reshape(*batch, inner[0], -1)
    y = y.expand(z.shape)
    return Laid(z, y, positions) if images else Laid(z.flatten(-2), y.flatten(-2), positions)


def _alike(one: Shape, other: Shape, batch_dims: int) -> bool:
    """Whether two shapes are the same, with or without the one channel in ``(N, 1, *)``."""
    at = batch_dims + 1

    def both_ways(shape: Shape) -> list[tuple[int, ...]]:
        whole = tuple(shape)
        return [whole, whole[:at] + whole[at + 1 :]] if whole[at : at + 1] == (1,) else [whole]

    return any(shape in both_ways(other) for shape in both_ways(one))


def _multilabel(z: Tensor, y: Tensor, batch_dims: int, images: bool, got: str) -> Laid:
    inner = z.shape[batch_dims:]
    if len(inner) < 2:
        raise ValueError(f"scores must be (N, L, ...) for task='multilabel', got {got}.")
    if y.shape not in (z.shape, inner):
        raise ValueError(f"target must have the shape of scores, got {got}.")
    positions = inner[:1] + inner[2:]
    # [*batch, N, L, positions], and without images [*batch, L, N times positions]
    z = z.reshape(*z.shape[: batch_dims + 2], -1)
    y = y.reshape(*y.shape[: y.dim() - len(inner) + 2], -1).expand(z.shape)
    if images:
        return Laid(z, y, positions)
    return Laid(z.transpose(-3, -2).flatten(-2), y.transpose(-3, -2).flatten(-2), positions)


def _multiclass(z: Tensor, y: Tensor, batch_dims: int, images: bool, soft: bool, got: str) -> Laid:
    inner = z.shape[batch_dims:]
    if len(inner) < 2:
        raise ValueError(f"scores must be (N, C) or (N, C, ...) for task='multiclass', got {got}.")
    if inner[1] < 2:
        hint = " Use task='binary' for one column."
        raise ValueError(f"scores must have at least two classes, got {got}.{hint}")
    batch, positions = z.shape[:batch_dims], inner[:1] + inner[2:]
    by_class = soft and y.is_floating_point() and y.shape in (z.shape, inner)
    if not by_class:
        y = _class_numbers(y)
        if _alike(y.shape, (*batch, *positions), batch_dims):
            y = y.reshape(*batch, *positions)
        elif _alike(y.shape, positions, 0):
            y = y.reshape(positions)
        else:
            hint = " For probabilities of the classes use soft_targets=True, and floats."
            raise ValueError(
                "target must have the shape of scores without the classes, got "
                f"{got}.{hint if y.shape in (z.shape, inner) else ''}"
            )
    lead = batch_dims + images
    z = z.movedim(batch_dims + 1, -1)
    own = y.dim() - (len(inner) if by_class else len(positions))  # batch dimensions of the target
    if by_class:
        y = y.movedim(own + 1, -1)
        y = y.reshape(*y.shape[: own + images], -1, y.shape[-1])
    else:
        y = y.reshape(*y.shape[: own + images], -1)
    z = z.reshape(*z.shape[:lead], -1, z.shape[-1])
    return Laid(z, y.expand(z.shape if by_class else z.shape[:-1]), positions, by_class)


def _class_numbers(y: Tensor) -> Tensor:
    """Whole numbers, in whichever type they came."""
    if y.is_floating_point() and not under_transform(y) and not torch.equal(y, y.round()):
        raise ValueError(
            f"target must hold class numbers (integers) for task='multiclass', got {y.dtype}. For "
            "probabilities of the classes, in the shape of scores, use soft_targets=True."
        )
    return y.to(torch.long)


def by_position(name: str, t: Tensor, positions: Shape, batch: Shape) -> Tensor:
    """One number for each position, ``[*batch, N, P]`` or ``[N, P]``: from one for each of N, or
    one for each position ``(N, *)``, in rows or in one column."""
    n, many = positions[0], 1
    for size in positions[1:]:
        many *= size
    for lead in [tuple(batch), ()] if batch else [()]:
        own = t.shape[len(lead) :] if t.shape[: len(lead)] == lead else None
        if own in (positions, (n, 1, *positions[1:]), (n * many,)):
            return t.reshape(*lead, n, many)
        if own in ((n,), (n, 1), (n * many, 1)):
            return t.reshape(*lead, n, -1).expand(*lead, n, many)
    wanted = f"({n},)" if len(positions) == 1 else f"({n},) or {tuple(positions)}"
    raise ValueError(f"{name} must have shape {wanted}, got {list(t.shape)}.")
