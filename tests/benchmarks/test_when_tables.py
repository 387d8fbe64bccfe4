"""Tables and picture from a few records whose numbers are known."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("pandas")
pytest.importorskip("lightgbm")
when_tables = pytest.importorskip("when_tables")
LINEAR = "linear"


def record(name, split, entropy, metric, **others):
    scores = {"cross-entropy at 1/2": 0.1, "cross-entropy": entropy, "metric": metric}
    found = {"axis": "capacity", "level": LINEAR, "capacity": LINEAR, "set": name, "split": split}
    found |= {"metric": "f1", "scores": {**scores, "chosen": max(entropy, metric)}}
    found |= {"optimum": None, "rows": 100, "positives": 40, "features": 10, "one_row": 0.001}
    return {**found, "seconds": 40.0, **others}


RECORDS = [
    *(record("a", s, 0.5 + 0.01 * s, 0.56 + 0.01 * s) for s in range(3)),
    *(record("b", s, 0.7, 0.72, positives=20) for s in range(3)),
    *(record("c", s, 0.7, 0.69) for s in range(3)),
]


def row(text, start):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_a_gain_is_the_mean_over_sets_of_the_mean_over_splits():
    found = row(when_tables.capacity(RECORDS), LINEAR)
    assert found[1:4] == ["3 x 3", "0.100", "0.637"]
    assert found[4].startswith("+0.0233 [")
    assert found[5] == "2 / 1 / 0"
    assert found[8].startswith("+0.0267 [")  # chosen: the better one of each
    assert found[9] == "2 / 0 / 1"


def test_a_loss_is_shown_like_a_gain():
    worse = [record(n, s, 0.7, 0.6) for n in "abcdef" for s in range(3)]
    found = row(when_tables.capacity(worse), LINEAR)
    assert found[4].startswith("-0.1000")
    assert found[5] == "0 / 6 / 0"
    assert float(found[6]) == pytest.approx(0.031, abs=1e-3)  # 2 / 2^6, Wilcoxon
    assert when_tables.clear(worse, "metric", "cross-entropy").worse == list("abcdef")


def test_sets_are_parted_by_positives_for_each_feature():
    found = row(when_tables.parted(RECORDS), LINEAR)
    assert (found[1], found[5]) == ("1", "2")
    assert found[2].startswith("+0.0200")
    assert found[6].startswith("+0.0250")


def test_what_was_not_run_is_said():
    planned = [("capacity", LINEAR, LINEAR, n, s) for n in "abcd" for s in range(3)]
    text = when_tables.coverage(RECORDS, planned)
    assert row(text, "capacity") == ["capacity", "3 of 4", "3 of 4", "3 of 4", "6.0"]
    assert text.endswith("9 cells, 0.10 core-hours in all.")


def test_a_made_up_family_shows_its_gap_to_the_optimum():
    name = next(iter(when_tables.FAMILIES))
    own = [record(name, s, 0.5, 0.55, optimum=0.6) for s in range(2)]
    found = row(when_tables.families(own), name)
    assert found[1:] == [
        "0.600", LINEAR, "2", "-0.500", "-0.100", "-0.050", "+0.050 (+0.050 to +0.050)"
    ]  # fmt: skip
    assert when_tables.capacity(own) == ""  # no real set


def test_data_beside_the_base_point_of_the_same_sets():
    level = "1/4 of the rows"
    own = [record("a", s, 0.4, 0.42, axis="rows", level=level) for s in range(2)]
    own += [record("c", s, 0.6, 0.59, axis="rows", level=level) for s in range(2)]
    found = row(when_tables.data([*RECORDS, *own]), level)
    assert found[4].startswith("+0.0050")
    assert found[-1].startswith("+0.0250")  # of a and c


def test_rivals_have_ranks_and_distances():
    own = [record(n, 0, 0.5, 0.6, axis="rivals", level="rivals") for n in "ab"]
    for r in own:
        r["scores"] |= {"class-weighted": 0.55, "focal": 0.4, "AnyLoss": 0.7}
    text = when_tables.rivals(own)
    assert row(text, f"{LINEAR} | metric")[2:4] == ["0.600", "2.00"]
    assert row(text, f"{LINEAR} | AnyLoss")[2:5] == ["0.700", "1.00", "-0.1000 [-0.1000, -0.1000]"]


def test_the_picture_has_a_dot_for_each_model_coloured_by_its_interval():
    other = [
        {**r, "level": "network 2", "capacity": "network 2"}
        for r in (record(n, 0, 0.7, 0.6 + 0.001 * i) for i, n in enumerate("abc"))
    ]
    more = [{**r, "axis": "further"} for r in other]
    tree = ET.fromstring(when_tables.picture([*RECORDS, *other, *more]))
    dots = [e for e in tree.iter() if e.tag.endswith("circle")]
    assert [d.get("stroke") for d in dots] == [when_tables.NEITHER, *[when_tables.BELOW] * 2]
    assert [d.get("fill") for d in dots] == [when_tables.NEITHER, when_tables.BELOW, "white"]
    titles = [d[0].text for d in dots]
    assert titles[0].startswith("linear: +0.0233 [")
    assert float(dots[1].get("cy")) > float(dots[0].get("cy"))  # lower on the page


def test_nothing_to_show_makes_an_empty_picture():
    assert when_tables.picture([]).startswith("<svg")
