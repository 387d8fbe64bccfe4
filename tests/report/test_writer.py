"""The page as text: what is in it, in which order, how large, and nothing alive from the data."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import ClassVar

import numpy as np
import pytest
import torch

import softset as ss
from softset.comparison.result import Comparison
from softset.metrics.base import Metric
from softset.metrics.registry import METRICS, Row
from softset.report import context, operating, write_report
from softset.report.layout import source
from softset.report.sections import confusion
from tests.reference import is_area
from tests.report.examples import comparison, render, resealed

TASKS = ("binary", "multiclass", "multilabel")
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "' onmouseover='alert(4)",
    "{{ 7 * 7 }} {% raw %}",
    "$x_{",
    "<!--",
    "]]>",
    "naïve 中文 \u202e \x00 \ud800",
    "a" * 5000,
    "\\u003cscript>",
    "javascript:alert(5)",
    "http://example.org/x.png",
]


class Page(HTMLParser):
    """Tags, attributes, text, and the contents of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words.append(data)

    def handle_endtag(self, tag):
        self._inside = ""


@functools.cache
def usual(task: str) -> Page:
    return Page(render(comparison(task)))


def hostile(task: str, text: str) -> dict:
    """A comparison with ``text`` wherever text may come from data or from the user."""
    c = comparison(task)
    c["classes"] = [f"{text}{k}" for k in range(len(c["classes"]))]
    if task == "binary":
        c["positive"] = c["classes"][1]
    c["data"]["classes"] = [{"label": label, "rows": 10} for label in c["classes"]]
    for column in c["data"]["columns"]:
        column |= {"name": text, "kind": text, "note": text}
    c["data"] |= {"file": text, "notes": [text]}
    for one in c["candidates"]:
        one |= {"name": f"{text} {one['id']}", "description": text}
    names = ("mean", "low", "high", "rank", "difference", "seconds", "size", "thresholds")
    empty = dict.fromkeys(names)
    c["candidates"][-1] |= {**empty, "scores": [], "error": text}
    c["splits"] |= {"note": text, "groups": text}
    c["history"]["warm"] = c["history"]["warm"] | {"phases": [[text, 1], [text, 5]]}
    for found in c["predictions"].values():
        found["note"] = text
    c["settings"]["fits"] = {text: [text]}
    c["versions"] = {text: text}
    for stage in c["gains"]["stages"]:
        stage["name"] = text
    c |= {"verdict": text, "advice": text, "date": text}
    return c | {"command": text, "warnings": [f"{text} warns"]}


@pytest.mark.parametrize("task", TASKS)
def test_sections_come_in_order(task):
    found = re.findall(r'<(?:header|section) id="([a-z-]+)"', render(comparison(task)))
    wanted = ["verdict", "stages", "comparison", "threshold", "confusion", "curves", "training"]
    wanted += ["calibration", "classes", "importances", "data-summary", "settings", "glossary"]
    wanted = [s for s in wanted if s != "threshold" or task != "multiclass"]
    assert found == wanted
    links = [a["href"] for t, a in usual(task).tags if t == "a"]
    assert links == [f"#to-{s}" for s in wanted if s != "verdict"]


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_loaded_and_the_policy_forbids_it(task):
    page = usual(task)
    for tag, attributes in page.tags:
        assert tag not in {"iframe", "object", "embed", "img", "base", "form"}
        assert "src" not in attributes
        assert "style" not in attributes
        assert not [a for a in attributes if a.startswith("on")]
        assert tag != "link" or attributes["href"] == "data:,"
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("task", "text"),  # all of them in every task, and each in one
    [(task, "".join(HOSTILE)) for task in TASKS]
    + [(TASKS[i % len(TASKS)], text) for i, text in enumerate(HOSTILE)],
    ids=lambda t: ascii(t[:12]),
)
def test_names_from_the_data_are_only_text(task, text):
    plain, page = usual(task), Page(render(hostile(task, text)))
    assert {t for t, _ in page.tags} == {t for t, _ in plain.tags}
    assert len(page.scripts) == len(plain.scripts) == 3
    assert page.scripts[1:] == plain.scripts[1:]  # the code is ours, to the letter
    known = {a for _, attributes in plain.tags for a in attributes}
    assert {a for _, attributes in page.tags for a in attributes} <= known | {"title"}
    data = json.loads(page.scripts[0])
    assert "<" not in page.scripts[0]
    start = text.encode("utf-8", "replace").decode()[:20].replace("\x00", " ")
    start = "".join(c if c.isprintable() else " " for c in start)
    assert data["views"][0]["label"].startswith(start)
    assert any(start in words for words in page.words)


