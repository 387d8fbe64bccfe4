"""The statistics: right size where nothing is to be found, and power where something is."""

import numpy as np
import pytest
import torch

from softset.comparison.statistics import (
    decide,
    holm,
    interval,
    mean_ranks,
    one_row_of,
    paired,
)
from softset.counting.cells import Confusion
from softset.metrics.registry import METRICS, get_metric

FINE = 1e-6  # one row of very many

FAMILIES = {"p1": "plain", "p2": "plain", "p3": "plain", "p4": "plain", "p5": "plain"}
FAMILIES |= {"p6": "plain"} | {f"m{k}": "metric" for k in range(1, 6)}


def table(random, folds=5, repeats=2, gain=None, shared=0.6, noise=0.03):
    """Scores of candidates that are equal but for ``gain``, with the dependence of splits.

    Each candidate's scores have a correlation of n_test / (n_train + n_test) between splits; a
    share of the variance is common to all candidates (some splits are easier).
    """
    splits, rho = folds * repeats, 1 / folds

    def correlated():
        return np.sqrt(rho) * random.randn() + np.sqrt(1 - rho) * random.randn(splits)

    easy = correlated()
    scores = {}
    for c in FAMILIES:
        own = correlated()
        scores[c] = 0.6 + noise * (np.sqrt(shared) * easy + np.sqrt(1 - shared) * own)
        scores[c] = scores[c] + (gain or {}).get(c, 0.0)
    return scores


def outcomes(runs, seed=0, **settings):
    random = np.random.RandomState(seed)
    folds = settings.get("folds", 5)
    found = [decide(table(random, **settings), FAMILIES, 1 / folds, FINE) for _ in range(runs)]
    return [d.outcome for d in found], found


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("folds", [5, 10])
def test_equal_candidates_give_no_clear_difference(folds, repeats):
    said, _ = outcomes(200, folds=folds, repeats=repeats)
    assert said.count("none") >= 190


def test_the_corrected_test_has_its_level():
    """Without the correction a t-test at 5 % is wrong far more often; with it, in about 5 %."""
    random = np.random.RandomState(0)
    corrected, naive = [], []
    for _ in range(1000):
        scores = table(random, repeats=4)
        d = scores["m1"] - scores["p1"]
        corrected.append(paired(scores["m1"], scores["p1"], 0.2, FINE).p <= 0.05)
        naive.append(abs(d.mean()) / d.std(ddof=1) * np.sqrt(20) > 2.093)  # t of 19, 97.5 %
    assert 0.035 < np.mean(corrected) < 0.065
    assert np.mean(naive) > 0.25


def test_equal_best_plain_candidates_do_not_help_a_metric_candidate():
    """All metric candidates as good as the best plain one, the other plain ones far behind."""
    gain = {f"p{k}": -0.2 for k in range(2, 7)}
    said, _ = outcomes(200, gain=gain)
    assert said.count("metric") <= 10


@pytest.mark.parametrize(("winner", "outcome"), [("m3", "metric"), ("p2", "plain")])
def test_a_planted_gain_is_found(winner, outcome):
    said, found = outcomes(100, gain={winner: 0.10}, repeats=3)
    assert said.count(outcome) >= 95
    assert sum(d.winner == winner for d in found) >= 95
    assert all(d.reference == "p2" for d in found) is (winner == "p2")


def test_a_tiny_gain_is_not():
    said, _ = outcomes(100, gain={"m3": 0.004})
    assert said.count("none") >= 90


def test_intervals_cover():
    random = np.random.RandomState(2)
    inside = []
    for _ in range(1000):
        _, low, high = interval(table(random)["p1"], 0.2, FINE)
        inside.append(low <= 0.6 <= high)
    assert 0.93 < np.mean(inside) < 0.97


def test_by_hand():
    d = paired([0.5, 0.6, 0.7], [0.4, 0.4, 0.4], 0.25, FINE)
    # Differences 0.1, 0.2, 0.3: variance 0.01, factor 1/3 + 1/3, so t = 0.2 / sqrt(0.00667).
    assert d.mean == pytest.approx(0.2)
    assert d.p == pytest.approx(2 * 0.0669873, abs=1e-4)
    assert d.probability == pytest.approx(1 - d.p / 2)
    assert (d.low + d.high) / 2 == pytest.approx(0.2)


