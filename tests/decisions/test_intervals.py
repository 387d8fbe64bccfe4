"""The table of metrics agrees with ``evaluate``; its intervals cover what they should."""

import itertools

import numpy as np
import pytest
from scipy.stats import beta, norm
from sklearn.metrics import f1_score, roc_auc_score

from softset import METRICS, evaluate
from softset.decisions.intervals import metric_table


def data(task, n=400, seed=0):
    random = np.random.default_rng(seed)
    if task == "binary":
        y = random.integers(0, 2, n)
        p = np.clip(0.3 * y + 0.7 * random.random(n), 0, 1)
        return p, (p >= 0.5).astype(int), y
    if task == "multiclass":
        y = random.integers(0, 3, n)
        p = random.dirichlet([1, 1, 1], n) + 0.5 * np.eye(3)[y]
        p /= p.sum(1, keepdims=True)
        return p, p.argmax(1), y
    y = random.integers(0, 2, (n, 3))
    p = np.clip(0.3 * y + 0.7 * random.random((n, 3)), 0, 1)
    return p, (p >= 0.5).astype(int), y


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_values_are_those_of_evaluate_and_lie_in_their_intervals(task):
    p, decided, y = data(task)
    rows = metric_table(p, decided, y, task=task, resamples=300)
    assert [row.metric for row in rows] == list(METRICS)
    for row in rows:
        expected = evaluate(p, y, row.metric, task=task, from_logits=False)
        assert row.value == pytest.approx(expected, abs=1e-12)
        assert row.low < row.value < row.high
        assert row.high - row.low < 0.3


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_weights_count_rows_and_their_scale_means_nothing(task):
    p, decided, y = data(task, 200)
    names = ["accuracy", "f1", "auroc"]

    def table(rows=slice(None), w=None, scale=1):
        w = None if w is None else w[rows] * scale
        found = metric_table(
            p[rows], decided[rows], y[rows], task=task, metrics=names, sample_weight=w
        )
        return np.array([row[1:] for row in found])

    w = np.random.default_rng(1).integers(0, 4, 200).astype(float)
    found = table(w=w)
    # The value is scikit-learn's, with weights.
    average = {} if task == "binary" else {"average": "macro"}
    expected = [
        np.average(decided == y, weights=w, axis=0).mean(),
        f1_score(y, decided, sample_weight=w, **average),
        roc_auc_score(y, p, sample_weight=w, **average, multi_class="ovr"),
    ]
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-12)
    np.testing.assert_array_equal(table(rows=w > 0, w=w), found)  # weight 0 is no row
    np.testing.assert_allclose(table(w=w, scale=1e-3), found, rtol=1e-9)
    # Weights of one for all are none; uneven ones are fewer rows.
    np.testing.assert_allclose(table(w=np.full(200, 7.0)), table(), rtol=1e-9)
    uneven = np.where(np.arange(200) % 8, 0.01, 1.0)
    width = [float(np.subtract(*found[0, [2, 1]])) for found in (table(w=uneven), table())]
    effective = uneven.sum() ** 2 / (uneven**2).sum()
    assert width[0] / width[1] == pytest.approx(np.sqrt(200 / effective), rel=0.35)


def test_weights_that_are_none_are_refused():
    for w in ([1, 1], [0, 0, 0], [1, -1, 1], [1, np.nan, 1]):
        with pytest.raises(ValueError, match="sample_weight must be 3 numbers from 0"):
            metric_table(None, [1, 0, 1], [1, 0, 0], sample_weight=w)


def test_drawing_cells_is_drawing_rows():
    p, decided, y = data("binary")
    row = metric_table(p, decided, y, metrics=["f1"], resamples=4000)[0]
    random = np.random.default_rng(1)
    sample = []
    for _ in range(1000):
        i = random.integers(0, len(y), len(y))
        sample.append(evaluate(p[i], y[i], "f1", from_logits=False))
    assert [row.low, row.high] == pytest.approx(np.quantile(sample, [0.025, 0.975]), abs=0.008)


