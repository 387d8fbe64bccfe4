"""A saved column is read strictly."""

import pytest

from softset.tables.kinds.saved import Saved

# (how an entry is taken, what it may hold, what it must not)
ENTRIES = [
    (lambda s: s.text("a"), ["", "x"], [None, 1, b"x", ["x"]]),
    (lambda s: s.text("a", optional=True), ["x", None], [1]),
    (lambda s: s.count("a"), [0, 5], [None, -1, True, 1.0, "1"]),
    (lambda s: s.count("a", optional=True), [None, 5], [-1, False]),
    (lambda s: s.flag("a"), [True, False], [None, 0, "x"]),
    (lambda s: s.texts("a"), [[], ["x"]], [None, "x", [1], [None], {"x": 1}]),
    (lambda s: s.number("a"), [1, -1.5], [None, True, float("nan"), float("inf"), 10**400, "1"]),
    (
        lambda s: s.numbers("a", ["b"]),
        [{"b": 1.0}],
        [{}, {"b": "x"}, {"b": 1, "c": 2}, {"c": 1}, []],
    ),
]


@pytest.mark.parametrize(("take", "good", "bad"), ENTRIES)
def test_every_entry_has_its_type(take, good, bad):
    for value in good:
        state = Saved({"a": value})
        assert take(state) == value
        state.finish()
    for value in bad:
        with pytest.raises(ValueError, match="entry 'a' of a saved column"):
            take(Saved({"a": value}))


def test_what_nobody_asked_for_is_refused():
    with pytest.raises(ValueError, match=r"entries nobody knows: \['1', 'x'\]"):
        Saved({"x": 1, 1: 2}).finish()
    with pytest.raises(ValueError, match="saved as a dictionary, got list"):
        Saved([])