def test_one_split_says_nothing():
    single = paired([0.6], [0.5], 0.2, 0.01)
    assert (single.p, single.probability, single.low, single.high) == (1, 0.5, None, None)
    assert interval([0.6], 0.2, 0.01) == (0.6, None, None)


# --- scores that are counts of few rows ----------------------------------------------------------


def test_no_spread_is_no_certainty():
    assert paired([0.5] * 5, [0.5] * 5, 0.2, 0.01).p == 1
    one, many = (paired([0.5 + k * 0.01] * 5, [0.5] * 5, 0.2, 0.01) for k in (1, 40))
    assert one.p > 0.2  # a row more in each of five splits
    assert many.p < 0.05  # forty rows more in each of them
    assert one.low < 0 < many.low
    two = paired([0.9, 0.9], [0.5, 0.5], 0.5, 0.01)
    assert 0.05 < two.p < 1
    low, high = interval([1.0] * 5, 0.2, 0.01)[1:]
    assert low < 1 < high


def test_the_floor_is_out_of_the_way_where_scores_vary():
    first, second = [0.71, 0.78, 0.73, 0.70, 0.75], [0.70, 0.72, 0.74, 0.69, 0.70]
    assert paired(first, second, 0.2, 0.01) == paired(first, second, 0.2, FINE)


@pytest.mark.parametrize("metric", [name for name in METRICS if not get_metric(name).curve])
@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_one_row_is_the_worst_of_one_wrong_decision(metric, task):
    """Against every single wrong decision, of counts that are all different."""
    m, sizes = get_metric(metric), [30, 5, 12] if task != "binary" else [30, 5]
    found = one_row_of(m, task, sizes, 40)
    tensor = torch.tensor(sizes, dtype=torch.float64)
    costs = []
    if task == "multilabel":
        total = torch.full_like(tensor, 40)
        perfect = m(Confusion(tensor, tensor, tensor, total, task))
        for k in range(3):
            one = torch.eye(3, dtype=torch.float64)[k]
            costs += [
                m(Confusion(tensor - one, tensor - one, tensor, total, task)),
                m(Confusion(tensor, tensor + one, tensor, total, task)),
            ]
    else:
        perfect = m(Confusion.from_matrix(torch.diag(tensor), task))
        for i in range(len(sizes)):
            for j in set(range(len(sizes))) - {i}:
                wrong = torch.diag(tensor)
                wrong[i, i] -= 1
                wrong[i, j] += 1
                costs.append(m(Confusion.from_matrix(wrong, task)))
    largest = max(abs(float(perfect - c)) for c in costs)
    assert largest / 2 < found <= largest + 1e-12


def test_areas_change_by_one_positive():
    assert one_row_of(get_metric("auroc"), "binary", [90, 10], 100) == pytest.approx(0.1)


