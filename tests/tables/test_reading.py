"""How much may be read."""

import os

import pytest

from softset.tables import reading
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


def test_the_limits_of_a_control_group_are_seen(tmp_path, monkeypatch):  # D23
    monkeypatch.setattr(reading, "_group_limits", lambda: iter([3 * 2**20]))
    assert reading.free_memory() == 3 * 2**20
    monkeypatch.undo()
    for line, top, limit, used in (
        ("0::/box", ".", "memory.max", "memory.current"),
        ("7:memory:/box", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        (tmp_path / "membership").write_text(f"{line}\n3:cpu:/other\n")
        directory = tmp_path / top / "box"
        directory.mkdir(parents=True)
        (directory / limit).write_text("5000000\n")
        (directory / used).write_text("1000000\n")
        (tmp_path / top / limit).write_text("max\n")
        assert list(reading._group_limits(tmp_path, tmp_path / "membership")) == [4_000_000]


def test_the_limits_of_the_shell_are_seen():  # D23
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, hard))
    try:
        assert reading.free_memory() <= 2**30
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
