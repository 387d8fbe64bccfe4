"""Pictures of the pages: a square for each claim, a dot for each published value."""

import re

import pytest

from softset_papers.judging import PROTOCOLS
from softset_papers.kinds.thresholds import THRESHOLDS
from softset_papers.pages.pictures import (
    COLORS,
    dots_of,
    draw_dots,
    draw_thresholds,
    draw_verdicts,
)
from softset_papers.results import Record
from softset_papers.runner import Effort, plan
from softset_papers.tables import find_table
from softset_papers.verdicts.claims import judge_claims
from softset_papers.verdicts.rule import UNTESTED, VERDICTS, Evidence

pytest.importorskip("matplotlib")
TABLE = find_table("000-table-1")


def record(row, value, dataset="mammography", **result):
    (planned,) = plan(TABLE, Effort(trials=2), [row], [dataset])
    values = {p: {"f1": [value, value + 0.01]} for p in PROTOCOLS}
    return Record(planned.run, 1.0, {"values": values, "date": "2026-01-01", **result})


def test_a_square_for_each_claim_and_each_verdict():
    judged = judge_claims([])
    page = draw_verdicts(judged)
    assert set(COLORS) == set(VERDICTS)
    assert len(re.findall(f"fill: {COLORS[UNTESTED]}", page)) == len(judged) + 1  # the key
    assert draw_verdicts(judged) == page


def test_a_dot_for_each_published_value_that_was_measured():
    near = record("bce", 0.55)  # published 0.56 ± 0.11
    dots = dots_of(TABLE, Evidence([near]))
    assert [(p.mean, round(m.mean, 3), apart) for p, m, apart, _ in dots] == [(0.56, 0.555, False)]
    assert "<svg" in draw_dots("000", [near])
    assert draw_dots("000", []) == ""


def test_the_row_that_the_authors_code_trains_takes_the_place_of_the_other():
    both = [record("auroc", 0.4), record("auroc-code", 0.11)]
    dots = dots_of(TABLE, Evidence(both))
    assert [round(m.mean, 3) for _, m, *_ in dots] == [0.115]
    capped = record("auroc-code", 0.11, outcome=["max_epochs"] * 2)
    assert [reduced for *_, reduced in dots_of(TABLE, Evidence([capped]))] == [True]


def test_adult_as_the_authors_code_reads_it_takes_the_place_of_adult():
    both = [record("bce", 0.6, "adult-codes"), record("bce", 0.26, "adult-as-read")]
    dots = dots_of(TABLE, Evidence(both))
    assert [(p.mean, round(m.mean, 3)) for p, m, *_ in dots] == [(0.26, 0.265)]


def test_f1_against_the_threshold_has_a_line_for_each_row():
    table = find_table("000-thresholds")
    records = [
        Record(p.run, 1.0, {"values": {"fair": {"f1 at 0.5": [0.5] * 3}}, "date": "2026-01-01",
                            "f1": [0.5] * len(THRESHOLDS)})
        for p in plan(table, Effort(), datasets=["mammography"])
    ]  # fmt: skip
    assert "<svg" in draw_thresholds(records)
    assert draw_thresholds([]) == ""
