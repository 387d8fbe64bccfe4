"""What docs/architecture.md and CONTRIBUTING.md name exists: subpackages, paths, commands."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from tests import house

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "softset"


def layers() -> list[str]:
    """The subpackages of the contract, in import order."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    first = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [name.removeprefix("softset.") for name in reversed(first)]


def test_every_subpackage_is_listed_in_import_order_and_held_by_the_contract():
    listed = re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.MULTILINE)
    assert listed == layers()
    there = {p.name.removesuffix(".py") for p in SOURCE.iterdir() if p.suffix in ("", ".py")}
    assert there - {"__init__", "__main__", "__pycache__", "py"} == set(listed)


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`([\w/]+\.py::[\w.]+)`", ARCHITECTURE))))
def test_every_name_of_the_walks_exists(named):
    path, name = named.split("::")
    found = importlib.import_module("softset." + path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "contributing"])
def test_every_path_exists(page):
    paths = re.findall(r"`((?:papers/)?[\w/.-]+(?:/|\.pyi?|\.txt))[`:]", page)
    assert len(paths) > 10
    for path in paths:
        assert any((place / path).exists() for place in (ROOT, SOURCE, ROOT / "docs")), path
    for link in re.findall(r"\]\(([\w./-]+)\)", page):
        place = ROOT if page is CONTRIBUTING else ROOT / "docs"
        assert (place / link).exists(), link


def test_every_make_target_exists():
    targets = set(re.findall(r"make ([a-z-]+)", CONTRIBUTING)) - {"a"}
    known = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert targets
    assert targets <= set(known)


@pytest.mark.parametrize("folder", ["src", "papers/src"])
def test_no_module_is_over_500_lines(folder):
    files = {
        p: len(p.read_text(encoding="utf-8").splitlines()) for p in ROOT.glob(f"{folder}/**/*.py")
    }
    assert files
    assert not {str(p): n for p, n in files.items() if n > 500}


TREES = house.trees


def subpackage_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_no_private_name_is_imported_from_another_subpackage():
    found = [
        f"{path.relative_to(SOURCE)}: {node.module}.{name.name}"
        for path, tree in TREES().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softset.")
        for name in node.names
        if name.name.startswith("_") and node.module.split(".")[1] != subpackage_of(path)
    ]
    assert found == []


def test_the_counts_of_the_house_stay_within_their_limits():
    """How entangled the source is, by ``python -m tests.house``; a limit only ever falls."""
    assert house.task_name_comparisons() <= 0
    assert house.annotations_with_any() <= 111
    assert len(house.longest_chain()) <= 18
    assert len(house.modules_of_a_loss()) <= 8


def test_no_decision_hangs_on_the_text_of_an_error():
    """``"..." in str(error)`` and the like, where ``error`` is what was caught."""
    found = []
    for path, tree in TREES().items():
        for handler in ast.walk(tree):
            if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
                continue
            for node in ast.walk(handler):
                if isinstance(node, ast.Compare) and f"str({handler.name})" in ast.unparse(node):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == []
