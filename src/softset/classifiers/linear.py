"""``MetricLinearClassifier``: logistic regression fine-tuned for the metric, as far as that
helps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self, cast

import numpy as np
import torch
from scipy import sparse
from scipy.special import log_softmax, logit
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from softset.checks import check_number
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.export import Exportable, Layers
from softset.classifiers.folds import given_folds
from softset.classifiers.linear_path import PathSettings, fit_path
from softset.classifiers.linear_stream import fit_stream
from softset.classifiers.path import (
    FittedPath,
    PathPoint,
    Target,
    Training,
    origins_of,
    rarest_rows,
    sample_in_memory,
)
from softset.classifiers.row_costs import Costs, places, refuse_beside_stream, refuse_costs
from softset.classifiers.scorecard import Scorecard, Seen, make_scorecard
from softset.decisions.tuner import Tuner
from softset.formats import Summary
from softset.metrics.registry import MetricLike, get_goal, label_of
from softset.tables.parquet_rows import Block
from softset.tables.rows import Examples, ordered_rows
from softset.tables.scaling import FAR, center_and_spread, varies
from softset.tables.splits import content_folds
from softset.tables.streams import Stream, is_stream
from softset.training.linear import (
    PATH,
    LinearProblem,
    LinearRows,
    checked_monotonic_cst,
    outputs_of,
    scores_of,
)
from softset.training.linear_passes import RankSums
from softset.typing import (
    CV,
    Array,
    ArrayLike,
    ClassWeight,
    Label,
    Labels,
    Matrix,
    PathLike,
    Rows,
    State,
    Threshold,
)


class MetricLinearClassifier(Exportable, DecidingClassifier):
    """A linear model trained for the metric it is evaluated by.

    It starts at logistic regression and moves to the soft metric by full-batch L-BFGS, along a path
    of falling penalties on the distance from the start. How far is chosen on out-of-fold scores
    with the metric itself: the best point that beats the start by more than half a standard error
    of the paired difference, else the start. With few positives that is logistic regression with a
    tuned threshold, which is drawn towards the fraction of positives as if there were three more
    of them. Nothing is random: no seeds, no epochs, no learning rate.

    Inputs are standardized inside (sparse ones only scaled). The order of the rows does not matter.
    Equal rows are in one fold unless most rows have an equal one.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``. Multilabel
            targets have a linear model each, trained for the metric of that label.
        C: of logistic regression, as in scikit-learn. Weights of rows are divided by their mean, so
            that their scale means nothing to any penalty.
        l1_ratio: fraction of the absolute values in its penalty, for sparse models: a coefficient
            that is zero at the start stays zero.
        monotonic_cst: ``(features,)`` of -1, 0 and 1: a coefficient of ``coef_`` must not have the
            other sign.
        cv: folds, or splits as pairs of training and test rows; rows not tested decide nothing.
        path: penalties; an empty one is logistic regression with a tuned threshold. None is tried
            where the rarest class has fewer rows than a tenth of the features, as texts have.
        threshold: ``"tuned"``; or a number in (0, 1), one for each label; for multiclass problems
            offsets, one for each class; ``None`` is 1/2 or the largest probability.
        confidence: keep the constraint of the metric on new rows so surely: see ``promise_``.
        calibrate: calibrate ``predict_proba`` on out-of-fold scores; no decision changes.
        class_weight: ``None``, ``"balanced"`` or ``{class: weight}``; multiplies sample weights. Of
            labels a list of these, one for each; their factors are multiplied, as in scikit-learn.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        sync: ranks of torch.distributed that train together, each with rows of its own: ``"auto"``
            for the default process group, or a process group.
        verbose: 1 shows progress.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        coef_, intercept_: in the units of the inputs; ``(1, features)``, ``(1,)`` of two classes.
        standardized_coef_: the same for inputs of unit variance, to compare features by.
        path_: the points of the path (a list of them for each label), ``chosen_`` its number.
        threshold_: the threshold(s) in use; ``offsets_`` for multiclass problems.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricLinearClassifier("f1").fit(X, y)
    >>> model.coef_.shape, bool(model.score(X, y) > 0.6)
    ((1, 20), True)
    """

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        monotonic_cst: ArrayLike | None = None,
        cv: CV = 5,
        path: Sequence[float] = PATH,
        threshold: Threshold | str | None = "tuned",
        confidence: float | None = None,
        calibrate: bool = False,
        class_weight: ClassWeight = None,
        pos_label: Label | None = None,
        sync: object = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.C = C
        self.l1_ratio = l1_ratio
        self.monotonic_cst = monotonic_cst
        self.cv = cv
        self.path = path
        self.threshold = threshold
        self.confidence = confidence
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.sync = sync
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- fit -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Rows,
        y: Labels | None = None,
        sample_weight: ArrayLike | None = None,
        sample_cost: Costs = None,
    ) -> Self:
        """Train on ``X (n, features)``, dense or sparse, and ``y (n,)`` or ``(n, labels)``; or on a
        stream of such blocks, as ``ParquetRows`` is one. With ``sync``, every rank calls it with
        rows of its own. ``sample_cost`` has costs of each row, by column or ``(n, 4)``."""
        check_number("C", self.C, 0, float("inf"))
        check_number("l1_ratio", self.l1_ratio, 0, 1, closed="both")
        check_number("path", list(self.path), 0, float("inf"))
        if y is None and is_stream(X):
            refuse_beside_stream(get_goal(self.metric), sample_weight, sample_cost)
            self._fit_stream(X)
            return self
        if RankSums(self.sync).size > 1:
            refuse_costs(get_goal(self.metric), sample_cost)
            if y is None:
                self._refuse_no_target()
            labels_and_weight = [np.asarray(v) for v in (y, sample_weight) if v is not None]
            block: Block = (X, *labels_and_weight)
            self._fit_stream([block])
            return self
        x = self._checked_inputs(X, y)
        user_fold, trains = given_folds(self.cv, x, y) or (None, None)
        rows = self._start(x, y, sample_weight, self._row_costs(X, sample_cost))
        goal = self._goal()
        signs = self._signs(x.shape[1])
        # Columns that do not vary tell nothing: without them nothing can depend on them.
        some = varies(x if (rows.w > 0).all() else x[rows.w > 0])
        if some.any() and not some.all():
            rows, signs = rows._replace(x=x[:, some]), None if signs is None else signs[some]
        place, some_weight = None, rows.w > 0
        if user_fold is None or trains is None:
            rows, place = ordered_rows(*rows)
        else:
            place = places(some_weight & (user_fold >= 0))
            user_fold, trains = user_fold[some_weight], trains[:, some_weight]
            rows = rows.take(some_weight)
        tested = slice(None) if user_fold is None else user_fold >= 0  # the others have no say
        place = place if goal.tunes else None  # nothing is held out where nothing is tuned
        self._center, self._scale = center_and_spread(rows.x, rows.w)
        sample = sample_in_memory(rows)
        fold = (
            user_fold[sample]
            if user_fold is not None
            else content_folds(rows.take(sample), int(cast(int, self.cv)))
        )
        raw, rows = rows.x, rows._replace(x=self._scaled(rows.x))
        part = rows if len(sample) == len(rows.y) else rows.take(sample)

        def whole(label: int | None) -> LinearProblem:
            """All rows, for the fit that predicts."""
            return self._problem(rows, signs, label)

        trains = fold != np.arange(fold.max() + 1)[:, None] if trains is None else trains[:, sample]
        labels = range(rows.y.shape[1]) if self._task.independent else [None]
        rarest = [
            rarest_rows(v, rows.w) if len(np.unique(v)) > 1 else 0.0 for v in _targets(rows.y)
        ]
        others = None if part is rows else whole
        fitted = self._fit_paths(part, fold, trains, labels, others, signs, rarest)
        positive = rows.w @ rows.y if self._task.single else 0.5 * rows.w.sum()
        self._prior = float(logit(positive / rows.w.sum()))
        # In sample where there are no out-of-fold scores, or of some only: of so many rows hardly
        # too good.
        pairs = [
            one.oof
            if one.oof is not None and part is rows
            else tuple(whole(k).scores(flat) for flat in (one.start, one.flat))
            for k, one in zip(labels, fitted, strict=True)
        ]
        scores = self._task.joined([z for _, z in pairs])
        self._decide_by(scores[tested], rows.y[tested], rows.w[tested], place)
        inputs = raw[sample] if self._task.single else raw[:0]
        origins = origins_of(fitted, [z for z, _ in pairs])
        self._training = Training(rows._replace(x=inputs), place, sample, fold, tested, origins)
        if rows.x.shape[1] < len(some):
            self._widen(some)
        self._describe()
        return self

    def _fit_stream(self, stream: Stream, checkpoint: PathLike | None = None) -> None:
        """``fit`` of rows that come block by block; ``checkpoint`` is a file to go on from."""
        refuse_costs(get_goal(self.metric))
        self._costs = self._mean_cost = None  # of a fit before
        fit_stream(self, stream, checkpoint)

    def _signs(self, features: int) -> Array | None:
        signs = checked_monotonic_cst(self.monotonic_cst, features)
        # Of the positive class, where those of ``coef_`` are the last's.
        reverse = signs is not None and self._task.single and self._labels.positive == 0
        return -signs if signs is not None and reverse else signs

    def _problem(self, rows: Examples, signs: Array | None, label: int | None) -> LinearProblem:
        y = rows.y if label is None else rows.y[:, label]
        classes = 2 if label is not None else len(self.classes_)
        return LinearProblem(rows.x, y, rows.w, classes, signs)

    def _fit_paths(
        self,
        sample: Examples,
        fold: Array,
        trains: Array,
        labels: Iterable[int | None],
        all_rows: Callable[[int | None], LinearRows] | None,
        signs: Array | None,
        rarest: list[float],
    ) -> list[FittedPath]:
        """A model for the classes, or for each label; ``whole`` are all rows, where the sample is
        not."""
        goal, settings = (
            self._goal(),
            PathSettings(self.C, self.l1_ratio, self.path, self.verbose),
        )
        features = int(np.isfinite(self._scale).sum())
        fitted = []
        for k, rare in zip(labels, rarest, strict=True):
            part = self._problem(sample, signs, k)
            rows = part if all_rows is None else all_rows(k)
            goal_of_label = goal if k is None else goal.of_label(k)
            fitted.append(
                fit_path(settings, part, fold, trains, rows, goal_of_label, rare, features)
            )
        self._targets = [Target(one.flat, one.path, one.chosen) for one in fitted]
        return fitted

    def _widen(self, some: Array) -> None:
        """Put back the columns that were left out, with coefficients of 0."""
        outputs = outputs_of(2 if self._task.independent else len(self.classes_))
        self._targets = [target.widened(some, outputs) for target in self._targets]
        self._training = self._training.widened(some, outputs)
        center, scale = np.zeros(len(some)), np.full(len(some), np.inf)
        center[some], scale[some] = self._center, self._scale
        self._center, self._scale = center, scale

    def _checked_inputs(self, X: Rows, y: Labels) -> Matrix:
        if y is None:
            self._refuse_no_target()
        x = validate_data(
            self, X, dtype=np.float64, ensure_min_samples=2, accept_sparse=["csr", "csc"]
        )
        return sparse.csr_matrix(x) if sparse.issparse(x) else x

    def _checked(self, X: Rows) -> Matrix:
        self._check_fitted()
        return validate_data(self, X, reset=False, dtype=np.float64, accept_sparse=["csr", "csc"])

    def _scaled(self, x: Matrix) -> Matrix:
        with np.errstate(over="ignore"):  # what is beyond FAR is clipped
            if sparse.issparse(x):
                scaled = sparse.csr_matrix(x @ sparse.diags(1 / self._scale))
                scaled.data = np.clip(scaled.data, -FAR, FAR)
                return scaled
            u = x - self._center  # in place from here on: rows may be many
            u /= self._scale
        return np.clip(u, -FAR, FAR, out=u)

    def _tuner(self) -> Tuner:
        """With few positives a threshold is drawn to their fraction of the rows, where logistic
        regression says that both are as likely as in all rows; a moved model decides at 0."""
        if not self._task.single:
            return super()._tuner()
        toward = 0.0 if self._targets[0].chosen else self._prior
        return Tuner(self._goal(), self._task, toward=toward, verbose=self.verbose)

    # --- what it has learned ---------------------------------------------------------------------

    def _describe(self) -> None:
        outputs = [outputs_of(2 if self._task.independent else len(self.classes_))]
        outputs *= len(self._targets)
        coef = [t.flat[:-k].reshape(k, -1) for t, k in zip(self._targets, outputs, strict=True)]
        first = [t.flat[-k:] for t, k in zip(self._targets, outputs, strict=True)]
        self.standardized_coef_ = np.concatenate(coef)
        with np.errstate(over="ignore", invalid="ignore"):  # a spread may be next to 0
            self.coef_ = self.standardized_coef_ / self._scale
            self.intercept_ = np.concatenate(first) - self.coef_ @ self._center
        if self._task.single and self._labels.positive == 0:
            for name in ("standardized_coef_", "coef_", "intercept_"):
                setattr(self, name, -getattr(self, name))
        multilabel = self._task.independent
        self.path_ = [t.path for t in self._targets] if multilabel else self._targets[0].path
        self.chosen_ = [t.chosen for t in self._targets] if multilabel else self._targets[0].chosen

    def summary(self) -> Summary:
        """The coefficients by their size, the threshold, and the gain of the path."""
        self._check_fitted()
        names = self._names()
        facts = [f"{type(self).__name__} for {label_of(self.metric)}"]
        for target in self._targets:
            if target.path:
                point = target.path[target.chosen]
                gain = f"penalty {point.penalty:g} ({point.gain:+.3f} ± {point.error:.3f})"
                moved = f"fine-tuned from logistic regression: {gain}"
                stays = "logistic regression: fine-tuning did not help out of fold"
                facts.append(moved if target.chosen else stays)
        threshold = getattr(self, f"{self._task.parameter}_")
        facts += [f"threshold: {np.round(threshold, 4)}", self._probabilities_in_words()]
        # A column for each class of several, or each label.
        count = len(self.coef_)
        outputs = self.classes_ if len(self.classes_) == count else range(count)
        ends = [""] if self._task.single else [f" {output}" for output in outputs]
        head = [unit + end for unit in ("standardized", "in its units") for end in ends]
        scaled, raw = self.standardized_coef_, self.coef_
        order = np.argsort(-np.abs(scaled).max(0), kind="stable")
        rows = [
            [str(names[j]), *(f"{v:+.3f}" for v in scaled[:, j]), *(f"{v:+.4g}" for v in raw[:, j])]
            for j in order
        ]
        return Summary.of(facts, ["coefficient", *head], rows)

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", self.__dict__.get("_table_names"))
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else list(names)

    def scorecard(self, max_points: int = 20) -> Scorecard:
        """The model of two classes as integer points, at most ``max_points`` from one feature.

        Features are cut into bins at training quantiles; the threshold of the points is tuned for
        the metric as that of the model, on out-of-fold points, and ``score_`` is measured so.
        """
        training = self._of_training("scorecard")
        if not self._task.single or not get_goal(self.metric).tunes:
            raise ValueError(
                "scorecard is for two classes and a metric of decisions, got "
                f"{self._task} and {label_of(self.metric)}."
            )
        (origin,) = training.origins
        x, y, w = training.rows
        keep = training.sample
        seen = Seen(x, y[keep], w[keep], training.fold, self._center, self._scale)
        return make_scorecard(
            seen,
            self._targets[0].flat,
            origin.parts,
            max_points,
            super()._tuner(),
            None if isinstance(self.threshold, str) else self._decision,
            self._names(),
            self._labels,
        )

    def logistic_part(self, threshold: Threshold | str | None = "tuned") -> Self:
        """What ``path=()`` would have given, from this fit."""
        training = self._of_training("logistic_part")
        part = clone(self).set_params(path=(), threshold=threshold)
        part.__dict__.update({k: v for k, v in vars(self).items() if k not in self.get_params()})
        part._targets = [origin.start for origin in training.origins]
        part._check_threshold()
        scores, tested = self._task.joined([o.scores for o in training.origins]), training.tested
        _, y, w = training.rows
        part._decide_by(scores[tested], y[tested], w[tested], training.place)
        part._describe()
        del part._training  # its folds are those of the moved model
        return part

    def _of_training(self, name: str) -> Training:
        self._check_fitted()
        training = self.__dict__.get("_training")
        if training is None:
            raise ValueError(
                f"{name} needs rows that fit has seen, which files, pickles and copies of a model "
                "do not hold. Call it on the model that was fitted."
            )
        return training

    def __getstate__(self) -> State:
        return {k: v for k, v in super().__getstate__().items() if k != "_training"}

    # --- predict ---------------------------------------------------------------------------------

    def _scores(self, x: Matrix) -> Array:
        x = self._scaled(x)
        classes = 2 if self._task.independent else len(self.classes_)
        z = self._task.joined([scores_of(x, t.flat, outputs_of(classes)) for t in self._targets])
        return log_softmax(z, 1) if self._task.exclusive else z

    def _layers(self) -> Layers:
        """A network of one member without a hidden layer; labels are its outputs."""
        self._check_fitted()
        outputs = outputs_of(2 if self._task.independent else len(self.classes_))
        coef = np.concatenate([t.flat[:-outputs].reshape(outputs, -1) for t in self._targets])
        first = np.concatenate([t.flat[-outputs:] for t in self._targets])
        weight, bias = torch.from_numpy(coef.T)[None], torch.from_numpy(first)[None, None]
        return Layers(self._center, self._scale, False, [weight], [bias])

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> State:
        return {
            "center": torch.from_numpy(self._center),
            "scale": torch.from_numpy(self._scale),
            "prior": self._prior,
            "targets": [
                {
                    "flat": torch.from_numpy(t.flat),
                    "path": [list(point) for point in t.path],
                    "chosen": t.chosen,
                }
                for t in self._targets
            ],
        }

    def _relearn(self, fitted: State) -> None:
        (features,) = fitted["center"].shape
        self._prior = float(fitted["prior"])
        self.n_features_in_ = features
        self._center = _numbers(fitted["center"], features)
        self._scale = _numbers(fitted["scale"], features)  # infinite where a column was constant
        size = outputs_of(2 if self._task.independent else len(self.classes_)) * (features + 1)
        self._targets = []
        for t in fitted["targets"]:
            path, chosen = [PathPoint(*map(float, point)) for point in t["path"]], t["chosen"]
            if type(chosen) is not int or not 0 <= chosen < max(len(path), 1):
                raise ValueError(f"chosen must be one of {len(path)} points, got {chosen!r}")
            self._targets.append(Target(_numbers(t["flat"], size), path, chosen))
        if len(self._targets) != (len(self.classes_) if self._task.independent else 1):
            raise ValueError("a model for each label expected")
        # No score can be larger: scaled inputs are within FAR.
        bounds = [FAR * float(np.abs(t.flat).sum()) for t in self._targets]
        bounds += [self._prior, *self._center]
        if not np.isfinite(bounds).all() or not (self._scale > 0).all():
            raise ValueError("scales and coefficients that give finite scores expected")
        self._describe()


def _targets(y: Array) -> list[Array]:
    """The classes, or each label."""
    return [y] if y.ndim == 1 else list(y.T)


def _numbers(values: torch.Tensor, size: int) -> Array:
    numbers: Array = values.numpy()
    if numbers.dtype != float or numbers.shape != (size,):
        raise ValueError(f"{size} numbers in float64 expected")
    return numbers
