"""Fetch the papers' sets from OpenML, check them, and write the files the readers want.

scikit-learn checks each file against the MD5 sum that OpenML states; here the content is checked
again, whatever the order of the rows. Nothing is unpacked and no name comes from the network, so
that no path can lead out of ``data_dir``.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softset.checks import check_choice
from softset_papers.datasets.papers import (
    _CARD_COLUMNS,
    ADULT_CATEGORIES,
    ADULT_NUMBERS,
    FRAUDS,
    LEGITIMATE,
    PAPER_SETS,
)

if TYPE_CHECKING:
    import pandas

# Rows of adult.test, which OpenML 1590 puts before those of adult.data.
_ADULT_TEST = 16281
# Mean amount of all transactions.
_MEAN_AMOUNT = 88.3496
CHECKSUMS = {
    "adult": "c8a0cc538ad3bb65a6a9238f1afa93479af1ad9f1cc0c4183bb137e7e894fa76",
    "adult test file": "b2c5ed3ff48bc977571795b7742f0674d8bf83cb949de1f75d0a1cecaa06474e",
    "mammography": "1d655b8c9f2b6dea56975821488a6e4763bd14941e4b068459f448f0a3fdb8b3",
}


def download_paper_set(name: str, data_dir: str | os.PathLike[str]) -> Path:
    """Write the file of a set to ``data_dir``; a file that is there already is left alone."""
    check_choice("name", name, PAPER_SETS)
    info = PAPER_SETS[name]
    if info.openml is None:
        where = (
            "it is made here, without a file" if not info.files else f"get it from {info.origin}"
        )
        raise ValueError(f"the set {name!r} is not on OpenML: {where}.")
    directory = Path(data_dir)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / info.files[0]
    if path.exists():
        return path
    table = _arranged(info.files[0], _fetch(info.openml, directory))
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        table.to_parquet(temporary, index=False)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _fetch(number: int, directory: Path) -> pandas.DataFrame:
    from sklearn.datasets import fetch_openml

    try:
        return fetch_openml(
            data_id=number, as_frame=True, parser="auto", data_home=str(directory / "openml")
        ).frame
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not fetch OpenML {number} ({error}). Without internet, use files of your own "
            "with --data-dir",
        ) from error


def _arranged(file: str, frame: pandas.DataFrame) -> pandas.DataFrame:
    make = {
        "adult.parquet": _adult,
        "mammography.parquet": _mammography,
        "creditcard.parquet": _creditcard,
    }
    try:
        return make[file](frame)
    except KeyError as error:
        raise ValueError(f"OpenML's table for {file} has no column {error}.") from error


def _adult(frame: pandas.DataFrame) -> pandas.DataFrame:
    table = frame[[*ADULT_NUMBERS]].astype("int64")
    for column in ADULT_CATEGORIES:
        table[column] = frame[column].astype(object).where(frame[column].notna(), "?").astype(str)
    table["income"] = frame["class"].astype(str)
    table["split"] = np.where(np.arange(len(table)) < _ADULT_TEST, "test", "train")
    check_content("adult", table.drop(columns="split"))
    check_content("adult test file", table[table["split"] == "test"].drop(columns="split"))
    return table


def _mammography(frame: pandas.DataFrame) -> pandas.DataFrame:
    table = frame[[f"attr{i}" for i in range(1, 7)]].astype("float64")
    table["class"] = np.where(frame["class"].astype(str).str.strip("'") == "1", 1, -1)
    check_content("mammography", table)
    return table


def _creditcard(frame: pandas.DataFrame) -> pandas.DataFrame:
    """No sum is known for the full file: its published facts are checked instead."""
    table = frame[[*_CARD_COLUMNS[:-1]]].astype("float64")
    table["Class"] = (frame["Class"].astype(str).str.strip("'") == "1").astype("int64")
    facts = len(table), int(table["Class"].sum()), round(float(table["Amount"].mean()), 4)
    expected = LEGITIMATE + FRAUDS, FRAUDS, _MEAN_AMOUNT
    if facts != expected:
        raise ValueError(f"OpenML's credit card file has (rows, frauds, mean) {facts}: {expected}.")
    return table


def check_content(name: str, table: pandas.DataFrame) -> None:
    """Refuse a table with another content than the papers' set."""
    found = content_sum(table)
    if found != CHECKSUMS[name]:
        raise ValueError(
            f"the downloaded {name} is not the papers': its content has the sum {found[:12]}…, "
            f"expected {CHECKSUMS[name][:12]}…."
        )


def content_sum(table: pandas.DataFrame) -> str:
    """SHA-256 of the rows as text (numbers to 4 decimals), whatever their order."""
    columns = []
    for name in table.columns:
        values: Any = table[name].to_numpy()
        if values.dtype.kind == "f":
            columns.append([f"{v:.4f}".replace("-0.0000", "0.0000") for v in values])
        else:
            columns.append([str(v) for v in values])
    rows = sorted("\t".join(row) for row in zip(*columns, strict=True))
    return hashlib.sha256("\n".join(["\t".join(table.columns), *rows]).encode()).hexdigest()
