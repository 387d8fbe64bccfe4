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
"""
# Each piece of code has names of its own; how it ended is printed, as Python would end with it.
RUN = """
import contextlib, io, json, traceback
for code in {codes!r}:
    ended, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(code, {{"__name__": "__main__"}})
        except SystemExit as end:
            ended = end.code
        except Exception:
            ended = 1
            traceback.print_exc()
    print("ended", json.dumps([ended, out.getvalue(), err.getvalue()]))
"""
DATA = """
import numpy as np, softset as ss
x = np.random.default_rng(0).normal(size=(120, 3))
y = (x[:, 0] > 0.5).astype(int)
print(float(ss.MetricLoss("f1")(x[:, 0], y)) < 1)
"""
CORE = (
    DATA
    + """
from sklearn.ensemble import RandomForestClassifier
forest = ss.MetricThresholdClassifier(RandomForestClassifier(30), "f1", cv="oob")
networks = ss.MetricMLPClassifier("f1", n_networks=2)
for model in (networks, forest, ss.MetricLinearClassifier("f1")):
    model.fit(x, y)
    print(ss.evaluate(model.predict(x).astype(float), y, "f1", from_logits=False) > 0.5)
"""
)
BOOSTING = (
    DATA + "ss.MetricBoostingClassifier('f1', n_estimators=5, n_metric_estimators=5).fit(x, y)"
)
PICTURE = "import softset as ss; ss.plot.steps()"


def python(extras, *codes):
    """Run pieces of code in one process with only the packages of some extras: how each ended, with
    its output and the lines of its errors."""
    hidden = {p for name, own in EXTRAS.items() if name not in extras for p in own}
    program = HIDE.format(hidden=sorted(hidden)) + RUN.format(codes=codes)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ends = [line[6:] for line in done.stdout.splitlines() if line.startswith("ended ")]
    return [(end, out, err.splitlines()) for end, out, err in map(json.loads, ends)]


def command(*arguments):
    return f"from softset.cli import main; main({[str(a) for a in arguments]!r})"


def report(folder):
    """Code that writes a report of a comparison in a folder."""
    data = folder / "comparison.json"
    data.write_text(json.dumps(comparison("multiclass")))
    return f"""
from softset.comparison.result import Comparison
from softset.report import write_report
write_report(Comparison.load({str(data)!r}), {str(folder / "report.html")!r})
"""


def export(folder):
    path = str(folder / "m.onnx")
    return DATA + f"ss.MetricLinearClassifier('f1', path=()).fit(x, y).to_onnx({path!r})"


def test_without_extras_the_core_works_and_the_others_name_theirs(tmp_path):
    commands = [command(name, "x.csv", "-t", "y") for name in ("compare", "train")]
    codes = [CORE, BOOSTING, report(tmp_path), export(tmp_path), PICTURE]
    (ended, out, err), *others = python([], *codes, *commands)
    assert ended == 0, err
    assert out.split() == ["True"] * 4
    names = ["boosting", "report", "onnx", "plot", "cli", "cli"]
    for name, (ended, _, err) in zip(names, others, strict=True):
        assert ended == (2 if name == "cli" else 1)
        assert f"softset[{name}]" in err[-1]
        assert len(err) == 1 or name != "cli"


def test_the_command_line_alone_trains_predicts_and_evaluates(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n" + "1,0\n2,1\n" * 40)
    (tmp_path / "x.xlsx").write_bytes(b"PK\x03\x04")
    x, m, p, out = (str(tmp_path / name) for name in ("x.csv", "m.softset", "p.csv", "out"))
    done = [
        command("train", x, "-t", "y", "-o", m, "--recipe", "linear-tuned"),
        command("predict", m, x, "-o", p, "--keep", "y"),
        command("evaluate", p, "-t", "y"),
    ]
    refused = [
        command("compare", x, "-t", "y", "-o", out),  # before the work
        f"import softset as ss; ss.tables.read_table({str(tmp_path / 'x.xlsx')!r})",
    ]
    *fine, without_report, without_excel = python(["cli"], *done, *refused)
    assert [ended for ended, _, _ in fine] == [0, 0, 0], fine
    assert without_report[0] == 2
    assert "softset[report]" in without_report[2][-1]
    assert not (tmp_path / "out" / "runs.jsonl").exists()
    assert "softset[excel]" in without_excel[2][-1]


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("boosting", lambda _: BOOSTING),
        ("report", report),
        pytest.param("onnx", export, marks=pytest.mark.slow),
        ("plot", lambda _: PICTURE),
    ],
)
def test_an_extra_alone_is_enough(extra, code, tmp_path):
    if extra == "onnx":
        pytest.importorskip("onnx")
    ((ended, _, err),) = python([extra], code(tmp_path))
    assert ended == 0, err