def test_values_that_are_not_there_do_no_harm():
    bare = comparison("binary", predictions={}, history={}, importances=[])
    del bare["gains"]["stages"][1:]
    for one in bare["candidates"]:
        one |= {"difference": None, "low": None, "high": None, "seconds": None}
    page = render(bare)
    assert re.findall(r'<section id="([a-z-]+)"', page) == [
        "comparison",
        "data-summary",
        "settings",
        "glossary",
    ]
    assert "<script id" not in page
    silent = comparison("binary")
    silent["history"]["warm"] |= {"soft": [None] * len(silent["history"]["warm"]["epoch"])}
    silent["history"]["anneal"] |= {k: [] for k in silent["history"]["anneal"]}
    text = re.sub(r"<script.*?</script>", "", render(silent), flags=re.S)
    assert "nan" not in text.lower()
    assert '<span class="key soft">' not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("report.html", "a comparison in format 3 was expected, got 'str'"),
        ({"metric": "f1"}, "a comparison in format 3 was expected, got None"),
        ({"format": 1, "metric": "f1"}, "format 3 was expected, got 1. Compare again"),
        ({"format": 3, "metric": "f1"}, "task is missing"),
    ],
)
def test_something_else_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        render(content)


def test_a_comparison_and_its_dictionary_make_the_same_page():
    found = Comparison.from_dict(comparison("multiclass"))
    assert render(found) == render(found.to_dict()) == render(comparison("multiclass"))


def test_the_stages_say_which_gains_are_significant():
    page = render(comparison("binary"))
    shown = page.partition('<section id="stages">')[2].partition("</section>")[0]
    rows = re.findall(r"<tr.*?</tr>", shown, flags=re.S)
    assert [re.search(r'"row">([^<]+)<', r)[1] for r in rows[:4]] == [
        "default threshold (0.5)",
        "tuned threshold",
        "trained for F1",
        "all stages",
    ]
    said = [re.findall(r'<span class="tag[^>]*>([^<]+)<', r) for r in rows[:4]]
    significant, not_significant = "significant (adjusted p 0.030)", "not significant"
    assert said == [[], [significant], [f"{not_significant} (adjusted p 0.400)"], [significant]]
    assert [r.count('<span class="tag plain">') for r in rows[:4]] == [0, 0, 1, 0]
    assert "chosen on the other splits and scored on this one" in shown
    head = words_of(page.partition('<header id="verdict">')[2].partition("</header>")[0])
    assert "Significant stages: tuned threshold (+0.020); not significant: trained for F1" in head
    for c in comparison("binary")["candidates"]:  # the cards have the numbers of the table
        if c["id"] in ("warm", "cross-entropy-tuned"):
            assert f"{c['mean']:.3f} F1, {c['name']}" in " ".join(head.split())


def test_the_page_is_the_same_twice():
    assert render(comparison("multilabel")) == render(comparison("multilabel"))


