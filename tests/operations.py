"""Counts the operations that are sent to a device, and finds those that would wait for it."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# A value is read on the host, or the shape of the result depends on values.
WAITING = {
    "aten._local_scalar_dense",
    "aten.is_nonzero",
    "aten.equal",
    "aten.nonzero",
    "aten.masked_select",
    "aten.bincount",
    "aten._unique",
    "aten._unique2",
    "aten.unique_dim",
    "aten.unique_consecutive",
    "aten.repeat_interleave",
    "aten.lift_fresh",  # torch.tensor([...]): copied from the host
}
# Nothing is launched: memory is taken, or a number becomes an argument of the next kernel.
NOTHING = {
    "aten.empty",
    "aten.new_empty",
    "aten.empty_like",
    "aten.empty_strided",
    "aten.new_empty_strided",
    "aten.scalar_tensor",  # the number in ``torch.where(x, y, 0.0)``, on the CPU wherever x is
    "aten._unsafe_view",  # a view of what nobody else holds
    "prim.device",
}


class Operations(TorchDispatchMode):
    """``count`` of operations, views and empty allocations left out, and ``waiting``: those that
    wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return sum(self.names.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func.overloadpacket)
        out = func(*args, **(kwargs or {}))
        if name in WAITING or _by_mask(name, args) or _copied(name, args, out):
            self.waiting[name] += 1
        if name not in NOTHING and not _is_view(func):
            self.names[name] += 1
        return out


def _is_view(func) -> bool:
    returned = [r.alias_info for r in func._schema.returns]
    return bool(returned) and all(a is not None and not a.is_write for a in returned)


def _by_mask(name: str, args) -> bool:
    """Boolean indexing: how many elements there are is known by their values."""
    if name not in ("aten.index", "aten.index_put", "aten.index_put_"):
        return False
    return any(isinstance(t, Tensor) and t.dtype in (torch.bool, torch.uint8) for t in args[1])


def _copied(name: str, args, out) -> bool:
    """From one device to another."""
    if name not in ("aten._to_copy", "aten.copy_") or not isinstance(out, Tensor):
        return False
    sources = [t for t in args if isinstance(t, Tensor)]
    return any(t.device != out.device for t in sources)
