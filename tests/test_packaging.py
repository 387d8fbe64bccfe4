"""What is said about versions and licences is what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import softset as ss

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Extras that users install; [onnx] needs newer versions of what it shares with the others.
USED = ("boosting", "cli", "report", "excel", "onnx", "plot")


def bounds(*extras: str) -> dict[str, str]:
    """Package -> lowest version, of the required packages and of some extras."""
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"].get(extra, [])
    pairs = (re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in wanted)
    return {p[1].lower(): p[2] for p in pairs if p}


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    parts = (line.split("==") for line in lines if "==" in line)
    return {package.lower(): version for package, version in parts}


def test_the_lowest_versions_tested_are_the_lowest_allowed():
    tested = pins("constraints-lowest.txt")
    for package, lowest in bounds("boosting", "cli", "report", "excel", "plot").items():
        if package != "torch":  # no older CPU build on every index
            assert re.fullmatch(rf"{re.escape(lowest)}(\.\d+)*", tested[package]), package


def test_every_package_that_users_install_is_pinned_and_its_licence_listed():
    pinned = {name.replace("_", "-") for name in pins("constraints.txt")}
    listed = re.findall(r"^\| ([\w-]+) \|", (ROOT / "docs/licences.md").read_text(), re.M)
    for package in bounds(*USED):
        assert package.replace("_", "-") in pinned, package
        assert package in listed, package


def test_one_version_everywhere():
    said = {
        "CITATION.cff": r"^version: (.+)$",
        "papers/src/softset_papers/__init__.py": r'^__version__ = "(.+)"$',
    }
    for name, pattern in said.items():
        found = re.search(pattern, (ROOT / name).read_text(), re.M)
        assert found, name
        assert found[1] == ss.__version__, name
