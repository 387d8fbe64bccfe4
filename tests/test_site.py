"""What the site is made of besides the pages: ``docs/tools/hooks.py``. ``make docs`` builds it."""

from __future__ import annotations

import re

import pytest

import softset as ss
from tests.test_examples import ROOT, tool

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install softset[docs]")
hooks, doctests = tool("hooks"), tool("doctests")


def test_every_public_name_is_in_the_reference_once():
    pages = hooks.reference_pages()
    shown = re.findall(r"^::: softset\.(\S+)$", "\n".join(pages.values()), re.MULTILINE)
    names = {name for name in ss.__all__ if name not in ("__version__", "plot")}
    assert sorted(shown) == sorted([*names, *(f"plot.{name}" for name in ss.plot.__all__)])


def test_methods_of_the_reference_exist():
    for name, methods in hooks.METHODS.items():
        for method in methods:
            assert getattr(getattr(ss, name), method).__doc__, f"{name}.{method}"


def test_a_public_name_without_a_docstring_is_refused():
    hooks.check_documented(hooks.public_names())
    with pytest.raises(hooks.PluginError, match="has no docstring"):
        hooks.check_documented([hooks.Name("PIECES", "plot")])


def test_every_example_has_a_page_with_its_code():
    pages = hooks.gallery_pages()
    for path in (ROOT / "examples").glob("*.py"):
        if path.stem != "runs":  # what some of them share
            page = pages[f"gallery/{path.stem}.md"]
            assert page.startswith("# ")
            assert "import softset as ss" in page
            assert f"({path.stem}.md)" in pages["gallery/index.md"]


@pytest.mark.parametrize(
    ("page", "link", "moved"),
    [
        ("serving.md", "../examples/serving.py", "gallery/serving.md"),
        ("how-to/cut.md", "../efficacy.md#how", "../efficacy.md#how"),
        ("contributing.md", "docs/architecture.md", "architecture.md"),
        ("papers/papers.md", "../../docs/core.md", "../core.md"),
        ("papers/papers.md", "paper-000.md#x", "paper-000.md#x"),
        ("index.md", "../src/softset/__init__.pyi", "reference/index.md"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page, link, moved):
    class Page:
        class file:  # noqa: N801
            src_uri = page

    text = f"[a]({link}) [b](https://example.org)\n```\n[c](nowhere)\n```\n"
    expected = text.replace(f"({link})", f"({moved})")
    assert hooks.on_page_markdown(text, Page) == expected


def test_a_link_that_leaves_the_site_is_refused():
    class Page:
        class file:  # noqa: N801
            src_uri = "index.md"

    with pytest.raises(hooks.PluginError, match="no page of the site"):
        hooks.on_page_markdown("[a](../pyproject.toml)", Page)


def test_doctests_become_blocks():
    text = "Adds.\n\n>>> a = 1\n>>> a\n1\n\nMore.\n\n>>> b(\n...     2)\n"
    found = doctests.fenced(text)
    assert found.count("```pycon\n>>> ") == 2
    assert found.count("\n```\n") == 2
    assert "1\n```\n\nMore." in found
