from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix

import softset as ss
from tests.reference import random_problem


def test_soft_counts_by_hand():
    # p = 0.25, 0.5, 0.75 at tau = 0.5, delta = 0.1: H = 0.1, 0.5, 0.9
    z = torch.logit(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    c = ss.confusion(z, torch.tensor([1, 0, 1]), step=ss.LinearStep(0.1))
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
    c = ss.confusion(z, y, task="multiclass", matrix=True, sample_weight=w)
    expected = confusion_matrix(y, z.argmax(1), sample_weight=w)
    np.testing.assert_allclose(c.matrix, expected, rtol=1e-12)
    plain = ss.confusion(z, y, task="multiclass", sample_weight=w)
    for field in ("tp", "fp", "fn", "tn", "support", "predicted", "total"):
        torch.testing.assert_close(getattr(plain, field), getattr(c, field))


def test_ties_go_to_the_threshold_and_to_the_first_class():
    assert ss.confusion(torch.tensor([0.0]), torch.tensor([1])).tp == 1  # p = 0.5 >= 0.5
    c = ss.confusion(torch.zeros(1, 3), torch.tensor([0]), task="multiclass")
    assert c.predicted.tolist() == [1, 0, 0]


def test_confusions_add_up_and_detach():
    z, y = random_problem("multiclass", n=60)
    z.requires_grad_()
    step = ss.LinearStep()
    parts = [
        ss.confusion(z[i], y[i], task="multiclass", step=step, matrix=True)
        for i in (slice(0, 20), slice(20, 60))
    ]
    whole = ss.confusion(z, y, task="multiclass", step=step, matrix=True)
    added = parts[0] + parts[1]
    torch.testing.assert_close(added.matrix, whole.matrix)
    torch.testing.assert_close(added.tp, whole.tp)
    assert whole.tp.requires_grad
    assert not whole.detach().tp.requires_grad
    with pytest.raises(ValueError, match="cannot add a binary confusion"):
        whole + ss.confusion(z[:, 0], y > 1)


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
        _ = ss.confusion(z, y, task="multiclass").matrix


def test_thresholds_are_counted_one_by_one():
    for task in ("binary", "multilabel"):
        z, y = random_problem(task)
        for step in (None, ss.LinearStep(), ss.SigmoidStep()):
            grid = [0.1, 0.25, 0.5, 0.9]
            many = ss.confusion(z, y, task=task, step=step, thresholds=grid)
            for k, tau in enumerate(grid):
                one = ss.confusion(z, y, task=task, step=step, threshold=tau)
                torch.testing.assert_close(many.tp[k], one.tp)
                torch.testing.assert_close(many.fp[k], one.fp)
                torch.testing.assert_close(many.tn[k], one.tn)


@pytest.mark.parametrize("size", [10, 77])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_grid_in_bins_equals_one_threshold_at_a_time(size, weighted):
    z, y = random_problem("binary", n=500)
    w = torch.rand(500, dtype=torch.float64) if weighted else None
    grid = [i / size for i in range(1, size)]
    z1, z2 = z.clone().requires_grad_(), z.clone().requires_grad_()
    step = ss.LinearStep(0.15)
    binned = ss.confusion(z1, y, step=step, thresholds=grid, sample_weight=w)
    singles = [ss.confusion(z2, y, step=step, threshold=t, sample_weight=w) for t in grid]
    a = torch.linspace(-1, 2, size - 1, dtype=torch.float64)
    for field in ("tp", "predicted", "support", "total"):
        each = torch.stack([getattr(c, field) for c in singles])
        torch.testing.assert_close(getattr(binned, field), each, rtol=1e-10, atol=1e-10)
    (binned.tp @ a + binned.predicted @ a**2).backward()
    sum(c.tp * a[k] + c.predicted * a[k] ** 2 for k, c in enumerate(singles)).backward()
    torch.testing.assert_close(z1.grad, z2.grad, rtol=1e-10, atol=1e-12)


def test_a_threshold_for_each_label():
    z, y = random_problem("multilabel", classes=3)
    taus = [0.2, 0.5, 0.8]
    for step in (None, ss.LinearStep(), ss.SigmoidStep()):
        c = ss.confusion(z, y, task="multilabel", threshold=taus, step=step)
        for k, tau in enumerate(taus):
            one = ss.confusion(z[:, k], y[:, k], threshold=tau, step=step)
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


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("step", [None, ss.LinearStep(), ss.SigmoidStep()])
def test_probabilities_count_as_their_logits(task, step):
    z, y = random_problem(task)
    p = torch.softmax(z, 1) if task == "multiclass" else torch.sigmoid(z)
    one = ss.confusion(z, y, task=task, step=step)
    other = ss.confusion(p, y, task=task, step=step, from_logits=False)
    torch.testing.assert_close(one.tp, other.tp)
    torch.testing.assert_close(one.predicted, other.predicted)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_weights_classes_and_ignored_entries(task):
    z, y = random_problem(task, n=40, classes=3)
    step = ss.LinearStep()

    def same(a, b):
        torch.testing.assert_close(a.tp, b.tp)
        torch.testing.assert_close(a.predicted, b.predicted)
        torch.testing.assert_close(a.total, b.total)

    whole = torch.arange(40) % 3
    repeated = ss.confusion(
        z.repeat_interleave(whole, 0), y.repeat_interleave(whole, 0), task=task, step=step
    )
    same(ss.confusion(z, y, task=task, step=step, sample_weight=whole), repeated)

    by_class = torch.tensor([0.5, 2.0] if task == "binary" else [0.5, 2.0, 1.0])
    a = ss.confusion(z, y, task=task, step=step, class_weight=by_class)
    if task == "multilabel":  # there it is the weight of a label
        same(a, ss.confusion(z, y, task=task, step=step).map(lambda t: t * by_class))
    else:
        same(a, ss.confusion(z, y, task=task, step=step, sample_weight=by_class[y]))

    marked, spoiled = y.clone(), z.clone()
    marked[:5] = -1
    spoiled[:5] = torch.nan
    kept = ss.confusion(z[5:], y[5:], task=task, step=step)
    for scores in (z, spoiled):
        same(ss.confusion(scores, marked, task=task, step=step, ignore_index=-1), kept)
        p = torch.softmax(scores, 1) if task == "multiclass" else torch.sigmoid(scores)
        p[:2] = 7.0  # no probability, and of no account
        for chosen in (step, ss.SigmoidStep()):
            without = ss.confusion(p[5:], y[5:], task=task, step=chosen, from_logits=False)
            settings = {"task": task, "step": chosen, "from_logits": False, "ignore_index": -1}
            same(ss.confusion(p, marked, **settings), without)
    x = spoiled.requires_grad_()
    ss.confusion(x, marked, task=task, step=step, ignore_index=-1).tp.sum().backward()
    assert (x.grad[:5] == 0).all()
    assert torch.isfinite(x.grad).all()


def test_lists_of_numbers_keep_their_digits():
    """As arrays do: 0.7 in float32 lies below 0.7."""
    assert ss.confusion([0.7], [1], threshold=0.7, from_logits=False).tp == 1
    lists, arrays = (
        ss.confusion(
            kind([0.7, 0.2]),
            kind([1, 0]),
            step=ss.LinearStep(),
            sample_weight=kind([0.1, 0.3]),
            class_weight=kind([0.7, 1.1]),
        )
        for kind in (list, np.array)
    )
    assert (lists.tp, lists.predicted, lists.total) == (arrays.tp, arrays.predicted, arrays.total)


def test_images_have_their_classes_in_the_second_dimension():
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(2, 3, 4, 5, generator=g), torch.randint(0, 3, (2, 4, 5), generator=g)
    step = ss.LinearStep()
    c = ss.confusion(z, y, task="multiclass", step=step)
    flat = z.permute(0, 2, 3, 1).reshape(-1, 3)
    torch.testing.assert_close(
        c.tp, ss.confusion(flat, y.flatten(), task="multiclass", step=step).tp
    )
    w = torch.tensor([1.0, 3.0])
    each = w[:, None, None].expand(2, 4, 5)
    a, b = (ss.confusion(z, y, task="multiclass", step=step, sample_weight=v) for v in (w, each))
    torch.testing.assert_close(a.tp, b.tp)


def test_shapes_and_dtypes_that_mean_the_same():
    z, y = random_problem("binary", n=30, dtype=torch.float32)
    expected = ss.confusion(z, y, step=ss.LinearStep())
    for scores in (z, z[:, None]):
        for target in (y, y[:, None], y.bool(), y.float(), y.int(), y.to(torch.uint8), y.numpy()):
            got = ss.confusion(scores, target, step=ss.LinearStep())
            assert (got.tp, got.predicted) == (expected.tp, expected.predicted)


BAD = [
    # scores, target, settings, what the message says
    (torch.zeros(3, 2), torch.zeros(3), {}, r"\(N,\) or \(N, 1\).*multiclass"),
    (torch.zeros(3, 4), torch.zeros(3), {}, r"\(N,\) or \(N, 1\)"),
    (torch.zeros(3), torch.zeros(4), {}, "target must have the shape"),
    (torch.zeros(3), torch.zeros(1, 3), {}, "target must have the shape"),
    (torch.zeros(3, 1), torch.zeros(3, 3), {}, "target must have the shape"),
    (torch.zeros(()), torch.zeros(()), {}, r"\(N,\) or \(N, 1\)"),
    (torch.zeros(0), torch.zeros(0), {}, "empty"),
    (torch.zeros(2), torch.tensor([-1, 1]), {}, r"0 and 1 only, got -1.*target > 0"),
    (torch.zeros(2), torch.tensor([0.5, 1]), {}, r"0 and 1 only, got 0.5"),
    (torch.zeros(2), torch.tensor([0.0, torch.nan]), {}, "0 and 1 only, got nan"),
    (torch.zeros(2), torch.tensor([0, 2]), {}, "0 and 1 only, got 2"),
    (torch.tensor([0.0, torch.nan]), torch.tensor([0, 1]), {}, "NaN: the first bad row is 1"),
    (torch.tensor([0.5, 1.5]), torch.tensor([0, 1]), {"from_logits": False}, r"\[0, 1\].*1.5"),
    (torch.tensor([0.5, -2]), torch.tensor([0, 1]), {"from_logits": False}, r"got -2.*from_logits"),
    (torch.zeros(2, dtype=torch.complex64), torch.zeros(2), {}, "real numbers"),
    (torch.zeros(2), torch.zeros(2), {"threshold": 1.0}, r"threshold must be in \(0, 1\), got 1.0"),
    (torch.zeros(2), torch.zeros(2), {"threshold": 0}, "threshold must be in"),
    (torch.zeros(2), torch.zeros(2), {"threshold": [0.1, 0.2, 0.3]}, "one for each label"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": [0.1, 1.2]}, "thresholds must be in"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": 0.5}, "thresholds must be a list"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": [[0.2, 0.5]]}, "thresholds must be a list"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": torch.tensor(0.5)}, "must be a list"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": torch.ones(2, 2) / 2}, "must be a list"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": ()}, "thresholds must be a list"),
    (torch.zeros(2), torch.zeros(2), {"thresholds": ["a"]}, "thresholds must be a list"),
    (torch.zeros(2), torch.zeros(2), {"task": "multi"}, "task must be one of"),
    (torch.zeros(2), torch.zeros(2), {"offsets": [0, 1]}, "offsets are for"),
    (torch.zeros(2), torch.zeros(2), {"sample_weight": [1.0, -1]}, "not negative"),
    (torch.zeros(2), torch.zeros(2), {"sample_weight": [1.0, torch.nan]}, "finite"),
    (torch.zeros(2), torch.zeros(2), {"sample_weight": [0.0, 0]}, "zero everywhere"),
    (torch.zeros(2), torch.zeros(2), {"sample_weight": [1.0]}, "sample_weight must have shape"),
    (torch.zeros(2), torch.zeros(2), {"class_weight": [1.0]}, "class_weight must hold 2"),
    (torch.zeros(2), torch.zeros(2), {"class_weight": {0: 1.0}}, "class_weight must hold numbers"),
    (torch.zeros(2), torch.zeros(2), {"sample_weight": "ab"}, "sample_weight must hold numbers"),
    ({"a": 1}, torch.zeros(2), {}, "scores must hold numbers .*, got dict"),
    (torch.zeros(2), ["a", "b"], {}, "target must hold numbers .*, got list"),
    (torch.zeros(2), torch.zeros(2), {"class_weight": [1.0, -2]}, "class_weight must be in"),
    (torch.zeros(2, 3), torch.tensor([0, 3]), {"task": "multiclass"}, "classes 0 to 2.*got 3"),
    (torch.zeros(2, 3), torch.tensor([0, -1]), {"task": "multiclass"}, "ignore_index=-1"),
    (torch.zeros(2, 3), torch.tensor([0.5, 1]), {"task": "multiclass"}, "class numbers"),
    (torch.zeros(2, 3), torch.zeros(2, 3), {"task": "multiclass"}, "without the classes"),
    (torch.zeros(2), torch.zeros(2), {"task": "multiclass"}, r"\(N, C\)"),
    (torch.zeros(2, 1), torch.zeros(2), {"task": "multiclass"}, "two classes"),
    (torch.zeros(2, 3), torch.zeros(2).long(), {"task": "multiclass", "threshold": 0.4}, "offsets"),
    (torch.zeros(2, 3), torch.zeros(2).long(), {"task": "multiclass", "offsets": [1]}, "offsets"),
    (torch.zeros(2), torch.zeros(2), {"task": "multilabel"}, r"\(N, L\)"),
    (torch.zeros(2, 3), torch.zeros(2, 2), {"task": "multilabel"}, "target must have the shape"),
]


