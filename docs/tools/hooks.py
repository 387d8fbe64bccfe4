"""What mkdocs builds besides the pages in docs/: the reference, the gallery, and pages of the
repository that stand elsewhere. Links that are right in the repository are right in the site.
"""

from __future__ import annotations

import ast
import itertools
import json
import posixpath
import re
from pathlib import Path
from typing import Any, NamedTuple

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# Pages of the site that stand elsewhere in the repository, and what else a page may link to.
ELSEWHERE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
MADE = {
    "README.md": "index.md",
    "examples": "gallery/index.md",
    "src/softset/__init__.pyi": "reference/index.md",
}
LINK = re.compile(r"(\]\(|\]: )(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?")
# The title of each page of the reference, and what holds for all names on it.
SUBPACKAGES = {
    "storage": (
        "Files",
        "What is saved is JSON and tensors with a checksum; loading runs no code.",
    ),
    "tables": (
        "Tables",
        "From files and data frames to numbers.",
    ),
    "counting": (
        "Steps and counts",
        "Scores are logits unless `from_logits=False`. `*` or `...` in a shape stands for any "
        "number of positions, such as pixels.",
    ),
    "metrics": (
        "Metrics",
        "A metric is called with a `Confusion` and returns a tensor with its leading "
        "dimensions, one number for one confusion. Wherever a metric is asked for, its name "
        "does as well. `average` is `'macro'`, `'micro'`, `'weighted'` or `None` (a number "
        "for each class); for two classes a metric is that of the positive one, unless "
        "`both_classes=True`.",
    ),
    "decisions": (
        "Decisions",
        "From scores to decisions, with intervals.",
    ),
    "losses": (
        "Losses",
        "All are `torch.nn` modules with one signature: `loss(scores, target, "
        "sample_weight=None)` returns one number. They can be added and scaled.",
    ),
    "training": (
        "Training",
        "One network, or many at once.",
    ),
    "boosting": (
        "Boosting",
        "Objectives for the libraries' own interfaces.",
    ),
    "classifiers": (
        "Classifiers",
        "They follow scikit-learn's contract; `predict` uses a threshold tuned for the metric.",
    ),
    "comparison": (
        "Comparison",
        "Does anything beat the default threshold?",
    ),
    "plot": (
        "Plots",
        "They need matplotlib, the extra `[plot]`. Each function returns a display in the "
        "manner of scikit-learn's, with `ax_`, `figure_` and `plot(ax)`.",
    ),
}
FITTED = ["fit", "predict", "predict_proba", "decision_function", "score", "save", "load"]
# Methods that the reference shows; those that are not here are internal.
METHODS = {
    "Annealing": ["update"],
    "Accumulation": ["count"],
    "Comparison": ["to_dict", "from_dict", "save", "load"],
    "Confusion": ["from_matrix", "detach"],
    "LinearStep": ["at_temperature"],
    "MetricBoostingClassifier": FITTED,
    "MetricMLPClassifier": [*FITTED, "to_torch", "to_onnx"],
    "MetricEnsembleClassifier": [*FITTED, "summary"],
    "MetricLinearClassifier": [*FITTED, "summary", "scorecard", "to_torch", "to_onnx"],
    "MetricThresholdClassifier": FITTED,
    "Model": ["predict", "predict_proba", "predict_both", "inputs", "save", "to_torch", "to_onnx"],
    "TableEncoder": ["fit", "transform", "fit_transform"],
    "Trained": ["scores", "module"],
}


class Name(NamedTuple):
    """A public name, the module of softset that defines it, and what users write after ``ss.``."""

    name: str
    module: str
    path: str


def public_names() -> list[Name]:
    """The names of ``__init__.pyi``, then those of the modules and subpackages that it lists."""
    folder = ROOT / "src" / "softset"
    names, modules = [], []
    for module, name in imported(folder / "__init__.pyi"):
        if module:
            names.append(Name(name, module, name))
        else:
            modules.append(name)
    for module in modules:
        if (folder / module).is_dir():
            names += [
                Name(name, f"{module}.{inner}", f"{module}.{name}")
                for inner, name in imported(folder / module / "__init__.pyi")
            ]
        else:
            names += [Name(n, module, f"{module}.{n}") for n in exported(folder / f"{module}.py")]
    return names


