"""How scores become decisions: a threshold in logits, one for each label, or offsets of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softset.checks import check_number
from softset.tasks import Task, get_task, to_logits, to_probabilities
from softset.typing import Floats, Ints, Threshold

if TYPE_CHECKING:
    from softset.decisions.costs import CostDecision
    from softset.decisions.promises import Promise


@dataclass(frozen=True)
class Decision:
    """The threshold of scores, which are logits, or log-probabilities of the classes.

    It is stored and compared in logits: a probability next to 1 has lost the digits that tell two
    scores apart. ``threshold`` is the same as a probability, for users.

    - binary: ``logit`` is a number; positive means ``score >= logit``.
    - multilabel: ``logit`` is ``(labels,)``, each as for binary.
    - multiclass: ``logit`` is ``(classes,)``, offsets that are *added* to the
      log-probabilities; the largest decides.

    >>> Decision.at("binary", 0.25)(np.log([0.3 / 0.7, 0.2 / 0.8])).tolist()
    [1, 0]
    """

    task: Task
    logit: Floats
    promises: tuple[Promise, ...] = ()  # one for each label, where there is a confidence
    costs: CostDecision | None = None  # where rows have costs of their own, which may decide

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", get_task(self.task))

    @classmethod
    def plain(cls, task: str, count: int = 1) -> Decision:
        """The default: a probability of 1/2, or the largest probability of ``count`` classes."""
        return cls(get_task(task), np.zeros(get_task(task).shape(count)))

    @classmethod
    def at(cls, task: str, threshold: Threshold, count: int = 1) -> Decision:
        """From probabilities in (0, 1), or offsets of the log-probabilities of the classes."""
        task = get_task(task)
        values, shape = np.asarray(threshold, dtype=np.float64), task.shape(count)
        if task.exclusive:
            if values.shape != shape or not np.isfinite(values).all():
                raise ValueError(
                    f"threshold for task='multiclass' must be {count} finite offsets of "
                    f"log-probabilities, got {threshold!r}."
                )
            return cls(task, values)
        if values.shape not in ((), shape):
            expected = "a number in (0, 1)" + (f", or {count} of them" if shape else "")
            raise ValueError(f"threshold must be 'tuned' or {expected}, got {threshold!r}.")
        check_number("threshold", values.tolist(), 0, 1)
        return cls(task, np.broadcast_to(to_logits(values), shape).copy())

    @property
    def threshold(self) -> float | Floats:
        """The threshold as probabilities, a float or ``(labels,)``; offsets stay ``(classes,)``."""
        if self.task.exclusive:
            return self.logit
        p = to_probabilities(self.logit)
        return float(p) if p.ndim == 0 else p

    def margin(self, scores: Floats) -> Floats:
        """Distance of each score from the threshold: above 0 exactly where the decision is 1.

        Multiclass: scores plus offsets, of which the largest decides.
        """
        return self.task.margin(scores, self.logit)

    def __call__(self, scores: Floats) -> Ints:
        """Decisions: 0 and 1 for each label, or class codes ``(n,)``."""
        return self.task.decide(scores, self.logit)

    def one_hot(self, scores: Floats) -> Floats:
        """The decisions as probabilities of 0 and 1, in the shape of ``scores``."""
        return self.task.one_hot(self(scores), scores.shape[-1])
