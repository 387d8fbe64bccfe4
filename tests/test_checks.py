from __future__ import annotations

import ast
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from softset.checks import check_choice, check_integer, check_number, nearest
from softset.counting.numerics import ratio, root


def test_ratio_has_a_finite_gradient_where_the_denominator_is_zero():
    num = torch.tensor([1.0, 0.0, 3.0], requires_grad=True)
    den = torch.tensor([2.0, 0.0, 0.0], requires_grad=True)
    value = ratio(num, den, empty=0.25)
    assert value.tolist() == [0.5, 0.25, 0.25]
    value.sum().backward()
    assert num.grad.tolist() == [0.5, 0, 0]
    assert den.grad.tolist() == [-0.25, 0, 0]


@pytest.mark.parametrize("degree", [2, 3, 50])
def test_root_is_exact_and_its_slope_finite(degree):
    x = torch.tensor([0.0, 1e-12, 0.3, 1.0], dtype=torch.float64, requires_grad=True)
    y = root(x, degree)
    torch.testing.assert_close(y.detach(), x.detach() ** (1 / degree), rtol=1e-14, atol=0)
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert root(torch.tensor(-1e-17)).item() == 0  # a rate may be rounded below zero


def test_checks_name_the_parameter_and_what_came():
    check_number("beta", 1, 0, 2)
    check_number("beta", 0, 0, 2, closed="low")
    for bad in (0, 2, -1, float("nan"), "a", None, True, torch.tensor([1.0, 3.0])):
        with pytest.raises(ValueError, match=r"beta must be .* in \(0, 2\), got|beta must be in"):
            check_number("beta", bad, 0, 2)
    with pytest.raises(
        ValueError, match=r"task must be one of 'binary', 'b', got 'binry'.*'binary'"
    ):
        check_choice("task", "binry", ("binary", "b"))
    assert nearest("zzz", ["f1"]) == ""


@pytest.mark.parametrize("value", [0, -1, 1.5, 11, math.inf, math.nan, 10**400, True, "3", None])
def test_what_is_no_whole_number_in_range_is_refused(value):
    with pytest.raises(ValueError, match=r"^n must be an integer from 1 to 10, got "):
        check_integer("n", value, 1, 10)


def test_whole_numbers_of_any_type_pass():
    for value in (1, 10, 3.0, np.int64(4), np.float32(5)):
        check_integer("n", value, 1, 10)
    check_integer("n", 2**63 - 1, 0)


def test_numbers_beyond_floats_are_refused_in_words():
    with pytest.raises(ValueError, match=r"x must be a number in \(0, inf\)"):
        check_number("x", 10**400, 0, math.inf)


# --- warnings -------------------------------------------------------------------------------------

X = np.random.RandomState(0).randn(40, 3)
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame({"a": X[:, 0], "city": np.where(X[:, 1] > 0, "Rome", "Oslo"), "id": range(40)})
NETWORK = {"n_networks": 1, "max_epochs": 1, "random_state": 0}


def column():
    return Y[:, None]


def blanks():
    return np.array(["A", "A "])[Y]


def encoder():
    return ss.tables.TableEncoder().fit(FRAME)


def weighted(**settings):
    return ss.MetricThresholdClassifier(KNeighborsClassifier(), **settings)


def refused(function, *args, **settings):
    with pytest.raises(ValueError, match="at least two"):  # before the workers start, for time
        function(*args, **settings)


def trained(loss, network=None):
    rows = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(Y).float())
    network = torch.nn.Linear(3, 1) if network is None else network
    return ss.training.fit(network, loss, DataLoader(rows, batch_size=2), max_epochs=1)


# What each says, and how to hear it: through our own functions, scikit-learn's and torch's.
WARNINGS = {
    "linear, (n, 1)": ("column-vector", lambda: ss.MetricLinearClassifier().fit(X, column())),
    "linear, blanks": ("blanks", lambda: ss.MetricLinearClassifier().fit(X, blanks())),
    "boosting": (
        "too few distinct",
        lambda: ss.MetricBoostingClassifier(n_estimators=1, n_metric_estimators=1).fit(
            X, np.arange(40) == 0
        ),
    ),
    "network, batch": (
        "batch_size",
        lambda: ss.MetricMLPClassifier(batch_size=99, **NETWORK).fit(X, Y),
    ),
    "constant": (
        "no better than a constant",
        lambda: ss.MetricLinearClassifier(threshold=1 - 1e-6).fit(X, Y),
    ),
    "network, rare": (
        "has too few distinct rows",
        lambda: ss.MetricMLPClassifier(**NETWORK).fit(X, np.arange(40) == 0),
    ),
    "threshold": ("no sample_weight", lambda: weighted().fit(X, Y, sample_weight=Y + 1)),
    "pipeline": (
        "column-vector",
        lambda: make_pipeline(ss.MetricLinearClassifier()).fit(X, column()),
    ),
    "cross-validation": (
        "blanks",
        lambda: cross_val_score(ss.MetricLinearClassifier(), X, blanks(), cv=2),
    ),
    "loss": (
        "from_logits=False",
        lambda: ss.MetricLoss("f1")(torch.linspace(0, 1, 40), torch.tensor(Y)),
    ),
    "schema": ("", lambda: ss.tables.infer_schema(FRAME.assign(constant=1))),
    "encoder, extra": ("ignored", lambda: encoder().transform(FRAME.assign(new=1))),
    "encoder, unseen": ("no category", lambda: encoder().transform(FRAME.assign(city="Bern"))),
    "encoder, missing": ("missing", lambda: encoder().transform(FRAME.assign(a=math.nan))),
    "train_model": (
        "row number",
        lambda: ss.train_model(FRAME, Y, "f1", recipe="linear-tuned"),
    ),
    "compare": ("blanks", lambda: refused(ss.compare, FRAME, blanks(), candidates=["linear"])),
    "fit, not finite": ("not finite", lambda: trained(lambda z, y: z.sum() / 0)),
    "fit, rare": ("batches have none", lambda: trained("metric")),
}


@pytest.mark.parametrize("kind", WARNINGS)
def test_a_warning_points_at_the_line_of_the_user(kind):
    text, call = WARNINGS[kind]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert any(text in str(w.message) for w in caught)
    assert {w.filename for w in caught} == {__file__}


def test_every_warning_is_given_by_warn_user():
    found = [
        str(path)
        for path in Path(ss.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("warnings.warn", "warn", "warnings.warn_explicit")
        and path.name != "checks.py"
    ]
    assert found == []
