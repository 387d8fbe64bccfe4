"""Probabilities that can be believed: calibrated on out-of-fold scores, with ``calibrate=True``."""

from __future__ import annotations

from softset.checks import warn_user
from softset.decisions.calibration import Calibrator
from softset.tables.labels import LabelEncoding
from softset.typing import Array, State


class Calibrating:
    """Calibrated scores of every classifier; decisions are made on the scores as they are."""

    calibrate: bool = False
    _labels: LabelEncoding
    _calibrator: Calibrator | None = None

    @property
    def oof_scores_(self) -> Array | None:
        """Out-of-fold scores of the rows of ``fit``, in their order: what the threshold was tuned
        on. NaN for rows without one; None if unavailable. Files, pickles and copies do not hold
        them.
        """
        return self.__dict__.get("_oof_scores")

    def _fit_calibrator(self, scores: Array | None, y: Array, w: Array) -> None:
        self._calibrator = None
        if not self.calibrate:
            return
        if scores is None or not len(scores):
            warn_user("no row could be held out: probabilities are not calibrated.")
            return
        self._calibrator = Calibrator.fit(self._labels.task, scores, y, w)

    def _believed(self, scores: Array) -> Array:
        """Scores whose probabilities are calibrated, where the model is; else as they are."""
        return scores if self._calibrator is None else self._calibrator(scores)

    @property
    def calibrated_(self) -> bool:
        """Whether ``predict_proba`` is calibrated; if not, fit it again with ``calibrate=True``."""
        return self._calibrator is not None

    def _probabilities_in_words(self) -> str:
        """The line of summaries about ``predict_proba``."""
        if self.calibrated_:
            return "probabilities: calibrated on out-of-fold scores; decisions are by the scores"
        return "probabilities: not calibrated; calibrate=True gives calibrated ones"

    def _packed_calibrator(self) -> State:
        return {"calibrator": None if self._calibrator is None else self._calibrator.packed()}

    def _restore_calibrator(self, fitted: State) -> None:
        packed, labels = fitted.get("calibrator"), self._labels
        outputs = labels.task.outputs(len(labels.classes))
        self._calibrator = (
            None if packed is None else Calibrator.unpacked(labels.task, outputs, packed)
        )
