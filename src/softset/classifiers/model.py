"""One file for a model that takes a user's table: the encoder and the classifier, no pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from softset.checks import check_choice, listed
from softset.classifiers.base import DecidingClassifier
from softset.classifiers.export import ExportedModule, to_onnx, to_torch
from softset.classifiers.recipes import (
    CLASSIFIERS,
    RECIPES,
    classifier_class,
    default_recipe,
)
from softset.classifiers.row_costs import Costs, cost_columns
from softset.decisions.shift import Prevalence, Shift
from softset.formats import Summary
from softset.metrics.registry import MetricLike, get_goal
from softset.storage.arrays import pack_array, plain, unpack_array
from softset.storage.container import read_file, whole, write_file
from softset.storage.files import SavedFileError
from softset.storage.schema import decoded
from softset.tables.encoder import TableEncoder, infer_schema
from softset.tables.labels import (
    LabelEncoding,
    PositiveClassWarning,
    SpellingWarning,
    positive_line,
    read_labels,
)
from softset.tables.parquet_rows import ParquetRows
from softset.tables.streams import EncodedRows
from softset.tasks import Task
from softset.training.linear_passes import RankSums
from softset.typing import (
    JSON,
    Array,
    ArrayLike,
    Frame,
    Ints,
    Label,
    Labels,
    PathLike,
    Rows,
    Settings,
    State,
    Threshold,
)

_KIND = "model"
T = TypeVar("T")
Table: TypeAlias = "Frame | Sequence[dict[str, JSON]]"  # of a user: a data frame, or rows by column


@dataclass(frozen=True)
class Importance:
    """``falls`` is how much the metric loses, on average, when ``column`` is shuffled among the
    rows; ``spread`` is the standard deviation over shuffles."""

    column: str
    falls: float
    spread: float


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds: the name of the classifier, and the plain data of each part."""

    classifier: str
    state: State
    encoder: Settings | None
    classes: Settings | None
    info: Settings


@dataclass(frozen=True)
class SavedColumns:
    """Of a model's ``info``, the columns that a table may still have at prediction."""

    target: str | list[str] | None = None
    groups: str | None = None
    drop: list[str] | None = None


