"""One tuner for every classifier: from out-of-fold scores to the decision to use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from softset.checks import check_choice
from softset.counting.cells import confusion
from softset.counting.problem import arrange
from softset.counting.thresholds import all_thresholds, gaps
from softset.decisions.decision import Decision
from softset.decisions.offsets import best_offsets
from softset.decisions.shrinking import shrunk_thresholds
from softset.decisions.smoothing import effective_rows, smooth_threshold
from softset.decisions.thresholds import best_logits, warn_of_violation
from softset.metrics.goals import Goal
from softset.metrics.registry import get_goal
from softset.progress import progress
from softset.tables.splits import dealt_folds
from softset.tasks import Task, get_task
from softset.typing import Array, Floats, Ints

RULES = ("exact", "smooth")
FOLDS = 5
# Kinds of rows that the jackknife leaves out, at most: bounds memory where there are many labels.
KINDS = 64
# Of more scores than this, progress is shown where it is asked for.
LONG = 100_000
CLEAR = 1.2
# With a smaller gain of the metric, the default threshold stays.
LEAST_GAIN = 1e-4
# The weight of a threshold that is known beforehand, in positives.
FEW_POSITIVES = 3.0
# A score nearer than this to a threshold is on it: rounding, not the model, would decide.
EDGE = 1e-6


@dataclass(frozen=True)
class Tuner:
    """Finds the decision with the best ``goal`` on out-of-fold scores.

    Scores are what a ``Decision`` takes: logits ``(n,)`` or ``(n, labels)``, log-probabilities
    ``(n, classes)``. ``rule`` is how a threshold is found: ``"exact"``, the best of all, or
    ``"smooth"``, which has less variance where positives are few: binary, the best by smoothed
    counts; thresholds of labels and offsets of classes are exact, then shrunk towards what all of
    them share (``shrinking``), for metrics that are averages over them: not for micro averages and
    accuracy.

    A goal whose rows determine the threshold, such as "precision where recall is at least 0.9", has
    that one, whatever the rule and whatever it gains.

    ``clear=False`` takes a tuned threshold of two classes where it is better at all on rows that it
    was not tuned on: for out-of-fold scores of all rows; a single holdout has too few rows for it.

    ``toward`` is a threshold of two classes that a smooth one is shrunk to, as if by
    ``FEW_POSITIVES`` more of them: a prior for few positives. Then it need not be better on other
    rows: with few positives, that test costs more than the variance does (docs/linear.md).

    >>> from softset.metrics.registry import get_metric
    >>> z = np.repeat([-3.0, -1.0], [30, 10])
    >>> tuner = Tuner(get_metric("f1"), "binary")
    >>> float(tuner.tune(z, np.repeat([0, 1], [30, 10])).logit)
    -2.0
    """

    goal: Goal
    task: Task
    rule: str = "smooth"
    clear: bool = True
    toward: float | None = None
    verbose: int = 0

    fewest: ClassVar[int] = 4 * FOLDS  # on fewer rows nothing is tuned

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, RULES)
        object.__setattr__(self, "task", get_task(self.task))
        object.__setattr__(self, "goal", get_goal(self.goal).check(self.task))

    def tune(
        self, scores: Floats, y: Ints, w: Floats | None = None, crossed: Floats | None = None
    ) -> Decision:
        """The tuned decision, if tuning helps rows it was not tuned on; else the default one.

        Each fifth of the rows is decided by the threshold of the others, and all of them together
        must be better than with a threshold of 1/2 (or the largest probability), see ``_gain``:
        else the default stays, off the scores (``_between``). Fewer than 20 rows are too few to
        tune on. With ``toward`` there is no such test. Rows must be in random order. ``crossed`` is
        the result of the method of that name, if it was computed before.
        """
        w = np.ones(len(scores)) if w is None else w
        plain = Decision.plain(self.task, scores.shape[-1])
        if not self.can_tune(y):
            return plain
        if self.goal.where.exact:
            decision = self.best(scores, y, w)
            s, target = (torch.from_numpy(a.T.copy()) for a in (scores, y))
            thresholds = all_thresholds(s, target, torch.from_numpy(w), self.task)
            warn_of_violation(self.goal, thresholds, torch.from_numpy(decision.logit))
            return decision
        if self.toward is not None:
            return self.best(scores, y, w)
        crossed = self.crossed(scores, y, w) if crossed is None else crossed
        if self._gain(crossed, plain.one_hot(scores), y, w) > LEAST_GAIN:
            return self.best(scores, y, w)
        return plain if self.task.exclusive else self._between(scores, y)

    def _between(self, scores: Floats, y: Ints) -> Decision:
        """Thresholds of 1/2, moved to the middle of the gap they lie in where classes are
        separated, or a score is on the threshold: no decision about these rows changes."""
        thresholds = [_middle(s, t) for s, t in zip(_columns(scores), _columns(y), strict=True)]
        return Decision(self.task, np.array(thresholds).reshape(scores.shape[1:]))

    def can_tune(self, y: Ints) -> bool:
        """Whether these rows can tell one threshold from another."""
        few = len(y) < self.fewest and not self.goal.where.exact
        return self.goal.tunes and not few and len(_kinds(y)[0]) > 1

    def crossed(
        self,
        scores: Floats,
        y: Ints,
        w: Floats,
        rule: Callable[[Floats, Ints, Floats], Decision] | None = None,
    ) -> Floats:
        """Decisions as ``Decision.one_hot`` has them, each fifth by the best threshold of the
        others, or by that of another ``rule``."""
        rule = self.best if rule is None else rule
        fold = dealt_folds(_kinds(y)[1], FOLDS)
        steps = progress("tune", FOLDS, self.verbose if scores.size > LONG else 0)
        crossed = np.empty_like(scores)
        for k in range(FOLDS):
            next(steps)
            train = fold != k
            crossed[~train] = rule(scores[train], y[train], w[train]).one_hot(scores[~train])
        steps.close()
        return crossed

    def _gain(self, tuned: Floats, plain: Floats, y: Ints, w: Floats) -> float:
        """The least gain of the tuned decisions over all rows that can be left out.

        Offsets of classes can fit several rows at once: ``CLEAR`` standard errors (of the
        jackknife) are subtracted instead.
        """
        if not self.clear and self.task.single:
            return float((self.values(tuned, y, w[None]) - self.values(plain, y, w[None]))[0])
        differ = np.flatnonzero((tuned != plain).reshape(len(y), -1).any(1))
        if not len(differ):
            return 0.0
        # Rows of equal labels and decisions count alike: of each kind the heaviest is left out.
        heaviest = differ[np.argsort(-w[differ], kind="stable")]
        rows = np.column_stack([a.reshape(len(y), -1)[heaviest] for a in (y, tuned, plain)])
        _, first, size = np.unique(rows, axis=0, return_index=True, return_counts=True)
        first, size = first[:KINDS], size[:KINDS]
        weights = np.tile(w, (1 + len(first), 1))
        weights[1 + np.arange(len(first)), heaviest[first]] = 0.0
        values = [self.values(decided, y, weights) for decided in (tuned, plain)]
        gain = values[0] - values[1]
        if not self.task.exclusive:
            return float(gain.min())
        return float(gain[0] - CLEAR * np.sqrt((size * (gain[0] - gain[1:]) ** 2).sum()))

    def best(self, scores: Floats, y: Ints, w: Floats) -> Decision:
        """The best decision on these rows."""
        if self.task.exclusive:
            shrink = self.rule == "smooth"
            offsets = best_offsets(
                scores, y, self.goal, sample_weight=w, shrink=shrink, from_logits=True
            )
            return Decision(self.task, np.array(offsets))
        smooth = self.rule == "smooth" and not self.goal.where.exact
        if self.task.single and smooth and not self._separates(scores, y):
            return Decision(self.task, np.asarray(self._drawn(scores, y, w)))
        s, target = torch.from_numpy(scores.T.copy()), torch.from_numpy(y.T.copy())
        thresholds = all_thresholds(s, target, torch.from_numpy(w), self.task)
        chosen = best_logits(self.goal, thresholds)
        if self.task.independent and smooth and self.goal.metric.separable:
            chosen = shrunk_thresholds(self.goal.metric, s, target, thresholds, chosen)
        return Decision(self.task, chosen.numpy())

    def _drawn(self, scores: Floats, y: Ints, w: Floats) -> float:
        """The smooth threshold, shrunk to ``toward`` the more the fewer positives there are."""
        threshold = smooth_threshold(scores, y, w, self.goal)[0]
        if self.toward is None:
            return threshold
        positives = effective_rows(w[y == 1])
        return (positives * threshold + FEW_POSITIVES * self.toward) / (positives + FEW_POSITIVES)

    def _separates(self, scores: Floats, y: Ints) -> bool:
        """Whether a threshold separates the classes: then there is nothing to smooth."""
        positive, negative = scores[y == 1], scores[y == 0]
        return not len(positive) or not len(negative) or bool(positive.min() > negative.max())

    def judged(self, decision: Decision, scores: Floats) -> Floats:
        """What ``judge`` takes: scores if the goal is of scores, decisions otherwise."""
        return scores if self.goal.by_scores else decision.one_hot(scores)

    def judge(self, judged: Floats, y: Ints, weights: Floats) -> Floats:
        """The goal with each of several weights of the rows. Of a goal of scores, at the best
        threshold for each of them, so that a constraint missed by a hair does not decide."""
        if not self.goal.by_scores:
            return self.values(judged, y, weights)
        problem = arrange(
            torch.from_numpy(judged).expand(len(weights), *judged.shape),
            y,
            task=self.task,
            from_logits=True,
            sample_weight=weights,
            batch_dims=1,
        )
        return self.goal.hard_value(problem).numpy()

    def values(self, decided: Floats, y: Ints, weights: Floats) -> Floats:
        """The metric of decisions with each of several weights of the rows."""
        scores = torch.from_numpy(decided).expand(len(weights), *decided.shape)
        c = confusion(
            scores,
            y,
            task=self.task,
            from_logits=False,
            batch_dims=1,
            sample_weight=weights,
            matrix=self.goal.wants_matrix(self.task, decided.shape[-1]),
        )
        return self.goal(c).numpy()


def _columns(a: Array) -> Array:
    """``(n,)`` or ``(n, labels)`` as ``[labels, n]``."""
    return a.reshape(len(a), -1).T


def _middle(s: Floats, y: Ints) -> float:
    """0, or the middle of the gap of the scores around it."""
    flagged = s >= 0
    if np.abs(s).min() > EDGE and (flagged != (y == 1)).any():
        return 0.0
    return float(gaps(torch.from_numpy(np.sort(s)))[0][np.count_nonzero(~flagged)])


def _kinds(y: Ints) -> tuple[Ints, Ints]:
    """The classes, or the different rows of labels, and the number of each row's."""
    # Along an axis numpy compares rows as bytes, which is slow where numbers will do.
    kinds, number = np.unique(y, axis=None if y.ndim == 1 else 0, return_inverse=True)
    return kinds, number.ravel()