def decided_rows(random, rows, share, folds, repeats, metric, families, own=0.5, luck=0.2):
    """Scores of equally good candidates from decisions on rows, and the grain of the metric.

    What is easy is shared, each candidate has a view of its own on each row, each fit some luck.
    """
    positives = max(folds, round(rows * share))
    y = np.arange(rows) < positives
    seen = 1.5 * y + random.standard_normal(rows)
    seen = seen + own * random.standard_normal((len(families), rows))
    cells = []
    for _ in range(repeats):
        place = np.empty(rows, dtype=int)
        for k in (True, False):
            own_rows = random.permutation(np.flatnonzero(y == k))
            place[own_rows] = np.arange(len(own_rows)) % folds
        for fold in range(folds):
            test = place == fold
            noise = random.standard_normal((len(families), test.sum()))
            fit = luck * random.standard_normal((len(families), 1))
            said = seen[:, test] + 0.3 * own * noise + fit > 0.9
            counts = [(said & y[test]).sum(1), said.sum(1)]
            sums = [np.full(len(families), v) for v in (y[test].sum(), test.sum())]
            cells.append(np.stack(counts + sums))
    c = Confusion(*(torch.from_numpy(v.astype(float)) for v in np.stack(cells, -1)))
    scores = dict(zip(families, get_metric(metric)(c).numpy(), strict=True))
    test_rows = rows // folds
    return scores, one_row_of(
        get_metric(metric),
        "binary",
        [test_rows - positives // folds, positives // folds],
        test_rows,
    )


PAIR = {"p": "plain", "m": "metric"}
# Rows, positives, folds, repeats, metric, candidates, how much views of rows and luck differ.
EQUAL = [
    (12, 0.5, 2, 1, "accuracy", PAIR, 0.5, 0.2),
    (60, 0.2, 2, 1, "accuracy", PAIR, 0.1, 0.0),
    (200, 0.1, 2, 1, "accuracy", PAIR, 0.1, 0.0),
    (200, 0.1, 2, 1, "f1", PAIR, 0.5, 0.2),
    (60, 0.2, 2, 2, "f1", PAIR, 0.5, 0.2),
    (30, 0.3, 5, 1, "mcc", PAIR, 0.1, 0.0),
    (60, 0.2, 5, 2, "accuracy", FAMILIES, 0.1, 0.0),
    (1000, 0.05, 5, 1, "f1", FAMILIES, 0.5, 0.2),
    (1000, 0.05, 10, 1, "balanced_accuracy", PAIR, 0.5, 0.2),
]


def _id(setting):
    rows, _, folds, repeats, metric, families, *_ = setting
    return f"{rows}-{folds}x{repeats}-{metric}-{len(families)}"


def false_verdicts(tables, rows, share, folds, repeats, metric, families, own, luck):
    random = np.random.default_rng(rows + folds)
    found = 0
    for _ in range(tables):
        scores, grain = decided_rows(
            random, rows, share, folds, repeats, metric, families, own, luck
        )
        found += decide(scores, families, 1 / folds, grain).outcome != "none"
    return found


@pytest.mark.parametrize("setting", EQUAL[:4], ids=_id)
def test_two_folds_of_few_rows_make_no_verdict(setting):
    assert false_verdicts(200, *setting) <= 0.05 * 200


@pytest.mark.slow
@pytest.mark.parametrize("setting", EQUAL, ids=_id)
def test_equal_candidates_get_a_verdict_in_a_twentieth_at_most(setting):
    assert false_verdicts(2000, *setting) <= 0.05 * 2000


@pytest.mark.parametrize("apart", [1, 3])
@pytest.mark.parametrize("folds", [2, 3, 4, 5, 10])
def test_differences_of_one_size_are_no_verdict(folds, apart):
    """Every split is ``apart`` rows better or worse, by the toss of a coin."""
    random, found = np.random.default_rng(folds), 0
    for _ in range(2000):
        won = 0.01 * apart * random.choice([-1, 1], folds)
        scores = {"p": np.full(folds, 0.5), "m": 0.5 + won}
        found += decide(scores, PAIR, 1 / folds, 0.01).outcome != "none"
    assert found <= 0.05 * 2000


def test_holm_against_the_definition():
    random = np.random.RandomState(3)
    for _ in range(50):
        p = random.rand(6)
        adjusted = holm(p)
        for level in (0.01, 0.2, 0.5):
            order, rejected = np.argsort(p), set()
            for step, k in enumerate(order):
                if p[k] > level / (6 - step):
                    break
                rejected.add(k)
            assert rejected == {k for k in range(6) if adjusted[k] <= level}


def test_ranks_share_ties():
    ranks = mean_ranks({"a": [3, 1], "b": [2, 1], "c": [1, 0]})
    assert ranks == {"a": 1.25, "b": 1.75, "c": 3.0}


BAD = [
    (lambda: paired([1.0], [2.0], 1.0, FINE), "test_share"),
    (lambda: paired([1.0], [2.0], 0.2, 0.0), "one_row"),
    (lambda: interval([], 0.2, FINE), "scores must be finite"),
    (lambda: interval([np.nan], 0.2, FINE), "scores must be finite"),
    (lambda: decide({"m": [1.0]}, {"m": "metric"}, 0.2, FINE), "family 'plain'"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