class Model:
    """A fitted classifier behind the encoder of its table.

    ``classes_`` (the names of the labels of a multilabel model), ``task``, ``metric``,
    ``threshold`` (offsets of log-probabilities for multiclass models) and ``info``, a dictionary.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [20, 40, 60, 80] * 15, "city": ["Rome", "Oslo"] * 30})
    >>> y = ["old" if age > 50 else "young" for age in frame["age"]]
    >>> model = train_model(frame, y, "f1", recipe="linear-tuned", pos_label="old")
    >>> model.predict([{"age": 75, "city": "Rome"}, {"age": 30, "city": "Oslo"}]).tolist()
    ['old', 'young']
    """

    def __init__(
        self, encoder: TableEncoder | None, classifier: DecidingClassifier, info: Settings
    ) -> None:
        self.encoder, self.classifier, self.info = encoder, classifier, info
        classes = np.asarray(classifier.classes_)
        self.task: Task = classifier.task_
        if encoder is not None:
            classifier._table_names = list(encoder.names_)  # for what it prints of its inputs
        names = info.get("classes")
        self._codes = names is not None  # the classifier was trained on numbers of classes
        self.classes_ = classes if names is None else np.asarray(names)
        if len(self.classes_) != len(classes):
            raise ValueError(
                f"info names {len(self.classes_)} classes, the model has {len(classes)}."
            )

    @property
    def metric(self) -> str:
        """The name of the metric it was trained for."""
        return get_goal(self.classifier.metric).name

    @property
    def threshold(self) -> float | list[float]:
        """The threshold(s), or the offsets of the classes of a multiclass problem."""
        name = f"{self.task.parameter}_"
        value = getattr(self.classifier, name)
        return value if isinstance(value, float) else np.asarray(value).tolist()

    @property
    def positive(self) -> str:
        """The positive class of two and its fraction of the training rows, in words; else empty."""
        labels = self.classifier._labels
        return (
            positive_line(self.classes_[labels.positive], labels.fraction)
            if self.task.single
            else ""
        )

    @property
    def target(self) -> list[str]:
        """The target column(s) of the table it was trained on."""
        names = self.info.get("target") or []
        return [names] if isinstance(names, str) else list(names)

    def summary(self) -> Summary:
        """What the classifier says of itself, with the names of the table's columns."""
        own = getattr(self.classifier, "summary", None)
        words = [repr(self.classifier), self.classifier._probabilities_in_words()]
        text: Summary = own() if own else Summary.of(words)
        return text.after(self.positive) if self.positive else text

    def with_threshold(self, threshold: Threshold | None = None) -> Model:
        """A copy of the model that decides at another threshold.

        ``threshold`` is a probability in (0, 1) of the positive class, or one for each label; for
        multiclass models offsets of the log-probabilities, one for each class. ``None`` is 1/2, or
        the largest probability. ``save`` keeps it.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [20, 40, 60, 80] * 15})
        >>> model = train_model(frame, frame["age"] > 50, "f1", recipe="linear-tuned")
        >>> model.with_threshold(0.3).threshold
        0.3
        """
        return self._moved(self.classifier.with_threshold(threshold))

    def at_prevalence(self, prevalence: Prevalence) -> Model:
        """A copy of the model that decides for another prevalence: the fraction of the positive
        class, or those of the labels or classes; see the method of the classifier.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [20, 40, 60, 80, 50] * 30})
        >>> y = [age > 50 or i % 7 == 0 for i, age in enumerate(frame["age"])]
        >>> model = train_model(frame, y, "f1", recipe="linear-tuned")
        >>> print(model.at_prevalence(0.1).shift)
        prevalence of True: 48.7 % -> 10 %
        """
        if self._codes and isinstance(prevalence, Mapping):
            codes = {str(name): code for code, name in enumerate(self.classes_.tolist())}
            prevalence = {codes.get(str(k), k): v for k, v in prevalence.items()}
        return self._moved(self.classifier.at_prevalence(prevalence))

    def adapt(self, table: Table) -> Model:
        """A copy that decides for the prevalence of new rows, which need no labels: ``shift`` says
        what was found, and whether only the prevalence has changed."""
        return self._moved(self.classifier.adapt(self.inputs(table)))

    def _moved(self, classifier: DecidingClassifier) -> Model:
        return Model(self.encoder, classifier, dict(self.info))

    @property
    def shift(self) -> Shift | None:
        """The change of prevalence that ``at_prevalence`` or ``adapt`` made; None before."""
        shift = self.classifier.shift_
        names = self.target if self.task.independent else []
        if self._codes and not names:
            names = [str(c) for c in self.classes_.tolist()]
        return (
            shift
            if shift is None or not names
            else replace(shift, names=names[-len(shift.names) :])
        )

    def inputs(self, table: Table) -> Array:
        """The numbers that the classifier sees, from a table with the columns of training.

        ``table`` is a data frame, or rows ``[{column: value}, …]``.
        """
        if self.encoder is None:
            return np.asarray(table, dtype=np.float64)
        table = _frame(table)
        unused = {*self.target, self.info.get("groups"), *(self.info.get("drop") or [])}
        unused |= set(getattr(get_goal(self.classifier.metric).metric, "columns", {}).values())
        names = {c.name for c in self.encoder.columns_}
        used = [c for c in table.columns if str(c) in names or str(c) not in unused]
        return self.encoder.transform(table[used])

    def predict_proba(self, table: Table) -> Array:
        """Probabilities ``(n, classes)`` in the order of ``classes_``, or ``(n, labels)``."""
        return np.asarray(self.classifier.predict_proba(self.inputs(table)))

    def predict(self, table: Table, sample_cost: Costs = None) -> Array:
        """Classes ``(n,)``, or 0 and 1 ``(n, labels)``. Costs of each row are columns of the table,
        or ``sample_cost``."""
        return self.predict_both(table, sample_cost)[1]

    def predict_both(self, table: Table, sample_cost: Costs = None) -> tuple[Array, Array]:
        """Probabilities and classes; the table is encoded and scored once."""
        costs, rule = sample_cost, self.classifier.decision_.costs
        if costs is None and rule is not None and rule.by_row and self.encoder is not None:
            costs = cost_columns(get_goal(self.classifier.metric), _frame(table))
        p, decided = self.classifier.predict_both(self.inputs(table), costs)
        return np.asarray(p), self._named(decided)

    def _named(self, decided: ArrayLike) -> Array:
        decided = np.asarray(decided)
        return decided if not self._codes or self.task.independent else self.classes_[decided]

    def codes(self, y: Labels) -> Ints:
        """Labels as numbers of ``classes_``; an unknown one is an error. Text meets text."""
        return LabelEncoding(self.task, np.asarray(self.classes_)).encode(y)

    def named_for_classifier(self, y: Labels) -> Array:
        """Labels as the classifier was trained on them: as given, or numbers of classes."""
        return self.codes(y) if self._codes and not self.task.independent else np.asarray(y)

    def __repr__(self) -> str:
        kind, rows = type(self.classifier).__name__, self.info.get("rows")
        classes = ", ".join(map(str, self.classes_.tolist()[:6]))
        more = ", …" if len(self.classes_) > 6 else ""
        trained = f", trained on {rows} rows" if rows else ""
        inputs = self.classifier.n_features_in_
        positive = f"; {self.positive}" if self.positive else ""
        return (
            f"Model({kind} for {self.metric}, {self.task}: {classes}{more}{positive}; {inputs} "
            f"inputs{trained})"
        )

    def save(self, path: PathLike, **info: Any) -> None:
        """Write it with ``save_model``; ``info`` is added to its own."""
        self.info.update(info)
        save_model(path, encoder=self.encoder, classifier=self.classifier, info=self.info)

    def to_torch(self) -> ExportedModule:
        """The classifier as one module from ``inputs(table)``: see ``export.to_torch``."""
        return to_torch(self)

    def to_onnx(self, path: PathLike) -> None:
        """The same as an ONNX file: see ``export.to_onnx``."""
        to_onnx(self, path)


