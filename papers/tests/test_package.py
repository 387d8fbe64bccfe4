"""What is imported is declared, and nothing else."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = {"sklearn": "scikit-learn", "PIL": "pillow"}


def imported() -> set[str]:
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.split(".")[0])
    return {NAMES.get(name, name) for name in found - set(sys.stdlib_module_names)}


def test_declared_dependencies_are_those_imported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(extras) == {"adversarial", "caltech"}
    needed = [*project["dependencies"], *(name for names in extras.values() for name in names)]
    declared = {re.match(r"[\w-]+", text)[0] for text in needed}
    assert imported() - {"softset_papers"} == declared


def test_no_private_name_crosses_a_module():
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                private = [a.name for a in node.names if re.match(r"_[a-z]", a.name)]
                assert private == [], path