def imported(stub: Path) -> list[tuple[str | None, str]]:
    """The modules and names that a stub imports."""
    body = ast.parse(stub.read_text(encoding="utf-8")).body
    lines = [line for line in body if isinstance(line, ast.ImportFrom)]
    return [(line.module, alias.name) for line in lines for alias in line.names]


def exported(module: Path) -> list[str]:
    """``__all__`` of a module, functions first."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    (names,) = [
        ast.literal_eval(line.value)
        for line in body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__"
    ]
    return sorted(names, key=lambda name: (name[0].isupper(), name))


def check_documented(names: list[Name]) -> None:
    """An undocumented public name is an error."""
    package = griffe.load("softset", search_paths=[ROOT / "src"])
    for name, module, _ in names:
        if not package[f"{module}.{name}"].has_docstring:
            raise PluginError(f"softset.{module}.{name} is public and has no docstring")


def reference_pages() -> dict[str, str]:
    """The text of each page of the reference, by its place."""
    by_subpackage: dict[str, list[Name]] = {}
    for found in public_names():
        by_subpackage.setdefault(found.module.partition(".")[0], []).append(found)
    pages, lines = {}, ["# Reference", ""]
    lines += [
        "Every public name of `import softset as ss`, from its docstring; each example is run by "
        "the tests.",
        "",
    ]
    for subpackage, names in by_subpackage.items():
        if subpackage not in SUBPACKAGES:
            raise PluginError(
                f"docs/tools/hooks.py: SUBPACKAGES must have a title for {subpackage!r}"
            )
        title, about = SUBPACKAGES[subpackage]
        text = [f"# {title}", "", about, ""]
        for name, _, path in names:
            members = METHODS.get(name, [])
            options = ["    options:"]
            options += [f"      {kind}: {members}" for kind in ("members", "inherited_members")]
            text += [f"::: softset.{path}", *options, ""]
        pages[f"reference/{subpackage}.md"] = "\n".join(text)
        links = ", ".join(f"[`ss.{n.path}`]({subpackage}.md#softset.{n.path})" for n in names)
        lines += [f"**[{title}]({subpackage}.md)**: {links}", ""]
    return {"reference/index.md": "\n".join(lines), **pages}


class Example(NamedTuple):
    """A file of examples/: its question, what it says about it, and its code."""

    name: str
    question: str
    about: str
    code: str


def examples() -> list[Example]:
    """Those that can be run by themselves, by name; the others hold what they share."""
    found = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text or "FastAPI()" in text:
            head = ast.get_docstring(ast.parse(text)) or ""
            question, _, about = head.partition("\n\n")
            if not question:
                raise PluginError(f"{path.name} must begin with a docstring: its question")
            code = text.partition('"""')[2].partition('"""')[2].strip()
            found.append(Example(path.stem, " ".join(question.split()), about, code))
    return found


def gallery_pages() -> dict[str, str]:
    """A page for each example, and one with all."""
    pages = {}
    cards = ["# Gallery", "", "Questions, each answered by a program that is run by the tests."]
    cards += ["", '<div class="gallery" markdown>', ""]
    for name, question, about, code in examples():
        made = ROOT / "docs" / "gallery"
        has_picture, printed = (made / f"{name}.svg").exists(), made / f"{name}.txt"
        title = question.rstrip(".")
        text = [f"# {title}", "", about, ""]
        if has_picture:
            text += [f"![{title}]({name}.svg)", ""]
        if printed.exists():
            text += ["```text", printed.read_text(encoding="utf-8").rstrip(), "```", ""]
        also = f", or [as a notebook]({name}.ipynb)" if notebook_cells(code) else ""
        text += [f"`examples/{name}.py`{also}:", "", "```python", code, "```", ""]
        pages[f"gallery/{name}.md"] = "\n".join(text)
        cards += ["<div markdown>", "", f"[{title}]({name}.md)", ""]
        cards += [f"[![{title}]({name}.svg)]({name}.md)", ""] if has_picture else []
        cards += ["</div>", ""]
    return {"gallery/index.md": "\n".join([*cards, "</div>", ""]), **pages}


def notebook_cells(code: str) -> list[str]:
    """The code of an example as cells: imports and constants, each function, and the call.

    None for a program that is no call of ``main()``.
    """
    body = ast.parse(code).body
    if "main()" not in (last := ast.unparse(body[-1])) or "__main__" not in last:
        return []
    lines = code.splitlines()
    cells: list[str] = []
    start = 0
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) or isinstance(
            after, ast.FunctionDef | ast.ClassDef | ast.If
        ):
            cells.append("\n".join(lines[start : node.end_lineno]).strip())
            start = node.end_lineno or 0
    return [*cells, "main();"]


def notebook(example: Example) -> str:
    """An example as a notebook (nbformat 4.5), without output."""
    cells: list[dict[str, Any]] = []
    sources = [f"# {example.question}\n\n{example.about}", *notebook_cells(example.code)]
    for number, source in enumerate(sources):
        cell = {"id": f"cell-{number}", "metadata": {}, "source": source}
        run = {"cell_type": "code", "execution_count": None, "outputs": []}
        cells.append(cell | (run if number else {"cell_type": "markdown"}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
        indent=1,
    )


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A folder in the navigation stands for its pages, the index first. Pages that the navigation
    does not name are in "Explain"."""
    made = {"reference/": list(reference_pages()), "gallery/": list(gallery_pages())}
    papers = sorted(path.name for path in (ROOT / "papers" / "docs").glob("*.md"))
    papers.sort(key=lambda name: name != "papers.md")
    made["papers/"] = [f"papers/{name}" for name in papers]
    config.nav = [
        {title: made[place]} if isinstance(place, str) and place in made else entry
        for entry in config.nav or []
        for title, place in entry.items()
    ]
    there = (path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    (explain,) = [entry["Explain"] for entry in config.nav if "Explain" in entry]
    named = str(config.nav)
    explain += sorted(place for place in there if f"'{place}'" not in named)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made, and what stands elsewhere."""
    check_documented(public_names())
    for place, text in {**reference_pages(), **gallery_pages()}.items():
        files.append(File.generated(config, place, content=text))
    for example in examples():
        if notebook_cells(example.code):
            place = f"gallery/{example.name}.ipynb"
            files.append(File.generated(config, place, content=notebook(example)))
    papers = ROOT / "papers" / "docs"
    found = {path for path in papers.rglob("*") if path.is_file()}
    own = {f"papers/{path.relative_to(papers).as_posix()}": path for path in found}
    for place, path in {**own, **{k: ROOT / v for k, v in ELSEWHERE.items()}}.items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def source_of(place: str) -> str:
    """Where a page of the site stands in the repository."""
    if place in ELSEWHERE:
        return ELSEWHERE[place]
    return f"papers/docs/{place[7:]}" if place.startswith("papers/") else f"docs/{place}"


def place_of(source: str) -> str | None:
    """Where a file of the repository stands in the site, if it does."""
    for place, elsewhere in ELSEWHERE.items():
        if source == elsewhere:
            return place
    if source in MADE:
        return MADE[source]
    if source.startswith("examples/") and source.endswith(".py"):
        return f"gallery/{posixpath.basename(source)[:-3]}.md"
    for folder, place in (("docs/", ""), ("papers/docs/", "papers/")):
        if source.startswith(folder):
            return place + source[len(folder) :]
    return None


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links by the places of the repository become links of the site."""
    here = page.file.src_uri

    def moved(found: re.Match[str]) -> str:
        before, target, anchor = found[1], found[2], found[3] or ""
        source = posixpath.normpath(posixpath.join(posixpath.dirname(source_of(here)), target))
        place = place_of(source)
        if place is None:
            raise PluginError(f"{here}: {target} is no page of the site")
        return before + posixpath.relpath(place, posixpath.dirname(here) or ".") + anchor

    return outside_code(markdown, lambda text: LINK.sub(moved, text))


def outside_code(markdown: str, change: Any) -> str:
    """``change`` applied to all but blocks of code."""
    parts = re.split(r"(^```.*?^```\s*?$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))
