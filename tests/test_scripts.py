"""Scripts that no other test runs: each can be imported, so what it uses is still there."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "examples", "papers/benchmarks")
# It loads a model when it is imported: tests/test_serving.py does that.
ELSEWHERE = {"serving.py"}
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.py"))


def test_the_scripts_are_found():
    assert {path.parent.name for path in SCRIPTS} == {"benchmarks", "examples"}
    assert len(SCRIPTS) > 8


@pytest.mark.parametrize(
    "path", [p for p in SCRIPTS if p.name not in ELSEWHERE], ids=lambda p: p.stem
)
def test_a_script_can_be_imported_and_is_run_or_used(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # where the others that it may use are
    monkeypatch.setattr(os, "environ", dict(os.environ))  # some set the number of threads
    specification = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    try:
        specification.loader.exec_module(module)
    except ModuleNotFoundError as error:
        if error.name.startswith("softset"):
            raise
        pytest.skip(f"{error.name} is not installed")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
        assert callable(module.main)
    else:
        used = re.compile(rf"^(from|import) (benchmarks\.)?{path.stem}\b", re.MULTILINE)
        assert any(used.search(other.read_text(encoding="utf-8")) for other in SCRIPTS)
