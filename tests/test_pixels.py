"""Promises for every metric x task x shape x ``per``: scikit-learn on flattened masks, or on the
masks of each set, is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
import torch

import softset as ss
from tests.oracles import oracle
from tests.reference import TASKS, is_area

CLASSES = 3
SHAPES = {"rows": (), "sequence": (7,), "image": (3, 4), "volume": (2, 2, 3)}
NUMBERS = torch.tensor([7, 2, 7, 2, 2])
SHARP = ss.SigmoidStep(1e9)  # so steep that degrees are 0 and 1


def make(name, average="macro"):
    return ss.METRICS[name].make(average=average)


def masks(task, shape, n=5, seed=0):
    """Scores and target in which every set of rows has every class; rows are 12 in a set."""
    rng = np.random.default_rng(seed)
    n = n if shape else 12 * n
    size = int(np.prod(shape, dtype=int))
    if task == "multilabel":
        y = rng.integers(0, 2, (n, CLASSES, *shape))
        if shape:
            y.reshape(n, CLASSES, -1)[..., :2] = [0, 1]
        else:
            y[0::12], y[1::12] = 0, 1
    else:
        many = CLASSES if task == "multiclass" else 2
        y = rng.integers(0, many, (n, size))
        if shape:
            y[:, :many] = np.arange(many)
        else:
            y[:, 0] = np.tile(np.arange(12) % many, n // 12)
        y = rng.permuted(y, axis=1).reshape(n, *shape)
    z = 2 * rng.normal(size=(n, CLASSES, *shape) if task == "multiclass" else y.shape)
    if task == "multiclass":
        z += np.moveaxis(np.eye(CLASSES)[y], -1, 1)
    else:
        z += y
    return torch.from_numpy(z), torch.from_numpy(y)


def columns(task, z, y, w=None):
    """Rows as scikit-learn has them: one for each position."""
    if task != "binary":
        z = z.movedim(1, -1).reshape(-1, CLASSES)
    if task == "multilabel":
        y = y.movedim(1, -1).reshape(-1, CLASSES)
    z = z.reshape(-1) if task == "binary" else z
    return z, y if task == "multilabel" else y.reshape(-1), w


def expected(name, task, average, z, y, w=None):
    """The oracle's value of one set."""
    z, y, w = columns(task, z, y, w)
    p = (torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)).numpy()
    said = p.argmax(-1) if task == "multiclass" else (p >= 0.5).astype(int)
    if name == "auroc" and task == "multiclass" and average == "micro":
        return oracle(name, "multilabel", average, np.eye(CLASSES)[y], said, p, w)
    return oracle(name, task, average, y.numpy(), said, p, w)


def sets(per, n):
    if isinstance(per, str):
        return [slice(None)] if per == "batch" else [slice(i, i + 1) for i in range(n)]
    return [per == k for k in per.unique()]


def between(task, z):
    """A threshold between any two neighboring probabilities: there areas are exact."""
    p = torch.softmax(z, 1) if task == "multiclass" else torch.sigmoid(z)
    p = p.flatten().unique()
    return ((p[1:] + p[:-1]) / 2).tolist()


CASES = [
    (name, task, average)
    for name, row in ss.METRICS.items()
    for task in TASKS
    for average in (("macro",) if task == "binary" else row.averages)
]


# Every metric on one of the shapes in turn, for each task and average.
@pytest.mark.parametrize(
    ("name", "task", "average", "kind"),
    [(*case, [*SHAPES][i % len(SHAPES)]) for i, case in enumerate(CASES)],
)
def test_every_shape_and_set_equals_scikit_learn(name, task, average, kind):
    z, y = masks(task, SHAPES[kind])
    n = len(z)
    numbers = NUMBERS if kind != "rows" else NUMBERS.repeat_interleave(12)
    metric = make(name, average)
    for per in ("batch", numbers) if kind == "rows" else ("batch", "image", numbers):
        each = [expected(name, task, average, z[part], y[part]) for part in sets(per, n)]
        wanted = np.mean(each, 0)
        channel = z.unsqueeze(1) if task == "binary" else z
        for scores in (z, channel):
            got = ss.evaluate(scores, y, metric, task=task, per=per, from_logits=True)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
        if average is not None:
            grid = between(task, z) if is_area(metric) else None
            settings = {"task": task, "per": per, "step": SHARP, "thresholds": grid}
            loss = ss.metric_loss(channel, y, metric, **settings)
            assert loss.item() == pytest.approx(1 - wanted, abs=1e-12)


