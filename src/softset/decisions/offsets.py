"""The best multiclass offsets for a metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softset.counting.cells import confusion
from softset.counting.confusion import Confusion, MatrixNotCountedError
from softset.counting.problem import arrange, to_logits
from softset.counting.thresholds import EQUAL, OUTER, gap_ends, gaps_between, pick
from softset.decisions.shrinking import shrunk_offsets
from softset.metrics.base import Metric
from softset.metrics.goals import Fixed, Goal
from softset.metrics.registry import MetricLike, thresholded
from softset.tasks import MULTICLASS
from softset.typing import Array, TensorLike, Weights

Value = Callable[[Confusion], Tensor]
MAX_PASSES = 20
# Confusions evaluated together: bounds memory.
BLOCK = 2**20


@torch.no_grad()
def best_offsets(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    *,
    from_logits: bool | None = None,
    sample_weight: Weights = None,
    class_weight: Weights = None,
    ignore_index: int | None = None,
    shrink: bool = False,
) -> list[float]:
    """Offsets of the classes' log-probabilities with a high ``metric``, by coordinate ascent.

    In turn, each class gets the best offset of all, exactly (every row changes its class at one
    value, one sort), until no class improves: a local optimum, never worse than no offsets. At the
    end each offset moves to the middle of the gap it lies in, which changes no decision of these
    rows and keeps the largest margin for new ones.

    With ``shrink``, those for an average over classes (macro or weighted F1, say) are then shrunk
    towards ``-t log(prior)`` with the best ``t``, the more the fewer rows a class has: the best
    offset of five rows is mostly chance.

    >>> import torch
    >>> z = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    >>> best_offsets(z, torch.tensor([0, 1, 1]), "accuracy")
    [-1.5, 0.0]
    """
    m = thresholded(metric).check(MULTICLASS)
    problem = arrange(
        scores,
        target,
        task=MULTICLASS,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
    )

    def value_of(c: Confusion) -> Tensor:
        """The metric of counts, without the ignored class."""
        return m(replace(c, left_out=problem.left_out))

    s, y, w = to_logits(problem.z, problem.from_logits), problem.y, problem.w
    matrix = m.wants_matrix(MULTICLASS, s.shape[-1])
    counted = confusion(
        s, y, task=MULTICLASS, sample_weight=w, matrix=matrix, from_logits=True
    )  # refuses NaN, too
    best = float(value_of(counted))
    w = torch.ones_like(y, dtype=torch.float64) if w is None else w
    s, y, w = s[w > 0], y[w > 0], w[w > 0]  # an offset may lie on a row without weight
    columns = s.T.contiguous()
    offsets = torch.zeros(s.shape[-1], dtype=torch.float64)
    each = None if problem.left_out is not None else _each_class(m, y, w, s.shape[-1])
    centered = False
    orders: list[Array | None] = [None] * len(offsets)  # of the rows, by class, in the last pass
    unchanged = 0  # classes that were looked at since an offset changed
    for _ in range(MAX_PASSES):
        leaders = _leaders(s + offsets)
        for k in range(len(offsets)):
            shifted = columns[k] + offsets[k]
            value, shift = _best_shift(value_of, each, shifted, leaders, y, w, k, orders)
            if value > best + EQUAL:
                best, offsets[k] = value, offsets[k] + shift
                leaders.update(s, columns[k], offsets, k)
                unchanged, centered = 0, False
            else:
                unchanged += 1
            if unchanged == len(offsets):
                break
        if unchanged < len(offsets):
            continue
        if centered:
            break
        unchanged, centered = 0, True
        # And look once more: in the middle, another class may find something better.
        for k in range(len(offsets)):
            flip, _ = flips(columns[k] + offsets[k], k, leaders)
            offsets[k] += _centering_shift(flip)
            leaders.update(s, columns[k], offsets, k)
    offsets = offsets - offsets[-1]
    if shrink and m.metric.separable and not m.metric.joint:

        def value_at(at: Tensor) -> float:
            """The metric at given offsets, counted anew."""
            return float(
                value_of(
                    confusion(s, y, task=MULTICLASS, sample_weight=w, offsets=at, from_logits=True)
                )
            )

        offsets = shrunk_offsets(y, w, offsets, value_at)
    return offsets.tolist()


class Leaders(NamedTuple):
    """The largest score of each row and its class, and the same without that class."""

    first: Tensor
    of_first: Tensor
    second: Tensor
    of_second: Tensor

    def update(self, s: Tensor, column: Tensor, offsets: Tensor, k: int) -> None:
        """Class k, a ``column`` of ``s``, has another offset: look again at the rows where it was
        among the two; in the others it may come before them. Of equal scores the first counts."""
        shifted = column + offsets[k]
        first = (shifted > self.first) | ((shifted == self.first) & (k < self.of_first))
        second = ~first & (
            (shifted > self.second) | ((shifted == self.second) & (k < self.of_second))
        )
        rows = ((self.of_first == k) | (self.of_second == k)).nonzero().squeeze(-1)
        fresh = _leaders(s[rows] + offsets)
        self.second.copy_(torch.where(first, self.first, torch.where(second, shifted, self.second)))
        self.of_second.copy_(
            torch.where(first, self.of_first, torch.where(second, k, self.of_second))
        )
        self.first.copy_(torch.where(first, shifted, self.first))
        self.of_first.copy_(torch.where(first, k, self.of_first))
        for field, values in zip(self, fresh, strict=True):
            field[rows] = values


def _leaders(s: Tensor) -> Leaders:
    of_first = s.argmax(-1, keepdim=True)
    without = s.scatter(-1, of_first, float("-inf"))
    of_second = without.argmax(-1, keepdim=True)
    numbers = s.gather(-1, of_first), of_first, without.gather(-1, of_second), of_second
    return Leaders(*(t.squeeze(-1) for t in numbers))


def flips(s: Tensor, k: int, leaders: Leaders | None = None) -> tuple[Tensor, Tensor]:
    """For each row, the shift of class k beyond which it is predicted as k (infinite: always or
    never), and the class that is predicted below it.

    ``s`` are all scores, or those of class k with the ``leaders`` of all.
    """
    if leaders is None:
        leaders, s = _leaders(s), s[:, k]
    leads = leaders.of_first == k
    flip = torch.where(leads, leaders.second, leaders.first) - s
    other = torch.where(leads, leaders.of_second, leaders.of_first)
    return torch.where(torch.isnan(flip), 0.0, flip), other  # NaN: a row without any class


def _centering_shift(flip: Tensor) -> float:
    """The shift to the middle of the gap around 0; beyond all rows, one logit away from them."""
    if (flip == 0).any():  # a tie: any shift would decide it
        return 0.0
    low = float(flip[flip < 0].max()) if (flip < 0).any() else float("-inf")
    high = float(flip[flip > 0].min()) if (flip > 0).any() else float("inf")
    if low > float("-inf") and high < float("inf"):
        return low / 2 + high / 2
    if high < float("inf"):
        return min(0.0, high - OUTER / 2)
    return max(0.0, low + OUTER / 2)


class EachClass(NamedTuple):
    """A metric that is an average over classes: that of each class, and its weight."""

    metric: Metric
    weight: Tensor
    support: Tensor


def _each_class(goal: Goal, y: Tensor, w: Tensor, classes: int) -> EachClass | None:
    """The parts of a macro or weighted average; None where the metric is no such average, or where
    classes without rows drop out of it."""
    metric = goal.metric
    plain = all(isinstance(v, int | float | str | None) for v in vars(metric).values())
    averages = metric.average in ("macro", "weighted") and metric.separable and not metric.joint
    support = torch.zeros(classes, dtype=torch.float64, device=w.device).scatter_add(0, y, w)
    if not plain or not averages or not isinstance(goal.where, Fixed) or (support <= 0).any():
        return None
    weight = support if metric.average == "weighted" else torch.ones_like(support)
    return EachClass(replace(metric, average=None), weight / weight.sum(), support)


def _best_shift(
    m: Value,
    each: EachClass | None,
    s: Tensor,
    leaders: Leaders,
    y: Tensor,
    w: Tensor,
    k: int,
    orders: list[Array | None],
) -> tuple[float, float]:
    """The metric at the best shift of class k, and that shift."""
    classes = len(orders)
    flip, other = flips(s, k, leaders)
    flip, order = _sorted(flip, orders, k)
    y, w, other = y[order], w[order], other[order]
    if each is not None:
        values = _average_values(each, y, other, w, k)
    else:
        try:
            values = _values(m, y, other, w, k, classes)
        except MatrixNotCountedError:  # a custom metric may read it or not
            values = _matrix_values(m, y, other, w, k, classes)
    low, high = gap_ends(flip)
    values = torch.where((low < high) & ~values.isnan(), values, float("-inf"))
    some = values >= values.max() - EQUAL  # few: only their gaps are looked at
    values, (place, width) = values[some], gaps_between(low[some], high[some])
    best = pick(values, place, width)
    return float(values[best]), float(place[best])


def _average_values(each: EachClass, y: Tensor, other: Tensor, w: Tensor, k: int) -> Tensor:
    """``_values`` of an average over classes: with each row only its own class and class k change,
    so that the time is that of the rows, not of rows times classes."""
    metric, weight, support = each
    total, nothing = support.sum(), torch.zeros_like(support)

    def score(tp: Tensor, predicted: Tensor, of: Tensor | slice | int) -> Tensor:
        """The metric of classes by their sums, rid of rounding."""
        tp, predicted = _snapped(tp, total), _snapped(predicted, total)
        c = Confusion.from_sums(tp, predicted, support[of].expand_as(tp), total, MULTICLASS)
        return metric(c)

    right = w * (other == y)
    predicted, tp = nothing.scatter_add(0, other, w), nothing.scatter_add(0, other, right)
    start = weight * score(tp, predicted, slice(None))
    order = _by_class(other, len(support))
    group = other[order]
    sizes = torch.bincount(other, minlength=len(support))
    first = (sizes.cumsum(0) - sizes)[group] == torch.arange(len(y), device=y.device)

    def gone(amount: Tensor) -> Tensor:
        """What has left each row's class, with that row."""
        summed = amount[order].cumsum(0)
        before = torch.cat([summed.new_zeros(1), summed])[sizes.cumsum(0) - sizes]
        return summed - before[group]

    after = weight[group] * score(tp[group] - gone(right), predicted[group] - gone(w), group)
    change = torch.empty_like(after)
    change[order] = after - torch.where(first, start[group], after.roll(1))

    def grown(amount: Tensor) -> Tensor:
        """Sums of the first rows, beginning with none."""
        return torch.cat([amount.new_zeros(1), amount.cumsum(0)])

    of_class = weight[k] * score(grown(w * (y == k)), grown(w), k)
    return start.sum() - start[k] + grown(change) + of_class


