"""A cut by smoothed counts, for few positives."""

from __future__ import annotations

import numpy as np

from softset.counting.cells import confusion
from softset.counting.steps import IdentityStep
from softset.metrics.base import Metric

# Rows of each class that a cut is searched over; more are merged into so many groups.
GROUPS = 512


def smooth_cut(
    z: np.ndarray, y: np.ndarray, w: np.ndarray | None, metric: Metric
) -> tuple[float, float]:
    """The score to cut at for the best ``metric``, and that metric, smoothed; ``z`` is ``(N,)``.

    A few positives make the metric of hard cuts so jagged that its highest peak is luck. So counts
    at a cut ``b`` are soft here, ``sigmoid((z - b) / T)``, with ``T = 2 m^(-1/3)`` for ``m`` rows
    of the rarer class: the bandwidth of a kernel estimate, which vanishes as data grows.
    """
    w = np.ones(len(z)) if w is None else w
    parts = [_grouped(z[y == k], w[y == k]) for k in (0, 1)]
    scores, weights = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    target = np.repeat([0, 1], [len(parts[0][0]), len(parts[1][0])])
    rarer = min(np.bincount(y, minlength=2))
    temperature = 2 * rarer ** (-1 / 3)
    at = np.linspace(0, 1, 64)
    cuts = np.unique([np.quantile(s, at) for s in (scores, parts[1][0])])
    c = confusion(
        (scores - cuts[:, None]) / temperature,
        target,
        step=IdentityStep(),
        sample_weight=weights,
        batch_dims=1,
    )
    values = metric(c)
    best = int(values.argmax())
    return float(cuts[best]), float(values[best])


def _grouped(z: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most ``GROUPS`` neighbouring groups: their mean scores and their weights."""
    order = np.argsort(z, kind="stable")
    z, w = z[order], w[order]
    if len(z) <= GROUPS:
        return z, w
    first = np.linspace(0, len(z), GROUPS, endpoint=False).astype(int)
    weight = np.add.reduceat(w, first)
    return np.add.reduceat(z * w, first) / weight, weight