# soft targets


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ss.METRICS)
def test_soft_targets_that_are_whole_are_the_usual_ones(name, task):
    scores, y = masks(task, (3, 4), seed=6)
    hard = torch.nn.functional.one_hot(y, CLASSES).movedim(-1, 1) if task == "multiclass" else y
    by_class = [1.0, 3.0] if task == "binary" else [1.0, 3.0, 2.0]
    for dtype, near in ((torch.float32, 1e-6), (torch.float64, 1e-9)):
        z, fractions = scores.to(dtype), hard.to(dtype)
        for settings in ({}, {"per": "image"}, {"class_weight": by_class}):
            settings = {"task": task, **settings}
            usual = ss.evaluate(z, y, name, **settings)
            soft = ss.evaluate(z, fractions, name, soft_targets=True, **settings)
            assert soft == pytest.approx(usual, abs=1e-12)
            a = ss.metric_loss(z, y, name, **settings)
            b = ss.metric_loss(z, fractions, name, soft_targets=True, **settings)
            assert b.item() == pytest.approx(a.item(), abs=near)


def test_a_long_column_of_soft_targets():
    """More than one chunk, in float32 and float64."""
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(200_000, generator=g), torch.rand(200_000, generator=g)
    c = ss.confusion(z, y, step=ss.LinearStep(), soft_targets=True, from_logits=True)
    exact = ss.confusion(
        z.double(), y.double(), step=ss.LinearStep(), soft_targets=True, from_logits=True
    )
    torch.testing.assert_close(c.tp, exact.tp, rtol=1e-7, atol=0)
    torch.testing.assert_close(c.support, y.double().sum(), rtol=1e-12, atol=0)


