"""scikit-learn's estimator checks of every classifier, in several settings."""

from __future__ import annotations

import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from softset import (
    MetricBoostingClassifier,
    MetricEnsembleClassifier,
    MetricLinearClassifier,
    MetricMLPClassifier,
    MetricThresholdClassifier,
)

ROUNDS = {"n_estimators": 8, "n_metric_estimators": 2}
BLEND = {"cv": 2, "random_state": 0}
FOREST = RandomForestClassifier(9, random_state=0)
# Every check of every class, by a model that is quick to fit.
QUICK = [
    MetricMLPClassifier(
        "mcc", hidden_layer_sizes=(32,), learning_rate=0.01, n_networks=1, max_epochs=20
    ),
    MetricLinearClassifier("mcc", cv=2, path=(0.03,)),
    MetricThresholdClassifier(GaussianNB(), "accuracy", cv=2, random_state=0),
    MetricBoostingClassifier("mcc", **ROUNDS),
    MetricEnsembleClassifier("accuracy", base_models=("linear",), **BLEND),
]
# As they are, and in other settings: the checks of what is learned.
SETTINGS = [
    MetricMLPClassifier("f1_weighted", validation_fraction=0.5, n_networks=2, max_epochs=40),
    MetricLinearClassifier(),
    MetricLinearClassifier("mcc", cv=2, path=(), calibrate=True),
    MetricThresholdClassifier(FOREST, cv="oob"),
    MetricThresholdClassifier(RidgeClassifier(), "mcc", cv=2, refit=False, random_state=0),
    MetricThresholdClassifier(LogisticRegression(), "quadratic_kappa", cv=2, random_state=0),
    MetricBoostingClassifier("f1_weighted", library="xgboost", **ROUNDS),
    MetricEnsembleClassifier("mcc", base_models=("linear", "forest"), **BLEND),
]
LEARNED = {
    "check_classifiers_train",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_multilabel_output_format_predict",
    "check_class_weight_classifiers",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
}


def cases():
    """Models and checks, with scikit-learn's names for them."""
    every, some = (parametrize_with_checks(models) for models in (QUICK, SETTINGS))
    found = [*every.args[1]]
    found += [(m, c) for m, c in some.args[1] if c.func.__name__ in LEARNED and not c.keywords]
    return pytest.mark.parametrize(every.args[0], found, ids=every.kwargs["ids"])


# The only kinds of failures, by the names of the checks, and why.
WEIGHTS = {
    MetricMLPClassifier: "folds and batches are of rows",
    MetricLinearClassifier: "penalties count rows: the scale of weights means nothing",
    MetricBoostingClassifier: "leaves count rows, not weights, as in scikit-learn's boosting",
    MetricThresholdClassifier: "bootstrap samples and folds are of rows",
    MetricEnsembleClassifier: "bootstrap samples and folds are of rows",
}
OLD = parse_version(sklearn.__version__) < parse_version("1.8")


def expected(model):
    kinds = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    found = dict.fromkeys(kinds, WEIGHTS[type(model)])
    if OLD and getattr(model, "cv", 0) == "oob":
        # Bootstrap samples know no weights there; the check helps with min_weight_fraction_leaf.
        found["check_class_weight_classifiers"] = "weights come after the bootstrap sample"
    if getattr(model, "cv", 0) == "oob":
        # scikit-learn's own forests give a list there, of which it asks only that rows add up to 1.
        why = "no tree or every tree may vote for a label: 0 and 1 are the estimator's"
        found["check_classifiers_multilabel_output_format_predict_proba"] = why
    if model.calibrate:
        found["check_classifiers_train"] = "decisions are made on scores before they are calibrated"
    if isinstance(model, MetricLinearClassifier):  # it always tunes where positives are few
        why = "F1 and MCC weigh both classes: a threshold for them undoes weights of classes"
        found["check_class_weight_classifiers"] = why
    return found


@cases()
@pytest.mark.usefixtures("quick_parts")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_contract(estimator, check, monkeypatch):
    name, estimator = check.func.__name__, clone(estimator)  # all checks share one
    if name == "check_classifiers_train":
        # It wants the largest probability to decide, which a tuned threshold need not agree with.
        monkeypatch.setattr(type(estimator), "threshold", None, raising=False)
        if "threshold" in estimator.get_params():
            estimator.set_params(threshold=None)
    try:
        check(estimator)
    except AssertionError:
        if name not in expected(estimator):
            raise
        pytest.xfail(expected(estimator)[name])
