"""What a task is asked to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TINY = float(np.finfo(float).tiny)


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
    # Several classes of which each row has exactly one: the largest score decides, no threshold.
    exclusive: ClassVar[bool] = False
    # Several labels, 0 or 1 each in every row: as many binary problems.
    independent: ClassVar[bool] = False

    # Words that a user reads.
    unit: ClassVar[str] = "class"  # one of what there are several of
    parameter: ClassVar[str] = "threshold"  # what is tuned, and the attribute that holds it

    def __new__(cls) -> Task:
        return str.__new__(cls, cls.name)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return ()

    # --- rows ------------------------------------------------------------------------------------

    def outputs(self, classes: int) -> int:
        """Scores of a row."""
        return classes

    def shape(self, classes: int) -> tuple[int, ...]:
        """The shape of what there is one of for each output, such as thresholds."""
        return (classes,)

    def targets(self, classes: int) -> list[int | None]:
        """The columns of the target that have a model each; ``[None]`` where there is one model."""
        return [None]

    def joined(self, scores: list[Array]) -> Array:
        """The scores of the models of all ``targets`` together."""
        return scores[0]

    def target_of(self, y: Ints, classes: int) -> Ints:
        """Codes as 0 and 1 ``(n, outputs)``, one column for each class or label."""
        return y.reshape(len(y), -1)

    def counts(self, y: Ints, classes: int) -> Ints:
        """The rows of each class, or with each label."""
        return np.bincount(y, minlength=classes)

    def positive(self, p: Array) -> Array:
        """Of columns for all classes those that are outputs: of two classes, the second."""
        return p

    def probabilities(self, scores: Any) -> Floats:
        """Probabilities of scores, inside of (0, 1)."""
        return to_probabilities(scores)

    def scores(self, p: Any) -> Floats:
        """Scores of probabilities: the way back."""
        return to_logits(p)

    def margin(self, scores: Floats, cut: Floats) -> Floats:
        """How far each score is beyond the cut: above 0 exactly where the decision is 1."""
        distance = scores - cut
        return np.where(scores >= cut, np.maximum(distance, TINY), distance)

    def decide(self, scores: Floats, cut: Floats) -> Ints:
        """0 and 1 (of each label), or the numbers of the classes ``(n,)``."""
        return (scores >= cut).astype(np.int64)

    def one_hot(self, decided: Ints, classes: int) -> Floats:
        """Decisions as probabilities of 0 and 1, in the shape of scores."""
        return decided.astype(np.float64)

    # --- kernel layout ---------------------------------------------------------------------------

    class_dims: ClassVar[int] = 1  # of counts: a last dimension for classes or labels
    grid_axis: ClassVar[int] = -1  # of counts at a grid of thresholds

    def classes_in(self, z: Tensor) -> int:
        """How many classes or labels the scores are of; one for a binary problem."""
        raise NotImplementedError

    def link(self, z: Tensor) -> Tensor:
        """Probabilities of logits."""
        return z.sigmoid()


def to_logits(p: Any) -> Floats:
    """``log(p / (1 - p))``; 0 and 1 are infinite.

    >>> to_logits([0.0, 0.5, 1.0]).tolist()
    [-inf, 0.0, inf]
    """
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def to_probabilities(z: Any) -> Floats:
    """``1 / (1 + exp(-z))``, kept inside of (0, 1).

    >>> to_probabilities([0.0, 1e4]).tolist()
    [0.5, 0.9999999999999999]
    """
    z = np.asarray(z, dtype=np.float64)
    e = np.exp(-np.abs(z))
    p = np.where(z >= 0, 1 / (1 + e), e / (1 + e))
    return np.clip(p, TINY, 1 - np.finfo(float).eps / 2)


def to_log_probabilities(p: Any, least: float = TINY) -> Floats:
    """``log p``; probabilities below ``least`` count as ``least``."""
    return np.log(np.maximum(np.asarray(p, dtype=np.float64), least))
