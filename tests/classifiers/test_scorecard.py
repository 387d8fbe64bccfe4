"""A scorecard is what is printed: whole points, bins, a threshold and a measured score."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

import softset as ss
from softset import MetricLinearClassifier
from softset.classifiers import scorecard
from softset.classifiers.scorecard import BINS, MOST_FEATURES, Scorecard, _edges


def table(n=1200, features=10, seed=0):
    """Features of many kinds: continuous, 0/1, counts, mostly zero, far from 0, constant."""
    x, y = make_classification(
        n, features, n_informative=6, weights=[0.8], flip_y=0.05, random_state=seed
    )
    x[:, 0] = x[:, 0] > 0
    x[:, 1] = np.rint(x[:, 1])
    x[:, 2] = np.where(x[:, 2] > 1, x[:, 2], 0.0)
    x[:, 3] = 1e6 + x[:, 3]
    x[:, 4] *= 1e-5
    x[:, 5] = 7.0
    return x, y


@pytest.fixture(scope="module")
def data():
    return table()


QUICK = {"cv": 3, "path": (0.03,)}


@pytest.fixture(scope="module")
def model(data):
    return MetricLinearClassifier("f1", **QUICK).fit(*data)


@pytest.fixture(scope="module")
def card(model):
    return model.scorecard()


def read_back(text, names, x):
    """Predictions of someone who has nothing but the printed page."""
    lines = text.split("\n")
    threshold = int(re.match(r".*: (\d+) points or more", lines[1]).group(1))
    totals = np.zeros(len(x), dtype=int)
    for top, bottom in zip(lines[4::2], lines[5::2], strict=True):
        name, *bins = re.split(r"\s{2,}", top.strip())
        points = [int(p) for p in bottom.split()]
        assert len(bins) == len(points)
        column = x[:, names.index(name)]
        left = np.ones(len(x), dtype=bool)
        for b, p in zip(bins, points, strict=True):
            sign, number = b.split()
            within = {"<": np.less, "=": np.equal, ">=": np.greater_equal}[sign]
            inside = left & within(column, float(number))
            totals[inside] += p
            left &= ~inside
        assert not left.any()
    return totals, totals >= threshold


def test_predictions_are_those_of_the_printed_table(data, card):
    names = [f"x{i}" for i in range(10)]
    new = np.concatenate([data[0], table(seed=1)[0]])
    totals, positive = read_back(str(card), names, new)
    np.testing.assert_array_equal(totals, card.points(new))
    np.testing.assert_array_equal(positive, card.predict(new))
    assert 0 < positive.mean() < 1


@pytest.mark.parametrize("seed", range(2))
def test_predictions_are_those_of_the_printed_table_on_other_data(seed):
    x, y = table(400, 8, seed)
    x *= 10.0 ** np.random.RandomState(seed).randint(-9, 9, 8)
    found = MetricLinearClassifier("mcc", **QUICK).fit(x, y).scorecard(7)
    _, positive = read_back(str(found), [f"x{i}" for i in range(8)], x)
    np.testing.assert_array_equal(positive, found.predict(x))


def test_values_on_an_edge_belong_to_the_upper_bin(card):
    for f in card.features:
        np.testing.assert_array_equal(f(f.edges), f.points[1:])
        np.testing.assert_array_equal(f(np.nextafter(f.edges, -np.inf)), f.points[:-1])


@pytest.mark.parametrize("max_points", [1, 3, 20, 1000])
def test_points_are_whole_and_bounded(model, max_points):
    found = model.scorecard(max_points)
    points = [row.points for row in found.table]
    assert all(type(p) is int for p in points)
    assert min(points) == 0
    assert max_points / 2 <= max(points) <= max_points
    assert all(f.points.min() == 0 and f.points.max() > 0 for f in found.features)


def test_finer_points_come_near_the_model(data, model):
    x, y = data
    gap = abs(model.scorecard(1000).score(x, y) - model.score(x, y))
    assert gap < 0.05
    assert model.scorecard(1).score(x, y) < model.score(x, y)


def test_features_of_two_values_stay_as_they_are(card):
    bins = {row.bin for row in card.table if row.feature == "x0"}
    assert bins == {"= 0", "= 1"}
    assert not any(row.feature == "x5" for row in card.table)  # constant


def test_signs_carry_over(data):
    x, y = data
    monotonic_cst = [1, -1, 0, 1, -1, 0, 1, -1, 1, -1]
    found = MetricLinearClassifier("f1", monotonic_cst=monotonic_cst, **QUICK).fit(x, y).scorecard()
    for f in found.features:
        if monotonic_cst[f.column]:
            assert (np.diff(f.points) * monotonic_cst[f.column] > 0).all()
    assert sum(monotonic_cst[f.column] != 0 for f in found.features) >= 2


def test_the_measured_score_is_out_of_fold():
    """Labels that are noise: a scorecard that saw its rows would look better than chance."""
    rng = np.random.RandomState(0)
    x, y = rng.randn(200, 30), rng.randint(0, 2, 200)
    model = MetricLinearClassifier("balanced_accuracy", path=()).fit(x, y)
    found = model.scorecard()
    assert found.score(x, y) > found.score_ + 0.1
    assert abs(found.score_ - 0.5) < 0.1


@pytest.mark.slow
def test_the_measured_score_is_near_that_of_new_rows():
    x, y = table(4000)
    apart = []
    for seed in range(3):  # each of them is off by .03 or so
        a, b, c, d = train_test_split(x, y, test_size=0.5, random_state=seed, stratify=y)
        found = MetricLinearClassifier("f1", **QUICK).fit(a, c).scorecard()
        apart.append(found.score_ - found.score(b, d))
    assert abs(np.mean(apart)) < 0.04
    assert found.score(b, d) == pytest.approx(
        ss.evaluate(found.predict(b).astype(float), d, "f1", from_logits=False)
    )


def test_it_fits_on_a_page():
    x, y = make_classification(800, 60, n_informative=30, n_redundant=0, random_state=0)
    wide = MetricLinearClassifier("f1", path=()).fit(x, y).scorecard()
    assert len(wide.features) == MOST_FEATURES
    assert len(str(wide).split("\n")) <= 60
    twenty = MetricLinearClassifier("f1", path=()).fit(x[:, :20], y).scorecard()
    assert len(twenty.features) > 15
    assert len(str(twenty).split("\n")) <= 60
    assert max(len(line) for line in str(twenty).split("\n")) <= 100


def test_it_is_deterministic_and_blind_to_the_order_of_rows(data, card):
    x, y = data
    order = np.random.RandomState(0).permutation(len(y))
    again = MetricLinearClassifier("f1", **QUICK).fit(x[order], y[order]).scorecard()
    assert str(again) == str(card)


def test_a_weight_of_zero_is_no_row_and_the_scale_of_weights_means_nothing(data):
    x, y = data[0][:400], data[1][:400]
    w = np.random.RandomState(0).randint(0, 3, 400)
    some = w > 0
    given = ((x, y, w), (x, y, 1000 * w), (x[some], y[some], w[some]))
    cards = {str(MetricLinearClassifier("f1", **QUICK).fit(*rows).scorecard()) for rows in given}
    assert len(cards) == 1


def test_names_classes_and_the_positive_one(data):
    x, y = data
    frame = pd.DataFrame(x, columns=[f"the {c}" for c in "abcdefghij"])
    text = np.where(y == 1, "bad", "good")
    found = MetricLinearClassifier("f1", pos_label="bad", **QUICK).fit(frame, text).scorecard()
    assert str(found).split("\n")[1].startswith("bad: ")
    assert {row.feature for row in found.table} <= set(frame.columns)
    assert set(found.predict(frame)) == {"bad", "good"}
    np.testing.assert_array_equal(found.predict(frame) == "bad", found.points(x) >= found.threshold)
    # Columns are found by name, and others may be missing.
    used = [f.name for f in found.features][::-1]
    np.testing.assert_array_equal(found.points(frame[used]), found.points(x))
    assert found.score(frame, text) > 0.4


def test_sparse_inputs(data):
    x = sparse.csr_matrix(np.where(np.abs(data[0]) < 1, 0, data[0])[:, [0, 1, 2, 6, 7, 8]])
    found = MetricLinearClassifier("f1", **QUICK).fit(x, data[1]).scorecard()
    np.testing.assert_array_equal(found.points(x), found.points(x.toarray()))
    assert found.score_ > 0.4


def test_a_given_threshold_is_kept(data):
    x, y = data
    low, high = (
        MetricLinearClassifier("f1", path=(), threshold=t).fit(x, y).scorecard().threshold
        for t in (0.1, 0.9)
    )
    assert low < high


def test_given_splits(data):
    x, y = data
    half = np.arange(len(y)) % 2
    splits = [(np.flatnonzero(half != k), np.flatnonzero(half == k)) for k in range(2)]
    found = MetricLinearClassifier("f1", cv=splits).fit(x, y).scorecard()
    assert abs(found.score_ - found.score(x, y)) < 0.1


@pytest.mark.parametrize("name", ["scorecard", "logistic_part"])
def test_models_from_files_hold_no_rows(model, data, tmp_path, name):
    model.save(tmp_path / "m.softset")
    loaded = MetricLinearClassifier.load(tmp_path / "m.softset")
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(data[0]), model.predict(data[0]))
        with pytest.raises(ValueError, match=f"{name} needs rows that fit has seen"):
            getattr(other, name)()


def test_bad_requests_are_named(model, card, data):
    x, y = data
    for bad in (0, 2.5, "many"):
        with pytest.raises(ValueError, match="max_points must be an integer"):
            model.scorecard(bad)
    for metric, target in (("f1", (x[:, 6, None] > [0, 1]).sum(1)), ("auroc", y)):
        other = MetricLinearClassifier(metric, path=()).fit(x, target)
        with pytest.raises(ValueError, match="scorecard is for two classes and a metric of dec"):
            other.scorecard()
    with pytest.raises(ValueError, match="X must have 10 columns"):
        card.points(x[:, :4])
    with pytest.raises(ValueError, match="columns of the scorecard"):
        card.points(pd.DataFrame(x[:, :1], columns=["x0"]))
    x = x.copy()
    x[3] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        card.points(x)


def test_nothing_to_add_up():
    """No coefficient survives: an empty table that says one class."""
    x, y = table(200)
    found = MetricLinearClassifier("f1", C=1e-6, l1_ratio=1.0, path=()).fit(x, y).scorecard()
    assert isinstance(found, Scorecard)
    assert found.table == []
    assert len(set(found.predict(x))) == 1


def test_edges_are_round_and_share_the_rows():
    rng = np.random.RandomState(0)
    x = np.sort(rng.gamma(2.0, 20.0, 5000))
    edges = _edges(x, np.ones(len(x)), integers=False)
    shares = np.diff([0, *np.searchsorted(x, edges), len(x)]) / len(x)
    assert len(edges) == BINS - 1
    assert (np.abs(shares - 1 / BINS) < 0.25 / BINS).all()
    assert all(len(f"{e:g}") <= 3 for e in edges)
    # One value with most of the rows has a bin; the rest is shared among the others.
    values, mass = np.arange(50.0), np.array([1000.0] + [1.0] * 49)
    assert _edges(values, mass, integers=True)[0] == 1
    assert len(_edges(values, mass, integers=True)) == BINS - 1
    assert _edges(np.array([0.0, 1.0]), np.array([1.0, 99.0]), integers=True).tolist() == [1.0]
    assert _edges(np.array([3.0]), np.array([1.0]), integers=True).tolist() == []


def test_bins_of_weighted_rows_are_those_of_repeated_ones():
    random = np.random.default_rng(0)
    x = random.normal(size=80)
    times = np.where(x > 0, 6, 1)
    weighted = scorecard._Binned.of(x, times.astype(float))
    repeated = scorecard._Binned.of(np.repeat(x, times), np.ones(times.sum()))
    assert len(weighted.edges) > 3
    np.testing.assert_array_equal(weighted.edges, repeated.edges)
    np.testing.assert_allclose(weighted.means, repeated.means)
