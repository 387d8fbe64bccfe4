"""Early stopping, against a slow and obvious version of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softset.training.loop import Patience


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, math.nan]), max_size=30), st.integers(1, 5))
def test_it_stops_when_the_best_is_patience_epochs_old(losses, patience):
    stop = Patience(patience)
    for epoch, loss in enumerate(losses):
        before = [v for v in losses[:epoch] if not math.isnan(v)]
        best = min(before, default=math.inf)
        said = stop.update(loss)
        if loss < best:
            assert said == "improved"
            continue
        age = epoch - losses.index(best) if before else epoch + 1
        assert said == ("stopped" if age >= patience else "waiting")
        if said == "stopped":
            return


def test_it_goes_on_where_it_was_saved():
    stop, other = Patience(3), Patience(3)
    for loss in (0.5, 0.6, 0.7):
        stop.update(loss)
    other.load_state_dict(stop.state_dict())
    assert other.update(0.5) == stop.update(0.5) == "stopped"


@pytest.mark.parametrize("wrong", [0, 1.5, math.inf, None])
def test_patience_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="patience must be an integer from 1"):
        Patience(wrong)
