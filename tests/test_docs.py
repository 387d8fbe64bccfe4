"""The pages are true: their code runs, their commands and links exist, every public name is in the
reference with an example. ``make docs`` builds the site of them."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import sklearn
import torch

import softset as ss
from softset.metrics.registry import get_goal
from softset.training.recipes import RECIPES

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
)
# Pages whose code needs more around it than the page shows: these tests give it, and run it.
ELSEWHERE = {
    "docs/efficacy.md": "tests/classifiers/test_efficacy_docs.py",
    "docs/scale.md": "tests/losses/test_scale.py",
    "docs/serving.md": "tests/test_serving.py",
}
# Packages that a page may use, and a test environment need not have.
OPTIONAL = {"accelerate", "keras", "matplotlib", "onnxruntime", "skorch", "torchmetrics"} | {
    "onnx", "onnxscript", "transformers", "lightning", "lightgbm", "xgboost", "dask", "distributed"
}  # fmt: skip


FEW = ["linear", "linear-tuned"]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


def run(page: str) -> dict[str, object]:
    """All blocks of a page, one after another, in one namespace."""
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        try:
            exec(compile(block, f"{page}, block {number + 1}", "exec"), names)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed")
        except ImportError as error:
            if "pip install" not in str(error):
                raise
            pytest.skip(str(error))
    return names


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    """A page may write files, and leave figures open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


RUN = [page for page in PAGES if blocks(page) and page not in ELSEWHERE]


def _compare_few(compare, *given, candidates=(...,), **settings):
    some = [name for c in candidates for name in (FEW if c is ... else [c])]
    return compare(*given, candidates=some, n_jobs=1, cv=2, **settings)


@pytest.mark.usefixtures("quick_parts")
@pytest.mark.parametrize("page", RUN)
def test_code_of_every_page_runs(page, monkeypatch):
    # Two candidates instead of sixteen and one repeat of two splits, for time.
    monkeypatch.setattr(ss, "compare", partial(_compare_few, ss.compare))
    if page == "docs/integrations.md":
        warnings.simplefilter("ignore")  # the libraries' own
    check = CHECKS.get(page)
    names = run(page)
    if check is not None:
        check(names)


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_code_that_is_run_elsewhere_is_run_there(page, test):
    text = read(test)
    assert page.rpartition("/")[2] in text
    assert "exec(" in text


def check_core(names):
    assert 0 < names["miou"] < 1
    assert names["counts"].tp.shape == (8,)
    for loss in ("loss", "by_image", "by_patient", "soft", "labels_loss", "tail", "lovasz"):
        assert torch.isfinite(names[loss])
    assert names["moving"].weights[0] == 0.5
    assert names["masks"].shape == names["scores"].shape


def check_training(names):
    assert 0 < names["model"].threshold_ < 1
    assert names["trained"].scores(names["x"]).shape == (10, 3000)
    assert max(names["history"]["validation_metric"]) > 0.3


def check_linear(names):
    (printed,) = re.findall(r"```\n(Scorecard.*?)\n```", read("docs/linear.md"), re.DOTALL)
    card = str(names["card"])
    if f"scikit-learn=={sklearn.__version__}" in read("constraints.txt"):
        assert card == printed
    else:  # another solver may end a digit away, and points are whole numbers
        assert re.findall(r"^x\d+", card, re.MULTILINE) == ["x11", "x12"]
    assert names["small"].coef_[0, 0] >= 0
    assert 0 < (names["small"].coef_ != 0).sum() < 20


def check_commands(names):
    model = ss.load_model("model.softset")
    assert model.classes_.tolist() == ["low", "high"]
    assert model.predict(names["frame"][:3]).tolist() == ["low"] * 3


def check_start(names):
    half = ss.evaluate(names["p"], names["y_test"], "f1", from_logits=False)
    assert names["tuned"].score(names["X_test"], names["y_test"]) > half  # as the page says
    assert Path("threshold.png").stat().st_size > 1000


def check_machines(names):
    whole = ss.MetricLoss("f1")(names["model"](names["x"]), names["y"])
    assert float(names["value"]) == pytest.approx(whole.item(), abs=1e-6)


def check_files(names):
    table, model = names["table"], names["model"]
    p = model.predict_proba(table)[:, 1]
    settings = {"threshold": model.threshold, "from_logits": False}
    whole = ss.evaluate(p, (table["churn"] == "yes").to_numpy(), "f1", **settings)
    assert float(ss.F1()(names["total"])) == pytest.approx(whole)


def check_production(names):
    """The page says what is printed; the prevalence of the rows is in its interval."""
    for found in (names["found"], names["unlabeled"]):
        assert found.verdict in read("docs/how-to/production.md")
    rare, shift = names["rare"], names["adapted"].shift
    assert shift.low[0] < (rare["fraud"] == "yes").mean() < shift.high[0]
    assert names["f1"].threshold < names["stated"].threshold


