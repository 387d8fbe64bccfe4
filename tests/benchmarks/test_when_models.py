from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("lightgbm")
import softset as ss
from softset.tables.rows import Examples
from softset.training.linear import LinearProblem

when_data = pytest.importorskip("when_data")
when_models = pytest.importorskip("when_models")
ARMS = {when_models.HALF, when_models.ENTROPY, when_models.METRIC, when_models.CHOSEN}


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(when_models, "EPOCHS", 4)


def problem(classes=2, n=360, seed=0):
    random = np.random.RandomState(seed)
    x = random.randn(n, 6)
    score = x[:, 0] + 0.5 * x[:, 1] + 0.3 * random.randn(n)
    y = np.digitize(score, np.quantile(score, [0.8] if classes == 2 else [0.5, 0.8]))
    rows = Examples(x, y.astype(np.int64), np.ones(n))
    train = np.arange(n) < 240
    return when_data.Problem(rows.take(train), rows.take(~train), classes)


@pytest.mark.parametrize(
    "capacity", ["linear, 5 features", "linear", "network 2", "tree, 4 leaves",
                 "boosting, 4 leaves, 20 rounds"]
)  # fmt: skip
def test_every_kind_of_model_learns_and_decides(capacity):
    given = problem()
    found = when_models.fitted(capacity, given, "f1", seed=0)
    assert set(found) == ARMS
    chance = 2 * 0.2 / 1.2  # F1 of always saying positive
    for decided in found.values():
        assert decided.shape == (120,)
        assert set(np.unique(decided)) <= {0.0, 1.0}
    assert ss.evaluate(found["metric"], given.test.y, "f1", from_logits=False) > chance + 0.1


@pytest.mark.parametrize("capacity", when_models.THREE)
def test_several_classes(capacity):
    given = problem(3)
    found = when_models.fitted(capacity, given, "f1_macro", seed=0)
    for decided in found.values():
        assert decided.shape == (120, 3)
        assert (decided.sum(1) == 1).all()


@pytest.mark.parametrize("capacity", when_models.THREE)
def test_rivals_beside_the_others(capacity):
    found = when_models.fitted(capacity, problem(), "f1", 0, "rivals")
    assert set(found) == ARMS | set(when_models.RIVALS)
    y = problem().test.y
    for name in when_models.RIVALS:
        assert (found[name] == y).mean() > max(y.mean(), 1 - y.mean())  # it has learned something


def test_further_rounds_start_from_all_of_log_loss():
    name, given = "boosting, 4 leaves, 20 rounds", problem()
    plain, found = (when_models.fitted(name, given, "f1", 0, a) for a in ("capacity", "further"))
    assert set(found) == ARMS
    for arm in ("cross-entropy", "cross-entropy at 1/2"):
        assert (found[arm] == plain[arm]).all()


def test_chosen_is_one_of_the_two():
    for seed in range(3):
        found = when_models.fitted("network 2", problem(seed=seed), "f1", seed)
        assert any((found["chosen"] == found[arm]).all() for arm in ("cross-entropy", "metric"))


def test_missing_values_are_the_mean_of_the_training_rows():
    given = problem()
    given.train.x[:100, 0] = np.nan
    given.test.x[:, 0] = np.nan
    filled = when_models._imputed(given)
    assert filled.test.x[:, 0] == pytest.approx(np.nanmean(given.train.x[:, 0]))
    assert np.isfinite(filled.train.x).all()


def test_the_features_that_differ_most_are_kept():
    given = problem()
    given.train.x[:, 5] = 1.0  # constant
    kept = when_models._fewer(given, 2)
    assert (kept.train.x == given.train.x[:, :2]).all()


def test_a_linear_rival_is_at_the_minimum_of_its_loss():
    """The gradient there is zero, by autograd through the scores."""
    torch = pytest.importorskip("torch")
    x, y, w = problem().train
    focal = when_models.FocalLoss(2.0)

    def loss(z, y, w):
        return focal(z, y, w) * w.sum()

    found = when_models._by_torch(LinearProblem(x, y, w, 2), loss, np.zeros(7), 1.0)
    flat = torch.from_numpy(found).requires_grad_()
    z = torch.from_numpy(x) @ flat[:-1] + flat[-1]
    total = loss(z, torch.from_numpy(y), torch.from_numpy(w)) + (flat[:-1] ** 2).sum() / 2
    (grad,) = torch.autograd.grad(total, flat)
    assert grad.abs().max() < 1e-2
