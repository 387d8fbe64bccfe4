import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import softset as ss
from softset.boosting.base import LIBRARIES, imported, library_class
from softset.boosting.objective import MetricObjective
from softset.storage.container import read_file
from softset.tables.rows import Examples
from tests.boosting.examples import CATEGORIES, rows, target

NAMES = list(LIBRARIES)


def test_the_libraries_are_named_by_their_module():
    assert NAMES == ["lightgbm", "xgboost"]
    for name in NAMES:
        library = library_class(name)
        assert library.name == name
        assert library.__module__ == f"softset.boosting.{name}"


def test_no_library_is_imported_before_it_is_used():
    code = (
        "import sys, softset; softset.MetricBoostingClassifier; softset.xgboost_objective;"
        "import softset.boosting.base;"
        "assert not {'lightgbm', 'xgboost'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_library_says_how_to_install_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(ModuleNotFoundError, match=r"pip install softset\[boosting\]") as caught:
        library_class(name)({}, 1, 100, 2, [], {})
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_library_that_is_broken_inside_says_so_itself(monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("import what_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_it_needs"):
        imported("broken_library")


def started(name, classes, params=None, seed=0):
    parts = []
    for i in range(2):
        x = rows(400, 10 * seed + i)
        parts.append(Examples(x, target(x, classes), np.linspace(0.5, 1.5, len(x))))
    settings = {"learning_rate": 0.1, "seed": 0}
    library = library_class(name)(settings, 1, 400, classes, CATEGORIES, params or {})
    library.load(*parts)
    return library, *parts


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_trees_of_both_phases_give_the_scores_of_training(name, classes):
    library, train, checks = started(name, classes)
    warm, kept = library.log_loss(20, 5)
    assert 1 <= kept <= 20
    assert len(warm.output) == kept * (1 if classes == 2 else classes)
    start, held = (library.margins(warm, part.x) for part in (train, checks))
    assert start.shape == ((400,) if classes == 2 else (400, classes))
    objective = MetricObjective(name, ss.get_metric("f1"), None, 0.5)
    seen = [z for z, _ in zip(library.steps(start, held, objective), range(6), strict=False)]
    trees = library.kept(4)
    # XGBoost adds in float32, from another start.
    accuracy = 1e-12 if name == "lightgbm" else 1e-6
    np.testing.assert_allclose(held + library.margins(trees, checks.x), seen[3], atol=accuracy)
    again = library.parse(library.dump(trees))
    np.testing.assert_array_equal(
        library.margins(again, checks.x), library.margins(trees, checks.x)
    )


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("lightgbm", {"num_leaves": 1}), ("xgboost", {"max_depth": -3}), ("xgboost", {"eta": "x"})],
)
def test_parameters_that_a_library_refuses_are_a_value_error_in_one_line(name, parameters):
    with pytest.raises(ValueError, match="refused the data or its params") as caught:
        started(name, 2, parameters)[0].log_loss(3, 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_very_large_inputs_are_numbers(name):
    library, train, checks = started(name, 2)
    for part in (train, checks):
        part.x[::9, 0] = 1e300
    library.load(train, checks)
    trees, _ = library.log_loss(3, 2)
    assert np.isfinite(library.margins(trees, checks.x)).all()


def by_the_library(name, text, x):
    """The scores that the library itself gives to a text which we trust."""
    if name == "lightgbm":
        return import_module(name).Booster(model_str=text).predict(x, raw_score=True)
    booster = import_module(name).Booster()
    booster.load_model(bytearray(text.encode()))
    return booster.predict(import_module(name).DMatrix(x), output_margin=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with small models, one for each library and task, and what they predict."""
    folder = tmp_path_factory.mktemp("saved")
    x = np.random.RandomState(0).randn(200, 3)
    y = (x[:, 0] + 0.5 * x[:, 1] > 0.7).astype(int)
    for name in NAMES:
        for kind, more in (("binary", 0), ("multiclass", x[:, 2] > 1)):
            model = ss.MetricBoostingClassifier(library=name, n_estimators=5, n_metric_estimators=4)
            model.fit(x, y + more).save(folder / f"{name}-{kind}")
            p, decided = model.predict_both(x)
            np.savez(folder / f"{name}-{kind}.npz", x=x, p=p, decided=decided)
    return folder


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
@pytest.mark.parametrize("name", NAMES)
def test_saved_models_score_as_in_the_library(name, kind, saved):
    content = read_file(saved / f"{name}-{kind}", "MetricBoostingClassifier")
    (part,) = content["fitted"]["parts"]
    x = np.load(saved / f"{name}-{kind}.npz")["x"]
    texts = [part[key] for key in ("warm", "booster") if part[key] is not None]
    assert texts
    for text in texts:
        trees = library_class(name).parse(text)
        np.testing.assert_array_equal(
            library_class(name).margins(trees, x), by_the_library(name, text, x)
        )


def test_loaded_models_need_no_library(saved):
    """So that no text of a file can reach one."""
    code = f"""
import sys
from pathlib import Path
sys.modules.update(lightgbm=None, xgboost=None)
import numpy as np, softset
for path in Path({str(saved)!r}).glob("*.npz"):
    model = softset.MetricBoostingClassifier.load(path.with_suffix(""))
    wanted = np.load(path)
    np.testing.assert_allclose(model.predict_proba(wanted["x"]), wanted["p"], atol=1e-12)
    assert model.predict(wanted["x"]).tolist() == wanted["decided"].tolist()
    print(path)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_modules_are_imported_by_absolute_names():
    """A module here may be named as the library that it wraps."""
    for name in NAMES:
        assert import_module(name).__name__ == name
        assert not hasattr(import_module(f"softset.boosting.{name}"), "__version__")
