"""One class, or labels of which each is a problem of its own, in Triton."""

import triton
import triton.language as tl

from softset.counting.kernels.triton.language import (
    LINEAR,
    SIGMOID,
    derivatives,
    exponential,
    place,
    store,
    weighted,
)


@triton.jit
def column(
    scores, target, weight, class_weight, batch, n, label, positions, middle, inner, classes,
    z_batch, z_outer, z_middle, z_inner, z_class,
    y_batch, y_outer, y_middle, y_inner, y_class,
    w_batch, w_outer, w_middle, w_inner, w_class,
    ignored,
    DIMS: tl.constexpr, SOFT: tl.constexpr, IGNORES: tl.constexpr, WEIGHTED: tl.constexpr,
    CLASSES_WEIGHTED: tl.constexpr, LOGITS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A tile ``[positions, labels]``: ``p``, ``q = 1 - p``, labels, weights, and which are read."""
    WORK: tl.constexpr = tl.float64 if WIDE else tl.float32
    there = (n < positions)[:, None] & (label < classes)[None, :]
    at = place(n, middle, inner, z_outer, z_middle, z_inner, DIMS)[:, None]
    z = tl.load(scores + batch * z_batch + at + label[None, :] * z_class, mask=there, other=0.0)
    z = z.to(WORK)
    at = place(n, middle, inner, y_outer, y_middle, y_inner, DIMS)[:, None]
    given = tl.load(target + batch * y_batch + at + label[None, :] * y_class, mask=there, other=0)
    left_out = there == 0
    if IGNORES:
        if given.dtype.is_floating():
            left_out = left_out | (given == tl.full([], ignored, tl.float32))
        else:
            left_out = left_out | (given.to(tl.int64) == tl.full([], ignored, tl.int64))
    y = tl.where(left_out, 0.0, given.to(WORK))
    z = tl.where(left_out, 0.0, z)
    if SOFT:
        fine = (y >= 0.0) & (y <= 1.0)
    else:
        fine = (y == 0.0) | (y == 1.0)
    fine = fine & (z == z)
    if LOGITS:
        size = tl.minimum(tl.abs(tl.where(z == z, z, 0.0)), 1e4)
        e, less = exponential(-size, 0.0 * size, WIDE)
        d = 1.0 / (1.0 + e)
        p, q = tl.where(z < 0, e * d, d), tl.where(z < 0, d, e * d)
    else:
        fine = fine & (z >= 0.0) & (z <= 1.0)
        p, q = z, 1.0 - z
    at = place(n, middle, inner, w_outer, w_middle, w_inner, DIMS)[:, None]
    at = batch * w_batch + at + label[None, :] * w_class
    index = tl.where(y > 0.0, 1, 0) if CLASSES_WEIGHTED == 2 else tl.where(there, label[None, :], 0)
    w = weighted(weight, at, class_weight, index, there, left_out, fine == 0,
                 WEIGHTED, CLASSES_WEIGHTED > 0, WORK)  # fmt: skip
    return p, q, y, w, there


@triton.jit
def above(p, q, tau, LOW: tl.constexpr):
    """``p - tau``, of the two that are smaller; ``LOW``: tau is at most 1/2."""
    if LOW:
        return p - tau
    return (1.0 - tau) - q


@triton.jit
def binary_count(
    scores, target, weight, class_weight, out, positions, middle, inner, classes, batches, blocks,
    z_batch, z_outer, z_middle, z_inner, z_class,
    y_batch, y_outer, y_middle, y_inner, y_class,
    w_batch, w_outer, w_middle, w_inner, w_class,
    ignored, a: tl.float64, m1: tl.float64, m2: tl.float64, m3: tl.float64,
    beyond: tl.float64, tau: tl.float64, b: tl.float64,
    STEP: tl.constexpr, LOW: tl.constexpr, DIMS: tl.constexpr, SOFT: tl.constexpr,
    IGNORES: tl.constexpr, WEIGHTED: tl.constexpr, CLASSES_WEIGHTED: tl.constexpr,
    LOGITS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """``out[program, batch, cell, label]``: what the blocks of a program add to the cells."""
    WORK: tl.constexpr = tl.float64 if WIDE else tl.float32
    a, m1, m2, m3 = (tl.full([], a, WORK), tl.full([], m1, WORK), tl.full([], m2, WORK),
                     tl.full([], m3, WORK))  # fmt: skip
    beyond, tau, b = tl.full([], beyond, WORK), tl.full([], tau, WORK), tl.full([], b, WORK)
    program, batch = tl.program_id(0), tl.program_id(2).to(tl.int64)
    label = tl.program_id(1) * COLS + tl.arange(0, COLS)
    tp = tl.zeros([COLS], tl.float64)
    fp = tl.zeros([COLS], tl.float64)
    fn = tl.zeros([COLS], tl.float64)
    tn = tl.zeros([COLS], tl.float64)
    for block in range(program, blocks, tl.num_programs(0)):
        n = block * ROWS + tl.arange(0, ROWS)
        p, q, y, w, there = column(
            scores, target, weight, class_weight, batch, n, label, positions, middle, inner,
            classes, z_batch, z_outer, z_middle, z_inner, z_class, y_batch, y_outer, y_middle,
            y_inner, y_class, w_batch, w_outer, w_middle, w_inner, w_class, ignored,
            DIMS, SOFT, IGNORES, WEIGHTED, CLASSES_WEIGHTED, LOGITS, WIDE,
        )  # fmt: skip
        # The smaller of H and 1 - H has the digits; the other is one minus it.
        if STEP == LINEAR:
            over = above(p, q, tau, LOW)
            small = 0.5 - tl.abs(m2 * over)
            past = p > b if LOW else q < beyond
            small = tl.where(past, m3 * q, small)
            small = tl.where(p < a, m1 * p, small)
            upper = over > 0.0
        elif STEP == SIGMOID:
            x = a * above(p, q, tau, LOW)
            size = tl.abs(x)
            e, less = exponential(-size, 0.0 * size, WIDE)
            small, upper = e / (1.0 + e), x > 0.0
        else:
            small, upper = tl.minimum(p, q), p > q
        h, rest = tl.where(upper, 1.0 - small, small), tl.where(upper, small, 1.0 - small)
        wy = w * y
        wn = w - wy
        tp += tl.sum(wy * h, axis=0).to(tl.float64)
        fp += tl.sum(wn * h, axis=0).to(tl.float64)
        fn += tl.sum(wy * rest, axis=0).to(tl.float64)
        tn += tl.sum(wn * rest, axis=0).to(tl.float64)
    at = out + (program * batches + batch) * 4 * classes + label
    mask = label < classes
    tl.store(at, tp, mask=mask)
    tl.store(at + classes, fp, mask=mask)
    tl.store(at + 2 * classes, fn, mask=mask)
    tl.store(at + 3 * classes, tn, mask=mask)


@triton.jit
def binary_gradient(
    scores, target, weight, class_weight, of_positive, of_negative, out, positions, middle, inner,
    classes,
    z_batch, z_outer, z_middle, z_inner, z_class,
    y_batch, y_outer, y_middle, y_inner, y_class,
    w_batch, w_outer, w_middle, w_inner, w_class,
    g_batch, g_outer, g_middle, g_inner, g_class,
    ignored, a: tl.float64, m1: tl.float64, m2: tl.float64, m3: tl.float64,
    beyond: tl.float64, tau: tl.float64, b: tl.float64, limit: tl.float64,
    STEP: tl.constexpr, LOW: tl.constexpr, DIMS: tl.constexpr, SOFT: tl.constexpr,
    IGNORES: tl.constexpr, WEIGHTED: tl.constexpr, CLASSES_WEIGHTED: tl.constexpr,
    LOGITS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """``w L' H' p (1 - p)``, with the derivatives L' by the degrees of positives and negatives,
    ``[batch, label]``."""
    WORK: tl.constexpr = tl.float64 if WIDE else tl.float32
    a, m1, m2, m3 = (tl.full([], a, WORK), tl.full([], m1, WORK), tl.full([], m2, WORK),
                     tl.full([], m3, WORK))  # fmt: skip
    beyond, tau, b = tl.full([], beyond, WORK), tl.full([], tau, WORK), tl.full([], b, WORK)
    batch = tl.program_id(2).to(tl.int64)
    label = tl.program_id(1) * COLS + tl.arange(0, COLS)
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    p, q, y, w, there = column(
        scores, target, weight, class_weight, batch, n, label, positions, middle, inner, classes,
        z_batch, z_outer, z_middle, z_inner, z_class, y_batch, y_outer, y_middle, y_inner, y_class,
        w_batch, w_outer, w_middle, w_inner, w_class, ignored,
        DIMS, SOFT, IGNORES, WEIGHTED, CLASSES_WEIGHTED, LOGITS, WIDE,
    )  # fmt: skip
    positive, negative = derivatives(of_positive, of_negative, batch, label, classes, WORK)
    by = y * positive[None, :] + (1.0 - y) * negative[None, :]
    if STEP == LINEAR:
        past = p > b if LOW else q < beyond
        slope = tl.where(p < a, m1, tl.where(past, m3, m2)).to(WORK)
    elif STEP == SIGMOID:
        size = tl.abs(a * above(p, q, tau, LOW))
        e, less = exponential(-size, 0.0 * size, WIDE)
        d = 1.0 / (1.0 + e)
        slope = a * e * d * d
    else:
        slope = 1.0
    g = w * by * slope
    if LOGITS:
        g = g * p * q
    at = place(n, middle, inner, g_outer, g_middle, g_inner, DIMS)[:, None]
    store(out + batch * g_batch + at + label[None, :] * g_class, g, there, limit)