@pytest.mark.parametrize("cells", [(96, 0, 0, 4), (40, 3, 1, 6), (5, 5, 5, 5), (95, 0, 4, 1)])
def test_a_ratio_of_cells_has_the_quantiles_of_beta(cells):
    """Between Jeffreys (1/2 and 1/2) and Clopper and Pearson (0 and 1)."""
    tn, fp, fn, tp = cells
    y, decided = np.repeat([0, 0, 1, 1], cells), np.repeat([0, 1, 0, 1], cells)
    rows = metric_table(
        None, decided, y, metrics=["recall", "specificity", "precision"], resamples=40_000
    )
    for row, right, wrong in zip(rows, (tp, tn, tp), (fn, fp, fp), strict=True):
        low = beta.ppf(0.025, right + 1 / 6, wrong + 1 / 2)
        high = beta.ppf(0.975, right + 1 / 2, wrong + 1 / 6)
        assert row.low == pytest.approx(min(low, row.value), abs=0.01)
        assert row.high == pytest.approx(max(high, row.value), abs=0.01)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("kind", ["no error", "all wrong", "two positives", "one class"])
def test_intervals_of_next_to_no_evidence_are_wide_and_never_nan(task, kind):
    p, _, y = data(task, 30)
    if kind in ("two positives", "one class"):
        y[2 if kind == "two positives" else 0 :] = 0
    of_class = np.eye(3)[y] if task == "multiclass" else y
    right = 0.5 + (of_class - 0.5) * (0.4 + 0.01 * p)
    if task == "multiclass":
        right /= right.sum(1, keepdims=True)
    p = right if kind != "all wrong" else 1 - right
    if task == "multiclass":
        p = p / p.sum(1, keepdims=True)
    decided = p.argmax(1) if task == "multiclass" else (p >= 0.5).astype(int)
    for row in metric_table(p, decided, y, task=task, resamples=300):
        assert -1 - 1e-9 <= row.low <= row.high <= 1 + 1e-9
        assert np.isnan(row.value) or row.low <= row.value <= row.high
        assert row.high - row.low > 0.02
        signed = ("mcc", "cohen_kappa", "linear_kappa", "quadratic_kappa", "informedness")
        assert row.low >= 0 or row.metric in (*signed, "markedness")


def test_intervals_hold_the_truth_where_errors_are_rare():
    """Where no error was seen, quantiles of resampled rows have no width: 15 and 0 of 40."""
    held = {"recall": 0, "auroc": 0}
    for seed in range(40):
        random = np.random.default_rng(seed)
        y = np.repeat([0, 1], [36, 4])
        decided = np.where(random.random(40) < 0.9, y, 1 - y)
        p = norm.cdf(random.normal(size=40) + 3 * y - 1.5)
        for row in metric_table(p, decided, y, metrics=held, resamples=300):
            truth = 0.9 if row.metric == "recall" else norm.cdf(3 / np.sqrt(2))
            held[row.metric] += row.low <= truth <= row.high
    assert min(held.values()) >= 37


# Goals that are not in METRICS.
MEETING = ["precision@recall>=0.8", "recall@fpr<=0.2", "f1@alerts<=0.4"]
MORE = {"binary": MEETING, "multiclass": [], "multilabel": MEETING}


@pytest.mark.parametrize("task", MORE)
def test_the_level_and_the_seed_count_for_every_goal(task):
    p, decided, y = data(task, 100)
    names = [*METRICS, *MORE[task]]
    settings = [{"level": 0.5}, {"level": 0.8}, {}, {"level": 0.99}, {"seed": 1}]
    tables = [metric_table(p, decided, y, task=task, metrics=names, **each) for each in settings]
    for *levels, other in zip(*tables, strict=True):
        for a, b in itertools.pairwise(levels):
            assert b.low < a.low < a.high < b.high
        usual = levels[2]
        assert (usual.low, usual.high) == pytest.approx((other.low, other.high), abs=0.1)
        assert usual != other


def test_areas_need_probabilities_and_shapes_must_agree():
    _, decided, y = data("binary")
    names = [row.metric for row in metric_table(None, decided, y, resamples=10)]
    assert "auroc" not in names
    assert "f1" in names
    with pytest.raises(ValueError, match="shape"):
        metric_table(None, decided[:-1], y)
    with pytest.raises(ValueError, match="level"):
        metric_table(None, decided, y, level=95)
