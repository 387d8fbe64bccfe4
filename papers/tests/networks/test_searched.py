"""The grid search of 002 appendix E.4: what it tries, what it takes, and how rows are trained."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from softset_papers.datasets.splits import Part, Parts
from softset_papers.networks import searched as searching
from softset_papers.networks.searched import choose, fit_searched, search, search_key
from softset_papers.specification import plain
from softset_papers.tables.shared import SEARCHED, WHOLE

TINY = plain(SEARCHED) | {
    "hidden": [8],
    "patience": 2,
    "grid": {"batch_size": [64], "learning_rate": [0.01], "dropout": [0.25], "cooling": [0.8]},
    "search_seen": 200,
    "max_seen": 3000,
    "patience_seen": 200,
}
FULL = TINY | plain(WHOLE)


def make(rows: int = 200, share: float = 0.3, weight: float | None = None) -> Parts:
    rng = np.random.default_rng(0)
    y = (np.arange(rows) < share * rows).astype(np.int64)
    x = (rng.normal(size=(rows, 3)) + y[:, None]).astype(np.float32)
    w = None if weight is None else np.where(y == 0, weight, 1.0)
    part = Part(x, y, w)
    return Parts(part, part, part)


# --- what is tried --------------------------------------------------------------------------------


def pretend(monkeypatch, loss_of):
    """Training that only says what its validation loss would be."""
    seen = []

    def train(parts, options, members):
        seen.extend((options, m) for _, m in members)
        history = [{"validation_loss": [9.0, loss_of(m), 8.0]} for _, m in members]
        return SimpleNamespace(history=history, outcome=["stopped"] * len(members))

    monkeypatch.setattr(searching, "_train", train)
    return seen


def test_the_lowest_validation_loss_wins(monkeypatch):
    wanted = {"batch_size": 512, "learning_rate": 0.001, "dropout": 0.5, "cooling": 0.9}
    pretend(monkeypatch, lambda m: 0.5 if m == wanted else 1.0)
    tried = search(make(), FULL | {"loss": "f1", "anneal": True})
    assert choose(tried) == (wanted, 1)
    assert len(tried) == 5 * 3 * 2 * 2
    assert {t["outcome"] for t in tried} == {"stopped"}


def test_a_loss_that_is_not_finite_never_wins(monkeypatch):
    pretend(monkeypatch, lambda m: float("nan") if m["dropout"] == 0.25 else 1.0)
    assert choose(search(make(), FULL | {"loss": "bce"}))[0]["dropout"] == 0.5


@pytest.mark.parametrize(
    ("loss", "weight", "larger"),
    [("mcc", 100.0, True), ("accuracy", 100.0, True), ("f1", 100.0, False), ("mcc", None, False)],
)
def test_larger_batches_for_the_rarest_positives(monkeypatch, loss, weight, larger):
    pretend(monkeypatch, lambda m: 1.0)
    tried = search(make(share=0.05, weight=weight), FULL | {"loss": loss})
    assert (8192 in {t["batch_size"] for t in tried}) is larger


def test_a_short_search_does_not_anneal(monkeypatch):
    seen = pretend(monkeypatch, lambda m: 1.0)
    search(make(), TINY | {"loss": "f1", "anneal": True})
    options = seen[0][0]
    assert (options["anneal"], options["step"], options["delta"]) == (False, "linear", 0.2)
    assert (options["max_seen"], options["patience_seen"]) == (200, None)
    assert "patience" not in options


def test_rows_that_search_alike_share_their_search():
    def key(**more):
        run = {"data": "a", "duplicates": "anywhere", "rows": None, "split": 3}
        return search_key(run | {"options": TINY | {"loss": "f1"} | more})

    annealed = key(anneal=True)
    assert annealed == key(anneal=False, step="linear", delta=0.2)
    assert annealed == key(anneal=True, patience=50, max_seen=None, patience_seen=None)
    assert annealed != key(anneal=True, loss="mcc")
    assert annealed != key(anneal=True, search_seen=400)
    assert json.loads(annealed)[0] == {"data": "a", "duplicates": "anywhere", "rows": None}


# --- ties -----------------------------------------------------------------------------------------


def grid(losses: dict[tuple[int, float], float]) -> list[dict]:
    return [
        {"batch_size": b, "learning_rate": r, "dropout": 0.5, "cooling": 0.8, "loss": loss}
        for (b, r), loss in losses.items()
    ]


def test_ties_are_broken_by_the_neighbors():
    """The first of the grid sits beside failures; the last two among settings that work."""
    tried = grid({(128, 0.01): 0.2, (128, 0.001): 0.9, (256, 0.01): 0.9, (256, 0.001): 0.2,
                  (512, 0.01): 0.3, (512, 0.001): 0.2})  # fmt: skip
    chosen, ties = choose(tried)
    assert (chosen["batch_size"], chosen["learning_rate"], ties) == (512, 0.001, 3)


def test_then_by_the_larger_batch_and_the_smaller_rate():
    even = {(b, r): 0.2 for b in (128, 256) for r in (0.01, 0.001)}
    chosen, ties = choose(grid(even))
    assert (chosen["batch_size"], chosen["learning_rate"], ties) == (256, 0.001, 4)


def test_the_order_of_the_grid_does_not_matter():
    rng = np.random.default_rng(0)
    losses = {(b, r): float(rng.choice([0.2, 0.3, np.inf])) for b in (1, 2, 3) for r in (0.1, 0.2)}
    tried = grid(losses)
    for _ in range(5):
        order = rng.permutation(len(tried))
        assert choose([tried[i] for i in order]) == choose(tried)


def test_losses_a_millionth_apart_are_equal():
    assert choose(grid({(128, 0.1): 0.2, (256, 0.1): 0.2 + 5e-7}))[0]["batch_size"] == 256
    assert choose(grid({(128, 0.1): 0.2, (256, 0.1): 0.2 + 5e-6}))[0]["batch_size"] == 128


# --- training -------------------------------------------------------------------------------------


def test_annealed_trials_cool_and_do_not_depend_on_each_other():
    options = TINY | {"loss": "f1", "anneal": True, "max_seen": 20_000}
    three = fit_searched(make(), options, [0, 1, 2])
    assert three.test.shape == (3, 200)
    assert min(three.info["coolings"]) > 0
    assert len(three.info["outcome"]) == 3
    alone = fit_searched(make(), options, [2])
    np.testing.assert_allclose(alone.test[0], three.test[2], rtol=1e-4, atol=1e-5)


def test_annealing_stops_by_itself_where_nothing_limits_it():
    options = TINY | {"loss": "f1", "anneal": True, "max_seen": None, "patience_seen": None}
    fitted = fit_searched(make(), options, [0])
    assert fitted.info["outcome"] == ["stopped"]
    assert fitted.info["coolings"][0] >= 3


def test_a_search_that_was_done_is_not_done_again(monkeypatch):
    tried = grid({(64, 0.01): 0.2, (32, 0.01): 0.3})
    monkeypatch.setattr(searching, "search", lambda *a: pytest.fail("searched again"))
    fitted = fit_searched(make(), TINY | {"loss": "bce", "tried": tried}, [0])
    assert fitted.info["chosen"]["batch_size"] == 64
    assert (fitted.info["tried"], fitted.info["ties"]) == (tried, 1)


@pytest.mark.parametrize("loss", ["bce", "dice", "accuracy", "mcc", "f1-macro"])
def test_every_loss_trains(loss):
    fitted = fit_searched(make(weight=3.0), TINY | {"loss": loss}, [0])
    assert np.isfinite(fitted.test).all()
    assert "coolings" not in fitted.info
