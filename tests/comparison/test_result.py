"""``Comparison`` as JSON: one schema, documented, strict; and files of the version before."""

from __future__ import annotations

import copy
import json
import shutil
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import pandas as pd
import pytest

from softset.comparison.comparing import compare
from softset.comparison.result import Comparison
from softset.storage.files import SavedFileError

# Small tables are warned of, and these are small.
pytestmark = pytest.mark.filterwarnings("ignore:.*scores of so few say little", "ignore:too good")
ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "data" / "v0.1"
FILES = ["comparison-binary/comparison.json", "comparison-multiclass.json"]
FILES += ["comparison-multilabel.json"]
FIRST = ROOT / "tests" / "data" / "format-1"  # the last that was written in format 1


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


# --- files of before -----------------------------------------------------------------------------


def in_format_1(found):
    """What ``to_dict`` gives, without what format 1 does not know."""
    again = found.to_dict()
    assert again.pop("checksum")
    assert again.pop("importances") == []
    assert (again.pop("advice"), again.pop("ladder"), again["format"]) == ("", None, 2)
    for c in again["candidates"]:
        assert (c.pop("rung"), c.pop("size")) == (None, None)
    return again | {"format": 1}


@pytest.mark.parametrize("name", FILES)
def test_files_of_version_0_1_load(name):
    found = Comparison.load(OLD / name)
    again = in_format_1(found)
    assert [again["data"].pop(k) for k in ("used", "refitted")] == [None, None]
    assert again == json.loads((OLD / name).read_text())
    assert found.verdict in str(found)


def test_files_of_format_1_load_and_their_checksum_is_looked_at(tmp_path):
    path = FIRST / "comparison.json"
    content = json.loads(path.read_text())
    found = Comparison.load(path)
    assert in_format_1(found) == {k: v for k, v in content.items() if k != "checksum"}
    assert found.outcome == "none"
    found.save(tmp_path / "again.json")
    assert Comparison.load(tmp_path / "again.json") == found
    content["verdict"] = "Training on F1 wins."
    with pytest.raises(ValueError, match="changed after it was written"):
        Comparison.from_dict(content)


def test_runs_of_another_version_are_refused(tmp_path):
    """Its fits may be others."""
    shutil.copytree(OLD / "comparison-binary", tmp_path / "a")
    table = pd.read_csv(tmp_path / "a" / "data.csv")
    y = table.pop("churn")
    with pytest.raises(SavedFileError, match="of another version of softset"):
        compare(table, y, directory=tmp_path / "a", resume=True, quick=True, folds=2)


@pytest.fixture
def same_version(monkeypatch):
    """As if the fits of that version were ours: its lines must be read."""
    monkeypatch.setattr("softset.__version__", "0.1.0")


@pytest.mark.usefixtures("same_version")
def test_runs_of_format_1_are_gone_on_with(tmp_path):
    """Their models have no size, so nothing is said about simplicity."""
    shutil.copytree(FIRST, tmp_path / "a")
    table = pd.read_csv(tmp_path / "a" / "data.csv")
    y = table.pop("churn")
    old = Comparison.load(tmp_path / "a" / "comparison.json")
    given = {"quick": True, "folds": 3, "repeats": 2, "jobs": 1, "pos_label": "left"}
    ids = [c.id for c in old.candidates]
    found = compare(table, y, directory=tmp_path / "a", resume=True, candidates=ids, **given)
    assert {c.id: c.scores for c in found.candidates} == {c.id: c.scores for c in old.candidates}
    assert [r.id for r in found.ladder.rungs] == ["default", "tuned", "metric"]
    assert found.ladder.simpler is None


@pytest.mark.usefixtures("same_version")
def test_runs_of_version_0_1_are_gone_on_with(tmp_path):
    shutil.copytree(OLD / "comparison-binary", tmp_path / "a")
    table = pd.read_csv(tmp_path / "a" / "data.csv")
    y = table.pop("churn")
    ids = ["boosting-metric", "boosting-tuned", "metric", "cross-entropy-tuned"]
    given = {"quick": True, "folds": 2, "candidates": ids, "jobs": 1}
    told = []
    found = compare(
        table, y, directory=tmp_path / "a", resume=True, progress=lambda *p: told.append(p), **given
    )
    assert told[0][:2] == (6, 6)  # all of them were there
    old = Comparison.load(tmp_path / "a" / "comparison.json")
    assert {c.id: c.scores for c in found.candidates} == {c.id: c.scores for c in old.candidates}


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content():
    return Comparison.load(OLD / FILES[0]).to_dict()


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
    with pytest.raises(ValueError, match="the mean of cross-entropy-tuned must be that of its"):
        Comparison.from_dict(changed)


CHANGES = [
    (["winner"], "nobody", "winner must be a candidate"),
    (["reference"], "nobody", "reference must be a candidate"),
    (["candidates", 0, "id"], "metric", "candidates with different ids: 3 found, 4 expected"),
    (["candidates", 0, "scores"], [], "scores of cross-entropy-tuned: 0 found, 2 expected"),
    (["candidates", 0, "error"], "bad", "scores of cross-entropy-tuned: 2 found, 0 expected"),
    (["candidates", 0, "mean"], None, "winner must be a candidate that has a mean"),
    (["candidates", 0, "family"], "other", "family must be 'metric' or 'plain'"),
    (["candidates", 2, "mean"], None, "the mean of "),
    (["candidates", 1, "difference", "p"], "small", "difference.p must be a finite number"),
    (["splits", "count"], 3, "scores of cross-entropy-tuned"),
    (["outcome"], "maybe", "outcome must be 'clear' or 'unclear' or 'stay' or "),
    (["ladder"], {"rungs": []}, "ladder.worth is missing"),
    (["task"], "ranking", "task must be"),
    (["predictions", "metric", "scores"], [0.5], "scores of the predictions of metric"),
    (["predictions", "metric", "scores", 3], 1.5, "scores of the predictions of metric"),
    (["predictions", "metric", "target", 3], 2, "target of the predictions of metric"),
    (["predictions", "metric", "threshold"], [0.5, 0.5], "threshold of the predictions of metric"),
    (["predictions", "else"], {"target": [], "scores": [], "threshold": None, "note": ""}, "else"),
    (["history", "metric", "soft"], [0.5], "history of metric: epochs"),
    (["data", "classes"], {}, "data.classes must be a list"),
    (["settings", "fits"], None, "settings.fits must be"),
    (["seed"], "0", "seed must be a whole number"),
    (["surprise"], 1, "surprise is not known"),
    (["format"], 3, "format 2 was expected, got 3"),
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
    ({"rungs": [RUNG | {"scores": [0.6] * 3}]}, "scores of the rung default must be one a split"),
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
    with pytest.raises(SavedFileError, match=r"comparison\.json is no whole comparison"):
        Comparison.load(path)
