from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import softset as ss
from softset.counting.kernels.choice import using
from softset.counting.problem import arrange
from tests.reference import TASKS, random_problem


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("step", [None, ss.LinearStep(), ss.SigmoidStep()])
def test_probabilities_count_as_their_logits(task, step):
    z, y = random_problem(task)
    p = torch.softmax(z, 1) if task == "multiclass" else torch.sigmoid(z)
    one = ss.confusion(z, y, task=task, step=step, from_logits=True)
    other = ss.confusion(p, y, task=task, step=step, from_logits=False)
    torch.testing.assert_close(one.tp, other.tp)
    torch.testing.assert_close(one.predicted, other.predicted)


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
            from_logits=True,
        )
        for kind in (list, np.array)
    )
    assert (lists.tp, lists.predicted, lists.total) == (arrays.tp, arrays.predicted, arrays.total)


def test_images_have_their_classes_in_the_second_dimension():
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(2, 3, 4, 5, generator=g), torch.randint(0, 3, (2, 4, 5), generator=g)
    step = ss.LinearStep()
    c = ss.confusion(z, y, task="multiclass", step=step, from_logits=True)
    flat = z.permute(0, 2, 3, 1).reshape(-1, 3)
    torch.testing.assert_close(
        c.tp, ss.confusion(flat, y.flatten(), task="multiclass", step=step, from_logits=True).tp
    )
    w = torch.tensor([1.0, 3.0])
    each = w[:, None, None].expand(2, 4, 5)
    a, b = (
        ss.confusion(z, y, task="multiclass", step=step, sample_weight=v, from_logits=True)
        for v in (w, each)
    )
    torch.testing.assert_close(a.tp, b.tp)


def test_shapes_and_dtypes_that_mean_the_same():
    z, y = random_problem("binary", n=30, dtype=torch.float32)
    expected = ss.confusion(z, y, step=ss.LinearStep(), from_logits=True)
    for scores in (z, z[:, None]):
        for target in (y, y[:, None], y.bool(), y.float(), y.int(), y.to(torch.uint8), y.numpy()):
            got = ss.confusion(scores, target, step=ss.LinearStep(), from_logits=True)
            assert (got.tp, got.predicted) == (expected.tp, expected.predicted)


BAD = [
    # scores, target, settings, what the message says
    (torch.zeros(3, 2), torch.zeros(3), {}, r"\(N, ...\) or \(N, 1, ...\).*multiclass"),
    (torch.zeros(3, 4), torch.zeros(3), {}, r"\(N, ...\) or \(N, 1, ...\)"),
    (torch.zeros(3), torch.zeros(4), {}, "target must have the shape"),
    (torch.zeros(3), torch.zeros(1, 3), {}, "target must have the shape"),
    (torch.zeros(3, 1), torch.zeros(3, 3), {}, "target must have the shape"),
    (torch.zeros(()), torch.zeros(()), {}, r"\(N, ...\) or \(N, 1, ...\)"),
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
    (torch.zeros(2), torch.zeros(2), {"task": "multilabel"}, r"\(N, L, ...\)"),
    (torch.zeros(2, 3), torch.zeros(2, 2), {"task": "multilabel"}, "target must have the shape"),
]


@pytest.mark.parametrize(("scores", "target", "settings", "message"), BAD)
def test_bad_arguments_are_refused(scores, target, settings, message):
    for step in (None, ss.LinearStep(), ss.SigmoidStep()):
        with pytest.raises(ValueError, match=message):
            ss.confusion(scores, target, step=step, **{"from_logits": True, **settings})


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc", "markedness"])
@pytest.mark.parametrize("by", ["sample_weight", "class_weight"])
def test_the_scale_of_weights_does_not_matter(task, metric, by):
    for scale in (1e-300, 1e-39, 1e-31, 1e31, 1e39, 1e250):
        check_scale(task, metric, scale, by)


