"""``Comparison`` as JSON: one schema, documented, strict."""

from __future__ import annotations

import copy
import json
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from softset.comparison.comparing import compare
from softset.comparison.result import Comparison
from softset.storage.files import SavedFileError
from softset.storage.schema import sealed
from tests.report.examples import comparison

# Small tables are warned of, and these are small.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*scores of so few are uncertain", "ignore:too good"
)
ROOT = Path(__file__).parents[2]


# --- the schema ----------------------------------------------------------------------------------


def places(kind, start=""):
    """Every field of the JSON, as docs/comparison.md names it."""
    inner = get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        for f in fields(kind):
            if f.metadata.get("in_json", True):
                yield from places(hints[f.name], f"{start}.{f.name}".lstrip("."))
    elif get_origin(kind) is list and is_dataclass(inner[0]):
        yield from places(inner[0], f"{start}[]")
    elif get_origin(kind) is dict and is_dataclass(inner[1]):
        yield from places(inner[1], f"{start}.*")
    elif get_origin(kind) in (Union, types.UnionType) and any(map(is_dataclass, inner)):
        yield from places(next(filter(is_dataclass, inner)), start)
    else:
        yield start


def test_every_field_is_documented():
    lines = (ROOT / "docs" / "comparison-json.md").read_text()
    lines = lines.partition("\n## ")[0].splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("| `")]
    assert [r.strip("`") for r in rows] == ["format", *places(Comparison), "checksum"]


# --- files of another version --------------------------------------------------------------------


def test_runs_of_another_version_are_refused(tmp_path, monkeypatch):
    """Its fits may be others."""
    x = np.random.RandomState(0).randn(60, 2)
    given = {
        "directory": tmp_path / "a",
        "quick": True,
        "cv": 2,
        "candidates": ["linear", "linear-tuned"],
    }
    compare(x, x[:, 0] > 0, n_jobs=1, **given)
    monkeypatch.setattr("softset.__version__", "0.1.0")
    with pytest.raises(SavedFileError, match="of another version of softset"):
        compare(x, x[:, 0] > 0, resume=True, n_jobs=1, **given)


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content():
    return Comparison.from_dict(comparison("binary")).to_dict()


def test_saved_and_loaded(content, tmp_path):
    found = Comparison.from_dict(content)
    found.save(tmp_path / "c.json")
    assert Comparison.load(tmp_path / "c.json") == found


def test_a_changed_score_is_refused(content):
    changed = copy.deepcopy(content)
    changed["candidates"][0]["scores"][0] -= 0.001
    with pytest.raises(ValueError, match="changed after it was written"):
        Comparison.from_dict(changed)


CHANGES = [
    (["candidates", 0, "family"], "other", "family must be 'metric' or 'baseline'"),
    (["candidates", 0, "difference", "p"], "small", "difference.p must be a finite number"),
    (["outcome"], "maybe", "outcome must be 'significant' or 'not significant' or 'stay'"),
    (["gains"], {"stages": []}, "gains.total is missing"),
    (["gains", "stages", 0, "id"], "top", "id must be 'user' or 'default'"),
    (["task"], "ranking", "task must be"),
    (["data", "classes"], {}, "data.classes must be a list"),
    (["settings", "fits"], None, "settings.fits must be"),
    (["random_state"], "0", "random_state must be an integer"),
    (["surprise"], 1, "surprise is not known"),
    (["format"], 4, "format 3 was expected, got 4"),
    (["format"], 2, "format 3 was expected, got 2. Compare again."),
]


@pytest.mark.parametrize(("place", "value", "message"), CHANGES)
def test_damage_is_one_line_that_says_where(content, place, value, message):
    changed = {k: v for k, v in copy.deepcopy(content).items() if k != "checksum"}
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError) as error:  # noqa: PT011
        Comparison.from_dict(sealed(changed))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", sorted(f.name for f in fields(Comparison) if f.name != "model"))
def test_every_field_must_be_there(content, name):
    less = {k: v for k, v in content.items() if k not in (name, "checksum")}
    with pytest.raises(ValueError, match=f"{name} is missing"):
        Comparison.from_dict(sealed(less))


def test_a_comparison_without_its_checksum_is_refused(content, tmp_path):
    """So is a file: whoever changes a number can take the checksum away too."""
    less = {k: v for k, v in content.items() if k != "checksum"}
    with pytest.raises(SavedFileError, match="checksum"):
        Comparison.from_dict(less)
    path = tmp_path / "comparison.json"
    path.write_text(json.dumps(less))
    with pytest.raises(SavedFileError, match=r"comparison.json.*checksum"):
        Comparison.load(path)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_files_that_are_no_comparison(tmp_path, text):
    path = tmp_path / "comparison.json"
    path.write_bytes(text)
    with pytest.raises(SavedFileError, match=r"^comparison\.json[: ].*(expected|whole comparison)"):
        Comparison.load(path)
