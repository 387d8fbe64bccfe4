from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix

import softset as ss
from softset.counting.cells import count_cells
from softset.counting.problem import arrange
from tests.reference import random_problem


def test_soft_counts_by_hand():
    # p = 0.25, 0.5, 0.75 at tau = 0.5, delta = 0.1: H = 0.1, 0.5, 0.9
    z = torch.logit(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    c = ss.confusion(z, torch.tensor([1, 0, 1]), step=ss.LinearStep(0.1), from_logits=True)
    cells = torch.stack([c.tp, c.fp, c.fn, c.tn])
    torch.testing.assert_close(cells, torch.tensor([1.0, 0.5, 1.0, 0.5], dtype=torch.float64))
    f1 = 1 - ss.metric_loss(z, torch.tensor([1, 0, 1]))
    assert f1.item() == pytest.approx(2 / 3.5)


def test_dynamic_threshold_by_hand():
    # p = 0.6, 0.3, 0.1: tau = 0.45, T = 0.2: m = 0.45, corners 0.225 and 0.675, slope 0.6/0.45;
    # H(0.6) = 0.7, H(0.3) = 0.3, H(0.1) = 0.2/0.225 * 0.1 = 4/45
    p = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    h = torch.tensor([0.7, 0.3, 4 / 45], dtype=torch.float64)
    step = ss.LinearStep.at_temperature(0.2)
    for kwargs in ({"scores": p, "from_logits": False}, {"scores": p.log()}):
        c = ss.confusion(target=torch.tensor([1]), task="multiclass", step=step, **kwargs)
        torch.testing.assert_close(c.predicted, h / h.sum())
        torch.testing.assert_close(c.tp, torch.tensor([0, 0.3, 0], dtype=torch.float64) / h.sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_hard_matrix_equals_scikit_learn(weighted):
    z, y = random_problem("multiclass", n=200, classes=5)
    w = torch.rand(200, dtype=torch.float64) if weighted else None
    c = ss.confusion(z, y, task="multiclass", matrix=True, sample_weight=w, from_logits=True)
    expected = confusion_matrix(y, z.argmax(1), sample_weight=w)
    np.testing.assert_allclose(c.matrix, expected, rtol=1e-12)
    plain = ss.confusion(z, y, task="multiclass", sample_weight=w, from_logits=True)
    for field in ("tp", "fp", "fn", "tn", "support", "predicted", "total"):
        torch.testing.assert_close(getattr(plain, field), getattr(c, field))


def test_ties_go_to_the_threshold_and_to_the_first_class():
    assert (
        ss.confusion(torch.tensor([0.0]), torch.tensor([1]), from_logits=True).tp == 1
    )  # p = 0.5 >= 0.5
    c = ss.confusion(torch.zeros(1, 3), torch.tensor([0]), task="multiclass", from_logits=True)
    assert c.predicted.tolist() == [1, 0, 0]


def test_confusions_add_up_and_detach():
    z, y = random_problem("multiclass", n=60)
    z.requires_grad_()
    step = ss.LinearStep()
    parts = [
        ss.confusion(z[i], y[i], task="multiclass", step=step, matrix=True, from_logits=True)
        for i in (slice(0, 20), slice(20, 60))
    ]
    whole = ss.confusion(z, y, task="multiclass", step=step, matrix=True, from_logits=True)
    added = parts[0] + parts[1]
    torch.testing.assert_close(added.matrix, whole.matrix)
    torch.testing.assert_close(added.tp, whole.tp)
    assert whole.tp.requires_grad
    assert not whole.detach().tp.requires_grad
    with pytest.raises(ValueError, match="cannot add a binary confusion"):
        whole + ss.confusion(z[:, 0], y > 1, from_logits=True)


def test_from_matrix():
    m = [[50, 3, 2], [4, 30, 1], [0, 5, 20]]
    c = ss.Confusion.from_matrix(m)
    assert c.tp.tolist() == [50, 30, 20]
    assert c.fn.tolist() == [5, 5, 5]
    assert c.fp.tolist() == [4, 8, 3]
    assert float(ss.Accuracy()(c)) == pytest.approx(100 / 115)
    b = ss.Confusion.from_matrix([[5, 1], [2, 4]], task="binary")
    assert b.matrix.tolist() == [[5, 1], [2, 4]]
    with pytest.raises(ValueError, match="matrix must have shape"):
        ss.Confusion.from_matrix(torch.zeros(2, 3))


def test_the_matrix_of_several_classes_is_counted_on_request_only():
    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="matrix=True"):
        _ = ss.confusion(z, y, task="multiclass", from_logits=True).matrix


def test_thresholds_are_counted_one_by_one():
    for task in ("binary", "multilabel"):
        z, y = random_problem(task)
        for step in (None, ss.LinearStep(), ss.SigmoidStep()):
            grid = [0.1, 0.25, 0.5, 0.9]
            many = ss.confusion(z, y, task=task, step=step, thresholds=grid, from_logits=True)
            for k, tau in enumerate(grid):
                one = ss.confusion(z, y, task=task, step=step, threshold=tau, from_logits=True)
                torch.testing.assert_close(many.tp[k], one.tp)
                torch.testing.assert_close(many.fp[k], one.fp)
                torch.testing.assert_close(many.tn[k], one.tn)


def test_a_threshold_for_each_label():
    z, y = random_problem("multilabel", classes=3)
    taus = [0.2, 0.5, 0.8]
    for step in (None, ss.LinearStep(), ss.SigmoidStep()):
        c = ss.confusion(z, y, task="multilabel", threshold=taus, step=step, from_logits=True)
        for k, tau in enumerate(taus):
            one = ss.confusion(z[:, k], y[:, k], threshold=tau, step=step, from_logits=True)
            torch.testing.assert_close(c.tp[k], one.tp)
            torch.testing.assert_close(c.fp[k], one.fp)


@pytest.mark.parametrize("from_logits", [True, False])
def test_offsets_shift_log_probabilities(from_logits):
    z, y = random_problem("multiclass", classes=3)
    scores = z if from_logits else torch.softmax(z, 1)
    offsets = [0.5, -1.0, 0.0]
    c = ss.confusion(scores, y, task="multiclass", offsets=offsets, from_logits=from_logits)
    shifted = torch.log_softmax(z, 1) + torch.tensor(offsets)
    expected = torch.bincount(shifted.argmax(1), minlength=3).double()
    torch.testing.assert_close(c.predicted, expected)


def check_scale(n: int) -> None:
    """Expanded tensors: rows that repeat need no memory."""
    block = 1000
    z = torch.tensor([3.0, -3.0, 3.0, -3.0, 3.0] * (block // 5)).expand(n // block, block)
    y = torch.tensor([1, 1, 0, 0, 0] * (block // 5)).expand(n // block, block)
    c = ss.confusion(z.reshape(-1), y.reshape(-1), from_logits=True)
    share = n // 5
    assert [int(v) for v in (c.tp, c.fn, c.fp, c.tn)] == [share, share, 2 * share, share]
    soft = ss.confusion(z.reshape(-1), y.reshape(-1), step=ss.LinearStep(), from_logits=True)
    h = ss.LinearStep()(torch.sigmoid(torch.tensor(3.0)), 0.5).double()
    low = ss.LinearStep()(torch.sigmoid(torch.tensor(-3.0)), 0.5).double()
    assert soft.tp.item() == pytest.approx(share * (h + low).item(), rel=1e-7)
    assert int(soft.support) == 2 * share
    assert int(soft.total) == n
    # the whole mass of a class in one cell: float32 stops counting at 2**24
    ones = torch.ones(1).expand(n)
    full = ss.confusion(ones * 1e4, ones, step=ss.LinearStep(), from_logits=True)
    assert int(full.tp) == n
    many = ss.confusion(
        torch.tensor([0.0, 1e4]).expand(n // 10, 2),
        torch.ones(n // 10).long(),
        task="multiclass",
        from_logits=True,
    )
    assert int(many.tp[1]) == n // 10


def test_counts_are_exact_beyond_what_float32_can_hold():
    check_scale(20_000_000)


@pytest.mark.slow
def test_counts_are_exact_for_fifty_million():
    check_scale(50_000_000)


def test_confusions_add_up_also_where_nearly_all_is_predicted():
    z, y = random_problem("binary", n=40, dtype=torch.float32)
    step = ss.LinearStep()
    low = ss.confusion(z, y, step=step, from_logits=True)
    high = ss.confusion(z + 30, y, step=step, from_logits=True)
    whole = ss.confusion(torch.cat([z, z + 30]), torch.cat([y, y]), step=step, from_logits=True)
    for both in (low + high, high + low):
        for cell in ("tp", "fp", "fn", "tn", "rejected", "negatives", "total"):
            torch.testing.assert_close(getattr(both, cell), getattr(whole, cell), rtol=1e-6, atol=0)


def test_a_problem_is_counted_as_its_arguments_are():
    z, y = random_problem("multilabel")
    problem = arrange(z, y, task="multilabel", from_logits=True, sample_weight=torch.rand(60))
    settings = {"task": "multilabel", "sample_weight": problem.w[0]}
    for step in (None, ss.LinearStep()):
        for where in ({"threshold": 0.3}, {"thresholds": [0.2, 0.7]}):
            a = count_cells(problem, step, **where)
            b = ss.confusion(z, y, step=step, **where, **settings)
            assert torch.equal(a.tp, b.tp)
            assert torch.equal(a.predicted, b.predicted)


def test_counts_of_sets_of_several_sizes_come_in_the_order_of_their_numbers():
    z, y = random_problem("binary", n=15)
    numbers = torch.tensor([2] * 3 + [0] * 4 + [1] * 1 + [3] * 7)
    c = ss.confusion(z, y, per=numbers, from_logits=True)
    for k in range(4):
        own = ss.confusion(z[numbers == k], y[numbers == k], from_logits=True)
        assert (c.tp[k], c.predicted[k], c.total[k]) == (own.tp, own.predicted, own.total)
