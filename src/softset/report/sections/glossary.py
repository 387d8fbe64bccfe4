"""The words of the page, and the formulas of its metrics."""

from __future__ import annotations

from softset.metrics.registry import METRICS, label_of
from softset.report.context import Content, Page, known_goal

ID, GROUP = "glossary", ""
TITLE = "Words and formulas"
_WORDS = {
    "candidate": "One way to train a classifier. All of them see the same splits.",
    "trained for the metric": "Its loss, or its objective, is a soft version of the metric itself.",
    "reference": "The best baseline at the default threshold. Your own model, if you passed one.",
    "chosen on the other splits": "The candidate with the best mean there is scored on this split, "
    "so that rows do not choose what they score. Choosing the best of many on the same rows is "
    "optimistically biased.",
    "stage": "All candidates up to a kind of effort: default threshold, tuned threshold, trained "
    "for the metric, ensemble.",
    "significant": "Adjusted p of at most 0.05: if all candidates were equally good, at most 5 of "
    "100 comparisons would have any significant stage.",
    "split": "Rows divided into training and test rows. A repeat divides them into folds, each of "
    "which is the test once.",
    "95 % interval": "Contains the true mean in 95 of 100 such comparisons.",
    "difference": "Mean over the splits of the score minus that of the reference.",
    "p": "How often a difference as large would occur between two that are equally good.",
    "p adjusted": "The same, corrected by Holm's method: in the table for all candidates, in the "
    "stages for all stages, which are fewer tests.",
    "size": "Bytes of the fitted model.",
    "chance to be better": "How sure one may be that the true difference is above zero.",
    "mean rank": "1 is the best of a split; the mean over the splits.",
    "held out": "Not used in training: the scores of such rows are those of new ones.",
    "soft": "A score counts as a fraction of a decision, less the nearer it is to the threshold.",
    "Brier score": "The mean squared distance between score and label; lower is better.",
}
_WITH_THRESHOLD = {
    "threshold": "Rows with at least this score are predicted positive.",
    "flagged": "The fraction of the rows that is predicted positive.",
    "tp, fp, fn, tn": "True positives, false positives (false alarms), false negatives (missed), "
    "true negatives: the four cells.",
}
_WITHOUT = {
    "tp, fp, fn, tn": "Of each class: true positives, false positives, false negatives, true "
    "negatives. “Macro” is the mean over the classes.",
    "offsets": "A number for each class that is added to its log-probability; the largest sum "
    "decides.",
}


def content(page: Page) -> Content | None:
    """The values of the template."""
    goal = known_goal(page.comparison.metric)
    first = [goal.metric.key] if goal is not None and goal.metric.key in METRICS else []
    keys = dict.fromkeys([*first, *METRICS])
    return {
        "words": _WORDS | (_WITH_THRESHOLD if page.operating.has_slider else _WITHOUT),
        "formulas": {label_of(key): METRICS[key].formula for key in keys},
    }
