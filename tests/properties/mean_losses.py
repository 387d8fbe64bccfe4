"""The losses that are means over examples, and Lovász's, as their papers have them: plain loops,
one example at a time, in complex numbers, so that a derivative is exact."""

from __future__ import annotations

import numpy as np

PRIOR = np.array([0.2, 0.5, 0.3])
GAMMA, MARGIN = 1.5, 0.05
# Their names, and how ours are made of a task.
NAMES = ("cross-entropy", "absolute", "focal", "adjusted", "asymmetric", "surrogate", "robust")
OF_LABELS = ("asymmetric", "surrogate", "robust")  # not of several classes


def sigmoid(z):
    return 1 / (1 + np.exp(-z)) if z.real > 0 else np.exp(z) / (1 + np.exp(z))


def of_two(name, z, positive, prior):
    """The loss of one logit."""
    p = sigmoid(z)
    own = p if positive else 1 - p
    if name == "cross-entropy":
        return -np.log(own)
    if name == "absolute":
        return 2 - 2 * own
    if name == "focal":
        return -((1 - own) ** GAMMA) * np.log(own)
    if name == "adjusted":
        shifted = sigmoid(z + 0.7 * np.log(prior / (1 - prior)))
        return -np.log(shifted if positive else 1 - shifted)
    if name == "asymmetric":
        if positive:
            return -(1 - p) * np.log(p)
        q = p - MARGIN if p.real > MARGIN else 0
        return -(q**2) * np.log(1 - q) if p.real > MARGIN else 0.0
    beta, q = (1.0, 0.0) if name == "surrogate" else (2.0, 0.7)
    c = beta**2 * prior / (1 - prior)
    balance = 1 / prior if positive else 1 / (1 - prior)
    if q == 0:
        return balance * (-np.log(p) if positive else np.log(c + p))
    return balance * ((1 - p**q) / q if positive else ((c + p) ** q - 1) / q)


def of_classes(name, z, label):
    """The loss of the logits of one row."""
    z = z + (0.7 * np.log(PRIOR / PRIOR.sum()) if name == "adjusted" else 0.0)
    e = np.exp(z - z.real.max())
    own = e[label] / e.sum()
    if name == "absolute":
        return 2 - 2 * own
    return -np.log(own) * ((1 - own) ** GAMMA if name == "focal" else 1.0)


def mean_loss(name, z, y, w, task, v):
    """``sum s v l / sum s``: ``y`` are labels or shares, ``w`` like the labels, ``v`` by class."""
    total = 0.0
    for i in range(len(z)):
        if task == "multiclass":
            shares = y[i] if y.ndim == 2 else np.eye(z.shape[1])[y[i]]
            for k, share in enumerate(shares):
                total += w[i] * share * (1 if v is None else v[k]) * of_classes(name, z[i], k)
            continue
        for j in range(1 if task == "binary" else z.shape[1]):
            at = (i,) if task == "binary" else (i, j)
            prior = PRIOR[0] if task == "binary" else PRIOR[j]
            for positive, share in ((True, y[at]), (False, 1 - y[at])):
                factor = 1.0 if v is None else v[j] if task == "multilabel" else v[int(positive)]
                total += w[at] * share * factor * of_two(name, z[at], positive, prior)
    return total / w.sum()


def lovasz(z, y, w, task):
    """Of one set; ``None`` where nothing weighs."""
    if w.sum() == 0:
        return None
    if task == "binary":
        errors = [max(0, 1 - a * (2 * b - 1), key=np.real) for a, b in zip(z, y, strict=True)]
        return extension(errors, y, w)
    if task == "multilabel":
        each = [lovasz_of_label(z[:, k], y[:, k], w[:, k]) for k in range(z.shape[1])]
        return sum(each) / len(each)
    e = np.exp(z - z.real.max(1, keepdims=True))
    p, each = e / e.sum(1, keepdims=True), []
    for k in range(z.shape[1]):
        own = y == k
        if w[own].sum() > 0:
            each.append(extension(np.where(own, 1 - p[:, k], p[:, k]), own, w))
    return sum(each) / len(each)


def lovasz_of_label(z, y, w):
    found = lovasz(z, y, w, "binary")
    return 0.0 if found is None else found


def extension(errors, positive, w):
    """``sum m_i (J_i - J_(i-1))`` in falling order, ``J_i`` the Jaccard loss of the first i."""
    order = sorted(range(len(errors)), key=lambda i: -np.real(errors[i]))
    total = before = 0.0
    for i in range(len(order)):
        wrong = set(order[: i + 1])
        found = sum(w[j] for j in range(len(w)) if positive[j] and j not in wrong)
        union = sum(w[j] for j in range(len(w)) if positive[j] or j in wrong)
        now = 1 - found / union if union > 0 else 0.0
        total += errors[order[i]] * (now - before)
        before = now
    return total
