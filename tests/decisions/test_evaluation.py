from __future__ import annotations

import itertools
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as skm
import torch
from scipy.special import logsumexp

import softset as ss
from softset.counting.kernels.choice import using
from tests.reference import TASKS, random_problem


def test_arrays_and_lists_are_welcome():
    p, y = np.array([0.9, 0.2, 0.6, 0.4]), [1, 0, 0, 1]
    assert ss.evaluate(p, y, "f1", from_logits=False) == skm.f1_score(y, p >= 0.5)
    assert isinstance(ss.evaluate(p, y, "f1", from_logits=False), float)


@pytest.mark.parametrize("name", ["auroc", "average_precision"])
@pytest.mark.parametrize("levels", [2, 7, 10_000])
def test_areas_are_exact_with_ties_and_rare_positives(name, levels):
    # a grid of 100 thresholds is off by 0.1 here
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.005).astype(int)
    p = np.round((rng.beta(1, 200, 4000) + 0.01 * y) * levels) / levels
    w = rng.uniform(0, 2, 4000)
    oracle = {"auroc": skm.roc_auc_score, "average_precision": skm.average_precision_score}[name]
    p = p.clip(0, 1)
    for weight in (None, w):
        got = ss.evaluate(p, y, name, from_logits=False, sample_weight=weight)
        assert got == pytest.approx(oracle(y, p, sample_weight=weight), abs=1e-12)


def test_areas_leave_out_ignored_rows_and_take_class_weights():
    z, y = random_problem("multiclass", n=90, classes=3)
    marked = y.clone()
    marked[:30] = -1
    kept = ss.evaluate(z[30:], y[30:], "auroc", task="multiclass", from_logits=True)
    left = ss.evaluate(z, marked, "auroc", task="multiclass", ignore_index=-1, from_logits=True)
    assert left == pytest.approx(kept, abs=1e-12)
    v = torch.tensor([1.0, 2.0, 5.0])
    a = ss.evaluate(z, y, "auroc", task="multiclass", class_weight=v, from_logits=True)
    b = ss.evaluate(z, y, "auroc", task="multiclass", sample_weight=v[y], from_logits=True)
    assert a == pytest.approx(b, abs=1e-12)
    assert a != kept


def log_odds(row):
    """Of each class against all others, which tells saturated probabilities apart."""
    return [row[k] - logsumexp(np.delete(row, k)) for k in range(len(row))]


@pytest.mark.parametrize("name", ["auroc", "partial_auroc", "average_precision"])
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("dtype", "away"), [(torch.float32, 20), (torch.float32, -120), (torch.float64, 50)]
)
def test_areas_rank_the_scores_that_were_given(name, average, task, dtype, away):
    """Where their probabilities are all 0 or 1, too."""
    z, y = random_problem(task, n=60, dtype=dtype)
    shift = torch.zeros(4, dtype=dtype) if task == "multiclass" else torch.tensor(0.0)
    if task == "multiclass":
        shift[1] = away
    z = z + (shift if task == "multiclass" else away)
    given = z.double().numpy()
    true = np.eye(4, dtype=int)[y] if task == "multiclass" else y.numpy()
    given = np.array([log_odds(row) for row in given]) if task == "multiclass" else given
    w = np.random.default_rng(0).uniform(0.1, 2, 60)
    for weight in (None, w):
        score = skm.average_precision_score if name == "average_precision" else skm.roc_auc_score
        settings = {"max_fpr": 0.1} if name == "partial_auroc" else {}
        wanted = score(true, given, average=average, sample_weight=weight, **settings)
        got = ss.evaluate(
            z, y, f"{name}_{average}", task=task, sample_weight=weight, from_logits=True
        )
        assert got == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("native", [True, False])
def test_hard_counts_at_the_default_threshold_are_those_of_logits_from_0_on(dtype, native):
    zero = torch.zeros((), dtype=dtype)
    least = torch.nextafter(zero.float(), torch.tensor(-1.0)).to(dtype)
    z = torch.tensor([1e-9, -1e-9, -1e-17, 1e-17, -0.0, 0.0, -1e-6, 3.0, -3.0], dtype=dtype)
    z = torch.cat([z, least.reshape(1), -least.reshape(1)])
    y = torch.arange(len(z)) % 2
    wanted = [int((z >= 0).sum()), int(((z >= 0) & (y == 1)).sum())]
    with nullcontext() if native else using("torch"):
        for settings in ({}, {"step": ss.HardStep()}, {"thresholds": [0.5]}):
            c = ss.confusion(z, y, **settings)
            assert [int(c.predicted), int(c.tp)] == wanted
        both = torch.stack([z, z], 1), torch.stack([y, 1 - y], 1)
        c = ss.confusion(*both, task="multilabel", threshold=[0.5, 0.5])
        assert c.predicted.tolist() == wanted[:1] * 2
        accuracy = ((z >= 0) == (y == 1)).double().mean()
        loss = ss.metric_loss(z, y, "accuracy", step=ss.HardStep())
        assert loss.item() == pytest.approx(1 - float(accuracy), abs=1e-6)


