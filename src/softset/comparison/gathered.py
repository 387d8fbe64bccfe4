"""The ensemble of a comparison, put together from what other candidates of the split fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from softset.classifiers.ensemble import MetricEnsembleClassifier, Ready
from softset.comparison.fits import Candidate, Order, fit_candidates
from softset.comparison.shelf import Fitted
from softset.metrics.registry import get_goal

Array = NDArray[Any]


@dataclass(frozen=True)
class GatheredEnsemble:
    """``MetricEnsembleClassifier`` around candidates that score rows which they have not seen.

    ``sources`` are these candidates, by kind and name of the part: linear models have out-of-fold
    scores, each network leaves out a fold, forests have rows out of bag. They are taken from the
    shelf of the order; what is not there is fitted, with the same result. The ensemble fits the
    other kinds itself: boosting, which holds out some rows only, and extra trees.
    """

    model: MetricEnsembleClassifier
    sources: Mapping[str, Mapping[str, Candidate]]
    order: Order

    def fit(self, x: Array, y: Array) -> MetricEnsembleClassifier:
        """The ensemble of ``x (n, features)`` and class numbers."""
        tunes = get_goal(self.order.metric).tunes  # else there are equal weights and no threshold
        ready = {}
        for kind, rows in self.sources.items():
            found = {fitted.candidate: fitted for fitted in self._fits(list(rows.values()), x)}
            parts = [
                Ready(name, found[c.id].classifier, found[c.id].unseen)
                for name, c in rows.items()
                if not tunes or found[c.id].unseen is not None
            ]
            if parts:
                ready[kind] = parts
        return self.model.fit_around(ready, x, y)

    def _fits(self, rows: list[Candidate], x: Array) -> list[Fitted]:
        shelf, ids = self.order.shelf, [c.id for c in rows]
        kept = [] if shelf is None else shelf.take(rows[0].fit, ids)
        return kept or fit_candidates(rows, x, replace(self.order, shelf=None))
