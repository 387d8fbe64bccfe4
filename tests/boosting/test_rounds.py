"""What rounds for the metric are stopped by: the metric of held-out rows, with their weights."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from softset.boosting.rounds import _value
from softset.metrics.registry import get_metric
from softset.tables.rows import Rows


def test_held_out_rows_count_with_their_weights():
    random = np.random.default_rng(0)
    z, y, w = random.normal(size=(60, 3)), random.integers(0, 3, 60), random.exponential(size=60)
    rows = Rows(np.zeros((60, 1)), y, w)
    wanted = f1_score(y, z.argmax(1), average="macro", sample_weight=w)
    assert _value(z, rows, get_metric("f1")) == pytest.approx(wanted)
    two = Rows(rows.x, (y == 1).astype(np.int64), w)
    area = roc_auc_score(two.y, z[:, 0], sample_weight=w)
    assert _value(z[:, 0], two, get_metric("auroc")) == pytest.approx(area)
