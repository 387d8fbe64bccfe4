"""The rule: pairs, intervals, what is reduced, and the verdict that follows."""

import pytest
from scipy import stats

from softset_papers.judging import PROTOCOLS
from softset_papers.results import Record
from softset_papers.runner import Effort, plan
from softset_papers.tables import find_table
from softset_papers.verdicts.claim import Claim, against
from softset_papers.verdicts.claims import judge_claims
from softset_papers.verdicts.conditions import Means, Reproduced, Spread, Theorem
from softset_papers.verdicts.rule import (
    AS_PUBLISHED,
    AT_HALF,
    FAILS,
    HALF,
    HOLDS,
    PUBLISHED,
    TUNED,
    UNTESTED,
    Cell,
    Evidence,
    every,
    interval,
    verdict_of,
)

T1 = "000-table-1"
BLOCK = "mammography"


def records(row, values, block=BLOCK, tuned=None, code=None, **result):
    """Records of a row of 000-table-1; over ten splits a value each."""
    found = []
    for planned in plan(find_table(T1), Effort(trials=len(values)), [row], [block]):
        seeds = planned.run["seeds"]
        own = [values[s] for s in seeds]
        protocols = {p: {"f1": own} for p in PROTOCOLS}
        protocols["fair"] |= {"f1 tuned": [(tuned or values)[s] for s in seeds]}
        protocols["code"] = {"f1": [(code or values)[s] for s in seeds]}
        result = {"values": protocols, "date": "2026-01-01", "commit": "abc", **result}
        found.append(Record(planned.run, 1.0, result))
    return found


def verdict(records, wanted="better", rows=("f1", "bce")):
    claim = Claim("000", "x", T1, (against(wanted, *rows, "f1", (T1, T1), BLOCK),))
    return judge_claims(records, [claim])[0].verdict


BASE = [0.50 + 0.001 * (i % 3) for i in range(10)]
MORE = [v + 0.1 + 0.002 * (i % 2) for i, v in enumerate(BASE)]
NOISY = [v + (0.1 if i % 2 else -0.1) for i, v in enumerate(BASE)]


def test_the_interval_is_students():
    differences = [0.01, 0.03, -0.02, 0.05, 0.02]
    found = interval(differences)
    expected = stats.t.interval(0.95, 4, loc=found.mean, scale=stats.sem(differences))
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.relation == "undecided"
    assert interval([0.1, -0.1] * 5).relation == "level"
    assert interval([0.02] * 2).relation == "ahead"
    assert interval([-0.02] * 2).relation == "behind"
    assert interval([0.3]).relation == "undecided"


@pytest.mark.parametrize(
    ("first", "tuned", "code", "expected"),
    [
        (MORE, MORE, MORE, HOLDS),
        (MORE, BASE, MORE, AT_HALF),
        (NOISY, NOISY, MORE, AS_PUBLISHED),
        (NOISY, MORE, NOISY, FAILS),
    ],
)
def test_the_three_ways_to_judge_decide_the_verdict(first, tuned, code, expected):
    found = [*records("f1", first, tuned=tuned, code=code), *records("bce", BASE)]
    assert verdict(found) == expected


def test_level_is_as_good_and_not_better_and_needs_ten_pairs():
    found = [*records("f1", NOISY), *records("bce", BASE)]
    assert (verdict(found), verdict(found, "as good"), verdict(found, "worse")) == (
        FAILS,
        HOLDS,
        FAILS,
    )
    few = [*records("f1", NOISY[:3]), *records("bce", BASE[:3])]
    assert verdict(few, "as good") == UNTESTED
    behind = [*records("f1", BASE), *records("bce", MORE)]
    assert (verdict(behind, "as good"), verdict(behind, "worse")) == (FAILS, HOLDS)


def test_pairs_over_splits_go_before_networks_on_one_split():
    ten = f"{BLOCK}-splits"
    found = [
        *records("f1", MORE),
        *records("bce", BASE),
        *records("f1", BASE, ten),
        *records("bce", MORE, ten),
    ]
    evidence = Evidence(found)
    a, b = Cell(T1, BLOCK, "f1"), Cell(T1, BLOCK, "bce")
    compared, why = evidence.compare(a, b, "f1", HALF)
    assert (compared.relation, compared.splits, why) == ("behind", 10, "")
    assert Evidence(found[:2]).compare(a, b, "f1", HALF)[0].splits == 1
    assert Evidence(found[:1]).compare(a, b, "f1", HALF) is None
    # A row that lacks a split is not one over ten splits.
    assert Evidence(found[:-1]).compare(a, b, "f1", HALF)[0].splits == 1


def test_pairs_are_of_the_same_seed():
    """Two rows that go up and down together are told apart by pairs alone."""
    wide = [0.1 * i for i in range(10)]
    found = [*records("f1", [v + 0.01 for v in wide]), *records("bce", wide)]
    assert verdict(found) == HOLDS


def test_as_published_is_the_row_that_the_authors_code_trains():
    found = [*records("f1", NOISY), *records("bce", BASE), *records("f1-code", MORE)]
    assert verdict(found) == AS_PUBLISHED
    assert verdict(found[:2]) == FAILS


