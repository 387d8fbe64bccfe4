"""Labels and weights as users have them, checked; the only place where labels become numbers."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from softset.checks import check_choice, check_number, listed, warn_user
from softset.tasks import BINARY, MULTICLASS, MULTILABEL, Task, get_task
from softset.typing import Array, ArrayLike, ClassWeight, Ints, Label, Labels

# Sums and squares of weights up to here are finite, in float32 too.
LARGE = 1e15
_TRUTH = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True)
class LabelEncoding:
    """What labels are: the task, the classes, and which of two is the positive one.

    ``classes`` are in order, as scikit-learn's ``classes_``; of several labels they are their
    numbers. A *code* is the number of a class; of two classes the positive one has code 1, whatever
    its place among ``classes`` (``positive``).

    >>> labels, codes = read_labels(["no", "yes", "no"], pos_label="no")
    >>> labels.classes.tolist(), labels.positive, codes.tolist()
    (['no', 'yes'], 0, [1, 0, 1])
    """

    task: Task
    classes: Array
    positive: int = 1
    fraction: float | None = None  # of the rows that are of the positive class, where known

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", get_task(self.task))
        check_choice("positive", self.positive, (0, 1))
        if self.task.single and len(self.classes) != 2:
            raise ValueError(f"classes must be two for task='binary', got {len(self.classes)}.")

    @property
    def names(self) -> list[Label]:
        """The classes in the order of their codes: the positive one of two is the last."""
        names: list[Label] = self.classes.tolist()
        return names if self.positive == 1 else names[::-1]

    @property
    def summary(self) -> str:
        """The positive class and its fraction of the rows, for the first lines of every output;
        empty unless there are two classes.

        >>> read_labels(["ja", "nein", "nein", "nein"])[0].summary
        'positive: ja, 25 % of rows'
        """
        return positive_line(self.names[1], self.fraction) if self.task.single else ""

    def decode(self, codes: Ints) -> Array:
        """The classes of codes ``(n,)``; 0 and 1 of several labels stay."""
        if self.task.independent:
            return codes
        return self.classes[codes if self.positive == 1 else 1 - codes]

    def encode(self, y: Labels, *, unseen: str = "refuse") -> Ints:
        """Codes of other labels ``y``. Where classes are text, 1 is the class "1"; true and false
        may be written in any way.

        An unknown class is an error, or, with ``unseen="number"`` and more than two classes, gets a
        code after the others.
        """
        if self.task.independent:
            return label_matrix(_dense(y))
        values = _column(y)
        codes: dict[Label, int] = {c: i for i, c in enumerate(self.names)}
        if self.classes.dtype.kind in "UO":
            truth = {name.lower(): name for name in map(str, codes)}
            spellings = truth if set(truth) == {"true", "false"} else {}
            words = [label_text(v) for v in values.tolist()]
            values = np.array([spellings.get(w.lower(), w) for w in words], dtype=object)
        elif self.classes.dtype.kind == "b":
            words = [label_text(v).lower() for v in values.tolist()]
            values = np.array([_TRUTH.get(w, w) for w in words], dtype=object)
        unknown = [v for v in dict.fromkeys(values.tolist()) if v not in codes]
        if unknown and (unseen == "refuse" or self.task.single):
            raise ValueError(
                f"the label(s) {listed(unknown)} are unknown to the model; it knows "
                f"{listed(self.classes.tolist(), 30)}."
            )
        codes.update({c: len(codes) + i for i, c in enumerate(sorted(unknown, key=str))})
        return np.array([codes[v] for v in values.tolist()], dtype=np.int64)

    def factors(self, class_weight: ClassWeight, codes: Ints, weight: Array) -> Array:
        """The factor of every row by its class: ``None``, ``"balanced"`` or ``{class: weight}``.

        Of labels it is the product over them, as in scikit-learn: ``"balanced"``, or a list of
        ``{0: weight, 1: weight}``, one for each label.

        >>> labels, codes = read_labels([[1, 0], [0, 0], [0, 1], [0, 1]])
        >>> labels.factors([{1: 5}, {0: 3}], codes, np.ones(4)).tolist()
        [15.0, 3.0, 1.0, 1.0]
        """
        by_class = self.class_factors(class_weight, self.totals(codes, weight))
        return self.row_factors(by_class, codes)

    def totals(self, codes: Ints, weight: Array) -> Array:
        """The weight of each class ``(classes,)``, or without and with each label."""
        if not self.task.independent:
            return np.bincount(codes, weights=weight, minlength=len(self.classes))
        present = weight @ codes
        return np.column_stack([weight.sum() - present, present])

    def class_factors(self, class_weight: ClassWeight, totals: Array) -> Array:
        """The factor of each class, in the shape of ``totals``."""
        if class_weight is None:
            return np.ones(totals.shape)
        if not self.task.independent:
            return _class_factors(class_weight, self.names, totals)  # type: ignore[arg-type]
        each = [class_weight] * len(totals) if isinstance(class_weight, str) else class_weight
        if not isinstance(each, list | tuple) or len(each) != len(totals):
            raise ValueError(
                "class_weight of labels must be 'balanced', or a list with {0: weight, 1: weight} "
                f"for each of {len(totals)} labels, got {class_weight!r}."
            )
        return np.stack([_class_factors(w, [0, 1], t) for w, t in zip(each, totals, strict=True)])

    def row_factors(self, by_class: Array, codes: Ints) -> Array:
        """The factor of each row, from those of the classes."""
        if not self.task.independent:
            return by_class[codes]
        return np.where(codes == 1, by_class[:, 1], by_class[:, 0]).prod(1)


def _class_factors(
    class_weight: str | Mapping[Label, float], names: list[Label], totals: Array
) -> Array:
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ("balanced",))
        return totals.sum() / (len(names) * np.where(totals > 0, totals, np.inf))
    unknown = [c for c in class_weight if c not in names]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, y holds {names}.")
    by_class = np.array([float(class_weight.get(c, 1.0)) for c in names])
    check_number("class_weight", by_class.tolist(), 0, math.inf, closed="low")
    return by_class


# Names of the positive class, and the names that stand against them.
_YES = (
    ({"yes", "y", "ja", "j", "oui", "sí", "si", "sim", "tak", "da", "true", "t", "positive", "pos"},
     {"no", "n", "nein", "non", "não", "nao", "nie", "net", "ne", "false", "f", "negative", "neg"}),
    ({"fraud", "fraudulent", "spam", "nok", "defect", "defective", "fail", "failed", "malignant",
      "sick", "churn", "churned", "default", "anomaly", "attack"},
     {"ok", "legit", "legitimate", "genuine", "normal", "ham", "good", "pass", "passed", "benign",
      "healthy", "stay", "stayed", "retained", "paid"}),
)  # fmt: skip
# Within this fraction of the rows neither class is the rarer one.
_BALANCED = 0.4
# A positive class with more of the rows than this is seldom what was meant.
_MOST = 0.8


class PositiveClassWarning(UserWarning):
    """The positive class of two was a guess, or is nearly every row."""


def read_labels(y: Labels, pos_label: Label | None = None) -> tuple[LabelEncoding, Ints]:
    """Labels of any kind ``(n,)``, or 0 and 1 ``(n, labels)``, and their codes.

    ``pos_label`` is the positive class of two; see ``positive_class`` for the default.
    """
    if hasattr(y, "isna"):  # pandas has missing values of its own
        _refuse_rows(np.asarray(y.isna()))
    values = _dense(y)
    if values.ndim == 2 and values.shape[1] > 1:
        if pos_label is not None:
            raise ValueError("pos_label is for two classes; y holds several labels of 0 and 1.")
        return LabelEncoding(MULTILABEL, np.arange(values.shape[1])), label_matrix(values)
    values = _plain(_column(values))
    classes, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    codes = codes.ravel().astype(np.int64)
    _warn_of_spellings(classes)
    labels = encoding_of(classes, counts, pos_label)
    return labels, codes if labels.positive == 1 else 1 - codes


def read_classes(values: Labels) -> Array:
    """The classes among ``values``, sorted and checked as those of ``read_labels``."""
    classes = np.unique(_plain(_column(values)))
    _warn_of_spellings(classes)
    return classes


def encoding_of(classes: Array, counts: Ints, pos_label: Label | None = None) -> LabelEncoding:
    """The encoding of sorted ``classes`` with so many rows each."""
    names = classes.tolist()
    if len(names) < 2:
        raise ValueError(f"y must hold at least two classes, got one class only: {names[0]!r}.")
    task = MULTICLASS if len(names) > 2 else BINARY
    if task.exclusive:
        if pos_label is not None:
            raise ValueError(f"pos_label is for two classes; y holds {len(names)}.")
        return LabelEncoding(task, classes)
    if pos_label is None:
        positive = positive_class(classes, counts)
    elif str(pos_label) not in map(str, names):
        raise ValueError(f"pos_label must be one of {names}, got {pos_label!r}.")
    else:
        positive = [str(c) for c in names].index(str(pos_label))
    fraction = float(counts[positive] / counts.sum())
    if pos_label is None and fraction > _MOST:
        warn_user(
            f"{positive_line(names[positive], fraction)}: nearly every row. For the metric of the "
            f"rarer class, pass pos_label={names[1 - positive]!r}.",
            PositiveClassWarning,
        )
    return LabelEncoding(task, classes, positive, fraction)


def positive_class(classes: Array, counts: Ints) -> int:
    """Which of two sorted classes, with so many rows each, is the positive one: 0 or 1.

    True of both truth values; the larger of two numbers; a word for yes against one for no; else
    the rarer class, or the last one, with a warning, where both have 40 % of the rows or more.

    >>> positive_class(np.array(["ja", "nein"]), np.array([500, 500]))
    0
    >>> positive_class(np.array(["cat", "dog"]), np.array([30, 970]))
    0
    """
    names = [str(c).strip().casefold() for c in classes.tolist()]
    if classes.dtype.kind in "biuf":
        return 1
    if all(_is_number(name) for name in names) and float(names[0]) != float(names[1]):
        return int(float(names[1]) > float(names[0]))
    for yes, no in _YES:
        for positive in (0, 1):
            if names[positive] in yes and names[1 - positive] in no:
                return positive
    rarer = int(counts[1] <= counts[0])
    if counts[rarer] >= _BALANCED * counts.sum():
        first, last = classes.tolist()
        warn_user(
            f"the positive class is taken to be {last!r}, the last in order: neither class is rare "
            f"and neither name says it. Pass pos_label={last!r} or pos_label={first!r} "
            "(--pos-label).",
            PositiveClassWarning,
        )
        return 1
    return rarer


def positive_line(name: object, fraction: float | None) -> str:
    """How outputs name the positive class.

    >>> positive_line("ja", 0.0307), positive_line(1, None)
    ('positive: ja, 3.1 % of rows', 'positive: 1')
    """
    share = "" if fraction is None else f", {100 * fraction:.2g} % of rows"
    return f"positive: {name}{share}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def label_matrix(y: Labels) -> Ints:
    """Several labels as 0 and 1: numbers, booleans, or the words true and false."""
    words = {"0": 0, "1": 1, "true": 1, "false": 0, "0.0": 0, "1.0": 1}
    values = np.asarray(y)
    if values.dtype.kind in "biuf" and ((values == 0) | (values == 1)).all():
        return values.astype(np.int64)
    numbers = [words.get(str(v).lower(), -1) for v in values.ravel().tolist()]
    if -1 in numbers:
        bad = values.ravel()[numbers.index(-1)]
        raise ValueError(
            f"several targets must hold 0 and 1 (or true and false) each, got {bad!r}. For one "
            "target with several classes, give that column alone."
        )
    return np.array(numbers, dtype=np.int64).reshape(values.shape)


def checked_weights(sample_weight: ArrayLike | None, X: Array) -> Array:
    """Sample weights as float64, ones if left out.

    Weights that are huge or tiny as a whole are divided by the largest: their sum may be infinite,
    and in float32, which boosting libraries use, they may be infinite or 0 themselves.
    """
    if sample_weight is None:
        return np.ones(X.shape[0])
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative, got {weight.min():g}.")
    if not (weight > 0).any():
        raise ValueError("sample_weight must not be zero everywhere.")
    top = float(weight.max())
    return weight if 1 / LARGE < top < LARGE else weight / top


def mean_one(weight: Array) -> Array:
    """Weights whose mean, over those that are positive, is 1: equal ones are exactly 1, and weights
    times a number are the same ones.

    >>> mean_one(np.array([1.0, 3.0, 0.0])).tolist()
    [0.5, 1.5, 0.0]
    """
    weight = weight / weight.max()
    return weight / weight[weight > 0].mean()


def _dense(y: Labels) -> Array:
    if hasattr(y, "toarray"):
        return np.asarray(y.toarray())
    # NumPy would turn [1, "a"] into text
    return np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)


def _column(y: Labels) -> Array:
    """``(n,)``; the only column of ``(n, 1)`` is taken, with a warning."""
    values = _dense(y)
    if values.ndim == 2 and values.shape[1] == 1:
        warn_user(
            "A column-vector y was passed when a 1d array was expected: y has shape (n, 1), its "
            "only column is taken.",
            _column_warning(),
        )
        values = values.ravel()
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array of labels, got shape {values.shape}.")
    return values


def _column_warning() -> type[Warning]:
    from sklearn.exceptions import DataConversionWarning

    return DataConversionWarning


def _plain(values: Array) -> Array:
    """Refuse what is no label; objects that are all numbers become numbers, text stays text."""
    if not len(values):
        raise ValueError("y is empty: it must hold a label for each row.")
    if values.dtype == object:
        _refuse_rows(np.array([_is_missing(v) for v in values.tolist()], dtype=bool))
        if any(isinstance(v, decimal.Decimal) for v in values.tolist()):
            numbers = [float(v) if isinstance(v, decimal.Decimal) else v for v in values.tolist()]
            values = np.array(numbers, dtype=object)
        text = [isinstance(v, str) for v in values.tolist()]
        if any(text) and not all(text):
            raise ValueError("y must not mix text and numbers. Convert it: y = y.astype(str).")
        values = np.asarray(values.tolist()) if not any(text) else values.astype(str)
    if values.dtype.kind == "f":
        _refuse_rows(np.isnan(values))
        if np.isinf(values).any():
            raise ValueError("Input y contains infinity: it must hold text or finite numbers.")
        broken = values[values != np.floor(values)]
        if broken.size:
            raise ValueError(
                "Unknown label type: continuous. y must hold classes, got "
                f"{len(np.unique(values))} different numbers such as {broken[0]:g}. Cut it into "
                "classes."
            )
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must hold text or numbers.")
    if values.dtype.kind not in "biufUS":
        raise ValueError(f"Unknown label type: y must hold text or numbers, got {values.dtype}.")
    return values


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)  # noqa: PLR0124
    except TypeError:  # pandas' NA is neither equal nor different
        return True


def label_text(value: object) -> str:
    """A label as a file writes it: 1.0 is "1".

    >>> label_text(1.0), label_text(decimal.Decimal("2.00")), label_text("1.0")
    ('1', '2', '1.0')
    """
    if isinstance(value, float | decimal.Decimal) and value == int(value):
        return str(int(value))
    return str(value)


def _refuse_rows(missing: Array) -> None:
    bad = np.flatnonzero(missing.any(1) if missing.ndim == 2 else missing)
    if len(bad):
        rows = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise ValueError(
            f"y is missing (NaN or None) in {len(bad)} row(s): {rows}. Leave those rows out or "
            "label them."
        )


class SpellingWarning(UserWarning):
    """Names of classes that differ only by blanks or by case."""


def _warn_of_spellings(classes: Array) -> None:
    """Warn of names such as "A" and "A ", or "Yes" and "yes"."""
    if classes.dtype.kind != "U":
        return
    spellings: dict[str, list[str]] = {}
    for name in classes.tolist():
        spellings.setdefault(name.strip().casefold(), []).append(name)
    for names in spellings.values():
        if len(names) > 1:
            blanks = len({name.strip() for name in names}) == 1
            warn_user(
                f"classes {listed(names)} differ only by {'blanks' if blanks else 'case'}: they "
                "are taken for different classes. Write them one way if they are one.",
                SpellingWarning,
            )