def _sorted(flip: Tensor, orders: list[Array | None], k: int) -> tuple[Tensor, Tensor]:
    """Sorted, and the order, beginning with that of the last pass: most rows are in it already,
    which makes numpy's stable sort several times as fast."""
    if flip.device.type != "cpu":
        return flip.sort(stable=True)
    last = orders[k]
    order = np.argsort(flip.numpy() if last is None else flip.numpy()[last], kind="stable")
    order = order if last is None else last[order]
    orders[k] = order.astype(np.int32) if len(order) < 2**31 else order
    rows = torch.from_numpy(order.astype(np.int64))
    return flip[rows], rows


def _by_class(y: Tensor, classes: int) -> Tensor:
    """Row numbers in the order of their classes, and of rows."""
    if y.device.type != "cpu" or classes > np.iinfo(np.int16).max:
        return y.argsort(stable=True)
    return torch.from_numpy(np.argsort(y.numpy().astype(np.int16), kind="stable"))  # by radix


def _snapped(sums: Tensor, total: Tensor) -> Tensor:
    """Where no row is left, or all are, differences of sums leave rounding, which a ratio would
    show: such sums are 0, or the total."""
    rounding = 1e-12 * total
    sums = torch.where(sums <= rounding, 0.0, sums)
    return torch.where(sums >= total - rounding, total, sums)


