"""One run of a comparison: what a worker fits, and for which data."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from softset.classifiers import ensemble
from softset.classifiers.ensemble import MetricEnsembleClassifier
from softset.classifiers.recipes import RECIPES
from softset.comparison.candidates import choose
from softset.comparison.fits import Order, Sizes
from softset.comparison.own import own_candidates
from softset.comparison.worker import Experiment, Source, outcomes, receive, run_one, seed_of
from softset.metrics.registry import get_goal
from softset.tables.splits import repeated_folds
from softset.tasks import BINARY

SMALL = Sizes(members=5, patience=3, max_epochs=6, trees=20, quick=True)


def task_of(n=240):
    X, y = make_classification(n, 6, n_informative=4, flip_y=0.1, random_state=0)
    fits = {}
    for c in choose("f1", "F1", BINARY)[0]:
        fits.setdefault(c.fit, []).append(c)
    return Experiment(X, y, repeated_folds(y, None, 3, 1, 0), BINARY, "f1", SMALL, 0, fits)


def test_a_candidate_of_the_users_own_may_have_any_name():
    task = task_of()
    own = own_candidates({"a/b": LogisticRegression()}, "F1", get_goal("f1"))
    task.fits[own[0].fit] = own
    assert set(outcomes(task, 0, own[0].fit)) == {"a/b", "a/b-tuned"}


def test_a_worker_does_not_take_one_task_for_the_next(tmp_path):
    # Workers live on, and the file of the next comparison may have the same place.
    sizes = []
    for n in (120, 240):
        source = Source(task_of(n=n), tmp_path)
        source.task = None  # as in another process
        found = run_one(source, {"split": 0, "fit": "linear"})
        sizes.append(len(found["candidates"]["linear"]["predictions"]["target"]))
    receive("", None)
    assert sizes[1] > 1.5 * sizes[0]


@pytest.mark.parametrize("quick", [False, True])
def test_the_ensemble_is_the_one_that_train_model_makes(quick):
    """But for its folds, of which a quick comparison has fewer."""
    (row,) = (c for c in choose("f1", "F1", BINARY, None, quick)[0] if c.id == "ensemble")
    compared = row.make(Order("f1", np.zeros(9), Sizes(quick=quick), seed=5))
    trained = RECIPES["best"].make("f1", 5)
    assert type(compared) is type(trained)
    folds = {"cv": 3} if quick else {}
    assert compared.get_params() == {**trained.get_params(), **folds}
    assert f"in {compared.cv} folds" in row.description


def test_what_is_compared_is_the_ensemble_itself(monkeypatch):
    monkeypatch.setattr(ensemble, "KINDS", {"linear": ensemble.KINDS["linear"]})
    task = task_of()
    found = outcomes(task, 0, "ensemble")["ensemble"]
    x, y, x_test, y_test = task.split(0)
    model = MetricEnsembleClassifier("f1", cv=3, random_state=seed_of(task, 0)).fit(x, y)
    assert found.score == model.score(x_test, y_test)
    assert found.threshold == model.threshold_
