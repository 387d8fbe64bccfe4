"""``MetricMLPClassifier``: scikit-learn's contract around small networks with a threshold tuned for
a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state

from softset.checks import check_number, warn_user
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.export import Exportable, Layers, averaged
from softset.classifiers.path import is_better
from softset.classifiers.row_costs import Costs, places, refuse_beside_stream
from softset.classifiers.streamed import Survey, draw_seeds, survey
from softset.decisions.tuner import Tuner
from softset.metrics.registry import MetricLike, get_goal
from softset.tables.rows import Examples, ordered_rows
from softset.tables.scaling import SQUASH, Scaler
from softset.tables.splits import salted_folds
from softset.tables.streams import Stream, is_stream
from softset.training.data import TensorData, data_of, fold_of, make_data
from softset.training.loop import until_phase
from softset.training.members import train_members
from softset.training.networks import Mlp, score
from softset.training.phases import RecipeLike
from softset.training.recipes import DEFAULT
from softset.training.stack import Member, Trained
from softset.training.streamed import train_streamed
from softset.typing import (
    Array,
    ArrayLike,
    Bools,
    ClassWeight,
    Ints,
    Label,
    Labels,
    PathLike,
    RandomState,
    Rows,
    State,
    Threshold,
)

try:  # from scikit-learn 1.9 on
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Older versions have no callbacks."""

    def with_callbacks(method: Callable) -> Callable:
        """Older versions have no callbacks."""
        return method


# Rows that are scored together: what is computed of them stays in the cache.
_BLOCK = 2**13


