"""Scores to soft counts in one pass, with the gradient in closed form.

A loss depends on the data only through a few sums per class. So each kernel here does two things:
``count`` reduces scores to those sums, and ``gradient`` turns the derivatives of the loss by the
sums into the gradient by the scores, chunk by chunk, so that temporaries stay in the cache and
memory does not grow with thresholds. What ``count`` leaves for ``gradient`` (probabilities) is
overwritten by the gradient: fresh memory costs more than arithmetic. ``compose`` is the same
computation in plain differentiable PyTorch: it serves second derivatives, ``torch.compile`` and
``torch.func`` transforms.

Layout. Binary and multilabel: scores ``[*lead, N]``, one problem for each index of ``lead``.
Multiclass: scores ``[*lead, N, C]``. Sums are ``[*lead]`` or ``[*lead, C]``, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from softset._tools import under_transform

Counts = tuple[Tensor, Tensor, Tensor, Tensor]


def count(kernel: Any, z: Tensor, y: Tensor, w: Tensor | None) -> Counts:
    """``tp, predicted, support, total`` of scores ``z``, differentiable in ``z``."""
    with full_precision(z):
        if under_transform(z, y, w):
            return kernel.compose(z, y, w)
        margins: list[Tensor] = []
        tp, predicted = _Fused.apply(z, y, w, kernel, margins)  # type: ignore[no-untyped-call]
        return tp, predicted, margins[0], margins[1]


def full_precision(z: Tensor) -> AbstractContextManager[object]:
    """Counts are a float32 island: autocast must not turn their products into half precision."""
    device = z.device.type
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def untracked(many: bool = True) -> AbstractContextManager[object]:
    """For the many calls of a closed form: what autograd notes of each is a tenth of its time.

    Tensors made in here have no place in a graph: a gradient is made before, counts are copied.
    """
    return torch.inference_mode() if many else nullcontext()


@contextmanager
def exact_products(z: Tensor) -> Iterator[None]:
    """Products of float32 are float32, whatever ``torch.set_float32_matmul_precision`` allows:
    sums of numbers that stand for classes must be exact."""
    backend: Any = torch.backends.cuda if z.is_cuda else torch.backends.mkldnn
    setting: Any = getattr(backend, "matmul", None)
    before = getattr(setting, "fp32_precision", "ieee")  # older versions do not tell
    if before in ("none", "ieee"):
        yield
        return
    setting.fp32_precision = "ieee"
    try:
        yield
    finally:
        setting.fp32_precision = before


def wide(device: torch.device) -> torch.dtype:
    """The dtype counts accumulate in: float32 sums stop at 2**24."""
    return torch.float32 if device.type == "mps" else torch.float64


def working(z: Tensor) -> torch.dtype:
    """The dtype of elementwise work: half precision is raised to float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def as_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x.to(dtype)`` without the call where there is nothing to do: it shows in small batches."""
    return x if x.dtype is dtype else x.to(dtype)


class Room:
    """Scratch space that the chunks of a pass share: fresh memory costs more than arithmetic.

    ``dim`` is the one that the last chunk may be shorter in. With a single chunk there is nothing
    to share, and PyTorch makes its results itself.
    """

    def __init__(self, chunks: int, dim: int = -1) -> None:
        self.shared, self.dim = chunks > 1, dim
        self.held: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, dtype: torch.dtype | None = None) -> Any:
        """A tensor of the shape of ``like`` with any content; the same memory for the same name."""
        if not self.shared:
            return None
        held = self.held.get(name)
        if held is None:
            held = self.held[name] = torch.empty_like(like, dtype=dtype)
        full = held.shape == like.shape
        return held if full else held.narrow(self.dim, 0, like.shape[self.dim])

    def make(self, name: str, like: Tensor) -> Tensor:
        """The same, with memory of its own where nothing is shared."""
        return self(name, like) if self.shared else torch.empty_like(like)

    def cast(self, name: str, x: Tensor, dtype: torch.dtype) -> Tensor:
        """``x`` in another dtype; itself if there is nothing to do."""
        if x.dtype is dtype:
            return x
        return self(name, x, dtype).copy_(x) if self.shared else x.to(dtype)


def chunks(size: int, dim: int, *tensors: Tensor | None) -> Iterator[Any]:
    """Tensors cut along ``dim``, side by side; nothing stays nothing."""
    count = -(-next(x.shape[dim] for x in tensors if x is not None) // size)
    if count <= 1:
        return iter([tensors])
    pieces = [[None] * count if x is None else torch.split(x, size, dim) for x in tensors]
    return zip(*pieces, strict=True)


class _Fused(torch.autograd.Function):
    """``tp, predicted``; the other two sums have no gradient and are left in ``margins``."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Tensor | None, kernel: Any, margins: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        counts, left = kernel.count(z, y, w, ctx.needs_input_grad[0])
        tp, predicted, *rest = (c.clone() if c.is_inference() else c for c in counts)
        margins += rest
        ctx.kernel, ctx.left = kernel, left
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, y, w)
        return tp, predicted

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor | None) -> Any:
        z, y, w = ctx.saved_tensors
        d_tp, d_pred = adjoint
        known = d_pred if d_tp is None else d_tp
        if known is None:
            return None, None, None, None, None
        d_tp = torch.zeros_like(known) if d_tp is None else d_tp
        d_pred = torch.zeros_like(known) if d_pred is None else d_pred
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(known):
                # A second derivative is wanted: differentiate the plain composition instead.
                with torch.enable_grad():
                    outputs = ctx.kernel.compose(z, y, w)[:2]
                (grad,) = torch.autograd.grad(outputs, z, (d_tp, d_pred), create_graph=True)
            else:
                grad = ctx.kernel.gradient(z, y, w, _taken(ctx, z, y, w), d_tp, d_pred)
        return grad, None, None, None, None


