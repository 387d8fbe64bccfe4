"""From records to cells: what belongs to a row, what is shown of it, and what is stale."""

from dataclasses import replace

import pytest

from softset_papers.judging import PROTOCOLS
from softset_papers.pages.layout import to_html, to_markdown
from softset_papers.pages.places import fill_in
from softset_papers.pages.summary import stale_rows, summarize
from softset_papers.provenance import pin
from softset_papers.results import Record
from softset_papers.runner import Effort, plan
from softset_papers.specification import Block, Row, Table, Value, ours
from softset_papers.tables import find_table

TABLE = find_table("000-table-3")


def record_of(
    values, seeds=2, rows=None, epochs=1000, table=TABLE, row="f1", result_epochs=(), **result
):
    """A record of a row on Mammography, with these values of F1."""
    result |= {"epochs": result_epochs} if result_epochs else {}
    run = dict(plan(table, Effort(trials=seeds), [row], ["mammography"])[0].run)
    run |= {"rows": rows, "options": run["options"] | {"max_epochs": epochs}}
    tuned = [None if v is None else v + 0.1 for v in values]
    numbers = {p: {"f1": values, "f1 tuned": tuned} for p in PROTOCOLS}
    return Record(run, 1.0, {"values": numbers, "date": "2026-01-01", "commit": "abc", **result})


def shown(records, table=TABLE, row="f1", protocol="fair"):
    rows = summarize(table, records, protocol).shown["mammography"]
    return next(s for s in rows if s.row.id == row)


def test_mean_deviation_and_mark():
    cell = shown([record_of([0.5, 0.6])]).cells["f1"]
    assert cell.published == Value(0.61, 0.06, "0.61 ± 0.06")
    assert cell.measured[:2] == pytest.approx((0.55, 0.0707), abs=1e-4)
    assert cell.tuned[:2] == pytest.approx((0.65, 0.0707), abs=1e-4)
    assert not cell.marked
    far = summarize(TABLE, [record_of([0.30, 0.31])], "published")
    assert far.shown["mammography"][0].cells["f1"].marked
    assert "0.305 ± 0.007 ✱" in to_markdown(far)
    assert "<td class='num differs'>0.305 ± 0.007 ✱</td>" in to_html([far])


def test_whole_runs_are_never_mixed_with_shortened_ones():
    quick, cut, whole = (
        record_of([0.1, 0.1], rows=1000),
        record_of([0.2, 0.2], epochs=20),
        record_of([0.6] * 10, 10),
    )
    for records, mean, words in [
        ([quick, cut, whole], 0.6, None),
        ([record_of([0.5, 0.5])], 0.5, "2 trials"),
        ([quick, cut], 0.2, "20 epochs, 2 trials"),
        ([quick], 0.1, "1000 rows, 2 trials"),
    ]:
        summary = summarize(TABLE, records, "fair")
        assert shown(records).cells["f1"].measured.mean == pytest.approx(mean)
        assert (words or "Mammography") in to_markdown(summary)
        assert ("F1 * (" in to_markdown(summary)) == (words is not None)


def test_a_row_with_another_number_of_networks_than_the_table_says_so():
    few = replace(TABLE, blocks=(replace(TABLE.blocks[0], trials=2),))
    for table, records, words in [
        (few, [record_of([0.5, 0.6])], "F1 * (2 networks)"),
        (few, [record_of([0.5] * 10, 10)], "F1 * |"),
        (replace(TABLE, trials=2), [record_of([0.5] * 10, 10)], "F1 * (10 networks)"),
        (replace(TABLE, trials=2), [record_of([0.5, 0.6])], "F1 * |"),
    ]:
        assert f"| {words}" in to_markdown(summarize(table, records, "fair"))


def test_the_papers_own_length_is_shown_before_ours():
    usual, full = record_of([0.5] * 10, 10), record_of([0.7] * 10, 10, epochs=5000)
    row = shown([usual, full])
    assert (row.cells["f1"].measured.mean, row.full) == (pytest.approx(0.7), True)
    assert "F1 * (the paper's settings)" in to_markdown(summarize(TABLE, [usual, full], "fair"))


