"""Goals at a threshold that the scores themselves decide: where a constraint is just met.

The threshold is an implicit function of the scores, and its derivative is part of the gradient
(compare Kumar, Narasimhan and Cotter, ICML 2021). Soft counts depend on the log-odds ``z`` and the
shift ``b`` through ``z - b`` alone, so where ``e(z - b) = 0`` the derivative of ``b`` by ``z_i`` is
``e_i / sum_j e_j`` with ``e_i = de / dz_i``. Everything stays on the device of the scores: a fixed
number of counts, and no value is read on the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from softset.checks import check_choice, check_integer, check_number, repeated
from softset.counting.cells import count_cells, in_units
from softset.counting.confusion import Confusion
from softset.counting.numerics import NOTHING, raised, ratio, readable, working
from softset.counting.problem import Problem
from softset.counting.steps import Step
from softset.counting.thresholds import all_thresholds
from softset.counting.values import check_labels, check_not_nan
from softset.metrics.base import Metric
from softset.metrics.goals import Goal, Where
from softset.tasks import Task
from softset.typing import Threshold

# Shifts that are tried first, at quantiles of the log-odds, and as far outside of them; then so
# often so many between the neighbors of the best one.
_TRIED, _OUTSIDE, _ROUNDS, _BETWEEN, _SAME = 24, 8.0, 3, 17, 1e-4
# So many scores are counted at once: bounds memory.
_BLOCK = 2**20
# A constraint that is missed by less is met.
_MET = 1e-9
# Probabilities are taken for log-odds no farther out than those of this.
_EPS = 1e-6


class Solved(Where):
    """At the threshold where ``excess`` is zero. A subclass defines ``excess``, and
    ``shortfall`` if an excess above zero violates the constraint, too."""

    by_scores = True
    exact = True
    adds_up = False

    def excess(self, c: Confusion) -> Tensor:
        """How far each confusion is above its constraint; below zero where it is not met."""
        raise NotImplementedError

    def excesses(self, c: Confusion) -> Tensor:
        """The excess of each of several constraints, ``[constraints, ...]``."""
        return self.excess(c).unsqueeze(0)

    def shortfall(self, c: Confusion) -> Tensor:
        return self.excess(c).clamp(max=0)

    def check(self, metric: Metric, task: Task) -> None:
        name = Goal(metric, self).name
        if task.exclusive:
            raise ValueError(f"metric {name!r} is for task='binary' and 'multilabel'.")
        averaged = metric.average in ("micro", "weighted")
        if task.independent and (averaged or not metric.separable):
            raise ValueError(f"metric {name!r} is of each label. Use a macro average.")

    def value(self, metric: Metric, c: Confusion, empty: str | None = None) -> Tensor:
        """The metric where the constraint is met; else its violation, as a negative number."""
        value, missed = metric(c, empty=empty), self.shortfall(c)
        each = value if c.task.single else replace(metric, average=None)(c, empty=empty)
        change = torch.where(missed < -_MET, missed - each, torch.zeros_like(missed))
        return value + (change if c.task.single or metric.average is None else change.mean(-1))

    def hard_cells(
        self,
        metric: Metric,
        problem: Problem,
        threshold: Threshold = 0.5,
        offsets: Threshold | None = None,
    ) -> list[Confusion]:
        """The counts at the best of all thresholds that meet the constraint."""
        self._refuse_sets(metric, problem)
        check_not_nan(problem.z, torch.isnan(problem.z))
        if not problem.soft:
            check_labels(problem.y)
        z = torch.where(problem.weights() > 0, problem.z.double(), float("inf"))
        thresholds = all_thresholds(z, problem.y, problem.w, problem.task)
        counts = in_units(thresholds.counts, problem)
        best = (
            Goal(metric, self).at_thresholds(counts, thresholds.width > 0).argmax(-1, keepdim=True)
        )
        return [counts.map(lambda t: t.gather(-1, best).squeeze(-1))]

    def soft_cells(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Confusion:
        self._refuse_sets(metric, problem)
        z = raised(problem.z, working(problem.z))
        z = z if problem.from_logits else torch.logit(z, eps=_EPS)

        def at(z: Tensor, b: Tensor) -> Confusion:
            return count_cells(replace(problem, z=z - b.unsqueeze(-1), from_logits=True), step)

        plain = z.detach()
        moved = replace(problem, z=plain, from_logits=True)
        with torch.no_grad():
            shifts = self._shifts(metric, problem, plain.double())
            b, solved, zero = self._best(Goal(metric, self), moved, step, shifts)
        for _ in range(2):  # of Newton's steps, to where the constraint is just met
            excess, by = self._derivative(plain, partial(at, b=b), zero)
            total = by.sum(-1)
            there = solved & (total.abs() > NOTHING)
            total = torch.where(there, total, 1.0)
            b = b + torch.where(there, excess / total, 0.0)
        # Elsewhere the shift is an optimum, whose first-order change does not change the metric.
        by = torch.where(there.unsqueeze(-1), by / total.unsqueeze(-1), 0.0)
        return at(z, b + (by * (z - plain)).sum(-1))

    def _refuse_sets(self, metric: Metric, problem: Problem) -> None:
        if problem.in_sets:
            name = Goal(metric, self).name
            raise ValueError(f"metric {name!r} is of all rows together: per='batch'.")

    def _best(
        self, goal: Goal, problem: Problem, step: Step, shifts: Tensor
    ) -> tuple[Tensor, Tensor, Callable[[Confusion], Tensor]]:
        """The best of the shifts ``[*lead]`` nearest to meeting the constraint, whether it is where
        a function of the counts is zero, and that function: the excess, if the constraint is met on
        one side only; of constraints that are not met together, the difference of two, if each
        is the farther one on one side. Searched among ``shifts``, then on finer and finer grids
        around the best one."""
        between = torch.linspace(0, 1, _BETWEEN, dtype=shifts.dtype, device=shifts.device)
        for _ in range(_ROUNDS + 1):
            c = _counted(problem, step, shifts)
            values = goal.at_thresholds(c)
            best = values.argmax(-1, keepdim=True)
            first = shifts.gather(-1, best)
            least, most = shifts.amin(-1, keepdim=True), shifts.amax(-1, keepdim=True)
            same = _SAME * (most - least)  # closer neighbors are rounding errors
            low = torch.where(shifts < first - same, shifts, least).amax(-1, keepdim=True)
            high = torch.where(shifts > first + same, shifts, most).amin(-1, keepdim=True)
            tried, shifts = shifts, torch.cat([low + (high - low) * between, first], -1)
        near = (tried >= low) & (tried <= high)

        def changes(mask: Tensor) -> Tensor:
            return (near & (mask != mask.gather(-1, best))).any(-1)

        met, each = self.excess(c) >= 0, self.excesses(c)
        if len(each) == 1:
            return first.squeeze(-1), changes(met), self.excess
        there = each.take_along_dim(best.unsqueeze(0), -1).squeeze(-1)
        pair = there.argsort(0)[:2]  # the constraints that are farthest from being met
        one, other = each.take_along_dim(pair.unsqueeze(-1), 0)
        between_two = ~met.gather(-1, best).squeeze(-1) & changes(one >= other)

        def zero(c: Confusion) -> Tensor:
            one, other = self.excesses(c).take_along_dim(pair, 0)
            return torch.where(between_two, one - other, self.excess(c))

        return first.squeeze(-1), between_two | changes(met), zero

    def _shifts(self, metric: Metric, problem: Problem, z: Tensor) -> Tensor:
        """Shifts to try, ``[*lead, shifts]``: weighted quantiles of the log-odds, both ends, and
        the best hard threshold. Rows without weight do not count."""
        w = problem.weights() * z.isfinite()
        z = torch.where(w > 0, z, float("inf"))
        thresholds = all_thresholds(z, problem.y, w, problem.task)
        best = (
            Goal(metric, self)
            .at_thresholds(thresholds.counts, thresholds.width > 0)
            .argmax(-1, keepdim=True)
        )
        z, order = z.sort(-1)
        mass = w.expand_as(z).gather(-1, order).cumsum(-1)
        fraction = torch.linspace(0, 1, _TRIED, dtype=mass.dtype, device=mass.device)
        number = torch.searchsorted(mass, fraction * mass[..., -1:])
        # The last row that counts: sums of weights may be rounded.
        last = (w > 0).sum(-1, keepdim=True).clamp(min=1) - 1
        quantiles = z.gather(-1, number.minimum(last))
        quantiles = torch.where(quantiles.isfinite(), quantiles, 0.0)
        low, high = quantiles[..., :1] - _OUTSIDE, quantiles[..., -1:] + _OUTSIDE
        return torch.cat([low, quantiles, high, thresholds.logit.gather(-1, best)], -1)

    def _derivative(
        self,
        z: Tensor,
        at: Callable[[Tensor], Confusion],
        zero: Callable[[Confusion], Tensor],
    ) -> tuple[Tensor, Tensor]:
        """What is zero at the threshold, and its derivative by each log-odds."""
        leaf = z.detach().requires_grad_()
        with torch.enable_grad():
            excess = zero(at(leaf))
            (by,) = torch.autograd.grad(excess.sum(), leaf)
        return excess.detach(), by


def _counted(problem: Problem, step: Step, shifts: Tensor) -> Confusion:
    """The soft counts at every shift ``[*lead, shifts]``, in blocks that bound memory."""
    # On a device the number of operations must not depend on that of rows.
    size = max(1, _BLOCK // problem.z.numel()) if readable(problem.z) else shifts.shape[-1]
    # Parameters of a step that differ within the batch have its shape.
    if any(isinstance(v, Tensor) for v in getattr(step, "__dict__", {}).values()):
        size = 1
    counted = []
    for block in torch.split(shifts.movedim(-1, 0), size):
        z = problem.z - block.unsqueeze(-1)
        moved = replace(problem, z=z[0])
        if len(block) > 1:
            w = None if problem.w is None else problem.w.expand_as(z)
            batch = problem.batch_dims + 1
            moved = replace(problem, z=z, y=problem.y.expand_as(z), w=w, batch_dims=batch)
        c = count_cells(moved, step)
        cells = torch.stack([c.tp, c.fp, c.fn, c.tn])
        counted.append(cells if len(block) > 1 else cells.unsqueeze(1))
    return Confusion.of(torch.cat(counted, 1).movedim(1, -1), problem.task)


# The rates that a constraint bounds: 1 for at least, -1 for at most; the formula for each class.
RATES: dict[str, tuple[int, Callable[[Confusion], Tensor]]] = {
    "recall": (1, lambda c: ratio(c.tp, c.support)),
    "precision": (1, lambda c: ratio(c.tp, c.predicted)),
    "specificity": (1, lambda c: ratio(c.tn, c.negatives)),
    "fpr": (-1, lambda c: ratio(c.fp, c.negatives)),
    "alerts": (-1, lambda c: ratio(c.predicted, c.total)),
}
_SIGNS = {1: ">=", -1: "<="}
GRAMMAR = (
    "Expected METRIC@CONSTRAINT, such as 'precision@recall>=0.9': recall, precision or specificity "
    ">= a number from 0 to 1 (or 90%); fpr or alerts <= one; alerts<=200/10000 for a count in the "
    "next 10,000 rows; two constraints with '&' between them."
)


@dataclass(frozen=True)
class Constraint:
    """A bound of a rate, at least or at most as ``RATES`` says.

    ``bound`` is a fraction; of ``alerts`` it may be a count, among the next ``rows`` rows, or with
    ``rows=0`` among the rows at hand.

    >>> Constraint.parse("alerts", "200/10000")
    Constraint(rate='alerts', bound=200.0, rows=10000)
    >>> Constraint.parse("recall", "90%").text
    'recall>=0.9'
    """

    rate: str
    bound: float
    rows: int | None = None

    def __post_init__(self) -> None:
        check_choice("constraint", self.rate, RATES)
        if self.rows is None:
            hint = "A count of alerts is written 200/10000." if self.rate == "alerts" else ""
            check_number(self.rate, self.bound, 0, 1, closed="both", hint=hint)
        elif self.rate != "alerts":
            raise ValueError(f"{self.rate} must be a fraction; only alerts can be a count.")
        else:
            check_integer("alerts", self.bound, 0, self.rows or 2**53)

    @classmethod
    def parse(cls, rate: str, text: str) -> Constraint:
        """The constraint of a rate and of a bound as text: ``0.9``, ``90%``, ``200/10000``."""
        check_choice("constraint", rate, RATES)
        number = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
        if match := re.fullmatch(rf"({number})\s*%", text):
            # Of two digits more than the text, so that 90% is 0.9 and not 0.9000000000000001.
            return cls(rate, round(float(match[1]) / 100, 12))
        if match := re.fullmatch(r"(\d+)\s*/\s*(\d+)", text):
            if rate == "alerts" and int(match[2]) == 0:
                raise ValueError(f"alerts must be a count among some rows, got {text!r}.")
            return cls(rate, float(match[1]), int(match[2]))
        if not re.fullmatch(number, text):
            raise ValueError(f"{rate} must be bounded by a number, got {text!r}.")
        bound = float(text)
        if rate == "alerts" and text == "1":
            raise ValueError("alerts<=1 is one row or all of them. Write 1/10000, or 100%.")
        if rate == "alerts" and bound > 1 and bound == int(bound):
            return cls(rate, bound, 0)
        return cls(rate, bound)

    @property
    def text(self) -> str:
        """As in the name of a goal: ``recall>=0.9``."""
        bound = f"{self.bound:.12g}" + (f"/{self.rows}" if self.rows else "")
        if self.rate == "alerts" and self.rows is None and self.bound == 1:
            bound = "100%"  # not one row
        return f"{self.rate}{_SIGNS[RATES[self.rate][0]]}{bound}"

    def excess(self, c: Confusion) -> Tensor:
        """How far each confusion is above the bound (below it, for at most)."""
        sign, rate = RATES[self.rate]
        bound: Tensor | float = self.bound / self.rows if self.rows else self.bound
        if self.rows == 0:
            bound = ratio(torch.full_like(c.total, self.bound), c.total)
        return sign * (rate(c) - bound)


@dataclass(frozen=True)
class Meeting(Solved):
    """Where constraints are just met.

    >>> from softset import At, evaluate
    >>> z, y = [3.0, 2.0, 1.0, 0.0, -1.0], [1, 0, 1, 1, 0]
    >>> evaluate(z, y, At("precision", recall=0.5)), evaluate(z, y, At("recall", fpr=0.0))
    (0.75, 0.3333333333333333)
    """

    constraints: tuple[Constraint, ...]

    def __post_init__(self) -> None:
        rates = [c.rate for c in self.constraints]
        if again := repeated(rates):
            raise ValueError(f"constraint on {again[0]} is repeated. State it once.")

    @classmethod
    def parse(cls, text: str) -> Meeting:
        """The place that text such as ``recall>=0.8&fpr<=0.01`` means."""
        constraints = []
        for part in text.split("&"):
            match = re.fullmatch(r"\s*([a-z_]+)\s*([<>]=?|==?|≥|≤)\s*(.*?)\s*", part)
            if not match:
                raise ValueError(
                    f"constraint {part.strip()!r} is not a rate, >= or <=, and a number."
                )
            rate, sign = match[1], {"≥": ">=", "≤": "<="}.get(match[2], match[2])
            check_choice("constraint", rate, RATES)
            if sign != (right := _SIGNS[RATES[rate][0]]):
                raise ValueError(f"constraint on {rate} must be {rate}{right}, got {rate}{sign}.")
            constraints.append(Constraint.parse(rate, match[3]))
        return cls(tuple(constraints))

    @property
    def suffix(self) -> str:  # type: ignore[override]
        return "@" + "&".join(c.text for c in self.constraints)

    def check_metric(self, metric: Metric) -> None:
        super().check_metric(metric)
        same = {"specificity": "fpr"}.get(metric.key, metric.key)
        if any(same == {"specificity": "fpr"}.get(c.rate, c.rate) for c in self.constraints):
            raise ValueError(
                f"metric {metric.key!r} cannot be bounded and be maximized at the same time."
            )

    def excess(self, c: Confusion) -> Tensor:
        return self.excesses(c).amin(0)

    def excesses(self, c: Confusion) -> Tensor:
        return torch.stack([each.excess(c) for each in self.constraints])

    def soft_cells(
        self, metric: Metric, problem: Problem, step: Step, threshold: Threshold = 0.5
    ) -> Confusion:
        for c in self.constraints:
            if c.rows == 0:
                raise ValueError(
                    f"{c.text} is a count of the rows at hand, and a loss sees batches. Write "
                    f"{c.text}/N, of the next N rows."
                )
        return super().soft_cells(metric, problem, step, threshold)

    def violation(self, metric: Metric, c: Confusion) -> str | None:
        """Which constraint a confusion of one label misses, in words; ``None`` if it meets all.

        >>> c = Confusion.from_matrix([[50, 10], [5, 35]], task="binary")
        >>> from softset import Recall
        >>> Meeting.parse("precision>=0.9").violation(Recall(), c)
        'precision 0.9 is not reached; 0.778 is, at recall 0.875'
        """
        missed = [each for each in self.constraints if float(each.excess(c)) < -_MET]
        if not missed:
            return None
        words = []
        for each in missed:
            rate, bound = float(RATES[each.rate][1](c)), each.text.removeprefix(each.rate)[2:]
            words.append(f"{each.rate} {bound} is not reached; {rate:.3g} is")
        return f"{', '.join(words)}, at {metric.name} {float(metric(c)):.3g}"