def test_as_published_ten_splits_of_the_equations_do_not_stand_for_the_authors_code():
    """A row of the authors' code on one split is compared on that split, whatever others have."""
    ten = f"{BLOCK}-splits"
    found = [
        *records("f1", MORE),
        *records("f1-code", BASE),
        *records("bce", NOISY),
        *records("f1", MORE, ten),
        *records("bce", BASE, ten),
    ]
    a, b = Cell(T1, BLOCK, "f1"), Cell(T1, BLOCK, "bce")
    assert Evidence(found).compare(a, b, "f1", PUBLISHED)[0].splits == 1
    assert Evidence(found).compare(a, b, "f1", HALF)[0].splits == 10
    assert [c.row for c in Evidence(found).judged((a, b), PUBLISHED)] == ["f1-code", "bce"]


def test_rows_are_compared_as_the_authors_code_trains_only_if_all_were_trained_so():
    """Cross-entropy is the same in both, soft accuracy is not."""
    evidence = Evidence(
        [r for row in ("f1", "f1-code", "accuracy", "bce") for r in records(row, BASE)]
    )
    cells = [Cell(T1, BLOCK, row) for row in ("f1", "accuracy", "bce")]
    assert evidence.judged(cells[:2], PUBLISHED) == cells[:2]
    assert [c.row for c in evidence.judged(cells[::2], PUBLISHED)] == ["f1-code", "bce"]
    assert evidence.judged(cells, HALF) == cells


def test_as_published_adult_is_the_one_that_the_authors_code_reads():
    cells = [Cell(T1, "adult-codes", row) for row in ("f1", "bce")]
    found = [*records("f1", BASE, "adult-as-read"), *records("bce", BASE, "adult-codes")]
    assert {c.block for c in Evidence(found).judged(cells, PUBLISHED)} == {"adult-codes"}
    found += records("bce", BASE, "adult-as-read")
    assert {c.block for c in Evidence(found).judged(cells, PUBLISHED)} == {"adult-as-read"}


def test_a_row_that_the_cap_ended_decides_nothing():
    for capped, expected in ((5, HOLDS), (6, UNTESTED)):
        ends = ["max_epochs"] * capped + ["stopped"] * (10 - capped)
        assert verdict([*records("f1", MORE, outcome=ends), *records("bce", BASE)]) == expected


def test_reduced_rows_and_rows_not_run_decide_nothing():
    evidence = Evidence([])
    assert evidence.reduced(Cell(T1, BLOCK, "f1")) == "not run"
    assert verdict([]) == UNTESTED
    table = find_table("002-table-1")
    run = plan(table, Effort(), ["f1"], [BLOCK])[0].run
    short = Record(run, 1.0, {"values": {"fair": {"f1": [0.5] * 10}}, "date": "2026-01-01"})
    assert Evidence([short]).reduced(Cell(table.id, BLOCK, "f1")) == "reduced"
    graphs = find_table("001-table-3")
    run = plan(graphs, Effort(), ["bce"], ["cocktailparty-graphs"])[0].run
    other = Record(run, 1.0, {"values": {"fair": {"f1": [0.5] * 10}}, "date": "2026-01-01"})
    why = Evidence([other]).reduced(Cell(graphs.id, "cocktailparty-graphs", "bce"))
    assert why == "another network than the paper's"


def test_one_that_fails_decides_before_one_that_is_not_known():
    assert every([None, False]) is False
    assert every([None, True]) is None
    assert verdict_of({HALF.name: True, TUNED.name: None}) == AT_HALF


# --- other conditions -----------------------------------------------------------------------------


def states(condition, found):
    return condition(Evidence(found), HALF).state


def test_numbers_decide_where_a_claim_states_one():
    found = [*records("f1", BASE), *records("bce", MORE)]
    assert states(Means(T1, "f1", "f1", (BLOCK,), high=0.6), found)
    assert states(Means(T1, "f1", "f1", (BLOCK,), low=0.6), found) is False
    assert states(Spread(T1, ("f1", "bce"), "f1", (BLOCK,), 0.2), found)
    assert states(Spread(T1, ("f1", "bce"), "f1", (BLOCK,), 0.05), found) is False
    assert states(Reproduced(T1, "bce", "f1", BLOCK), found)  # published 0.56 ± 0.11
    assert states(Reproduced(T1, "f1", "f1", BLOCK), found) is False  # 0.63 ± 0.04
    assert states(Means(T1, "wmw", "f1", (BLOCK,)), found) is None


def test_a_number_names_its_row():
    (part,) = Means(T1, "bce", "f1", (BLOCK,), high=0.6)(Evidence(records("bce", MORE)), HALF).parts
    assert part.full.startswith("Mammography, BCE: ")


def test_a_theorem_holds_if_all_its_numbers_do_but_for_what_it_assumes():
    findings = [
        {"what": "slope", "holds": True},
        {"what": "slope without the assumption", "holds": False},
    ]
    record = Record({"claim": "theory-x"}, 1.0, {"findings": findings})
    assert states(Theorem("theory-x"), [record]) is False
    assert states(Theorem("theory-x", ("without",)), [record]) is True
    assert states(Theorem("theory-y"), [record]) is None
