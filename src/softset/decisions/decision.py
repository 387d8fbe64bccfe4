"""How scores become decisions: a cut of logits, one for each label, or offsets of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softset.checks import check_choice, check_number

Floats = NDArray[np.float64]
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Decision:
    """Where scores are cut. Scores are logits, or log-probabilities of several classes.

    The cut is kept and compared in logits: a probability next to 1 has lost the digits that tell
    two scores apart. ``threshold`` is the same cut as a probability, for reading.

    - binary: ``cut`` is a number; positive means ``score >= cut``.
    - multilabel: ``cut`` is ``(labels,)``, each as for binary.
    - multiclass: ``cut`` is ``(classes,)``, *added* to the log-probabilities; the largest decides.

    >>> Decision.at("binary", 0.25)(np.log([0.3 / 0.7, 0.2 / 0.8])).tolist()
    [1, 0]
    """

    task: str
    cut: Floats

    @classmethod
    def plain(cls, task: str, count: int = 1) -> Decision:
        """A probability of 1/2, or the largest probability of ``count`` classes."""
        return cls(task, np.zeros(() if task == "binary" else (count,)))

    @classmethod
    def at(cls, task: str, threshold: Any, count: int = 1) -> Decision:
        """From probabilities in (0, 1), or offsets of the log-probabilities of the classes."""
        check_choice("task", task, ("binary", "multiclass", "multilabel"))
        values = np.asarray(threshold, dtype=np.float64)
        if task == "multiclass":
            if values.shape != (count,) or not np.isfinite(values).all():
                raise ValueError(
                    f"threshold of several classes must be {count} finite offsets of "
                    f"log-probabilities, got {threshold!r}."
                )
            return cls(task, values)
        if values.shape not in [(), (count,)][: 1 if task == "binary" else 2]:
            wanted = "a number in (0, 1)" + ("" if task == "binary" else f", or {count} of them")
            raise ValueError(f"threshold must be 'tuned' or {wanted}, got {threshold!r}.")
        check_number("threshold", values.tolist(), 0, 1)
        cut = to_logits(values)
        return cls(task, cut if task == "binary" else np.broadcast_to(cut, (count,)).copy())

    @property
    def threshold(self) -> Any:
        """The cut as probabilities, a float or ``(labels,)``; offsets stay ``(classes,)``."""
        if self.task == "multiclass":
            return self.cut
        p = to_probabilities(self.cut)
        return float(p) if p.ndim == 0 else p

    def margin(self, scores: Floats) -> Floats:
        """How far each score is beyond the cut: above 0 exactly where ``__call__`` says 1.

        Of several classes: scores with their offsets, of which the largest decides.
        """
        if self.task == "multiclass":
            return scores + self.cut
        distance = scores - self.cut
        return np.where(scores >= self.cut, np.maximum(distance, _TINY), distance)

    def __call__(self, scores: Floats) -> NDArray[np.int64]:
        """0 and 1 (of each label), or the numbers of the classes ``(n,)``."""
        if self.task == "multiclass":
            return self.margin(scores).argmax(1)
        return (scores >= self.cut).astype(np.int64)

    def one_hot(self, scores: Floats) -> Floats:
        """The decisions as probabilities of 0 and 1, in the shape of ``scores``."""
        decided = self(scores)
        if self.task == "multiclass":
            return np.eye(scores.shape[1])[decided]
        return decided.astype(np.float64)


def to_logits(p: Any) -> Floats:
    """``log(p / (1 - p))``; 0 and 1 are infinite."""
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def to_probabilities(z: Any) -> Floats:
    """``1 / (1 + exp(-z))``, kept inside of (0, 1)."""
    z = np.asarray(z, dtype=np.float64)
    e = np.exp(-np.abs(z))
    p = np.where(z >= 0, 1 / (1 + e), e / (1 + e))
    return np.clip(p, _TINY, 1 - np.finfo(float).eps / 2)


def to_log_probabilities(p: Any, least: float = _TINY) -> Floats:
    """``log p`` of several classes; probabilities below ``least`` count as ``least``."""
    return np.log(np.maximum(np.asarray(p, dtype=np.float64), least))


def scores_of(p: Any, task: str) -> Floats:
    """Probabilities as the scores that a ``Decision`` takes."""
    return to_log_probabilities(p) if task == "multiclass" else to_logits(p)
