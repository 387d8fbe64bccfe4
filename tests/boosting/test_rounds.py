"""Where rounds for the metric start, and what they are stopped by: held-out, weighted rows."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from softset.boosting.base import LIBRARIES, library_class
from softset.boosting.rounds import _value, boost
from softset.metrics.registry import get_metric
from softset.tables.rows import Examples
from tests.boosting.examples import CATEGORIES, rows, target


def test_held_out_rows_count_with_their_weights():
    random = np.random.default_rng(0)
    z, y, w = random.normal(size=(60, 3)), random.integers(0, 3, 60), random.exponential(size=60)
    rows = Examples(np.zeros((60, 1)), y, w)
    wanted = f1_score(y, z.argmax(1), average="macro", sample_weight=w)
    assert _value(z, rows, get_metric("f1")) == pytest.approx(wanted)
    two = Examples(rows.x, (y == 1).astype(np.int64), w)
    area = roc_auc_score(two.y, z[:, 0], sample_weight=w)
    assert _value(z[:, 0], two, get_metric("auroc")) == pytest.approx(area)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", list(LIBRARIES))
def test_they_start_from_better_decisions_than_those_of_log_loss(name, classes):
    """All classes but the first are rare."""
    inputs = [rows(400, seed) for seed in range(2)]
    parts = [Examples(x, np.maximum(target(x, 10) - 10 + classes, 0), np.ones(400)) for x in inputs]
    library = library_class(name)(
        {"seed": 0, "learning_rate": 0.1}, 1, 400, classes, CATEGORIES, {}
    )
    settings = {"classes": classes, "n_estimators": 3, "n_metric_estimators": 1, "patience": 3}
    model, held = boost(library, *parts, get_metric("f1"), **settings), parts[1]
    start, before = (
        f1_score(held.y, z > 0 if classes == 2 else z.argmax(1), average="macro")
        for z in (model.start(held.x), model.log_loss_scores(held.x))
    )
    assert start > before + 0.1


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", list(LIBRARIES))
def test_log_loss_stops_by_weighted_rows(name, classes):
    """Half of the held-out rows are lies: of those that weigh something depends when to stop."""
    x, held = np.random.default_rng(0).normal(size=(2, 300, 2))
    y, truth = ((part[:, 0, None] > [-0.5, 0.5][: classes - 1]).sum(1) for part in (x, held))
    lies = np.arange(300) % 2 == 0
    told = np.where(lies, (truth + 1) % classes, truth)
    kept = []
    for heavy in (lies, ~lies):
        library = library_class(name)({"seed": 0, "learning_rate": 0.1}, 1, 300, classes, [], {})
        checks = Examples(held, told, np.where(heavy, 1.0, 1e-4))
        library.load(Examples(x, y, np.ones(300)), checks)
        kept.append(library.log_loss(12, 12)[1])
    assert kept == [1, 12]


class Told:
    """A library whose log-loss scores are the inputs, and which grows no trees for a metric."""

    name = "lightgbm"

    def load(self, rows, checks):
        pass

    def log_loss(self, rounds, patience):
        return object(), 1

    def steps(self, start, checks, objective):
        return iter(())

    @staticmethod
    def margins(booster, x):
        return x[:, 0] if x.shape[1] == 1 else x


@pytest.mark.parametrize("classes", [2, 3])
def test_where_they_start_is_decided_by_weighted_rows(classes):
    """Rows that weigh next to nothing, and are more, have their scores off the other way."""
    random = np.random.default_rng(0)
    y, heavy = random.integers(0, classes, 900), random.random(900) < 0.15
    off = np.where(heavy, 3.0, -3.0)[:, None] * np.eye(classes)[0]
    z = 2 * np.eye(classes)[y] + random.normal(size=(900, classes)) + off
    z = z[:, 1:] - z[:, :1] if classes == 2 else z
    rows = Examples(z, y, np.where(heavy, 1.0, 1e-4))
    settings = {"classes": classes, "n_estimators": 1, "n_metric_estimators": 1, "patience": 1}
    start = boost(Told(), rows, rows, get_metric("f1"), **settings).start(z)
    decided = start > 0 if classes == 2 else start.argmax(1)
    assert f1_score(y[heavy], decided[heavy], average="macro") > 0.7