def test_size_stays_below_two_megabytes():
    random = np.random.default_rng(0)
    rows, labels = 1_500, 60
    target = random.random((rows, labels)) < np.linspace(0.02, 0.5, labels)
    scores = np.clip(0.4 * target + 0.6 * random.random((rows, labels)), 0, 1)
    names = [f"label {k} {'x' * 200}" for k in range(labels)]
    found = {"target": target.astype(int).tolist(), "scores": scores.tolist(), "note": ""}
    c = comparison("multilabel", classes=names)
    c["predictions"] = {k: found | {"threshold": [0.5] * labels} for k in c["predictions"]}
    c["data"]["columns"] = [
        {"name": f"column {k}", "kind": "number", "missing": 0, "note": "y" * 300}
        | {"values": None, "outputs": 1}
        for k in range(5000)
    ]
    text = render(c)
    assert len(text.encode()) < 2_000_000
    views = json.loads(Page(text).scripts[0])["views"]
    assert len(views) == 40
    assert "4,800 more columns" in text


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_of_many_classes_those_with_most_rows_have_curves(task, seed, monkeypatch):
    """In the order of the classes, whatever their sizes."""
    monkeypatch.setattr(operating, "VIEWS", 4)
    random = np.random.default_rng(seed)
    sizes = random.permutation(np.arange(3, 13))
    target = random.permutation(np.repeat(np.arange(10), sizes))
    scores = random.dirichlet(np.ones(10), len(target))
    y = target if task == "multiclass" else np.eye(10, dtype=int)[target]
    found = {"target": y.tolist(), "scores": scores.tolist(), "note": "", "threshold": None}
    c = comparison(task, classes=[f"c{k}" for k in range(10)])
    c["predictions"] = dict.fromkeys(c["predictions"], found)
    views = operating.views_of(Comparison.from_dict(resealed(c)))
    largest = np.flatnonzero(sizes > 8)
    assert [view.label for view in views] == [f"c{k}" for k in largest]
    for k, view in zip(largest, views, strict=True):
        assert view.sides[0].scores.positives == sizes[k]


def test_confusions_are_listed_from_the_most_frequent(monkeypatch):
    monkeypatch.setattr(confusion, "_CONFUSIONS", 4)
    random = np.random.default_rng(0)
    cells = random.permutation(16).reshape(4, 4)
    y, said = np.repeat(np.indices((4, 4)).reshape(2, -1), cells.ravel(), axis=1)
    found = {"target": y.tolist(), "scores": np.eye(4)[said].tolist(), "note": ""}
    c = comparison("multiclass")
    c["predictions"] = dict.fromkeys(c["predictions"], found | {"threshold": None})
    content = Comparison.from_dict(resealed(c))
    pairs = confusion.content(context.Page(content, operating.Operating(content)))["matrix"][
        "pairs"
    ]
    off = [(cells[i, j], i, j) for i in range(4) for j in range(4) if i != j]
    largest = sorted(off, reverse=True)[:4]
    labels = content.classes
    wanted = [(labels[i], labels[j], str(count)) for count, i, j in largest]
    assert [(p["true"], p["predicted"], p["count"]) for p in pairs] == wanted


def test_many_classes_show_their_confusions_instead_of_a_wall():
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(100), 2000)
    found = {"target": random.integers(0, 100, 2000).tolist(), "scores": scores.tolist()}
    found["note"] = ""
    c = comparison("multiclass", classes=[f"c{k}" for k in range(100)])
    c["predictions"] = {k: found | {"threshold": None} for k in c["predictions"]}
    text = render(c)
    assert 'class="heat"' not in text
    assert "Most frequent confusions" in text


def test_counts_at_every_stop_are_those_of_the_library():
    c = comparison("binary")
    data = json.loads(Page(render(c)).scripts[0])
    for key, side in zip(c["predictions"], data["views"][0]["sides"], strict=True):
        found = c["predictions"][key]
        p, y = np.array(found["scores"]), np.array(found["target"])
        assert side["thresholds"][side["start"]] == found["threshold"]
        for k in range(0, len(side["thresholds"]), 37):
            t = side["thresholds"][k]
            counted = ss.confusion(torch.tensor(p), y, threshold=t, from_logits=False)
            assert (side["tp"][k], side["predicted"][k]) == (counted.tp, counted.predicted)