def test_of_one_split_the_run_with_most_trials_counts():
    records = [record_of([0.1], 1), record_of([0.4, 0.6])]
    assert shown(records).cells["f1"].measured.mean == pytest.approx(0.5)


def test_runs_over_ten_splits_are_not_those_on_one():
    ten = Block("Ten", "mammography", splits=10)
    table = Table("x", "Both", (TABLE.blocks[0], ten), TABLE.rows[:1], ("f1",))
    one = record_of([0.9] * 10, 10)
    many = []
    for planned in plan(table, Effort(), datasets=["mammography-splits"]):
        values = {p: {"f1": [planned.run["split"] / 10]} for p in PROTOCOLS}
        many.append(Record(planned.run, 1.0, {"values": values, "date": "2026-01-01"}))
    summary = summarize(table, [one, *many], "fair")
    means = {key: rows[0].cells["f1"].measured.mean for key, rows in summary.shown.items()}
    assert means == pytest.approx({"mammography": 0.9, "mammography-splits": 0.45})


def test_a_row_says_over_how_many_splits_it_was_run():
    row = replace(TABLE.rows[0], id="own", label="Own", splits=10)
    table = replace(TABLE, rows=(row,), trials=3, published={})
    records = [
        Record(p.run, 1.0, {"values": {"fair": {"f1": [0.5]}}, "date": "2026-01-01"})
        for p in plan(table, Effort(), datasets=["mammography"])
        if p.run["seeds"]
    ]
    assert "| Own (3 splits) |" in to_markdown(summarize(table, records, "fair"))


def test_rows_say_how_many_networks_hit_the_cap():
    ends = record_of([0.5] * 3, 3, outcome=["stopped", "max_epochs", "max_epochs"])
    assert "Ended by the cap, not by patience: F1 * on Mammography (2 of 3)." in to_markdown(
        summarize(TABLE, [ends], "fair")
    )
    assert "Ended by the cap" not in to_markdown(summarize(TABLE, [record_of([0.5])], "fair"))


def test_why_a_training_ended_follows_from_its_epochs():
    assert shown([record_of([0.5] * 3, 3, epochs=20, result_epochs=[20, 7, 20])]).capped == (2, 3)
    assert shown([record_of([0.5] * 3, 3)]).capped == (0, 0)


def test_rows_say_how_often_their_networks_cooled():
    cooled = record_of([0.5] * 3, 3, coolings=[1, 4, 2])
    text = to_markdown(summarize(TABLE, [cooled], "fair"))
    assert "Coolings of a network (median): F1 * on Mammography 2." in text
    assert "Coolings" not in to_markdown(summarize(TABLE, [record_of([0.5])], "fair"))


def test_the_source_of_every_setting_and_the_commit_stand_under_the_table():
    text = to_markdown(summarize(TABLE, [record_of([0.5] * 10, 10)], "fair"))
    assert "at abc;" in text
    assert "from the paper: hidden 32/16, learning rate 0.001, batch size 1024" in text
    assert "from the authors' code: dropout 0.5" in text
    assert "from us: max epochs 1000" in text
    assert "what it lacks: nothing that the paper states" in text


# --- what is to be run again ----------------------------------------------------------------------


def test_a_loss_that_moved_by_more_than_a_millionth_is_stale():
    record = record_of([0.5] * 10, 10)
    now = pin(record.run)
    for change, stale in ((0.0, False), (1e-7, False), (1e-5, True), (float("nan"), True)):
        record.result["pin"] = [now[0] + change, *now[1:]]
        found = stale_rows([TABLE], [record])
        assert [s.why for s in found] == ["its loss has changed"] * stale
    assert found[0].command == (
        "softset paper run 000-table-3 --dataset mammography --row f1 --again"
    )
    assert "run again: its loss has changed" in to_markdown(summarize(TABLE, [record], "fair"))


