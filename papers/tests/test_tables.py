"""Every table end to end with tiny settings, on made-up files in the form of the real ones."""

import json

import pytest

from softset_papers.pages import fill_in, to_html, to_markdown
from softset_papers.runner import FITS, RESULTS, Effort, run_table, table_runs
from softset_papers.specification import (
    PROTOCOLS,
    Row,
    Table,
    Value,
    all_tables,
    differs,
    find_table,
    read_values,
)
from softset_papers.summary import read_records, summarise
from tests.datasets.made_up import write_sets

TABLES = all_tables()
KINDS = ("train", "weights", "counts", "runtime", "figure")
NAMES = [n for n, t in TABLES.items() if n[:3] in ("000", "001") and t.kind in KINDS]
TINY = Effort(trials=2, max_epochs=2, rows=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sets(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One directory for all tables: they share runs."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_runs_and_is_shown(name, folder, results):
    table = find_table(name)
    rows = [r.id for r in table.rows if not r.slow] if table.kind == "runtime" else None
    records = run_table(table, results, data_dir=folder, effort=TINY, rows=rows)
    assert records
    assert [r["error"] for r in records if "error" in r] == []
    found = read_records(results)
    for protocol in PROTOCOLS:
        summary = summarise(table, found, protocol)
        text, page = to_markdown(summary), to_html([summary])
        assert table.id in text
        assert page.startswith("<!doctype html>")
        if table.kind == "figure":
            assert "data:image/svg+xml" in page
            continue
        for block in table.blocks:
            for row in table.rows:
                if not row.slow:
                    cells = summary.cells[block.key][row.id]
                    assert all(cells[m].measured is not None for m in table.metrics)
                    if table.kind == "train":
                        assert all(0 <= cells[m].measured.mean <= 1 for m in table.metrics)


def test_tables_share_their_runs():
    """001's table 1 is 000's; the F1 row of table 3 is that of table 1."""

    def runs(name):
        return {json.dumps(run) for _, _, run in table_runs(find_table(name), Effort())}

    assert runs("001-table-1") < runs("000-table-1")
    assert runs("001-table-4") < runs("000-table-3")
    assert len(runs("000-table-3") & runs("000-table-1")) == 2


def test_a_table_goes_on_where_it_stopped(folder, tmp_path):
    table = find_table("000-table-3")
    run_table(table, tmp_path, data_dir=folder, effort=TINY, rows=["f2"])
    before = (tmp_path / RESULTS).read_text()
    told = []
    with pytest.raises(ValueError, match="--resume"):
        run_table(table, tmp_path, data_dir=folder, effort=TINY, resume=False)
    run_table(table, tmp_path, data_dir=folder, effort=TINY, progress=lambda *a: told.append(a))
    after = (tmp_path / RESULTS).read_text()
    assert after.startswith(before)
    assert told[0][:2] == (2, 6)
    run_table(find_table("000-table-8"), tmp_path, data_dir=folder, effort=TINY, resume=False)


def test_the_same_seed_gives_the_same_numbers(folder, tmp_path):
    table = find_table("000-table-7")
    one, two = (
        run_table(table, tmp_path / d, data_dir=folder, effort=TINY, datasets=["mammography"])
        for d in "ab"
    )
    assert [r["result"]["values"] for r in one] == [r["result"]["values"] for r in two]


def test_trials_are_spread_over_splits():
    runs = [
        run
        for _, _, run in table_runs(
            find_table("000-table-3"), Effort(trials=5, splits=2), ["f1"], ["mammography"]
        )
    ]
    assert [(run["split"], run["seeds"]) for run in runs] == [(0, [0, 2, 4]), (1, [1, 3])]


def test_slow_rows_run_only_when_named():
    table = find_table("000-table-1")
    assert "adversarial" not in {row.id for _, row, _ in table_runs(table, Effort())}
    named = table_runs(table, Effort(), ["adversarial"], ["cocktailparty"])
    assert [(row.id, run["options"]["batch_size"]) for _, row, run in named] == [
        ("adversarial", 20)
    ]
    for words, choice in [("row must be", {"rows": ["bec"]}), ("dataset", {"datasets": ["x"]})]:
        with pytest.raises(ValueError, match=words):
            table_runs(table, Effort(), **choice)


def test_another_kind_of_row_joins_by_name(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(FITS, "constant", "tests.test_tables:fit_constant")
    block = find_table("000-table-3").blocks[0]
    row = Row("c", "Constant", {"score": 1.0}, fit="constant")
    table = Table("x", "A constant", (block,), (row,), ("f1", "recall"))
    (record,) = run_table(table, tmp_path, data_dir=folder, effort=TINY)
    assert record["result"]["values"]["fair"]["recall"] == [1.0]


def fit_constant(parts, options, seeds):
    import numpy as np

    from softset_papers.networks import Fitted

    del seeds
    sizes = len(parts.validation.y), len(parts.test.y)
    return Fitted(*(np.full((1, n), options["score"]) for n in sizes), {})


def test_an_error_in_one_run_leaves_the_others(folder, tmp_path):
    row = find_table("000-table-3").rows[0]
    rows = (Row("bad", "Bad", row.options | {"loss": "nonsense"}), row)
    table = Table("x", "One bad row", find_table("000-table-3").blocks[:1], rows, ("f1",))
    bad, good = run_table(table, tmp_path, data_dir=folder, effort=TINY)
    assert "loss must be one of" in bad["error"]
    assert "result" in good


# --- numbers ------------------------------------------------------------------------------------


def records_of(values, seeds, rows=None, epochs=1000):
    table = find_table("000-table-3")
    run = dict(table_runs(table, Effort(trials=seeds), ["f1"], ["mammography"])[0][2])
    run |= {"rows": rows, "options": run["options"] | {"max_epochs": epochs}}
    values = {p: {"f1": values, "f1 tuned": [v + 0.1 for v in values]} for p in PROTOCOLS}
    return {"run": run, "seconds": 1.0, "result": {"values": values, "date": "2026-01-01"}}


def test_mean_deviation_and_mark():
    table = find_table("000-table-3")
    cell = summarise(table, [records_of([0.5, 0.6], 2)], "fair").cells["mammography"]["f1"]["f1"]
    assert cell.published == Value(0.61, 0.06)
    assert cell.measured == pytest.approx((0.55, 0.0707), abs=1e-4)
    assert cell.tuned == pytest.approx((0.65, 0.0707), abs=1e-4)
    assert not cell.marked
    far = summarise(table, [records_of([0.30, 0.31], 2)], "published")
    assert far.cells["mammography"]["f1"]["f1"].marked
    assert "0.305 ± 0.007 ✱" in to_markdown(far)
    assert "<td class='num differs'>0.305 ± 0.007 ✱</td>" in to_html([far])


def test_whole_runs_are_never_mixed_with_shortened_ones():
    table = find_table("000-table-3")
    quick, cut, whole = (
        records_of([0.1, 0.1], 2, rows=1000),
        records_of([0.2, 0.2], 2, epochs=20),
        records_of([0.6] * 10, 10),
    )
    for records, mean, words in [
        ([quick, cut, whole], 0.6, None),
        ([records_of([0.5, 0.5], 2)], 0.5, "cut short: 2 trials"),
        ([quick, cut], 0.2, "cut short: 20 epochs, 2 trials"),
        ([quick], 0.1, "cut short: 1000 rows, 2 trials"),
    ]:
        summary = summarise(table, records, "fair")
        assert summary.cells["mammography"]["f1"]["f1"].measured.mean == pytest.approx(mean)
        assert (words or "Mammography") in to_markdown(summary)
        assert ("cut short" in to_markdown(summary)) == (words is not None)


def test_trials_of_several_splits_come_together_and_the_longer_run_of_one_split_counts():
    table = find_table("000-table-3")
    records = [records_of([0.1], 1), records_of([0.4, 0.6], 2), records_of([0.8], 1)]
    records[2]["run"]["split"] = 1
    summary = summarise(table, records, "fair")
    assert summary.cells["mammography"]["f1"]["f1"].measured.mean == pytest.approx(0.6)
    assert summary.about["splits"] == 2


def test_two_standard_deviations_and_rounding():
    assert not differs(Value(0.5, 0.0), 0.504, 0.0)  # rounding
    assert differs(Value(0.5, 0.0), 0.52, 0.0)
    assert not differs(Value(0.5, 0.03), 0.59, 0.04)
    assert differs(Value(0.5, 0.03), 0.61, 0.04)


def test_values_must_fit_their_columns():
    for text in ("a: 0.1 0.2", "a: x"):
        with pytest.raises(ValueError, match="value"):
            read_values(("f1",), text)


def test_unknown_tables_and_torn_files(tmp_path):
    with pytest.raises(ValueError, match="Did you mean '000-table-1'"):
        find_table("000-tabel-1")
    (tmp_path / RESULTS).write_text('{"header": 1}\n{"run": {}}\n{"half')
    assert read_records(tmp_path) == [{"run": {}}]
    (tmp_path / RESULTS).write_text("{}\nnonsense\n")
    with pytest.raises(ValueError, match="damaged"):
        read_records(tmp_path)


def test_titles_are_escaped():
    block = find_table("000-table-3").blocks[0]
    bad = "<script>alert(1)</script>"
    table = Table("x", bad, (block,), (Row("f1", bad, {}),), ("f1",), {
        "Mammography": read_values(("f1",), "f1: 0.5")}, note=bad)  # fmt: skip
    assert "<script>alert" not in to_html([summarise(table, [], "fair")])


def test_a_page_keeps_its_words_and_gets_new_numbers():
    page = "Words.\n<!-- 000-table-3 fair -->\nold numbers\n<!-- end -->\nMore words.\n"
    new = fill_in(page, [records_of([0.5, 0.6], 2)])
    assert new.startswith("Words.\n<!-- 000-table-3 fair -->\n")
    assert new.endswith("<!-- end -->\nMore words.\n")
    assert "0.550 ± 0.071" in new
    assert "old numbers" not in new
    assert fill_in(new, [records_of([0.5, 0.6], 2)]) == new
