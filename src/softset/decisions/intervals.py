"""All metrics of one set of predictions, with bootstrap confidence intervals.

Rows are drawn again with replacement. A metric of decisions depends on the rows only through the
cells of the confusion matrix, so the cells are drawn, which is the same and takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from softset.checks import check_number
from softset.counting.cells import Confusion
from softset.decisions.evaluation import evaluate
from softset.metrics.base import Metric
from softset.metrics.registry import METRICS, MetricLike, decided_elsewhere

Array = NDArray[Any]
# Areas need a sort for each resample: fewer of them.
_AREA_RESAMPLES = 200
_BLOCK = 2**24


class Interval(NamedTuple):
    """A metric by its name, its value and where it lies if rows are drawn again."""

    metric: str
    value: float
    low: float
    high: float


def metric_table(
    probabilities: Any,
    decisions: Any,
    target: Any,
    *,
    task: str = "binary",
    from_logits: bool = False,
    metrics: Iterable[MetricLike] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """The interval of every metric: percentiles of the bootstrap.

    Args:
        probabilities: ``(n,)`` of the positive class, ``(n, classes)`` or ``(n, labels)``; or
            ``None``, and then there are no areas under curves. Logits with ``from_logits=True``.
        decisions: numbers of classes ``(n,)``, or 0 and 1 ``(n, labels)``.
        target: like ``decisions``.
        metrics: all of ``METRICS`` if left out.

    >>> rows = metric_table(None, [1, 1, 0, 0], [1, 0, 0, 0], metrics=["accuracy", "f1"])
    >>> [(row.metric, round(row.value, 3)) for row in rows]
    [('accuracy', 0.75), ('f1', 0.667)]
    """
    check_number("level", level, 0, 1)
    check_number("resamples", resamples, 1, 1e6, closed="low")
    y, decided = np.asarray(target, dtype=np.int64), np.asarray(decisions, dtype=np.int64)
    if y.shape != decided.shape:
        raise ValueError(f"target has shape {y.shape}, decisions {decided.shape}; they must agree.")
    found = [decided_elsewhere(m) for m in (METRICS if metrics is None else metrics)]
    random = np.random.default_rng(seed)
    counted, drawn = _drawn_confusions(
        y, decided, task, _classes(probabilities, y), resamples, random
    )
    rows = []
    for m in found:
        if m.curve and probabilities is None:
            continue
        if m.curve:
            value, sample = _area(m, np.asarray(probabilities), y, task, from_logits, random)
        else:
            value, sample = float(m(counted)), m(drawn).numpy()
        low, high = np.quantile(sample, [(1 - level) / 2, (1 + level) / 2])
        rows.append(Interval(m.name, value, float(low), float(high)))
    return rows


def _classes(probabilities: Any, y: Array) -> int:
    if probabilities is not None and np.ndim(probabilities) == 2:
        return int(np.shape(probabilities)[1])
    return max(2, int(y.max()) + 1)


def _drawn_confusions(
    y: Array, decided: Array, task: str, classes: int, resamples: int, random: np.random.Generator
) -> tuple[Confusion, Confusion]:
    """The confusion, and those of resampled rows with a leading dimension."""
    if task == "multilabel":
        return _drawn_labels(y, decided, resamples, random)
    d = 2 if task == "binary" else max(classes, int(decided.max()) + 1)
    cells = np.bincount(y * d + decided, minlength=d * d)
    several = random.multinomial(len(y), cells / len(y), size=resamples)
    matrices = torch.from_numpy(np.concatenate([cells[None], several]).astype(np.float64))
    all_of_them = Confusion.from_matrix(matrices.reshape(-1, d, d), task=task)
    return all_of_them.map(lambda t: t[0]), all_of_them.map(lambda t: t[1:])


def _drawn_labels(
    y: Array, decided: Array, resamples: int, random: np.random.Generator
) -> tuple[Confusion, Confusion]:
    """Labels of a row belong together: rows are drawn, as numbers of copies."""
    n = len(y)
    columns = np.concatenate([y * decided, decided, y], 1).astype(np.float64)

    def counted(sums: Array, lead: tuple[int, ...]) -> Confusion:
        tp, predicted, support = (torch.from_numpy(s) for s in np.split(sums, 3, axis=-1))
        total = torch.full((*lead, y.shape[1]), float(n), dtype=torch.float64)
        return Confusion(tp, predicted, support, total, "multilabel")

    parts = []
    for start in range(0, resamples, max(1, _BLOCK // n)):
        size = min(max(1, _BLOCK // n), resamples - start)
        parts.append(random.multinomial(n, np.full(n, 1 / n), size=size) @ columns)
    return counted(columns.sum(0), ()), counted(np.concatenate(parts), (resamples,))


def _area(
    m: Metric, p: Array, y: Array, task: str, from_logits: bool, random: np.random.Generator
) -> tuple[float, Array]:
    value = evaluate(p, y, m, task=task, from_logits=from_logits)
    sample = []
    for _ in range(_AREA_RESAMPLES):
        w = random.multinomial(len(y), np.full(len(y), 1 / len(y))).astype(np.float64)
        sample.append(evaluate(p, y, m, task=task, from_logits=from_logits, sample_weight=w))
    return float(value), np.array(sample)
