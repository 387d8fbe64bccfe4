"""The kernels themselves, as Triton compiles them. docs/kernels.md derives what is computed; names
are the same.

A program takes a tile of positions (rows, pixels) by classes from wherever the scores lie. Degrees
are computed in float32, or in float64 for float64 scores and steep steps (``WIDE``); what tiles add
to the cells is summed in float64, in an array of the program's own, and the arrays are added up in
one order: no atomics, and the same numbers every time. Bad input (scores that are NaN, labels that
are no class, weights that are negative) makes the cells NaN.
"""

import triton
import triton.language as tl

LINEAR = tl.constexpr(0)
SIGMOID = tl.constexpr(1)


@triton.jit
def place(n, middle, inner, s_outer, s_middle, s_inner, DIMS: tl.constexpr):
    """Where positions lie in memory, from their numbers."""
    if DIMS == 1:
        return n.to(tl.int64) * s_inner
    i, rest = n % inner, n // inner
    if DIMS == 2:
        return rest.to(tl.int64) * s_middle + i.to(tl.int64) * s_inner
    m, o = rest % middle, rest // middle
    return o.to(tl.int64) * s_outer + m.to(tl.int64) * s_middle + i.to(tl.int64) * s_inner


@triton.jit
def exponential(x, low, WIDE: tl.constexpr):
    """``exp(x + low)`` and ``exp(x + low) - 1`` for ``x <= 0`` and a tiny ``low``, both with all
    their digits; 0 from 1e-38 down.

    With n the nearest integer to x / ln 2: 2^n times a polynomial in the remainder. The
    function of the GPU loses digits of a large x.
    """
    if WIDE:
        e = tl.where(x >= -708.0, tl.exp(x), 0.0)
        return e, tl.where(x > -1e-5, x + x * x * 0.5, e - 1.0)
    c = tl.maximum(x, -87.0)
    n = tl.floor(c * 1.4426950408889634 + 0.5)
    f = c - n * 0.693359375
    f = f - n * -2.12194440e-4 + low
    y = f * 1.9875691500e-4 + 1.3981999507e-3
    y = y * f + 8.3334519073e-3
    y = y * f + 4.1665795894e-2
    y = y * f + 1.6666665459e-1
    y = y * f + 5.0000001201e-1
    less = y * f * f + f
    two = ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)
    e = tl.where(x >= -87.0, less * two + two, 0.0)
    return e, tl.where(n == 0, less, e - 1.0)


@triton.jit
def weighted(
    weight, offsets, class_weight, index, there, ignored, bad,
    WEIGHTED: tl.constexpr, CLASSES_WEIGHTED: tl.constexpr, WORK: tl.constexpr,
):  # fmt: skip
    """The weights of positions: 0 of those that are ignored, NaN of bad ones."""
    w = tl.where(there, 1.0, 0.0).to(WORK)
    if WEIGHTED:
        w = tl.load(weight + offsets, mask=there, other=0.0).to(WORK)
    if CLASSES_WEIGHTED:
        w = w * tl.load(class_weight + index, mask=there, other=0.0).to(WORK)
    # Not so if it is NaN; next to weights of about 1, those below 1e-30 are nothing.
    fine = (w >= 0.0) & (w < float("inf"))
    w = tl.where(w < 1e-30, 0.0, w)
    w = tl.where(fine & (bad == 0), w, float("nan"))
    return tl.where(ignored | (there == 0), 0.0, w)


@triton.jit
def derivatives(positive, negative, batch, label, classes, WORK: tl.constexpr):
    """By the degrees of a positive and of a negative, ``[batch, classes]``."""
    at, mask = batch * classes + label, label < classes
    of_positive = tl.load(positive + at, mask=mask, other=0.0)
    return of_positive.to(WORK), tl.load(negative + at, mask=mask, other=0.0).to(WORK)


@triton.jit
def store(at, g, there, limit):
    """A gradient; what half precision cannot hold becomes its largest number, NaN stays."""
    limit = tl.full([], limit, g.dtype)
    g = tl.where(g > limit, limit, tl.where(g < -limit, -limit, g))
    tl.store(at, g.to(at.dtype.element_ty), mask=there)


@triton.jit
def multiplied(x, y):
    """For ``tl.reduce``."""
    return x * y
