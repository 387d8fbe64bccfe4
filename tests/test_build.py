"""The build of the kernels in C, which may fail without harm."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
hatch_build = pytest.importorskip("hatch_build")


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """The library of the project is not touched."""
    library = tmp_path / "softset_kernels.so"
    monkeypatch.setattr(hatch_build, "LIBRARY", library)
    return library


def test_without_a_compiler_it_says_so_and_goes_on(monkeypatch, capsys, elsewhere):
    monkeypatch.setattr(hatch_build, "compiler", lambda: None)
    assert not hatch_build.build_if_possible()
    assert "those in PyTorch serve: there is no C compiler" in capsys.readouterr().err
    assert not elsewhere.exists()


def test_with_one_that_fails_too(monkeypatch, capsys, elsewhere):
    elsewhere.write_text("an old one")
    monkeypatch.setattr(hatch_build, "compiler", lambda: ["false"])
    assert not hatch_build.build_if_possible()
    assert "no kernels in C" in capsys.readouterr().err
    assert not elsewhere.exists()