CHECKS = {
    "docs/core.md": check_core,
    "docs/training.md": check_training,
    "docs/linear.md": check_linear,
    "docs/commands.md": check_commands,
    "docs/start.md": check_start,
    "docs/how-to/machines.md": check_machines,
    "docs/how-to/files.md": check_files,
    "docs/how-to/production.md": check_production,
}


def test_the_pages_are_found():
    assert len(RUN) > 15
    assert set(CHECKS) | set(ELSEWHERE) <= set(PAGES)


def test_the_page_of_training_lists_every_recipe():
    listed = re.findall(r'^\| `"([\w-]+)"`', read("docs/training.md"), re.MULTILINE)
    assert sorted(listed) == sorted(RECIPES)


def test_names_on_the_page_of_the_core_are_metrics():
    text = read("docs/core.md")
    found = re.findall(r'`"([a-z_]+(?:\([\d., ]+\)|@\d+(?:_micro)?)?)"`', text)
    known = [n for n in found if n in ss.METRICS or "(" in n or "@" in n or n in ("dice", "miou")]
    assert len(known) >= 8
    for name in known:
        get_goal(name)


# --- commands and links ---------------------------------------------------------------------------


def shell_lines() -> list[tuple[str, str]]:
    """Lines of all blocks that are no Python, and code within lines, that begin with a command."""
    found = []
    for page in PAGES:
        text = read(page)
        plain = re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        lines = [line for block in plain for line in block.splitlines()]
        lines += re.findall(r"`((?:softset|make|python) [^`]+)`", text)
        found += [(page, line.partition("#")[0].strip()) for line in lines]
    return found


def test_commands_on_the_pages_exist():
    typer = pytest.importorskip("typer.main")
    app = importlib.import_module("softset.cli").app
    known = typer.get_command(app).commands
    checked = 0
    for page, line in shell_lines():
        words = line.split()
        if len(words) < 2 or words[0] != "softset" or not re.fullmatch("[a-z][a-z-]*", words[1]):
            continue
        if words[1] in ("paper", "datasets"):  # of softset-papers
            continue
        assert words[1] in known, f"{page}: {line}"
        options = {o for p in known[words[1]].params for o in (*p.opts, *p.secondary_opts)}
        for word in re.findall(r"(?<=\s)(--[a-z-]+)", line):
            assert word in options | {"--help"}, f"{page}: {line}"
            checked += 1
    assert checked > 20


def test_scripts_and_targets_on_the_pages_exist():
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    checked = 0
    for page, line in shell_lines():
        script = re.search(r"\bpython ((?:benchmarks|examples|docs)/\S+\.py)", line)
        if script:
            assert (ROOT / script[1]).exists(), f"{page}: {line}"
        target = re.match(r"make ([a-z-]+)$", line)
        if target:
            assert target[1] in targets, f"{page}: {line}"
        checked += bool(script or target)
    assert checked > 20


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere_in_the_repository(page):
    for link in re.findall(r"\]\((?![a-z]+:|#)([^)\s#]+)", read(page)):
        assert ((ROOT / page).parent / link).exists(), link


# --- the reference --------------------------------------------------------------------------------


def public() -> list[tuple[str, object]]:
    """Every public name with what it is; of ``ss.plot`` the names that it exports."""
    names = [(name, getattr(ss, name)) for name in ss.__all__ if name != "__version__"]
    inside = [
        (f"{name}.{own}", getattr(value, own))
        for name, value in names
        if inspect.ismodule(value)
        for own in value.__all__
    ]
    return [pair for pair in names if not inspect.ismodule(pair[1])] + inside


def written(name: str, value: object) -> str:
    """The docstring; of a value the text that follows it in its module."""
    if callable(value):
        return inspect.getdoc(value) or ""
    folder, _, name = f"src.softset.{name}".replace(".", "/").rpartition("/")
    stub = re.search(rf"from \.(\S+) import {name} as", read(f"{folder}/__init__.pyi"))
    assert stub is not None
    body = ast.parse(read(f"{folder}/{stub[1].replace('.', '/')}.py")).body
    for line, after in pairwise(body):
        targets = getattr(line, "targets", [getattr(line, "target", None)])
        if name in [getattr(t, "id", None) for t in targets] and isinstance(after, ast.Expr):
            return inspect.cleandoc(ast.literal_eval(after.value))
    return ""


@pytest.mark.parametrize(("name", "value"), public(), ids=lambda v: v if isinstance(v, str) else "")
def test_every_public_name_has_an_example_that_runs(name, value):
    text = written(name, value)
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples, f"{name} has no example in its docstring"
    if callable(value):  # pytest runs it, if its module is one that pytest looks at
        module = importlib.import_module(value.__module__)
        assert Path(inspect.getfile(module)).is_relative_to(Path(ss.__file__).parent)
        assert value.__doc__ is not None
        assert getattr(module, value.__name__) is value
    else:
        found = doctest.DocTestRunner(verbose=False).run(test)
        assert found.failed == 0
