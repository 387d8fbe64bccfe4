"""Downloads, with the network replaced by the real local files (or by made-up ones)."""

import types

import pandas
import pytest
import sklearn.datasets

from softset_papers.datasets.download import download_paper_set
from softset_papers.datasets.papers import load_paper_set


def transport(monkeypatch, frame):
    """What OpenML would answer."""
    asked = []

    def fetch_openml(**arguments):
        asked.append(arguments)
        return types.SimpleNamespace(frame=frame)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    return asked


def as_on_openml(shared_data, name):
    table = pandas.read_parquet(shared_data / f"{name}.parquet")
    if name == "mammography":
        return table.assign(**{"class": table["class"].astype(str).astype("category")})
    # Test rows first, missing values instead of question marks, another name for the target.
    table = pandas.concat([table[table["split"] == "test"], table[table["split"] == "train"]])
    table = table.drop(columns="split").rename(columns={"income": "class"})
    return table.mask(table == "?").reset_index(drop=True)


@pytest.mark.parametrize(("name", "file", "number"), [
    ("mammography", "mammography", 310),
    ("adult-codes", "adult", 1590),
])  # fmt: skip
def test_a_download_reads_as_the_local_file(name, file, number, shared_data, monkeypatch, tmp_path):
    asked = transport(monkeypatch, as_on_openml(shared_data, file))
    path = download_paper_set(name, tmp_path / "new")
    assert path == tmp_path / "new" / f"{file}.parquet"
    assert asked[0]["data_id"] == number
    new, old = load_paper_set(name, tmp_path / "new"), load_paper_set(name, shared_data)
    assert new.y.sum() == old.y.sum()
    assert sorted(map(tuple, new.x)) == sorted(map(tuple, old.x))
    if new.official_test is not None:
        assert new.y[new.official_test].sum() == old.y[old.official_test].sum()
    assert download_paper_set(name, tmp_path / "new") == path  # not again
    assert len(asked) == 1


def test_other_content_is_refused_and_nothing_written(shared_data, monkeypatch, tmp_path):
    frame = as_on_openml(shared_data, "mammography")
    frame.loc[5, "attr1"] += 0.01
    transport(monkeypatch, frame)
    with pytest.raises(ValueError, match="is not the papers'"):
        download_paper_set("mammography", tmp_path)
    assert not list(tmp_path.glob("*.parquet*"))


def test_a_strange_table_is_refused(monkeypatch, tmp_path):
    transport(monkeypatch, pandas.DataFrame({"a": [1]}))
    for name in ("mammography", "creditcard"):
        with pytest.raises((ValueError, KeyError), match="column"):
            download_paper_set(name, tmp_path)


def test_no_internet_says_what_to_do(monkeypatch, tmp_path):
    def fetch_openml(**_):
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    with pytest.raises(OSError, match="--data-dir"):
        download_paper_set("mammography", tmp_path)


@pytest.mark.parametrize(("name", "words"), [
    ("cocktailparty", "Zen et al"),
    ("synthetic-5", "made here"),
    ("../../x", "must be one of"),
])  # fmt: skip
def test_what_openml_does_not_have(name, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        download_paper_set(name, tmp_path)
