"""Several classes, in Triton. docs/kernels.md derives what is computed here; names are the same."""

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
def labels_of(
    target, weight, class_weight, batch, n, positions, middle, inner, classes,
    y_batch, y_outer, y_middle, y_inner, w_batch, w_outer, w_middle, w_inner, ignored,
    DIMS: tl.constexpr, IGNORES: tl.constexpr, WEIGHTED: tl.constexpr,
    CLASSES_WEIGHTED: tl.constexpr, WORK: tl.constexpr,
):  # fmt: skip
    """Class, weight and whether it is left out, of each row."""
    there = n < positions
    at = place(n, middle, inner, y_outer, y_middle, y_inner, DIMS)
    given = tl.load(target + batch * y_batch + at, mask=there, other=0).to(tl.int64)
    left_out = there == 0
    if IGNORES:
        left_out = left_out | (given == ignored)
    given = tl.where(left_out, 0, given)
    bad = (given < 0) | (given >= classes)
    own = tl.where(bad, 0, given).to(tl.int32)
    at = batch * w_batch + place(n, middle, inner, w_outer, w_middle, w_inner, DIMS)
    w = weighted(weight, at, class_weight, own, there, left_out, bad, WEIGHTED, CLASSES_WEIGHTED,
                 WORK)  # fmt: skip
    return own, w, left_out


@triton.jit
def tile(scores, at, col, classes, z_class, left_out, WORK: tl.constexpr):
    """Scores of rows and classes, those of no class -inf; and whether one of a row is NaN."""
    there = (left_out == 0)[:, None] & (col < classes)[None, :]
    z = tl.load(scores + at[:, None] + col[None, :].to(tl.int64) * z_class, mask=there, other=0.0)
    z = tl.where(left_out[:, None], 0.0, z.to(WORK))
    missing = tl.max(tl.where(z == z, 0, 1), axis=1)
    z = tl.where(z == z, z, 0.0)
    return tl.where((col < classes)[None, :], z, float("-inf")), missing


@triton.jit
def two_largest(z, start):
    """Of a tile, with their classes: the first of equal ones."""
    top, first = tl.max(z, axis=1, return_indices=True)
    others = tl.where(tl.arange(0, z.shape[1])[None, :] == first[:, None], float("-inf"), z)
    second, next_to_it = tl.max(others, axis=1, return_indices=True)
    return top, second, start + first, start + next_to_it


@triton.jit
def merged(top, second, first, next_to_it, t, s, i, j):
    """The two largest of all classes so far, and of the tile that follows."""
    higher = t > top
    new_second = tl.where(higher, tl.maximum(top, s), tl.maximum(second, t))
    new_next = tl.where(
        higher, tl.where(top >= s, first, j), tl.where(second >= t, next_to_it, i)
    )  # fmt: skip
    return tl.where(higher, t, top), new_second, tl.where(higher, i, first), new_next


@triton.jit
def corners(delta, width, WORK: tl.constexpr):
    """The numbers of a linear step: ``a``, ``b``, ``alpha`` and ``beta``."""
    delta, width = tl.full([], delta, tl.float64), tl.full([], width, tl.float64)
    a = 1.0 - 0.5 * width
    reach, alpha, beta = 1.0 + 0.5 * width, delta / a, (1.0 - 2.0 * delta) / width
    return a.to(WORK), reach.to(WORK), alpha.to(WORK), beta.to(WORK)


@triton.jit
def both_largest(
    scores, at, end, classes, z_class, left_out,
    ROWS: tl.constexpr, COLS: tl.constexpr, WORK: tl.constexpr,
):  # fmt: skip
    """The two largest of each row, with their classes; 0 of rows that are bad: with a NaN, or an
    infinite one that is the largest."""
    top = tl.full([ROWS], float("-inf"), WORK)
    second = tl.full([ROWS], float("-inf"), WORK)
    first = tl.zeros([ROWS], tl.int32)
    follows = tl.zeros([ROWS], tl.int32)
    missing = tl.zeros([ROWS], tl.int32)
    for start in range(0, end, COLS):
        col = start + tl.arange(0, COLS)
        z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
        missing = tl.maximum(missing, without)
        t, s, i, j = two_largest(z, start)
        top, second, first, follows = merged(top, second, first, follows, t, s, i, j)
    bad = (missing > 0) | (tl.abs(top) == float("inf"))
    return tl.where(bad, 0.0, top), tl.where(bad, 0.0, second), first, follows, bad


