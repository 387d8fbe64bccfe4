"""The truths that coverage is measured against."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, matthews_corrcoef, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import intervals as bench
from common import read


@pytest.mark.parametrize("name", bench.POPULATIONS)
def test_the_best_threshold_of_a_population_is_that_of_very_many_rows(name):
    """Of points that count with both classes, and of rows with labels."""
    truth = bench.truth_of(name, 0.1)
    x, y = bench.draw(name, truth, 100_000, 0.1, seed=5)
    p, new = truth.x[:, 0] / 10, x[:, 0] / 10
    for metric, score in (("f1", f1_score), ("mcc", matthews_corrcoef)):
        low, high = truth.best(p, metric)
        at = (low + min(high, p.max() + 1)) / 2
        assert truth.value(p, at, metric) == pytest.approx(score(y, new >= at), abs=0.02)
        others = [truth.value(p, t, metric) for t in np.linspace(p.min(), p.max(), 50)]
        assert truth.value(p, at, metric) >= max(others) - 1e-9


def test_the_classifier_is_scikit_learns_logistic_regression():
    truth = bench.truth_of("skewed", 0.1)
    x, y = bench.draw("skewed", truth, 300, 0.1, seed=0)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(x, y)
    found = bench.Logistic().fit(x, y)
    assert found.predict_proba(x) == pytest.approx(theirs.predict_proba(x), abs=1e-5)


def test_true_metrics_are_those_of_very_many_rows():
    truth = bench.true_metrics(0.1, 0.8, 0.98, 1.5)
    random = np.random.default_rng(0)
    y = (random.random(200_000) < 0.1).astype(int)
    decided = np.where(random.random(200_000) < np.where(y == 1, 0.8, 0.98), y, 1 - y)
    scores = random.normal(size=200_000) + 1.5 * y
    assert truth["f1"] == pytest.approx(f1_score(y, decided), abs=0.01)
    assert truth["auroc"] == pytest.approx(roc_auc_score(y, scores), abs=0.01)
    assert truth["average_precision"] == pytest.approx(average_precision_score(y, scores), abs=0.01)
    partial = roc_auc_score(y, scores, max_fpr=0.1)
    assert truth["partial_auroc"] == pytest.approx(partial, abs=0.01)


def test_finished_cells_are_kept_and_every_part_has_a_table(tmp_path, monkeypatch, capsys):
    cells = {
        "threshold": ("normal", 200, 0.1),
        "gain": ("discrete", 200, 0.1),
        "evaluate": ("good", 50, 0.1),
        "several": ("5 classes", 50, 0.05),
    }
    monkeypatch.setattr(bench, "cells", lambda part: [cells[part]])
    for _ in range(2):
        for part in bench.PARTS:
            bench.run(part, 4, tmp_path / "found.jsonl")
    assert len(read(tmp_path / "found.jsonl")) == len(bench.PARTS)
    bench.show(read(tmp_path / "found.jsonl"))
    assert capsys.readouterr().out.count("\n| ---") == len(bench.PARTS)
