"""Cuts of rare labels and offsets of rare classes are drawn towards shared ones; others stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting.thresholds import all_thresholds
from softset.decisions.shrinking import OF_CLASS, OF_LABEL, shrunk_offsets, shrunk_thresholds
from softset.decisions.thresholds import best_logits
from softset.decisions.tuner import Tuner
from softset.tasks import MULTILABEL


def many_labels(n, labels, rng, positives):
    """Calibrated logits of labels that are alike; every label has so many positives of n rows."""
    y = np.zeros((n, labels), dtype=int)
    for column in y.T:
        column[rng.permutation(n)[:positives]] = 1
    prior = np.log(positives / (n - positives))
    return 2 * rng.normal(2 * y, 1) - 2 + prior, y


def rules(z, y, metric, strength=OF_LABEL):
    s, target = (torch.from_numpy(a.T.copy()) for a in (z, y))
    cuts = all_thresholds(s, target, None, MULTILABEL)
    own = best_logits(metric, cuts)
    return own.numpy(), shrunk_thresholds(metric, s, target, cuts, own, strength).numpy()


@pytest.mark.parametrize("metric", [ss.F1(), ss.MCC(), ss.BalancedAccuracy()])
def test_new_rows_of_rare_labels_gain(metric):
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z, y = many_labels(400, 20, rng, 5)
        new, truth = many_labels(8000, 20, rng, 100)
        values = [
            ss.evaluate((new >= cut).astype(float), truth, metric, task="multilabel",
                        from_logits=False)
            for cut in rules(z, y, metric)
        ]  # fmt: skip
        gains.append(values[1] - values[0])
    assert np.mean(gains) > 0.01
    assert min(gains) > 0


def test_the_fewer_positives_the_nearer_to_the_shared_cut():
    """What is shared counts as much as 20 positives; without any there is nothing else."""
    z, y = many_labels(400, 20, np.random.default_rng(1), 40)
    y[:, 0], y[6:, 1] = 0, 0
    own, drawn = rules(z, y, ss.F1())
    shared = rules(z, y, ss.F1(), 1e15)[1]
    assert drawn[0] == shared[0]
    share = y.sum(0) / (y.sum(0) + OF_LABEL)
    moved = (own != drawn) & (own != shared)
    assert moved.sum() > 10
    np.testing.assert_allclose(drawn[moved], (share * own + (1 - share) * shared)[moved], rtol=1e-9)


def test_a_label_whose_rows_speak_clearly_keeps_its_cut():
    """A label on a scale of its own, with many positives: no cut of the others suits it."""
    z, y = many_labels(600, 8, np.random.default_rng(2), 120)
    z[:, 3] -= 30
    own, drawn = rules(z, y, ss.F1())
    assert own[3] < -20
    assert drawn[3] == own[3]


def test_a_gap_is_still_cut_in_its_middle():
    rng = np.random.default_rng(0)
    y = (rng.random((300, 2)) < 0.3).astype(int)
    z = 6 * y + np.array([-8.0, 1.0]) + rng.uniform(-1, 1, y.shape)
    own, drawn = rules(z, y, ss.F1())
    np.testing.assert_array_equal(own, drawn)


def test_thresholds_are_drawn_where_that_is_asked_for():
    z, y = many_labels(400, 6, np.random.default_rng(3), 6)
    settings = {"task": "multilabel"}
    own, drawn = (ss.best_threshold(z, y, "f1", shrink=s, **settings) for s in (False, True))
    assert np.ptp(drawn) < np.ptp(own)
    logits = np.log(drawn) - np.log1p(-np.array(drawn))
    np.testing.assert_array_equal(z >= logits, z >= rules(z, y, ss.F1())[1])
    for rule, wanted in (("exact", own), ("smooth", drawn)):
        found = Tuner(ss.F1(), "multilabel", rule).best(z, y, np.ones(len(y)))
        np.testing.assert_array_equal(found(z), (z >= np.log(wanted) - np.log1p(-np.array(wanted))))
    # One number for all labels: nothing is drawn.
    micro = [ss.best_threshold(z, y, "f1_micro", shrink=s, **settings) for s in (False, True)]
    assert micro[0] == micro[1]


def tail(rng, n, shares):
    """Log-probabilities of a model that knows the classes a little, and leans to the large ones."""
    y = np.repeat(np.arange(len(shares)), np.maximum(1, (n * shares).astype(int)))
    z = 1.5 * np.eye(len(shares))[y] + rng.normal(size=(len(y), len(shares))) + 2 * np.log(shares)
    return torch.log_softmax(torch.from_numpy(z), -1), torch.from_numpy(y)


def test_new_rows_of_rare_classes_gain():
    shares = 0.8 ** np.arange(15)
    shares /= shares.sum()
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        z, y = tail(rng, 300, shares)
        new, truth = tail(rng, 20_000, shares)
        values = []
        for shrink in (False, True):
            offsets = ss.best_offsets(z, y, "f1", shrink=shrink, from_logits=True)
            values.append(
                ss.evaluate(new, truth, "f1", task="multiclass", offsets=offsets, from_logits=True)
            )
        gains.append(values[1] - values[0])
    assert np.mean(gains) > 0.01


def test_offsets_for_one_number_of_all_classes_stay():
    z, y = tail(np.random.default_rng(0), 100, np.array([0.6, 0.25, 0.15]))
    for metric in ("accuracy", "mcc", "f1_micro"):
        own, same = (
            ss.best_offsets(z, y, metric, shrink=shrink, from_logits=True)
            for shrink in (False, True)
        )
        assert own == same


def test_offsets_are_drawn_by_the_rows_of_a_class():
    y = torch.tensor([0] * 50 + [1] * 150)
    w = torch.ones(200)
    own = torch.tensor([4.0, 0.0], dtype=torch.float64)
    # The value is highest where both have the same offset: t = 0.
    got = shrunk_offsets(y, w, own, lambda at: -1e-9 * float((at[0] - at[1]).abs()))
    centered = own - (50 * 4.0) / 200
    wanted = centered * torch.tensor([50, 150]) / (torch.tensor([50, 150]) + OF_CLASS)
    torch.testing.assert_close(got, wanted - wanted[-1])
    twice = shrunk_offsets(y, 2 * w, own, lambda at: -1e-9 * float((at[0] - at[1]).abs()))
    torch.testing.assert_close(got, twice)  # weights have no unit
    kept = shrunk_offsets(y, w, own, lambda at: float((at[0] - at[1]).abs()))
    torch.testing.assert_close(kept, own)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("labels", [1, 2])
def test_next_to_no_rows_are_no_fault(n, labels):
    z = torch.linspace(-1, 1, n * labels).reshape(n, labels)
    for y in (torch.zeros_like(z).long(), torch.ones_like(z).long()):
        taus = ss.best_threshold(z, y, "f1", task="multilabel", shrink=True, from_logits=True)
        assert all(0 < tau < 1 for tau in taus)
    endless = torch.tensor([[torch.inf, 1.0], [-torch.inf, 0.0], [1.0, -torch.inf]])
    taus = ss.best_threshold(
        endless, torch.eye(3)[:, :2], "f1", task="multilabel", shrink=True, from_logits=True
    )
    assert all(0 < tau < 1 for tau in taus)