@triton.jit
def exponential_of(z, top, WIDE: tl.constexpr):
    """``exp(z - top)`` and one less, of all digits that the difference of floats has lost."""
    c = tl.minimum(tl.maximum(z, top - 800.0 if WIDE else top - 100.0), top)
    x = c - top
    moved = x - c
    return exponential(x, (c - (x - moved)) - (top + moved), WIDE)


@triton.jit
def second_of(top, second, WIDE: tl.constexpr):
    """Of the second largest, ``e - 1``; ``t``, the mean of the two; and its ``e``."""
    e, less = exponential_of(second, top, WIDE)
    return less, 0.5 * (1.0 + e), e


@triton.jit
def less_top(of_positive, of_negative, batch, col, classes, own, l_top, WORK: tl.constexpr):
    """The derivatives by the degrees of each row, less that of its largest."""
    positive, negative = derivatives(of_positive, of_negative, batch, col, classes, WORK)
    mine = col[None, :] == own[:, None]
    return tl.where(mine, positive[None, :], negative[None, :]) - l_top[:, None]


@triton.jit
def powers(z, top, col, first, WIDE: tl.constexpr):
    """``e = exp(z - max z)`` and ``e - 1``; 0 of the largest, which is counted on its own."""
    e, less = exponential_of(z, top[:, None], WIDE)
    return tl.where(col[None, :] == first[:, None], 0.0, e), less


@triton.jit
def linear_degrees(e, less, less_second, t, a, alpha, beta):
    """H of all but the largest, ``s = u dH/du``, and whether it is on the middle piece, where
    ``s - H`` is beta - 1/2; below, it is 0."""
    u = e / t[:, None]
    middle = 0.5 + beta * ((less - 0.5 * less_second[:, None]) / t[:, None])
    lower = u < a
    return tl.where(lower, alpha * u, middle), tl.where(lower, alpha, beta) * u, lower == 0


@triton.jit
def linear_top(less_second, t, rest, delta, reach, beta):
    """H and s of the largest; past its upper corner, how far."""
    past = 1.0 - reach * t
    beyond = 1.0 - delta * rest / (rest + tl.maximum(past, 0.0) + 1e-30)
    within = 0.5 - beta * 0.5 * less_second / t
    return tl.where(past > 0.0, beyond, within), tl.where(past > 0.0, 0.0, beta / t), past


@triton.jit
def logistic(x, k, WIDE: tl.constexpr):
    """``H = 1 / (1 + exp(-k x))`` and its slope."""
    size = k * tl.abs(x)
    e, e_less = exponential(-size, 0.0 * size, WIDE)
    d = 1.0 / (1.0 + e)
    return tl.where(x < 0.0, e * d, d), k * e * d * d


@triton.jit
def sigmoid_degrees(less, less_second, per_sum, k, is_class, WIDE: tl.constexpr):
    """H of all classes and its slope."""
    h, s = logistic((less - 0.5 * less_second[:, None]) * per_sum[:, None], k, WIDE)
    return tl.where(is_class[None, :], h, 0.0), tl.where(is_class[None, :], s, 0.0)


@triton.jit
def add(at, cells, mask):
    """To what is in memory."""
    tl.store(at, tl.load(at, mask=mask, other=0.0) + cells, mask=mask)


@triton.jit
def cells_of(h, others, h_top, w, own, col, first):
    """What the rows of a tile add to the four cells of its classes. Only the largest degree can be
    next to 1, and for it one minus it is what the others have."""
    is_top, mine = col[None, :] == first[:, None], col[None, :] == own[:, None]
    scale = w / (others + h_top)
    g = tl.where(is_top, h_top[:, None], h) * scale[:, None]
    rest = tl.where(is_top, (others * scale)[:, None], w[:, None] - g)
    tp = tl.sum(tl.where(mine, g, 0.0), axis=0).to(tl.float64)
    fp = tl.sum(tl.where(mine, 0.0, g), axis=0).to(tl.float64)
    fn = tl.sum(tl.where(mine, rest, 0.0), axis=0).to(tl.float64)
    tn = tl.sum(tl.where(mine, 0.0, rest), axis=0).to(tl.float64)
    return tp, fp, fn, tn


