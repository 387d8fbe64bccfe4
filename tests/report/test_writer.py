"""The page as text: what is in it, in which order, how large, and nothing alive from the data."""

from __future__ import annotations

import functools
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import softset as ss
from softset.metrics.registry import METRICS
from softset.report import render, write_report
from tests.report.examples import comparison

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
    c["candidates"][-1] |= {"mean": None, "error": text}
    c["splits"]["note"] = text
    c["history"]["warm"] = c["history"]["warm"] | {"phases": [[text, 1], [text, 5]]}
    c["settings"] = {text: text}
    c["versions"] = {text: text}
    return c | {"verdict": text, "command": text, "warnings": [text], "date": text, "seed": text}


@pytest.mark.parametrize("task", TASKS)
def test_sections_come_in_order(task):
    found = re.findall(r'<(?:header|section) id="([a-z-]+)"', render(comparison(task)))
    wanted = ["verdict", "comparison", "threshold", "confusion", "curves", "training"]
    wanted += ["calibration", "classes", "data-summary", "settings"]
    assert found == [s for s in wanted if s != "threshold" or task != "multiclass"]


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


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: ascii(t[:12]))
@pytest.mark.parametrize("task", TASKS)
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
    c = comparison("binary")
    bare = {k: c[k] for k in ("metric", "task", "candidates", "classes", "verdict")}
    for one in bare["candidates"]:
        one["difference"] = None
    page = Page(render(bare))
    assert "held-out scores" in " ".join(page.words)
    nan = comparison("binary")
    nan["candidates"][0] |= {"low": math.nan, "high": None, "seconds": None, "scores": [math.nan]}
    nan["history"] = {"warm": {"epoch": [1, 2], "soft": [None, None], "hard": []}}
    assert "nan" not in re.sub(r"<script.*?</script>", "", render(nan), flags=re.S).lower()


def test_a_comparison_without_any_result_still_has_a_page():
    c = comparison("binary", candidates=[], predictions={}, history={}, verdict="", winner=None)
    assert "No candidate finished." in render(c)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("report.html", "comparison must be a Comparison or its to_dict"),
        ({"metric": "f1"}, "comparison must be a Comparison or its to_dict"),
    ],
)
def test_something_else_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        render(content)


def test_an_object_with_to_dict_is_taken():
    class Comparison:
        def to_dict(self):
            return comparison("multiclass")

    assert render(Comparison()) == render(comparison("multiclass"))


def test_the_page_is_the_same_twice():
    assert render(comparison("multilabel")) == render(comparison("multilabel"))


def test_size_stays_below_two_megabytes():
    random = np.random.default_rng(0)
    rows, labels = 6_000, 60
    target = random.random((rows, labels)) < np.linspace(0.02, 0.5, labels)
    scores = np.clip(0.4 * target + 0.6 * random.random((rows, labels)), 0, 1)
    names = [f"label {k} {'x' * 200}" for k in range(labels)]
    found = {"target": target.astype(int).tolist(), "scores": scores.tolist()}
    c = comparison("multilabel", classes=names)
    c["predictions"] = {k: found | {"threshold": [0.5] * labels} for k in c["predictions"]}
    c["data"]["columns"] = [
        {"name": f"column {k}", "kind": "number", "missing": 0, "note": "y" * 300}
        for k in range(5000)
    ]
    text = render(c)
    assert len(text.encode()) < 2_000_000
    views = json.loads(Page(text).scripts[0])["views"]
    assert len(views) == 40
    assert "4,800 more columns" in text


def test_many_classes_show_their_confusions_instead_of_a_wall():
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(100), 2000)
    found = {"target": random.integers(0, 100, 2000).tolist(), "scores": scores.tolist()}
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


@pytest.mark.parametrize("metric", [*METRICS, "f3", "f1_macro", "f1_weighted", "jaccard_micro"])
def test_first_numbers_are_those_of_evaluate(metric):
    c = comparison("binary", metric=metric)
    text = render(c)
    found = c["predictions"]["warm"]
    shown = dict(re.findall(r'data-metric="([^"]+)">([^<]+)<', text))
    assert set(shown) >= {k for k in METRICS if k not in ("auroc", "average_precision")}
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
        "except ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == (
        "the report needs the package jinja2, which is not installed: "
        "pip install 'softset[report]'."
    )


def test_a_page_alone_loads_neither_torch_nor_scikit_learn():
    code = (
        "import sys; from softset.report import page; page('t', 'b')\n"
        "print([m for m in ('torch', 'sklearn', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
