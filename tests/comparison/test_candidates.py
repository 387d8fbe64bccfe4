"""A fit that serves several candidates gives each what its own fit would give."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from softset.comparison.candidates import (
    FITS,
    Sizes,
    choose,
    first_member,
    fit_candidates,
    make_classifier,
)
from softset.metrics.registry import get_metric

SMALL = Sizes(members=2, patience=3, max_epochs=6, trees=10)


def problem(classes=2):
    shares = [0.8, 0.2] if classes == 2 else [0.5, 0.3, 0.2]
    return make_classification(
        300, 6, n_informative=4, n_classes=classes, weights=shares, flip_y=0.1, random_state=0
    )


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("fit", FITS)
def test_shared_fits_equal_fits_alone(fit, classes):
    X, y = problem(classes)
    task = "binary" if classes == 2 else "multiclass"
    ids = [c.id for c in choose(get_metric("f1"), "F1", task)[0] if c.fit == fit]
    if not ids:
        assert (fit, classes) == ("surrogate", 3)
        return
    for found in fit_candidates(ids, "f1", X, y, SMALL, seed=3):
        alone = make_classifier(found.candidate, "f1", y, SMALL, 3).fit(X, y)
        np.testing.assert_allclose(
            found.classifier.predict_proba(X), alone.predict_proba(X), atol=1e-12
        )
        assert np.array_equal(found.classifier.predict(X), alone.predict(X)), found.candidate
        assert found.seconds > 0


def test_history_has_soft_and_hard_metric_of_every_epoch():
    X, y = problem()
    for found in fit_candidates(["cross-entropy", "warm"], "f1", X, y, SMALL, 0):
        h = first_member(found.classifier)
        epochs = len(h["epoch"])
        assert epochs > 0
        for name in ("train_loss", "validation_loss", "soft", "hard"):
            assert len(h[name]) == epochs
            assert all(0 <= v <= 1 for v in h["soft"] + h["hard"])
        names = [name for name, _ in h["phases"]]
        assert (
            names
            == {"cross-entropy": ["cross-entropy"], "warm": ["cross-entropy", "soft metric"]}[
                found.candidate
            ]
        )
    assert first_member(make_classifier("forest-tuned", "f1", y, SMALL, 0)) is None


def test_which_candidates_fit():
    def ids(metric, task):
        return {c.id for c in choose(get_metric(metric), metric, task)[0]}

    assert len(ids("f1", "binary")) == 11
    assert "surrogate-fbeta" in ids("f2", "binary")
    for metric, task in [("mcc", "binary"), ("f1", "multiclass"), ("f1_macro", "binary")]:
        assert "surrogate-fbeta" not in ids(metric, task)
    assert not {"cross-entropy-tuned", "boosting-tuned"} & ids("auroc", "binary")
    kept, said = choose(get_metric("f1"), "F1", "multilabel")
    assert not any("boosting" in c.id for c in kept)
    assert "boosting" in said[0]


BAD = [
    (["warn"], "candidates must be from .* got 'warn'. Did you mean 'warm'?"),
    (["warm"], "not trained for it"),
    (["forest-tuned"], "trained for the metric"),
]


@pytest.mark.parametrize(("wanted", "message"), BAD)
def test_bad_candidates_are_named(wanted, message):
    with pytest.raises(ValueError, match=message):
        choose(get_metric("f1"), "F1", "binary", wanted)