@pytest.mark.parametrize("name", ["f1", "jaccard", "precision", "recall"])
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("left_out", [0, 2, 3])
def test_a_class_that_ignore_index_names_counts_neither_in_evaluation_nor_in_loss(
    name, average, left_out
):
    z, y = random_problem("multiclass", n=80)
    w = torch.from_numpy(np.random.default_rng(0).uniform(0.1, 2, 80))
    kept = y != left_out
    rest = [k for k in range(4) if k != left_out]
    wanted = getattr(skm, f"{name}_score")(
        y[kept], z[kept].argmax(1), labels=rest, average=average, sample_weight=w[kept]
    )
    metric = ss.get_metric(f"{name}_{average}")
    given = {"task": "multiclass", "ignore_index": left_out}
    assert ss.evaluate(z, y, metric, sample_weight=w, **given) == pytest.approx(wanted, abs=1e-12)
    c = ss.confusion(z, y, sample_weight=w, **given)
    assert float(metric(c + c)) == pytest.approx(wanted, abs=1e-12)
    sharp = ss.MetricLoss(metric, step=ss.SigmoidStep(1e9), **given)
    for loss in (sharp, ss.MetricLoss(metric, step=ss.SigmoidStep(1e9), ema_decay=1e-9, **given)):
        x = z.clone().requires_grad_()
        assert loss(x, y, w).item() == pytest.approx(1 - wanted, abs=1e-8)
    assert sharp.of_members(z[None], y[None], w).item() == pytest.approx(1 - wanted, abs=1e-8)
    offsets = ss.best_offsets(
        z, y, metric, sample_weight=w, ignore_index=left_out, from_logits=True
    )
    tuned = ss.evaluate(z, y, metric, offsets=offsets, sample_weight=w, **given)
    for k, shift in itertools.product(range(4), (-3, -1, 1, 3)):
        moved = [o + shift * (k == j) for j, o in enumerate(offsets)]
        known = {"offsets": moved, "sample_weight": w, **given}
        assert tuned >= ss.evaluate(z, y, metric, **known) - 1e-12


@pytest.mark.parametrize("name", ["auroc", "average_precision"])
def test_areas_of_a_class_that_ignore_index_names_do_not_count(name):
    z, y = random_problem("multiclass", n=80)
    kept, p = y != 2, torch.softmax(z, 1)
    score = {"auroc": skm.roc_auc_score, "average_precision": skm.average_precision_score}[name]
    each = [score(y[kept] == k, p[kept, k]) for k in (0, 1, 3)]
    got = ss.evaluate(z, y, name, task="multiclass", ignore_index=2, from_logits=True)
    assert got == pytest.approx(np.mean(each), abs=1e-12)
    pooled = score(np.eye(4)[y[kept]][:, [0, 1, 3]], p[kept][:, [0, 1, 3]], average="micro")
    got = ss.evaluate(z, y, f"{name}_micro", task="multiclass", ignore_index=2, from_logits=True)
    assert got == pytest.approx(pooled, abs=1e-12)
    grid = [i / 2000 for i in range(1, 2000)]
    soft = {"step": ss.SigmoidStep(1e6), "thresholds": grid, "ignore_index": 2}
    loss = ss.metric_loss(z, y, name, task="multiclass", **soft)
    assert loss.item() == pytest.approx(1 - np.mean(each), abs=5e-3)


def test_average_none_gives_a_list():
    z, y = random_problem("multiclass", classes=3)
    got = ss.evaluate(z, y, ss.F1(average=None), task="multiclass", from_logits=True)
    np.testing.assert_allclose(got, skm.f1_score(y, z.argmax(1), average=None))


@pytest.mark.parametrize(
    ("scores", "target", "settings", "message"),
    [
        (torch.tensor([0.0, torch.nan]), torch.tensor([0, 1]), {}, "first bad row is 1"),
        (torch.zeros(2), torch.tensor([-1, 1]), {}, "0 and 1 only, got -1"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), {"task": "multiclass"}, "got 3"),
        (torch.zeros(2, 3), torch.tensor([0, 1]), {"task": "multiclass", "offsets": [0, 0, 1]},
         "offsets do not apply"),
    ],
)  # fmt: skip
def test_bad_arguments_of_areas_are_refused(scores, target, settings, message):
    with pytest.raises(ValueError, match=message):
        ss.evaluate(scores, target, "auroc", from_logits=True, **settings)


def test_arrays_lists_and_columns_of_tables_are_all_the_same():
    """Also in an order of memory that torch does not have, and read-only."""
    z, y = random_problem("binary", n=30)
    wanted = ss.evaluate(z, y, "f1", from_logits=True)
    index = [f"row {i}" for i in range(30)]
    fixed = z.numpy().copy()
    fixed.flags.writeable = False
    backwards = z.numpy()[::-1].copy()[::-1]
    for scores in (z.tolist(), fixed, backwards, pd.Series(z.numpy(), index=index)):
        for target in (y.tolist(), y.numpy(), pd.Series(y.numpy() == 1, index=index)):
            assert ss.evaluate(scores, target, "f1", from_logits=True) == wanted
            assert ss.metric_loss(scores, target, "f1") == ss.metric_loss(z, y, "f1")
    z, y = random_problem("multiclass", n=30)
    table = pd.DataFrame(z.numpy(), columns=list("abcd"))
    found = ss.evaluate(table, pd.Series(y.numpy()), "f1", task="multiclass", from_logits=True)
    assert found == ss.evaluate(z, y, "f1", task="multiclass", from_logits=True)


def test_probabilities_are_not_taken_for_logits_without_a_word():
    p, y = torch.linspace(0.01, 0.4, 40), torch.arange(40) > 30
    for call in (
        lambda scores: ss.evaluate(scores, y, "f1"),
        lambda scores: ss.best_threshold(scores, y, "f1"),
        lambda scores: ss.confusion(scores, y),
    ):
        for scores in (p, (p > 0.3).long()):
            with pytest.raises(ValueError, match=r"from_logits=False .*from_logits=True"):
                call(scores)
    # Order is all that an area needs.
    ss.evaluate(p, y, "auroc")
    assert ss.evaluate(p, y, "f1", from_logits=False) == 0
    assert ss.evaluate(p, y, "f1", from_logits=True) > 0
    ss.evaluate(torch.logit(p), y, "f1")
