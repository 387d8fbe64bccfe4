"""The table of recipes: one row is all that a new one needs. And recipes on real data."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import softset as ss
from softset.classifiers.recipes import RECIPES as MODEL_RECIPES
from softset.tasks import BINARY
from softset.training.phases import make_phases
from softset.training.recipes import RECIPES

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def benchmark():
    spec = importlib.util.spec_from_file_location("recipes", ROOT / "benchmarks" / "recipes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
@pytest.mark.parametrize("name", ["mammography", "adult"])
def test_warm_is_not_worse_than_cross_entropy_with_tuned_threshold(name):
    pytest.importorskip("pyarrow")
    run = benchmark()
    warm, entropy = (
        np.mean([row[1] for row in run.scores(name, recipe, DATA, 5, {})])
        for recipe in ("warm", "cross-entropy")
    )
    assert warm - entropy > -0.005


def test_the_benchmark_says_so_where_the_data_is_absent(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["recipes.py", "--data-dir", str(tmp_path)])
    benchmark().main()
    assert "has no mammography.parquet" in capsys.readouterr().out


# What someone does who adds a row to the table, before anything else is imported.
NEW_ROW = """
import sys
from softset.training.recipes import RECIPES, Recipe
RECIPES["backwards"] = Recipe(
    "the soft metric, then cross-entropy", lambda make: [make.soft_metric(), make.cross_entropy()]
)
"""
EVERYWHERE = """
import numpy as np, torch, pandas
from torch.utils.data import DataLoader, TensorDataset
import softset as ss

x = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
y = (x[:, 0] > 0.3).long()
settings = {"recipe": "backwards", "max_epochs": 2}
print(ss.training.train_members((4,), (x, y), **settings).history[0]["phase"])
loader = DataLoader(TensorDataset(x, y), 40)
print(ss.training.fit(torch.nn.Linear(2, 1), "backwards", loader, max_epochs=2)["phase"])
model = ss.MetricMLPClassifier("f1", n_networks=1, **settings).fit(x.numpy(), y.numpy())
print(model.history_[0]["phase"])
model = ss.train_model(pandas.DataFrame(x.numpy(), columns=["a", "b"]), y.numpy(), n_networks=1,
                       **settings)
print(model.classifier.history_[0]["phase"])
try:
    ss.MetricMLPClassifier("f1", recipe="backward").fit(x.numpy(), y.numpy())
except ValueError as error:
    print(error)
"""


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_new_row_trains_everywhere():
    *phases, error = run_python(NEW_ROW + EVERYWHERE).splitlines()
    assert phases == ["[0, 0, 1, 1]"] * 4
    assert "Did you mean 'backwards'" in error


def test_one_new_row_is_in_the_help_and_help_is_quick():
    code = NEW_ROW + (
        "from softset.cli import main\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    shown = run_python(code)
    words = " ".join(shown.split()).replace("- ", "-")  # names may be broken at a hyphen
    assert "backwards (the soft metric, then cross-entropy)" in words
    for name, row in MODEL_RECIPES.items():
        assert f"{name} ({row.about})" in words
    assert shown.splitlines()[-1] == "[]"


def test_the_rows_are_what_they_say():
    made = {name: make_phases(name, "f1", BINARY) for name in RECIPES}
    assert {name: [phase.name for phase in phases] for name, phases in made.items()} == {
        "cross-entropy": ["cross-entropy"],
        "metric": ["soft metric"],
        "metric-grid": ["soft metric"],
        "anneal": ["soft metric"],
        "warm": ["cross-entropy", "soft metric"],
    }
    assert made["metric"][0].loss.threshold == 0.5
    (grid,) = made["metric-grid"]
    assert grid.loss.goal.where.thresholds == tuple(i / 10 for i in range(1, 10))
    assert grid.loss.step == ss.LinearStep(0.2)
    (cooled,) = made["anneal"]
    assert cooled.loss.step == ss.LinearStep.at_temperature(0.2)
    assert [phase.cooling is not None for p in made.values() for phase in p].count(True) == 1
    assert [phase.rate for phase in made["warm"]] == [1.0, 0.1]


def test_descriptions_are_one_short_line():
    for name, row in RECIPES.items():
        assert 0 < len(row.about) <= 90, name
        assert "\n" not in row.about
        assert not row.about.endswith(".")
