"""Another prevalence: the threshold of a fitted classifier, tuned again on its reference."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

from softset.checks import warn_user
from softset.classifiers.calibrating import Calibrating
from softset.decisions.decision import Decision
from softset.decisions.reference import Reference
from softset.decisions.shift import (
    Prevalence,
    Shift,
    ShiftWarning,
    estimated_shift,
    prior_of,
    shifted_decision,
    stated_prior,
    stated_shift,
)
from softset.metrics.registry import MetricLike, get_goal, label_of
from softset.storage.schema import decoded
from softset.typing import Array, Rows, State

if TYPE_CHECKING:
    from softset.decisions.tuner import Tuner


class Shifting(Calibrating):
    """``at_prevalence`` and ``adapt`` of every classifier, and the reference that they need."""

    metric: MetricLike
    _class_factors: Array
    _decision: Decision

    def _check_fitted(self) -> None:
        raise NotImplementedError

    def _checked(self, X: Rows) -> Array:
        raise NotImplementedError

    def _scores(self, x: Array) -> Array:
        raise NotImplementedError

    def _tuner(self) -> Tuner:
        raise NotImplementedError

    def _keep(self, decision: Decision) -> None:
        raise NotImplementedError

    def _remember(self, scores: Array | None, y: Array, w: Array) -> None:
        """Keep quantiles of out-of-fold scores by class, and what calibrates them; no row."""
        self._shift: Shift | None = None
        self._reference: Reference | None = None
        if scores is None or not len(scores):
            self._fit_calibrator(None, y, w)
            return
        natural = w / self._labels.row_factors(self._class_factors, y)
        self._reference = Reference.of(self._labels.task, scores, y, w, natural)
        self._fit_calibrator(scores, y, natural)

    @property
    def reference_(self) -> Reference | None:
        """Quantiles of out-of-fold scores by class, which files hold too; None if unavailable."""
        return self.__dict__.get("_reference")

    @property
    def shift_(self) -> Shift | None:
        """The change of prevalence that ``at_prevalence`` or ``adapt`` made; None before."""
        return self.__dict__.get("_shift")

    def at_prevalence(self, prevalence: Prevalence) -> Self:
        """A copy that decides for another prevalence of the positive class, of each label (a list)
        or of all classes (a list in the order of ``classes_``, or a dictionary).

        The threshold is tuned again for the same metric on out-of-fold scores, with classes
        reweighted; to the offsets of several classes the log ratio of new to old fractions is
        added. Scores stay, and probabilities too, unless they are calibrated: then they become
        those at this prevalence. Promises of recall, fpr and specificity stand, and so does their
        threshold; those of precision and alerts are made again for this prevalence.

        >>> from sklearn.datasets import make_classification
        >>> from softset import MetricLinearClassifier
        >>> X, y = make_classification(1000, weights=[0.8], flip_y=0.1, random_state=0)
        >>> model = MetricLinearClassifier("f1").fit(X, y)
        >>> model.at_prevalence(0.05).threshold_ > model.threshold_
        True
        """
        reference = self._known_reference("at_prevalence")
        prior = stated_prior(reference, prevalence, self._labels.names)
        return self._shifted(stated_shift(reference, prior, self._labels.names))

    def adapt(self, X: Rows) -> Self:
        """A copy that decides for the prevalence of new rows without labels, which is estimated:
        ``shift_`` has it, its interval, and a test whether only the prevalence has changed.

        Where that is rejected the threshold stays, promises are withdrawn, and there is a warning.
        """
        reference = self._known_reference("adapt")
        scores = self._scores(self._checked(X))
        shift = estimated_shift(reference, scores, self._labels.names)
        if shift.rejected:
            warn_user(
                f"p = {shift.p_value:.2g}: more than the prevalence has changed (no label shift). "
                "The threshold stays, and nothing is promised: label some of the new rows.",
                ShiftWarning,
            )
        return self._shifted(shift)

    def _known_reference(self, name: str) -> Reference:
        self._check_fitted()
        if self._decision.costs is not None:
            raise ValueError(f"{name} moves a threshold; this model decides by costs of each row.")
        if self.reference_ is None or not get_goal(self.metric).tunes:
            raise ValueError(
                f"{name} needs the out-of-fold scores of a tuned threshold, which this model for "
                f"{label_of(self.metric)} has not. Fit it again with threshold='tuned' and a "
                "metric of decisions."
            )
        return self.reference_

    def _shifted(self, shift: Shift) -> Self:
        reference = self._known_reference("at_prevalence")
        copied = copy.copy(self)
        copied._keep(shifted_decision(self._decision, self._tuner(), reference, shift))
        copied._shift = shift
        if not shift.rejected:
            copied._reference = reference.with_prior(prior_of(reference, shift.after))
            if self._calibrator is not None:
                priors = reference.prior, copied._reference.prior
                copied._calibrator = self._calibrator.at_prevalence(*priors)
        return copied

    def _packed_reference(self) -> State:
        reference, shift = self.reference_, self.shift_
        return {
            "reference": None if reference is None else reference.packed(),
            "shift": None if shift is None else shift.packed(),
            **self._packed_calibrator(),
        }

    def _restore_reference(self, fitted: State) -> None:
        reference, shift = fitted.get("reference"), fitted.get("shift")
        self._reference = (
            None
            if reference is None
            else Reference.unpacked(self._labels.task, len(self._labels.classes), reference)
        )
        self._shift = None if shift is None else decoded(Shift, shift, "shift")
        self._restore_calibrator(fitted)
