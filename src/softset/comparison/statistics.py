"""Scores on overlapping splits -> intervals and tests.

The scores of repeated K-fold splits share training rows, so that they vary together and their mean
is less certain than it looks. With a correlation of ``n_test / (n_test + n_train)`` between splits,
the variance of the mean of ``J`` scores is ``(1/J + n_test/n_train) s^2`` with the sample variance
``s^2`` (Nadeau and Bengio 2003, Machine Learning 52): exact where the correlation is that one.

Scores are counts of rows in disguise, so few splits may agree by chance and show no spread at all.
``s^2`` therefore has a floor, by ``one_row``, the change of the score by one wrong decision.

Candidates belong to stages, the baselines first. To choose at a stage is to take the candidate with
the best mean among those of it and of the stages before it. Choosing the best of many is
optimistically biased, so each split is scored by the candidate that is chosen on the *other*
splits. (On those of its own repeat: its test rows are in none of them. Of more than five folds a
fifth is left out at a time. Left out one by one, a split in favor of a candidate is missing exactly
where that candidate would be chosen, so that the scores of the chosen spread too little.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from scipy.special import stdtr, stdtrit
from scipy.stats import rankdata

from softset.checks import check_number
from softset.comparison.result import STAGES, Difference, Gains, Simpler, Stage, StageId
from softset.counting.cells import Confusion
from softset.metrics.registry import MetricLike, get_goal
from softset.tasks import MULTILABEL, Task
from softset.typing import Floats

# A model is called simpler if it is smaller by this factor.
SIMPLER = 10.0
# The folds of a repeat are scored in so many groups, each by the choice on the others.
GROUPS = 5


def one_row_of(metric: MetricLike, task: Task, counts: Sequence[int], rows: int) -> float:
    """How much one wrong decision takes from a perfect score: the grain of a metric.

    ``counts`` are the test rows of each class (of each label), ``rows`` those of all. The rarest
    class is missed once, or seen once too often, whichever costs more.

    >>> from softset.metrics.registry import get_metric
    >>> from softset.tasks import BINARY
    >>> [round(one_row_of(get_metric(m), BINARY, [90, 10], 100), 3) for m in ("accuracy", "f1")]
    [0.01, 0.053]
    """
    sizes = np.maximum(np.asarray(counts, dtype=np.float64), 1)
    goal, change = get_goal(metric), 0.0
    if not goal.where.grid:
        counted = _labels_wrong(sizes, rows) if task.independent else _class_wrong(sizes, task)
        perfect, *wrong = goal(counted).tolist()
        change = max(abs(perfect - value) for value in wrong)
    # One positive ranked behind all negatives costs an area about 1 / positives.
    return change if 0 < change < math.inf else 1 / float(sizes.min())


def _class_wrong(sizes: Floats, task: Task) -> Confusion:
    """All right; one row of the rarest class taken for the commonest; of the first class for the
    last, which costs most where classes have an order; and the reverse of both."""
    rare, *_, common = np.argsort(sizes, kind="stable").tolist()
    last = len(sizes) - 1
    pairs = [(rare, common), (common, rare), (0, last), (last, 0)]
    matrices = np.tile(np.diag(sizes), (1 + len(pairs), 1, 1))
    for k, (i, j) in enumerate(pairs, 1):
        matrices[k, i, i] -= 1
        matrices[k, i, j] += 1
    return Confusion.from_matrix(torch.from_numpy(matrices), task=task)


def _labels_wrong(sizes: Floats, rows: int) -> Confusion:
    """All right; each label missed once; each label seen once too often."""
    one, same = np.eye(len(sizes)), np.tile(sizes, (len(sizes), 1))
    tp = torch.from_numpy(np.concatenate([sizes[None], sizes - one, same]))
    predicted = torch.from_numpy(np.concatenate([sizes[None], sizes - one, sizes + one]))
    total = torch.full_like(tp, float(max(rows, sizes.max() + 1)))
    return Confusion.from_sums(tp, predicted, torch.from_numpy(sizes), total, MULTILABEL)


def interval(
    scores: Sequence[float],
    test_fraction: float,
    one_row: float,
    level: float = 0.95,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float | None, float | None]:
    """Mean of the scores of ``J`` splits and its interval, ``test_fraction`` of the rows in a test.

    It stays ``within`` what the metric can be. A single split has no interval.

    >>> [round(v, 3) for v in interval([0.70, 0.72, 0.71, 0.69, 0.73], 0.2, one_row=0.01)]
    [0.71, 0.681, 0.739]
    """
    check_number("level", level, 0, 1)
    mean, low, high = _interval(*_moments(scores, test_fraction, one_row**2 / 12), level)
    if low is None or high is None:
        return mean, None, None
    return mean, max(low, min(within[0], mean)), min(high, max(within[1], mean))


def paired(
    first: Sequence[float], second: Sequence[float], test_fraction: float, one_row: float
) -> Difference:
    """``first - second``, split by split: the corrected resampled t-test.

    Candidates that are ``k`` rows apart disagree in ``k`` rows or more. If each disagreement went
    either way by chance, as it does between equals, the variance of their difference would be
    ``k`` rows squared or more (McNemar 1947): that is the floor of the variance.

    >>> d = paired([0.71, 0.74, 0.73, 0.70, 0.75], [0.70, 0.72, 0.71, 0.69, 0.73], 0.2, 0.001)
    >>> round(d.mean, 3), round(d.p, 3), round(d.probability, 3)
    (0.016, 0.012, 0.994)
    >>> paired([0.6] * 5, [0.5] * 5, 0.2, one_row=0.05).p > 0.05
    True
    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    floor = one_row * max(abs(float(differences.mean())), one_row / 12)
    mean, error, splits = _moments(differences, test_fraction, floor)
    sure = float(stdtr(splits - 1, mean / error)) if splits > 1 else 0.5  # one split says nothing
    _, low, high = _interval(mean, error, splits, 0.95)
    return Difference(mean, low, high, 2 * min(sure, 1 - sure), sure)


