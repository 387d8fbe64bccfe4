from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softset.decisions.decision import Decision
from softset.tasks import BINARY, MULTICLASS, to_logits, to_probabilities


@given(st.lists(st.floats(-700, 30), min_size=1, max_size=20), st.floats(-30, 30))
def test_the_margin_is_above_zero_exactly_where_the_decision_is_positive(scores, cut):
    decision, z = Decision("binary", np.asarray(cut)), np.array([*scores, cut])
    np.testing.assert_array_equal(decision.margin(z) > 0, decision(z) == 1)
    np.testing.assert_array_equal(decision(z), z >= cut)


@given(st.floats(1e-300, 1 - 1e-12))
def test_a_probability_at_the_threshold_is_positive(p):
    decision = Decision.at("binary", p)
    assert decision(BINARY.scores([p])).tolist() == [1]
    assert decision(BINARY.scores([np.nextafter(p, 0) * (1 - 1e-9)])).tolist() == [0]
    assert decision.threshold == pytest.approx(p, rel=1e-9)


def test_the_largest_class_decides_and_offsets_move_it():
    z = MULTICLASS.scores([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    assert Decision.plain("multiclass", 3)(z).tolist() == [0, 2, 1]
    assert Decision.at("multiclass", [0, 1.0, 0], 3)(z).tolist() == [1, 1, 1]
    assert np.isfinite(z).all()


@pytest.mark.parametrize(
    ("task", "threshold", "count"),
    [("binary", 0.0, 1), ("binary", 1.0, 1), ("binary", [0.5, 0.5], 2), ("binary", np.nan, 1),
     ("multilabel", [0.5], 2), ("multilabel", [0.5, 2.0], 2),
     ("multiclass", 0.5, 3), ("multiclass", [0.0, np.inf, 0.0], 3)],
)  # fmt: skip
def test_thresholds_that_mean_nothing_are_refused(task, threshold, count):
    with pytest.raises(ValueError, match="threshold"):
        Decision.at(task, threshold, count)


def test_logits_and_probabilities_are_inverse():
    z = np.array([-700.0, -30.0, 0.0, 2.0, 30.0])
    np.testing.assert_allclose(to_logits(to_probabilities(z)), z, rtol=1e-3)
    assert to_logits([0.0, 1.0]).tolist() == [-np.inf, np.inf]