def check_scale(task, metric, scale, by):
    """1e39 is infinite in float32, and sums of 1e-31 were taken for nothing."""
    z, y = random_problem(task, n=30, classes=3, dtype=torch.float32)
    size = 30 if by == "sample_weight" else 2 if task == "binary" else 3
    w = torch.linspace(0.5, 2, size, dtype=torch.float64)
    one, other = z.clone().requires_grad_(), z.clone().requires_grad_()
    a = ss.metric_loss(one, y, metric, task=task, **{by: w})
    b = ss.metric_loss(other, y, metric, task=task, **{by: w * scale})
    a.backward()
    b.backward()
    assert b.item() == pytest.approx(a.item(), abs=1e-6)
    size = one.grad.abs().max()
    torch.testing.assert_close(other.grad / size, one.grad / size, rtol=0, atol=5e-6)
    assert ss.evaluate(z, y, metric, task=task, **{by: w * scale}) == pytest.approx(
        ss.evaluate(z, y, metric, task=task, **{by: w}), abs=1e-12
    )
    c = ss.confusion(z, y, task=task, step=ss.LinearStep(), **{by: w})
    large = ss.confusion(z, y, task=task, step=ss.LinearStep(), **{by: w * scale})
    torch.testing.assert_close(large.tp / scale, c.tp, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_weight": [1e308] * 30}, "sample_weight must have a finite sum"),
        ({"sample_weight": [1e200] * 30, "class_weight": [1e200, 1]}, "numbers that floats can"),
        ({"sample_weight": [1e-200] * 30, "class_weight": [1e-200, 0]}, "numbers that floats can"),
        ({"class_weight": [0, 0]}, "class_weight must not be zero everywhere"),
    ],
)
def test_weights_that_no_float_can_hold_are_refused(settings, message):
    z, y = random_problem("binary", n=30)
    with pytest.raises(ValueError, match=message):
        ss.metric_loss(z, y, **settings)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("light", [1e-40, 1e-25])