class MetricMLPClassifier(CallbackSupportMixin, Exportable, DecidingClassifier):  # type: ignore[misc]
    """Small neural networks with a threshold tuned for a metric, and optionally trained for it.

    ``n_networks`` networks are trained together; their probabilities are averaged. Each leaves out
    one of five folds of the rows, so that together they have seen all. The threshold (multiclass:
    offsets of the log-probabilities) is the one with the best ``metric`` on out-of-fold scores. So
    ``predict`` may disagree with ``predict_proba >= 0.5``.

    Folds are dealt by content within each class, so that the order of the rows does not matter, and
    equal rows are in one fold unless most rows have an equal one. Inputs are standardized, and
    values beyond about 3 standard deviations squashed smoothly.

    There is no ``partial_fit``: early stopping and the threshold need rows that were never
    trained on, and what comes once does not keep any. Rows that do not fit into memory are given to
    ``fit`` as blocks that can be gone through again: a ``ParquetRows``, or a list of ``(X, y)``.

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        recipe: ``"cross-entropy"``; ``"warm"`` (after that, the soft metric) or another name in
            ``softset.training.recipes.RECIPES``, a loss, or a list of ``Phase``. With the threshold
            tuned for the metric, training for it has added nothing: docs/efficacy.md.
        hidden_layer_sizes: widths of the hidden layers.
        n_networks: how many networks are averaged. With fewer than there are folds, the threshold
            is tuned on the rows that some network leaves out.
        batch_size: the most rows in a batch; ``None`` takes a tenth of the rows, from 32 to 1024.
        max_epochs: the most passes over the data in each phase of the recipe.
        early_stopping: stop all networks after ``patience`` epochs without a better mean of their
            losses on the folds that they leave out.
        validation_fraction: fraction of the rows that each network leaves out, for early stopping
            and the threshold: 0.2 makes five folds.
        threshold: ``"tuned"``; or a number in (0, 1), one for each label; for multiclass problems
            offsets, one for each class; ``None`` is 1/2 or the largest probability.
        confidence: with a metric at a constraint (``"precision@recall>=0.9"``), choose a threshold
            that keeps the constraint on new rows with about this probability: see ``promise_``.
        calibrate: calibrate ``predict_proba`` on out-of-fold scores; no decision changes.
        class_weight: ``None``, ``"balanced"`` or ``{class: weight}``; multiplies sample weights. Of
            labels a list of these, one for each; their factors are multiplied, as in scikit-learn.
        pos_label: the positive class of two. By default 1 or the larger number, a word for yes, or
            the rarer class (``softset.tables.labels.positive_class``).
        random_state: int, ``RandomState`` or ``None``.
        verbose: 1 shows progress: live on a terminal and in a notebook, plain lines elsewhere.

    Attributes:
        classes_, n_features_in_, feature_names_in_: as in scikit-learn.
        threshold_: the threshold(s) in use; ``offsets_`` for multiclass problems.
        history_: for each network, losses and validation metric of every epoch.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(400, weights=[0.9], random_state=0)
    >>> model = MetricMLPClassifier("f1", n_networks=2, random_state=0).fit(X, y)
    >>> model.predict(X[:3]).shape, bool(model.score(X, y) > 0.5)
    ((3,), True)
    """

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        recipe: RecipeLike = DEFAULT,
        hidden_layer_sizes: Sequence[int] = (64, 32),
        n_networks: int = 10,
        batch_size: int | None = None,
        learning_rate: float = 0.003,
        weight_decay: float = 0.01,
        dropout: float = 0.0,
        max_epochs: int = 200,
        early_stopping: bool = True,
        patience: int = 10,
        validation_fraction: float = 0.2,
        threshold: Threshold | str | None = "tuned",
        confidence: float | None = None,
        calibrate: bool = False,
        class_weight: ClassWeight = None,
        pos_label: Label | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.recipe = recipe
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_networks = n_networks
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.threshold = threshold
        self.confidence = confidence
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.verbose = verbose

    # --- fit -------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Rows,
        y: Labels | None = None,
        sample_weight: ArrayLike | None = None,
        sample_cost: Costs = None,
    ) -> Self:
        """Train on ``X (n, features)`` and ``y (n,)``, or ``(n, labels)`` of 0 and 1; or on a
        stream of such blocks, as ``ParquetRows`` is one.

        ``sample_cost`` has costs of each row: columns that the metric names, or ``(n, 4)``.
        """
        check_number("n_networks", self.n_networks, 1, 10**6, closed="low")
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        if self.batch_size is not None:
            check_number("batch_size", self.batch_size, 1, float("inf"), closed="low")
        if y is None and is_stream(X):
            refuse_beside_stream(get_goal(self.metric), sample_weight, sample_cost)
            self._fit_stream(X)
            return self
        table, X = X, self._checked_inputs(X, y)
        costs = self._row_costs(table, sample_cost)
        rows, place = ordered_rows(*self._start(X, y, sample_weight, costs))
        rows = rows._replace(w=rows.w / rows.w.mean())
        random = check_random_state(self.random_state)
        salt = int(random.randint(2**31 - 1))
        seeds = random.randint(2**31 - 1, size=int(self.n_networks))
        fold = self._folds(rows, salt)
        self._scaler = Scaler.of(rows.x, rows.w)
        self._begin(X, y)
        trained = self._train(rows, fold, seeds, self._on_epoch(X, y))
        self._take(trained)
        self._weights = self._better_phase(trained, rows, fold)
        self._tune_on(rows, fold, place)
        self._end(X, y)
        return self

    def _train(
        self, rows: Examples, fold: Ints | None, seeds: Array, on_epoch: Callable[[], bool] | None
    ) -> Trained:
        count = len(rows.x) if fold is None else int((fold != 0).sum())
        return train_members(
            tuple(self.hidden_layer_sizes),
            data_of(rows._replace(x=self._scaler(rows.x))),
            members=self._members(seeds),
            recipe=self.recipe,
            metric=self.metric if self._mean_cost is None else self._mean_cost,
            task=self._task,
            batch_size=self._batch_size(count),
            max_epochs=self.max_epochs,
            patience=self.patience if self.early_stopping else None,
            folds=None if fold is None else fold.tolist(),
            verbose=self.verbose,
            on_epoch=on_epoch,
        )

    def _members(self, seeds: Array) -> list[Member]:
        settings = self.learning_rate, self.weight_decay, self.dropout
        return [Member(int(seed), *settings) for seed in seeds]

    def _take(self, trained: Trained) -> None:
        self._weights = trained.weights.double()
        self._widths = trained.network.widths  # type: ignore[attr-defined]
        self.history_ = trained.history

    def _fit_stream(self, stream: Stream, checkpoint: PathLike | None = None) -> None:
        """``fit`` of rows that come block by block; ``checkpoint`` is a file to go on from."""
        salt, seed, random = draw_seeds(self)
        seeds = random.randint(2**31 - 1, size=int(self.n_networks))
        surveyed = survey(self, stream, self.validation_fraction, salt)
        if self.class_weight is not None:
            surveyed = surveyed.with_weighted_scaler(self, stream)
        self._scaler = surveyed.scaler
        self._take(self._train_stream(stream, surveyed, seeds, seed, checkpoint))
        held = surveyed.held
        self._decide_by(self._scores(held.x) if self._holds_out() else None, held.y, held.w)

    def _train_stream(
        self,
        stream: Stream,
        surveyed: Survey,
        seeds: Array,
        seed: int,
        checkpoint: PathLike | None,
    ) -> Trained:
        task = surveyed.labels.task

        def tensors(name: str, rows: Examples) -> TensorData:
            """Standardized rows as tensors; without weights if all are equal."""
            x, y, w = data_of(rows._replace(x=surveyed.scaler(rows.x)))
            weight = w if w is not None or not surveyed.weighted else rows.w
            return make_data(name, (x, y, weight), task)

        def blocks(number: int) -> Iterator[TensorData]:
            """The blocks of one pass, shuffled by its number."""
            for rows in surveyed.parts(self, stream, seed + number):
                yield tensors("train", rows)

        return train_streamed(
            tuple(self.hidden_layer_sizes),
            blocks,
            tensors("validation", surveyed.held) if self.early_stopping else None,
            outputs=task.outputs(len(surveyed.labels.classes)),
            members=self._members(seeds),
            recipe=self.recipe,
            metric=self.metric,
            task=task,
            batch_size=self._batch_size(surveyed.rows),
            max_epochs=self.max_epochs,
            patience=self.patience,
            source=stream.fingerprint() if hasattr(stream, "fingerprint") else "",
            checkpoint=checkpoint,
            verbose=self.verbose,
        )

    def _folds(self, rows: Examples, salt: int) -> Ints | None:
        """The fold of every row; ``None`` where all networks are trained on all rows."""
        if not (self.early_stopping or self._holds_out()):
            return None
        fold = salted_folds(rows, self._fold_count(), salt)
        if rows.y.ndim == 1:
            self._warn_of_absent(rows.y, rows.y[fold >= 0])
        return fold if fold.max() > 0 else None

    def _batch_size(self, rows: int) -> int:
        """The most rows in a batch, of so many to train on."""
        if self.batch_size is None:
            return min(1024, max(32, rows // 10))
        if self.batch_size > rows:
            warn_user(
                f"batch_size={self.batch_size} is more than the {rows} rows to train on; "
                "all of them make one batch.",
            )
        return int(self.batch_size)

    def _tune_on(self, rows: Examples, fold: Ints | None, place: Ints) -> None:
        """The decision by out-of-fold scores: those of networks not trained on the row."""
        if fold is None:
            self._decide_by(None, np.empty(0), np.empty(0))
            return
        has, scores = self._out_of_fold(rows, fold, self._weights)
        own_place = np.append(places(has), -1)[place]  # -1 stays -1
        held = rows.take(has)  # in the order of hashes
        self._decide_by(scores, held.y, held.w, own_place if self._holds_out() else None)

    def _out_of_fold(
        self, rows: Examples, fold: Ints, weights: torch.Tensor
    ) -> tuple[Bools, Array]:
        """Mask of the rows that a network leaves out, and their scores by such networks."""
        count = int(fold.max()) + 1
        left_out = np.array([fold_of(k, count) for k in range(len(weights))])
        has = np.isin(fold, left_out)
        held, fold = rows.take(has), fold[has]
        scores = np.empty((len(held.y), *self._outputs()))
        for k in np.unique(left_out):
            of_fold = torch.from_numpy(left_out == k)
            scores[fold == k] = self._member_scores(held.x[fold == k], weights[of_fold])
        return has, scores

    def _better_phase(self, trained: Trained, rows: Examples, fold: Ints | None) -> torch.Tensor:
        """The weights after the last phase. Of a goal at a constraint, those after the first unless
        the last is better out of fold."""
        phases = [w.double() for w in (*trained.phase_ends[:1], trained.weights)]
        tuner = Tuner(self._goal(), self._task)
        if not tuner.goal.where.exact or fold is None or len(phases) == 1:
            return phases[-1]
        scored = [self._out_of_fold(rows, fold, weights) for weights in phases]
        held = rows.take(scored[0][0])
        (_, first), (_, last) = scored
        return phases[is_better(first, last, held.y, held.w, tuner)]

    def _tuner(self) -> Tuner:
        # Where every row is scored by a member, a gain need not be clear: see Tuner.
        clear = self.n_networks < self._fold_count()
        return Tuner(self._goal(), self._task, clear=clear, verbose=self.verbose)

    def _fold_count(self) -> int:
        return max(2, round(1 / self.validation_fraction))

    # --- predict ---------------------------------------------------------------------------------

    def _scores(self, x: Array) -> Array:
        return self._member_scores(x, self._weights)

    def _member_scores(self, x: Array, weights: torch.Tensor) -> Array:
        """Of the mean over these members of their probabilities, by blocks of rows."""
        network = self._network()
        batches = []
        for start in range(0, len(x), _BLOCK):
            inputs = torch.from_numpy(self._scaler(x[start : start + _BLOCK]))
            z = score(network, weights, {}, inputs, self._task)
            batches.append(averaged(z, self._task))
        return torch.cat(batches).numpy()

    def _outputs(self) -> tuple[int, ...]:
        return self._task.shape(len(self.classes_))

    def _network(self) -> Mlp:
        return Mlp(self._widths[0], self._widths[1:-1], self._widths[-1])

    def _layers(self) -> Layers:
        self._check_fitted()
        leaves = self._network().leaves(self._weights)
        depth = range(len(self._widths) - 1)
        weights, biases = ([leaves[f"{n}{i}"] for i in depth] for n in ("weight", "bias"))
        return Layers(self._scaler.center, self._scaler.scale, True, weights, biases)

    # --- scikit-learn's callbacks ----------------------------------------------------------------

    def _begin(self, X: Array, y: Labels | None) -> None:
        self._context = None
        if hasattr(self, "_skl_callbacks"):
            self._context = self._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=self, X=X, y=y)

    def _on_epoch(self, X: Array, y: Labels | None) -> Callable[[], bool] | None:
        context = self._context
        if context is None:
            return None

        def call() -> bool:
            task = context.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return task.call_on_fit_task_end(estimator=self, X=X, y=y)

        return call

    def _end(self, X: Array, y: Labels | None) -> None:
        context = self.__dict__.pop("_context")
        if context is not None:
            context.call_on_fit_task_end(estimator=self, X=X, y=y)

    # --- files -----------------------------------------------------------------------------------

    def _learned(self) -> State:
        return {
            "widths": list(self._widths),
            "weights": self._weights,
            "center": torch.from_numpy(self._scaler.center),
            "scale": torch.from_numpy(self._scaler.scale),
            "history": self.history_,
        }

    def _relearn(self, fitted: State) -> None:
        self._widths, self._weights = tuple(fitted["widths"]), fitted["weights"].double()
        center, scale = (fitted[name].double().numpy() for name in ("center", "scale"))
        self._scaler = Scaler(center, scale)
        if any(type(width) is not int for width in self._widths):
            raise ValueError(f"integers as widths expected, got {self._widths}")
        self.n_features_in_ = self._widths[0]
        self.history_ = fitted["history"]
        outputs = self._task.outputs(len(self.classes_))
        size = Mlp(self._widths[0], self._widths[1:-1], outputs).size
        if self._weights.shape != (len(self._weights), size) or self._widths[-1] != outputs:
            raise ValueError(f"{size} weights for {outputs} outputs expected")
        if center.shape != self._widths[:1] or scale.shape != center.shape:
            raise ValueError("a center and a scale for each feature expected")
        # No score can be larger: inputs are within SQUASH.
        top, bound = float(self._weights.abs().max()), SQUASH
        for width in self._widths[:-1]:
            bound = (bound * width + 1) * top
        if not (np.isfinite(center).all() and (scale > 0).all() and np.isfinite(bound)):
            raise ValueError("weights that give finite scores expected")


class PhasedClassifier(MetricMLPClassifier):
    """A ``MetricMLPClassifier`` that keeps its rows, and what its first phase gave.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, random_state=0)
    >>> given = {"max_epochs": 3, "n_networks": 2, "random_state": 0}
    >>> first = PhasedClassifier("f1", recipe="warm", **given).fit(X, y).first_phase(threshold=None)
    >>> alone = MetricMLPClassifier("f1", recipe="cross-entropy", threshold=None, **given).fit(X, y)
    >>> bool((first.predict_proba(X) == alone.predict_proba(X)).all())
    True
    """

    def _train(
        self, rows: Examples, fold: Ints | None, seeds: Array, on_epoch: Callable[[], bool] | None
    ) -> Trained:
        trained = super()._train(rows, fold, seeds, on_epoch)
        self._after_first = [*trained.phase_ends, trained.weights][0]
        return trained

    def _tune_on(self, rows: Examples, fold: Ints | None, place: Ints) -> None:
        self._seen = rows, fold, place
        super()._tune_on(rows, fold, place)

    @property
    def first_phase_share(self) -> float:
        """The fraction of all epochs that were in the first phase."""
        epochs = [phase for history in self.history_ for phase in history["phase"]]
        return epochs.count(0) / max(1, len(epochs))

    def first_phase(self, **params: Any) -> MetricMLPClassifier:
        """What the first phase alone gives with other parameters (of the decision)."""
        earlier = MetricMLPClassifier(**{**self.get_params(deep=False), **params})
        unchanged = [*earlier.get_params(deep=False), "_after_first", "_seen"]
        earlier.__dict__.update({k: v for k, v in vars(self).items() if k not in unchanged})
        earlier._weights = self._after_first.double()
        earlier.history_ = [until_phase(history, 1) for history in self.history_]
        earlier._tune_on(*self._seen)
        return earlier
