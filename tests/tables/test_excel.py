"""Excel sheets: what is in the cells, and an error where that is not a table."""

import datetime
import importlib
import zipfile

import numpy as np
import pandas as pd
import pytest

from softset.tables.files import read_table, write_table

openpyxl = pytest.importorskip("openpyxl")
DAY = datetime.datetime(2024, 2, 29, 13, 30)


def book(path, *sheets):
    made = openpyxl.Workbook()
    made.remove(made.active)
    for i, rows in enumerate(sheets):
        sheet = made.create_sheet(f"Sheet {i}")
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


ROWS = [
    ["n", "x", "text", "day", "flag", "mixed", "code"],
    [1, 0.5, "a", DAY, True, 1, "01"],
    [2, None, None, None, False, "x", "02"],
    [-3, 1e300, "=", DAY, True, 2.5, "03"],
]


def test_cells_are_read_as_they_are_typed(tmp_path):  # 23
    path = book(tmp_path / "a.xlsx", ROWS)
    found = read_table(path, labels=["n"], text=["mixed"])
    assert found["n"].tolist() == [1, 2, -3]
    np.testing.assert_array_equal(found["x"], [0.5, np.nan, 1e300])
    assert found["text"].tolist() == ["a", None, "="]
    assert found["day"][0] == DAY
    assert pd.isna(found["day"][1])
    assert found["flag"].tolist() == [True, False, True]
    assert found["mixed"].tolist() == ["1", "x", "2.5"]
    assert found["code"].tolist() == ["01", "02", "03"]


def test_the_same_table_as_in_csv(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "NA", "y"], "c": [0.5, 2.0, -1.0]})
    write_table(frame, tmp_path / "a.csv")
    book(tmp_path / "a.xlsx", [frame.columns.tolist(), *frame.to_numpy(dtype=object).tolist()])
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.xlsx"), read_table(tmp_path / "a.csv"))


def test_empty_rows_are_skipped_and_empty_names_numbered(tmp_path):
    path = book(tmp_path / "a.xlsx", [[], ["a", None, "c"], [1, 2, 3], [None] * 3, [4], []])
    found = read_table(path)
    assert found.columns.tolist() == ["a", "column 2", "c"]
    np.testing.assert_array_equal(found, [[1, 2, 3], [4, np.nan, np.nan]])


def test_of_several_sheets_the_first_is_read_and_that_is_said(tmp_path):
    path = book(tmp_path / "a.xlsx", [["a", "b"], [1, 2]], [["c"], [1]])
    with pytest.warns(UserWarning, match="has 2 sheets; the first, 'Sheet 0', is read"):
        assert read_table(path).columns.tolist() == ["a", "b"]


REFUSED = [
    ([], "is empty"),
    ([["a", "b"]], "0 rows"),
    ([["a", "a"], [1, 2]], "'a' more than once"),
    ([["Report"], ["a", "b"], [1, 2]], r"row 2: the row is too long, 2 cells"),
    ([["a", "b"], [1, "=A2+1"]], r"row 2, column 2 holds a formula without a stored value"),
]


@pytest.mark.parametrize(("rows", "words"), REFUSED)
def test_a_sheet_that_is_no_table_is_refused_with_the_place(tmp_path, rows, words):
    with pytest.raises(ValueError, match=rf"a\.xlsx.*{words}"):
        read_table(book(tmp_path / "a.xlsx", rows))


def test_a_damaged_file_is_refused(tmp_path):
    data = book(tmp_path / "a.xlsx", ROWS).read_bytes()
    path = tmp_path / "b.xlsx"
    random, refused = np.random.default_rng(0), []
    for _ in range(60):
        hostile = bytearray(data)
        for _ in range(random.integers(1, 30)):
            hostile[random.integers(4, len(data))] = random.integers(256)
        path.write_bytes(bytes(hostile[: random.integers(10, len(data) + 1)]))
        try:
            found = read_table(path)
        except ValueError as error:
            refused.append(str(error))
        else:
            assert len(found) <= 3
    assert len(refused) > 30
    assert all("b.xlsx" in text for text in refused)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(ValueError, match=r"b\.xlsx is damaged or no Excel sheet"):
        read_table(path)


def test_a_sheet_that_unpacks_to_too_much_is_refused(tmp_path):
    path = book(tmp_path / "a.xlsx", [["a", "b"], *[[1, 2]] * 20_000])
    with pytest.raises(ValueError, match=r"a\.xlsx holds \d+ MB"):
        read_table(path, limit=400_000)
    far = openpyxl.Workbook()
    far.active.append(["a"])
    for row in range(2, 200):
        far.active.cell(row, 16384, 1)
    far.save(path)
    with pytest.raises(ValueError, match=r"too long, 16384 cells|holds \d+ MB"):
        read_table(path)


def test_without_openpyxl_the_install_line_is_given(tmp_path, monkeypatch):
    path = book(tmp_path / "a.xlsx", ROWS)
    real = importlib.import_module

    def absent(name, *rest):
        if name == "openpyxl":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=r"needs openpyxl: pip install 'softset\[excel\]'"):
        read_table(path)


def test_sheets_are_read_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"ending of the output .* got '.xlsx'"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "a.xlsx")
