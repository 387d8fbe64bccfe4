"""Counts of all ranks: what one process of many cannot tell, all together can.

Each step costs one all-reduce of a few numbers. Whatever goes wrong on one rank is told to the
others in the same place, so that all of them stop, and none waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from softset.counting.flat import Form, carried
from softset.counting.numerics import wide
from softset.tasks import TASKS

Counted = tuple[Tensor, Form]
HEADER = 16  # numbers that describe a form, and whether there is one


class RankError(RuntimeError):
    """Another rank failed, or does not fit this one."""


class Ranks:
    """The ranks of a process group, or (``"auto"``) of the default one where there is one.

    The first time they compare the form of their counts. From then on one all-reduce carries the
    counts and a flag, which says that a rank failed or has counts of another form; only then they
    compare again.
    """

    def __init__(self, sync: Any) -> None:
        if isinstance(sync, str) and sync != "auto":
            raise ValueError(f"sync must be None, 'auto' or a process group, got {sync!r}.")
        if not isinstance(sync, str) and not isinstance(sync, _groups()):
            raise ValueError(f"sync must be None, 'auto' or a process group, got {sync!r}.")
        self.sync = sync
        self.agreed: Form | None = None
        # Not as a decorator: it imports the compiler, which takes as long as torch itself.
        self.total = torch.compiler.disable(self._total)  # type: ignore[no-untyped-call]

    def __reduce__(self) -> tuple[type[Ranks], tuple[object]]:
        return Ranks, (self.sync,)

    def __deepcopy__(self, memo: object) -> Ranks:
        return Ranks(self.sync)  # a process group cannot be copied

    def __repr__(self) -> str:
        return "'auto'" if self.sync == "auto" else "a process group"

    @property
    def group(self) -> Any:
        """The process group; None for the default one."""
        return None if self.sync == "auto" else self.sync

    @property
    def size(self) -> int:
        """How many ranks there are; one without a process group."""
        if not dist.is_available() or not dist.is_initialized():
            return 1
        size = dist.get_world_size(self.group)
        if size < 1:
            raise ValueError("sync is a process group that this process does not belong to.")
        return size

    def _total(self, count: Callable[[], Counted], device: torch.device) -> Counted:
        """The sum over ranks of what ``count`` gives here, with the derivative of what it gives
        here times the number of ranks: then the mean of the ranks' gradients, which DDP and FSDP
        take, is the gradient of the sum.

        An error of ``count`` here is raised here, once the others know of it.
        """
        size = self.size
        if size == 1:
            return count()
        try:
            flat, form = count()
        except Exception:
            self._sum(None, None, device)
            raise
        return carried(self._sum(flat.detach(), form, device), flat, size), form

    def _sum(self, flat: Tensor | None, form: Form | None, device: torch.device) -> Tensor:
        try:
            return self._exchange(flat, form, device)
        except RankError:
            if form is None:  # the error of this rank says more
                return torch.empty(0)
            raise
        except RuntimeError as error:
            if form is None:
                return torch.empty(0)
            raise RankError(
                "the counts could not be summed over the ranks (sync): another rank has stopped, "
                f"or does not answer. {error}"
            ) from error

    def _exchange(self, flat: Tensor | None, form: Form | None, device: torch.device) -> Tensor:
        if self.agreed is not None:
            sent = torch.zeros(1 + self.agreed.size, dtype=wide(device), device=device)
            if form == self.agreed and flat is not None:
                sent[1:] = flat
            else:
                sent[0] = 1
            dist.all_reduce(sent, group=self.group)
            if sent[0] == 0:
                return sent[1:]
        self.agreed = None
        self._agree(form, device)
        assert flat is not None
        sent = flat.to(device, wide(device), copy=True)
        dist.all_reduce(sent, group=self.group)
        self.agreed = form
        return sent

    def _agree(self, form: Form | None, device: torch.device) -> None:
        """Refuse, on all ranks, what one of them refuses, and forms that differ."""
        header = torch.tensor(_header(form), device=device)
        headers = [torch.zeros_like(header) for _ in range(self.size)]
        dist.all_gather(headers, header, group=self.group)
        described = [_described(h.tolist()) for h in headers]
        failed = [rank for rank, d in enumerate(described) if d is None]
        if failed:
            ranks = ", ".join(map(str, failed))
            raise RankError(
                f"rank {ranks} could not count its batch; its own error says why. All ranks of "
                "sync stop."
            )
        if any(h != headers[0].tolist() for h in (h.tolist() for h in headers)):
            each = "; ".join(f"rank {rank}: {d}" for rank, d in enumerate(described))
            raise RankError(
                f"the ranks of sync count different things: {each}. Give all the same loss, and "
                "scores of the same classes."
            )


def _groups() -> tuple[type, ...]:
    return (dist.ProcessGroup,) if dist.is_available() else ()


def _header(form: Form | None) -> list[int]:
    if form is None:
        return [0] * HEADER
    matrix = form.matrix or ()
    numbers = [1, list(TASKS).index(form.task), len(form.shape), *form.shape, len(matrix), *matrix]
    return (numbers + [0] * HEADER)[:HEADER]


def _described(header: list[int]) -> str | None:
    """In words; nothing for a rank that failed."""
    if header[0] == 0:
        return None
    dims = header[3 : 3 + header[2]]
    return f"{list(TASKS)[header[1]]} counts of shape {dims}"
