"""Numbers are what they were: see ``cases``."""

from __future__ import annotations

import json

import pytest

from tests.unchanged.cases import CASES, FILE, made, versions

KEPT = json.loads(FILE.read_text(encoding="utf-8"))
# Networks are trained in float32, whose rounding grows from batch to batch.
CLOSE = {"network": 1e-3, "streamed cross-entropy": 1e-3}


def test_every_case_is_kept():
    assert set(KEPT["numbers"]) == set(CASES)


@pytest.mark.skipif(KEPT["versions"] != versions(), reason="made with other versions of packages")
@pytest.mark.parametrize("name", CASES)
def test_nothing_has_changed(name):
    close = next((v for k, v in CLOSE.items() if name.startswith(k)), 1e-6)
    found, kept = made(name), KEPT["numbers"][name]
    assert found.keys() == kept.keys()
    for key, value in found.items():
        if isinstance(value, list):
            assert value == pytest.approx(kept[key], rel=close, abs=close, nan_ok=True), key
        else:
            assert value == kept[key], key
