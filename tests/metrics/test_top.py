from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as skm
import torch

import softset as ss
from softset.metrics.registry import get_goal, pack_metric, unpack_metric
from softset.metrics.top import k_largest
from tests.reference import random_problem


def largest(z, k):
    said = np.zeros(z.shape, dtype=int)
    for row, scores in zip(said, z.numpy(), strict=True):
        row[sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:k]] = 1
    return said


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
@pytest.mark.parametrize("tied", [False, True])
def test_labels_equal_scikit_learn_on_the_k_largest(k, average, tied):
    z, y = random_problem("multilabel", n=50)
    z = z.round() if tied else z
    w = np.random.default_rng(0).uniform(0.1, 2, 50)
    for inner, score in ((ss.Recall, skm.recall_score), (ss.F1, skm.f1_score),
                         (ss.Precision, skm.precision_score)):  # fmt: skip
        got = ss.evaluate(
            z, y, ss.At(inner(average), k=k), task="multilabel", sample_weight=w, from_logits=True
        )
        settings = {"average": average, "sample_weight": w, "zero_division": 0}
        np.testing.assert_allclose(got, score(y, largest(z, k), **settings), atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_micro_recall_of_classes_is_top_k_accuracy(k):
    z, y = random_problem("multiclass", n=70)
    wanted = skm.top_k_accuracy_score(y, z, k=k, labels=range(4))
    assert ss.evaluate(
        z, y, f"recall@{k}_micro", task="multiclass", from_logits=True
    ) == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["recall", "precision", "f1"])
def test_classes_with_neither_rows_nor_decisions_are_left_out(name):
    z, y = random_problem("multiclass", n=40, classes=6)
    z[:, 4:] -= 100  # the last two are never among the largest
    z, y = z[y < 3], y[y < 3]  # class 3 has decisions and no rows
    true, said = np.eye(6, dtype=int)[y], largest(z, 2)
    settings = {"labels": range(4), "average": "macro", "zero_division": 0}
    wanted = getattr(skm, f"{name}_score")(true, said, **settings)
    got = ss.evaluate(z, y, f"{name}@2", task="multiclass", from_logits=True)
    assert got == pytest.approx(wanted, abs=1e-12)
    with_rows = getattr(skm, f"{name}_score")(true, said, **{**settings, "labels": range(3)})
    loss = ss.metric_loss(z, y, f"{name}@2", task="multiclass", step=ss.SigmoidStep(1e9))
    assert loss.item() == pytest.approx(1 - with_rows, abs=1e-9)


def test_the_mean_over_rows_is_that_of_sets():
    z, y = random_problem("multilabel", n=40)
    wanted = skm.recall_score(y, largest(z, 2), average="samples", zero_division=0)
    got = ss.evaluate(z, y, "recall@2_micro", task="multilabel", per="image", from_logits=True)
    assert got == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("task", ["multilabel", "multiclass"])
@pytest.mark.parametrize("name", ["recall@2", "f1@2_micro"])
@pytest.mark.parametrize("per", ["batch", "image", "sets"])
def test_images_equal_scikit_learn_position_by_position(task, name, per):
    """With position weights and ignored positions; hard, and in the sharp limit."""
    flat, target = random_problem(task, n=60)
    z = flat.reshape(5, 3, 4, 4).movedim(-1, 1)
    y = target.reshape(5, 3, 4, -1).movedim(-1, 1) if task == "multilabel" else target
    y = y if task == "multilabel" else y.reshape(5, 3, 4)
    w = torch.from_numpy(np.random.default_rng(0).uniform(0.1, 2, (5, 3, 4)))
    marked = y.clone()
    marked[..., 0] = -1
    numbers = torch.tensor([3, 1, 3, 1, 1])
    parts = {"batch": [slice(None)], "image": [[i] for i in range(5)]}
    parts["sets"] = [numbers == 1, numbers == 3]
    each = []
    for part in parts[per]:
        scores = z[part][..., 1:].movedim(1, -1).reshape(-1, 4)
        true = y[part][..., 1:]
        true = true.movedim(1, -1).reshape(-1, 4) if task == "multilabel" else true.reshape(-1)
        true = true.numpy() if task == "multilabel" else np.eye(4, dtype=int)[true]
        score = skm.recall_score if "recall" in name else skm.f1_score
        settings = {"sample_weight": w[part][..., 1:].reshape(-1), "zero_division": 0}
        settings["average"] = "micro" if "micro" in name else "macro"
        each.append(score(true, largest(scores, 2), **settings))
    settings = {"task": task, "sample_weight": w, "ignore_index": -1}
    settings["per"] = numbers if per == "sets" else per
    got = ss.evaluate(z, marked, name, **settings)
    assert got == pytest.approx(np.mean(each), abs=1e-12)
    if per != "image":  # of an image a class may be absent, which a loss leaves out
        loss = ss.metric_loss(z, marked, name, step=ss.SigmoidStep(1e9), **settings)
        assert loss.item() == pytest.approx(1 - np.mean(each), abs=1e-12)


