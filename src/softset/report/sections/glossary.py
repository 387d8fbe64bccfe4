"""The words of the page, and the formulas of its metrics."""

from __future__ import annotations

from typing import Any

from softset.comparison.verdict import significance
from softset.metrics.registry import METRICS, label_of
from softset.report.counts import known_goal
from softset.report.sections.base import Page

ID, GROUP = "glossary", ""
TITLE = "Words and formulas"
_WORDS = {
    "candidate": "One way to train a classifier. All of them see the same splits.",
    "trained on the metric": "Its loss, or its objective, is a soft version of the metric itself.",
    "reference": "The best of what people do by default: trained as usual and cut at 0.5. Your own "
    "model, if you gave one.",
    "chosen on the other splits": "The candidate with the best mean there is scored on this split: "
    "what choosing is worth on rows that had no say in it. The best of many on the same rows "
    "flatters itself.",
    significance(True): "A difference as large would come by chance in at most 5 of 100 "
    "comparisons in which there is none, all steps of the ladder taken together.",
    "split": "The rows cut into training and test rows. A repeat cuts them into folds, each of "
    "which is the test once.",
    "95 % interval": "Would hold the true mean in 95 of 100 such comparisons.",
    "difference": "Mean over the splits of the score minus that of the reference.",
    "p": "How often a difference as large would come by chance between two that are equally good.",
    "p adjusted": "The same, allowing for all candidates that were looked at.",
    "size": "Bytes of what the model has learned.",
    "chance to be better": "How sure one may be that the true difference is above zero.",
    "mean rank": "1 is the best of a split; the mean over the splits.",
    "held out": "Not used in training: the scores of such rows are those of new ones.",
    "soft": "A score counts as a decision in part, the nearer to the threshold the less sure.",
    "Brier score": "The mean squared distance between score and label; the less, the better.",
}
_WITH_THRESHOLD = {
    "threshold": "Rows with at least this score are decided positive.",
    "flagged": "The share of the rows that is decided positive.",
    "tp, fp, fn, tn": "Found, false alarms, missed, and rightly left alone: the four cells.",
}
_WITHOUT = {
    "tp, fp, fn, tn": "Of each class: found, false alarms, missed, rightly left alone. “Macro” is "
    "the mean over the classes.",
}


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads."""
    own = known_goal(page.comparison.metric)
    first = [own.metric.key] if own is not None and own.metric.key in METRICS else []
    keys = dict.fromkeys([*first, *METRICS])
    return {
        "words": _WORDS | (_WITH_THRESHOLD if page.operating.has_slider else _WITHOUT),
        "formulas": {label_of(key): METRICS[key].formula for key in keys},
    }
