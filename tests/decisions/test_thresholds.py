from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import softset as ss
from tests.reference import is_area, random_problem

CUT = [name for name, row in ss.METRICS.items() if not is_area(row.make())]


def brute(p, y, metric, **kwargs):
    """The best value over every cut that a threshold in (0, 1) can make."""
    edges = sorted({0.0, 1.0, *p.tolist()})
    cuts = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    return max(ss.evaluate(p, y, metric, threshold=t, from_logits=False, **kwargs) for t in cuts)


@pytest.mark.parametrize("name", CUT)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), levels=st.sampled_from([4, 1000]))
def test_no_cut_is_better(name, seed, n, levels):
    rng = np.random.default_rng(seed)
    p = torch.tensor(rng.integers(1, levels, n) / levels)
    y = torch.tensor(rng.integers(0, 2, n))
    w = torch.tensor(rng.uniform(0.1, 2, n))
    tau = ss.best_threshold(p, y, name, from_logits=False, sample_weight=w)
    got = ss.evaluate(p, y, name, threshold=tau, from_logits=False, sample_weight=w)
    assert got == pytest.approx(brute(p, y, name, sample_weight=w), abs=1e-12)


def test_predict_all_and_predict_none_are_found():
    p, y = torch.tensor([0.3, 0.6, 0.7]), torch.tensor([1, 1, 0])
    assert ss.best_threshold(p, y, "recall", from_logits=False) < 0.3
    assert ss.best_threshold(p, y, "specificity", from_logits=False) > 0.7


def test_neighboring_float32_probabilities_can_be_told_apart():
    low = torch.tensor(0.3)
    high = torch.nextafter(low, torch.tensor(1.0))
    p, y = torch.stack([low, high]), torch.tensor([0, 1])
    tau = ss.best_threshold(p, y, "accuracy", from_logits=False)
    assert ss.evaluate(p, y, "accuracy", threshold=tau, from_logits=False) == 1.0
    labels = {"task": "multilabel", "from_logits": False}
    two, both = torch.stack([p, p], 1), torch.stack([y, y], 1)
    taus = ss.best_threshold(two, both, "accuracy", **labels)
    for at in (taus, torch.tensor(taus, dtype=torch.float64), np.array(taus)):
        assert ss.evaluate(two, both, "accuracy", threshold=at, **labels) == 1.0
    # saturated: "none" cannot be said by a threshold below 1, and is not claimed
    z, y = torch.tensor([40.0, -40.0]), torch.tensor([0, 0])
    assert 0 < ss.best_threshold(z, y, "accuracy", from_logits=True) < 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["f1", "mcc", "precision"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), low=st.sampled_from([-300, -30, 16]))
def test_logits_whose_probabilities_are_1_or_0_are_told_apart(dtype, metric, seed, low):
    rng = np.random.default_rng(seed)
    z = torch.tensor(rng.uniform(low, low + 8, 20).round(3)).to(dtype)
    y = torch.tensor((rng.random(20) < 0.4).astype(int))
    tau = ss.best_threshold(z, y, metric, from_logits=True)
    best = ss.evaluate(z, y, metric, threshold=tau, from_logits=True)
    edges = sorted(z.double().tolist())
    for cut in [edges[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(edges)), edges[-1] + 1]:
        moved = (z.double() - cut).to(torch.float64)  # the same decision, at a logit of 0
        assert best >= ss.evaluate(moved, y, metric, from_logits=True) - 1e-12
    labels = {"task": "multilabel"}
    taus = ss.best_threshold(torch.stack([z, z], 1), torch.stack([y, 1 - y], 1), metric, **labels)
    assert taus[0] == tau


