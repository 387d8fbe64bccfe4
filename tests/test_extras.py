"""What each extra alone must be able to do: packages of the others are hidden."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.report.examples import comparison

EXTRAS = {
    "cli": ["pandas", "pyarrow", "rich", "typer"],
    "report": ["jinja2"],
    "plot": ["matplotlib"],
    "boosting": ["lightgbm", "xgboost"],
    "excel": ["openpyxl"],
    "onnx": ["onnx", "onnxscript", "onnxruntime"],
}
HIDE = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):  # as if they were not installed
    return None if name.partition(".")[0] in {hidden!r} else found(name, path, target)
PathFinder.find_spec = find_spec
sys.argv = ["softset", *{arguments!r}]
"""
CORE = """
import numpy as np, softset as ss
x = np.random.default_rng(0).normal(size=(120, 3))
y = (x[:, 0] > 0.5).astype(int)
print(float(ss.MetricLoss("f1")(x[:, 0], y)) < 1)
from sklearn.ensemble import RandomForestClassifier
forest = ss.MetricThresholdClassifier(RandomForestClassifier(), "f1", cv="oob")
for model in (ss.MetricClassifier("f1"), forest, ss.MetricLinearClassifier("f1")):
    model.fit(x, y)
    print(ss.evaluate(model.predict(x).astype(float), y, "f1", from_logits=False) > 0.5)
"""


def python(extras, code, *arguments):
    """Run code with only the packages of some extras."""
    hidden = {p for name, own in EXTRAS.items() if name not in extras for p in own}
    head = HIDE.format(hidden=sorted(hidden), arguments=arguments)
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=False
    )


def test_losses_classifiers_and_evaluation_need_no_extra():
    found = python([], CORE)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["True"] * 4


def test_boosting_alone_trains_and_without_it_the_install_line_is_said():
    code = CORE.partition("from sklearn")[0] + "ss.MetricBoostingClassifier('f1').fit(x, y)"
    assert python(["boosting"], code).returncode == 0
    said = python([], code).stderr.splitlines()[-1]
    assert "pip install softset[boosting]" in said


@pytest.mark.parametrize(
    "command", [["compare", "x.csv", "-t", "y"], ["train", "x.csv", "-t", "y"]]
)
def test_the_command_line_without_its_packages_says_what_to_install(command):
    found = python([], "from softset.cli import main; main()", *command)
    assert found.returncode == 2
    assert "pip install softset[cli]" in found.stderr.splitlines()[-1]
    assert len(found.stderr.splitlines()) == 1


def test_the_command_line_alone_trains_predicts_and_evaluates(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n" + "1,0\n2,1\n" * 40)
    x, m, p = (str(tmp_path / name) for name in ("x.csv", "m.softset", "p.csv"))
    code = "from softset.cli import main; main()"
    train = ["train", x, "-t", "y", "-o", m, "--recipe", "linear"]
    for command in (train, ["predict", m, x, "-o", p, "--keep", "y"], ["evaluate", p, "-t", "y"]):
        found = python(["cli"], code, *command)
        assert found.returncode == 0, found.stderr


def test_the_report_alone_is_written(tmp_path):
    data = tmp_path / "comparison.json"
    data.write_text(json.dumps(comparison("multiclass")))
    code = f"""
from softset.comparison.result import Comparison
from softset.report import write_report
write_report(Comparison.load({str(data)!r}), {str(tmp_path / "report.html")!r})
"""
    found = python(["report"], code)
    assert found.returncode == 0, found.stderr
    assert "softset[report]" in python([], code).stderr.splitlines()[-1]


def test_onnx_alone_exports_and_without_it_the_install_line_is_said(tmp_path):
    pytest.importorskip("onnx")
    code = CORE.partition("print(float")[0] + (
        f"ss.MetricLinearClassifier('f1').fit(x, y).to_onnx({str(tmp_path / 'm.onnx')!r})"
    )
    found = python(["onnx"], code)
    assert found.returncode == 0, found.stderr
    assert "softset[onnx]" in python([], code).stderr.splitlines()[-1]


def test_a_comparison_without_the_report_says_so_before_the_work(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n" + "1,0\n2,1\n" * 40)
    arguments = ["compare", str(tmp_path / "x.csv"), "-t", "y", "-o", str(tmp_path / "out")]
    found = python(["cli"], "from softset.cli import main; main()", *arguments)
    assert found.returncode == 2
    assert "softset[report]" in found.stderr.splitlines()[-1]
    assert not (tmp_path / "out" / "runs.jsonl").exists()


def test_excel_files_name_their_extra(tmp_path):
    (tmp_path / "x.xlsx").write_bytes(b"PK\x03\x04")
    code = f"import softset as ss; ss.read_table({str(tmp_path / 'x.xlsx')!r})"
    assert "softset[excel]" in python(["cli"], code).stderr.splitlines()[-1]


def test_pictures_name_their_extra():
    code = "import softset as ss; ss.plot.steps()"
    assert python(["plot"], code).returncode == 0
    assert "softset[plot]" in python([], code).stderr.splitlines()[-1]
