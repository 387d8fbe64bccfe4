"""Networks that can be taken back to the end of their first phase: one fit for two classifiers."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from softset.classifiers.network import MetricClassifier
from softset.tables.rows import Ints, Rows
from softset.training.loop import until_phase
from softset.training.members import Trained


class PhasedClassifier(MetricClassifier):
    """A ``MetricClassifier`` that keeps its rows, and what its first phase gave.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> given = {"max_epochs": 3, "n_members": 2, "random_state": 0}
    >>> first = PhasedClassifier("f1", recipe="warm", **given).fit(X, y).first_phase(threshold=None)
    >>> alone = MetricClassifier("f1", recipe="cross-entropy", threshold=None, **given).fit(X, y)
    >>> bool((first.predict_proba(X) == alone.predict_proba(X)).all())
    True
    """

    def _train(self, rows: Rows, fold: Ints | None, seeds: NDArray[Any], on_epoch: Any) -> Trained:
        trained = super()._train(rows, fold, seeds, on_epoch)
        self._after_first = [*trained.phase_ends, trained.weights][0]
        return trained

    def _tune_on(self, rows: Rows, fold: Ints | None, place: Ints) -> None:
        self._seen = rows, fold, place
        super()._tune_on(rows, fold, place)

    @property
    def first_phase_share(self) -> float:
        """The share of all epochs that were in the first phase."""
        epochs = [phase for history in self.history_ for phase in history["phase"]]
        return epochs.count(0) / max(1, len(epochs))

    def first_phase(self, **params: Any) -> MetricClassifier:
        """What the first phase alone gives with other parameters (of the decision)."""
        found = MetricClassifier(**{**self.get_params(deep=False), **params})
        own = [*found.get_params(deep=False), "_after_first", "_seen"]
        found.__dict__.update({k: v for k, v in vars(self).items() if k not in own})
        found._weights = self._after_first.double()
        found.history_ = [until_phase(history, 1) for history in self.history_]
        found._tune_on(*self._seen)
        return found
