"""How much may be read."""

import os

import pytest

from softset.tables.reading import bytes_allowed, too_large


def test_the_limit_is_given_set_or_an_eighth_of_the_free_memory(monkeypatch):
    monkeypatch.delenv("SOFTSET_LIMIT", raising=False)
    assert bytes_allowed(5) == 5
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 2**20 < bytes_allowed(None) < whole / 8
    monkeypatch.setenv("SOFTSET_LIMIT", "1.5")
    assert bytes_allowed(None) == 3 * 2**19
    assert bytes_allowed(5) == 5
    for bad in ("x", "inf", "nan"):
        monkeypatch.setenv("SOFTSET_LIMIT", bad)
        with pytest.raises(ValueError, match="SOFTSET_LIMIT must be megabytes"):
            bytes_allowed(None)


def test_the_error_says_how_much_and_what_to_do():
    assert str(too_large("a.csv", 3 * 2**20, 2**20)).startswith(
        "a.csv holds 3 MB of data, more than the limit of 1 MB here"
    )
    assert "a.csv holds more data than" in str(too_large("a.csv", None, 2**20))
