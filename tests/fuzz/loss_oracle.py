"""The metric of one problem, soft or hard, written a second time in plain numpy and float64.

It shares no line with the library: each of the four cells is summed on its own, nothing is
subtracted, several classes are a matrix. Every formula is analytic, and takes complex scores: the
derivative of ``loss`` in direction ``v`` is ``loss(z + i h v).imag / h``, exact to rounding.

Targets, soft or hard, and all weights are *masses*: of two classes, or of each label, the weight
of a row as a positive and as a negative, ``(yes, no)``; of several classes that of each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

NEEDS_NEGATIVES = {
    "specificity", "gmean", "mcc", "cohen_kappa", "linear_kappa", "quadratic_kappa",
    "informedness", "markedness", "auroc", "partial_auroc",
}  # fmt: skip
KAPPAS = {"cohen_kappa": 0, "linear_kappa": 1, "quadratic_kappa": 2}  # power of the distance
JOINT = {"accuracy", "balanced_accuracy", "gmean", "mcc", *KAPPAS}
CURVES = {"auroc", "partial_auroc", "average_precision"}


@dataclass(frozen=True)
class Setting:
    """What is asked for; ``step`` is a name and its numbers. ``empty=None`` is evaluation."""

    task: str
    metric: str
    average: str | None = "macro"
    both: bool = False
    beta: Any = 1.0  # a number, or one for each class
    step: tuple[Any, ...] = ("linear", 0.1, 1.0)
    thresholds: tuple[Any, ...] = (0.5,)  # each a number, or one for each label
    grid: bool = False
    empty: str | None = "penalize"
    from_logits: bool = True
    k: int | None = None  # the largest k of a row are taken
    offsets: Any = 0.0  # of log-probabilities of classes, where decisions are hard
    left_out: int | None = None  # a class that no average counts; its rows have no mass


# --- scores -> degrees ----------------------------------------------------------------------------


def sigmoid(x):
    low = x.real < 0
    e = np.exp(np.where(low, x, -x))
    return np.where(low, e / (1 + e), 1 / (1 + e))


def corners(tau, delta, width):
    """Lengths of the outer pieces, ``a`` and ``1 - b``, and of the middle one, exactly."""
    t, w = Fraction(float(tau)), Fraction(float(width))
    m = w * min(t, 1 - t)
    return float(t - m / 2), float(1 - t - m / 2), float(m)


def degrees(step, p, q, tau):
    """``H`` and ``1 - H`` of probabilities ``p`` and ``q = 1 - p``."""
    kind, *numbers = step
    if kind == "linear":
        delta, width = numbers
        if np.iscomplexobj(tau):
            m = width * np.where(tau.real <= 0.5, tau, 1 - tau)
            a, beyond = tau - m / 2, 1 - tau - m / 2
        else:
            a, beyond, m = corners(tau, delta, width)
        left = np.max(np.real(tau)) <= 0.5  # by the one of p and q that has the digits
        above = p - tau if left else (1 - tau) - q
        slope = (1 - 2 * delta) / m
        low, high = (
            p.real < np.real(a),
            p.real > np.real(tau + m / 2) if left else q.real < np.real(beyond),
        )
        up, down = delta * q / beyond, delta * p / a
        h = np.where(low, down, np.where(high, 1 - up, 0.5 + slope * above))
        return h, np.where(high, up, np.where(low, 1 - down, 0.5 - slope * above))
    if kind == "sigmoid":
        x = numbers[0] * (p - tau)
        return sigmoid(x), sigmoid(-x)
    if kind == "identity":
        return p + 0 * tau, q + 0 * tau
    if kind == "own":
        h = sigmoid(20 * (p - tau)) ** 2
        return h, 1 - h
    if kind == "hard":
        h = (p.real >= np.real(tau)).astype(complex)
        return h, 1 - h
    raise NotImplementedError(kind)


def both_sides(z, s):
    """``p`` and ``1 - p``, each with all its digits; of several classes along the last axis."""
    if s.task != "multiclass":
        return (sigmoid(z), sigmoid(-z)) if s.from_logits else (z, 1 - z)
    e = np.exp(z - z.real.max(-1, keepdims=True)) if s.from_logits else z
    total = e.sum(-1, keepdims=True) if s.from_logits else 1.0
    others = np.stack([np.delete(e, j, -1).sum(-1) for j in range(e.shape[-1])], -1)
    return e / total, others / total if s.from_logits else 1 - z


# --- degrees -> cells -----------------------------------------------------------------------------


def masses(y, w, task, classes=0, class_weight=None):
    """Of labels, 0 and 1 or fractions (of classes: numbers, or a share of each), and weights
    ``[N]`` or like ``y``, 0 where an entry is left out."""
    if task == "multiclass":
        shares = y if y.ndim == 2 else np.eye(classes)[y]
        return w[:, None] * shares * (1.0 if class_weight is None else class_weight)
    w = w if w.ndim == y.ndim else w[:, None]
    if class_weight is None:
        return w * y, w * (1 - y)
    if task == "multilabel":
        return w * class_weight * y, w * class_weight * (1 - y)
    return w * class_weight[1] * y, w * class_weight[0] * (1 - y)


def binary_cells(z, yes, no, s):
    """``tp, fp, fn, tn``, each ``[thresholds]`` or ``[thresholds, labels]``."""
    p, q = both_sides(z, s)
    cells = []
    for tau in s.thresholds:
        taus = np.broadcast_to(tau, z.shape[1:]) if z.ndim > 1 else tau
        if z.ndim > 1:
            pairs = [degrees(s.step, p[:, k], q[:, k], taus[k]) for k in range(z.shape[1])]
            h, g = (np.stack(x, 1) for x in zip(*pairs, strict=True))
        else:
            h, g = degrees(s.step, p, q, taus)
        cells.append([(a * b).sum(0) for a, b in ((yes, h), (no, h), (yes, g), (no, g))])
    return [np.stack(x) for x in zip(*cells, strict=True)]


def memberships(z, s):
    p, q = both_sides(z, s)
    if s.step[0] == "hard":
        with np.errstate(divide="ignore"):
            best = (np.log(p.real) + s.offsets).argmax(1)
        return np.eye(z.shape[1])[best].astype(complex)
    first = np.argsort(-p.real, axis=1, kind="stable")[:, :2]
    tau = np.take_along_axis(p, first, 1).mean(1, keepdims=True).astype(complex)
    h, _ = degrees(s.step, p, q, tau)
    return h / h.sum(1, keepdims=True)


def matrix(z, mass, s):
    """Rows true, columns predicted."""
    g, classes = memberships(z, s), z.shape[1]
    m = np.zeros((classes, classes), dtype=complex)
    for row, own in zip(g, mass, strict=True):
        m += np.outer(own, row)
    return m


def class_cells(m):
    """``tp, fp, fn, tn`` ``[classes]``, from the matrix."""
    classes = len(m)
    off = m * (1 - np.eye(classes))
    rest = [np.delete(np.delete(m, k, 0), k, 1).sum() for k in range(classes)]
    return [m.diagonal(), off.sum(0), off.sum(1), np.array(rest)]


def at_k(p, yes, no, k):
    """Probabilities moved so that the ``k`` largest of a row, and no others, are at least 1/2.
    An entry without a mass takes no place."""
    moved = np.zeros_like(p)
    for i, row in enumerate(p):
        row = np.where(yes[i] + no[i] > 0, row, 0)
        order = np.argsort(-row.real, kind="stable")
        tau = (row[order[k - 1]] + row[order[k]]) / 2
        for rank, j in enumerate(order):
            if tau == 0:  # fewer than k have a place
                moved[i, j] = 0.5 + row[j] / 2 if rank < k else 0.0
            elif rank < k:
                moved[i, j] = 0.5 + (row[j] - tau) / (2 * (1 - tau))
            else:
                moved[i, j] = min(row[j] / (2 * tau), np.nextafter(0.5, 0), key=np.real)
    return moved


# --- cells -> number ------------------------------------------------------------------------------


def ratio(a, b, empty=0.0):
    """As documented: counts below 1e-30 are nothing."""
    some = np.real(b) > 1e-30
    return np.where(some, a / np.where(some, b, 1), empty)


def root(x, degree=2):
    """As documented: below 1e-16 its chord."""
    normal = np.real(x) > 1e-16
    return np.where(normal, np.where(normal, x, 1) ** (1 / degree), x * 1e-16 ** (1 / degree - 1))


def of_one_class(name, tp, fp, fn, tn, beta=1.0):
    n, b = tp + fp + fn + tn, np.square(beta)
    n = np.where(np.real(n) > 0, n, 1)
    cov = 2 * (tp * tn - fp * fn) / n**2
    decided, true = 2 * (tp + fp) * (fn + tn) / n**2, 2 * (tp + fn) * (fp + tn) / n**2
    tpr, tnr, ppv = ratio(tp, tp + fn), ratio(tn, tn + fp), ratio(tp, tp + fp)
    present = (np.real(tp + fn) > 0).astype(float) + (np.real(tn + fp) > 0)
    return {
        "accuracy": lambda: (tp + tn) / n,
        "balanced_accuracy": lambda: ratio(tpr + tnr, present),
        "precision": lambda: ppv,
        "recall": lambda: tpr,
        "specificity": lambda: tnr,
        "fbeta": lambda: ratio((1 + b) * tp, (1 + b) * tp + b * fn + fp),
        "jaccard": lambda: ratio(tp, tp + fp + fn),
        "tversky": lambda: ratio(tp, tp + 0.3 * fp + 0.7 * fn),
        "gmean": lambda: root(tpr) * root(tnr),
        "mcc": lambda: ratio(cov, root(decided) * root(true)),
        **dict.fromkeys(
            KAPPAS,
            lambda: ratio(cov, ((tp + fp) * (fp + tn) + (fn + tn) * (tp + fn)) / n**2),
        ),
        "informedness": lambda: tpr + tnr - 1,
        "markedness": lambda: ppv + ratio(tn, tn + fn) - 1,
        "fowlkes_mallows": lambda: root(ppv) * root(tpr),
    }[name]()


def of_all_classes(name, m, empty, left_out=None):
    tp, fp, fn, tn = class_cells(m)
    n, support, predicted = m.sum(), tp + fn, tp + fp
    n = n if np.real(n) > 0 else 1.0
    recalls, present = ratio(tp, support), np.real(support) > 0
    cov = (tp * tn - fp * fn).sum() / n**2
    if name == "accuracy":
        return tp.sum() / n
    if name == "balanced_accuracy":
        return recalls[present].mean()
    if name == "gmean":  # in evaluation a class that is predicted and has no rows is not recalled
        absent = ~present & (np.arange(len(m)) != left_out)
        lost = empty is None and (np.real(predicted)[absent] > 0).any()
        return 0.0 if lost else np.prod(root(recalls[present], present.sum()))
    if name == "mcc":
        decided = (predicted * (fn + tn)).sum() / n**2
        return ratio(cov, root(decided) * root((support * (fp + tn)).sum() / n**2))
    number = np.arange(len(m))
    apart = np.abs(number[:, None] - number)
    apart = (apart > 0) * 1.0 if KAPPAS[name] == 0 else apart ** KAPPAS[name]
    chance = (apart * np.outer(support, predicted)).sum() / n**2
    return ratio(chance - (apart * m).sum() / n, chance)


def area(name, tp, fp, fn, tn):
    """Over thresholds, the first axis."""
    one, zero = np.ones_like(tp[:1]), np.zeros_like(tp[:1])
    recall = np.concatenate([one, ratio(tp, tp + fn), zero])
    if name == "auroc":
        fpr = np.concatenate([one, ratio(fp, fp + tn), zero])
        return ((recall[1:] + recall[:-1]) * (fpr[:-1] - fpr[1:])).sum(0) / 2
    if name == "partial_auroc":
        fpr = np.concatenate([one, ratio(fp, fp + tn), zero])
        if tp.ndim == 1:
            return partial_area(fpr, recall)
        columns = zip(fpr.T, recall.T, strict=True)
        return np.array([partial_area(*column) for column in columns])
    prevalence = ((tp + fn) / (tp + fp + fn + tn))[:1]
    precision = np.concatenate([prevalence, ratio(tp, tp + fp)])
    return ((recall[:-1] - recall[1:]) * precision).sum(0)


def partial_area(fpr, tpr, most=0.1):
    """Under falling rates, up to ``most``, standardized: 1/2 is chance (McClish 1989)."""
    total = 0.0
    for i in range(len(fpr) - 1):
        (right, high), (left, low) = (fpr[i], tpr[i]), (fpr[i + 1], tpr[i + 1])
        if np.real(left) >= most or np.real(right) == np.real(left):
            continue
        if np.real(right) > most:
            right, high = most, low + (high - low) * (most - left) / (right - left)
        total += (right - left) * (low + high) / 2
    chance = most**2 / 2
    return (1 + (total - chance) / (most - chance)) / 2


def exact_area(name, scores, yes, no):
    """Of hard decisions at every threshold: by pairs, or by the scores from above."""
    if yes.sum() == 0 or (no.sum() == 0 and name != "average_precision"):
        return 0.0 if name == "average_precision" else np.nan
    if name == "auroc":
        won = 0.0
        for s, w in zip(scores, yes, strict=True):
            won += w * (no[scores < s].sum() + no[scores == s].sum() / 2)
        return won / (yes.sum() * no.sum())
    points = [(0.0, 0.0)]
    found, before = 0.0, 0.0
    for s in np.unique(scores)[::-1]:
        tp, fp = yes[scores >= s].sum(), no[scores >= s].sum()
        recall = tp / yes.sum()
        found += (recall - before) * (tp / (tp + fp) if tp + fp > 0 else 0.0)
        before = recall
        points.append((fp / max(no.sum(), 1e-300), recall))
    if name == "average_precision":
        return found
    return partial_area(*np.array(points[::-1]).T)


def defined(name, tp, fp, fn, tn):
    some = np.real(tp + fn) > 0
    return some & (np.real(fp + tn) > 0) if name in NEEDS_NEGATIVES else some


def trained(value, s, cells):
    """What a class says that has no positives (or no negatives, where they are needed)."""
    if s.empty is None:
        return value
    tp, fp, fn, tn = cells
    share = ratio(tp + fp, tp + fp + fn + tn)
    instead = np.where(np.real(tp + fn) > 0, share, 1 - share)
    instead = 1.0 if s.empty == "ignore" else instead
    return np.where(defined(s.metric, *cells), value, instead)


def one_number(s, cells, classes):
    """The metric of cells ``[]`` (one class) or ``[labels]``, or of ``classes``."""
    if cells[0].ndim == 0:
        return trained(of_one_class(s.metric, *cells, s.beta), s, cells)
    if s.average == "micro":
        summed = [without(c, s).sum() for c in cells]
        return trained(of_one_class(s.metric, *summed, s.beta), s, summed)
    values = of_one_class(s.metric, *cells, s.beta)
    return averaged(values if classes else trained(values, s, cells), s, cells, classes)


def without(a, s):
    """Numbers of all classes (the last axis) but the one that is left out."""
    return a if s.left_out is None else np.delete(a, s.left_out, -1)


def averaged(values, s, cells, classes):
    if s.average is None:
        return values
    support, predicted = np.real(cells[0] + cells[2]), np.real(cells[0] + cells[1])
    if s.average == "weighted":
        share = support if support.sum() > 0 else np.ones_like(support)
    elif classes and s.empty is None:
        share = ((support > 0) | (predicted > 0)).astype(float)
    elif classes or s.empty == "ignore":
        share = defined(s.metric, *cells).astype(float)
    else:
        share = np.ones_like(support)
    values, share = without(values, s), without(share, s)
    if share.sum() == 0:
        return 1.0 if s.empty == "ignore" else 0.0
    return (values * share).sum() / share.sum()


def of_curve(s, cells):
    means = [c.mean(0) for c in cells]
    if cells[0].ndim == 1:
        return trained(area(s.metric, *cells), s, means)
    if s.average == "micro":
        summed = [without(c, s).sum(1) for c in cells]
        return trained(area(s.metric, *summed), s, [c.mean(0) for c in summed])
    return averaged(trained(area(s.metric, *cells), s, means), s, means, False)


def of_exact_curve(s, z, yes, no):
    z, zero = z.real, 0 * yes.sum(0)
    if z.ndim == 2 and s.average == "micro":
        z, yes, no = (without(a, s).ravel() for a in (z, yes, no))
        zero = 0.0
    if z.ndim == 1:
        each = exact_area(s.metric, z, yes, no)
        return trained(each, s, (yes.sum(), no.sum(), zero, zero))
    each = [exact_area(s.metric, z[:, k], yes[:, k], no[:, k]) for k in range(z.shape[1])]
    cells = (yes.sum(0), no.sum(0), zero, zero)
    return averaged(trained(np.array(each), s, cells), s, cells, False)


# --- together -------------------------------------------------------------------------------------


def as_labels(z, mass, s):
    """Several classes as labels, one against the rest; the setting too."""
    p, _ = both_sides(z, s)
    no = np.stack([np.delete(mass, k, 1).sum(1) for k in range(mass.shape[1])], 1)
    return p, (mass, no), Setting(**{**vars(s), "task": "multilabel", "from_logits": False})


def metric(z, mass, s):
    """The number, or one for each class; ``z`` is complex or real."""
    classes = s.both or s.task == "multiclass"
    with np.errstate(all="ignore"):
        if s.task == "multiclass" and (s.metric in CURVES or s.k):
            z, mass, s = as_labels(z, mass, s)
        if s.task == "multiclass":
            m = matrix(z, mass, s)
            if s.metric in JOINT:
                return of_all_classes(s.metric, m, s.empty, s.left_out)
            return one_number(s, class_cells(m), True)
        if s.k:
            z = at_k(both_sides(z, s)[0], *mass, s.k)
            s = Setting(**{**vars(s), "from_logits": False})
        if s.metric in CURVES and s.step[0] == "hard":
            return of_exact_curve(s, z, *mass)
        cells = binary_cells(z, *mass, s)
        if s.metric in CURVES:
            return of_curve(s, cells)
        values = []
        for k in range(len(s.thresholds)):
            here = [c[k] for c in cells]
            if s.both:
                tp, fp, fn, tn = here
                here = [np.array(x) for x in ((tn, tp), (fn, fp), (fp, fn), (tp, tn))]
            values.append(one_number(s, here, classes))
        return np.mean(values, axis=0)


def counts(mass, s):
    """Whether rows count as a set: they weigh something, and with ``empty="ignore"`` the metric of
    them is defined."""
    several = s.task == "multiclass"
    yes = mass if several else mass[0]
    no = mass.sum(1, keepdims=True) - mass if several else mass[1]
    if yes.sum() + no.sum() == 0:
        return False
    if s.empty != "ignore" or s.both or (several and s.metric in JOINT):
        return True
    axis = (
        None
        if s.average == "micro"
        and s.task != "binary"
        and (s.task == "multilabel" or s.metric in CURVES or s.k)
        else 0
    )
    zero = 0 * yes.sum(axis)
    return bool(np.any(defined(s.metric, yes.sum(axis), no.sum(axis), zero, zero)))


def metric_in_sets(z, mass, s, sets):
    """The mean of the metric of each set; with ``average=None`` for each class of the sets in which
    it counts."""
    values, there = [], []
    for number in np.unique(sets):
        own = sets == number
        part = mass[own] if s.task == "multiclass" else [m[own] for m in mass]
        yes = part if s.task == "multiclass" else part[0]
        no = part.sum(1, keepdims=True) - part if s.task == "multiclass" else part[1]
        if not counts(part, s):
            continue
        value = metric(z[own], part, s)
        values.append(value)
        known = (yes + no).sum(0) > 0
        if s.empty == "ignore":
            known = known & defined(s.metric, yes.sum(0), no.sum(0), 0, 0)
        there.append(known if np.ndim(value) else True)
    if not values:
        return 0.0 if s.empty is None else 1.0
    values, there = np.array(values), np.array(there)
    nothing = 0.0 if s.empty is None else 1.0
    total = np.where(there, values, 0).sum(0)
    return np.where(there.any(0), total / np.maximum(there.sum(0), 1), nothing)


def at_a_corner(z, mass, s, near):
    """Rows whose slope is a matter of rounding: next to a corner of the step, or to a tie of those
    that decide about a row's threshold."""
    kind, *numbers = s.step
    p, q = (x.real for x in both_sides(z + 0j, s))
    rows = np.zeros(len(z), dtype=bool)
    several = s.task == "multiclass" and s.metric not in CURVES and not s.k
    if several or s.k:
        top = np.sort(p, 1)[:, ::-1]
        first = 2 if several else s.k
        for k in {first, first + 1} if s.k else {first}:
            if k < top.shape[1]:
                rows |= top[:, k - 1] - top[:, k] <= 10 * near * top[:, k - 1]
    if kind != "linear":
        return rows
    if several:
        tau = top[:, :2].mean(1, keepdims=True)
        if not s.from_logits:  # of two classes it is 1/2 but for rounding
            rows |= np.abs(tau[:, 0] - 0.5) <= 10 * near
        for corner in (1 - numbers[1] / 2, 1 + numbers[1] / 2):
            rows |= (np.abs(p - corner * tau) <= 10 * near * (corner * tau + near)).any(1)
        return rows
    if s.k:
        yes = mass if s.task == "multiclass" else mass[0] + mass[1]
        live = (
            np.broadcast_to(yes.sum(1, keepdims=True), p.shape) if s.task == "multiclass" else yes
        )
        p = at_k(p, live, 0 * live, s.k).real
        q = 1 - p
    flat = np.array(s.thresholds, dtype=float).reshape(len(s.thresholds), -1)
    for taus in flat:
        for k, tau in enumerate(taus):
            a, beyond, _ = corners(tau, *numbers)
            pk = p[:, k] if p.ndim > 1 and len(taus) > 1 else p
            qk = q[:, k] if q.ndim > 1 and len(taus) > 1 else q
            close = np.abs(pk - a) <= 4 * near * (a + near)
            close |= (np.abs(qk - beyond) <= 4 * near * (beyond + near)) | (
                np.abs(pk - (1 - beyond)) <= 4 * near * (1 - beyond)
            )
            rows |= close.reshape(len(z), -1).any(1)
    return rows


def loss(z, y, w, s):
    """``1 - metric``; ``z`` complex or real, ``w`` ``[N]`` or like ``y``."""
    return 1 - metric(z, masses(y, w, s.task, z.shape[-1]), s)


def slope(z, y, w, s, v, h=1e-30):
    """The derivative of ``loss`` in direction ``v``."""
    return np.imag(loss(z + 1j * h * v, y, w, s)) / h
