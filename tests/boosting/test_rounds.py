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
