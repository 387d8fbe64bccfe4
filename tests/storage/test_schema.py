"""JSON to dataclasses: what is not as it was written is refused, in one line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from softset.storage.schema import checksum, decoded, encoded


@dataclass
class Inner:
    name: str
    size: int | None


@dataclass
class Outer:
    kind: Literal["a", "b"]
    share: float
    on: bool
    inner: Inner
    many: list[Inner]
    named: dict[str, float]
    pairs: list[tuple[str, int]]
    cut: float | list[float]
    more: int = 3
    hidden: Any = field(default=None, metadata={"in_json": False})


GOOD = {
    "kind": "a",
    "share": 1,
    "on": True,
    "inner": {"name": "x", "size": None},
    "many": [{"name": "y", "size": 2}],
    "named": {"z": 0.5},
    "pairs": [["p", 1]],
    "cut": [0.1, 0.2],
    "more": 4,
}


def test_there_and_back():
    found = decoded(Outer, GOOD)
    assert found.inner == Inner("x", None)
    assert (type(found.share), found.pairs, found.cut) == (float, [("p", 1)], [0.1, 0.2])
    assert json.loads(json.dumps(encoded(found))) == GOOD
    assert decoded(Outer, {k: v for k, v in GOOD.items() if k != "more"}).more == 3


BAD = [
    ({"kind": "c"}, "kind must be 'a' or 'b', got 'c'."),
    ({"share": "1"}, "share must be a finite number, got '1'."),
    ({"share": float("nan")}, "share must be a finite number, got nan."),
    ({"share": True}, "share must be a finite number, got True."),
    ({"on": 1}, "on must be true or false, got 1."),
    ({"inner": []}, "inner must be an object, got a list of 0."),
    ({"inner": {"name": "x"}}, "inner.size is missing."),
    ({"inner": {"name": "x", "size": 1, "old": 2}}, "inner.old is not known; name, size may be"),
    ({"many": [{"name": "y", "size": 2.5}]}, "many[0].size must be an integer, got 2.5."),
    ({"named": {"z": None}}, "named.z must be a finite number, got None."),
    ({"pairs": [["p"]]}, "pairs[0] must be a list of text and an integer, got a list of 1."),
    ({"cut": "half"}, "cut must be a finite number or a list of a finite number, got 'half'."),
    ({"more": None}, "more must be an integer, got None."),
    ({"hidden": 1}, "hidden is not known"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_what_is_wrong_is_said(changed, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        decoded(Outer, {**GOOD, **changed})
    assert str(error.value).startswith(message)


def test_a_checksum_sees_a_change_of_one_digit_and_no_order():
    turned = dict(reversed(GOOD.items()))
    assert checksum(GOOD) == checksum(turned)
    assert checksum(GOOD) != checksum({**GOOD, "named": {"z": 0.5000001}})
