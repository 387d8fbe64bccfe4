"""The study end to end, on a small set: the plan, a run, going on after a stop, the pages of it."""

from __future__ import annotations

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("lightgbm")
common = pytest.importorskip("common")
when = pytest.importorskip("when")
when_models = pytest.importorskip("when_models")

SMALL = ("linear", "network 2", "tree, 2 leaves")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A set of 150 rows, three small models, no made-up families; -> run(*arguments)."""
    random = np.random.RandomState(0)
    x = random.randn(150, 3)
    label = np.where(x[:, 0] + 0.5 * random.randn(150) > 1, 1, -1)
    folder = tmp_path / "imblearn_zenodo"
    folder.mkdir()
    frame = pandas.DataFrame(x, columns=["f0", "f1", "f2"]).assign(label=label)
    frame.to_parquet(folder / "tiny.parquet")
    monkeypatch.setattr(when_models, "EPOCHS", 2)
    monkeypatch.setattr(when, "real_sets", lambda directory: ["tiny"])
    monkeypatch.setattr(when, "MANY", ("tiny",))
    monkeypatch.setattr(when, "FAMILIES", {})
    monkeypatch.setattr(when, "DIGITS", ())
    monkeypatch.setattr(when, "METRICS", ("mcc",))
    monkeypatch.setattr(when, "DATA_AXES", {"rows": when.DATA_AXES["rows"]})
    monkeypatch.setattr(when, "CAPACITIES", {name: when.CAPACITIES[name] for name in SMALL})
    monkeypatch.setattr(when, "THREE", SMALL[:1])
    monkeypatch.setattr(when, "SPLITS", 2)
    out, picture = tmp_path / "when.jsonl", tmp_path / "docs" / "when.svg"

    def run(*arguments):
        given = ["when.py", *arguments, "--out", str(out)]
        given += ["--data-dir", str(tmp_path), "--picture", str(picture)]
        monkeypatch.setattr("sys.argv", given)
        when.main()
        return common.read(out)

    run.out, run.picture = out, picture
    return run


def without_time(records):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in records]


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_to_the_same_results(small, capsys):
    whole = small("run")
    # two splits of: three models, rivals, one metric, three shares of the rows
    assert len(whole) == 2 * (3 + 1 + 1 + 3)
    assert all(0 <= v <= 1 for r in whole for n, v in r["scores"].items() if r["metric"] == "f1")
    rarer, commoner = whole[0]["positives"], whole[0]["rows"] - whole[0]["positives"]
    shares = {sum(max(8, round(c / k)) for c in (rarer, commoner)) for k in (2, 4, 8)}
    assert {r["rows"] for r in whole if r["axis"] == "rows"} == shares
    lines = small.out.read_text().splitlines(keepends=True)
    small.out.write_text("".join(lines[:5]) + lines[5][:40])
    again = small("run", "--resume")
    assert without_time(again) == without_time(whole)
    assert "11 cells run, 0 left" in capsys.readouterr().out


def test_results_are_not_overwritten(small, capsys):
    common.append(small.out, {"set": "kept"})
    with pytest.raises(SystemExit, match="2"):
        small("run")
    assert "Add --resume" in capsys.readouterr().err
    assert common.read(small.out) == [{"set": "kept"}]


def test_a_run_stops_when_its_hours_are_used_up(small, capsys):
    assert len(small("run", "--hours", "1e-9")) == 1
    assert "1 cells run, 15 left" in capsys.readouterr().out


def test_show_prints_the_tables_and_draws_the_picture(small, capsys):
    small("run", "--hours", "1e-9")
    small("show")
    shown = capsys.readouterr().out
    assert "| capacity | 1 of 3 | 0 of 3 |" in shown
    assert small.picture.read_text().startswith("<svg")


def test_a_folder_without_data_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["when.py", "run", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        when.main()
    assert "--data-dir must hold" in capsys.readouterr().err


def test_every_axis_comes_before_the_last_splits():
    cells = when.plan(["mammography", "ecoli"], list(when.FAMILIES), 3)
    assert len(cells) == len(set(cells))
    assert [c.capacity for c in cells[:3]] == list(when.THREE)
    last_axis = max(
        next(i for i, c in enumerate(cells) if c.axis == a)
        for a in ("capacity", "further", "rivals", "metric", *when.DATA_AXES)
    )
    assert last_axis < next(i for i, c in enumerate(cells) if c.split == 1)
    per_split = [sum(c.split == s for c in cells) for s in range(3)]
    assert per_split == [len(cells) // 3] * 3
    assert sum(c.axis == "noise" for c in cells) == 3 * 6 * 3  # of the larger set alone


def test_the_page_shows_what_the_results_say():
    records = common.read(when.OUT)
    page = (when.PICTURE.parent / "studies" / "when-it-pays.md").read_text(encoding="utf-8")
    for line in when.text_of(records).splitlines():
        assert line in page, line
    assert when.PICTURE.read_text(encoding="utf-8") == when.when_tables.picture(records)