@pytest.mark.parametrize(
    ("scores", "from_logits"),
    [
        ([0.0, 1 - 2**-53, 1.0], False),
        ([0.5, 1.0, 1.0], False),
        ([0.0, 0.0, 1e-300], False),
        ([36.0, 37.0, 900.0], True),
        ([700.0, 800.0, float("inf")], True),
        ([-float("inf"), -900.0, -800.0], True),
    ],
)
def test_what_no_threshold_can_say_is_not_claimed(scores, from_logits):
    """Every threshold is accepted, and is the best of all thresholds there are."""
    tried = [1e-307, 1e-301, 0.25, 0.5, 0.75, *(1 - 2.0**-k for k in range(3, 54))]
    near = [t for s in scores for t in (s, np.nextafter(s, 0), np.nextafter(s, 1))]
    tried += [t for t in near if 0 < t < 1]
    known = {"from_logits": from_logits}
    for y in itertools.product((0, 1), repeat=3):
        for metric in ("accuracy", "f1", "specificity"):
            tau = ss.best_threshold(scores, y, metric, **known)
            found = ss.evaluate(scores, y, metric, threshold=tau, **known)
            for t in tried:
                assert found >= ss.evaluate(scores, y, metric, threshold=t, **known) - 1e-12


def logit(p):
    return np.log(p / (1 - p))


def test_of_equal_cuts_the_middle_of_the_widest_gap_is_taken():
    p = torch.tensor([0.1, 0.2, 0.4, 0.9], dtype=torch.float64)
    found = ss.best_threshold(p, torch.tensor([0, 0, 0, 1]), "f1", from_logits=False)
    assert logit(found) == pytest.approx((logit(0.4) + logit(0.9)) / 2)
    # All cuts are equally good: the widest inner gap is wider than the two logits outside.
    found = ss.best_threshold(p, torch.ones(4), "precision", from_logits=False)
    assert logit(found) == pytest.approx((logit(0.4) + logit(0.9)) / 2)
    near = torch.tensor([0.4, 0.45, 0.5, 0.55], dtype=torch.float64)
    found = ss.best_threshold(near, torch.ones(4), "recall", from_logits=False)
    assert logit(found) == pytest.approx(logit(0.4) - 1)


@pytest.mark.parametrize("p", [[0.0, 0.0, 1.0], [0.0, 0.3, 0.3], [0.2, 0.2, 1.0]])
def test_probabilities_of_zero_and_one_leave_room_for_a_cut(p):
    y = [int(v == max(p)) for v in p]
    tau = ss.best_threshold(p, y, "f1", from_logits=False)
    assert 0 < tau < 1
    assert ss.evaluate(p, y, "f1", threshold=tau, from_logits=False) == 1
    inner = [v for v in p if 0 < v < 1]
    if inner:  # one logit away from the only finite score
        assert abs(logit(tau) - logit(inner[0])) == pytest.approx(1)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
def test_labels_have_thresholds_of_their_own(average):
    z, y = random_problem("multilabel", n=40, classes=3)
    metric = ss.F1(average=average)
    taus = ss.best_threshold(z, y, metric, task="multilabel", from_logits=True)
    best = ss.evaluate(z, y, metric, task="multilabel", threshold=taus, from_logits=True)
    assert best >= ss.evaluate(z, y, metric, task="multilabel", from_logits=True)
    p = torch.sigmoid(z)
    if average == "micro":  # no change of one label helps
        for k in range(3):
            for tau in [*(p[:, k].unique() - 1e-9).tolist(), 0.999]:
                moved = [*taus[:k], tau, *taus[k + 1 :]]
                assert (
                    ss.evaluate(z, y, metric, task="multilabel", threshold=moved, from_logits=True)
                    <= best + 1e-12
                )
    else:
        for k in range(3):
            one = ss.evaluate(z[:, k], y[:, k], "f1", threshold=taus[k], from_logits=True)
            assert one == pytest.approx(brute(p[:, k], y[:, k], "f1"))


def test_a_custom_metric_of_labels_is_tuned_in_turn():
    z, y = random_problem("multilabel", n=40, classes=3)

    def worst(c):
        return (2 * c.tp / (c.support + c.predicted)).min()

    taus = ss.best_threshold(z, y, worst, task="multilabel", from_logits=True)
    tuned = ss.evaluate(z, y, worst, task="multilabel", threshold=taus, from_logits=True)
    assert tuned >= ss.evaluate(z, y, worst, task="multilabel", from_logits=True)