def _taken(ctx: Any, z: Tensor, y: Tensor, w: Tensor | None) -> Any:
    """What ``count`` left, which is gone after this; if it is gone already, once more."""
    left, ctx.left = ctx.left, None
    return ctx.kernel.count(z, y, w, True)[1] if left is None else left


class _Linearised(torch.autograd.Function):
    """One minus a metric whose derivatives by ``tp`` and ``predicted`` are known.

    The few numbers of a small batch, or of many classes, cost more in autograd than its rows do.
    ``again`` is the loss of the plain composition, for second derivatives.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, y: Tensor, w: Any, kernel: Any, left: Any, slopes: Any, again: Any
    ) -> Tensor:
        ctx.kernel, ctx.left, ctx.slopes, ctx.again = kernel, left, slopes[1:], again
        ctx.save_for_backward(z, y, w)
        return torch.scalar_tensor(1 - slopes[0], dtype=working(z))

    @staticmethod
    def backward(ctx: Any, *adjoint: Tensor) -> Any:
        z, y, w = ctx.saved_tensors
        (g,) = adjoint
        with full_precision(z):
            if torch.is_grad_enabled() or under_transform(g):
                with torch.enable_grad():
                    loss = ctx.again(*ctx.kernel.compose(z, y, w))
                (grad,) = torch.autograd.grad(loss, z, g.to(loss.dtype), create_graph=True)
            else:
                by_tp, by_predicted = (slope * -g.item() for slope in ctx.slopes)
                left = _taken(ctx, z, y, w)
                grad = ctx.kernel.gradient(z, y, w, left, by_tp, by_predicted)
        return grad, *[None] * 6


def linearised_loss(
    kernel: Any, z: Tensor, y: Tensor, w: Tensor | None, slopes: Any, again: Any
) -> Tensor | None:
    """``1 - metric`` with ``slopes(tp, predicted, support)``; nothing if there are none."""
    with full_precision(z):
        (tp, predicted, support, _), left = kernel.count(z.detach(), y, w, z.requires_grad)
        known = slopes(tp, predicted, support)
        if known is None:
            return None
        return _Linearised.apply(z, y, w, kernel, left, known, again)  # type: ignore[no-untyped-call]


def room_for_gradient(z: Tensor, left: Tensor | None) -> Tensor:
    """Where the gradient of ``z`` goes: what was left for it, if that has its kind and shape."""
    if left is not None and left.dtype == z.dtype and left.shape == z.shape:
        return left
    return torch.empty_like(z, memory_format=torch.contiguous_format)


def affine(x: Tensor, scale: Any, shift: Any, out: Tensor | None = None) -> Tensor:
    """``scale x + shift``; in one pass where the two are numbers."""
    if isinstance(scale, float):
        if not isinstance(shift, Tensor):
            shift = torch.scalar_tensor(shift, dtype=x.dtype)
        return torch.add(shift, x, alpha=scale, out=out)
    return torch.mul(x, scale, out=out).add_(shift)


def axpy(x: Tensor, y: Tensor, c: Any) -> Tensor:
    """``x + c y``, in place."""
    return x.addcmul_(y, c) if isinstance(c, Tensor) else x.add_(y, alpha=c)


def store(out: Tensor, g: Tensor) -> None:
    """Write a gradient; what half precision cannot hold becomes its largest number."""
    if out.dtype != g.dtype:
        limit = torch.finfo(out.dtype).max
        g = g.clamp(-limit, limit)
    out.copy_(g)


def vjp(outputs: tuple[Tensor, ...], leaf: Tensor, adjoint: tuple[Tensor, ...]) -> Tensor:
    """The gradient of a chunk by autograd; zero where nothing depends on it."""
    live = [(o, a) for o, a in zip(outputs, adjoint, strict=True) if o.requires_grad]
    if not live:
        return torch.zeros_like(leaf)
    (grad,) = torch.autograd.grad([o for o, _ in live], leaf, [a for _, a in live])
    return grad


# --- checks of values: on what was reduced anyway; the row is searched for only on failure ------


def check_labels(y: Tensor) -> None:
    """Refuse labels other than 0 and 1."""
    if y.dtype != torch.bool and float(off_labels(y.to(torch.float32))) != 0:
        wrong = y[(y != 0) & (y != 1)].flatten()[0].item()
        hint = " Map -1 to 0: target = (target > 0)." if wrong == -1 else ""
        raise ValueError(f"target must hold 0 and 1 only, got {wrong:g}.{hint}")


def off_labels(y: Tensor, out: Tensor | None = None) -> Tensor:
    """Zero exactly when every label is 0 or 1."""
    d = torch.addcmul(y, y, y, value=-1, out=out)
    d = d if d.dim() == 1 else d.flatten()
    return torch.dot(d, d)


def check_binary(z: Tensor, y: Tensor, bad: Any, sums: Tensor) -> None:
    """Refuse stray labels (``bad`` of ``off_labels`` is not 0) and NaN scores."""
    one = sums.sum() if sums.dim() else sums
    if (bad is None or float(bad) == 0) and math.isfinite(float(one)):
        return
    check_labels(y)
    refuse_rows(torch.isnan(z))


def check_classes(y: Tensor, classes: int) -> None:
    """Refuse class numbers that have no column in the scores."""
    low, high = (int(v) for v in torch.aminmax(y))
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise ValueError(
            f"target must hold classes 0 to {classes - 1} (scores have {classes} columns), got "
            f"{wrong}. Set ignore_index={wrong} if it marks rows to leave out."
        )


def check_rows(z: Tensor, predicted: Tensor) -> None:
    """Refuse NaN scores of several classes."""
    if not math.isfinite(predicted.sum().item()):
        best = z.amax(-1)
        refuse_rows(torch.isnan(z).any(-1) | ~torch.isfinite(best))


def refuse_rows(bad: Tensor) -> None:
    """Name the first row marked as bad."""
    if not bad.any():
        raise ValueError("step must return finite degrees that are not all zero in a row.")
    row = int(bad.nonzero()[0, -1])
    raise ValueError(
        f"scores must not be NaN: the first bad row is {row}. Check the model's output."
    )