@pytest.mark.parametrize("step", [None, ss.LinearStep(), ss.SigmoidStep()])
@pytest.mark.parametrize(("scores", "target", "settings", "message"), BAD)
def test_bad_arguments_are_refused(scores, target, settings, message, step):
    with pytest.raises(ValueError, match=message):
        ss.confusion(scores, target, step=step, **settings)


@pytest.mark.parametrize("classes", [3, 100])
@pytest.mark.parametrize("step", [None, ss.LinearStep(), ss.SigmoidStep()])
def test_a_nan_row_is_named(step, classes):
    z, y = random_problem("multiclass", n=200, classes=classes)
    z[17, 1] = torch.nan
    with pytest.raises(ValueError, match="first bad row is 17"):
        ss.confusion(z, y, task="multiclass", step=step)


def test_a_step_that_gives_nothing_is_refused():
    z, y = random_problem("multiclass")
    with pytest.raises(ValueError, match="step must return finite degrees"):
        ss.confusion(z, y, task="multiclass", step=lambda p, tau: p * 0 + tau * 0)


def check_scale(n: int) -> None:
    """Expanded tensors: rows that repeat need no memory."""
    block = 1000
    z = torch.tensor([3.0, -3.0, 3.0, -3.0, 3.0] * (block // 5)).expand(n // block, block)
    y = torch.tensor([1, 1, 0, 0, 0] * (block // 5)).expand(n // block, block)
    c = ss.confusion(z.reshape(-1), y.reshape(-1))
    share = n // 5
    assert [int(v) for v in (c.tp, c.fn, c.fp, c.tn)] == [share, share, 2 * share, share]
    soft = ss.confusion(z.reshape(-1), y.reshape(-1), step=ss.LinearStep())
    h = ss.LinearStep()(torch.sigmoid(torch.tensor(3.0)), 0.5).double()
    low = ss.LinearStep()(torch.sigmoid(torch.tensor(-3.0)), 0.5).double()
    assert soft.tp.item() == pytest.approx(share * (h + low).item(), rel=1e-7)
    assert int(soft.support) == 2 * share
    assert int(soft.total) == n
    # the whole mass of a class in one cell: float32 stops counting at 2**24
    ones = torch.ones(1).expand(n)
    full = ss.confusion(ones * 1e4, ones, step=ss.LinearStep())
    assert int(full.tp) == n
    many = ss.confusion(
        torch.tensor([0.0, 1e4]).expand(n // 10, 2), torch.ones(n // 10).long(), task="multiclass"
    )
    assert int(many.tp[1]) == n // 10


def test_counts_are_exact_beyond_what_float32_can_hold():
    check_scale(20_000_000)


@pytest.mark.slow
def test_counts_are_exact_for_fifty_million():
    check_scale(50_000_000)


def test_thousands_of_thresholds_need_no_memory_for_each():
    z, y = random_problem("binary", n=200)
    size = 20_000
    grid = [i / size for i in range(1, size)]
    x = z.clone().requires_grad_()
    loss = ss.metric_loss(x, y, "auroc", thresholds=grid)
    loss.backward()
    few = ss.metric_loss(z, y, "auroc", thresholds=[i / 2000 for i in range(1, 2000)])
    assert loss.item() == pytest.approx(few.item(), abs=1e-3)
    assert torch.isfinite(x.grad).all()
