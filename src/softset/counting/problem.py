"""Scores, labels and weights, checked once and brought into the layout of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from softset.checks import check_choice, check_integer, check_number
from softset.counting.arguments import (
    Arguments,
    Shapes,
    as_numbers,
    by_class,
    check_shapes,
    of_classes,
)
from softset.counting.numerics import (
    checks_on_device,
    log_odds,
    raised,
    readable,
    under_transform,
    wide,
    working,
)
from softset.counting.steps import LinearStep, Step
from softset.counting.values import check_rows
from softset.tasks import BINARY, MULTILABEL, Task, get_task
from softset.typing import Groups, TensorLike, Threshold, Weights

THRESHOLD_HINT = "Pass logits with from_logits=True or move the threshold inside."
PER = ("batch", "image")


@dataclass(frozen=True)
class Problem:
    """Checked arguments in the layout of the kernels: ``arrange`` makes one, and internal functions
    take only this.

    ``z`` and ``y`` are ``[*batch, N]`` (binary), ``[*batch, labels, N]`` (multilabel), or ``z`` is
    ``[*batch, N, C]`` and ``y`` is ``[*batch, N]`` (multiclass). ``w`` broadcasts with ``y``; it
    holds all weights, by row and by class, in units of ``unit``. N counts positions: the rows, or
    all pixels of all images.

    ``sets``: the last batch dimension is one of sets (images, groups) whose mean is wanted. Sets of
    several sizes are ``numbers`` ``[N]`` instead, the set of each position, until ``by_set``.

    ``soft``: ``y`` holds fractions in [0, 1]; of several classes it is ``[*batch, N, C]``.

    ``left_out`` is the class that ``ignore_index`` names, if it names one. ``exclusive`` labels are
    classes, of which each row has one.

    ``invalid`` is a flag on the device, of values that are not read on the host: counts are NaN
    where it is set.

    ``arguments`` are those of ``arrange``, of which ``z``, ``y``, ``w`` and ``unit`` are made, and
    their values checked, when one of them is first read: the kernels in C read arguments where they
    lie, and check them in passing.
    """

    z: Tensor
    y: Tensor
    w: Tensor | None
    task: Task
    batch_dims: int = 0
    from_logits: bool = True
    unit: float = field(default_factory=lambda: 1.0)
    invalid: Tensor | None = field(default_factory=lambda: None)
    sets: bool = False
    numbers: Tensor | None = None
    soft: bool = False
    left_out: int | None = None
    exclusive: bool = False
    arguments: Arguments | None = field(default=None, init=False)

    def __getattr__(self, name: str) -> Any:
        if name not in ("z", "y", "w", "unit", "invalid") or self.__dict__.get("arguments") is None:
            raise AttributeError(name)
        self.__dict__.update(self.arguments.laid_out())  # type: ignore[union-attr]
        return self.__dict__[name]

    @property
    def scores(self) -> Tensor:
        """The scores as the user passed them, or ``z``: read only their dtype and device."""
        return self.z if self.arguments is None else self.arguments.scores

    @property
    def read(self) -> tuple[Tensor | None, ...]:
        """The tensors it is made of, scores first."""
        return (self.z, self.y, self.w) if self.arguments is None else self.arguments[:4]

    @property
    def in_sets(self) -> bool:
        """Whether the mean over sets is wanted."""
        return self.sets or self.numbers is not None

    @property
    def classes(self) -> int:
        """How many classes or labels; one for a binary problem."""
        if self.arguments is not None:
            return self.arguments.classes
        return self.task.classes_in(self.z)

    def probabilities(self) -> Tensor:
        """Probabilities in the layout of ``z``, as every decision sees them."""
        return probabilities(self.z, self.task, self.from_logits)

    def logits(self) -> Tensor:
        """Scores of several classes as logits, in float64; a probability of zero counts as the
        least number, so that an offset can raise it."""
        return to_logits(self.z, self.from_logits)

    def weights(self) -> Tensor:
        """One weight for each label, in the shape of ``y`` and in float64."""
        y = self.y[..., 0] if self.soft and self.task.exclusive else self.y
        if self.w is None:
            return torch.ones_like(y, dtype=wide(y.device))
        return self.w.expand(y.shape)

    def one_against_rest(self, to_rank: bool = False) -> Problem:
        """Several classes as labels, one for each, with the probabilities of the classes; or, of
        logits and ``to_rank`` only, with their log-odds."""
        if not self.task.exclusive:
            return self
        p = self.probabilities().clamp(0, 1)
        if readable(p):
            check_rows(self.z, p.detach())
        to_rank = to_rank and self.from_logits
        z, y = log_odds(self.z) if to_rank else p, self.y
        if not self.soft:
            y = y.unsqueeze(-1) == torch.arange(self.classes, device=p.device)
        w = None if self.w is None else self.w.unsqueeze(-2)
        return replace(self, z=z.mT, y=y.mT, w=w, task=MULTILABEL, from_logits=to_rank)

    def pooled(self) -> Problem:
        """All labels one after another, as one binary problem."""
        labels = [k for k in range(self.classes) if k != self.left_out]
        w = None if self.w is None else self.weights()[..., labels, :].flatten(-2)
        z, y = (t[..., labels, :].flatten(-2) for t in (self.z, self.y))
        numbers = None if self.numbers is None else self.numbers.repeat(len(labels))
        return replace(self, z=z, y=y, w=w, task=BINARY, numbers=numbers, left_out=None)

    def by_set(self) -> list[Problem]:
        """With the sets as a batch dimension: sets of about one size together, each filled up with
        positions of weight zero, at most as many as it has. In the order of ``set_order``."""
        if self.numbers is None:
            return [self]
        sizes = torch.bincount(self.numbers)
        order, start = self.numbers.argsort(stable=True), sizes.cumsum(0) - sizes
        problems = []
        for chosen in _of_one_size(sizes):
            size = sizes[chosen].unsqueeze(-1)
            place = torch.arange(int(size.max()), device=size.device)
            at = order[start[chosen].unsqueeze(-1) + place.minimum(size - 1)]
            problems.append(self._taken(at, None if (size == len(place)).all() else place < size))
        return problems

    def set_order(self) -> Tensor:
        """Where each set, by its number, is among those of ``by_set``."""
        assert self.numbers is not None
        return torch.cat(_of_one_size(torch.bincount(self.numbers))).argsort()

    def _taken(self, at: Tensor, there: Tensor | None) -> Problem:
        """The positions ``at`` ``[sets, size]``; those that are not ``there`` weigh nothing."""

        def take(t: Tensor, dim: int) -> Tensor:
            taken = t.index_select(dim, at.flatten())
            return taken.reshape(*taken.shape[:dim], *at.shape, *taken.shape[dim:][1:])

        several, by_class = self.task.exclusive, self.soft and self.task.exclusive
        z = take(self.z, -2 if several else -1)
        y = take(self.y, -2 if by_class else -1)
        w = None if self.w is None else take(self.w, -1)
        if there is not None:
            ones = torch.ones((), dtype=wide(z.device), device=z.device)
            w = there * (ones if w is None else w)
        if self.task.independent:  # [*batch, labels, sets, size] -> [*batch, sets, labels, ...]
            z, y = z.transpose(-3, -2), y.transpose(-3, -2)
            w = w if w is None else w.unsqueeze(-2) if w.dim() == 2 else w.transpose(-3, -2)
        changed = {"batch_dims": self.batch_dims + 1, "sets": True, "numbers": None}
        return replace(self, z=z, y=y, w=w, **changed)  # type: ignore[arg-type]

    def shifted(self, offsets: TensorLike) -> Problem:
        """With ``offsets`` added to the log-probabilities of the classes.

        In float64: an offset between two neighboring float32 scores must stay between.
        """
        shift = as_numbers("offsets", offsets, self.z.device).to(wide(self.z.device))
        if shift.shape != self.z.shape[-1:]:
            raise ValueError(
                f"offsets must hold one number for each of {self.classes} classes, got shape "
                f"{list(shift.shape)}."
            )
        return replace(self, z=self.logits() + shift, from_logits=True)

    def thresholds(
        self, threshold: Threshold, thresholds: Threshold | None
    ) -> tuple[Sequence[float | Tensor], bool]:
        """The one threshold, or a grid of them and ``True``: numbers, or tensors that broadcast
        with ``[*lead, 1]``."""
        if thresholds is not None:
            return _grid(thresholds), True
        check_thresholds(self.task, threshold)
        learned = isinstance(threshold, Tensor) and threshold.requires_grad
        if isinstance(threshold, int | float):
            return [float(threshold)], False
        device = self.scores.device
        values = as_numbers("threshold", threshold, device)
        values = values.to(wide(device), copy=True)  # the gradient reads it again
        if values.dim() == 0:
            return [values if learned or not readable(values) else float(values)], False
        lead = self.z.shape[:-1]
        if values.shape not in (lead, lead[-1:]):
            raise ValueError(
                f"threshold must be one number, or one for each label {list(lead[-1:])}, got shape "
                f"{list(values.shape)}. For a grid use thresholds."
            )
        return [values.unsqueeze(-1)], False

    def spread(self, step: Step) -> Step:
        """The step, its parameters of the batch shape with the dimensions to broadcast over."""
        changed = {}
        for name, value in getattr(step, "__dict__", {}).items():
            if isinstance(value, Tensor) and value.dim() > 0:
                batch = self.z.shape[: self.batch_dims - self.sets]
                if value.shape != batch:
                    raise ValueError(
                        f"step.{name} must be a number or have the batch shape {list(batch)}, got "
                        f"shape {list(value.shape)}."
                    )
                extra = self.z.dim() - len(batch)
                linear = isinstance(step, LinearStep)  # of whose width no digit may be lost
                dtype = wide(self.z.device) if linear else working(self.z)
                value = value.to(self.z.device, dtype, copy=True)  # the gradient reads it again
                changed[name] = value.reshape(*batch, *[1] * extra)
        return replace(step, **changed) if changed else step  # type: ignore[type-var]


def arrange(
    scores: TensorLike,
    target: TensorLike,
    *,
    task: str,
    from_logits: bool | None,
    sample_weight: Weights = None,
    class_weight: Weights = None,
    ignore_index: int | None = None,
    batch_dims: int = 0,
    per: Groups = "batch",
    soft_targets: bool = False,
) -> Problem:
    """Check shapes, dtypes and values and bring everything into the layout of the kernels.

    Arguments are as for ``confusion``; internal functions take only the ``Problem``. Where
    ``from_logits`` is None scores are logits, unless all of them lie in [0, 1]: then it must be
    passed.
    """
    task = task if isinstance(task, Task) else get_task(task)
    z = as_numbers("scores", scores)
    y = as_numbers("target", target, z.device)
    if not z.is_floating_point():
        if z.is_complex():
            raise ValueError(f"scores must be real numbers, got {z.dtype}.")
        z = z.to(torch.float64 if z.dtype == torch.int64 else torch.float32)
    if y.is_complex():
        raise ValueError(f"target must be bool, integer or float, got {y.dtype}.")
    if y.requires_grad:
        raise ValueError(
            "target must not require a gradient: scores come first, as in loss(scores, target). If "
            "target itself was computed, pass target.detach()."
        )
    if z.numel() == 0:
        raise ValueError(f"scores are empty: shape {list(z.shape)}.")
    together = isinstance(per, str) and per == "batch"
    images = not together and isinstance(per, str) and per == "image"
    if ignore_index is not None:
        check_integer("ignore_index", ignore_index, -(2**63))
    shapes = check_shapes(z, y, task, batch_dims, images, soft_targets)
    soft = shapes.by_class or (soft_targets and not task.exclusive and y.is_floating_point())
    numbers = None if together or images else _set_numbers(per, shapes, z.device)
    w, v = sample_weight, class_weight
    if w is not None:
        w = shapes.by_position("sample_weight", as_numbers("sample_weight", w, z.device))
    if v is not None:
        v = of_classes(v, task, z.shape[batch_dims + 1] if not task.single else 1, z.device)
    if from_logits is None:
        if all_in_unit_interval(z):
            raise ValueError(
                "all scores lie in [0, 1], as probabilities and decisions do, and logits may: pass "
                "from_logits=False if they are probabilities or decisions, from_logits=True if "
                "they are logits."
            )
        from_logits = True
    left_out = None
    if task.exclusive and not soft and ignore_index in range(z.shape[batch_dims + 1]):
        left_out = ignore_index
    problem = object.__new__(Problem)
    problem.__dict__.update(
        task=task,
        batch_dims=batch_dims + images,
        from_logits=from_logits,
        sets=images,
        numbers=numbers,
        soft=soft,
        left_out=left_out,
        exclusive=False,
        arguments=Arguments(
            z, y, w, v, ignore_index, from_logits, soft, shapes, torch.is_grad_enabled()
        ),
    )
    return problem


def _set_numbers(per: Groups, shapes: Shapes, device: torch.device) -> Tensor:
    """The set of each position, numbered 0, 1, 2, … in the order of the numbers given."""
    if isinstance(per, str):
        check_choice("per", per, PER)
    numbers = as_numbers("per", per, device)
    if numbers.is_floating_point() or numbers.is_complex():
        raise ValueError(
            f"per must be one of {', '.join(map(repr, PER))}, or integers that say to which "
            f"set each row belongs, got {numbers.dtype}."
        )
    flat = shapes.by_position("per", numbers, batch=False).flatten()
    if under_transform(flat) or checks_on_device():
        raise ValueError(
            "per with set numbers can't be compiled or transformed, nor checked on the device: how "
            "large the sets are is not known there. Use per='image', or batch_dims."
        )
    return torch.unique(flat, return_inverse=True)[1]


def _of_one_size(sizes: Tensor) -> list[Tensor]:
    """Numbers of sets together whose sizes differ by less than a factor of two."""
    scale = sizes.double().log2().floor()
    return [(scale == s).nonzero().squeeze(-1) for s in torch.unique(scale)]


def weights_by_class(class_weight: TensorLike, problem: Problem) -> Tensor:
    """The weight of each example by its class (by its label, where there are several)."""
    v = of_classes(class_weight, problem.task, problem.classes, problem.z.device)
    return by_class(v, problem.y, problem.task, problem.soft)


def check_thresholds(task: Task, threshold: Threshold, thresholds: Threshold | None = None) -> None:
    """Refuse a threshold, or a grid of them, outside of (0, 1), and any of several classes."""
    if task.exclusive:
        default = isinstance(threshold, int | float) and threshold == 0.5
        if thresholds is not None or not default:
            raise ValueError(
                "threshold and thresholds do not apply to task='multiclass', where the largest "
                "score decides. Shift the classes with offsets instead."
            )
    elif thresholds is not None:
        _grid(thresholds)
    else:
        if isinstance(threshold, Tensor):
            if not readable(threshold):
                return
            threshold = threshold.detach()
        number = threshold
        check_number("threshold", number, 0, 1, hint=THRESHOLD_HINT)


def _grid(thresholds: Threshold) -> Sequence[float | Tensor]:
    """A grid of thresholds as numbers, checked; as tensors, if they are to be learned."""
    if isinstance(thresholds, Tensor) and thresholds.requires_grad and thresholds.dim() == 1:
        _checked_grid(tuple(thresholds.tolist()))
        return thresholds.unbind()
    values = thresholds.tolist() if hasattr(thresholds, "tolist") else thresholds
    try:
        values = tuple(values)  # type: ignore[arg-type]
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


def probabilities(z: Tensor, task: Task, from_logits: bool) -> Tensor:
    """Probabilities in kernel layout, as every decision sees them."""
    z = raised(z, working(z))
    if not from_logits:
        return z
    return task.link(z)


def to_logits(z: Tensor, from_logits: bool) -> Tensor:
    """Scores of several classes as logits, in float64; a probability of zero counts as the least
    number, so that an offset can raise it."""
    z = raised(z, wide(z.device))
    return z if from_logits else z.clamp(min=torch.finfo(z.dtype).tiny).log()


# So few scores of a batch may all lie in [0, 1] by chance.
FEW_SCORES = 32


def all_in_unit_interval(z: Tensor) -> bool:
    """Whether there are scores and all lie in [0, 1]; False where values cannot be read."""
    if z.numel() == 0 or not readable(z):
        return False
    low, high = torch.aminmax(z.detach())
    return bool(low >= 0) and bool(high <= 1)
