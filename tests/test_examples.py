"""The examples run, in a small variant, and the site has what each of them prints and draws."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
ROOT = Path(__file__).parents[1]


def tool(name):
    path = ROOT / "docs" / "tools" / f"{name}.py"
    found = importlib.util.spec_from_file_location(f"docs_tools_{name}", path)
    module = importlib.util.module_from_spec(found)
    sys.modules[module.__name__] = module
    found.loader.exec_module(module)
    return module


gallery = tool("gallery")
EXAMPLES = [p for p in sorted((ROOT / "examples").glob("*.py")) if gallery.runnable(p)]


def test_there_are_enough():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_runs_and_the_site_has_it(path, tmp_path):
    made = gallery.run(path, tmp_path, quick=True)
    assert made[0].read_text(encoding="utf-8").strip()
    for file in made:
        kept = gallery.MADE / file.name
        assert kept.exists(), f"make gallery: {file.name} is missing"
        assert kept.stat().st_size < 300_000


def test_nothing_is_kept_of_examples_that_are_gone():
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert {path.stem for path in gallery.MADE.iterdir()} <= names
