"""What kind of problem it is: ``Binary``, ``Multiclass`` or ``Multilabel``.

Whatever depends on the kind is a method of the task, so that no other module compares names. A
user's string becomes a task by ``get_task``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import softmax

from softset.checks import check_choice
from softset.typing import Array, ArrayLike, Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor

TINY = float(np.finfo(float).tiny)


def to_logits(p: ArrayLike) -> Floats:
    """``log(p / (1 - p))``; 0 and 1 are infinite.

    >>> to_logits([0.0, 0.5, 1.0]).tolist()
    [-inf, 0.0, inf]
    """
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def to_probabilities(z: ArrayLike) -> Floats:
    """``1 / (1 + exp(-z))``, kept inside of (0, 1).

    >>> to_probabilities([0.0, 1e4]).tolist()
    [0.5, 0.9999999999999999]
    """
    z = np.asarray(z, dtype=np.float64)
    e = np.exp(-np.abs(z))
    p = np.where(z >= 0, 1 / (1 + e), e / (1 + e))
    return np.clip(p, TINY, 1 - np.finfo(float).eps / 2)


def to_log_probabilities(p: ArrayLike, least: float = TINY) -> Floats:
    """``log p``; probabilities below ``least`` count as ``least``."""
    return np.log(np.maximum(np.asarray(p, dtype=np.float64), least))


class Task(str):
    """A kind of problem. It is its name too: files hold the name, and users compare with it.

    Two layouts occur. *Rows* are NumPy arrays, as classifiers have them: scores are logits ``(n,)``
    or ``(n, labels)``, or log-probabilities ``(n, classes)``. The *kernel layout* is that of the
    tensors of a ``Problem``: ``[..., N]``, ``[..., labels, N]`` or ``[..., N, classes]``.
    """

    __slots__ = ()
    name: ClassVar[str]
    # One score a row: that of the positive one of two classes.
    single: ClassVar[bool] = False
    # Three classes or more, one for each row: the largest score decides, there is no threshold.
    exclusive: ClassVar[bool] = False
    # Labels, each 0 or 1 in every row: as many binary problems.
    independent: ClassVar[bool] = False

    # Words that a user reads.
    unit: ClassVar[str] = "class"  # the noun for one output: a class or a label
    parameter: ClassVar[str] = "threshold"  # the name of what is tuned, and of its attribute

    def __new__(cls) -> Task:
        return str.__new__(cls, cls.name)

    def __getnewargs__(self) -> tuple[()]:  # type: ignore[override]
        return ()

    # --- rows ------------------------------------------------------------------------------------

    def outputs(self, classes: int) -> int:
        """Number of scores of a row."""
        return classes

    def shape(self, classes: int) -> tuple[int, ...]:
        """Shape of an array with one element for each output, such as thresholds."""
        return (classes,)

    def targets(self, classes: int) -> list[int | None]:
        """The columns of the target that have a model each; ``[None]`` for a single model."""
        return [None]

    def joined(self, scores: list[Array]) -> Array:
        """Scores of the models of all ``targets``, as one array."""
        return scores[0]

    def target_of(self, y: Ints, classes: int) -> Ints:
        """Codes as 0 and 1 ``(n, outputs)``, one column for each class or label."""
        return y.reshape(len(y), -1)

    def counts(self, y: Ints, classes: int) -> Ints:
        """Number of rows of each class, or with each label."""
        return np.bincount(y, minlength=classes)

    def positive(self, p: Array) -> Array:
        """The columns of ``p`` that are outputs: of two classes, the second."""
        return p

    def probabilities(self, scores: ArrayLike) -> Floats:
        """Probabilities of scores, inside of (0, 1)."""
        return to_probabilities(scores)

    def scores(self, p: ArrayLike) -> Floats:
        """Scores of probabilities: the inverse of ``probabilities``."""
        return to_logits(p)

    def margin(self, scores: Floats, threshold: Floats) -> Floats:
        """Distance of each score from the threshold: above 0 exactly where the decision is 1.
        It is finite where the threshold is not, which then flags every row or none."""
        distance = np.nan_to_num(scores - threshold, nan=np.nan)
        return np.where(scores >= threshold, np.maximum(distance, TINY), distance)

    def decide(self, scores: Floats, threshold: Floats) -> Ints:
        """0 and 1 for each label, or class codes ``(n,)``."""
        return (scores >= threshold).astype(np.int64)

    def one_hot(self, decided: Ints, classes: int) -> Floats:
        """Decisions as probabilities of 0 and 1, in the shape of scores."""
        return decided.astype(np.float64)

    # --- kernel layout ---------------------------------------------------------------------------

    class_dims: ClassVar[int] = 1  # dimensions of counts for classes or labels
    grid_axis: ClassVar[int] = -1  # dimension of counts for a grid of thresholds

    def classes_in(self, z: Tensor) -> int:
        """Number of classes or labels of scores; 1 for a binary problem."""
        raise NotImplementedError

    def link(self, z: Tensor) -> Tensor:
        """Probabilities of logits."""
        return z.sigmoid()


class Binary(Task):
    """Two classes: one score, that of the positive one."""

    __slots__ = ()
    name = "binary"
    single = True
    class_dims = 0

    def outputs(self, classes: int) -> int:
        """One for two classes."""
        return 1

    def shape(self, classes: int) -> tuple[int, ...]:
        """A threshold is one number."""
        return ()

    def positive(self, p: Array) -> Array:
        """The probabilities of the positive class."""
        return p[:, 1]

    def classes_in(self, z: Tensor) -> int:
        """Scores have no dimension of classes."""
        return 1


class Multiclass(Task):
    """Three classes or more, one for each row. Offsets are added to log-probabilities; the largest
    sum decides."""

    __slots__ = ()
    name = "multiclass"
    exclusive = True
    parameter = "offsets"

    def target_of(self, y: Ints, classes: int) -> Ints:
        """One column for each class, 1 where it is the row's."""
        return (y[:, None] == np.arange(classes)).astype(np.int64)

    def probabilities(self, scores: ArrayLike) -> Floats:
        """Softmax of the scores."""
        p: Floats = softmax(scores, axis=-1)
        return p

    def scores(self, p: ArrayLike) -> Floats:
        """Logarithms of the probabilities."""
        return to_log_probabilities(p)

    def margin(self, scores: Floats, threshold: Floats) -> Floats:
        """Scores plus offsets."""
        return scores + threshold

    def decide(self, scores: Floats, threshold: Floats) -> Ints:
        """The class with the largest score plus offset."""
        return self.margin(scores, threshold).argmax(1)

    def one_hot(self, decided: Ints, classes: int) -> Floats:
        """Class codes as rows of 0 and one 1."""
        return np.eye(classes)[decided]

    def classes_in(self, z: Tensor) -> int:
        """The last dimension."""
        return z.shape[-1]

    def link(self, z: Tensor) -> Tensor:
        """Softmax over the last dimension."""
        return z.softmax(-1)


