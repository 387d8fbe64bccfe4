"""The kinds of problems there are, and the one way from a user's string to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from softset.checks import check_choice
from softset.tasks.base import Array, Floats, Ints, Task, to_log_probabilities

if TYPE_CHECKING:
    from torch import Tensor


class Binary(Task):
    """Two classes: one score, that of the positive one."""

    __slots__ = ()
    name = "binary"
    single = True
    class_dims = 0

    def outputs(self, classes: int) -> int:
        return 1

    def shape(self, classes: int) -> tuple[int, ...]:
        return ()

    def positive(self, p: Array) -> Array:
        return p[:, 1]

    def classes_in(self, z: Tensor) -> int:
        return 1


class Multiclass(Task):
    """Several classes, one for each row. Offsets are added to log-probabilities; the largest sum
    decides."""

    __slots__ = ()
    name = "multiclass"
    exclusive = True
    parameter = "offsets"

    def target_of(self, y: Ints, classes: int) -> Ints:
        return (y[:, None] == np.arange(classes)).astype(np.int64)

    def probabilities(self, scores: Any) -> Floats:
        found: Floats = softmax(scores, axis=-1)
        return found

    def scores(self, p: Any) -> Floats:
        return to_log_probabilities(p)

    def margin(self, scores: Floats, cut: Floats) -> Floats:
        return scores + cut

    def decide(self, scores: Floats, cut: Floats) -> Ints:
        return self.margin(scores, cut).argmax(1)

    def one_hot(self, decided: Ints, classes: int) -> Floats:
        return np.eye(classes)[decided]

    def classes_in(self, z: Tensor) -> int:
        return z.shape[-1]

    def link(self, z: Tensor) -> Tensor:
        return z.softmax(-1)


class Multilabel(Task):
    """Several labels, each of which a row has or has not: a binary problem for each."""

    __slots__ = ()
    name = "multilabel"
    independent = True
    unit = "label"
    grid_axis = -2

    def targets(self, classes: int) -> list[int | None]:
        return list(range(classes))

    def joined(self, scores: list[Array]) -> Array:
        return np.column_stack(scores)

    def counts(self, y: Ints, classes: int) -> Ints:
        return y.sum(0)

    def classes_in(self, z: Tensor) -> int:
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
    """The task of class numbers ``(n,)`` of so many classes, or of 0 and 1 ``(n, labels)``.

    >>> task_of(np.array([0, 2, 1]), 3)
    'multiclass'
    """
    if y.ndim == 2:
        return MULTILABEL
    return BINARY if classes == 2 else MULTICLASS
