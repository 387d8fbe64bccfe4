"""The results page shows what the committed results say."""

from pathlib import Path

import pytest

from softset.paper.pages import fill_in
from softset.paper.summary import read_records

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not (DOCS / "papers.md").exists(), reason="the docs are not here")
def test_tables_of_the_page_are_those_of_the_results():
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert fill_in(text, read_records(DOCS / "papers")) == text
