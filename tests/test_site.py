"""What the site is made of besides the pages: ``docs/tools/hooks.py``. ``make docs`` builds it."""

from __future__ import annotations

import ast
import functools
import http.server
import inspect
import json
import operator
import os
import re
import subprocess
import sys
import threading

import pytest

import softset as ss
from tests.test_examples import ROOT, tool

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install softset[docs]")
hooks, doctests = tool("hooks"), tool("doctests")


def test_every_public_name_is_in_the_reference_once():
    pages = hooks.reference_pages()
    shown = re.findall(r"^::: softset\.(\S+)$", "\n".join(pages.values()), re.MULTILINE)
    names = set(ss.__all__) - {"__version__"}
    modules = {name for name in names if inspect.ismodule(getattr(ss, name))}
    inside = [f"{name}.{inner}" for name in modules for inner in getattr(ss, name).__all__]
    assert sorted(shown) == sorted([*(names - modules), *inside])


def test_methods_of_the_reference_exist():
    paths = {n.name: n.path for n in hooks.public_names()}
    for name, methods in hooks.METHODS.items():
        for method in methods:
            found = operator.attrgetter(f"{paths[name]}.{method}")(ss)
            assert found.__doc__, f"{name}.{method}"


def test_a_public_name_without_a_docstring_is_refused():
    hooks.check_documented(hooks.public_names())
    with pytest.raises(hooks.PluginError, match="has no docstring"):
        hooks.check_documented([hooks.Name("PIECES", "plot", "plot.PIECES")])


def test_every_example_has_a_page_with_its_code():
    pages = hooks.gallery_pages()
    for path in (ROOT / "examples").glob("*.py"):
        if path.stem != "runs":  # what some of them share
            page = pages[f"gallery/{path.stem}.md"]
            assert page.startswith("# ")
            assert "import softset as ss" in page
            assert f"({path.stem}.md)" in pages["gallery/index.md"]


@pytest.mark.parametrize("example", hooks.examples(), ids=lambda e: e.name)
def test_a_notebook_has_the_code_of_its_example_and_calls_it(example):
    cells = hooks.notebook_cells(example.code)
    if example.name == "serving":  # a server
        assert not cells
        return
    *body, last = ast.parse(example.code).body
    assert ast.dump(ast.Module(body, [])) == ast.dump(ast.parse("\n".join(cells[:-1])))
    assert cells[-1].rstrip(";") in ast.unparse(last)
    made = json.loads(hooks.notebook(example))
    assert made["nbformat"] == 4
    assert [c["cell_type"] for c in made["cells"]] == ["markdown"] + ["code"] * len(cells)
    assert [c["source"] for c in made["cells"][1:]] == cells


@pytest.mark.parametrize(
    ("page", "link", "moved"),
    [
        ("serving.md", "../examples/serving.py", "gallery/serving.md"),
        ("how-to/threshold.md", "../efficacy.md#how", "../efficacy.md#how"),
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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the site, built and served."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen_and_load_nothing_from_elsewhere(browser, address, width, scheme):
    size = {"width": width, "height": 800}
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page, wrong = context.new_page(), []
    page.on("request", lambda r: r.url.startswith((address, "data:")) or wrong.append(r.url))
    page.on("response", lambda r: r.status < 400 or wrong.append(f"{r.status} {r.url}"))
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.goto(address + "sitemap.xml")
    places = re.findall(r"<loc>[^<]*/softset/([^<]*)</loc>", page.content())
    for place in [p for p in places if not p.startswith("papers/paper-")] or ["index.html"]:
        page.goto(address + place)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        dark = page.evaluate("document.body.dataset.mdColorScheme") == "slate"
        assert dark == (scheme == "dark"), place
    context.close()
    assert not wrong
    assert len(places) > 30


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_search_finds_names_and_words(browser, address, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    for words, place in (("best_threshold", "#softset.best_threshold"), ("scorecard", "linear")):
        page.goto(address + "index.html")
        if width < 600:
            page.locator("label[for=__search]").first.click()
        page.fill("input.md-search__input", words)
        page.wait_for_selector(f"a.md-search-result__link[href*='{place}']", timeout=60_000)
    page.close()
