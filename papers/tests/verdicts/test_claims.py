"""Every claim of the papers: it can be judged, turned, and read."""

from pathlib import Path

import pytest

from softset_papers.pages.places import fill_in
from softset_papers.results import Record, read_records
from softset_papers.tables import all_tables
from softset_papers.verdicts.claims import CLAIMS, judge_claims
from softset_papers.verdicts.conditions import Against, Means, Spread
from softset_papers.verdicts.page import to_text
from softset_papers.verdicts.rule import AT_HALF, CASCADE, HOLDS, RULE, UNTESTED, VERDICTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def records():
    return read_records(DOCS / "results")


@pytest.fixture(scope="module")
def judged(records):
    return judge_claims(records)


def test_claims_are_of_tables_and_have_words(judged):
    tables = all_tables()
    assert len({c.text + c.paper for c in CLAIMS}) == len(CLAIMS)
    assert all(c.table in tables for c in CLAIMS)
    assert {j.verdict for j in judged} == set(VERDICTS)
    assert all(found.parts for j in judged for found in j.found.values())


def test_no_way_to_judge_is_left_out_where_there_is_a_threshold():
    """Tables of rows and graphs have two classes; of images those of paper 000."""
    tables = all_tables()
    with_threshold = [
        c
        for c in CLAIMS
        if (tables[c.table].kind in ("train", "graphs") or c.table.startswith("000-"))
        and any(isinstance(condition, Against | Means | Spread) for condition in c.conditions)
    ]
    assert len(with_threshold) > 40
    assert [c.text for c in with_threshold if c.views != CASCADE] == []


def test_without_results_nothing_could_be_tested():
    assert {j.verdict for j in judge_claims([])} == {UNTESTED}


def test_the_command_prints_the_rule_and_every_claim(judged):
    text = to_text(judged)
    assert text.count("\n") > len(RULE) + 3 * len(CLAIMS)
    assert all(c.text in text for c in CLAIMS)
    assert "could not be tested" in text


def test_a_changed_result_that_turns_a_verdict_makes_the_page_stale(records, judged):
    """Tuned cross-entropy of Adult and Kaggle made worse: soft F1 then holds there."""
    claim = next(c for c in CLAIMS if "on Adult and Kaggle" in c.text)
    assert next(j for j in judged if j.claim is claim).verdict == AT_HALF
    changed = [worse(r) if of_bce(r.run) else r for r in records]
    turned = judge_claims(changed)
    assert next(j for j in turned if j.claim is claim).verdict == HOLDS
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert fill_in(text, records, judged) == text
    assert fill_in(text, changed, turned) != text


def of_bce(run):
    options = run.get("options", {})
    small = run.get("fit") == "network" and options.get("hidden") == [32, 16]
    return small and options.get("loss") == "bce" and run["data"] in ("adult-codes",)


def worse(record):
    values = {
        protocol: {m: [v - 0.05 for v in numbers] for m, numbers in metrics.items()}
        for protocol, metrics in record.result["values"].items()
    }
    return Record(record.run, record.seconds, {**record.result, "values": values})