def test_results_without_a_setting_that_came_later_are_shown_and_stale():
    row = Row("f1", "F1", ours(loss="f1", ties="neighbors", max_epochs=1000), fit="searched",
              before={"ties": "the first was taken"})  # fmt: skip
    table = Table("x", "Ties", TABLE.blocks[:1], (row,), ("f1",), trials=2)
    old = record_of([0.1, 0.2], table=table)
    del old.run["options"]["ties"]
    summary = summarize(table, [old], "fair")
    assert "F1 (run again: the first was taken)" in to_markdown(summary)
    (stale,) = stale_rows([table], [old])
    assert stale.command.endswith("--resume")
    new = record_of([0.7, 0.8], table=table)
    assert shown([old, new], table).cells["f1"].measured.mean == pytest.approx(0.75)
    assert stale_rows([table], [old, new]) == []
    few = to_markdown(summarize(table, [record_of([0.7], 1, table=table)], "fair"))
    assert "F1 (1 trial)" in few


def test_titles_are_escaped():
    bad = "<script>alert(1)</script>"
    table = Table(
        "x", bad, TABLE.blocks[:1], (Row("f1", bad),), ("f1",), note=bad,
        published={"Mammography": {"f1": {"f1": Value(0.5, None, "0.50")}}},
    )  # fmt: skip
    assert "<script>alert" not in to_html([summarize(table, [], "fair")])


def test_a_page_keeps_its_words_and_gets_new_numbers():
    page = "Words.\n<!-- 000-table-3 fair -->\nold numbers\n<!-- end -->\nMore words.\n"
    records = [record_of([0.5, 0.6])]
    new = fill_in(page, records)
    assert new.startswith("Words.\n<!-- 000-table-3 fair -->\n")
    assert new.endswith("<!-- end -->\nMore words.\n")
    assert "0.550 ± 0.071" in new
    assert "old numbers" not in new
    assert fill_in(new, records) == new


def test_all_protocols_are_columns_of_one_folded_table():
    records = [record_of([0.5, 0.6])]
    text = fill_in("<!-- 000-table-3 all -->\n<!-- end -->\n", records)
    assert text.count("<details>") == text.count("</details>") == 1
    head = (
        "| loss | metric | published | as the text judges | as the code judges | at 0.5 | tuned |"
    )
    assert text.count(head) == 1
    assert "| F1 * (2 trials) | F1 | 0.61 ± 0.06 | 0.550 ± 0.071 |" in text
    assert "Departures: of a batch without positives" in text


def test_places_of_verdicts_are_filled():
    text = fill_in("<!-- brief 001 -->\n<!-- end -->\n<!-- counts all -->\n<!-- end -->\n", [])
    assert "- **could not be tested** (" in text
    assert "claims: " in text


def test_published_values_keep_their_trailing_zeros():
    text = to_markdown(summarize(find_table("003-table-2"), [], "fair"))
    assert "| 0.730 ± 0.01 |" in text


def test_undefined_values_are_not_in_the_mean():
    record = record_of([0.5, None])
    record.result["values"]["fair"].pop("f1 tuned")
    cell = shown([record]).cells["f1"]
    assert (cell.measured.mean, cell.undefined) == (0.5, 1)
    assert "0.500 (1 undefined)" in to_markdown(summarize(TABLE, [record], "fair"))


def test_the_whole_dataset_is_shown_before_the_subset():
    table = find_table("000-table-9")
    found = []
    for data, value in (("creditcard-subset", 0.2), ("creditcard", 0.8)):
        run = plan(table, Effort(), ["bce"], [data])[0].run
        values = {p: {"f1": [value] * 10} for p in PROTOCOLS}
        found.append(Record(run, 1.0, {"values": values, "date": "2026-01-01"}))
    rows = summarize(table, found, "fair").shown["creditcard-subset"]
    (row,) = (s for s in rows if s.records)
    assert (row.cells["f1"].measured.mean, row.short) == (0.8, "the whole dataset, 10 trials")
