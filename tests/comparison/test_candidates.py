"""A fit that serves several candidates gives each what its own fit would give."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from softset import MetricThresholdClassifier, compare
from softset.classifiers.recipes import RECIPES
from softset.comparison import candidates
from softset.comparison.candidates import BY_ID, CANDIDATES, choose
from softset.comparison.fits import Candidate, FitRequest, Sizes
from softset.comparison.fits import fit_candidates as fit_rows
from softset.comparison.runs import network_history
from softset.metrics.registry import get_metric
from softset.report import render
from softset.tasks import BINARY, MULTILABEL, get_task

# Small tables are warned of, and these are small.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*scores of so few are uncertain", "ignore:too good"
)
SMALL = Sizes(n_networks=2, patience=3, max_epochs=6, trees=10, quick=True)


def fit_candidates(ids, X, request):
    return fit_rows([BY_ID[c] for c in ids], X, request)


def test_training_has_the_names_of_the_comparison_for_the_same_models():
    request = FitRequest("f1", np.arange(40) % 2, SMALL, random_state=3)
    assert set(RECIPES) - set(BY_ID) == {"metric-grid"}  # which is never compared
    for name in set(RECIPES) & set(BY_ID):
        compared, trained = BY_ID[name].make(request), RECIPES[name].make("f1", 3)
        for key in ("threshold", "recipe", "path", "n_metric_estimators", "cv"):
            compared_value, value = (getattr(m, key, None) for m in (compared, trained))
            assert compared_value == value or (name, key) == ("ensemble", "cv")


def problem(classes=2):
    if classes is None:
        return make_multilabel_classification(200, 6, n_classes=3, random_state=0)
    shares = [0.8, 0.2] if classes == 2 else [0.5, 0.3, 0.2]
    return make_classification(
        300, 6, n_informative=4, n_classes=classes, weights=shares, flip_y=0.1, random_state=0
    )


FITS = dict.fromkeys(c.fit for c in CANDIDATES)


@pytest.mark.parametrize(
    ("fit", "classes"),  # the ensemble, which shares its fit with none, is slow
    [(fit, k) for fit in FITS for k in (2, 3, None) if fit != "ensemble" or k == 2],
)
@pytest.mark.usefixtures("quick_parts")
def test_shared_fits_equal_fits_alone(fit, classes):
    X, y = problem(classes)
    task = {2: "binary", 3: "multiclass", None: "multilabel"}[classes]
    ids = [c.id for c in choose(get_metric("f1"), "F1", get_task(task))[0] if c.fit == fit]
    if not ids:
        assert fit == "surrogate" or (fit, task) == ("weighted", "multilabel")
        return
    request = FitRequest("f1", y, SMALL, random_state=3)
    for found in fit_candidates(ids, X, request):
        alone = BY_ID[found.candidate].make(request).fit(X, y)
        np.testing.assert_allclose(
            found.classifier.predict_proba(X), alone.predict_proba(X), atol=1e-12
        )
        assert np.array_equal(found.classifier.predict(X), alone.predict(X)), found.candidate
        assert found.seconds > 0


@pytest.mark.parametrize("ids", [["linear", "linear-tuned"], ["linear-tuned", "linear-metric"]])
def test_logistic_regression_does_not_depend_on_what_shares_its_fit(ids):
    X, y = problem()
    request = FitRequest("f1", y, SMALL, random_state=0)
    found = {f.candidate: f.classifier for f in fit_candidates(ids, X, request)}
    alone = BY_ID["linear-tuned"].make(request).fit(X, y)
    assert found["linear-tuned"].threshold_ == alone.threshold_
    assert found["linear-tuned"].summary() == alone.summary()
    np.testing.assert_array_equal(found["linear-tuned"].coef_, alone.coef_)


def test_history_has_soft_and_hard_metric_of_every_epoch():
    X, y = problem()
    phases = {"cross-entropy": ["cross-entropy"], "warm": ["cross-entropy", "soft metric"]}
    for found in fit_candidates(["cross-entropy", "warm"], X, FitRequest("f1", y, SMALL, 0)):
        h = network_history(found.classifier)
        assert len(h.epoch) > 0
        for curve in (h.train_loss, h.validation_loss, h.soft, h.hard):
            assert len(curve) == len(h.epoch)
        assert all(0 <= v <= 1 for v in h.soft + h.hard)
        assert [name for name, _ in h.phases] == phases[found.candidate]


@pytest.mark.parametrize("candidate", ["forest-tuned", "boosting-metric", "linear-metric"])
def test_what_is_no_network_has_no_epochs(candidate):
    X, y = problem()
    (found,) = fit_candidates([candidate], X, FitRequest("f1", y, SMALL, 0))
    assert network_history(found.classifier) is None


def test_a_metric_on_weighted_rows_is_not_shown_beside_others():
    X, y = problem()
    (found,) = fit_candidates(["cross-entropy-weighted"], X, FitRequest("f1", y, SMALL, 0))
    assert found.classifier.history_
    assert network_history(found.classifier) is None


def test_which_candidates_fit():
    def ids(metric, task):
        return {c.id for c in choose(get_metric(metric), metric, get_task(task))[0]}

    assert len(ids("f1", "binary")) == 16
    assert "surrogate-fbeta" in ids("f2", "binary")
    for metric, task in [("mcc", "binary"), ("f1", "multiclass"), ("f1_macro", "binary")]:
        assert "surrogate-fbeta" not in ids(metric, task)
    untuned = {"cross-entropy-tuned", "boosting-tuned", "linear-tuned", "linear-metric", "forest"}
    assert not untuned & ids("auroc", "binary")
    assert "linear" in ids("auroc", "binary")
    assert ids("f1", "binary") - ids("f1", "multilabel") == {
        "surrogate-fbeta",
        "cross-entropy-weighted",
    }


def test_what_was_asked_for_and_does_not_fit_is_said():
    wanted = ["cross-entropy-weighted", "warm", "forest-tuned"]
    kept, said = choose(get_metric("f1"), "F1", MULTILABEL, wanted)
    assert [c.id for c in kept] == ["forest-tuned", "warm"]
    assert said == ["left out: cross-entropy-weighted (labels have no class weights)."]


@pytest.mark.parametrize("metric", ["f1", "auroc"])
def test_names_are_filled_in(metric):
    for c in choose(get_metric(metric), "my metric", BINARY)[0]:
        assert "{" not in c.name + c.description
        assert metric == "f1" or "threshold" not in c.name + c.description


def test_a_candidate_is_one_row(monkeypatch):
    row = Candidate(
        "stump", "A stump", "baseline", "tuned", "stump", "one split", BY_ID["forest-tuned"].make
    )
    monkeypatch.setattr(candidates, "CANDIDATES", (*CANDIDATES, row))
    monkeypatch.setitem(candidates.BY_ID, "stump", row)
    kept, _ = choose(get_metric("f1"), "F1", BINARY, ["stump", "warm"])
    assert [c.id for c in kept] == ["warm", "stump"]
    X, y = problem()
    (found,) = fit_candidates(["stump"], X, FitRequest("f1", y, SMALL, 0))
    assert found.classifier.predict(X).shape == y.shape


def test_without_lightgbm_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(candidates, "find_spec", lambda name: None)
    install = "pip install 'softset\\[boosting\\]'"
    with pytest.raises(ValueError, match=f"got none. left out: boosting-tuned, .*{install}"):
        choose(get_metric("f1"), "F1", BINARY, ["boosting-tuned", "boosting-metric"])
    _, said = choose(get_metric("f1"), "F1", BINARY)
    assert "pip install 'softset[boosting]'" in said[0]


BAD = [
    (["warn"], "candidates must be from .* got 'warn'. Did you mean 'warm'?"),
    (["warm"], "candidates must hold at least two of linear, .* got warm."),
    ([], "got none."),
]


@pytest.mark.parametrize(("wanted", "message"), BAD)
def test_bad_candidates_are_named(wanted, message):
    with pytest.raises(ValueError, match=message):
        choose(get_metric("f1"), "F1", BINARY, wanted)


def test_candidates_are_in_their_stages():
    def stages(metric):
        found = {}
        for c in choose(get_metric(metric), metric, BINARY)[0]:
            found.setdefault(c.stage, []).append(c.id)
        return found

    of_f1 = stages("f1")
    assert of_f1["default"] == ["linear", "boosting", "forest", "cross-entropy"]
    assert [c for c in of_f1["tuned"] if not c.endswith("-tuned")] == ["cross-entropy-weighted"]
    assert of_f1["ensemble"] == ["ensemble"]
    assert all(BY_ID[c].family == "metric" for c in of_f1["metric"])
    assert set(stages("auroc")) == {"default", "metric", "ensemble"}  # nothing is tuned


def test_the_page_lists_every_candidate():
    page = Path(__file__).parents[2] / "docs" / "comparison.md"
    listed = re.findall(
        r"^\| `([\w-]+)` \| (?:baseline|metric) \|", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(c.id for c in CANDIDATES)


# --- models of the user ---------------------------------------------------------------------------

X, Y = make_classification(300, 5, weights=[0.85], flip_y=0.1, random_state=0)
MINE = LogisticRegression(C=0.5)


def chosen(wanted, metric="f1", task="binary"):
    return choose(get_metric(metric), "F1", get_task(task), wanted)[0]


def test_both_are_one_fit_and_the_first_is_the_estimator_itself():
    rows = chosen([("mine", MINE)])
    assert [(c.id, c.stage, c.family) for c in rows] == [
        ("mine", "user", "baseline"),
        ("mine-tuned", "tuned", "baseline"),
    ]
    assert len({c.fit for c in rows}) == 1
    request = FitRequest("f1", Y, Sizes(), random_state=3)
    found = {f.candidate: f.classifier for f in fit_rows(rows, X, request)}
    plain = LogisticRegression(C=0.5).fit(X, Y)
    np.testing.assert_array_equal(found["mine"].predict(X), plain.predict(X))
    for c in rows:
        alone = c.make(request).fit(X, Y)
        np.testing.assert_array_equal(found[c.id].predict(X), alone.predict(X))
    tuned = MetricThresholdClassifier(MINE, "f1", random_state=3).fit(X, Y)
    assert found["mine-tuned"].threshold_ == tuned.threshold_ < 0.5


def test_dots_stand_for_all_the_others():
    assert [c.id for c in chosen([..., ("mine", MINE)])] == ["mine", "mine-tuned", *BY_ID]
    assert [c.id for c in chosen(["warm", ("mine", MINE)], "auroc")] == ["mine", "warm"]


USER_MODELS = [make_pipeline(StandardScaler(), MINE), RidgeClassifier(), DecisionTreeClassifier()]


@pytest.mark.parametrize("estimator", USER_MODELS, ids=lambda e: type(e).__name__)
def test_a_comparison_with_a_user_model(estimator):
    given = {"quick": True, "n_jobs": 1, "cv": 3}
    found = compare(X, Y, candidates=["linear", ("Mine", estimator)], **given)
    assert {c.id for c in found.candidates} == {"linear", "Mine", "Mine-tuned"}
    assert not any(c.error for c in found.candidates)
    assert found.reference == "Mine"
    assert [r.id for r in found.gains.stages] == ["user", "default", "tuned"]
    assert "Mine" in found.verdict
    assert all(c.size > 0 for c in found.candidates)
    assert set(found.model.predict(X)) <= {0, 1}
    # What gives no probabilities has none in the report.
    assert ("Mine" in found.predictions) == hasattr(estimator, "predict_proba")
    assert "Mine" in render(found)


def test_user_fits_are_resumed_with_the_same_estimator_only(tmp_path):
    given = {"quick": True, "n_jobs": 1, "cv": 2, "directory": tmp_path}
    first = compare(X, Y, candidates=[("mine", MINE)], **given)
    again = compare(X, Y, candidates=[("mine", MINE)], resume=True, **given)
    assert [c.scores for c in first.candidates] == [c.scores for c in again.candidates]
    with pytest.raises(ValueError, match="other data or settings"):
        compare(X, Y, candidates=[("mine", LogisticRegression(C=9))], resume=True, **given)


BAD_MODELS = [
    ([("mine", DecisionTreeRegressor())], "must be pairs of a name and a scikit-learn classifier"),
    ([("mine", LogisticRegression)], "must be pairs of a name and"),
    ([("", MINE)], "must be pairs of a name and"),
    ([(MINE, "mine")], "must be pairs of a name and"),
    ([("mine", MINE, 1)], "must be pairs of a name and"),
    ([("boosting", MINE)], "got 'boosting' twice"),
    ([("mine", MINE), ("mine", MINE)], "got 'mine' twice"),
    ([("mine", MINE), ("mine-tuned", MINE)], "got 'mine-tuned' twice"),
    ([("mine", MINE), 3], "candidates must be from .* got '3'"),
]


@pytest.mark.parametrize(("wanted", "message"), BAD_MODELS)
def test_bad_user_models_are_named(wanted, message):
    with pytest.raises(ValueError, match=message):
        chosen(wanted)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("rows", [10_000, 10_001])
def test_what_is_spent_depends_on_rows_and_haste(rows, quick):
    """As the classifiers are made: networks, epochs, patience, trees and their leaves."""
    request = FitRequest("f1", np.arange(9) % 2, Sizes.of(rows, quick), random_state=0)
    network = BY_ID["cross-entropy"].make(request).get_params()
    forest = BY_ID["forest"].make(request).estimator.get_params()
    large = rows > 10_000
    assert network["n_networks"] == (4 if quick else 8)
    assert network["max_epochs"] == (50 if quick else 100)
    assert network["patience"] == (5 if quick or large else 10)
    assert forest["n_estimators"] == (100 if quick else 200)
    assert forest["min_samples_leaf"] == (5 if large else 1)


def test_the_surrogate_is_of_the_beta_that_is_asked_for():
    for metric, beta in (("f1", 1.0), ("f2", 2.0), ("f0.5", 0.5)):
        target = np.arange(10) < 3
        made = (
            BY_ID["surrogate-fbeta"].make(FitRequest(metric, target, SMALL, random_state=0)).recipe
        )
        assert (made.beta, float(made.prevalence)) == (beta, pytest.approx(0.3))


# --- scores of the user ---------------------------------------------------------------------------


def test_scores_are_a_candidate():
    p = LogisticRegression().fit(X, Y).predict_proba(X)[:, 1]
    given = {"quick": True, "n_jobs": 1, "cv": 3}
    found = compare(X, Y, candidates=["linear", ("old", p)], **given)
    assert {c.id for c in found.candidates} == {"linear", "old", "old-tuned"}
    assert found.reference == "old"
    held_out = found.predictions.get("old")
    if held_out is not None:
        assert sorted(held_out.scores) == pytest.approx(sorted(p))
    # Scores that are no probabilities have only a tuned threshold.
    points = compare(X, Y, candidates=["linear", ("points", 600 + 50 * np.log(p))], **given)
    assert {c.id for c in points.candidates} == {"linear", "points-tuned"}
    tuned = {c.id: c.scores for c in [*found.candidates, *points.candidates]}
    assert tuned["points-tuned"] == pytest.approx(tuned["old-tuned"], abs=0.1)


def test_scores_that_win_need_no_model():
    perfect = np.where(Y == 1, 0.9, 0.1)
    found = compare(X, Y, candidates=["linear", ("old", perfect)], quick=True, n_jobs=1, cv=3)
    assert found.winner == "old"
    assert found.model is None
    assert found.data.refitted == 0


@pytest.mark.parametrize("scores", [[0.5] * 9, np.full(300, np.nan), np.zeros((300, 2))])
def test_bad_scores_are_named(scores):
    with pytest.raises(ValueError, match=r"9 scores for 300 rows|a finite score for each row"):
        compare(X, Y, candidates=["linear", ("old", scores)], quick=True, n_jobs=1)


def test_the_average_and_the_offsets_of_classes_are_named():
    x, y = problem(3)
    found = compare(x, y, candidates=["linear", "linear-tuned"], quick=True, n_jobs=1, cv=2)
    assert "macro F1" in found.verdict
    assert [c.name for c in found.candidates if c.id == "linear-tuned"] == [
        "Logistic regression, tuned offsets"
    ]
    assert "threshold" not in str(found)
