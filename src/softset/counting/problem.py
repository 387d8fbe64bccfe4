"""Scores, labels and weights, checked once and brought into the layout of the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softset.checks import check_choice, check_number
from softset.counting.numerics import raised, under_transform, wide, working
from softset.counting.steps import LinearStep, Step
from softset.counting.values import check_classes, check_rows

THRESHOLD_HINT = "Pass logits with from_logits=True or move the threshold inside."
TASKS = ("binary", "multiclass", "multilabel")
# Weights whose largest is outside of this are counted in units of it: their products and sums would
# leave float32, or be lost next to 1.
USUAL_WEIGHTS = (1e-6, 1e6)


@dataclass(frozen=True)
class Problem:
    """Checked arguments in the layout of the kernels: ``arrange`` makes one, and within the library
    nothing else travels.

    ``z`` and ``y`` are ``[*batch, N]`` (binary), ``[*batch, labels, N]`` (multilabel), or ``z`` is
    ``[*batch, N, C]`` and ``y`` is ``[*batch, N]`` (multiclass). ``w`` broadcasts with ``y``; it
    holds all weights, by row and by class, in units of ``unit``.
    """

    z: Tensor
    y: Tensor
    w: Tensor | None
    task: str
    batch_dims: int = 0
    from_logits: bool = True
    unit: float = 1.0

    @property
    def classes(self) -> int:
        """How many classes or labels; one for a binary problem."""
        if self.task == "binary":
            return 1
        return self.z.shape[-1 if self.task == "multiclass" else -2]

    def probabilities(self) -> Tensor:
        """Probabilities in the layout of ``z``, as every decision sees them."""
        return probabilities(self.z, self.task, self.from_logits)

    def logits(self) -> Tensor:
        """Scores of several classes as logits, in float64; a probability of zero counts as the
        least number, so that an offset can raise it."""
        return to_logits(self.z, self.from_logits)

    def weights(self) -> Tensor:
        """One weight for each label, in the shape of ``y`` and in float64."""
        if self.w is None:
            return torch.ones_like(self.y, dtype=wide(self.y.device))
        return self.w.expand(self.y.shape)

    def one_against_rest(self) -> Problem:
        """Several classes as labels, one for each, with the probabilities of the classes."""
        if self.task != "multiclass":
            return self
        p = self.probabilities().clamp(0, 1)
        if not under_transform(p):
            check_rows(self.z, p.detach())
        y = self.y.unsqueeze(-1) == torch.arange(self.classes, device=p.device)
        w = None if self.w is None else self.w.unsqueeze(-2)
        return replace(self, z=p.mT, y=y.mT, w=w, task="multilabel", from_logits=False)

    def pooled(self) -> Problem:
        """All labels one after another, as one binary problem."""
        w = None if self.w is None else self.weights().flatten()
        z, y = self.z.flatten(), self.y.flatten()
        return replace(self, z=z, y=y, w=w, task="binary", batch_dims=0)

    def shifted(self, offsets: Any) -> Problem:
        """With ``offsets`` added to the log-probabilities of the classes.

        In float64: an offset between two neighbouring float32 scores must stay between.
        """
        shift = as_numbers("offsets", offsets, self.z.device).to(wide(self.z.device))
        if shift.shape != self.z.shape[-1:]:
            raise ValueError(
                f"offsets must hold one number for each of {self.classes} classes, got shape "
                f"{list(shift.shape)}."
            )
        return replace(self, z=self.logits() + shift, from_logits=True)

    def thresholds(self, threshold: Any, thresholds: Any) -> tuple[Sequence[Any], bool]:
        """The one threshold, or a grid of them and ``True``: numbers, or tensors that broadcast
        with ``[*lead, 1]``."""
        if thresholds is not None:
            return _grid(thresholds), True
        learnt = isinstance(threshold, Tensor) and threshold.requires_grad
        number = threshold.detach() if learnt else threshold
        check_number("threshold", number, 0, 1, hint=THRESHOLD_HINT)
        if isinstance(threshold, int | float):
            return [float(threshold)], False
        values = as_numbers("threshold", threshold, self.z.device).to(wide(self.z.device))
        if values.dim() == 0:
            return [values if learnt else float(values)], False
        lead = self.z.shape[:-1]
        if values.shape not in (lead, lead[-1:]):
            raise ValueError(
                f"threshold must be one number, or one for each label {list(lead[-1:])}, got shape "
                f"{list(values.shape)}. For a grid use thresholds."
            )
        return [values.unsqueeze(-1)], False

    def spread(self, step: Step) -> Step:
        """The step, its parameters of the batch shape with the dimensions to broadcast over."""
        batch = self.z.shape[: self.batch_dims]
        changed = {}
        for name, value in getattr(step, "__dict__", {}).items():
            if isinstance(value, Tensor) and value.dim() > 0:
                if value.shape != batch:
                    raise ValueError(
                        f"step.{name} must be a number or have the batch shape {list(batch)}, got "
                        f"shape {list(value.shape)}."
                    )
                extra = self.z.dim() - self.batch_dims
                linear = isinstance(step, LinearStep)  # of whose width no digit may be lost
                value = value.to(self.z.device, wide(self.z.device) if linear else working(self.z))
                changed[name] = value.reshape(*batch, *[1] * extra)
        return replace(step, **changed) if changed else step  # type: ignore[type-var]


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
    """Check shapes, dtypes and values and bring everything into the layout of the kernels.

    The door of the library: arguments as for ``confusion``, which behind it are one ``Problem``.
    """
    check_choice("task", task, TASKS)
    z = as_numbers("scores", scores)
    y = given = as_numbers("target", target, z.device)
    if not z.is_floating_point():
        if z.is_complex():
            raise ValueError(f"scores must be real numbers, got {z.dtype}.")
        z = z.to(torch.float64 if z.dtype == torch.int64 else torch.float32)
    if y.is_complex():
        raise ValueError(f"target must be bool, integer or float, got {y.dtype}.")
    if y.requires_grad:
        raise ValueError("target must not require a gradient: there is none. Pass target.detach().")
    z, y = _shapes(z, y, task, batch_dims)
    if z.numel() == 0:
        raise ValueError(f"scores are empty: shape {list(z.shape)}.")
    w, unit = _weights(sample_weight, z, y, task, batch_dims, given.shape)
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
    problem = Problem(z, y, w, task, batch_dims, from_logits, unit)
    return problem if class_weight is None else _weighted(problem, class_weight)


def as_numbers(name: str, x: Any, device: torch.device | None = None) -> Tensor:
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
) -> tuple[Tensor | None, float]:
    """Weights that broadcast with ``y``, and their unit; ``given`` is the target's shape as it
    came."""
    if sample_weight is None:
        return None, 1.0
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
    w, unit = _in_units("sample_weight", w.to(wide(z.device)), n)
    if w.dim() > 1 and not under_transform(w):
        heaviest = w.detach().amax(-1)
        if (heaviest[heaviest > 0] < 1e-20 * heaviest.max()).any():
            raise ValueError(
                "sample_weight must be of one scale in all problems of a batch (batch_dims), got "
                f"largest weights from {heaviest.min() * unit:g} to {heaviest.max() * unit:g}."
            )
    return (w.unsqueeze(-2) if task == "multilabel" else w), unit


def _in_units(name: str, w: Tensor, n: int = 1) -> tuple[Tensor, float]:
    """Weights, checked, and their unit: a power of two next to the largest where that is far from
    1, so that no digit is lost. ``n`` of them must have a sum."""
    if under_transform(w):
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


def _weighted(problem: Problem, class_weight: Any) -> Problem:
    """With the weights of the classes in its weights."""
    v, unit = _in_units("class_weight", _of_classes(class_weight, problem))
    by_class = _by_class(v, problem)
    w = by_class if problem.w is None else problem.w * by_class
    unit *= problem.unit
    if not 1e-305 < unit < math.inf or unit * problem.y.shape[-1] == math.inf:
        raise ValueError(
            f"sample_weight times class_weight must be numbers that floats can hold, got {unit:g}. "
            "Divide or multiply one of them: metrics do not depend on the scale of weights."
        )
    return replace(problem, w=w, unit=unit)


def weights_by_class(class_weight: Any, problem: Problem) -> Tensor:
    """The weight of each example by its class (by its label, where there are several)."""
    return _by_class(_of_classes(class_weight, problem), problem)


def _of_classes(class_weight: Any, problem: Problem) -> Tensor:
    """One number for each class."""
    device = problem.z.device
    v = as_numbers("class_weight", class_weight, device).to(wide(device))
    size = 2 if problem.task == "binary" else problem.classes
    if v.shape != (size,):
        raise ValueError(
            f"class_weight must hold {size} numbers for task={problem.task!r}, got shape "
            f"{list(v.shape)}."
        )
    if not under_transform(v):
        check_number("class_weight", v.detach(), 0, math.inf, closed="low")
    return v


def _by_class(v: Tensor, problem: Problem) -> Tensor:
    y = problem.y
    if problem.task == "multilabel":
        return v.unsqueeze(-1).expand(y.shape)
    return torch.where(y > 0, v[1], v[0]) if problem.task == "binary" else v[y]


def _grid(thresholds: Any) -> Sequence[Any]:
    """A grid of thresholds as numbers, checked; as tensors, if they are to be learnt."""
    if isinstance(thresholds, Tensor) and thresholds.requires_grad and thresholds.dim() == 1:
        _checked_grid(tuple(thresholds.tolist()))
        return thresholds.unbind()
    values = thresholds.tolist() if hasattr(thresholds, "tolist") else thresholds
    try:
        values = tuple(values)
        if any(type(v) is not float for v in values):
            values = tuple(float(v) for v in values)
    except (TypeError, ValueError):
        message = f"thresholds must be a list of numbers, got {thresholds!r}."
        raise ValueError(message) from None
    # The compiler may hold numbers that it does not know yet.
    return values if torch.compiler.is_compiling() else _checked_grid(values)


@lru_cache(maxsize=16)  # to check a thousand numbers shows in the time of a million rows
def _checked_grid(thresholds: tuple[float, ...]) -> tuple[float, ...]:
    if not thresholds:
        raise ValueError("thresholds must be a list of numbers, got none.")
    check_number("thresholds", thresholds, 0, 1, hint=THRESHOLD_HINT)
    return thresholds


def probabilities(z: Tensor, task: str, from_logits: bool) -> Tensor:
    """Probabilities in kernel layout, as every decision sees them."""
    z = raised(z, working(z))
    if not from_logits:
        return z
    return torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)


def to_logits(z: Tensor, from_logits: bool) -> Tensor:
    """Scores of several classes as logits, in float64; a probability of zero counts as the least
    number, so that an offset can raise it."""
    z = raised(z, wide(z.device))
    return z if from_logits else z.clamp(min=torch.finfo(z.dtype).tiny).log()
