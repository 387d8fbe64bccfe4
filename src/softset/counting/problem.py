"""Scores, labels and weights, checked once and brought into the layout of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.numerics import under_transform, wide, working
from softset.counting.steps import Step
from softset.counting.values import check_classes

THRESHOLD_HINT = "Pass logits with from_logits=True or move the threshold inside."
TASKS = ("binary", "multiclass", "multilabel")


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
