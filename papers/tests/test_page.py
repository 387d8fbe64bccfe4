"""The pages of results show what the committed results say."""

from pathlib import Path

import pytest

from softset_papers.pages import fill_in
from softset_papers.summary import read_records

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="the docs are not here")
@pytest.mark.parametrize("page", ["papers", "papers-east", "papers-images"])
def test_tables_of_the_page_are_those_of_the_results(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert "<!-- end -->" in text
    assert fill_in(text, read_records(DOCS / page)) == text