def _computed(table: T) -> T:
    """Of Dask its rows, in memory; anything else as it is."""
    return table.compute() if hasattr(table, "__dask_graph__") else table  # type: ignore[attr-defined]


def _frame(table: Table) -> Frame:
    table = _computed(table)
    if hasattr(table, "columns"):
        return table
    if isinstance(table, list | tuple) and table and all(isinstance(r, dict) for r in table):
        import pandas as pd  # noqa: PLC0415

        # Cells stay objects, so that a row means the same alone and among others.
        frame = pd.DataFrame(list(table), dtype=object)
        for i, row in enumerate(table):
            if absent := [name for name in frame.columns if name not in row]:
                raise ValueError(
                    f"row {i + 1} has no {listed(absent)}, as other rows have. Give each row all "
                    "columns, and None where a value is missing."
                )
        return frame
    empty = isinstance(table, list | tuple) and not table
    raise ValueError(
        "table must be a data frame or a list of rows {column: value}, got "
        f"{'an empty list' if empty else type(table).__name__}."
    )


def train_model(
    X: Rows,
    y: Labels | None = None,
    metric: MetricLike = "f1",
    *,
    recipe: str | None = None,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
    sample_cost: Costs = None,
    random_state: int = 0,
    info: Settings | None = None,
    checkpoint: PathLike | None = None,
    **settings: Any,
) -> Model:
    """One classifier for one table: ``X`` a data frame, ``y`` labels ``(n,)`` or ``(n, labels)``.

    ``recipe`` is one of ``RECIPES``, ``"ensemble"`` by default; ``settings`` go to its classifier.
    ``sample_cost`` has costs of each row that are not columns of ``X``: see ``Cost``. The classes
    of the model are ``[negative, positive]`` if there are two. Of a Dask frame all rows are read
    into memory; write it as Parquet files if they do not fit.

    A ``ParquetRows`` in the place of ``X`` holds labels and weights too, and need not fit into
    memory; its recipe is ``"cross-entropy-tuned"`` by default. Networks and linear models trained
    on one save to the file ``checkpoint``, and go on from it. Ranks that call it with the same
    files and ``sync="auto"`` (linear models) have their row groups each.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": np.linspace(0, 200, 100), "color": ["red", "blue"] * 50})
    >>> y = ["high" if x > 150 else "low" for x in frame["x"]]
    >>> frame = frame.sample(frac=1, random_state=0)
    >>> y = [y[i] for i in frame.index]
    >>> model = train_model(frame, y, recipe="cross-entropy-tuned", n_networks=2, pos_label="high")
    >>> model.classes_.tolist(), model.predict(frame[:3]).shape
    (['low', 'high'], (3,))
    """
    recipe = recipe or default_recipe(isinstance(X, ParquetRows))
    check_choice("recipe", recipe, RECIPES)
    get_goal(metric)
    classifier = RECIPES[recipe].make(metric, random_state, **settings)
    if isinstance(X, ParquetRows):
        if y is not None or sample_weight is not None:
            raise ValueError("ParquetRows names the columns with labels and weights itself.")
        if sample_cost is not None or getattr(get_goal(metric).metric, "columns", None):
            raise ValueError("costs of each row need all rows in memory: pass a data frame.")
        labels, encoder = _fit_stream(classifier, recipe, X, pos_label, checkpoint)
        info = {"target": X.target, "drop": X.left_out, "rows": X.rows, **(info or {})}
    else:
        X, y, sample_weight = _computed(X), _computed(y), _computed(sample_weight)
        labels, codes = read_labels(y, pos_label)
        encoder = TableEncoder(infer_schema(X)).fit(X)
        x = encoder.transform(X)
        # With the positive class last the classifier can have the names, and use them in what it
        # says.
        target = labels.decode(codes) if labels.positive == 1 else codes
        _fix_positive(classifier, labels)
        classifier._table_classes = labels.names if labels.positive == 0 else None
        with warnings.catch_warnings():
            for warned in (SpellingWarning, PositiveClassWarning):  # of y, above
                warnings.simplefilter("ignore", warned)
            costs = sample_cost
            if costs is None:
                costs = cost_columns(get_goal(metric), X) or None
            classifier.fit(x, target, sample_weight=sample_weight, sample_cost=costs)
    class_names = {} if labels.positive == 1 else {"classes": np.asarray(labels.names)}
    return Model(encoder, classifier, {**(info or {}), **class_names, "recipe": recipe})


