"""``Comparison`` as JSON: one schema, documented, strict."""

from __future__ import annotations

import copy
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from softset.comparison.comparing import compare
from softset.comparison.result import Comparison
from softset.storage.files import SavedFileError
from tests.report.examples import comparison

# Small tables are warned of, and these are small.
pytestmark = pytest.mark.filterwarnings("ignore:.*scores of so few say little", "ignore:too good")
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
    lines = (ROOT / "docs" / "comparison.md").read_text().partition("## The JSON")[2]
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
        "folds": 2,
        "candidates": ["linear", "linear-tuned"],
    }
    compare(x, x[:, 0] > 0, jobs=1, **given)
    monkeypatch.setattr("softset.__version__", "0.1.0")
    with pytest.raises(SavedFileError, match="of another version of softset"):
        compare(x, x[:, 0] > 0, resume=True, jobs=1, **given)


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content():
    return Comparison.from_dict(comparison("binary")).to_dict()


def test_saved_and_loaded(content, tmp_path):
    found = Comparison.from_dict(content)
    found.save(tmp_path / "c.json")
    assert Comparison.load(tmp_path / "c.json") == found


def test_a_changed_score_is_refused_with_and_without_a_checksum(content):
    changed = copy.deepcopy(content)
    changed["candidates"][0]["scores"][0] -= 0.001
    with pytest.raises(ValueError, match="changed after it was written"):
        Comparison.from_dict(changed)
    del changed["checksum"]
    with pytest.raises(ValueError, match="the mean of warm must be that of its"):
        Comparison.from_dict(changed)


CHANGES = [
    (["winner"], "nobody", "winner must be a candidate"),
    (["reference"], "nobody", "reference must be a candidate"),
    (["candidates", 0, "id"], "metric", "candidates with different ids: 10 found, 11 expected"),
    (["candidates", 0, "scores"], [], "scores of warm: 0 found, 10 expected"),
    (["candidates", 0, "error"], "bad", "scores of warm: 10 found, 0 expected"),
    (["candidates", 0, "mean"], None, "winner must be a candidate that has a mean"),
    (["candidates", 0, "family"], "other", "family must be 'metric' or 'plain'"),
    (["candidates", 2, "mean"], None, "the mean of "),
    (["candidates", 0, "difference", "p"], "small", "difference.p must be a finite number"),
    (["splits", "count"], 3, "scores of warm"),
    (["outcome"], "maybe", "outcome must be 'clear' or 'unclear' or 'stay'"),
    (["ladder"], {"rungs": []}, "ladder.worth is missing"),
    (["task"], "ranking", "task must be"),
    (["predictions", "warm", "scores"], [0.5], "scores of the predictions of warm"),
    (["predictions", "warm", "scores", 3], 1.5, "scores of the predictions of warm"),
    (["predictions", "warm", "target", 3], 2, "target of the predictions of warm"),
    (["predictions", "warm", "threshold"], [0.5, 0.5], "threshold of the predictions of warm"),
    (["predictions", "else"], {"target": [], "scores": [], "threshold": None, "note": ""}, "else"),
    (["history", "warm", "soft"], [0.5], "history of warm: epochs"),
    (["data", "classes"], {}, "data.classes must be a list"),
    (["settings", "fits"], None, "settings.fits must be"),
    (["seed"], "0", "seed must be a whole number"),
    (["surprise"], 1, "surprise is not known"),
    (["format"], 3, "format 2 was expected, got 3"),
    (["format"], 1, "format 2 was expected, got 1. Compare again."),
]


@pytest.mark.parametrize(("place", "value", "message"), CHANGES)
def test_damage_is_one_line_that_says_where(content, place, value, message):
    changed = {k: v for k, v in copy.deepcopy(content).items() if k != "checksum"}
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError) as error:  # noqa: PT011
        Comparison.from_dict(changed)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


RUNG = {"id": "default", "name": "cut at 0.5", "choice": "metric", "scores": [0.5, 0.7]}
RUNG |= {"mean": 0.6, "low": None, "high": None, "step": None, "clear": False}
WORTH = {"mean": 0.1, "low": 0.0, "high": 0.2, "p": 0.1, "probability": 0.9, "p_adjusted": 0.2}
LADDER = {"rungs": [RUNG], "worth": WORTH, "clear": False, "simpler": None}
PRICE = {"candidate": "nobody", "times": 20.0, "difference": WORTH, "clear": False}
LADDERS = [
    ({}, ""),
    ({"rungs": []}, "must hold at least one rung"),
    ({"rungs": [RUNG | {"choice": "nobody"}]}, "the ladder names 'nobody'"),
    ({"rungs": [RUNG | {"id": "top"}]}, "id must be 'own' or 'default'"),
    ({"rungs": [RUNG | {"mean": 0.7}]}, "the mean of the rung default must be that of its scores"),
    ({"rungs": [RUNG | {"scores": [0.6] * 11}]}, "scores of the rung default must be one a split"),
    ({"rungs": [RUNG | {"scores": []}]}, "scores of the rung default must be one a split"),
    ({"simpler": PRICE}, "the ladder names 'nobody'"),
]


@pytest.mark.parametrize(("change", "message"), LADDERS)
def test_a_ladder_is_checked(content, change, message):
    changed = {k: v for k, v in content.items() if k != "checksum"} | {"ladder": LADDER | change}
    if not message:
        assert Comparison.from_dict(changed).ladder.rungs[0].choice == "metric"
        return
    with pytest.raises(ValueError, match=message):
        Comparison.from_dict(changed)


@pytest.mark.parametrize("name", sorted(f.name for f in fields(Comparison) if f.name != "model"))
def test_every_field_must_be_there(content, name):
    less = {k: v for k, v in content.items() if k not in (name, "checksum")}
    with pytest.raises(ValueError, match=f"{name} is missing"):
        Comparison.from_dict(less)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_files_that_are_no_comparison(tmp_path, text):
    path = tmp_path / "comparison.json"
    path.write_bytes(text)
    with pytest.raises(SavedFileError, match=r"^comparison\.json[: ].*(expected|whole comparison)"):
        Comparison.load(path)
