"""Costs of each row in the result of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softset.classifiers.model import Model


@dataclass(frozen=True)
class RowCosts:
    """How the refitted winner decides by costs of each row: in a sentence, and the mean cost of a
    row (or profit, as ``word`` says) out of fold by ``rules``, the one in use first."""

    sentence: str
    word: str
    rules: dict[str, float]


def model_costs(model: Model | None) -> RowCosts | None:
    """How the refitted model decides by costs of each row."""
    rule = None if model is None else model.classifier.decision_.costs
    if rule is None:
        return None
    sign = -rule.cost.sign
    means = {
        "expected costs of each row": sign * rule.row_cost,
        f"one threshold, {rule.threshold:.4g}": sign * rule.threshold_cost,
        "default threshold, 0.5": sign * rule.plain_cost,
        "without a model (all rows flagged, or none)": sign * rule.constant_cost,
    }
    items = list(means.items())
    order = (0, 1, 2, 3) if rule.by_row else (1, 0, 2, 3)
    return RowCosts(str(rule), rule.cost.word, dict(items[i] for i in order))
