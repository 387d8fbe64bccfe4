"""Rounds of log-loss, then rounds for the metric, both stopped early on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from softset.boosting.objective import MetricObjective
from softset.boosting.spool import blocks
from softset.counting.steps import Step
from softset.decisions.evaluation import evaluate
from softset.decisions.offsets import best_offsets
from softset.decisions.smoothing import smooth_threshold
from softset.decisions.tuner import LEAST_GAIN
from softset.metrics.registry import MetricLike, get_goal
from softset.progress import progress
from softset.tables.rows import Examples
from softset.tasks import BINARY, MULTICLASS
from softset.typing import Array

if TYPE_CHECKING:
    from softset.boosting.base import Library
    from softset.boosting.trees import BoostedTrees

# The scores of the log-loss rounds are shrunk by this before the metric takes over. No decision
# changes, but rows that log-loss had settled get a gradient again (docs/boosting.md, measured).
SHRINK = 0.7


@dataclass
class Boosted:
    """A boosted model of one target: ``SHRINK (log-loss trees - shift) + trees for the metric``.

    Without rounds for the metric it is the log-loss trees alone. ``history`` has the metric on the
    held-out rows after every round for it.
    """

    library: type[Library]
    classes: int
    warm: BoostedTrees | None = None
    booster: BoostedTrees | None = None
    shift: Array | None = None  # None: no rounds for the metric were asked for
    n_estimators: int = 0
    n_metric_estimators: int = 0
    history: list[float] = field(default_factory=list)

    def log_loss_scores(self, x: Array) -> Array:
        """Scores ``(n,)`` or ``(n, classes)`` of the log-loss trees alone."""
        if self.warm is None:
            return np.zeros((len(x),) if self.classes == 2 else (len(x), self.classes))
        return self.library.margins(self.warm, x)

    def start(self, x: Array) -> Array:
        """The scores that rounds for the metric start from."""
        z = self.log_loss_scores(x)
        return z if self.shift is None or self.warm is None else SHRINK * (z - self.shift)

    def __call__(self, x: Array) -> Array:
        """Scores ``(n,)`` or ``(n, classes)``."""
        z = self.start(x)
        return z if self.booster is None else z + self.library.margins(self.booster, x)

    def log_loss_part(self) -> Boosted:
        """What log-loss alone has given."""
        return Boosted(self.library, self.classes, self.warm, n_estimators=self.n_estimators)


def boost(
    library: Library,
    rows: Examples,
    checks: Examples,
    metric: MetricLike,
    *,
    classes: int,
    n_estimators: int,
    n_metric_estimators: int,
    patience: int,
    step: Step | None = None,
    verbose: int = 0,
) -> Boosted:
    """Train with ``rows``, stop by ``checks``; if no round for the metric helps, none is kept."""
    library.load(rows, checks)
    model = Boosted(type(library), classes)
    if n_estimators:
        model.warm, model.n_estimators = library.log_loss(n_estimators, patience)
    if not n_metric_estimators or len(np.unique(checks.y)) < classes:
        return model
    model.shift = np.asarray(_threshold(model.log_loss_scores(checks.x), checks, metric))
    start = np.concatenate([model.start(rows.x[part]) for part in blocks(len(rows.y))])
    held = model.start(checks.x)
    # Without log-loss rounds, nothing is what has to be beaten.
    best = -np.inf if model.warm is None else _value(held, checks, metric)
    objective = MetricObjective(library.name, metric, step, 0.5)
    shown = progress("round", n_metric_estimators, verbose)
    for i, z in enumerate(library.steps(start, held, objective), 1):
        next(shown)
        model.history.append(_value(z, checks, metric))
        if model.history[-1] > best + 1e-9:
            best, model.n_metric_estimators = model.history[-1], i
        if i >= n_metric_estimators or i - model.n_metric_estimators >= patience:
            break
    shown.close()
    if model.n_metric_estimators:
        model.booster = library.kept(model.n_metric_estimators)
    return model


def _threshold(z: Array, checks: Examples, metric: MetricLike) -> float | Array:
    """Where decisions change: rounds for the metric start with it at 0.

    Where no threshold gains anything, that of the model stays.
    """
    if not get_goal(metric).tunes:
        return 0.0 if z.ndim == 1 else np.zeros(z.shape[1])
    if z.ndim == 1:
        threshold, value = smooth_threshold(z, checks.y, checks.w, metric)
        return threshold if value > LEAST_GAIN or get_goal(metric).where.exact else 0.0
    return -np.array(best_offsets(z, checks.y, metric, sample_weight=checks.w, from_logits=True))


def _value(z: Array, checks: Examples, metric: MetricLike) -> float:
    """The metric of held-out rows: at the best threshold by smoothed counts, where there is one."""
    if z.ndim == 1 and get_goal(metric).tunes:
        return smooth_threshold(z, checks.y, checks.w, metric)[1]
    task = BINARY if z.ndim == 1 else MULTICLASS
    return float(evaluate(z, checks.y, metric, task=task, sample_weight=checks.w, from_logits=True))
