"""CCS: decoding against all sets of labels, and the whole on data whose optimum is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from softset_papers.baselines.ccs import CalibratedSurrogates, best_sets


def f1_of_sets(said: np.ndarray, true: np.ndarray) -> float:
    """F1 of one example; two empty sets agree."""
    both = said.sum() + true.sum()
    return 2 * (said & true).sum() / both if both else 1.0


def expected_f1(p, sets: np.ndarray) -> list[float]:
    """Of every answer, when the true sets have the probabilities ``p``."""
    pairs = list(zip(p, sets, strict=True))
    return [sum(w * f1_of_sets(said, true) for w, true in pairs) for said in sets]


def all_sets(labels: int) -> np.ndarray:
    return np.array(list(itertools.product([False, True], repeat=labels)))


@given(st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 10.0]))
def test_decoding_is_the_best_of_all_sets(labels, seed, spread):
    """Exact probabilities of a random distribution over sets; every one of them is tried."""
    sets = all_sets(labels)
    p = np.random.default_rng(seed).dirichlet(np.full(len(sets), spread))
    sizes = sets.sum(1)
    joint = np.array(
        [[p[sets[:, j] & (sizes == k + 1)].sum() for k in range(labels)] for j in range(labels)]
    )
    said, value = best_sets(p[sizes == 0], joint[None])
    expected = expected_f1(p, sets)
    assert value[0] == pytest.approx(max(expected))
    index = int((sets == said[0]).all(1).argmax())
    assert expected[index] == pytest.approx(max(expected))


def test_learned_sets_come_close_to_the_best_possible():
    """Two labels that depend on one feature in a way linear models can express."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], 4000)
    sets = all_sets(2)
    table = {-1.0: [0.5, 0.1, 0.1, 0.3], 1.0: [0.05, 0.3, 0.3, 0.35]}
    true = np.array([sets[rng.choice(4, p=table[v])] for v in x])
    model = CalibratedSurrogates(C=1e4).fit(x[:, None], true.astype(int))
    for v, p in table.items():
        best = sets[int(np.argmax(expected_f1(p, sets)))]
        assert model.predict([[v]])[0].tolist() == best.astype(int).tolist()
    empty, joint = model.event_probabilities([[-1.0]])
    assert empty[0] == pytest.approx(0.5, abs=0.03)
    assert joint[0, 0, 1] == pytest.approx(0.3, abs=0.03)


def test_two_classes_are_logistic_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X.sum(1) + rng.normal(size=300) > 0.5, "yes", "no")
    ours = CalibratedSurrogates().fit(X, y).predict(X)
    assert (ours == LogisticRegression().fit(X, y).predict(X)).all()


def test_several_classes_give_one_class_and_the_method_itself_sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[(X @ rng.normal(size=(2, 3))).argmax(1)]
    model = CalibratedSurrogates(C=0.01).fit(X, y)
    assert model.coef_.shape == (10, 3)
    assert (model.predict(X) == y).mean() > 0.8
    sizes = model.predict_sets(X).sum(1)
    # Where the most probable class has less than 3/4 of the mass of the best two, two pay.
    assert set(sizes) >= {1, 2}


@pytest.mark.parametrize(
    ("y", "message"),
    [([0, 0, 0], "two classes"), ([[0, 2], [1, 0], [1, 1]], "one column for each label")],
)
def test_mistakes_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        CalibratedSurrogates().fit([[0.0], [1.0], [2.0]], y)


@parametrize_with_checks([CalibratedSurrogates()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