@triton.jit
def multiclass_count(
    scores, target, weight, class_weight, out, positions, middle, inner, classes, batches, blocks,
    z_batch, z_outer, z_middle, z_inner, z_class,
    y_batch, y_outer, y_middle, y_inner,
    w_batch, w_outer, w_middle, w_inner,
    ignored, delta: tl.float64, width: tl.float64,
    STEP: tl.constexpr, DIMS: tl.constexpr, IGNORES: tl.constexpr, WEIGHTED: tl.constexpr,
    CLASSES_WEIGHTED: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    ONE: tl.constexpr,
):  # fmt: skip
    """``out[program, batch, cell, class]``: what the blocks of a program add to the cells. ``ONE``:
    a tile holds all classes. Of the sigmoid step, ``delta`` is k."""
    WORK: tl.constexpr = tl.float64 if WIDE else tl.float32
    program, batch = tl.program_id(0), tl.program_id(2).to(tl.int64)
    a, reach, alpha, beta = corners(delta, width, WORK)
    sharp = tl.full([], delta, WORK)
    end = COLS if ONE else classes
    at_out = out + (program * batches + batch) * 4 * classes
    tp = tl.zeros([COLS], tl.float64)
    fp = tl.zeros([COLS], tl.float64)
    fn = tl.zeros([COLS], tl.float64)
    tn = tl.zeros([COLS], tl.float64)
    for block in range(program, blocks, tl.num_programs(0)):
        n = block * ROWS + tl.arange(0, ROWS)
        own, w, left_out = labels_of(
            target, weight, class_weight, batch, n, positions, middle, inner, classes,
            y_batch, y_outer, y_middle, y_inner, w_batch, w_outer, w_middle, w_inner, ignored,
            DIMS, IGNORES, WEIGHTED, CLASSES_WEIGHTED, WORK,
        )  # fmt: skip
        at = batch * z_batch + place(n, middle, inner, z_outer, z_middle, z_inner, DIMS)
        top, second, first, follows, bad = both_largest(
            scores, at, end, classes, z_class, left_out, ROWS, COLS, WORK
        )
        w = tl.where(bad, float("nan"), w)
        less_second, t, e_second = second_of(top, second, WIDE)
        rest = tl.zeros([ROWS], WORK)
        others = tl.zeros([ROWS], WORK)
        for start in range(0, end, COLS):
            col = start + tl.arange(0, COLS)
            z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
            e, less = powers(z, top, col, first, WIDE)
            rest += tl.sum(e, axis=1)
            if STEP == LINEAR:
                h, s, within = linear_degrees(e, less, less_second, t, a, alpha, beta)
                others += tl.sum(h, axis=1)
        h_top = tl.full([ROWS], 1.0, WORK)
        if STEP == LINEAR:
            h_top, s_top, past = linear_top(less_second, t, rest, sharp, reach, beta)
        elif STEP == SIGMOID:
            h_top = tl.zeros([ROWS], WORK)
            for start in range(0, end, COLS):
                col = start + tl.arange(0, COLS)
                z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
                e, less = powers(z, top, col, first, WIDE)
                h, s = sigmoid_degrees(
                    less, less_second, 1.0 / (1.0 + rest), sharp, col < classes, WIDE
                )
                is_top = col[None, :] == first[:, None]
                others += tl.sum(tl.where(is_top, 0.0, h), axis=1)
                h_top += tl.sum(tl.where(is_top, h, 0.0), axis=1)
        else:
            others = rest
        for start in range(0, end, COLS):
            col = start + tl.arange(0, COLS)
            z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
            e, less = powers(z, top, col, first, WIDE)
            h = e
            if STEP == LINEAR:
                h, s, within = linear_degrees(e, less, less_second, t, a, alpha, beta)
            elif STEP == SIGMOID:
                h, s = sigmoid_degrees(
                    less, less_second, 1.0 / (1.0 + rest), sharp, col < classes, WIDE
                )
            tp_, fp_, fn_, tn_ = cells_of(h, others, h_top, w, own, col, first)
            if ONE:
                tp += tp_
                fp += fp_
                fn += fn_
                tn += tn_
            else:
                mask = col < classes
                add(at_out + col, tp_, mask)
                add(at_out + classes + col, fp_, mask)
                add(at_out + 2 * classes + col, fn_, mask)
                add(at_out + 3 * classes + col, tn_, mask)
        if not ONE:
            tl.debug_barrier()  # what was added is read again by other threads
    if ONE:
        col = tl.arange(0, COLS)
        mask = col < classes
        tl.store(at_out + col, tp, mask=mask)
        tl.store(at_out + classes + col, fp, mask=mask)
        tl.store(at_out + 2 * classes + col, fn, mask=mask)
        tl.store(at_out + 3 * classes + col, tn, mask=mask)


