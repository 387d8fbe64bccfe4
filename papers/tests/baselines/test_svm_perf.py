"""SVM-perf: every most violated constraint, the dual and the whole against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from softset_papers.baselines.svm_perf import LOSSES, SVMPerf, simplex_qp


def all_wrong_answers(loss: str, positive: np.ndarray, weights=(1.0, 1.0)):
    """Every (coefficient, delta), by the definitions; rows count with the weight of their class."""
    n = len(positive)
    w = np.where(positive, weights[1], weights[0])
    up, down = np.flatnonzero(positive), np.flatnonzero(~positive)
    if loss == "roc":
        pairs = list(itertools.product(up, down))
        for swapped in itertools.product([0, 1], repeat=len(pairs)):
            coefficient = np.zeros(n)
            for (i, j), one in zip(pairs, swapped, strict=True):
                coefficient[i] += one / len(pairs)
                coefficient[j] -= one / len(pairs)
            yield coefficient, sum(swapped) / len(pairs)
        return
    for said in itertools.product([False, True], repeat=n):
        said = np.array(said)
        f1 = 2 * w[positive & said].sum() / (w[positive].sum() + w[said].sum())
        delta = 1 - f1 if loss == "f1" else w[positive != said].sum() / w.sum()
        yield w * (positive.astype(float) - said) / w.sum(), float(delta)


@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
def test_most_violated_constraint_is_the_maximum_over_all(loss, data):
    n_up, n_down = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    positive = np.array(data.draw(st.permutations([True] * n_up + [False] * n_down)))
    # A grid with ties, and values at which a flip just pays.
    halves = st.lists(st.integers(-8, 8), min_size=len(positive), max_size=len(positive))
    s = np.array(data.draw(halves)) / 2.0
    weights = data.draw(st.sampled_from([(1.0, 1.0), (18.76, 1.0), (0.5, 3.0)]))
    coefficient, delta = LOSSES[loss](s, positive, weights)
    answers = list(all_wrong_answers(loss, positive, weights))
    best = max(d - c @ s for c, d in answers)
    assert delta - coefficient @ s == pytest.approx(best, abs=1e-12)
    # It is one of the answers, not just a number.
    assert any(np.allclose(c, coefficient) and d == pytest.approx(delta) for c, d in answers)


@given(st.integers(0, 10_000))
def test_dual_solver_meets_the_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    m = rng.integers(1, 12)
    psi = rng.normal(size=(m, 3)) * rng.choice([0.01, 1, 10])  # rank below m: dependent rows
    gain, total = rng.uniform(0, 1, m), rng.choice([0.1, 1.0, 50.0])
    start = np.zeros(m)
    start[0] = total
    a = simplex_qp(psi @ psi.T, gain, total, start, 1e-9)
    assert (a >= 0).all()
    assert a.sum() == pytest.approx(total)
    gradient = gain - psi @ (psi.T @ a)
    # No weight can move to a steeper place: what is used has the largest gradient.
    scale = max(1.0, np.abs(psi @ psi.T).max() * total)
    assert gradient[a > 1e-9 * total].min() >= gradient.max() - 1e-7 * scale


@pytest.mark.parametrize("loss", LOSSES)
def test_fit_reaches_the_optimum_of_the_convex_problem(loss):
    rng = np.random.default_rng(1)
    positive = np.array([True, True, True, False, False, False])
    X = rng.normal(size=(6, 2)) + positive[:, None]
    C = 5.0
    answers = list(all_wrong_answers(loss, positive))
    rows = np.column_stack([X, np.ones(6)])
    psi, delta = np.array([c @ rows for c, _ in answers]), np.array([d for _, d in answers])

    def objective(w):
        return w @ w / 2 + C * max(0.0, (delta - psi @ w).max())

    constraint = {"type": "ineq", "fun": lambda v: v[3] - delta + psi @ v[:3]}
    oracle = minimize(lambda v: v[:3] @ v[:3] / 2 + C * v[3], np.ones(4), constraints=[constraint])
    model = SVMPerf(loss, C, tol=1e-6).fit(X, positive)
    found = objective(np.append(model.coef_, model.intercept_))
    assert found == pytest.approx(oracle.fun, abs=1e-4)


def test_each_loss_is_best_at_its_own_measure_on_imbalanced_rows():
    rng = np.random.default_rng(0)
    y = np.arange(2000) < 100
    X = rng.normal(size=(2000, 5)) + 0.8 * y[:, None]
    fitted = {loss: SVMPerf(loss, C=100.0).fit(X, y) for loss in LOSSES}
    f1 = {loss: f1_score(y, model.predict(X)) for loss, model in fitted.items()}
    assert f1["f1"] > f1["error"] + 0.05
    area = {loss: roc_auc_score(y, model.decision_function(X)) for loss, model in fitted.items()}
    assert area["roc"] >= max(area.values()) - 1e-3


def test_too_few_planes_are_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    with pytest.warns(ConvergenceWarning, match="2 cutting planes"):
        SVMPerf("error", max_iter=2, C=10).fit(X, rng.integers(0, 2, 50))


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"loss": "f2"}, [0, 1], "loss must be one of"),
        ({"C": 0.0}, [0, 1], "C must be"),
        ({"weights": (1.0, -1.0)}, [0, 1], "weights must be"),
        ({}, [1, 1], "two classes"),
    ],
)
def test_mistakes_are_named(settings, y, message):
    with pytest.raises(ValueError, match=message):
        SVMPerf(**settings).fit([[0.0], [1.0]], y)


@parametrize_with_checks([SVMPerf(C=10.0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
