"""The gradient of one huge batch in the memory of a micro-batch.

The loss depends on the rows only through a few counts, and these add up: count all micro-batches
first; take the derivatives of the loss by the counts; then let each micro-batch carry its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from softset.checks import check_choice
from softset.counting.flat import Form, carried, flatten
from softset.counting.numerics import as_dtype, working
from softset.counting.steps import is_hard
from softset.losses.soft_metric import MetricLoss
from softset.typing import ArrayLike

# Counts of a micro-batch that differ by a larger fraction between the passes are of other rows.
SAME = 1e-3
Batch = Sequence[Tensor]  # (x, y) or (x, y, sample_weight)


def accumulate(
    model: nn.Module, loss: nn.Module, micro_batches: Iterable[Batch], *, passes: int = 2
) -> Tensor:
    """Add the gradient of the loss of all ``micro_batches`` together to ``.grad``, as
    ``backward()`` does; returns that loss.

    Two passes: counts first, without gradient, then the gradient of each micro-batch with the
    derivatives ``dL/dC`` of all of them (``L`` the loss, ``C`` the sum of counts):
    ``sum_i dL/dC dC_i``. It is exact where rows do not interact within the model. With batch norm
    it is exact for the statistics of each micro-batch. Both passes see the same random numbers
    (dropout), and running statistics are updated once.

    Args:
        model: called as ``model(x)``; one in ``DistributedDataParallel`` sums over ranks once, at
            the last micro-batch. Ranks may have different numbers of micro-batches.
        loss: a ``MetricLoss``; with ``ema_decay``, all micro-batches are one batch.
        micro_batches: a list, a DataLoader, or anything that can be gone through twice, of
            ``(x, y)`` or ``(x, y, sample_weight)``. ``y`` is moved to the device of the scores.
        passes: 1 goes through the micro-batches and the model once, and keeps the graphs of all:
            where reading the rows is the dear part, and the model is small. The rows may then be
            an iterator.

    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(64, 3), torch.arange(64) % 4 == 0
    >>> model, loss = nn.Linear(3, 1), MetricLoss("f1")
    >>> value = accumulate(model, loss, list(zip(x.split(8), y.split(8))))
    >>> torch.allclose(value, loss(model(x), y))
    True
    """
    check_choice("passes", passes, (1, 2))
    total = Accumulation(loss)
    if passes == 1:
        return _in_one_pass(model, total, micro_batches)
    if isinstance(micro_batches, Iterator):
        raise ValueError(
            "micro_batches must be something that can be gone through twice, such as a list, got "
            f"{type(micro_batches).__name__}. Make it a list, or use passes=1."
        )
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    before = _Before(model)
    marks: list[Tensor] = []

    def count() -> tuple[Tensor, Form]:
        """The counts of all microbatches, without a graph; what follows is to see the same rows."""
        with torch.no_grad():
            for x, *rest in _rows(micro_batches):
                marks.append(_mark(*total.count(bare(x), *rest)))
        return total.counted()

    try:
        total.settle(count, _device(model))
    finally:
        before.restore()
        # Some versions of torch would use weights that autocast made without a graph.
        torch.clear_autocast_cache()
    number = 0
    for number, (x, *rest) in enumerate(_rows(micro_batches), 1):
        if number > len(marks):
            break
        scores = (model if number == len(marks) else bare)(x)
        flat, form = flatten(total.loss.cells(scores, *rest))
        _check_same(_mark(flat.detach(), form), marks[number - 1], number)
        total.share(flat, form, scores).backward()  # type: ignore[no-untyped-call]
    if number != len(marks):
        raise ValueError(
            f"micro_batches gave {len(marks)} batches, then {number} in the second pass. {_TWICE}"
        )
    return total.value


class Accumulation:
    """``accumulate`` for a loop of your own: a scaler, several models, an engine's ``backward``.

    Call ``count`` with the scores of each micro-batch; then call it with the scores of each, with
    their graph, for a scalar to go backward from. These scalars add up to ``value``, the loss of
    all rows. Make a new one for each step.

    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(64, 3), torch.arange(64) % 4 == 0
    >>> model, total = nn.Linear(3, 1), Accumulation(MetricLoss("mcc"))
    >>> with torch.no_grad():
    ...     for part, labels in zip(x.split(16), y.split(16)):
    ...         _ = total.count(model(part), labels)
    >>> for part, labels in zip(x.split(16), y.split(16)):
    ...     total(model(part), labels).backward()
    >>> torch.allclose(total.value, total.loss(model(x), y))
    True
    """

    def __init__(self, loss: nn.Module) -> None:
        loss = getattr(loss, "_orig_mod", loss)  # compiled
        if not isinstance(loss, MetricLoss):
            raise ValueError(
                f"loss must be a MetricLoss, got {type(loss).__name__}. A loss that is a mean over "
                "rows adds up by itself: weight each micro-batch by its fraction of the rows."
            )
        if is_hard(loss.step):
            raise ValueError(f"loss must have a step with a gradient, got {loss.step!r}.")
        if not loss.goal.where.adds_up:
            raise ValueError(
                f"loss must be of counts that add up: the threshold of {loss.goal.name!r} follows "
                "from all scores of a batch. Pass larger batches to the loss itself."
            )
        if loss.per != "batch":
            raise ValueError(
                f"loss must count all rows together (per='batch'), got {loss.per!r}: a mean over "
                "sets adds up by itself, weighted by the number of sets."
            )
        self.loss = loss
        self._counts: tuple[Tensor, Form] | None = None
        self._slopes: Tensor | None = None
        self._value: Tensor | None = None
        self._dtype = torch.float32

    def count(
        self, scores: Tensor, target: Tensor, sample_weight: ArrayLike | None = None
    ) -> tuple[Tensor, Form]:
        """First pass: the counts of a micro-batch are added, and returned."""
        if self._value is not None:
            raise ValueError("all is counted already. Make a new Accumulation for each step.")
        with torch.no_grad():
            flat, form = flatten(self.loss.cells(scores.detach(), target, sample_weight))
        self._dtype = working(scores)
        if self._counts is None:
            self._counts = flat, form
            return flat, form
        if form != self._counts[1]:
            raise ValueError(
                f"micro-batches must have the same classes, got counts of shape "
                f"{list(form.shape)} after {list(self._counts[1].shape)}."
            )
        self._counts = self._counts[0] + flat, form
        return flat, form

    def counted(self) -> tuple[Tensor, Form]:
        """The counts of all micro-batches of this process."""
        if self._counts is None:
            raise ValueError("no micro-batch was counted. A rank without rows counts an empty one.")
        return self._counts

    def settle(
        self,
        count: Callable[[], tuple[Tensor, Form]] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """The derivatives of the loss by the counts: with ``sync`` by those of all ranks, which
        hear of
        an error in ``count``."""
        leaves: list[Tensor] = []

        def leaf() -> tuple[Tensor, Form]:
            """Counts as leaves of a graph: the loss is differentiated by them alone."""
            flat, form = (count or self.counted)()
            leaves.append(flat.detach().requires_grad_())
            return leaves[0], form

        if device is None:
            device = self.counted()[0].device
        with torch.enable_grad():
            value = self.loss.of_whole(leaf, device)
            if value.requires_grad:
                (self._slopes,) = torch.autograd.grad(value.sum(), leaves)
            else:
                self._slopes = torch.zeros_like(leaves[0])
        self._value = as_dtype(value.detach(), self._dtype)

    def __call__(
        self, scores: Tensor, target: Tensor, sample_weight: ArrayLike | None = None
    ) -> Tensor:
        """Second pass: the share of a micro-batch in the loss, to go backward from."""
        if self._value is None:
            self.settle()
        flat, form = flatten(self.loss.cells(scores, target, sample_weight))
        return self.share(flat, form, scores)

    def share(self, flat: Tensor, form: Form, scores: Tensor) -> Tensor:
        """The same for counts with their graph."""
        assert self._slopes is not None
        assert self._value is not None
        total = form.confusion(self.counted()[0]).total.sum()
        part = form.confusion(flat.detach()).total.sum()
        value = self._value.sum() * (part / total if total > 0 else 0.0)
        return as_dtype(carried(value, (self._slopes * flat).sum()), working(scores))

    @property
    def value(self) -> Tensor:
        """The loss of all micro-batches (of all ranks, with ``sync``), without a graph."""
        if self._value is None:
            self.settle()
        assert self._value is not None
        return self._value


def _in_one_pass(model: nn.Module, total: Accumulation, micro_batches: Iterable[Batch]) -> Tensor:
    bare = model.module if isinstance(model, DistributedDataParallel) else model

    def count() -> tuple[Tensor, Form]:
        """The sum of the counts of all microbatches."""
        sums, form = None, None
        rows = _rows(micro_batches)
        following = next(rows, None)
        while following is not None:
            (x, *rest), following = following, next(rows, None)
            scores = (model if following is None else bare)(x)
            flat, form = flatten(total.loss.cells(scores, *rest))
            sums = flat if sums is None else sums + flat
        if sums is None or form is None:
            return total.counted()  # which says what is missing
        return sums, form

    value = total.loss.of_whole(count, _device(model))
    value.sum().backward()  # type: ignore[no-untyped-call]
    return value.detach()


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _rows(micro_batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in micro_batches:
        if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
            raise ValueError(
                "micro_batches must hold (x, y) or (x, y, sample_weight), got "
                f"{type(batch).__name__}{f' of {len(batch)}' if hasattr(batch, '__len__') else ''}."
            )
        yield batch


_TWICE = (
    "Both passes must see the same rows in the same order: no shuffling between them. Gradients "
    "are incomplete: call zero_grad()."
)


def _mark(flat: Tensor, form: Form) -> Tensor:
    """A few numbers to know a micro-batch by."""
    c = form.confusion(flat)
    return torch.stack([c.tp.mean(), c.predicted.mean(), c.support.mean(), c.total.mean()])


def _check_same(now: Tensor, then: Tensor, number: int) -> None:
    if ((now - then).abs() > SAME * then[-1]).any():
        raise ValueError(
            f"micro-batch {number} has other counts in the second pass. {_TWICE} A model must give "
            "the same scores for the same random numbers."
        )


class _Before:
    """Random numbers and buffers as they are now, so that a model can be run twice alike."""

    def __init__(self, model: nn.Module) -> None:
        self.torch = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        self.python, self.numpy = random.getstate(), np.random.get_state(legacy=True)
        self.buffers = [
            (module, name, buffer, buffer.detach().clone())
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
        ]

    @torch.no_grad()
    def restore(self) -> None:
        """Random numbers again as they were."""
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        for module, name, buffer, saved in self.buffers:
            setattr(module, name, buffer.copy_(saved))