def first_and_last_apart(c):
    """A metric of one's own that reads the matrix."""
    return 1 - (c.matrix[0, -1] + c.matrix[-1, 0] + c.matrix[0, 1] / 2) / c.total[0]


@pytest.mark.parametrize("name", ["f1", "accuracy", "mcc", "gmean", first_and_last_apart])
def test_offsets_never_hurt_and_no_single_shift_helps(name):
    z, y = random_problem("multiclass", n=60, classes=3, seed=1)
    z = z + torch.tensor([2.0, 0.0, -1.0])  # a biased model
    offsets = torch.tensor(ss.best_offsets(z, y, name, from_logits=True), dtype=torch.float64)
    assert offsets[-1] == 0
    best = ss.evaluate(z, y, name, task="multiclass", offsets=offsets, from_logits=True)
    assert best >= ss.evaluate(z, y, name, task="multiclass", from_logits=True)
    for k in range(3):
        for shift in np.linspace(-6, 6, 200):
            moved = offsets.clone()
            moved[k] += shift
            assert (
                ss.evaluate(z, y, name, task="multiclass", offsets=moved, from_logits=True)
                <= best + 1e-12
            )


def test_offsets_of_two_classes_equal_the_best_threshold():
    z, y = random_problem("binary", n=50)
    two = torch.stack([torch.zeros_like(z), z], 1)
    offsets = ss.best_offsets(two, y, ss.F1(average="macro"), from_logits=True)
    shifted = ss.evaluate(two, y, "f1", task="multiclass", offsets=offsets, from_logits=True)
    tau = ss.best_threshold(z, y, "f1_macro", from_logits=True)
    assert shifted == pytest.approx(ss.evaluate(z, y, "f1_macro", threshold=tau, from_logits=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, y: ss.best_threshold(z, y, "auroc", from_logits=True), "over all thresholds"),
        (
            lambda z, y: ss.best_threshold(z, y, ss.F1(average=None), from_logits=True),
            "average=None",
        ),
        (
            lambda z, y: ss.best_threshold(z, y, "f1", task="multiclass", from_logits=True),
            "best_offsets",
        ),
        (
            lambda z, y: ss.best_threshold(z, y * 2 - 1, "f1", from_logits=True),
            "0 and 1 only, got -1",
        ),
        (lambda z, y: ss.best_threshold(z * torch.nan, y, "f1", from_logits=True), "NaN"),
        (lambda z, y: ss.best_offsets(z, y, "f1", from_logits=True), r"\(N, C\)"),
        (
            lambda z, y: ss.best_offsets(torch.zeros(60, 2), y * 5, "f1", from_logits=True),
            "classes 0 to 1",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(*random_problem("binary"))


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(CUT),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["plain", "tied", "zeros", "masked"]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    weighted=st.booleans(),
)
def test_offsets_are_a_local_optimum_and_never_worse_than_none(name, seed, kind, dtype, weighted):
    """Among tied scores, probabilities of zero and classes that a row cannot have, too."""
    g = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(12, 3, generator=g, dtype=torch.float64)
    z = z.round() if kind == "tied" else z
    if kind == "masked":
        z[torch.arange(12), torch.randint(0, 3, (12,), generator=g)] = -torch.inf
    logits = kind != "zeros"
    z = (z if logits else torch.softmax(200 * z, 1)).to(dtype)
    y = torch.arange(12) % 3
    w = torch.rand(12, generator=g) + 0.1 if weighted else None
    known = {"from_logits": logits, "sample_weight": w}
    offsets = ss.best_offsets(z, y, name, **known)
    assert all(abs(o) < 1e4 for o in offsets)

    def value(at):
        return ss.evaluate(z, y, name, task="multiclass", offsets=at, **known)

    best = value(offsets)
    assert best >= ss.evaluate(z, y, name, task="multiclass", **known) - 1e-12
    for k in range(3):
        for shift in (-900.3, -3.07, -1.03, -0.11, 0.11, 1.03, 3.07, 900.3):  # no new ties
            moved = [o + shift * (j == k) for j, o in enumerate(offsets)]
            assert value(moved) <= best + 1e-9