def _values(m: Value, y: Tensor, other: Tensor, w: Tensor, k: int, classes: int) -> Tensor:
    """The metric after none, one, two, … of the rows are predicted as class k."""
    n = len(y)
    zeros = torch.zeros(classes, dtype=torch.float64, device=w.device)
    support = zeros.scatter_add(0, y, w)
    predicted = zeros.scatter_add(0, other, w)
    tp = zeros.scatter_add(0, y, w * (other == y))
    block = max(1, BLOCK // classes)
    values = []
    for first in range(0, n + 1, block):
        # Row i of this block: the first `first + i` rows are predicted as class k.
        last = min(first + block, n + 1)
        moved = slice(max(first, 1) - 1, last - 1)
        delta_pred = torch.zeros(last - first, classes, dtype=torch.float64, device=w.device)
        delta_tp = torch.zeros_like(delta_pred)
        row = torch.arange(max(first, 1) - first, last - first, device=w.device)
        delta_pred[row, other[moved]] -= w[moved]
        delta_pred[row, k] += w[moved]
        delta_tp[row, other[moved]] -= w[moved] * (other[moved] == y[moved])
        delta_tp[row, k] += w[moved] * (y[moved] == k)
        block_pred, block_tp = predicted + delta_pred.cumsum(0), tp + delta_tp.cumsum(0)
        predicted, tp = block_pred[-1], block_tp[-1]
        sums = (block_tp, block_pred, support, support.sum())
        values.append(m(Confusion.from_sums(*sums, MULTICLASS)))
    return torch.cat(values)


def _matrix_values(m: Value, y: Tensor, other: Tensor, w: Tensor, k: int, classes: int) -> Tensor:
    """``_values`` from C x C matrices, for metrics that read them."""
    cells = torch.zeros(classes * classes, dtype=torch.float64, device=w.device)
    cells = cells.scatter_add(0, y * classes + other, w)
    values = [m(Confusion.from_matrix(cells.reshape(1, classes, classes)))]
    rows = torch.arange(len(y), device=w.device)
    for block in torch.split(rows, max(1, BLOCK // classes**2)):
        moved = torch.zeros(len(block), classes * classes, dtype=torch.float64, device=w.device)
        row = torch.arange(len(block), device=w.device)
        moved[row, y[block] * classes + other[block]] -= w[block]
        moved[row, y[block] * classes + k] += w[block]
        matrices = (cells + moved.cumsum(0)).clamp(min=0)
        cells = matrices[-1]
        values.append(m(Confusion.from_matrix(matrices.reshape(-1, classes, classes))))
    return torch.cat(values)