def _fix_positive(classifier: DecidingClassifier, labels: LabelEncoding) -> None:
    """Decided once, on all rows: the classifier has the positive class of the table's labels."""
    if labels.task.single and labels.positive == 1:
        classifier.pos_label = labels.names[1]


def _fit_stream(
    classifier: DecidingClassifier,
    recipe: str,
    rows: ParquetRows,
    pos_label: Label | None,
    checkpoint: PathLike | None,
) -> tuple[LabelEncoding, TableEncoder]:
    """Fit on rows that need not fit into memory; what their labels are, and their encoder."""
    if not hasattr(classifier, "_fit_stream"):
        fitting = [
            name
            for name, row in RECIPES.items()
            if hasattr(classifier_class(row.classifier), "_fit_stream")
        ]
        raise ValueError(
            f"recipe={recipe!r} needs all rows in memory. From Parquet files beyond it: "
            f"{', '.join(fitting)}."
        )
    stream = EncodedRows(rows, pos_label)
    _fix_positive(classifier, stream.labels)
    classifier._table_classes = stream.labels.names if stream.labels.positive == 0 else None
    shared = RankSums(classifier.get_params().get("sync"))  # every rank has its row groups
    classifier._fit_stream(stream.shard(shared.size, shared.rank), checkpoint)
    return stream.labels, stream.encoder


def save_model(
    path: PathLike,
    *,
    encoder: TableEncoder | None,
    classifier: DecidingClassifier,
    info: Settings | None = None,
) -> None:
    """Write encoder and classifier to one file: JSON and arrays with a checksum, whole or not.

    ``info`` is what JSON can hold. If it has ``"classes"``, the classifier was trained on their
    numbers, and ``predict`` gives the names back; ``"target"``, ``"groups"`` and ``"drop"`` name
    columns that a table may still have at prediction.

    >>> import pandas as pd, tempfile
    >>> from softset import MetricLinearClassifier
    >>> frame = pd.DataFrame({"age": [20, 40, 60, 80] * 15})
    >>> y = frame["age"] > 50
    >>> encoder = TableEncoder().fit(frame)
    >>> classifier = MetricLinearClassifier("f1").fit(encoder.transform(frame), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model.softset", encoder=encoder, classifier=classifier)
    ...     load_model(f"{folder}/model.softset").predict(frame[:2]).tolist()
    [False, False]
    """
    kind = type(classifier).__name__
    check_choice("classifier", kind, CLASSIFIERS)
    others = {k: plain(v) for k, v in (info or {}).items() if k != "classes"}
    classes = (info or {}).get("classes")
    content = SavedModel(
        classifier=kind,
        state=classifier.state(),
        encoder=None if encoder is None else encoder.state(),
        classes=None if classes is None else pack_array(np.asarray(classes)),
        info=others,
    )
    write_file(path, _KIND, vars(content))


def load_model(path: PathLike, metric: MetricLike | None = None) -> Model:
    """Read what ``save_model`` wrote; nothing in the file is run. A pickle is refused.

    ``metric`` is needed if the model was trained for a function of your own.

    >>> import pandas as pd, tempfile
    >>> frame = pd.DataFrame({"age": [20, 40, 60, 80] * 15})
    >>> y = ["old" if age > 50 else "young" for age in frame["age"]]
    >>> model = train_model(frame, y, "f1", recipe="linear-tuned")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.softset")
    ...     load_model(f"{folder}/model.softset").predict(frame[:2]).tolist()
    ['young', 'young']
    """
    content = read_file(path, _KIND)
    with whole(os.path.basename(path), _KIND):
        saved: SavedModel = decoded(SavedModel, content)
        if saved.classifier not in CLASSIFIERS:
            raise SavedFileError(
                f"it holds {saved.classifier!r}, which this version does not know. Train it again."
            )
        classifier = classifier_class(saved.classifier).from_state(saved.state, metric)
        info = saved.info
        columns = ("target", "groups", "drop")
        decoded(SavedColumns, {k: info[k] for k in columns if k in info}, "info")
        if saved.classes is not None:
            info["classes"] = unpack_array(saved.classes)
        encoder = None if saved.encoder is None else TableEncoder.from_state(saved.encoder)
        if encoder is not None and len(encoder.names_) != classifier.n_features_in_:
            raise SavedFileError("its table and its classifier do not fit together.")
        return Model(encoder, classifier, info)
