"""Formulas in CSV: harmless in every cell and name, and read back exactly as they were."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softset.tables.files import read_table, write_table
from softset.tables.guards import guard, guarded_rows, unguard

# Text that a file can hold: no NUL, no half of a surrogate pair.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
EVIL = st.sampled_from("=+-@＝＋－＠'\t\r\n \"\\,;\xa0\u3000\ufeff\u200b").flatmap(
    lambda first: TEXT.map(lambda rest: first + rest)
)
CELLS = st.none() | TEXT | EVIL | st.sampled_from(["", "NA", "None", "01", "-1", "1", "'", "''"])
FORMULA = "=+-@＝＋－＠"


@given(TEXT | EVIL)
def test_a_guarded_text_is_no_formula_and_comes_back(text):
    safe = guard(text)
    assert not safe.lstrip(" \t\r\n\xa0\u3000\ufeff\u200b").startswith(tuple(FORMULA))
    assert not safe.startswith(("\t", "\r", "\n"))
    assert unguard(safe) == text


@pytest.mark.parametrize(
    "text", ["\n=1", " =1", "＝1", "\xa0=1", "\ufeff=1", "+1", "-x", "@x", "\t1"]
)
def test_what_a_spreadsheet_would_run_is_guarded(text):  # 17
    assert guard(text) == f"'{text}"


def test_numbers_and_missing_cells_are_left_alone():
    assert [guard(v) for v in (-1, -0.5, None, "a=b", "1-2")] == [-1, -0.5, None, "a=b", "1-2"]
    assert guarded_rows([["=1", -1], ["a", None]]) == [["'=1", -1], ["a", None]]


@st.composite
def tables(draw):
    name = (TEXT | EVIL).map(str.strip).filter(bool)  # blanks around names are not read
    names = draw(st.lists(name, min_size=2, max_size=4, unique=True))
    rows = draw(st.integers(1, 5))
    cells = st.lists(CELLS, min_size=rows, max_size=rows)
    return {name: draw(cells) for name in names}


@settings(max_examples=300, deadline=None)
@given(tables(), st.sampled_from(["csv", "tsv"]))
def test_a_table_of_any_text_comes_back_exactly(tmp_path_factory, table, kind):  # 17
    """Cells and names alike; what is text stays text where it is asked for as text."""
    path = tmp_path_factory.mktemp("guards") / f"a.{kind}"
    write_table(pd.DataFrame(table, dtype=object), path)
    found = read_table(path, text=list(table))
    assert found.columns.tolist() == list(table)
    for name, cells in table.items():
        assert [None if pd.isna(v) else v for v in found[name]] == cells
    with open(path, encoding="utf-8", newline="") as file:
        fields = [
            f for row in csv.reader(file, delimiter="\t" if kind == "tsv" else ",") for f in row
        ]
    assert not [f for f in fields if f.lstrip().startswith(tuple(FORMULA))]


@settings(max_examples=200, deadline=None)
@given(tables(), st.sampled_from(["\n", "\r\n"]))
def test_the_text_of_others_is_read_as_it_is_but_for_a_guard(table, end):  # 17
    """What Python's own writer wrote; one ``'`` that marks text for a spreadsheet is no part."""
    table = {f"n{i}": cells for i, cells in enumerate(table.values())}
    table["id"] = ["x"] * len(table["n0"])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([table, *zip(*table.values(), strict=True)])
    found = read_table(io.BytesIO(out.getvalue().encode()), text=list(table))
    for name, cells in table.items():
        assert found[name].tolist() == ["" if v is None else unguard(v) for v in cells]


def test_a_quote_that_is_no_guard_stays():
    found = read_table(io.BytesIO(b"a,b\n'tis,1\n'a',2\n\"'=1\",3\n"))
    assert found["a"].tolist() == ["'tis", "'a'", "=1"]


def test_others_read_the_same_rows(tmp_path):
    plain, guarded = tmp_path / "plain.csv", tmp_path / "guarded.csv"
    write_table(pd.DataFrame({"a": ["x", "y"], "p": [-0.5, 1.0]}), plain)
    write_table(pd.DataFrame({"a": ["x", "=1"], "p": [-0.5, 1.0]}), guarded)
    assert plain.read_bytes() == b"a,p\nx,-0.5\ny,1.0\n"
    assert guarded.read_bytes() == b"a,p\nx,-0.5\n'=1,1.0\n"
    assert pd.read_csv(guarded)["a"].tolist() == ["x", "'=1"]


def test_labels_that_look_like_formulas_or_numbers_stay_text(tmp_path):  # 17
    path = tmp_path / "a.csv"
    labels = ["-1", "+1", "@x", "=y"]
    write_table(pd.DataFrame({"prediction": labels, "p_=y": 0.5}), path)
    found = read_table(path, labels=["prediction"])
    assert found["prediction"].tolist() == labels
    assert found.columns.tolist() == ["prediction", "p_=y"]


def test_categories_are_guarded_too(tmp_path):
    write_table(pd.DataFrame({"c": pd.Categorical(["=1", "b"])}), tmp_path / "a.csv")
    assert b"'=1" in (tmp_path / "a.csv").read_bytes()
    assert read_table(tmp_path / "a.csv")["c"].tolist() == ["=1", "b"]
