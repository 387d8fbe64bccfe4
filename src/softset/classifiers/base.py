"""What our classifiers share: classes, the decision, predictions and files."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import NoReturn, Self

import numpy as np
import torch
from scipy.special import log_expit, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from softset.checks import check_choice, warn_user
from softset.classifiers.responses import warn_of_repeated
from softset.classifiers.row_costs import Costs, mean_prices, row_costs, rows_at
from softset.classifiers.shifting import Shifting
from softset.decisions.constants import ConstantWarning, against_constant
from softset.decisions.costs import CostDecision, cheapest_decision, mean_cost
from softset.decisions.decision import Decision
from softset.decisions.evaluation import evaluate
from softset.decisions.promises import Promise, check_confidence, promised_decision
from softset.decisions.tuner import Tuner
from softset.metrics.costs import Cost
from softset.metrics.goals import Goal
from softset.metrics.registry import (
    MetricLike,
    decided_elsewhere,
    get_goal,
    get_metric,
    label_of,
    one_number,
    pack_metric,
    restored_metric,
)
from softset.storage.arrays import pack_array, plain, unpack_array
from softset.storage.container import read_file, whole, write_file
from softset.tables.labels import LabelEncoding, checked_weights, mean_one, read_labels
from softset.tables.rows import Examples
from softset.tasks import Task
from softset.typing import (
    Array,
    ArrayLike,
    ClassWeight,
    Floats,
    Label,
    Labels,
    PathLike,
    Rows,
    State,
    Threshold,
)


class DecidingClassifier(Shifting, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that gives scores, and a decision that turns them into classes.

    A subclass has the parameters ``metric``, ``threshold``, ``class_weight`` and ``pos_label``.
    Its ``fit`` calls ``_start``, trains, and calls ``_decide_by`` with scores of rows that training
    has not seen. It writes ``_scores`` and, for files, ``_learned`` and ``_relearn``. Think twice
    before adding anything here.
    """

    metric: MetricLike
    threshold: Threshold | str | None
    confidence: float | None = None
    class_weight: ClassWeight
    pos_label: Label | None
    _costs: Floats | None = None  # of each row of fit
    _table_classes: Sequence[Label] | None = None  # of the user, where it is trained on their codes
    _mean_cost: Cost | None = None  # what is trained for in their place, in this unit
    _unit = 1.0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        positive = self._labels.summary if "_labels" in vars(self) else ""
        return f"{text}  # {positive}" if positive else text

    def _scores(self, x: Array) -> Array:
        """Logits ``(n,)`` or ``(n, labels)``, or log-probabilities ``(n, classes)``, in float64."""
        raise NotImplementedError

    def _scored(self, x: Array) -> tuple[Array, Array]:
        """Probabilities, ``(n,)`` or ``(n, classes or labels)``, and scores of the same rows, which
        are gone through once."""
        scores = self._scores(x)
        return self._task.probabilities(self._believed(scores)), scores

    # --- fit -------------------------------------------------------------------------------------

    def _checked_inputs(self, X: Rows, y: Labels) -> Array:
        """The inputs of ``fit`` as float64; labels are checked by ``_start``."""
        if y is None:
            self._refuse_no_target()
        return validate_data(self, X, dtype=np.float64, ensure_min_samples=2)

    def _refuse_no_target(self) -> NoReturn:
        raise ValueError(
            f"This {type(self).__name__} estimator requires y to be passed, but the target y is "
            "None."
        )

    def _start(
        self,
        X: Array,
        y: Labels,
        sample_weight: ArrayLike | None,
        costs: Floats | None = None,
    ) -> Examples:
        """Set ``classes_`` and the task; the rows with class numbers and weights.

        Weights are those of the samples times those of the classes, with the mean 1: their scale
        means nothing. Of two classes the positive one has number 1. ``costs`` are those of each
        row (``row_costs``).
        """
        goal = one_number(decided_elsewhere(self.metric))
        self._labels, codes = self._read_labels(y)
        self._costs, self._mean_cost = costs, None
        if costs is None:
            goal.check(self._task)
        elif not self._task.single:
            raise ValueError(f"costs of each row are for two classes, got task={self._task!s}.")
        n = X.shape[0]
        if len(codes) != n:
            raise ValueError(f"y must have one label for each of {n} rows, got {len(codes)}.")
        self.classes_ = self._labels.classes
        weight = checked_weights(sample_weight, X)
        totals = self._labels.totals(codes, weight)
        self._class_factors = self._labels.class_factors(self.class_weight, totals)
        weight = weight * self._labels.row_factors(self._class_factors, codes)
        if len(np.unique(codes[weight > 0], axis=0)) < 2:
            raise ValueError("y must hold at least two classes, got one class of positive weight.")
        self._check_threshold()
        if self.confidence is not None and X.shape[1]:
            warn_of_repeated(X, np.flatnonzero(weight > 0))
        if costs is not None:
            self._mean_cost, self._unit = mean_prices(costs, codes, weight)
        missing = np.setdiff1d(codes, codes[weight > 0])
        if self._task.exclusive and len(missing):
            raise ValueError(
                f"class {self._class_name(missing[0])!r} has no row of positive sample_weight. "
                "Leave its rows out."
            )
        return Examples(X, codes, mean_one(weight))

    def _read_labels(self, y: Labels) -> tuple[LabelEncoding, Array]:
        return read_labels(y, self.pos_label)

    def _class_name(self, code: int) -> Label:
        """The class as the user calls it."""
        return (self._table_classes or self._labels.names)[code]

    def _warn_of_absent(self, trained: Array, held: Array) -> None:
        """Warn of a class that no held-out row has."""
        missing = np.setdiff1d(trained, held)
        if len(missing):
            warn_user(
                f"class {self._class_name(missing[0])!r} has too few distinct rows to be held "
                "out: early stopping and the threshold cannot see it.",
            )

    @property
    def _task(self) -> Task:
        return self._labels.task

    @property
    def task_(self) -> Task:
        """``"binary"``, ``"multiclass"`` or ``"multilabel"``."""
        return self._labels.task

    @property
    def decision_(self) -> Decision:
        """How scores become classes; ``threshold_`` or ``offsets_`` is the same for reading."""
        return self._decision

    def _check_threshold(self) -> None:
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, ("tuned",))
        elif self.threshold is not None:
            Decision.at(self._task, self.threshold, len(self.classes_))
        if self.confidence is not None:
            check_confidence(self.confidence, self.metric, self.threshold)

    def _row_costs(self, X: Rows, sample_cost: Costs) -> Floats | None:
        names = list(getattr(self, "feature_names_in_", ()))
        return row_costs(get_goal(self.metric), X, sample_cost, names)

    def _goal(self) -> Goal:
        """What is trained and tuned for: the metric, or mean costs where rows have their own."""
        return get_goal(self.metric) if self._mean_cost is None else get_goal(self._mean_cost)

    def _holds_out(self) -> bool:
        """Whether out-of-fold scores are needed: to tune the threshold, or to calibrate."""
        return self.calibrate or (isinstance(self.threshold, str) and self._goal().tunes)

    def _decide_by(
        self,
        scores: Array | None,
        y: Array,
        w: Array,
        place: Array | None = None,
        crossed: Array | None = None,
    ) -> None:
        """Keep the threshold that was given, or tune one; None is 1/2 or the largest.

        ``place`` says for each row of ``fit`` which of the scores is its own, -1 for none;
        ``crossed`` is as in ``Tuner.tune``.
        """
        count = len(self.classes_)
        self._oof_scores: Array | None = None
        if scores is not None and place is not None and len(scores):
            self._oof_scores = scores[place]
            self._oof_scores[place < 0] = np.nan
        if not isinstance(self.threshold, str | None):
            self._keep(Decision.at(self._task, self.threshold, count))
        elif self.threshold is None or scores is None:
            self._keep(Decision.plain(self._task, count))
        else:
            rows = None if place is None else rows_at(place)
            self._keep(self._tuned(scores, y, w, crossed, rows))
        self._remember(scores, y, w)
        if scores is not None:
            self._warn_if_useless(scores, y, w)

    def _warn_if_useless(self, scores: Array, y: Array, w: Array) -> None:
        """Warn of a decision that is no better than a constant on held-out rows."""
        if self._decision.costs is not None:
            self._decision.costs.warn_if_useless(ConstantWarning)
            return
        against = against_constant(self._tuner(), self._decision, scores, y, w)
        if against is None or against.value > against.constant + 1e-9:
            return
        constant = "with equal scores"
        if self._task.independent and against.decided is not None:
            constant = f"if every row had the labels {against.decided.astype(int).tolist()}"
        elif against.decided is not None:
            constant = f"if every row were predicted as {self._class_name(against.decided)!r}"
        warn_user(
            f"no better than a constant: {label_of(self.metric)} is {against.value:.3g} "
            f"on held-out rows, and {against.constant:.3g} {constant}. The inputs "
            "may tell too little about y; or try a tuned threshold, other settings or more rows.",
            ConstantWarning,
        )

    def _tuner(self) -> Tuner:
        return Tuner(self._goal(), self._task, verbose=getattr(self, "verbose", 0))

    def _tuned(
        self,
        scores: Array,
        y: Array,
        w: Array,
        crossed: Array | None = None,
        rows: Array | None = None,
    ) -> Decision:
        """The tuned decision; with ``confidence``, one that keeps the constraint of the metric.
        ``rows`` are the numbers of these rows among those of ``fit``, for their costs."""
        if self._costs is not None and rows is not None:
            cost = get_metric(self.metric)
            assert isinstance(cost, Cost)
            rule = cheapest_decision(cost, scores, y, w, self._costs[rows])
            return Decision(self._task, np.asarray(rule.logit), costs=rule)
        decision = self._tuner().tune(scores, y, w, crossed)
        if self.confidence is None:
            return decision
        return promised_decision(
            decision,
            get_goal(self.metric),
            scores,
            y,
            w,
            self.confidence,
            exact=self._has_new_rows(),
        )

    def _has_new_rows(self) -> bool:
        """Whether the model that predicts has not seen the rows that the threshold is tuned on."""
        return False

    @property
    def promise_(self) -> Promise | list[Promise] | None:
        """What is promised of the constraint of the metric, with ``confidence``; of labels a list.
        None without a confidence, or at another threshold."""
        promises = self._decision.promises
        return promises[0] if promises and self._task.single else list(promises) or None

    def _keep(self, decision: Decision) -> None:
        for name in ("threshold_", "offsets_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self._decision = decision
        setattr(self, f"{self._task.parameter}_", decision.threshold)

    def __getstate__(self) -> State:
        unsaved = ("_oof_scores", "_costs")
        return {k: v for k, v in super().__getstate__().items() if k not in unsaved}

    def with_threshold(self, threshold: Threshold | None = None) -> Self:
        """A copy of the fitted classifier that decides at another threshold.

        ``threshold`` is a number in (0, 1), one for each label, or offsets of the classes of a
        multiclass problem; ``None`` is 1/2 or the largest probability. It is about scores as they
        are, also where probabilities are calibrated.
        """
        self._check_fitted()
        copied, count = copy.copy(self), len(self.classes_)
        if "threshold" in self.get_params(deep=False):
            copied.threshold = threshold
        plain_one = Decision.plain(self._task, count)
        copied._keep(plain_one if threshold is None else Decision.at(self._task, threshold, count))
        return copied

    # --- predict ---------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _checked(self, X: Rows) -> Array:
        self._check_fitted()
        return validate_data(self, X, reset=False, dtype=np.float64)

    def predict_proba(self, X: Rows) -> Array:
        """Probabilities ``(n, classes)`` in the order of ``classes_``, or ``(n, labels)``.

        Training for a metric, weights of classes and many models leave them too far from what
        happens; with ``calibrate=True`` they are calibrated on out-of-fold scores. Decisions are
        made on the scores: ``predict`` is then not ``predict_proba >= threshold_``.
        """
        return self._by_class(self._scored(self._checked(X))[0])

    def predict_log_proba(self, X: Rows) -> Array:
        """The logarithms of ``predict_proba``, in the same columns."""
        z = self._believed(self._scores(self._checked(X)))
        if self._task.exclusive:
            return log_softmax(z, axis=-1)
        if self._task.independent:
            return log_expit(z)
        return np.column_stack([log_expit(-z), log_expit(z)])[:, :: 2 * self._labels.positive - 1]

    def _by_class(self, p: Array) -> Array:
        if not self._task.single:
            return p
        return np.column_stack([1 - p, p] if self._labels.positive == 1 else [p, 1 - p])

    def _margin(self, scores: Array, X: Rows, sample_cost: Costs) -> Array:
        """Above 0 where the decision is 1: by the threshold, or by the costs of each row."""
        rule = self._decision.costs
        needed = sample_cost is not None or (rule is not None and rule.by_row)
        costs = self._row_costs(X, sample_cost) if needed else None
        return self._decision.margin(scores) if rule is None else rule.margin(scores, costs)

    def _decided(self, scores: Array, X: Rows, sample_cost: Costs) -> Array:
        if self._decision.costs is None:
            if sample_cost is not None:
                self._row_costs(X, sample_cost)  # raises ValueError where there is no use for them
            return self._decision(scores)
        return (self._margin(scores, X, sample_cost) > 0).astype(np.int64)

    def predict_both(self, X: Rows, sample_cost: Costs = None) -> tuple[Array, Array]:
        """``predict_proba(X)`` and ``predict(X)``, for the time of one of them."""
        p, scores = self._scored(self._checked(X))
        return self._by_class(p), self._labels.decode(self._decided(scores, X, sample_cost))

    def decision_function(self, X: Rows, sample_cost: Costs = None) -> Array:
        """``logit p - logit threshold`` of ``classes_[1]``: above 0 exactly where it is predicted.
        Where rows are decided by their costs, what is expected to be saved by predicting it.

        Multiclass: log-probabilities with their offsets, ``(n, classes)``; of labels,
        ``(n, labels)``.
        """
        d = self._margin(self._scores(self._checked(X)), X, sample_cost)
        return d if self._labels.positive == 1 else -d

    def predict(self, X: Rows, sample_cost: Costs = None) -> Array:
        """Classes ``(n,)``, or 0/1 ``(n, labels)``, by the tuned (or given) threshold; or by the
        costs of each row, which are columns of ``X`` or ``sample_cost``, where that is cheaper."""
        x = self._checked(X)
        return self._labels.decode(self._decided(self._scores(x), X, sample_cost))

    def score(
        self,
        X: Rows,
        y: Labels,
        sample_weight: ArrayLike | None = None,
        sample_cost: Costs = None,
    ) -> float:
        """The metric of ``predict``; of the scores for areas and other goals that judge them."""
        scores, goal = self._scores(self._checked(X)), get_goal(self.metric)
        target = self._labels.encode(y, unseen="number")
        costs = self._row_costs(X, sample_cost)
        if costs is not None:
            weight = checked_weights(sample_weight, scores)
            flagged = self._decided(scores, X, sample_cost)
            return -mean_cost(flagged, target == 1, weight, costs)
        logits = goal.by_scores
        scores = scores if logits else self._decision.one_hot(scores)
        unseen = target.max() + 1 - scores.shape[1] if self._task.exclusive else 0
        if unseen > 0:  # classes that training never saw are never predicted
            scores = np.pad(scores, [(0, 0), (0, unseen)], constant_values=-np.inf if logits else 0)
        return evaluate(
            scores, target, goal, task=self._task, from_logits=logits, sample_weight=sample_weight
        )

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> State:
        """What a subclass has learned, as plain data and tensors."""
        raise NotImplementedError

    def _relearn(self, fitted: State) -> None:
        """The inverse of ``_learned``; sets ``n_features_in_`` too."""
        raise NotImplementedError

    def state(self) -> State:
        """The fitted classifier as plain data and tensors; ``from_state`` is the way back.

        A parameter that is an object of your own is left out.
        """
        check_is_fitted(self)
        params = {k: plain(v) for k, v in self.get_params(deep=False).items() if k != "metric"}
        names = getattr(self, "feature_names_in_", None)
        rule = self._decision.costs
        fitted = {
            "task": self._task,
            "positive": self._labels.positive,
            "fraction": self._labels.fraction,
            "classes": pack_array(self.classes_),
            "names": None if names is None else pack_array(names),
            "cut": torch.from_numpy(np.array(self._decision.logit)),
            "promises": [plain(promise.packed()) for promise in self._decision.promises],
            **self._packed_reference(),
            "costs": None if rule is None else plain(rule.packed()),
            **self._learned(),
        }
        return {"metric": pack_metric(self.metric), "params": params, "fitted": fitted}

    @classmethod
    def from_state(cls, content: State, metric: MetricLike | None = None) -> Self:
        """The classifier of ``state()``; ``metric`` if it was a function of your own."""
        model = cls(metric=restored_metric(content["metric"], metric), **content["params"])
        fitted = content["fitted"]
        model._restore_labels(fitted)
        if fitted["names"] is not None:
            model.feature_names_in_ = unpack_array(fitted["names"])
        model._keep(model._restored_decision(fitted))
        model._restore_reference(fitted)
        model._relearn(fitted)
        return model

    def _restore_labels(self, fitted: State) -> None:
        classes = unpack_array(fitted["classes"])
        fraction = fitted.get("fraction")
        self._labels = LabelEncoding(
            fitted["task"],
            classes,
            int(fitted["positive"]),
            None if fraction is None else float(fraction),
        )
        self.classes_ = classes

    def _restored_decision(self, fitted: State) -> Decision:
        thresholds = fitted["cut"].double().numpy()
        shape = self._task.shape(len(self.classes_))
        if thresholds.shape != shape or not np.isfinite(thresholds).all():
            raise ValueError(
                "a finite threshold for each label, or an offset for each class, expected"
            )
        promises = tuple(Promise.unpacked(data) for data in fitted.get("promises", ()))
        costs, cost = fitted.get("costs"), get_goal(self.metric).metric
        if costs is None or not isinstance(cost, Cost):
            return Decision(self._task, thresholds, promises)
        return Decision(self._task, thresholds, promises, CostDecision.unpacked(cost, costs))

    def save(self, path: PathLike) -> None:
        """Write the fitted classifier to one file, without pickle; see ``state``."""
        write_file(path, type(self).__name__, self.state())

    @classmethod
    def load(cls, path: PathLike, metric: MetricLike | None = None) -> Self:
        """Read what ``save`` wrote; ``metric`` is needed if it was a function of your own."""
        content = read_file(path, cls.__name__)
        with whole(os.path.basename(path), cls.__name__):
            return cls.from_state(content, metric)
