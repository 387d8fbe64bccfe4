"""A formula of counts and its derivatives as one kernel in Triton."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softset.counting.numerics import NotTracedError, Traced
from softset.counting.symbols import Program
from softset.counting.traced import gradient

if TYPE_CHECKING:
    from triton import JITFunction

# Elements of a tile, at most: beyond it the numbers of a formula do not stay in registers.
LARGEST = 4096
INDENT = "\n    "


def written(formula: Callable[..., Traced], shape: tuple[int, ...]) -> str | None:
    """The source of a kernel: ``1 - formula(tp, fp, fn, tn)``, one number, and its derivatives of
    cells ``[4, *shape]``; none if it can't be written down."""
    try:
        program = Program(shape)
        if _power(program.rows) * _power(program.cols) > LARGEST:
            return None
        traced = gradient(formula, program.cells())
    except NotTracedError:
        return None
    if traced is None or traced.value.shape:
        return None
    loss, by = traced.value, traced.by
    size = program.rows * program.cols
    loads = [f"{name} = tl.load(cells + at + {i * size}, mask=there, other=1.0)"
             for i, name in enumerate(("tp", "fp", "fn", "tn"))]  # fmt: skip
    lines = [
        f"row = tl.arange(0, {_power(program.rows)})[:, None]",
        f"col = tl.arange(0, {_power(program.cols)})[None, :]",
        f"there = (row < {program.rows}) & (col < {program.cols})",
        f"at = row * {program.cols} + col",
        *loads,
        *(f"{name} = {text}" for text, name in program.names.items()),
        f"tl.store(loss + tl.zeros([1, 1], tl.int32), {loss.text})",
        *(f"tl.store(by + at + {i * size}, {x.text}, mask=there)" for i, x in enumerate(by)),
    ]
    return f"def formula(cells, loss, by):{INDENT}{INDENT.join(lines)}\n"


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()


@lru_cache(maxsize=256)
def compiled(source: str) -> JITFunction:
    """The kernel of a source."""
    import triton  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415

    from softset.counting.kernels.triton.language import multiplied  # noqa: PLC0415

    name = f"<softset formula {compiled.cache_info().misses}>"
    # Triton reads the source of a function where Python's own tools find it.
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, object] = {"tl": tl, "multiplied": multiplied, "__name__": __name__}
    exec(compile(source, name, "exec"), scope)  # lines of ``written``: operators and numbers only
    return triton.jit(scope["formula"])


def warps(cells: Tensor) -> int:
    """How many share the classes: so few numbers for each thread that they stay in registers."""
    return max(1, min(8, _power(cells[0].numel()) // 64))


@torch.library.custom_op("softset::formula", mutates_args=())
def formula(cells: Tensor, source: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The number of ``written`` in ``dtype``, and its derivatives ``[2, ...]``, of cells."""
    loss = torch.empty((), dtype=dtype, device=cells.device)
    by = torch.empty_like(cells[:2], memory_format=torch.contiguous_format)
    compiled(source)[(1,)](cells.contiguous(), loss, by, num_warps=warps(cells))
    return loss, by


@formula.register_fake
def _(cells: Tensor, source: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return cells.new_empty((), dtype=dtype), torch.empty_like(cells[:2])
