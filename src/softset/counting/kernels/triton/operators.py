"""The kernels in Triton as operators of PyTorch: ``softset::cells``, ``softset::cells_gradient``.

``torch.compile`` and ``torch.export`` pass over them: they know the shape of what comes out, and
its derivative. Without Triton, or for what it can't do, nobody calls them.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from softset.counting.kernels.layout import SIGMOID, Layout

INSTALLED = find_spec("triton") is not None
# Classes in a tile, at most; and positions times classes, in float32 and in float64. Of labels half
# as many, as each has a target, and maybe a weight.
COLUMNS, TILES = 512, {False: 1024, True: 512}
# Programs times classes, at most: each has cells of its own, which are added up in the end.
PROGRAMS = 2**16
# A program takes so many tiles at least.
TURNS = 4


def _power(n: int) -> int:
    """The least power of two from n on."""
    return 1 << (n - 1).bit_length()


class Launch:
    """The arguments that both kernels of a family have, and the shape of the tiles."""

    def __init__(
        self, z: Tensor, y: Tensor, w: Tensor | None, v: Tensor | None, out: Tensor | None,
        batch_dims: int, exclusive: bool, step: int, levels: list[float], from_logits: bool,
        soft: bool, ignored: int | None, wide: bool,
    ) -> None:  # fmt: skip
        # Memory holds the other sign of a tensor that is negated lazily.
        z, y = z.resolve_neg(), y.resolve_neg()
        w, v = (None if t is None else t.resolve_neg() for t in (w, v))
        layout = Layout.of(z, y, w, out, batch_dims)
        if layout is None:  # positions in more dimensions than a kernel walks through
            z, y, w = z.contiguous(), y.contiguous(), None if w is None else w.contiguous()
            out = None if out is None else torch.empty(out.shape, dtype=out.dtype, device=z.device)
            layout = Layout.of(z, y, w, out, batch_dims)
        assert layout is not None, f"one batch dimension: {list(z.shape)}"
        self.out = out
        batch, outer, middle, inner, classes = layout.sizes
        self.batch, self.classes, self.positions = batch, classes, outer * middle * inner
        self.cols = min(_power(classes), COLUMNS)
        self.rows = max(1, TILES[wide] // (1 if exclusive else 2) // self.cols)
        self.blocks = -(-self.positions // self.rows)
        self.tensors = (z, y, z if w is None else w, z if v is None else v)
        self.sizes = (self.positions, middle, inner, classes, batch)
        last = 4 if exclusive else 5  # a target of several classes has no dimension for them
        self.strides = (*layout.scores, *layout.target[:last], *layout.weight[:last])
        self.of_gradient = layout.gradient
        self.ignored = 0 if ignored is None else ignored
        self.levels = levels
        self.constants: dict[str, Any] = {
            "STEP": step,
            "DIMS": 3 if outer > 1 else 2 if middle > 1 else 1,
            "IGNORES": ignored is not None,
            "WEIGHTED": w is not None,
            "WIDE": wide,
            "ROWS": self.rows,
            "COLS": self.cols,
        }
        self.exclusive = exclusive
        if exclusive:
            self.constants |= {"CLASSES_WEIGHTED": v is not None, "ONE": classes <= self.cols}
        else:
            pairs = 0 if v is None else 2 if classes == 1 else 1
            self.constants |= {"CLASSES_WEIGHTED": pairs, "LOW": step > SIGMOID or levels[5] <= 0.5}
            self.constants |= {"SOFT": soft, "LOGITS": from_logits}

    @property
    def chunks(self) -> int:
        """Programs side by side: labels are problems of their own, classes are not."""
        return 1 if self.exclusive else -(-self.classes // self.cols)

    @property
    def programs(self) -> int:
        """How many share the tiles of a problem; of the sizes only, whatever the GPU."""
        most = max(1, PROGRAMS // _power(self.classes))
        return max(1, min(-(-self.blocks // TURNS), most))

    def count(self) -> Tensor:
        """The cells ``[batch, 4, classes]``."""
        # Where a tile does not hold all classes, what it adds goes to memory.
        make = torch.empty if self.chunks * self.cols >= self.classes else torch.zeros
        shape = (self.programs, self.batch, 4, self.classes)
        out = make(shape, dtype=torch.float64, device=self.tensors[0].device)
        kernel, arguments = self.count_call(out)
        kernel[(self.programs, self.chunks, self.batch)](*arguments, **self.constants)
        return out.sum(0)

    def gradient(self, positive: Tensor, negative: Tensor) -> None:
        """The derivative by the scores, into ``out``."""
        kernel, arguments = self.gradient_call(positive, negative)
        kernel[(self.blocks, self.chunks, self.batch)](*arguments, **self.constants)

    def count_call(self, out: Tensor) -> tuple[Any, tuple[Any, ...]]:
        """The kernel that counts, and its arguments."""
        from softset.counting.kernels.triton.binary import binary_count  # noqa: PLC0415
        from softset.counting.kernels.triton.multiclass import multiclass_count  # noqa: PLC0415

        sizes = (*self.sizes, self.blocks, *self.strides)
        kernel = multiclass_count if self.exclusive else binary_count
        return kernel, (*self.tensors, out, *sizes, self.ignored, *self.levels)

    def gradient_call(self, positive: Tensor, negative: Tensor) -> tuple[Any, tuple[Any, ...]]:
        """The kernel of the gradient, and its arguments."""
        from softset.counting.kernels.triton.binary import binary_gradient  # noqa: PLC0415
        from softset.counting.kernels.triton.multiclass import multiclass_gradient  # noqa: PLC0415

        sizes = (*self.sizes[:4], *self.strides, *self.of_gradient)
        assert self.out is not None
        limit = torch.finfo(self.out.dtype).max
        kernel = multiclass_gradient if self.exclusive else binary_gradient
        tensors = (*self.tensors, positive, negative, self.out)
        return kernel, (*tensors, *sizes, self.ignored, *self.levels, limit)


@torch.library.custom_op("softset::cells", mutates_args=())
def cells(
    z: Tensor,
    y: Tensor,
    w: Tensor | None,
    v: Tensor | None,
    batch_dims: int,
    exclusive: bool,
    step: int,
    levels: list[float],
    from_logits: bool,
    soft: bool,
    ignored: int | None,
    wide: bool,
) -> Tensor:
    """The cells ``[4, *batch, classes]`` of scores ``[*batch, *positions, classes]``.

    Target and weights ``w`` have the same dimensions, of several classes (``exclusive``) without
    the last; ``v`` are the weights of the classes. ``levels`` are the numbers of the ``step``.
    """
    settings = (batch_dims, exclusive, step, levels, from_logits, soft, ignored, wide)
    counted = Launch(z.detach(), y, w, v, None, *settings).count()
    return counted.movedim(-2, 0).reshape(4, *z.shape[:batch_dims], z.shape[-1])


@cells.register_fake
def _(z: Tensor, y: Tensor, w: Any, v: Any, batch_dims: int, *settings: Any) -> Tensor:
    return z.new_empty((4, *z.shape[:batch_dims], z.shape[-1]), dtype=torch.float64)


@torch.library.custom_op("softset::cells_gradient", mutates_args=())
def cells_gradient(
    z: Tensor,
    y: Tensor,
    w: Tensor | None,
    v: Tensor | None,
    positive: Tensor,
    negative: Tensor,
    batch_dims: int,
    exclusive: bool,
    step: int,
    levels: list[float],
    from_logits: bool,
    soft: bool,
    ignored: int | None,
    wide: bool,
) -> Tensor:
    """The derivative by the scores, in their layout, from those by the degrees of positives,
    ``L_tp - L_fn``, and of negatives, ``L_fp - L_tn``: ``[*batch, classes]``."""
    out = torch.empty_like(z)
    settings = (batch_dims, exclusive, step, levels, from_logits, soft, ignored, wide)
    launch = Launch(z.detach(), y, w, v, out, *settings)
    launch.gradient(positive.contiguous(), negative.contiguous())
    return out if launch.out is out or launch.out is None else out.copy_(launch.out)


@cells_gradient.register_fake
def _(z: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(z)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.settings = inputs[4:]


def _backward(ctx: Any, adjoint: Tensor) -> Any:
    tp, fp, fn, tn = adjoint
    return cells_gradient(*ctx.saved_tensors, tp - fn, fp - tn, *ctx.settings), *[None] * 11


cells.register_autograd(_backward, setup_context=_remember)
