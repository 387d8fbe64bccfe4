"""The grid search of 002 appendix E.4, and the rows it serves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from softset_papers import search as searching
from softset_papers.datasets.splits import Part, Parts
from softset_papers.search import BUDGET, FULL, fit_forest, fit_searched, search

TINY = {
    **BUDGET,
    "hidden": [8],
    "patience": 2,
    "grid": {"batch_size": [64], "learning_rate": [0.01], "dropout": [0.25], "cooling": [0.8]},
    "search_seen": 200,
    "max_seen": 3000,
    "patience_seen": 200,
}


def make(rows: int = 200, share: float = 0.3, weight: float | None = None) -> Parts:
    rng = np.random.default_rng(0)
    y = (np.arange(rows) < share * rows).astype(np.int64)
    x = (rng.normal(size=(rows, 3)) + y[:, None]).astype(np.float32)
    w = None if weight is None else np.where(y == 0, weight, 1.0)
    part = Part(x, y, w)
    return Parts(part, part, part)


def test_the_full_grid_is_the_papers():
    assert FULL["grid"] == {
        "batch_size": [128, 256, 512, 1024, 2048],
        "learning_rate": [0.01, 0.001, 0.0001],
        "dropout": [0.25, 0.5],
        "cooling": [0.8, 0.9],
    }
    assert FULL["more_batch_sizes"] == [4096, 8192]  # the paper prints 4069
    assert set(FULL) == set(BUDGET)


def _pretend(monkeypatch, loss_of):
    """Training that only says what its validation loss would be."""
    seen = []

    def train(parts, options, members):
        seen.extend((options, m) for _, m in members)
        return SimpleNamespace(
            history=[{"validation_loss": [9.0, loss_of(m), 8.0]} for _, m in members]
        )

    monkeypatch.setattr(searching, "_train", train)
    return seen


def test_the_lowest_validation_loss_wins(monkeypatch):
    wanted = {"batch_size": 512, "learning_rate": 0.001, "dropout": 0.5, "cooling": 0.9}
    _pretend(monkeypatch, lambda m: 0.5 if m == wanted else 1.0)
    chosen, tried = search(make(), {**TINY, **FULL, "loss": "f1", "anneal": True})
    assert chosen == wanted
    assert len(tried) == 5 * 3 * 2 * 2


def test_a_loss_that_is_not_finite_never_wins(monkeypatch):
    _pretend(monkeypatch, lambda m: float("nan") if m["dropout"] == 0.25 else 1.0)
    assert search(make(), {**TINY, **FULL, "loss": "bce"})[0]["dropout"] == 0.5


@pytest.mark.parametrize(
    ("loss", "weight", "larger"),
    [("mcc", 100.0, True), ("accuracy", 100.0, True), ("f1", 100.0, False), ("mcc", None, False)],
)
def test_larger_batches_for_the_rarest_positives(monkeypatch, loss, weight, larger):
    _pretend(monkeypatch, lambda m: 1.0)
    _, tried = search(make(share=0.05, weight=weight), {**TINY, **FULL, "loss": loss})
    assert (8192 in {t["batch_size"] for t in tried}) is larger


def test_a_short_search_does_not_anneal(monkeypatch):
    seen = _pretend(monkeypatch, lambda m: 1.0)
    search(make(), {**TINY, "loss": "f1", "anneal": True})
    options = seen[0][0]
    assert (options["anneal"], options["step"], options["delta"]) == (False, "linear", 0.2)
    assert (options["max_seen"], options["patience_seen"]) == (200, None)


def test_annealed_trials_cool_and_do_not_depend_on_each_other():
    options = {**TINY, "loss": "f1", "anneal": True, "max_seen": 20_000}
    three = fit_searched(make(), options, [0, 1, 2])
    assert three.test.shape == (3, 200)
    assert min(three.info["coolings"]) > 0
    alone = fit_searched(make(), options, [2])
    np.testing.assert_allclose(alone.test[0], three.test[2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", ["bce", "dice", "accuracy", "mcc"])
def test_every_loss_trains(loss):
    fitted = fit_searched(make(weight=3.0), {**TINY, "loss": loss}, [0])
    assert np.isfinite(fitted.test).all()
    assert fitted.info["coolings"] == [0]


def test_the_search_is_done_once_for_the_same_data(monkeypatch):
    parts, calls = make(), []
    monkeypatch.setattr(searching, "search", lambda *a: calls.append(a) or ({}, []))
    for _ in range(2):
        searching._search_once(parts, {**TINY, "loss": "bce"})
    searching._search_once(parts, {**TINY, "loss": "dice"})
    assert len(calls) == 2


def test_the_forest_decides_as_scikit_learn_does():
    parts = make(300)
    fitted = fit_forest(parts, {"trees": 10}, [0, 1])
    for seed, scores in enumerate(fitted.test):
        forest = RandomForestClassifier(10, random_state=seed).fit(parts.train.x, parts.train.y)
        assert ((scores >= 0) == forest.predict(parts.test.x)).all()
