"""``MetricThresholdClassifier``: any classifier of scikit-learn, with a threshold tuned for a
metric."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import torch
from scipy.special import expit
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags, check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split, available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_is_fitted,
)

from softset.checks import listed, warn_user
from softset.classifiers import out_of_bag, responses
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.folds import Splits, cv_splits, holdout_split
from softset.classifiers.parts import is_part, pack_part, unpack_part
from softset.classifiers.row_costs import Costs, row_costs
from softset.classifiers.trees import SavedForest
from softset.decisions.confidence import threshold_interval
from softset.decisions.decision import Decision
from softset.decisions.resampling import Gain, tuning_gain
from softset.decisions.tuner import Tuner
from softset.metrics.registry import MetricLike, get_goal
from softset.tables.labels import (
    LabelEncoding,
    PositiveClassWarning,
    checked_weights,
    encoding_of,
    read_classes,
)
from softset.tasks import TINY, to_log_probabilities
from softset.typing import (
    CV,
    Array,
    ArrayLike,
    Label,
    Labels,
    RandomState,
    Rows,
    Settings,
    State,
    Threshold,
)


class MetricThresholdClassifier(MetaEstimatorMixin, DecidingClassifier):  # type: ignore[misc]
    """Any scikit-learn classifier, with the threshold that is best for a metric.

    The estimator is fitted on all folds but one in turn and scores the rows of that one; the
    threshold is tuned on these out-of-fold scores (multiclass: offsets of their
    log-probabilities; multilabel: one threshold each), by smoothed counts where there are
    two classes. It differs from the estimator's own only where that is better on rows which the
    threshold was not tuned on. docs/efficacy.md has what was measured to choose this rule.

    ``X`` goes to the estimator as it is: data frames, sparse matrices, texts. Equal rows are in one
    fold where they can be told, and unless most rows have an equal one.

    Args:
        estimator: a classifier with ``predict_proba`` or ``decision_function``; it is cloned and
            fitted, also if it is fitted already, unless ``cv="prefit"``.
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``. Recall alone is
            best if every row is taken for the positive class: choose one to which false positives
            matter too, such as ``"f2"``.
        cv: folds (fewer where a class has fewer rows, with a warning), a splitter, or pairs of
            training and test rows. ``"oob"``: the estimator is fitted once, and the threshold is
            tuned on its out-of-bag probabilities: for random forests, ``ExtraTreesClassifier``
            with ``bootstrap=True``, and whatever else has ``oob_decision_function_``.
            ``"prefit"``: the estimator is fitted already, and only the threshold is tuned on ``X``
            and ``y``, which it should not have seen.
        refit: fit the estimator on all rows, for predictions; if not, the mean of the fold models
            predicts. Without effect where ``cv`` is ``"oob"`` or ``"prefit"``.
        threshold: ``"tuned"``; ``None`` for 1/2 or the largest probability; or a probability in
            (0, 1), one for each label; for multiclass problems offsets, one for each class.
        confidence: with a metric at a constraint (``"precision@recall>=0.9"``), choose a threshold
            that keeps it on new rows with this probability: see ``promise_``. It is exact with
            ``cv="prefit"`` or ``holdout_fraction``, approximate otherwise.
        calibrate: calibrate ``predict_proba`` on out-of-fold scores; no decision changes.
        holdout_fraction: tune the threshold on this fraction of the rows, which the estimator is
            not fitted on, instead of on folds.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        n_jobs: fits at the same time; ``None`` is one.
        random_state: of the folds and the intervals.
        verbose: 1 shows progress, in lines of joblib.

    Sample weights go to the estimator where its ``fit`` takes them (of a pipeline: to its last
    step), and weigh the metric in any case. With scikit-learn's metadata routing they go where
    they are requested.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        estimator_: the fitted classifier; ``estimators_``, in a list of one, or those of the folds.
        threshold_: the threshold(s) in use, as probabilities, or on the scale of
            ``decision_function`` if there are none; ``offsets_`` for multiclass problems.
        interval_: the 95 % confidence interval of the threshold that is best in the population,
            ``(2,)``, or ``(labels or classes, 2)``: all thresholds whose metric is not
            significantly below the best one. 0 or 1 (infinite for scores and offsets) is an end
            where nothing is excluded. Offsets of classes have one each, with the others held.
        gain_: what tuning gains on rows that neither the threshold nor the choice to use it has
            seen, with its interval: see ``softset.decisions.resampling.Gain``. It and
            ``interval_`` are ``None`` where nothing can be tuned: fewer than 20 rows, areas under
            curves; ``interval_`` also for very many classes.

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(1000, weights=[0.9], flip_y=0.1, random_state=0)
    >>> model = MetricThresholdClassifier(LogisticRegression(), "f1", random_state=0).fit(X, y)
    >>> bool(model.interval_[0] < model.threshold_ < model.interval_[1] < 0.5)
    True
    >>> bool(model.gain_.gain > 0), model.predict(X[:3]).shape
    (True, (3,))
    """

    class_weight = None
    _response = responses.RESPONSES[0]

    def __init__(
        self,
        estimator: BaseEstimator,
        metric: MetricLike = "f1",
        *,
        cv: CV = 5,
        refit: bool = True,
        threshold: Threshold | str | None = "tuned",
        confidence: float | None = None,
        calibrate: bool = False,
        holdout_fraction: float | None = None,
        pos_label: Label | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.cv = cv
        self.refit = refit
        self.threshold = threshold
        self.confidence = confidence
        self.calibrate = calibrate
        self.holdout_fraction = holdout_fraction
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags, of_estimator = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = of_estimator.input_tags
        if of_estimator.classifier_tags is not None:
            tags.classifier_tags.multi_label = of_estimator.classifier_tags.multi_label
        return tags

    # --- fit -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Rows,
        y: Labels,
        sample_weight: ArrayLike | None = None,
        sample_cost: Costs = None,
        **fit_params: Any,
    ) -> Self:
        """Fit on ``X``, whatever the estimator takes, and ``y (n,)`` or 0 and 1 ``(n, labels)``.

        Weights go to the estimator as they are: their scale may mean something to its penalties.
        ``sample_cost`` has costs of each row, by column or ``(n, 4)``. ``fit_params`` go to ``fit``
        of the estimator, by rows if they have an entry for each; or as routed by scikit-learn.
        """
        self._response = responses.response_of(self.estimator)
        if y is None:
            self._refuse_no_target()
        (X,) = indexable(X)
        costs = row_costs(get_goal(self.metric), X, sample_cost)
        _, codes, weight = self._start(np.empty((_num_samples(X), 0)), y, sample_weight, costs)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2).tolist()
        self._least, self._estimators = TINY, 0
        self._constant: Array | None = None  # labels that do not vary have their value there
        splits: Splits = []
        if self.holdout_fraction is not None and isinstance(self.cv, str):
            raise ValueError(f"holdout_fraction does not go with cv={self.cv!r}.")
        if self._cv_is("prefit"):
            if fit_params:
                raise ValueError(f"cv='prefit' fits nothing, got {listed(fit_params)} for fit.")
            models = self.estimators_ = [self.estimator]
        else:
            weights = None if sample_weight is None else checked_weights(sample_weight, codes)
            passed, to_splitter = self._routed(weights, fit_params)
            held = self.holdout_fraction
            refit = (self.refit or self._cv_is("oob")) and held is None
            everything = np.flatnonzero(weight > 0)
            target = self._labels.decode(codes)
            if self._cv_is("oob") and self._task.independent:
                self._constant = out_of_bag.constant_labels(codes[everything])
                target = np.squeeze(target[:, np.isnan(self._constant)])
            if held is not None:
                splits = holdout_split(held, X, codes, weight, seeds[0])
            elif not self._cv_is("oob") and (self._holds_out() or not refit):
                splits = cv_splits(self.cv, X, self._labels, codes, weight, seeds[0], **to_splitter)
            training_rows = [*(train for train, _ in splits), *([everything] if refit else [])]
            models = self._fitted(X, target, training_rows, passed)
            self.estimators_ = models[-1:] if refit else models
            if self._cv_is("oob"):
                self._estimators = len(models[0].estimators_)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(models[-1], name):
                setattr(self, name, getattr(models[-1], name))
        self._tune(X, codes, weight, splits, models, seeds[1])
        return self

    def _check_threshold(self) -> None:
        fixed = self.threshold is not None and not isinstance(self.threshold, str)
        if fixed and self._response == "decision_function":
            raise ValueError(
                "threshold must be 'tuned' or None where estimator has no predict_proba, got "
                f"{self.threshold!r}."
            )
        super()._check_threshold()

    def _cv_is(self, name: str) -> bool:
        return isinstance(self.cv, str) and self.cv == name

    def _read_labels(self, y: Labels) -> tuple[LabelEncoding, Array]:
        if not self._cv_is("prefit"):
            return super()._read_labels(y)
        check_is_fitted(self.estimator)
        labels, codes = super()._read_labels(y)
        if labels.task.independent:
            return labels, codes
        classes = read_classes(list(self.estimator.classes_))
        names = labels.decode(codes).tolist()
        counts = np.array([names.count(c) for c in classes.tolist()])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PositiveClassWarning)  # y has had its warning
            labels = encoding_of(classes, counts, self.pos_label)
        return labels, labels.encode(y)

    @property
    def estimator_(self) -> BaseEstimator:
        """The fitted estimator that predicts; with ``refit=False`` there are several."""
        if len(self.estimators_) > 1:
            raise AttributeError("with refit=False the models of the folds predict: estimators_.")
        return self.estimators_[0]

    def get_metadata_routing(self) -> MetadataRouter:
        """Where parameters of ``fit`` go: to the estimator, and ``groups`` to a splitter."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=mapping)
        mapping = MethodMapping().add(caller="fit", callee="split")
        return router.add(splitter=self.cv, method_mapping=mapping)

    def _routed(self, weight: Array | None, fit_params: Settings) -> tuple[Settings, Settings]:
        """What goes to ``fit`` of the estimator, and what to the splitter."""
        if get_config()["enable_metadata_routing"]:
            weights = {} if weight is None else {"sample_weight": weight}
            routed = process_routing(self, "fit", **weights, **fit_params)
            return routed.estimator.fit, routed.splitter.split
        if weight is None:
            return fit_params, {}
        name = responses.weight_name(self.estimator)
        if name is None:
            warn_user(
                f"{type(self.estimator).__name__}.fit takes no sample_weight: it weighs the metric "
                "and the threshold only.",
            )
            return fit_params, {}
        return {**fit_params, name: weight}, {}

    def _fitted(
        self, X: Rows, target: Array, training_rows: list[Array], passed: Settings
    ) -> list[BaseEstimator]:
        """A fitted estimator for each of some sets of rows."""
        estimator, fit, fits = clone(self.estimator), responses.fit, []
        if self._task.single:  # a classifier of ours inside has the positive class of all rows
            inner = estimator.get_params().items()
            unset = [k for k, v in inner if k.split("__")[-1] == "pos_label" and v is None]
            estimator.set_params(**dict.fromkeys(unset, self._labels.names[1]))
        if self._cv_is("oob"):
            estimator, fit = out_of_bag.bagging(estimator, tunes=self._holds_out()), out_of_bag.fit
        for rows in training_rows:
            x, labels = _safe_split(estimator, X, target, rows)
            settings = _check_method_params(X, passed, indices=rows)
            fits.append(delayed(fit)(clone(estimator), x, labels, settings))
        models: list[BaseEstimator] = Parallel(self.n_jobs, verbose=10 * min(self.verbose, 1))(fits)
        return models

    def _tune(
        self,
        X: Rows,
        codes: Array,
        weight: Array,
        splits: Splits,
        models: list[BaseEstimator],
        seed: int,
    ) -> None:
        """The decision by out-of-fold scores, and how sure it is."""
        self._known: Settings = {}
        self._tuned_on: tuple[Array, Array, Array, Array] | None = None
        if not self._holds_out():
            self._decide_by(None, np.empty(0), np.empty(0))
            return
        if splits:
            held_out = [
                self._raw(model, _safe_split(self.estimator, X, None, test, train)[0])
                for model, (train, test) in zip(models, splits, strict=False)
            ]
            raw, rows = np.concatenate(held_out), np.concatenate([test for _, test in splits])
        elif self._cv_is("oob"):
            p, seen = out_of_bag.probabilities(models[0])
            raw, rows = self._arranged(models[0], p), np.flatnonzero(weight > 0)[seen]
        else:
            rows = np.flatnonzero(weight > 0)
            raw = self._raw(self.estimator, X)[rows]
        # The given order may mean something. The same forest has the same out-of-bag threshold.
        shuffle = np.random.RandomState(0 if self._cv_is("oob") else seed)
        order = shuffle.permutation(len(rows))
        raw, rows = raw[order], rows[order]
        if self._response == "predict_proba":
            self._least = responses.least_probability(raw)
        scores, y, w = self._as_scores(raw), codes[rows], weight[rows]
        tuner = self._tuner()
        tuned = isinstance(self.threshold, str) and tuner.can_tune(y)
        crossed = tuner.crossed(scores, y, w) if tuned else None
        if self.confidence is not None:
            responses.warn_of_repeated(X, rows)
        place = np.full(len(codes), -1)
        place[rows] = np.arange(len(rows))
        self._decide_by(scores, y, w, place, crossed)
        if crossed is not None and not tuner.goal.where.exact and self._costs is None:
            self._tuned_on, self._seed = (crossed, scores, y, w), seed

    @property
    def interval_(self) -> Array | None:
        """The 95 % confidence interval of the best threshold; computed when it is first read."""
        if "interval" not in self._known:
            rows, tuner = self._tuned_on, self._tuner()
            interval = None if rows is None else threshold_interval(tuner, *rows[1:], self._seed)
            in_logits = self._task.exclusive or self._response == "decision_function"
            self._known["interval"] = interval if interval is None or in_logits else expit(interval)
        return cast("Array | None", self._known["interval"])

    @property
    def gain_(self) -> Gain | None:
        """The out-of-fold gain of tuning; computed when it is first read."""
        if "gain" not in self._known:
            rows = self._tuned_on
            found = None if rows is None else tuning_gain(self._tuner(), *rows, self._seed)
            self._known["gain"] = found
        return cast("Gain | None", self._known["gain"])

    def _keep(self, decision: Decision) -> None:
        super()._keep(decision)
        if self._response == "decision_function" and not self._task.exclusive:
            self.threshold_ = float(decision.logit) if decision.logit.ndim == 0 else decision.logit
            promises = [replace(p, threshold=p.logit) for p in decision.promises]
            self._decision = replace(decision, promises=tuple(promises))

    def _tuner(self) -> Tuner:
        return replace(super()._tuner(), clear=self._cv_is("oob"))

    def _has_new_rows(self) -> bool:
        return self._cv_is("prefit") or self.holdout_fraction is not None

    # --- predict ---------------------------------------------------------------------------------

    def _checked(self, X: Rows) -> Any:
        self._check_fitted()
        return X

    def _raw(self, model: BaseEstimator, X: Rows) -> Array:
        """What the estimator says, columns in the order of codes; labels ``(n, labels)``."""
        respond = out_of_bag.respond if self._cv_is("oob") else responses.respond
        return self._arranged(model, respond(model, self._response, X))

    def _arranged(self, model: BaseEstimator, response: Any) -> Array:
        if self._task.independent:
            classes = model.classes_
            if self._constant is not None and not isinstance(response, list):  # one label varies
                response, classes = [response], [classes]
            if isinstance(response, list):  # of (n, classes of the label)
                pairs = zip(response, classes, strict=True)
                response = np.column_stack([responses.of_one_label(p, c) for p, c in pairs])
            raw = np.asarray(response, dtype=np.float64)
            if self._constant is not None:
                raw = out_of_bag.with_constants(raw, self._constant)
        else:
            raw = np.asarray(response, dtype=np.float64)
            codes = self._labels.encode(model.classes_)
            if raw.ndim == 2 and raw.shape[1] == len(codes):
                raw = raw[:, np.argsort(codes)]
            elif self._task.single and raw.size == len(raw):
                raw = raw.reshape(len(raw)) if codes[1] == 1 else -raw.reshape(len(raw))
        wanted = () if self._one_column() else (len(self.classes_),)
        if raw.shape[1:] != wanted or not np.isfinite(raw).all():
            raise ValueError(
                f"{self._response} of estimator must give a finite number for each class, got "
                f"shape {raw.shape} for {len(self.classes_)} classes from {type(model).__name__}."
            )
        return raw

    def _one_column(self) -> bool:
        return self._task.single and self._response == "decision_function"

    def _as_scores(self, raw: Array) -> Array:
        """The logits or log-probabilities that a ``Decision`` takes."""
        if self._response == "decision_function":
            return raw
        if self._estimators:
            return out_of_bag.as_scores(raw, self._estimators, self._task)
        logs = to_log_probabilities(raw, self._least)
        if self._task.single:
            return logs[:, 1] - logs[:, 0]
        if self._task.independent:
            return logs - to_log_probabilities(1 - raw, self._least)
        return logs

    def _mean(self, X: Rows) -> Array:
        return np.mean([self._raw(model, X) for model in self.estimators_], axis=0)

    def _scores(self, x: Rows) -> Array:
        return self._scored(x)[1]

    @available_if(responses.has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> Array:
        """Probabilities ``(n, classes)`` in the order of ``classes_``, or ``(n, labels)``."""
        return self._by_class(self._scored(self._checked(X))[0])

    @available_if(responses.has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Rows) -> Array:
        """The logarithms of ``predict_proba``, in the same columns; -inf where it is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _by_class(self, p: Array) -> Array:
        if p.ndim == 1:
            return super()._by_class(p)
        return p[:, ::-1] if self._task.single and self._labels.positive == 0 else p

    def _scored(self, x: Rows) -> tuple[Array, Array]:
        raw = self._mean(x)
        scores = self._as_scores(raw)
        p = self._task.probabilities(self._believed(scores)) if self._calibrator else raw
        return p, scores

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> State:
        return {
            "parts": [pack_part(model) for model in self.estimators_],
            "least": self._least,
            "estimators": self._estimators,
            "constant": None if self._constant is None else torch.from_numpy(self._constant),
            "interval": None if self.interval_ is None else torch.from_numpy(self.interval_),
            "gain": None if self.gain_ is None else list(self.gain_),
        }

    def _relearn(self, fitted: State) -> None:
        self.estimators_, self._least = fitted["parts"], float(fitted["least"])
        self.n_features_in_ = self.estimators_[0].n_features_in_
        self._estimators, constant = int(fitted.get("estimators", 0)), fitted.get("constant")
        self._constant = None if constant is None else constant.double().numpy()
        for model in self.estimators_:
            same = is_part(model, self._task, self.classes_, self._constant)
            if model.n_features_in_ != self.n_features_in_ or not same:
                raise ValueError("base models must share the features and classes of the model")
        if not 0 < self._least < 1 or self._estimators < 0:
            raise ValueError("a least probability in (0, 1) expected")
        interval, gain = fitted["interval"], fitted["gain"]
        self._known = {
            "interval": None if interval is None else interval.double().numpy(),
            "gain": None if gain is None else Gain(*(float(v) for v in gain)),
        }

    @classmethod
    def from_state(cls, content: State, metric: MetricLike | None = None) -> Self:
        """The classifier of ``state()``; ``metric`` if it was a function of your own."""
        base_models = [unpack_part(packed, metric) for packed in content["fitted"]["parts"]]
        inner = base_models[0]
        if content["params"].get("cv") != "prefit":
            inner = inner.forest if isinstance(inner, SavedForest) else clone(inner)
            if "pos_label" in inner.get_params(deep=False):
                inner.set_params(pos_label=None)  # fit sets it to the positive class of all rows
        params = {**content["params"], "estimator": inner}
        fitted = {**content["fitted"], "parts": base_models}
        return super().from_state({**content, "params": params, "fitted": fitted}, metric)