class Multilabel(Task):
    """Labels that a row has or has not: a binary problem for each."""

    __slots__ = ()
    name = "multilabel"
    independent = True
    unit = "label"
    grid_axis = -2

    def targets(self, classes: int) -> list[int | None]:
        """Each label is fitted by itself."""
        return list(range(classes))

    def joined(self, scores: list[Array]) -> Array:
        """Columns of labels."""
        return np.column_stack(scores)

    def counts(self, y: Ints, classes: int) -> Ints:
        """The positives of each label."""
        return y.sum(0)

    def classes_in(self, z: Tensor) -> int:
        """Labels come before the rows."""
        return z.shape[-2]


BINARY, MULTICLASS, MULTILABEL = Binary(), Multiclass(), Multilabel()
TASKS: dict[str, Task] = {task.name: task for task in (BINARY, MULTICLASS, MULTILABEL)}


def get_task(task: str) -> Task:
    """The task of a user's string, or the task itself.

    >>> get_task("multilabel").unit
    'label'
    >>> get_task("multi_label")
    Traceback (most recent call last):
    ValueError: task must be one of 'binary', 'multiclass', 'multilabel', got 'multi_label'...
    """
    if isinstance(task, Task):
        return task
    check_choice("task", task, tuple(TASKS))
    return TASKS[task]


def task_of(y: Array, classes: int) -> Task:
    """The task of class codes ``(n,)`` of ``classes`` classes, or of 0 and 1 ``(n, labels)``.

    >>> task_of(np.array([0, 2, 1]), 3)
    'multiclass'
    """
    if y.ndim == 2:
        return MULTILABEL
    return BINARY if classes == 2 else MULTICLASS