@triton.jit
def multiclass_gradient(
    scores, target, weight, class_weight, of_positive, of_negative, out, positions, middle, inner,
    classes,
    z_batch, z_outer, z_middle, z_inner, z_class,
    y_batch, y_outer, y_middle, y_inner,
    w_batch, w_outer, w_middle, w_inner,
    g_batch, g_outer, g_middle, g_inner, g_class,
    ignored, delta: tl.float64, width: tl.float64, limit: tl.float64,
    STEP: tl.constexpr, DIMS: tl.constexpr, IGNORES: tl.constexpr, WEIGHTED: tl.constexpr,
    CLASSES_WEIGHTED: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    ONE: tl.constexpr,
):  # fmt: skip
    """The gradient, from the derivatives by the degrees of positives and of negatives,
    ``[batch, class]``.

    A number that is added to the derivatives of all classes of a row changes nothing, so that they
    are taken less that of the largest: no digit is lost where its degree is next to 1.
    """
    WORK: tl.constexpr = tl.float64 if WIDE else tl.float32
    batch = tl.program_id(2).to(tl.int64)
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    a, reach, alpha, beta = corners(delta, width, WORK)
    sharp = tl.full([], delta, WORK)
    end = COLS if ONE else classes
    own, w, left_out = labels_of(
        target, weight, class_weight, batch, n, positions, middle, inner, classes,
        y_batch, y_outer, y_middle, y_inner, w_batch, w_outer, w_middle, w_inner, ignored,
        DIMS, IGNORES, WEIGHTED, CLASSES_WEIGHTED, WORK,
    )  # fmt: skip
    at = batch * z_batch + place(n, middle, inner, z_outer, z_middle, z_inner, DIMS)
    top, second, first, follows, bad = both_largest(
        scores, at, end, classes, z_class, left_out, ROWS, COLS, WORK
    )
    w = tl.where(bad, float("nan"), w)
    less_second, t, e_second = second_of(top, second, WIDE)
    positive, negative = derivatives(of_positive, of_negative, batch, first, classes, WORK)
    l_top = tl.where(own == first, positive, negative)
    # Sums over classes: of e, of H, of H times the derivative. The sum of (r - m) s is that of
    # (r - m) (s - H), as that of (r - m) H is 0: of the linear step, of the middle piece only.
    rest = tl.zeros([ROWS], WORK)
    sum_h = tl.zeros([ROWS], WORK)
    l_h = tl.zeros([ROWS], WORK)
    count = tl.zeros([ROWS], WORK)
    drift = tl.zeros([ROWS], WORK)
    pull = tl.zeros([ROWS], WORK)
    s_top = tl.zeros([ROWS], WORK)
    for start in range(0, end, COLS):
        col = start + tl.arange(0, COLS)
        z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
        e, less = powers(z, top, col, first, WIDE)
        rest += tl.sum(e, axis=1)
        by = less_top(of_positive, of_negative, batch, col, classes, own, l_top, WORK)
        if STEP == LINEAR:
            h, s, within = linear_degrees(e, less, less_second, t, a, alpha, beta)
            sum_h += tl.sum(h, axis=1)
            l_h += tl.sum(by * h, axis=1)
            count += tl.sum(tl.where(within, 1.0, 0.0), axis=1).to(WORK)
            drift += tl.sum(tl.where(within, by, 0.0), axis=1)
        elif STEP != SIGMOID:
            l_h += tl.sum(by * e, axis=1)
    per_sum = 1.0 / (1.0 + rest)
    mean = l_h * per_sum
    if STEP == SIGMOID:
        for start in range(0, end, COLS):
            col = start + tl.arange(0, COLS)
            z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
            e, less = powers(z, top, col, first, WIDE)
            by = less_top(of_positive, of_negative, batch, col, classes, own, l_top, WORK)
            h, s = sigmoid_degrees(less, less_second, per_sum, sharp, col < classes, WIDE)
            sum_h += tl.sum(h, axis=1)
            l_h += tl.sum(by * h, axis=1)
        mean = l_h / sum_h
        # As the sum of (r - m) H is 0, s = k H (1 - H) is taken less k H (1 - H_0), with H_0 the
        # degree of a probability of 0: nothing is left of the many classes that have about that.
        h_least, s_least = logistic((-1.0 - 0.5 * less_second) * per_sum, sharp, WIDE)
        for start in range(0, end, COLS):
            col = start + tl.arange(0, COLS)
            z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
            e, less = powers(z, top, col, first, WIDE)
            by = less_top(of_positive, of_negative, batch, col, classes, own, l_top, WORK)
            h, s = sigmoid_degrees(less, less_second, per_sum, sharp, col < classes, WIDE)
            drift += tl.sum((by - mean[:, None]) * h * (h_least[:, None] - h), axis=1)
            pull += tl.sum((by - mean[:, None]) * s * e, axis=1)
            s_top += tl.sum(tl.where(col[None, :] == first[:, None], s, 0.0), axis=1)
    # Of each row: what moves with all classes, with the largest and with the second.
    if STEP == LINEAR:
        h_top, s_top, past = linear_top(less_second, t, rest, sharp, reach, beta)
        whole = sum_h + h_top
        scale, mean = w / whole, l_h / whole
        q = -mean * scale
        drift = ((beta - 0.5) * (drift - mean * count) - mean * (s_top - h_top)) * scale
        past = tl.maximum(past, 0.0)
        d = rest + past + 1e-30
        steep = tl.where(past > 0.0, q * (sharp / d) / d, 0.0)
        shift = -0.5 * (drift / t + steep * rest * reach)
        at_top, pull = q * s_top + steep * rest + shift, steep * past
        at_second = shift * e_second
    elif STEP == SIGMOID:
        scale = w / sum_h
        moved = -0.5 * sharp * drift * scale * per_sum  # with the mean of the two largest
        at_second = moved * e_second
        of_top, others = -mean * s_top * scale, pull * scale * per_sum
        # One minus the largest probability is the sum of the others: no difference next to 1.
        at_top = per_sum * (rest * (moved + of_top * per_sum) - at_second - others)
        pull = others + of_top * per_sum + moved + at_second
    else:
        scale = w * per_sum
        at_top, at_second = -mean * scale, tl.zeros([ROWS], WORK)
    at_out = batch * g_batch + place(n, middle, inner, g_outer, g_middle, g_inner, DIMS)
    for start in range(0, end, COLS):
        col = start + tl.arange(0, COLS)
        z, without = tile(scores, at, col, classes, z_class, left_out, WORK)
        e, less = powers(z, top, col, first, WIDE)
        by = less_top(of_positive, of_negative, batch, col, classes, own, l_top, WORK)
        is_top = col[None, :] == first[:, None]
        if STEP == LINEAR:
            h, s, within = linear_degrees(e, less, less_second, t, a, alpha, beta)
            g = (by - mean[:, None]) * s * scale[:, None] - pull[:, None] * e
        elif STEP == SIGMOID:
            h, s = sigmoid_degrees(less, less_second, per_sum, sharp, col < classes, WIDE)
            g = e * per_sum[:, None] * ((by - mean[:, None]) * s * scale[:, None] - pull[:, None])
        else:
            g = (by - mean[:, None]) * e * scale[:, None]
        g += tl.where(is_top, at_top[:, None], 0.0)
        g += tl.where(col[None, :] == follows[:, None], at_second[:, None], 0.0)
        there = (n < positions)[:, None] & (col < classes)[None, :]
        store(out + at_out[:, None] + col[None, :].to(tl.int64) * g_class, g, there, limit)
