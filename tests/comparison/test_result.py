"""What a comparison says in words; ``test_comparison`` has the rest."""

from __future__ import annotations

from softset.comparison.statistics import paired
from softset.comparison.summary import _interval
from softset.metrics.registry import label_of


def test_a_single_split_cannot_tell_and_the_verdict_says_so():
    alone = paired([0.7], [0.6], test_share=0.2)
    assert _interval(alone) == "+0.100 on a single split, which cannot tell"


def test_metrics_have_a_name_for_sentences():
    names = ("f1", "f0.5", "f1_macro", "mcc", "balanced_accuracy")
    labels = ["F1", "F0.5", "F1 macro", "MCC", "balanced accuracy"]
    assert [label_of(name) for name in names] == labels