def _interval(
    mean: float, error: float, splits: int, level: float
) -> tuple[float, float | None, float | None]:
    if splits < 2:
        return mean, None, None
    reach = error * float(stdtrit(splits - 1, (1 + level) / 2))
    return mean, mean - reach, mean + reach


def _moments(
    scores: Sequence[float] | Floats, test_fraction: float, floor: float
) -> tuple[float, float, int]:
    """Mean, standard error with the correction, number of splits.

    ``floor`` is the least variance of a score: at least that of rounding to whole rows, which is
    ``one_row ** 2 / 12``.
    """
    check_number("test_fraction", test_fraction, 0, 1)
    check_number("one_row", floor, 0, math.inf)
    values = np.asarray(scores, dtype=float)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"scores must be finite numbers, one a split, got {scores!r}.")
    factor = 1 / len(values) + test_fraction / (1 - test_fraction)
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), math.sqrt(factor * max(variance, floor)), len(values)


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted so that the chance of any false finding is below the level (Holm 1979).

    >>> [round(v, 3) for v in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    products = values[order] * np.arange(len(values), 0, -1)
    result = np.empty(len(values))
    result[order] = np.minimum(np.maximum.accumulate(products), 1.0)
    return result.tolist()


def adjusted(differences: Mapping[str, Difference]) -> dict[str, Difference]:
    """Differences with ``p_adjusted`` by Holm's method over all of them."""
    p = holm([d.p for d in differences.values()])
    pairs = zip(differences.items(), p, strict=True)
    return {key: replace(d, p_adjusted=value) for (key, d), value in pairs}


def mean_ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean over splits of each candidate's rank, 1 for the best; equal scores share theirs.

    >>> mean_ranks({"a": [0.9, 0.8], "b": [0.7, 0.8]})
    {'a': 1.25, 'b': 1.75}
    """
    table: Floats = np.array(list(scores.values()), dtype=float)
    ranks = rankdata(-np.round(table, 12), axis=0).mean(1)
    return dict(zip(scores, ranks.tolist(), strict=True))


# --- stages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreTable:
    """Scores ``[candidates, splits]`` of candidates that are in order of preference: of equal
    ones the first is chosen. ``folds`` splits in turn are a repeat."""

    names: tuple[str, ...]
    scores: Floats
    folds: int

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Sequence[float]],
        stages: Mapping[str, StageId],
        sizes: Mapping[str, int | None],
        folds: int,
    ) -> ScoreTable:
        """The table with earlier stages first, then the smaller model."""

        def simplicity(name: str) -> tuple[int, float]:
            """Stage first, then size: candidates without a size come last."""
            size = sizes.get(name)
            return STAGES.index(stages[name]), np.inf if size is None else size

        names = tuple(sorted(scores, key=simplicity))
        return cls(names, np.array([scores[c] for c in names], dtype=np.float64), folds)

    def among(self, names: Sequence[str]) -> ScoreTable:
        """The table of these candidates alone."""
        rows = [i for i, name in enumerate(self.names) if name in names]
        return replace(self, names=tuple(self.names[i] for i in rows), scores=self.scores[rows])

    def best(self) -> str:
        """The candidate with the best mean on all splits."""
        return self.names[_first_best(self.scores)]

    def nested_scores(self) -> list[float]:
        """The score of each split by the candidate that is best on the others of its repeat.

        A single split in all is scored by its own best: it can tell nothing in any case.

        >>> table = ScoreTable(("a", "b"), np.array([[0.9, 0.1, 0.2], [0.5, 0.5, 0.5]]), folds=3)
        >>> table.best(), table.nested_scores()
        ('b', [0.5, 0.1, 0.2])
        """
        count = self.scores.shape[1]
        if count == 1:
            return [float(self.scores[:, 0].max())]
        return [
            float(self.scores[_first_best(self.scores[:, others]), split])
            for split, others in enumerate(_other_splits(count, self.folds))
        ]


def splits_to_choose_on(count: int, folds: int) -> int:
    """How many of the first ``count`` splits can be scored by a choice on others of their repeat;
    at least one. A last repeat that has only one split cannot.

    >>> splits_to_choose_on(6, folds=5), splits_to_choose_on(7, folds=5)
    (5, 7)
    """
    while count > 1 and not all(_other_splits(count, folds)):
        count -= 1
    return count


def _other_splits(count: int, folds: int) -> list[list[int]]:
    """For each split those of its repeat that are in another group of folds."""
    groups = [s % folds * min(GROUPS, folds) // folds for s in range(count)]
    others = []
    for split in range(count):
        start = split - split % folds
        repeat = range(start, min(start + folds, count))
        others.append([s for s in repeat if groups[s] != groups[split]])
    return others


def _first_best(scores: Floats) -> int:
    return int(np.argmax(np.round(scores.mean(1), 12)))


def gains_by_stage(
    scores: Mapping[str, Sequence[float]],
    stages: Mapping[str, StageId],
    sizes: Mapping[str, int | None],
    *,
    folds: int,
    one_row: float,
    test_fraction: float | None = None,
    names: Mapping[StageId, str] | None = None,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Gains:
    """The gain of each stage: ``scores`` of each split, ``stages`` and bytes of the model by
    candidate; ``names`` of the stages, and the range of the metric (``within``). Of the rows of a
    split ``test_fraction`` are tested, by default one fold.

    Every claim (the total gain, that of each stage, the cost of a simpler model) is a corrected
    resampled t-test (``paired``) of scores by candidates that were chosen on other splits, and
    Holm's method is over all of them. If all candidates are equal, the chance of any significant
    claim is thus at most ``LEVEL``; ``python benchmarks/verdicts.py`` measures it.

    >>> low = [0.50, 0.52, 0.49, 0.51, 0.50]
    >>> table = {"plain": low, "tuned": [v + 0.1 for v in low], "soft": [v + 0.1 for v in low]}
    >>> stages = {"plain": "default", "tuned": "tuned", "soft": "metric"}
    >>> gains = gains_by_stage(table, stages, {}, folds=5, one_row=0.001)
    >>> [(s.choice, s.gain.significant) for s in gains.stages[1:]], round(gains.total.mean, 3)
    ([('tuned', True), ('tuned', False)], 0.1)
    """
    table, fraction = ScoreTable.of(scores, stages, sizes, folds), test_fraction or 1 / folds
    present = [stage for stage in STAGES if stage in {stages[c] for c in scores}]
    tables = [
        table.among([c for c in table.names if stages[c] in present[: k + 1]])
        for k in range(len(present))
    ]
    nested = [t.nested_scores() for t in tables]
    claims = {
        f"stage {k}": paired(nested[k], nested[k - 1], fraction, one_row)
        for k in range(1, len(present))
        if len(present) > 2  # the gain of the only other stage is the total
    }
    claims["total"] = paired(nested[-1], nested[0], fraction, one_row)
    smaller = _smaller(table, sizes)
    if smaller is not None:
        claims["simpler"] = paired(smaller.nested_scores(), nested[-1], fraction, one_row)
    claims = adjusted(claims)
    result = []
    for k, stage in enumerate(present):
        mean, low, high = interval(nested[k], fraction, one_row, within=within)
        gain = None if k == 0 else claims.get(f"stage {k}", claims["total"])
        name = (names or {}).get(stage, stage)
        result.append(Stage(stage, name, tables[k].best(), nested[k], mean, low, high, gain))
    simpler = None
    if smaller is not None:
        best = smaller.best()
        times = cast(int, sizes[table.best()]) / max(1, cast(int, sizes[best]))
        simpler = Simpler(best, times, claims["simpler"])
    return Gains(result, claims["total"], simpler)


def _smaller(table: ScoreTable, sizes: Mapping[str, int | None]) -> ScoreTable | None:
    """The candidates that are far smaller than the best one; None if there are none."""
    largest = sizes.get(table.best())
    if largest is None:
        return None
    small = [c for c in table.names if SIMPLER * (sizes.get(c) or np.inf) <= largest]
    return table.among(small) if small else None