@pytest.mark.parametrize("metric", ["f1", "mcc", "f3", "f1_macro", "f2_weighted", "jaccard_micro"])
def test_values_at_every_stop_are_those_of_the_library(metric):
    c = comparison("binary", metric=metric)
    data = json.loads(Page(render(c)).scripts[0])
    assert data["metrics"][0]["key"] == metric
    keys = [m["key"] for m in data["metrics"]]
    for name, side in zip(c["predictions"], data["views"][0]["sides"], strict=True):
        found = c["predictions"][name]
        p, y = np.array(found["scores"]), np.array(found["target"])
        for k in (0, side["start"], 400, len(side["thresholds"]) - 1):
            given = {"threshold": side["thresholds"][k], "from_logits": False}
            for key in keys:
                value = ss.evaluate(p, y, key, **given)
                assert side["values"][key][k] / data["scale"] == pytest.approx(value, abs=6e-7)
            for key, shown in side["negative"].items():
                at = (p >= side["thresholds"][k]).astype(float)
                value = ss.evaluate(1 - at, 1 - y, key, from_logits=False)
                assert shown[k] / data["scale"] == pytest.approx(value, abs=6e-7)
        for key in keys:
            assert side["values"][key][side["best"][key]] == max(side["values"][key])


def test_a_new_metric_needs_its_row_only(monkeypatch):
    """Name, formula, range and values on the page all come from the table of metrics."""

    @dataclass(frozen=True)
    class Surplus(Metric):
        base_name: ClassVar[str] = "surplus"

        def score(self, c):
            return 3 * (c.tp - c.fp) / c.total

    row = Row(Surplus, "my surplus", "3 (tp − fp) / rows", "brute force", range=(-3.0, 3.0))
    monkeypatch.setitem(METRICS, "surplus", row)
    c = comparison("binary", metric="surplus")
    page = Page(render(c))
    data = json.loads(page.scripts[0])
    first, side = data["metrics"][0], data["views"][0]["sides"][0]
    assert (first["name"], first["range"]) == ("my surplus", [-3, 3])
    assert [t for _, t in first["ticks"]] == ["−2", "0", "2"]
    fp = side["predicted"][300] - side["tp"][300]
    value = 3 * (side["tp"][300] - fp) / side["total"]
    assert side["values"]["surplus"][300] / data["scale"] == pytest.approx(value, abs=6e-7)
    words = " ".join(page.words)
    assert "3 (tp − fp) / rows" in words
    assert "My surplus against threshold" in words


def test_the_script_has_no_formulas():
    script = source("report.js")
    known = {"precision", "recall", "specificity", "auroc"}  # axes of plots, and an area
    assert {k for k in METRICS if re.search(rf"\b{re.escape(k)}\b", script)} <= known


@pytest.mark.parametrize("metric", [*METRICS, "f3", "f1_macro", "f1_weighted", "jaccard_micro"])
def test_first_numbers_are_those_of_evaluate(metric):
    c = comparison("binary", metric=metric)
    text = render(c)
    found = c["predictions"]["warm"]
    shown = dict(re.findall(r'data-metric="([^"]+)">([^<]+)<', text))
    assert set(shown) >= {k for k in METRICS if not is_area(ss.get_metric(k))}
    for name, words in shown.items():
        p, y = np.array(found["scores"]), np.array(found["target"])
        value = ss.evaluate(p, y, name, threshold=found["threshold"], from_logits=False)
        assert words.replace("−", "-") == f"{value:.3f}"


def test_a_metric_of_the_users_own_has_a_report_too():
    text = render(comparison("binary", metric="my_profit"))
    assert "my_profit itself has no threshold" in text.replace("My_profit", "my_profit")


