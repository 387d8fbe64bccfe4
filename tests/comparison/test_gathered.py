"""The ensemble takes what other candidates of its split have fitted, and nothing else changes."""

import threading

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression

from softset.classifiers.boosting import MetricBoostingClassifier
from softset.classifiers.linear import MetricLinearClassifier
from softset.classifiers.network import MetricClassifier
from softset.classifiers.threshold import MetricThresholdClassifier
from softset.comparison.candidates import choose
from softset.comparison.fits import Sizes
from softset.comparison.own import own_candidates
from softset.comparison.shelf import Fitted, Shelf
from softset.comparison.worker import Experiment, Source, outcomes, receive, run_one
from softset.metrics.registry import get_goal, get_metric
from softset.tables.splits import repeated_folds
from softset.tasks import get_task

SMALL = Sizes(members=5, patience=3, max_epochs=6, trees=20, quick=True)
KINDS = [
    MetricLinearClassifier,
    MetricThresholdClassifier,
    MetricClassifier,
    MetricBoostingClassifier,
]


def task_of(metric="f1", kind="binary", n=240):
    kind = get_task(kind)
    if kind == "multilabel":
        X, y = make_multilabel_classification(n, 6, n_classes=3, random_state=0)
    else:
        classes = 2 if kind == "binary" else 3
        X, y = make_classification(
            n, 6, n_informative=4, n_classes=classes, flip_y=0.1, random_state=0
        )
    fits = {}
    for c in choose(get_metric(metric), metric, kind)[0]:
        if c.fit in ("networks", "boosting", "forest", "linear", "ensemble"):
            fits.setdefault(c.fit, []).append(c)
    strata = y if y.ndim == 1 else np.zeros(len(y), dtype=int)
    folds = repeated_folds(strata, None, 3, 1, 0)
    return Experiment(X, y, folds, kind, metric, SMALL, 0, fits)


@pytest.fixture
def counted(monkeypatch):
    """How often each kind of classifier was fitted."""
    found = dict.fromkeys((kind.__name__ for kind in KINDS), 0)

    def counting(kind, fit):
        def counted_fit(self, *args, **given):
            found[kind.__name__] += 1
            return fit(self, *args, **given)

        return counted_fit

    for kind in KINDS:
        monkeypatch.setattr(kind, "fit", counting(kind, kind.fit))
    return found


def test_the_ensemble_fits_no_part_that_its_split_has(counted, tmp_path):
    task = task_of()
    for fit in ("networks", "boosting", "forest", "linear"):
        outcomes(task, 0, fit, tmp_path)
    before = dict(counted)
    assert before == {kind.__name__: 1 for kind in KINDS}
    outcomes(task, 0, "ensemble", tmp_path)
    more = {name: counted[name] - before[name] for name in counted}
    # Boosting and extra trees in three folds each.
    assert more == {
        "MetricLinearClassifier": 0,
        "MetricThresholdClassifier": 3,
        "MetricClassifier": 0,
        "MetricBoostingClassifier": 3,
    }
    assert not list(tmp_path.glob("*.fitted"))  # what was taken is gone


@pytest.mark.parametrize("metric", ["f1", "auroc"])
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_what_is_taken_is_what_would_have_been_fitted(kind, metric, tmp_path):
    task = task_of(metric, kind)
    (tmp_path / "shelf").mkdir()
    for fit in ("networks", "forest", "linear"):
        outcomes(task, 0, fit, tmp_path / "shelf")
    taken = outcomes(task, 0, "ensemble", tmp_path / "shelf")["ensemble"]
    fitted = outcomes(task, 0, "ensemble", tmp_path / "nowhere")["ensemble"]
    assert taken.score == fitted.score
    assert taken.threshold == fitted.threshold
    assert taken.predictions == fitted.predictions
    assert taken.size == fitted.size


def test_a_metric_may_be_a_function_of_the_users_own(tmp_path):
    task = task_of(lambda c: c.tp / (c.tp + c.fp + c.fn + 1))
    outcomes(task, 0, "forest", tmp_path)
    assert list(tmp_path.glob("*.fitted"))
    outcomes(task, 0, "ensemble", tmp_path)


def test_a_candidate_of_the_users_own_may_have_any_name(tmp_path):
    task = task_of()
    own = own_candidates({"a/b": LogisticRegression()}, "F1", get_goal("f1"))
    task.fits[own[0].fit] = own
    assert set(outcomes(task, 0, own[0].fit, tmp_path)) == {"a/b", "a/b-tuned"}
    assert not list(tmp_path.iterdir())


def test_its_time_is_that_of_its_parts(tmp_path):
    task = task_of()
    spent = [outcomes(task, 0, fit, tmp_path) for fit in ("networks", "forest", "linear")]
    whole = outcomes(task, 0, "ensemble", tmp_path)["ensemble"].seconds
    found = {name: o.seconds for each in spent for name, o in each.items()}
    assert whole > sum(found[c] for c in ("cross-entropy-tuned", "forest-tuned", "linear-metric"))


def test_who_wants_a_fit_waits_for_the_one_that_makes_it(tmp_path):
    shelf, taken = Shelf(tmp_path, 0, ["a"]), []
    waiting = threading.Thread(target=lambda: taken.extend(shelf.take("fit", ["a"])))
    with shelf.busy("fit"):
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        shelf.put([Fitted("a", None, 2.0, None), Fitted("b", None, 3.0, None)])
    waiting.join(10)
    assert [fitted.candidate for fitted in taken] == ["a"]
    assert shelf.taken == 2.0
    assert shelf.take("fit", ["a"]) == []  # it is gone


def test_a_worker_does_not_take_one_task_for_the_next(tmp_path):
    # A budget looks at some rows first; workers live on, and the file has the same place.
    sizes = []
    for n in (120, 240):
        source = Source(task_of(n=n), tmp_path)
        source.task = None  # as in another process
        found = run_one(source, {"split": 0, "fit": "linear"})
        sizes.append(len(found["candidates"]["linear"]["predictions"]["target"]))
    receive("", None)
    assert sizes[1] > 1.5 * sizes[0]
