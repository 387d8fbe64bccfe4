"""The pages of results show what the committed results say."""

from pathlib import Path

import pytest

from softset_papers.pages.layout import fill_in
from softset_papers.results import read_records

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if "<!-- end -->" in path.read_text("utf-8"))


def test_there_are_pages_of_results():
    assert len(PAGES) >= 3


@pytest.mark.parametrize("page", PAGES)
def test_tables_of_the_page_are_those_of_the_results(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert fill_in(text, read_records(DOCS / "results")) == text