@pytest.mark.parametrize("task", TASKS)
def test_light_weights_have_finite_gradients_and_the_lightest_count_as_none(task, light, native):
    """Of a set, of a class, of a problem, and as a product of two."""
    z, y = random_problem(task, n=12, classes=3, dtype=torch.float32)
    first = y if y.dim() == 1 else y[:, 0]
    v = [1.0, light, 1.0][: 2 if task == "binary" else 3]
    rows = torch.ones(12).double().masked_fill(torch.arange(12) < 6, light)
    settings: list[dict] = [
        {"sample_weight": rows, "per": torch.arange(12) // 6},
        {"sample_weight": rows, "per": torch.arange(12) // 6, "class_weight": v},
        {"sample_weight": torch.where(first == 1, light, 1.0).double()},
        {"class_weight": v},
        {"sample_weight": torch.where(first == 1, light, 1.0).double(), "class_weight": v},
        {"sample_weight": torch.stack([rows / rows, light * rows / rows]), "batch_dims": 1},
    ]
    with nullcontext() if native else using("torch"):
        for given in settings:
            nothing = {k: _without(t, light) for k, t in given.items()}
            for name in ss.METRICS:
                x = torch.stack([z, z]) if "batch_dims" in given else z.clone()
                x.requires_grad_()
                value = ss.metric_loss(x, y, name, task=task, **given)
                (slope,) = torch.autograd.grad(value.sum(), x)
                assert value.isfinite().all(), (name, given)
                assert slope.isfinite().all(), (name, given)
                if light < 1e-30:
                    wanted = ss.metric_loss(x, y, name, task=task, **nothing)
                    torch.testing.assert_close(value, wanted)


def _without(given, light):
    """The same with weights of zero instead of light ones."""
    if isinstance(given, int) or not torch.is_floating_point(torch.as_tensor(given)):
        return given
    t = torch.as_tensor(given, dtype=torch.float64)
    return t.masked_fill(t <= light, 0.0)


def test_a_problem_becomes_one_against_the_rest():
    z, y = random_problem("multiclass", n=20, classes=3)
    w = torch.rand(20, dtype=torch.float64)
    problem = arrange(z, y, task="multiclass", from_logits=True, sample_weight=w)
    labels = problem.one_against_rest()
    assert (labels.task, labels.from_logits, labels.classes) == ("multilabel", False, 3)
    torch.testing.assert_close(labels.z, torch.softmax(z, 1).T)
    assert torch.equal(labels.y, torch.nn.functional.one_hot(y, 3).T.bool())
    torch.testing.assert_close(labels.weights(), w.expand(3, 20))
    pooled = labels.pooled()
    assert (pooled.task, pooled.classes, pooled.z.shape) == ("binary", 1, (60,))
    torch.testing.assert_close(pooled.weights(), w.repeat(3))


def test_a_target_that_wants_a_gradient_is_refused():
    with pytest.raises(ValueError, match="target must not require a gradient"):
        ss.confusion(torch.zeros(2), torch.zeros(2, requires_grad=True), from_logits=True)


def negated(t):
    """The same numbers, as a tensor that is negated when it is read."""
    lazy = torch.complex(torch.zeros_like(t), -t).conj().imag
    assert lazy.is_neg()
    return lazy


@pytest.mark.parametrize("task", TASKS)
def test_lazily_negated_tensors_are_read_with_their_sign(task):
    z, y = random_problem(task, n=12)
    soft = task != "multiclass"
    w, v = torch.rand(12).double(), torch.rand(2 if task == "binary" else 4).double()
    given = [z, y.double() if soft else y, w, v]
    lazily = [negated(t) if t.is_floating_point() else t for t in given]

    def all_of(z, y, w, v):
        weights = {"sample_weight": w, "class_weight": v}
        for metric in ("f1", "auroc", lambda c: c.tp.sum() / c.predicted.sum()):
            x = z.detach().requires_grad_()
            value = ss.metric_loss(x, y, metric, task=task, **weights)
            yield value
            yield torch.autograd.grad(value, x, negated(torch.tensor(2.0).double()))[0]
        yield ss.CrossEntropyLoss(task=task, class_weight=v)(z, y, w)
        yield ss.LovaszLoss(task=task)(z, y, w)
        yield ss.confusion(z, y, task=task, **weights).tp
        for metric in ("f1", "auroc"):
            yield torch.as_tensor(
                ss.evaluate(z, y, metric, task=task, sample_weight=w, from_logits=True)
            )

    wanted = list(all_of(*given))
    for changed in range(4):
        arguments = [lazily[i] if i == changed else given[i] for i in range(4)]
        for found, expected in zip(all_of(*arguments), wanted, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.float32])
def test_only_what_equals_ignore_index_is_left_out(task, dtype, native):
    for marks in (256, -100, 2**15, 2**24 + 1, 2**62, 255.0):
        check_ignore_index(task, dtype, marks, native)


def check_ignore_index(task, dtype, marks, native):
    """A number that the target's type cannot hold marks nothing."""
    z, y = random_problem(task, n=12)
    holds = 2**24 if dtype.is_floating_point else torch.iinfo(dtype).max
    low = 0 if dtype is torch.uint8 else -holds
    marked = y.clone()
    marked[:3] = int(marks) if low <= marks <= holds else y[:3]
    rows = slice(3 if low <= marks <= holds else 0, None)
    settings = {"task": task, "ignore_index": marks}
    with nullcontext() if native else using("torch"):
        for loss in (ss.MetricLoss("f1", **settings), ss.CrossEntropyLoss(**settings)):
            wanted = loss(z[rows], y[rows])
            torch.testing.assert_close(loss(z, marked.to(dtype)), wanted)
        near = marked.to(dtype).clone()
        near[0] = holds - (holds == marks)  # the next number is a stray label
        with pytest.raises(ValueError, match="target must hold"):
            ss.MetricLoss("f1", **settings)(z, near)


@pytest.mark.parametrize("marks", [255.5, float("nan"), "255", 2**63, [255]])
@pytest.mark.parametrize("task", TASKS)
def test_ignore_index_is_a_whole_number(task, marks):
    z, y = random_problem(task, n=12)
    with pytest.raises(ValueError, match="ignore_index must be an integer"):
        ss.metric_loss(z, y, task=task, ignore_index=marks)


P = [0.1, 0.3, 0.2, 0.44]  # probabilities of rare positives: all below one half


@pytest.mark.parametrize(
    "call",
    [
        lambda p, y, **given: ss.evaluate(p, y, "f1", **given),
        ss.confusion,
        lambda p, y, **given: ss.best_threshold(p, y, "f1", **given),
        lambda p, y, **given: ss.best_offsets(torch.tensor([p, p]).T, y, "f1", **given),
    ],
)
def test_scores_that_could_be_probabilities_are_refused_until_it_is_said(call):
    y = [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"from_logits=False if .* from_logits=True if") as caught:
        call(P, y)
    assert "\n" not in str(caught.value)
    call(P, y, from_logits=True)
    call([v + 2 for v in P], y)
    if call is ss.confusion or "best_offsets" not in call.__code__.co_names:
        call(P, y, from_logits=False)


def test_areas_go_by_the_order_of_scores_and_take_both():
    y = [0, 1, 0, 1]
    assert ss.evaluate(P, y, "auroc") == ss.evaluate(P, y, "auroc", from_logits=False)


def test_few_probabilities_and_hard_labels_are_counted_as_they_are():
    assert ss.evaluate(P, [0, 1, 0, 1], "f1", from_logits=False) == 0.0
