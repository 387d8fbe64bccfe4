"""The data of a comparison, and what a worker fits on it."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from softset.classifiers import ensemble
from softset.classifiers.ensemble import MetricEnsembleClassifier
from softset.classifiers.recipes import RECIPES
from softset.comparison.candidates import choose
from softset.comparison.experiment import Experiment, Source, receive
from softset.comparison.fits import FitRequest, Sizes
from softset.comparison.runs import run_fit, split_results
from softset.tables.splits import repeated_folds
from softset.tasks import BINARY

SMALL = Sizes(n_networks=5, patience=3, max_epochs=6, trees=20, quick=True)


def experiment_of(n=240):
    X, y = make_classification(n, 6, n_informative=4, flip_y=0.1, random_state=0)
    fits = {}
    for c in choose("f1", "F1", BINARY)[0]:
        fits.setdefault(c.fit, []).append(c)
    return Experiment(X, y, repeated_folds(y, None, 3, 1, 0), BINARY, "f1", SMALL, 0, fits)


def test_a_user_model_may_have_any_name():
    experiment = experiment_of()
    users = choose("f1", "F1", BINARY, [("a/b", LogisticRegression())])[0]
    experiment.fits[users[0].fit] = users
    assert set(split_results(experiment, 0, users[0].fit)) == {"a/b", "a/b-tuned"}


def test_a_worker_does_not_take_one_experiment_for_the_next(tmp_path):
    # Workers live on, and the file of the next comparison may have the same place.
    sizes = []
    for n in (120, 240):
        source = Source(experiment_of(n=n), tmp_path)
        source.experiment = None  # as in another process
        found = run_fit(source, {"split": 0, "fit": "linear"})
        sizes.append(len(found["candidates"]["linear"]["predictions"]["target"]))
    receive("", None)
    assert sizes[1] > 1.5 * sizes[0]


@pytest.mark.parametrize("quick", [False, True])
def test_the_ensemble_is_the_one_that_train_model_makes(quick):
    """But for its folds, of which a quick comparison has fewer."""
    (row,) = (
        c for c in choose("f1", "F1", BINARY, None, Sizes(quick=quick))[0] if c.id == "ensemble"
    )
    compared = row.make(FitRequest("f1", np.zeros(9), Sizes(quick=quick), random_state=5))
    trained = RECIPES["ensemble"].make("f1", 5)
    assert type(compared) is type(trained)
    folds = {"cv": 3} if quick else {}
    assert compared.get_params() == {**trained.get_params(), **folds}
    assert f"in {compared.cv} folds" in row.description


def test_what_is_compared_is_the_ensemble_itself(monkeypatch):
    monkeypatch.setattr(ensemble, "KINDS", {"linear": ensemble.KINDS["linear"]})
    experiment = experiment_of()
    found = split_results(experiment, 0, "ensemble")["ensemble"]
    x, y, x_test, y_test = experiment.split(0)
    model = MetricEnsembleClassifier("f1", cv=3, random_state=experiment.seed_of(0)).fit(x, y)
    assert found.score == model.score(x_test, y_test)
    assert found.threshold == model.threshold_