@pytest.mark.parametrize("task", ["multilabel", "multiclass"])
@pytest.mark.parametrize("name", ["recall@2", "f1@2_micro"])
def test_it_is_trained_for_and_becomes_the_hard_one(task, name):
    z, y = random_problem(task, n=30)
    hard = ss.evaluate(z, y, name, task=task, from_logits=True)
    sharp = ss.metric_loss(z, y, name, task=task, step=ss.SigmoidStep(1e9))
    assert sharp.item() == pytest.approx(1 - hard, abs=1e-12)
    x = z[:8].clone().requires_grad_()
    loss = ss.MetricLoss(name, task=task)
    assert torch.autograd.gradcheck(lambda x: loss(x, y[:8]), (x,))
    assert loss(x, y[:8]) > 0


def test_entries_that_are_left_out_take_no_place():
    z = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    y = torch.tensor([[-1, 1, 1, 0]])
    assert (
        ss.evaluate(z, y, "recall@2_micro", task="multilabel", ignore_index=-1, from_logits=True)
        == 1.0
    )


@pytest.mark.parametrize("task", ["multilabel", "multiclass"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_scores_are_taken_where_probabilities_are_all_equal(task, dtype):
    z = torch.tensor([[50.0, 60.0, 70.0, 4000.0], [70.0, 4000.0, 50.0, 60.0]], dtype=dtype)
    y = torch.tensor([2, 0])
    y = y if task == "multiclass" else torch.nn.functional.one_hot(y, 4)
    assert ss.evaluate(z, y, "recall@2_micro", task=task, from_logits=True) == 1.0
    assert ss.evaluate(z, y, "recall@1_micro", task=task, from_logits=True) == 0.0


def test_names_lead_back():
    for name in ("recall@5", "f1@3_micro", "jaccard@1", "f2@2"):
        assert get_goal(name).name == name
        assert get_goal(unpack_metric(pack_metric(name))) == get_goal(name)
        metric = get_goal(name)
        assert get_goal(unpack_metric(pack_metric(metric))) == metric
    assert get_goal("dice@2").name == "f1@2"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get_goal("mcc@2"), "metric at k must be recall"),
        (lambda: get_goal("recall@0"), "k must be an integer"),
        (
            lambda: ss.evaluate([0.0, 1.0], [0, 1], "recall@1", from_logits=True),
            "task='multilabel'",
        ),
        (
            lambda: ss.evaluate(
                torch.zeros(2, 3), torch.ones(2, 3), "f1@3", task="multilabel", from_logits=True
            ),
            "k must be less than the number of classes or labels, 3",
        ),
        (
            lambda: ss.evaluate(
                torch.zeros(2, 3),
                torch.ones(2, 3),
                "f1@2",
                task="multilabel",
                threshold=0.3,
                from_logits=True,
            ),
            "threshold does not apply",
        ),
        (
            lambda: ss.MetricMLPClassifier("recall@2").fit(np.eye(8), np.arange(8) % 2),
            "no threshold to tune",
        ),
        (
            lambda: ss.best_threshold([0.0, 1.0], [0, 1], "recall@1", from_logits=True),
            "has no threshold to tune",
        ),
    ],
)
def test_where_it_does_not_fit_it_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_first_of_equal_ones():
    assert k_largest(torch.zeros(3, 4), 2, dim=1).tolist() == [[True, True, False, False]] * 3
