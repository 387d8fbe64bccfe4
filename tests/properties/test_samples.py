"""A sample of many rows is drawn from all of them, whatever the order of the table: files come
sorted by label, by date, by customer."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import softset as ss
from softset.classifiers import path
from softset.classifiers.explaining import permutation_importances
from softset.comparison import leakage
from softset.comparison.data import check_dataset
from softset.comparison.experiment import Experiment
from softset.comparison.fits import Sizes
from softset.comparison.runs import Plan, _held_out
from softset.tables import streams
from softset.tables.encoder import infer_schema
from softset.tables.rows import Examples, own_codes
from softset.tasks import get_task
from tests.reference import TASKS

N, FEW = 2000, 200
NUMBER = np.arange(float(N))  # of each row, its first column
X = np.column_stack([NUMBER, np.random.default_rng(0).normal(size=N)])
LABELS = {
    "binary": (NUMBER > 0.7 * N).astype(int),
    "multiclass": np.digitize(NUMBER, [0.5 * N, 0.8 * N]),
    "multilabel": np.column_stack([NUMBER > 0.7 * N, NUMBER > 0.9 * N]).astype(int),
}


def rows_of_a_report(task):
    """With the labels that belong to them."""
    y, folds = LABELS[task], (np.arange(N) % 2)[None]
    classes = 3 if task == "multiclass" else 2

    def predict_proba(x):
        return np.repeat(x[:, :1] / N, classes, 1)

    classifier = SimpleNamespace(classes_=np.arange(classes), predict_proba=predict_proba)
    own = Experiment(X, y, folds, get_task(task), "f1", Sizes(), 0, {}, most_predictions=FEW)
    found = []
    for split in range(2):
        kept = _held_out(own, split, classifier, own.split(split)[2])
        p = np.asarray(kept.scores).reshape(len(kept.scores), -1)[:, 0]
        number = np.rint(p * N).astype(int)
        np.testing.assert_array_equal(kept.target, y[number])
        found.append(number)
    return np.concatenate(found)


def plan(groups=None):
    table = check_dataset(X, LABELS["binary"], groups, None, None, 5, "ignore")
    empty = dict.fromkeys(("n_jobs", "backend", "progress", "directory"))
    more = {"sizes": Sizes(), "random_state": 0, "resume": False}
    more |= {"started": 0, "time_limit": np.inf}
    return Plan(table, "f1", [], folds=5, repeats=1, **more, **empty)


def rows_for_importances():
    model, seen = ss.MetricLinearClassifier(path=()).fit(X, LABELS["binary"]), []

    def score(x, y):
        seen.append(x[:, 0].astype(int))
        return 0.5

    with patch.object(model, "score", score):
        permutation_importances(model, X, LABELS["binary"], most_rows=FEW, repeats=1)
    return seen[0]


def rows_of_doubtful_columns():
    seen = []

    def columns(table, rows, y):
        seen.append(rows)
        return iter(())

    table = check_dataset(X, LABELS["binary"], None, None, None, 5, "ignore")
    with patch.object(leakage, "ROWS", FEW), patch.object(leakage, "_columns", columns):
        leakage.leaking_columns(table, ss.get_metric("f1"), "F1")
    return seen[0]


def rows_of_a_path():
    with patch.object(path, "MOST_ROWS", FEW):
        return path.path_sample(own_codes(Examples(X, LABELS["binary"], np.ones(N))), N)


def rows_held_out(folder):
    file = folder / "sorted.parquet"
    frame = pd.DataFrame(X, columns=["number", "x"]).assign(y=LABELS["binary"])
    frame.to_parquet(file, index=False, row_group_size=250)
    held, _ = ss.ParquetRows(file, "y").split(FEW / N)[1].table()[:2]
    return held["number"].to_numpy().astype(int)


def rows_of_an_encoder(folder):
    file, seen = folder / "sorted.parquet", []
    frame = pd.DataFrame(X, columns=["number", "x"]).assign(y=LABELS["binary"])
    frame.to_parquet(file, index=False, row_group_size=250)

    def noting(table):
        seen.append(table["number"].to_numpy().astype(int))
        return infer_schema(table, warn=False)

    with patch.object(streams, "SAMPLE", FEW), patch.object(streams, "infer_schema", noting):
        streams.EncodedRows(ss.ParquetRows(file, "y"))
    return seen[0]


SAMPLES = {
    "encoder": rows_of_an_encoder,
    **{f"report, {task}": lambda _, task=task: rows_of_a_report(task) for task in TASKS},
    "comparison": lambda _: plan().sample(FEW),
    "comparison of groups": lambda _: plan(np.arange(N) // 4).sample(FEW),
    "importances": lambda _: rows_for_importances(),
    "doubtful columns": lambda _: rows_of_doubtful_columns(),
    "path": lambda _: rows_of_a_path(),
    "held out": rows_held_out,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_drawn_from_all_rows(name, tmp_path):
    found = SAMPLES[name](tmp_path)
    assert len(np.unique(found)) == len(found)
    assert 0.8 * FEW <= len(found) <= 1.25 * FEW
    tenths = np.bincount(found * 10 // N, minlength=10)
    assert tenths.min() > 0.3 * FEW / 10
    assert tenths.max() < 2 * FEW / 10
