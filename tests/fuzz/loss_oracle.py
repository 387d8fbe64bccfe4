"""The loss of one problem written a second time, in plain numpy and float64.

It shares no line with the library: each of the four cells is summed on its own, nothing is
subtracted, several classes are a matrix. Every formula is analytic, and takes complex scores: the
derivative of ``loss`` in direction ``v`` is ``loss(z + i h v).imag / h``, exact to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

NEEDS_NEGATIVES = {
    "specificity", "gmean", "mcc", "cohen_kappa", "informedness", "markedness", "auroc",
}  # fmt: skip
JOINT = {"accuracy", "balanced_accuracy", "gmean", "mcc", "cohen_kappa"}
CURVES = {"auroc", "average_precision"}


@dataclass(frozen=True)
class Setting:
    """What is asked for; ``step`` is a name and its numbers."""

    task: str
    metric: str
    average: str = "macro"
    both: bool = False
    beta: float = 1.0
    step: tuple[Any, ...] = ("linear", 0.1, 1.0)
    thresholds: tuple[Any, ...] = (0.5,)  # each a number, or one for each label
    grid: bool = False
    empty: str = "penalise"
    from_logits: bool = True


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
        above = p - tau if np.max(np.real(tau)) <= 0.5 else (1 - tau) - q
        slope = (1 - 2 * delta) / m
        low, high = p.real < np.real(a), q.real < np.real(beyond)
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


def binary_cells(z, y, w, s):
    """``tp, fp, fn, tn``, each ``[thresholds]`` or ``[thresholds, labels]``."""
    p, q = both_sides(z, s)
    w = w if z.ndim == 1 or w.ndim == 2 else w[:, None]
    cells = []
    for tau in s.thresholds:
        taus = np.broadcast_to(tau, z.shape[1:]) if z.ndim > 1 else tau
        if z.ndim > 1:
            pairs = [degrees(s.step, p[:, k], q[:, k], taus[k]) for k in range(z.shape[1])]
            h, g = (np.stack(x, 1) for x in zip(*pairs, strict=True))
        else:
            h, g = degrees(s.step, p, q, taus)
        yes, no = w * y, w * (1 - y)
        cells.append([(a * b).sum(0) for a, b in ((yes, h), (no, h), (yes, g), (no, g))])
    return [np.stack(x) for x in zip(*cells, strict=True)]


def memberships(z, s):
    p, q = both_sides(z, s)
    if s.step[0] == "hard":
        return np.eye(z.shape[1])[z.real.argmax(1)].astype(complex)
    first = np.argsort(-p.real, axis=1, kind="stable")[:, :2]
    tau = np.take_along_axis(p, first, 1).mean(1, keepdims=True).astype(complex)
    h, _ = degrees(s.step, p, q, tau)
    return h / h.sum(1, keepdims=True)


def class_cells(z, y, w, s):
    """``tp, fp, fn, tn`` ``[classes]``, from the matrix."""
    g, classes = memberships(z, s), z.shape[1]
    m = np.zeros((classes, classes), dtype=complex)
    for row, label, weight in zip(g, y, w, strict=True):
        m[label] += weight * row
    off = m * (1 - np.eye(classes))
    rest = [np.delete(np.delete(m, k, 0), k, 1).sum() for k in range(classes)]
    return [m.diagonal(), off.sum(0), off.sum(1), np.array(rest)]


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
    n, b = tp + fp + fn + tn, beta**2
    cov = 2 * (tp * tn - fp * fn) / n**2
    decided, true = 2 * (tp + fp) * (fn + tn) / n**2, 2 * (tp + fn) * (fp + tn) / n**2
    tpr, tnr, ppv = ratio(tp, tp + fn), ratio(tn, tn + fp), ratio(tp, tp + fp)
    present = (np.real(tp + fn) > 0).astype(float) + (np.real(tn + fp) > 0)
    return {
        "accuracy": lambda: (tp + tn) / n,
        "balanced_accuracy": lambda: (tpr + tnr) / present,
        "precision": lambda: ppv,
        "recall": lambda: tpr,
        "specificity": lambda: tnr,
        "fbeta": lambda: ratio((1 + b) * tp, (1 + b) * tp + b * fn + fp),
        "jaccard": lambda: ratio(tp, tp + fp + fn),
        "gmean": lambda: root(tpr) * root(tnr),
        "mcc": lambda: ratio(cov, root(decided) * root(true)),
        "cohen_kappa": lambda: ratio(cov, ((tp + fp) * (fp + tn) + (fn + tn) * (tp + fn)) / n**2),
        "informedness": lambda: tpr + tnr - 1,
        "markedness": lambda: ppv + ratio(tn, tn + fn) - 1,
        "fowlkes_mallows": lambda: root(ppv) * root(tpr),
    }[name]()


def of_all_classes(name, tp, fp, fn, tn):
    n, support, predicted = (tp + fp + fn + tn)[0], tp + fn, tp + fp
    recalls, present = ratio(tp, support), np.real(support) > 0
    cov = (tp * tn - fp * fn).sum() / n**2
    if name == "accuracy":
        return tp.sum() / n
    if name == "balanced_accuracy":
        return recalls[present].mean()
    if name == "gmean":
        return np.prod(root(recalls, len(tp))[present])
    if name == "mcc":
        decided = (predicted * (fn + tn)).sum() / n**2
        return ratio(cov, root(decided) * root((support * (fp + tn)).sum() / n**2))
    return ratio(cov, (predicted * (fp + tn)).sum() / n**2)


def area(name, tp, fp, fn, tn):
    """Over thresholds, the first axis."""
    one, zero = np.ones_like(tp[:1]), np.zeros_like(tp[:1])
    recall = np.concatenate([one, ratio(tp, tp + fn), zero])
    if name == "auroc":
        fpr = np.concatenate([one, ratio(fp, fp + tn), zero])
        return ((recall[1:] + recall[:-1]) * (fpr[:-1] - fpr[1:])).sum(0) / 2
    prevalence = ((tp + fn) / (tp + fp + fn + tn))[:1]
    precision = np.concatenate([prevalence, ratio(tp, tp + fp)])
    return ((recall[:-1] - recall[1:]) * precision).sum(0)


def defined(name, tp, fp, fn, tn):
    some = np.real(tp + fn) > 0
    return some & (np.real(fp + tn) > 0) if name in NEEDS_NEGATIVES else some


def trained(value, s, cells):
    """What a class says that has no positives (or no negatives, where they are needed)."""
    tp, fp, fn, tn = cells
    share = (tp + fp) / (tp + fp + fn + tn)
    instead = np.where(np.real(tp + fn) > 0, share, 1 - share)
    instead = 1.0 if s.empty == "ignore" else instead
    return np.where(defined(s.metric, *cells), value, instead)


def one_number(s, cells, classes):
    """The metric of cells ``[]`` (one class) or ``[labels]``, or of ``classes``."""
    if cells[0].ndim == 0:
        return trained(of_one_class(s.metric, *cells, s.beta), s, cells)
    if classes and s.metric in JOINT:
        return of_all_classes(s.metric, *cells)
    if s.average == "micro":
        summed = [c.sum() for c in cells]
        return trained(of_one_class(s.metric, *summed, s.beta), s, summed)
    values = of_one_class(s.metric, *cells, s.beta)
    return averaged(values if classes else trained(values, s, cells), s, cells, classes)


def averaged(values, s, cells, classes):
    support = np.real(cells[0] + cells[2])
    if s.average == "weighted":
        share = support if support.sum() > 0 else np.ones_like(support)
    elif classes or s.empty == "ignore":
        share = defined(s.metric, *cells).astype(float)
    else:
        share = np.ones_like(support)
    if share.sum() == 0:
        return 1.0 if s.empty == "ignore" else 0.0
    return (values * share).sum() / share.sum()


def of_curve(s, cells):
    means = [c.mean(0) for c in cells]
    if cells[0].ndim == 1:
        return trained(area(s.metric, *cells), s, means)
    if s.average == "micro":
        summed = [c.sum(1) for c in cells]
        return trained(area(s.metric, *summed), s, [c.mean(0) for c in summed])
    return averaged(trained(area(s.metric, *cells), s, means), s, means, False)


# --- together -------------------------------------------------------------------------------------


def loss(z, y, w, s):
    """``1 - metric``; ``z`` and ``w`` complex or real, ``w`` ``[N]`` or like ``y``."""
    with np.errstate(all="ignore"):
        if s.task == "multiclass" and s.metric in CURVES:
            p, _ = both_sides(z, s)
            y = np.eye(z.shape[1])[y]
            s = Setting(**{**vars(s), "task": "multilabel", "from_logits": False})
            return 1 - of_curve(s, binary_cells(p, y, w, s))
        if s.task == "multiclass":
            return 1 - one_number(s, class_cells(z, y, w, s), True)
        cells = binary_cells(z, y, w, s)
        if s.metric in CURVES:
            return 1 - of_curve(s, cells)
        values = []
        for k in range(len(s.thresholds)):
            here = [c[k] for c in cells]
            if s.both:
                tp, fp, fn, tn = here
                here = [np.array(x) for x in ((tn, tp), (fn, fp), (fp, fn), (tp, tn))]
            values.append(one_number(s, here, s.both))
        return 1 - np.mean(values)


def slope(z, y, w, s, v, h=1e-30):
    """The derivative of ``loss`` in direction ``v``."""
    return np.imag(loss(z + 1j * h * v, y, w, s)) / h