BAD_FRACTIONS = [
    (torch.zeros(2), torch.tensor([0.5, 1]), {}, "soft_targets=True"),
    (torch.zeros(2, 3), torch.tensor([0.5, 1]), {"task": "multiclass"}, "soft_targets=True"),
    (torch.zeros(2, 3), torch.zeros(2, 3).long(), {"task": "multiclass"}, "soft_targets=True"),
    (torch.zeros(2, 3), torch.full((2, 3), 0.5), {"task": "multilabel"}, "soft_targets=True"),
    (torch.zeros(2), torch.tensor([1.5, 1]), {"soft_targets": True}, r"in \[0, 1\].*got 1.5"),
    (torch.zeros(2), torch.tensor([-1.0, 1]), {"soft_targets": True}, r"in \[0, 1\].*got -1"),
    (torch.zeros(2), torch.tensor([torch.nan, 1]), {"soft_targets": True}, "got nan"),
    (torch.zeros(2, 3), torch.full((2, 3), 0.5), {"task": "multiclass", "soft_targets": True},
     "add up to 1 in every row.*got 1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("scores", "target", "settings", "message"), BAD_FRACTIONS)
@pytest.mark.parametrize("step", [None, ss.LinearStep()])
def test_fractions_that_cannot_be_meant_are_refused(scores, target, settings, message, step):
    with pytest.raises(ValueError, match=message):
        ss.confusion(scores, target, step=step, from_logits=True, **settings)


# what is missing in a set


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ss.METRICS)
@pytest.mark.parametrize("empty", ["penalize", "ignore"])
def test_nothing_in_a_set_is_no_reason_for_nan(name, task, empty):
    """Empty masks, masks of positives only, absent classes, one-pixel images, ignored images."""
    shape = (4, CLASSES, 2, 3) if task == "multiclass" else (4, 2, 3)
    shape = (4, CLASSES, 2, 3) if task == "multilabel" else shape
    g = torch.Generator().manual_seed(0)
    z = torch.randn(shape, generator=g)
    y = torch.zeros((4, 2, 3) if task == "multiclass" else shape, dtype=torch.long)
    y[1], y[2] = 1, 255
    y[3, ..., :2] = 1
    grid = [0.25, 0.5, 0.75] if is_area(make(name)) else None
    loss = ss.MetricLoss(name, task=task, per="image", ignore_index=255, empty=empty,
                         thresholds=grid)  # fmt: skip
    for scores, target in ((z, y), (z[:, ..., :1, :1], y[..., :1, :1]), (z[2:3], y[2:3])):
        for numbers in (None, torch.arange(len(scores)) // 2):
            x = scores.clone().requires_grad_()
            value = loss(x, target, per=numbers)
            value.backward()
            assert torch.isfinite(value)
            assert torch.isfinite(x.grad).all()
            assert -1e-6 <= value.item() <= (2 if ss.METRICS[name].range[0] < 0 else 1)


def test_an_empty_mask_pushes_down_or_is_left_out():
    z, y = torch.zeros(2, 1, 2, 2), torch.tensor([[[0, 0], [0, 0]], [[1, 0], [0, 1]]])
    full = ss.metric_loss(z[1:], y[1:], "dice")
    x = z.clone().requires_grad_()
    penalized = ss.metric_loss(x, y, "dice", per="image")
    penalized.backward()
    assert penalized.item() == pytest.approx((full.item() + 0.5) / 2)
    assert (x.grad[0] > 0).all()
    x = z.clone().requires_grad_()
    left_out = ss.metric_loss(x, y, "dice", per="image", empty="ignore")
    left_out.backward()
    assert left_out.item() == pytest.approx(full.item())
    assert (x.grad[0] == 0).all()
    all_wrong = ss.evaluate(z - 1, y * 0, "dice", per="image", empty="ignore", from_logits=True)
    assert all_wrong == 1.0  # nothing to say


def test_evaluate_takes_empty_sets_as_it_is_told():
    p = torch.tensor([[0.9, 0.1, 0.1, 0.1], [0.1, 0.2, 0.1, 0.1], [0.9, 0.9, 0.3, 0.2]])
    y = torch.tensor([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    settings = {"per": "image", "from_logits": False}
    assert ss.evaluate(p, y, "dice", **settings) == pytest.approx(1 / 3)
    assert ss.evaluate(p, y, "dice", empty="ignore", **settings) == pytest.approx(1)
    assert ss.evaluate(p, y, "dice", empty="penalize", **settings) == pytest.approx(2.5 / 3)
    with pytest.raises(ValueError, match="empty must be one of None, 'penalize', 'ignore'"):
        ss.evaluate(p, y, "dice", empty="skip", **settings)


def test_the_names_of_segmentation():
    z, y = masks("multiclass", (3, 4))
    same = [
        ss.evaluate(z, y, m, task="multiclass", from_logits=True)
        for m in ("miou", "jaccard", "jaccard_macro")
    ]
    assert len(set(same)) == 1
    z, y = masks("binary", (3, 4))
    assert ss.evaluate(z, y, "dice", from_logits=True) == ss.evaluate(z, y, "f1", from_logits=True)
    both = (
        ss.evaluate(z, y, "iou", from_logits=True) + ss.evaluate(-z, 1 - y, "iou", from_logits=True)
    ) / 2
    assert ss.evaluate(z, y, "miou", from_logits=True) == pytest.approx(both, abs=1e-12)
    assert ss.get_metric("dice_micro") == ss.get_metric("f1_micro")
    assert ss.get_metric("mIoU").name == "jaccard_macro"


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_images_compile():
    task = "multiclass"
    torch.compiler.reset()
    z, y = masks(task, (3, 4))
    loss = ss.MetricLoss("dice", task=task, per="image", ignore_index=255)
    x, again = z.clone().requires_grad_(), z.clone().requires_grad_()
    value = torch.compile(loss, fullgraph=True, backend="aot_eager")(again, y)
    value.backward()
    loss(x, y).backward()
    assert value.item() == pytest.approx(loss(z, y).item(), abs=1e-12)
    torch.testing.assert_close(again.grad, x.grad)


BAD_SHAPES = [
    # task, scores, target, settings, what the message says
    ("binary", (2, 1, 4, 4), (2, 4, 5), {}, r"target must have the shape of scores.*\[2, 4, 5\]"),
    ("binary", (2, 4, 4), (2, 16), {}, "target must have the shape of scores"),
    ("binary", (2, 3, 4, 4), (2, 4, 4), {}, "task='multiclass'"),
    ("binary", (2, 2), (2, 2), {}, r"not \(N, 2\).*multiclass"),
    ("binary", (2, 0, 4), (2, 0, 4), {}, "empty"),
    ("multilabel", (2, 3, 4), (2, 4), {}, "target must have the shape of scores"),
    ("multilabel", (2,), (2,), {}, r"\(N, L, ...\)"),
    ("multiclass", (2, 3, 4), (2, 3), {}, "without the classes"),
    ("multiclass", (2, 1, 4), (2, 4), {}, "at least two classes"),
    ("binary", (2, 4, 4), (2, 4, 4), {"batch_dims": 4}, "batch_dims must be leading dimensions"),
    ("binary", (2, 4, 4), (2, 4, 4), {"per": "images"}, "per must be one of.*Did you mean 'image'"),
    ("binary", (2, 4, 4), (2, 4, 4), {"per": [1, 2, 3]}, r"per must have shape \(2,\) or"),
    ("binary", (2, 4, 4), (2, 4, 4), {"per": [0.5, 1]}, "integers that say to which set"),
    ("binary", (2, 4, 4), (2, 4, 4), {"sample_weight": [1.0] * 4}, r"\(2,\) or \(2, 4, 4\)"),
    ("multiclass", (2, 3, 4), (2, 4), {"sample_weight": [1.0] * 3}, r"\(2,\) or \(2, 4\)"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "scores", "target", "settings", "message"), BAD_SHAPES)
def test_shapes_that_cannot_be_meant_are_refused(task, scores, target, settings, message):
    for step in (None, ss.LinearStep()):
        with pytest.raises(ValueError, match=message):
            ss.confusion(torch.zeros(scores), torch.zeros(target).long(), task=task, step=step,
                         **settings)  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_class_numbers_may_have_a_channel(kind):
    """``(N, 1, H, W)``, as MONAI and many data sets have masks."""
    z, y = masks("multiclass", SHAPES[kind])
    z.requires_grad_()
    with_channel = y.unsqueeze(1)
    for per in ("batch", "image") if SHAPES[kind] else ("batch",):
        told = {"task": "multiclass", "per": per}
        assert ss.evaluate(z, with_channel, "f1", **told) == ss.evaluate(z, y, "f1", **told)
        losses = [ss.metric_loss(z, t, "f1", **told) for t in (y, with_channel)]
        torch.testing.assert_close(*losses, rtol=1e-12, atol=0)  # sums may be in another order
        gradients = [torch.autograd.grad(loss, z)[0] for loss in losses]
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-14)
    for loss in (ss.CrossEntropyLoss(task="multiclass"), ss.LovaszLoss(task="multiclass")):
        assert loss(z, with_channel) == loss(z, y)
    stacked = torch.stack([z, -z]), torch.stack([y, y])
    told = {"task": "multiclass", "batch_dims": 1}
    expected = ss.metric_loss(*stacked, "f1", **told)
    for target in (with_channel, torch.stack([with_channel, with_channel])):
        assert torch.equal(ss.metric_loss(stacked[0], target, "f1", **told), expected)


@pytest.mark.parametrize("name", ["f1", "f2", "jaccard", "precision", "recall"])
def test_the_mean_over_rows_of_labels_is_scikit_learns_average_of_samples(name):
    z, y = masks("multilabel", ())
    z[0], y[1] = -1, 0  # nothing predicted, nothing there
    told = {"task": "multilabel", "per": "image"}
    settings = {"beta": 2} if name == "f2" else {}
    theirs = getattr(sklearn.metrics, "fbeta_score" if settings else f"{name}_score")
    expected = theirs(y, z >= 0, average="samples", zero_division=0, **settings)
    found = ss.evaluate(z, y, f"{name}_micro", **told)
    assert found == pytest.approx(expected, rel=1e-12)
    sharp = ss.metric_loss(z, y, f"{name}_micro", step=SHARP, empty="ignore", **told)
    some = y.any(1)
    expected = theirs(y[some], z[some] >= 0, average="samples", zero_division=0, **settings)
    assert 1 - sharp.item() == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match=rf"'{name}_micro' with per='image'"):
        ss.get_metric(f"{name}_samples")


def test_set_numbers_belong_to_a_batch():
    with pytest.raises(ValueError, match=r"loss\(scores, target, sample_weight, per=numbers\)"):
        ss.MetricLoss(per=torch.tensor([0, 1]))


def test_images_of_one_problem_each_have_a_loss_for_each_problem():
    """``batch_dims`` before, sets behind: one number for each problem."""
    z, y = masks("binary", (3, 4))
    both = torch.stack([z, -z])
    got = ss.metric_loss(both, y, "f1", per="image", batch_dims=1)
    alone = [ss.metric_loss(x, y, "f1", per="image") for x in both]
    torch.testing.assert_close(got, torch.stack(alone))
    numbers = torch.tensor([1, 0, 1, 1, 0])
    got = ss.metric_loss(both, y, "f1", per=numbers, batch_dims=1)
    alone = [ss.metric_loss(x, y, "f1", per=numbers) for x in both]
    torch.testing.assert_close(got, torch.stack(alone))
    c = ss.confusion(both, y, per=numbers, batch_dims=1, from_logits=True)
    assert c.tp.shape == (2, 2)
    first = ss.confusion(both[0][numbers == 0], y[numbers == 0], from_logits=True)
    assert c.tp[0, 0] == first.tp