def test_several_classes_have_every_metric():
    c = comparison("multiclass")
    text = render(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    for metric, name in (("f1", "macro F1"), ("mcc", "MCC"), ("auroc", "macro AUROC")):
        value = ss.evaluate(p, y, metric, task="multiclass", from_logits=False)
        assert f'<td>{name}</td><td class="num">{value:.3f}</td>' in text


def test_offsets_move_the_decisions_of_several_classes():
    c = comparison("multiclass")
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    offsets = [0.0, 0.0, 0.5, 2.0]
    c["predictions"]["warm"] = found | {"threshold": offsets}
    value = ss.evaluate(p, y, "f1", task="multiclass", offsets=offsets, from_logits=False)
    plain = ss.evaluate(p, y, "f1", task="multiclass", from_logits=False)
    assert f"{value:.3f}" != f"{plain:.3f}"
    assert f'<td>macro F1</td><td class="num">{value:.3f}</td>' in render(c)


def test_write_is_all_or_nothing(tmp_path):
    path = tmp_path / "report.html"
    write_report(comparison("binary"), path)
    before = path.read_bytes()
    assert before.decode() == render(comparison("binary"))
    with pytest.raises(OSError, match=r"could not write report\.html"):
        write_report(comparison("binary"), tmp_path / "missing" / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_without_jinja2_one_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from softset.report import page\n"
        "try: page('t', 'b')\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "the report needs jinja2: pip install 'softset[report]'"


def test_a_page_alone_loads_neither_torch_nor_scikit_learn():
    code = (
        "import sys; from softset.report import page; page('t', 'b')\n"
        "print([m for m in ('torch', 'sklearn', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- what is said, and where ---------------------------------------------------------------------


def words_of(text: str) -> str:
    return " ".join(" ".join(Page(text).words).split())


def test_rows_that_were_really_used_stand_in_the_head():
    c = comparison("binary")
    assert "· 3,000 rows ·" in words_of(render(c))
    c["data"] |= {"used": 1200, "refitted": 2000}
    text = words_of(render(c))
    assert "· 1,200 of 3,000 rows ·" in text
    assert "1,200 of the rows were compared on, the model was fitted on 2,000." in text


def test_what_is_warned_of_is_said_once():
    c = comparison("binary", warnings=["column 'x' is constant.", "column 'x' is constant."])
    c["data"]["notes"] = ["column 'x' is constant.", "31 values were filled in."] * 2
    c["data"]["columns"][0]["note"] = "column 'x' is constant."
    text = words_of(render(c))
    assert text.count("column 'x' is constant.") == 1
    assert text.count("31 values were filled in.") == 1


def test_p_of_the_pair_and_the_adjusted_one_have_a_column_each():
    c = comparison("binary")
    c["candidates"][0]["difference"] |= {"p": 0.0123, "p_adjusted": 0.21}
    row = render(c).partition('class="dense"')[2].partition("</tbody>")[0]
    head = re.findall(r"<th[^>]*>(.*?)</th>", row.partition("</thead>")[0])
    first = re.findall(r"<td[^>]*>(.*?)</td>", row.partition("<tbody>")[2].partition("</tr>")[0])
    cells = dict(zip(head[1:], first, strict=True))
    assert (cells["p"], cells["p<br>adjusted"]) == ("0.012", "0.21")


def test_panels_of_training_have_the_same_axes():
    c = comparison("binary")
    h = c["history"]["warm"]
    half = {k: v[: len(v) // 2] for k, v in h.items() if k != "phases"}
    half |= {"phases": [["cross-entropy", 1]], "hard": [0.1] * len(half["epoch"])}
    c["history"] = {"warm": h, "cross-entropy": half}
    drawn = render(c).partition('id="training"')[2].partition("</section>")[0].split("<figure>")[1:]
    ticks = [re.findall(r'class="tick [a-z ]+">([^<]+)<', d.partition("<svg x=")[0]) for d in drawn]
    assert len(ticks) == 2
    assert ticks[0] == ticks[1]
    assert len(ticks[0]) > 5


def test_a_legend_names_nothing_that_is_not_there():
    c = comparison("binary")
    few = c["predictions"]["warm"]
    keep = [i for i, t in enumerate(few["target"]) if t == 0][:200]
    keep += [i for i, t in enumerate(few["target"]) if t == 1][:10]  # too few for a map
    for found in c["predictions"].values():
        found |= {k: [found[k][i] for i in keep] for k in ("target", "scores")}
    shown = render(c).partition('id="calibration"')[2].partition("</section>")[0]
    legend = re.search(r'<span class="item"[^>]*><span class="key ours"></span>recalibrated', shown)
    assert "hidden" in legend[0]
    assert "Too few rows of a class to recalibrate" in shown


@pytest.mark.parametrize("task", TASKS)
def test_every_metric_has_its_formula(task):
    text = words_of(render(comparison(task)))
    for row in METRICS.values():
        assert row.formula in text
