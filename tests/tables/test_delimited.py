"""CSV and TSV, strictly: encodings, long fields, headers, decimal commas."""

import csv
import io
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

from softset.tables.encoder import TableEncoder, infer_schema
from softset.tables.files import read_table


def read(content, **options):
    data = content.encode() if isinstance(content, str) else content
    return read_table(io.BytesIO(data), **options)


@pytest.mark.parametrize("size", [200_000, 10_000_000, 20_000_000])
def test_long_quoted_fields_are_read(size):  # 13
    limit = csv.field_size_limit()
    text = "x" * (size // 2) + '"' + "\n" + "y" * (size // 2)
    found = read('a,b\n1,"' + text.replace('"', '""') + '"\n2,z\n')
    assert found["b"].tolist() == [text, "z"]
    assert csv.field_size_limit() == limit


def test_a_long_field_without_quotes_is_read():
    long = "x" * 17_000_000  # longer than a block
    assert read(f"a,b\n1,{long}\n2,z\n")["b"].tolist() == [long, "z"]


def test_a_long_name_is_read():
    long = "x" * 200_000
    assert read(f'"{long}",b\n1,2\n').columns.tolist() == [long, "b"]


ENCODINGS = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_other_encodings_must_be_named(encoding):  # 7, 13
    data = ("name,city\n" + "Ann,Málaga\n" * 50).encode(encoding)
    with pytest.raises(ValueError, match=r"line \d.* [Gg]ive its encoding: --encoding "):
        read(data)
    assert read(data, encoding=encoding)["city"].tolist() == ["Málaga"] * 50


@pytest.mark.parametrize("encoding", ["klingon", "hex", "base64", "a\0b", "", "rot13", "zip"])
def test_an_unknown_encoding_is_an_error_of_ours(encoding):
    if encoding == "":
        assert len(read("a,b\n1,2\n", encoding=encoding)) == 1  # as if left out
        return
    with pytest.raises(ValueError, match=r"encoding .* is not known"):
        read("a,b\n1,2\n", encoding=encoding)


def test_text_that_no_file_can_hold_is_refused():
    with pytest.raises(ValueError, match="is not unicode_escape"):
        read(b"a,b\n1,\\ud800\n", encoding="unicode_escape")


HEADERS = [
    (",,\n1,2,3\n", "nothing but separators|column names"),
    ('a,"b\n1,2\n', "column names cannot be read"),
    ('a,"b"c\n1,2\n', "column names cannot be read"),
]


@pytest.mark.parametrize(("content", "words"), HEADERS)
def test_a_header_that_is_none_is_refused(content, words):
    with pytest.raises(ValueError, match=words):
        read(content)


def test_blank_lines_before_the_header_are_skipped():
    assert read("\n \n\na,b\n1,2\n").columns.tolist() == ["a", "b"]


DECIMALS = [
    (["1,5", "-2,25", "3"], [1.5, -2.25, 3.0]),
    (["1.000", "2.500,5", "7"], [1000.0, 2500.5, 7.0]),  # points between thousands
    (["1.234.567", "2,0"], [1234567.0, 2.0]),
    (["+1,5", "2"], [1.5, 2.0]),
]


@pytest.mark.parametrize(("cells", "numbers"), DECIMALS)
def test_decimal_commas(cells, numbers):
    separated = any("." in cell for cell in cells)
    with pytest.warns(UserWarning, match="separates thousands") if separated else nullcontext():
        found = read("a;b\n" + "".join(f"{c};x\n" for c in cells), sep=";", decimal=",")
    assert found["a"].tolist() == numbers


def number_column(cells, decimal=","):
    found = read("a;b\n" + "".join(f"{c};x\n" for c in cells), sep=";", decimal=decimal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        encoder = TableEncoder(infer_schema(found[["a"]])).fit(found)
        return encoder.columns_[0], encoder.transform(found[["a"]])[:, 0].tolist()


def test_one_bad_cell_leaves_decimal_commas_readable():  # 2
    column, values = number_column([f"{i},5" for i in range(40)] + ["unknown"])
    assert (column.kind, column.words) == ("number", ("unknown",))
    assert values[:40] == [i + 0.5 for i in range(40)]


def test_a_column_is_read_one_way_or_not_at_all():  # D17
    found = read("a\n52,5\n52,517\n48,137\n48,14\n", sep=";", decimal=",")
    assert found["a"].tolist() == [52.5, 52.517, 48.137, 48.14]
    # 12345 has no separator: then the point of 52.517 separates nothing either.
    mixed = ["52,5", "52.517", "12345", "48,14"]
    assert read("a\n" + "\n".join(mixed), sep=";", decimal=",")["a"].tolist() == mixed
    column, values = number_column([*(f"{i},25" for i in range(1000, 1100)), "52.517"])
    assert column.words == ("52.517",)
    assert values[0] == 1000.25


def test_addresses_are_no_numbers():  # D17
    cells = ["192.168.100.200", "192.168.100.201"]
    assert read("a\n" + "\n".join(cells), sep=";", decimal=",")["a"].tolist() == cells


def test_categories_keep_the_text_of_the_file():  # D18
    cells = ["1,5", "2,5", "XL", "S"] * 10
    column, _ = number_column(cells)
    assert column.kind == "category"
    assert read("a\n" + "\n".join(cells), sep=";", decimal=",")["a"].tolist() == cells


@pytest.mark.parametrize(
    ("decimal", "cells", "numbers"),
    [
        (",", ["0,89 €", "12 €", "1.250,00 €"], [0.89, 12, 1250]),
        (".", ["$0.89", "$12", "$1,250.00"], [0.89, 12, 1250]),
        (".", ["5 %", "7.5%", "NA"], [5, 7.5, 6.25]),
    ],
)
def test_numbers_with_a_unit_are_numbers_and_that_is_said(decimal, cells, numbers):  # A5
    column, values = number_column(cells * 10, decimal)
    assert values == numbers * 10
    assert any("unit" in note for note in column.notes)
    new = [c for c in cells if c != "NA"][:1]
    assert number_column([*cells * 10, *new], decimal)[1][-1] == numbers[0]


def test_prices_of_the_other_decimal_mark_are_named():  # A5
    column, _ = number_column([f"$1,{i:03d}.50" for i in range(60)] * 3, ",")
    assert any("look like numbers with '$'" in note for note in column.notes)


def test_one_column_keeps_its_empty_cells():  # D24
    assert read("a\n1\n\n3\n")["a"].isna().tolist() == [False, True, False]
    assert read("a\n\nx\n\n")["a"].tolist() == [None, "x", None]


def test_a_plus_is_no_reason_to_be_text():
    assert read("a,b\n+1,x\n-2,y\n")["a"].tolist() == [1, -2]
    assert read("a,b\n+1.5,x\n-2,y\n")["a"].tolist() == [1.5, -2.0]
    assert read("a,b\n+x,x\n-2,y\n")["a"].tolist() == ["+x", "-2"]
    assert read("a,b\n0X1F,x\n2,y\n")["a"].tolist() == ["0X1F", "2"]


@pytest.mark.parametrize("cells", [["9007199254740993", ""], ["12345678901234567890", "1"]])
def test_identifiers_keep_all_their_digits(cells):
    found = read("id,b\n" + "".join(f"{c},x\n" for c in cells))
    assert [v or "" for v in found["id"]] == cells


def test_wide_files_are_read():  # 12
    width = 3000
    random = np.random.default_rng(0)
    row = ",".join(str(v) for v in random.integers(0, 9, width))
    found = read(",".join(f"c{i}" for i in range(width)) + f"\n{row}\n{row}\n")
    assert found.shape == (2, width)


@pytest.mark.parametrize("length", [2**16 - 9, 2**16 - 8, 2**16 - 1, 2**16, 2**16 + 5])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_names_that_end_where_the_beginning_ends(length, end):
    long = "x" * length
    found = read(f"{long},b{end}1,2{end}3,4{end}")
    assert found.columns.tolist() == [long, "b"]
    assert found["b"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1.5", "2", "-3e2"], [1.5, 2.0, -300.0]),
        (["1.5", "", "2"], [1.5, None, 2.0]),
        (["1.5", "007"], ["1.5", "007"]),
        (["1.5", " 2"], [1.5, 2.0]),
        (["1.5", "NA"], [1.5, None]),
        (["1e3", "2"], [1000.0, 2.0]),
        (["1.5", "12345678901234567890"], [1.5, 12345678901234567890.0]),
    ],
)
def test_plain_fractions_and_what_is_none(cells, wanted):
    found = read("a,b\n" + "".join(f"{c},x\n" for c in cells))["a"]
    assert found.astype(object).where(found.notna(), None).tolist() == wanted
