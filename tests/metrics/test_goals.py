"""A kind of goal that exists nowhere: the test adds it in this file and with one row of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import softset as ss
from softset import cli
from softset.decisions.thresholds import ConstraintWarning
from softset.decisions.tuner import Tuner
from softset.metrics import registry
from softset.metrics.goals import Goal
from softset.metrics.grid import Grid
from softset.metrics.meeting import Solved
from softset.metrics.registry import get_goal
from tests.reference import random_problem


@dataclass(frozen=True)
class BreakEven(Solved):
    """Where as many are flagged as there are positives."""

    suffix = "@break-even"

    def excess(self, c):
        return (c.support - c.predicted) / c.total

    def shortfall(self, c):
        return -self.excess(c).abs()

    def value(self, metric, c, empty=None):
        return metric(c, empty=empty)


@pytest.fixture(autouse=True)
def break_even(monkeypatch):
    monkeypatch.setitem(registry.PLACES, "break-even", lambda found: BreakEven())


def rank(said, y, w, wanted):
    """How far decisions are from being allowed, and their precision."""
    tp, predicted, support = (w * y * said).sum(), (w * said).sum(), (w * y).sum()
    missed = abs(predicted - support) if wanted is None else max(0.0, wanted - tp / support)
    return -round(float(missed), 9), round(float(tp / predicted) if predicted else 0.0, 9)


def brute_force(z, y, w, wanted=None):
    """The best rank of all cuts, one after another."""
    return max(rank(z >= cut, y, w, wanted) for cut in [*np.unique(z), np.inf])


def rows(seed, n=60, tied=False, weighted=False):
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.3).astype(int)
    y[:2] = 0, 1
    z = random.normal(size=n) + 1.5 * y
    z = z.round(0) if tied else z
    return z, y, random.integers(0, 4, n).astype(float) if weighted else np.ones(n)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wanted", [None, 0.5, 0.9, 1.0])
def test_thresholds_and_values_equal_brute_force_over_all_thresholds(tied, weighted, wanted):
    name = "precision@break-even" if wanted is None else f"precision@recall>={wanted}"
    for seed in range(20):
        z, y, w = rows(seed, tied=tied, weighted=weighted)
        best = brute_force(z, y, w, wanted)
        tau = ss.best_threshold(z, y, name, sample_weight=w, from_logits=True)
        assert rank(torch.sigmoid(torch.tensor(z)).numpy() >= tau, y, w, wanted) == best
        value = ss.evaluate(z, y, name, sample_weight=w, from_logits=True)
        assert value == pytest.approx(best[1], abs=1e-8)  # recall can always be met


NAMES = ["precision@break-even", "precision@recall>=0.7", "recall@precision>=0.6"]
NAMES += ["recall@fpr<=0.2", "recall@alerts<=0.3", "f1@recall>=0.7&fpr<=0.6"]
NAMES += ["f1@recall>=0.95&fpr<=0.02"]  # not met together


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_the_gradient_goes_through_the_threshold(name, task):
    n = 24 if task == "binary" else 12
    z, y = random_problem(task, n=n, classes=2, seed=1)
    w = torch.linspace(0.5, 1.5, n, dtype=torch.float64)
    z = (z + 1.5 * y).double().requires_grad_()

    loss = ss.MetricLoss(name, task=task, step=ss.SigmoidStep(3.0))
    assert torch.autograd.gradcheck(lambda z: loss(z, y, w), z, eps=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_shifted_scores_have_the_same_loss(name):
    z, y = random_problem("binary", n=200)
    z = (z + y).double()
    a, b = (ss.metric_loss(z + shift, y, name) for shift in (0.0, 3.0))
    assert float(a) == pytest.approx(float(b), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_sharp_limit_is_the_hard_value(name):
    for seed in range(5):
        z, y, _ = rows(seed, n=40)
        hard = ss.evaluate(z, y, name, from_logits=True)
        soft = 1 - float(ss.metric_loss(torch.tensor(z), y, name, step=ss.SigmoidStep(1e4)))
        # A soft threshold may lie on a row, and then counts a part of it.
        assert soft == pytest.approx(hard, abs=2 / y.sum())


@pytest.mark.filterwarnings("ignore:precision 0.9 is not reached")
def test_a_constraint_out_of_reach_is_missed_by_as_little_as_can_be():
    z, y = [3.0, 2.0, 1.0, 0.0], [0, 1, 1, 0]
    # The best precision is 2/3, at recall 1.
    assert ss.evaluate(z, y, "recall@precision>=0.9", from_logits=True) == pytest.approx(
        2 / 3 - 0.9
    )
    with pytest.warns(ConstraintWarning, match="precision 0.9 is not reached; 0.667 is"):
        tau = ss.best_threshold(z, y, "recall@precision>=0.9", from_logits=True)
    assert 0.0 < tau < torch.tensor(1.0).sigmoid()


def test_labels_meet_constraints_each_on_its_own():
    z, y = random_problem("multilabel", n=80)
    z = z + y
    taus = ss.best_threshold(z, y, "precision@recall>=0.8", task="multilabel", from_logits=True)
    for k, tau in enumerate(taus):
        assert tau == ss.best_threshold(z[:, k], y[:, k], "precision@recall>=0.8", from_logits=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ss.evaluate([1.0, -1.0], [1, 0], "f1@recall>=0.5", threshold=0.3),
            "does not appl",
        ),
        (lambda: ss.MetricLoss("f1@recall>=0.5", thresholds=[0.2, 0.4]), "do not apply"),
        (lambda: ss.MetricLoss("f1@recall>=0.5", ema_decay=0.9), "ema_decay and sync"),
        (
            lambda: ss.evaluate(-torch.eye(3), [0, 1, 2], "f1@recall>=0.5", task="multiclass"),
            "task",
        ),
        (lambda: ss.evaluate([1.0, -1.0], [1, 0], "f1@recall>=0.5", per=[0, 1]), "per='batch'"),
        (lambda: get_goal("f1@recall<=0.5"), "constraint"),
        (lambda: get_goal("f1@recall>=1.5"), "recall must be"),
        (lambda: get_goal("f1@best"), "after '@'"),
        (lambda: get_goal("auroc@recall>=0.5"), "over all thresholds"),
        (lambda: ss.get_metric(ss.At("f1", recall=0.5)), "metric alone"),
        (lambda: ss.At("f1"), "k, or constraints"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_names_lead_back_to_goals():
    for goal in (ss.At("precision", recall=0.9), ss.At("f1", recall=0.8, fpr=0.01)):
        assert get_goal(goal.name) == goal
    assert registry.label_of("f1@recall>=0.8") == "F1@recall>=0.8"
    assert Goal(ss.F1(), Grid((0.2, 0.4))).name == "f1"


def test_the_mean_over_a_grid_is_judged_as_it_is_trained():
    z, y, _ = rows(0)
    goal = Goal(ss.F1(), Grid((0.2, 0.5)))
    each = [ss.evaluate(z, y, "f1", threshold=t, from_logits=True) for t in (0.2, 0.5)]
    assert ss.evaluate(z, y, goal, from_logits=True) == pytest.approx(np.mean(each))


# --- one file and one row: it works everywhere ----------------------------------------------------

NAME = "precision@break-even"
MODELS = {
    "threshold": lambda: ss.MetricThresholdClassifier(LogisticRegression(), NAME),
    "linear": lambda: ss.MetricLinearClassifier(NAME, cv=2, path=(0.003,)),
    "network": lambda: ss.MetricMLPClassifier(NAME, n_networks=1, max_epochs=3, random_state=0),
    "boosting": lambda: ss.MetricBoostingClassifier(
        NAME, n_estimators=5, n_metric_estimators=2, random_state=0
    ),
    "forest": lambda: ss.MetricThresholdClassifier(
        RandomForestClassifier(10, random_state=0), NAME, cv="oob"
    ),
    "ensemble": lambda: ss.MetricEnsembleClassifier(
        NAME, base_models=["extra-trees", "forest"], cv=2, random_state=0
    ),
}  # fmt: skip


@pytest.fixture
def tuned(monkeypatch):
    """Scores, labels, weights and the decision of every tuning."""
    seen = []
    tune = Tuner.tune

    def spy(self, scores, y, w=None, crossed=None):
        decision = tune(self, scores, y, w, crossed)
        seen.append((scores, y, np.ones(len(y)) if w is None else w, decision))
        return decision

    monkeypatch.setattr(Tuner, "tune", spy)
    return seen


def check_decisions(seen):
    assert seen
    for scores, y, w, decision in seen:
        assert rank(decision(scores), y, w, None) == brute_force(scores, y, w)


def table(n=150):
    x, y = make_classification(n, 5, weights=[0.8], flip_y=0.1, random_state=0)
    return x, y


@pytest.mark.usefixtures("quick_parts")
@pytest.mark.parametrize("kind", MODELS)
def test_every_classifier_decides_where_the_goal_says(kind, tuned):
    x, y = table()
    model = MODELS[kind]().fit(x, y, sample_weight=np.where(np.arange(150) % 3, 1.0, 2.0))
    check_decisions(tuned[-1:])
    scores, _, _, decision = tuned[-1]
    assert model.threshold_ == decision.threshold
    if model.oof_scores_ is not None:  # it was tuned on these, in another order
        oof = model.oof_scores_[np.isfinite(model.oof_scores_)]
        np.testing.assert_allclose(np.sort(oof), np.sort(scores))
    assert model.score(x, y) == ss.evaluate(
        model._scores(x), y, NAME, from_logits=True
    )  # at the place of these rows, whatever the threshold


@pytest.mark.parametrize("kind", ["linear", "network", "boosting"])
def test_several_labels_decide_each_where_the_goal_says(kind, tuned):
    x, y = table()
    MODELS[kind]().fit(x, np.column_stack([y, 1 - y]))
    scores, labels, w, decision = tuned[-1]
    for k in range(2):
        said = decision(scores)[:, k]
        assert rank(said, labels[:, k], w, None) == brute_force(scores[:, k], labels[:, k], w)


def test_compare_ranks_by_the_goal(tuned):
    candidates = ["linear-tuned", "linear-metric", "forest-tuned"]
    found = ss.compare(*table(), NAME, candidates=candidates, quick=True, cv=2, n_jobs=1)
    check_decisions(tuned)
    assert found.metric == NAME
    for c in found.candidates:
        assert all(0 <= score <= 1 for score in c.scores)


def test_the_command_trains_for_it(tuned, tmp_path):
    x, y = table()
    pd.DataFrame(x).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    model = tmp_path / "model.softset"
    given = ["train", str(tmp_path / "rows.csv"), "--target", "y", "--metric", NAME]
    with pytest.raises(SystemExit) as stop:
        cli.main([*given, "--recipe", "linear-tuned", "-o", str(model)])
    assert stop.value.code == 0
    check_decisions(tuned)
    assert ss.load_model(model).metric == NAME


def test_what_a_consumer_cannot_do_it_refuses():
    x, y = table(60)
    for model in (ss.MetricLinearClassifier(NAME), ss.MetricBoostingClassifier(NAME)):
        with pytest.raises(ValueError, match="task='binary' and 'multilabel'"):
            model.fit(x, np.arange(60) % 3)
    with pytest.raises(ValueError, match="does not apply"):
        ss.evaluate(x[:, 0], y, NAME, threshold=0.3, from_logits=True)
    assert ss.MetricThresholdClassifier(LogisticRegression(), NAME).fit(x, y).interval_ is None
