"""Costs of each row in every classifier: the same decisions as enumeration of the costs."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import softset as ss
from softset.classifiers.explaining import permutation_importances
from softset.classifiers.export import to_torch
from softset.decisions.costs import cheapest_decision

COST = "cost(fn=amount, fp=5)"
MODELS = {
    "linear": ss.MetricLinearClassifier(COST, path=(1e-3,)),
    "network": ss.MetricMLPClassifier(COST, n_networks=5, max_epochs=5, random_state=0),
    "boosting": ss.MetricBoostingClassifier(
        COST, n_estimators=30, n_metric_estimators=5, random_state=0
    ),
    "threshold": ss.MetricThresholdClassifier(LogisticRegression(), COST, random_state=0),
    "forest": ss.MetricThresholdClassifier(
        RandomForestClassifier(30, min_samples_leaf=5, random_state=0), COST, cv="oob"
    ),
    "ensemble": ss.MetricEnsembleClassifier(COST, base_models=["linear"], cv=3, random_state=0),
}


def table(n=600, seed=0):
    """Amounts of orders of magnitude, which tell nothing about the class."""
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(2, n))
    y = (random.random(n) < 1 / (1 + np.exp(2 - 2 * a - b))).astype(int)
    return pd.DataFrame({"a": a, "b": b, "amount": np.exp(2 * random.normal(size=n) + 2)}), y


def spent(predicted, y, amount):
    """The mean cost, one row after the other."""
    costs = {(0, 0): lambda m: 0.0, (0, 1): lambda m: 5.0, (1, 0): lambda m: m, (1, 1): lambda m: 0}
    each = [costs[t, p](m) for t, p, m in zip(y, predicted, amount, strict=True)]
    return sum(each) / len(each)


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return {kind: model.fit(X, y) for kind, model in MODELS.items()}


@pytest.mark.parametrize("kind", MODELS)
def test_the_rule_and_its_score_equal_enumeration(kind, fitted):
    (X, y), model = table(), fitted[kind]
    rule = model.decision_.costs
    scores, amount = model.oof_scores_, X["amount"].to_numpy()
    costs = np.column_stack([0 * amount, 5 + 0 * amount, amount, 0 * amount])
    some = np.isfinite(scores)
    again = cheapest_decision(rule.cost, scores[some], y[some], np.ones(some.sum()), costs[some])
    assert rule.rows == some.sum()
    assert rule.logit == pytest.approx(again.logit)
    assert rule.calibration.slope == pytest.approx(again.calibration.slope, rel=1e-3)
    new, target = table(300, seed=1)
    predicted = model.predict(new)
    if rule.by_row:  # flag if that is cheaper in expectation
        p = rule.calibration(model._scores(model._checked(new)))
        flag = [q * m > (1 - q) * 5 for q, m in zip(p, new["amount"], strict=True)]
        assert predicted.tolist() == [int(f) for f in flag]
    assert model.score(new, target) == pytest.approx(-spent(predicted, target, new["amount"]))
    assert ((model.decision_function(new) > 0) == (predicted == 1)).all()
    assert (model.predict_both(new)[1] == predicted).all()


def test_rows_decided_by_their_costs_are_cheaper_than_one_threshold(fitted):
    model, (new, y) = fitted["linear"], table(4000, seed=2)
    assert model.decision_.costs.by_row
    one = model.with_threshold(model.threshold_).predict(new)
    assert spent(model.predict(new), y, new["amount"]) < 0.9 * spent(one, y, new["amount"])


@pytest.mark.parametrize("kind", ["linear", "threshold"])
def test_arrays_are_as_good_as_columns(kind, fitted):
    X, y = table()
    amount, x = X["amount"].to_numpy(), X.to_numpy()
    by_name = MODELS[kind].__class__(**MODELS[kind].get_params(deep=False))
    by_name.fit(x, y, sample_cost={"amount": amount})
    matrix = np.column_stack([0 * amount, 5 + 0 * amount, amount, 0 * amount])
    by_matrix = by_name.__class__(**{**by_name.get_params(deep=False), "metric": ss.Cost(fn=1)})
    by_matrix.fit(x, y, sample_cost=matrix)
    expected = fitted[kind].predict(X)
    assert (by_name.predict(x, sample_cost={"amount": amount}) == expected).all()
    assert (by_matrix.predict(x, sample_cost=matrix) == expected).all()
    profit = by_name.__class__(
        **{**by_name.get_params(deep=False), "metric": "profit(tp=amount, fp=-5)"}
    ).fit(X, y)  # the same up to a constant
    assert (profit.predict(X) == expected).all()
    gained = np.where(profit.predict(X) == 1, np.where(y == 1, amount, -5), 0).mean()
    assert profit.score(X, y) == pytest.approx(gained)


@pytest.mark.parametrize("kind", ["linear", "network", "boosting", "forest", "ensemble"])
def test_files_and_pickles_decide_alike(kind, fitted, tmp_path):
    X, _ = table(100, seed=3)
    model = fitted[kind]
    model.save(tmp_path / "m.softset")
    again = type(model).load(tmp_path / "m.softset")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.decision_.costs == model.decision_.costs
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def test_what_cannot_be_is_refused_in_one_line(fitted):
    X, y = table(60)
    model = fitted["linear"]
    for call, message in [
        (lambda: model.predict(X.drop(columns="amount")), "feature names"),
        (lambda: to_torch(model), "decides by costs of each row"),
        (lambda: model.at_prevalence(0.1), "decides by costs of each row"),
        (lambda: ss.MetricLinearClassifier(COST).fit(X[["a", "b"]], y), "'amount' has the costs"),
        (lambda: ss.MetricLinearClassifier(COST).fit(X.to_numpy(), y), "Pass it as sample_cost"),
        (
            lambda: ss.MetricLinearClassifier("f1").fit(X, y, sample_cost={"amount": X["a"]}),
            "sample_cost is for a metric such as",
        ),
        (lambda: ss.MetricLinearClassifier(COST).fit(X, X.index % 3), "for two classes"),
        (
            lambda: ss.MetricLinearClassifier(COST).fit(X.assign(amount=np.nan), y, None),
            "NaN|finite",
        ),
        (
            lambda: ss.MetricLinearClassifier(ss.Cost(fn=1)).fit(X, y, None, np.zeros((60, 4))),
            "flagging changes nothing",
        ),
        (
            lambda: ss.MetricLinearClassifier(ss.Cost(fn=1)).fit(X, y, None, np.zeros((60, 3))),
            "60 x 4 finite numbers",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("kind", ["network", "boosting"])
def test_streams_have_no_costs_of_each_row_and_forget_those_of_a_fit_before(kind, fitted):
    X, y = table()
    blocks = [(X.to_numpy(), y)]
    again = pickle.loads(pickle.dumps(fitted[kind]))
    with pytest.raises(ValueError, match="costs of each row need all rows in memory"):
        again.fit(blocks)
    again.set_params(metric="f1").fit(blocks)
    assert again.threshold_ == clone(again).fit(blocks).threshold_
    assert again.decision_.costs is None


def test_a_table_with_its_costs_end_to_end(tmp_path):
    X, y = table()
    X["city"] = np.where(X["a"] > 0, "Rome", "Oslo")
    model = ss.train_model(X, y, COST, recipe="linear-tuned")
    assert model.classifier.decision_.costs.by_row
    predicted = model.predict(X)
    model.save(tmp_path / "m.softset")
    again = ss.load_model(tmp_path / "m.softset")
    assert (again.predict(X) == predicted).all()
    given = {"amount": X["amount"].to_numpy()}
    alone = ss.train_model(
        X.drop(columns="amount"), y, COST, recipe="linear-tuned", sample_cost=given
    )
    bare = X.drop(columns="amount")
    with pytest.raises(ValueError, match="'amount' has the costs of fn"):
        alone.predict(bare)
    assert (alone.predict(bare, sample_cost=given) == alone.predict(X)).all()
    importances = {i.column: i.falls for i in permutation_importances(model, X, y)}
    assert importances["a"] > 0


def test_a_stream_has_no_costs_of_each_row():
    blocks = [(np.zeros((4, 2)), np.array([0, 1, 0, 1]))]
    with pytest.raises(ValueError, match="need all rows in memory"):
        ss.MetricLinearClassifier("cost(fn=amount, fp=1)").fit(blocks)
    with pytest.raises(ValueError, match="need all rows in memory"):
        ss.MetricLinearClassifier("cost(fn=5, fp=1)").fit(blocks, sample_cost=np.ones((4, 4)))
