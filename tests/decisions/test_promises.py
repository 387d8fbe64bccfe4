"""Promises hold as often as they say, and say what cannot be promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import softset as ss
from softset.decisions.promises import Promise, PromiseWarning, promises_of
from softset.metrics.registry import get_goal

APART = 2.5


def draw(random, n, prevalence, tied=False):
    """Normal scores of two classes; ``tied`` puts them on few values."""
    y = (random.random(n) < prevalence).astype(int)
    x = random.normal(size=n) + APART * y
    return (np.ceil(x * 2) / 2 if tied else x), y


def true_rates(t, prevalence, tied=False):
    """Recall, false positive rate, precision and alerts of new rows."""
    # A score on the grid is at least t if the one before rounding is above the next lower value.
    t = np.ceil(t * 2) / 2 - 0.5 if tied else t
    recall, fpr = norm.sf(t - APART), norm.sf(t)
    alerts = prevalence * recall + (1 - prevalence) * fpr
    precision = prevalence * recall / alerts if alerts > 0 else 1.0
    return {"recall": recall, "fpr": fpr, "precision": precision, "alerts": alerts}


def misses(rates, name, bound):
    return rates[name] < bound if name in ("recall", "precision") else rates[name] > bound


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("goal", "prevalence", "n"),
    [
        ("precision@recall>=0.8", 0.1, 400),
        ("recall@fpr<=0.1", 0.3, 200),
        ("recall@alerts<=0.2", 0.1, 200),
        ("recall@precision>=0.7", 0.2, 400),
        ("f1@recall>=0.7&fpr<=0.2", 0.3, 400),
    ],
)
def test_promises_are_broken_as_rarely_as_they_say(goal, prevalence, n, tied):
    random, draws, broken, answers = np.random.default_rng(1), 200, 0, 0
    for _ in range(draws):
        x, y = draw(random, n, prevalence, tied)
        kept = ss.promise(x, y, goal, confidence=0.8)
        if kept.threshold is None:
            continue
        answers += 1
        rates = true_rates(kept.logit, prevalence, tied)
        bounds = np.atleast_1d(kept.bound)
        broken += any(map(misses, [rates] * 2, kept.rate.split("&"), bounds))
    assert broken <= binom.ppf(0.999, draws, 0.2)
    assert answers > draws / 2
    if not tied and "&" not in goal and "precision>=" not in goal:
        assert broken >= binom.ppf(0.001, draws, 0.1)  # and not by being needlessly careful


def test_a_count_of_alerts_is_a_prediction_of_new_rows():
    random, draws, broken = np.random.default_rng(2), 300, 0
    for _ in range(draws):
        x, y = draw(random, 300, 0.1)
        kept = ss.promise(x, y, "recall@alerts<=20/100", confidence=0.8)
        broken += (draw(random, 100, 0.1)[0] >= kept.logit).sum() > 20
    assert binom.ppf(0.001, draws, 0.1) <= broken <= binom.ppf(0.999, draws, 0.2)


@pytest.mark.parametrize("tied", [False, True])
def test_a_promise_of_recall_is_the_order_statistic(tied):
    random = np.random.default_rng(3)
    for _ in range(20):
        x, y = draw(random, 300, 0.3, tied)
        kept = ss.promise(x, y, "specificity@recall>=0.9", confidence=0.95)
        positives = np.sort(x[y == 1])
        k = np.arange(1, len(positives) + 1)
        allowed = k[binom.cdf(k - 1, len(positives), 0.1) <= 0.05].max()
        assert (x[y == 1] < kept.logit).sum() <= allowed - 1
        # No other threshold that loses as few positives flags fewer negatives.
        negatives = x[y == 0]
        flagged = [(negatives >= t).sum() for t in x if (positives < t).sum() < allowed]
        assert (negatives >= kept.logit).sum() == min(flagged)


@pytest.mark.parametrize(("positives", "needed"), [(35, 59), (58, 59), (59, None), (0, 59)])
def test_too_few_positives_give_no_threshold_and_the_number_that_is_needed(positives, needed):
    y = np.repeat([1, 0], [positives, 100])
    kept = ss.promise(np.linspace(3, -3, len(y)), y, "precision@recall>=0.95")
    assert (kept.threshold is None) == (needed is not None)
    assert kept.needed == needed
    if needed:
        assert str(kept) == (
            f"recall >= 0.95 cannot be promised at 95 % with {positives} positives; 59 are the "
            "least."
        )


@pytest.mark.parametrize(
    "goal", ["recall@fpr<=0.01", "recall@alerts<=3/500", "f1@specificity>=0.99"]
)
def test_with_the_rows_that_are_needed_there_is_a_threshold(goal):
    def kept(n):
        y = np.arange(n + 1) == n  # n negatives, and for alerts n rows
        y = y[1:] if "alerts" in goal else y
        return ss.promise(np.linspace(-3, 3, len(y)), y, goal, confidence=0.9)

    needed = kept(5).needed
    assert kept(needed - 1).threshold is None
    assert kept(needed).threshold is not None


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("precision@recall>=1", "with any number of positives"),
        ("recall@fpr<=0", "with any number of negatives"),
        ("recall@precision>=1", "with any number of rows"),
        ("recall@precision>=0.9", "precision 0.9 is not reached; 0.5 is"),
        ("f1@recall>=0.9&fpr<=0.05", "together at 95 %: no threshold keeps both"),
    ],
)
def test_what_cannot_be_promised_is_said(goal, message):
    z, y = np.tile([-2.0, 2.0], 100), np.tile([0, 0, 1, 1], 50)
    kept = ss.promise(z, y, goal)
    assert kept.threshold is None
    assert message in str(kept)


def test_precision_that_rows_are_too_few_for_says_how_many_are_needed():
    y = np.repeat([1, 0, 1, 0], [9, 1, 10, 80])
    kept = ss.promise(np.linspace(3, -3, 100), y, "recall@precision>=0.8")
    assert kept.threshold is None
    assert 100 < kept.needed < 1000
    assert f"{kept.needed:,} rows like these" in str(kept)


def test_the_sentence_says_confidence_assumption_and_price():
    random = np.random.default_rng(4)
    x, y = draw(random, 2000, 0.05)
    text = str(ss.promise(x, y, "precision@recall>=0.8", confidence=0.9))
    assert "keeps recall >= 0.8 with 90 % confidence, if the model has not seen these rows" in text
    assert "they are independent (2,000 rows" in text
    assert "The promise costs" in text
    assert "(8,000) would about halve that" in text


def test_weights_of_one_change_nothing_and_others_are_approximate():
    random = np.random.default_rng(5)
    x, y = draw(random, 800, 0.2)
    goals = ("precision@recall>=0.8", "recall@precision>=0.6", "recall@alerts<=30/100")
    for goal in goals:
        plain, heavy = (ss.promise(x, y, goal, sample_weight=w) for w in (None, np.full(800, 7.0)))
        assert heavy == plain
        assert plain.exact
        w = np.concatenate([np.full(800, 2.0), np.zeros(100)])
        longer = np.concatenate([x, random.normal(size=100)]), np.concatenate([y, np.ones(100)])
        assert ss.promise(*longer, goal, sample_weight=w) == plain
        uneven = ss.promise(x, y, goal, sample_weight=random.exponential(size=800))
        assert not uneven.exact
        assert "approximate" in str(uneven)


def test_labels_are_promised_each_or_jointly():
    random = np.random.default_rng(6)
    (a, b), (c, d) = draw(random, 600, 0.3), draw(random, 600, 0.2)
    z, y = np.column_stack([a, c]), np.column_stack([b, d])
    goal = "precision@recall>=0.8"
    each = ss.promise(z, y, goal, task="multilabel")
    assert each == [ss.promise(a, b, goal), ss.promise(c, d, goal)]
    joint = ss.promise(z, y, goal, task="multilabel", joint=True)
    assert [p.logit for p in joint] == [
        ss.promise(s, t, goal, confidence=0.975).logit for s, t in ((a, b), (c, d))
    ]
    assert {p.confidence for p in joint} == {0.95}
    columns = promises_of(get_goal(goal), z, y, np.ones(600), 0.95, exact=False)
    assert [p.logit for p in columns] == [p.logit for p in each]
    assert not columns[0].exact


def test_probabilities_are_thresholded_where_they_are_promised():
    random = np.random.default_rng(7)
    x, y = draw(random, 500, 0.3)
    p = 1 / (1 + np.exp(-x))
    kept = ss.promise(p, y, "precision@recall>=0.8", from_logits=False)
    logits = ss.promise(x, y, "precision@recall>=0.8")
    assert ((p >= kept.threshold) == (x >= logits.logit)).all()


def test_a_promise_is_checked_on_new_rows():
    random = np.random.default_rng(8)
    x, y = draw(random, 2000, 0.2)
    kept = ss.promise(x, y, "precision@recall>=0.9")
    (good,) = kept.check(x >= kept.logit, y)
    assert good.verdict == "holds"
    assert good.low < good.rate < good.high
    assert "promised recall >= 0.9; here 0.9" in str(good)
    (bad,) = kept.check(x >= kept.logit + 2, y)
    assert bad.verdict == "broken"
    (few,) = kept.check([1, 0], [1, 1])
    assert few.verdict == "missed, within chance"
    (none,) = kept.check([0, 0], [0, 0])
    assert none.verdict == "no rows to tell"


@pytest.mark.parametrize(("goal", "rate"), [("20", 0.02), ("20/1000", 0.02), ("100/500", 0.2)])
def test_a_count_of_alerts_is_checked_among_its_rows(goal, rate):
    """Of as many as it names, or of those at hand."""
    kept = Promise(f"recall@alerts<={goal}", 0.5, 0.9, "alerts", 20.0, 400, 80)
    for flagged, verdict in ((0.5 * rate, "holds"), (1.1 * rate, "missed"), (2.5 * rate, "broken")):
        said = np.arange(1000) < 1000 * flagged
        (found,) = kept.check(said, np.zeros(1000, int))
        assert found.verdict.startswith(verdict)


def test_a_promise_survives_a_file():
    random = np.random.default_rng(9)
    x, y = draw(random, 500, 0.3)
    kept = ss.promise(x, y, "f1@recall>=0.5&fpr<=0.5")
    assert Promise.unpacked(kept.packed()) == kept
    with pytest.raises(ValueError, match="malformed"):
        Promise.unpacked({"threshold": 0.5})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2.0], [1], "f1"), "no constraint to promise"),
        (([2.0], [1], "auroc"), "over all thresholds"),
        (([2.0], [2], "f1@recall>=0.5"), "0 and 1|target"),
        (([float("nan")], [1], "f1@recall>=0.5"), "NaN|nan"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ss.promise(*arguments)


def test_confidence_is_a_probability():
    for confidence in (0, 1, 95, float("nan")):
        with pytest.raises(ValueError, match="confidence must be in"):
            ss.promise([2.0, 0.0], [1, 0], "f1@recall>=0.5", confidence=confidence)


@pytest.mark.parametrize("y", [np.zeros(300), np.ones(300), np.arange(300) == 0])
@pytest.mark.parametrize("z", [np.full(300, -2.0), np.linspace(-2, 2, 300)])
@pytest.mark.parametrize("goal", ["f1@recall>=0.5", "f1@fpr<=0.1", "recall@precision>=0.9"])
def test_degenerate_rows_have_an_answer_or_a_reason(z, y, goal):
    kept = ss.promise(z, y.astype(int), goal)
    assert kept.threshold is not None or kept.reason
    assert kept.threshold != 0.5 or kept.logit is not None


# --- classifiers ----------------------------------------------------------------------------------

GOAL = "precision@recall>=0.7"
MODELS = {
    "folds": lambda: ss.MetricThresholdClassifier(LogisticRegression(), GOAL, confidence=0.9),
    "holdout": lambda: ss.MetricThresholdClassifier(
        LogisticRegression(), GOAL, confidence=0.9, holdout_fraction=0.3, random_state=0
    ),
    "scores": lambda: ss.MetricThresholdClassifier(RidgeClassifier(), GOAL, confidence=0.9),
    "linear": lambda: ss.MetricLinearClassifier(GOAL, cv=2, path=(), confidence=0.9),
    "network": lambda: ss.MetricMLPClassifier(
        GOAL, n_networks=1, max_epochs=3, confidence=0.9, random_state=0
    ),
    "boosting": lambda: ss.MetricBoostingClassifier(
        GOAL, n_estimators=5, n_metric_estimators=0, confidence=0.9, random_state=0
    ),
}


def table(n=1000):
    return make_classification(n, 5, weights=[0.7], flip_y=0.05, random_state=0)


@pytest.mark.parametrize("kind", MODELS)
def test_every_classifier_promises_what_its_scores_allow(kind, tmp_path):
    x, y = table()
    model = MODELS[kind]().fit(x, y)
    kept = model.promise_
    assert kept.exact == (kind == "holdout")
    assert kept.threshold == pytest.approx(model.threshold_)
    if kind != "boosting":  # which has a holdout of its own
        scores = model.oof_scores_
        used = ~np.isnan(scores)
        assert kept.logit == ss.promise(scores[used], y[used], GOAL, confidence=0.9).logit
    if kind == "holdout":
        assert used.sum() == 300
        assert model.estimator_.coef_ is not None
    if kind not in ("folds", "holdout", "scores"):
        model.save(tmp_path / "model.softset")
        loaded = type(model).load(tmp_path / "model.softset")
        assert loaded.promise_ == kept
    assert model.with_threshold(0.5).promise_ is None


def test_a_fitted_estimator_promises_exactly_on_rows_it_has_not_seen():
    x, y = table()
    inner = LogisticRegression().fit(x[:500], y[:500])
    model = ss.MetricThresholdClassifier(inner, GOAL, cv="prefit", confidence=0.9)
    kept = model.fit(x[500:], y[500:]).promise_
    assert kept.exact
    assert kept.rows == 500
    with pytest.warns(PromiseWarning, match="500 of 1000 rows repeat others"):
        model.fit(np.tile(x[500:], (2, 1)), np.tile(y[500:], 2))
    linear = ss.MetricLinearClassifier(GOAL, path=(), cv=2, confidence=0.9)
    with pytest.warns(PromiseWarning, match="500 of 1000 rows repeat others"):
        linear.fit(np.tile(x[500:], (2, 1)), np.tile(y[500:], 2))


def test_labels_have_a_promise_each():
    x, y = table()
    model = ss.MetricLinearClassifier(GOAL, cv=2, path=(), confidence=0.9)
    kept = model.fit(x, np.column_stack([y, x[:, 0] > 0])).promise_
    assert [p.logit for p in kept] == model.decision_.logit.tolist()


def test_what_cannot_be_promised_is_warned_of_and_still_decided():
    x, y = table(60)
    plain = ss.MetricThresholdClassifier(LogisticRegression(), "f1@recall>=0.99", random_state=0)
    model = clone(plain).set_params(confidence=0.99)
    with pytest.warns(PromiseWarning, match="459 are the least. The threshold is the best one"):
        model.fit(x, y)
    assert model.promise_.threshold is None
    assert model.threshold_ == plain.fit(x, y).threshold_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f1", "confidence": 0.9}, "no constraint to promise"),
        ({"metric": GOAL, "confidence": 2}, "confidence must be in"),
        ({"metric": GOAL, "confidence": 0.9, "threshold": 0.5}, "threshold='tuned'"),
        ({"holdout_fraction": 0.9}, "holdout_fraction must be in"),
        ({"holdout_fraction": 0.2, "cv": "prefit"}, "does not go with cv='prefit'"),
    ],
)
def test_settings_that_contradict_are_refused(settings, message):
    x, y = table(60)
    inner = LogisticRegression().fit(x, y)
    with pytest.raises(ValueError, match=message):
        ss.MetricThresholdClassifier(inner, **settings).fit(x, y)


def test_the_sentence_says_how_many_rows_are_flagged():
    random = np.random.default_rng(0)
    y = random.random(2000) < 0.1
    z, w = random.normal(size=2000) + 2 * y, random.integers(0, 3, 2000)
    kept = ss.promise(z, y, "precision@recall>=0.8", sample_weight=w)
    assert kept.alerts == pytest.approx(w @ (expit(z) >= kept.threshold) / w.sum())
    assert f"{100 * kept.alerts:.3g} % of the rows are flagged" in str(kept)
    all_tied = ss.promise(0 * z, y, "precision@recall>=0.8", from_logits=True)
    assert "every row is flagged" in str(all_tied)


def test_a_check_takes_labels_of_0_and_1_only():
    kept = ss.promise([3.0, 2.0, 1.0] * 20, [1, 0, 1] * 20, "precision@recall>=0.9")
    for flagged, y in (([1, 0], [-1, 1]), ([1, 0], ["yes", "no"]), (["yes", "no"], [1, 0])):
        with pytest.raises(ValueError, match="must hold 0 and 1 only, got"):
            kept.check(flagged, y)
