"""Blocks, chunks, samples and sizes that small tests never reach, set small.

Every whole number of 16 and more at the top of a module or of a class is named here: with a case,
with the test that sets it small, or with the reason why nothing depends on it. A new one fails
until it is.
"""

from __future__ import annotations

import ast
import importlib
import io
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import softset as ss
from softset.counting.kernels.choice import using
from softset.decisions.expected import best_size
from softset.decisions.intervals import metric_table
from softset.decisions.smoothing import smooth_threshold
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric
from softset.tables.rows import row_codes
from softset.tables.scaling import varies
from tests.properties import test_option_pairs as pairs
from tests.reference import TASKS, random_problem, soft_cells, soft_matrix

SOURCE = Path(ss.__file__).parent
TESTS = Path(__file__).parents[1]


@contextmanager
def small(limits):
    """Constants set small, wherever they were imported to."""
    changes = []
    for name, value in limits.items():
        module, _, constant = name.rpartition(".")
        now = getattr(importlib.import_module(f"softset.{module}"), constant)
        for other in list(sys.modules.values()):
            known = getattr(other, "__name__", "").startswith("softset")
            if known and vars(other).get(constant) is now:
                changes.append(patch.object(other, constant, value))
    for change in changes:
        change.start()
    try:
        yield
    finally:
        for change in changes:
            change.stop()


# --- cases: each compares with an oracle, and returns numbers that do not depend on the limit -----


def soft_counts():
    """The kernels in PyTorch, and the formulas of the papers."""
    found, step = [], ss.LinearStep(0.1)
    with using("torch"):
        for task in TASKS:
            z, y = random_problem(task, n=50)
            x, same = z.clone().requires_grad_(), z.clone().requires_grad_()
            c = ss.confusion(x, y, task=task, step=step, from_logits=True)
            if task == "multiclass":
                m = soft_matrix(same, y, step)
                tp, predicted = m.diagonal(), m.sum(0)
            else:
                cells = soft_cells(same, y, step, 0.5)
                tp, predicted = cells["tp"], cells["tp"] + cells["fp"]
            (c.tp.cos().sum() + c.predicted.sin().sum()).backward()
            (tp.cos().sum() + predicted.sin().sum()).backward()
            for ours, plain in ((c.tp, tp), (c.predicted, predicted), (x.grad, same.grad)):
                torch.testing.assert_close(ours, plain)
            found += [*c.tp.detach().flatten(), *x.grad.flatten()]
    return found


def tuned_decisions():
    """No other threshold or offset is better: kappas, averages, labels that share one number."""
    for task in ("multilabel", "multiclass"):
        rows = pairs.tuning_rows(task)
        names = ("quadratic_kappa", "cohen_kappa", "f1", "mcc")
        chosen = [i for i, r in enumerate(rows) if r["metric"] in names or r["average"] == "micro"]
        for number in chosen[::2]:
            pairs.check_tuning(task, number, rows[number])
    z, y = random_problem("multiclass", n=60)
    return ss.best_offsets(z, y, "quadratic_kappa", from_logits=True) + ss.best_offsets(
        z, y, "f1", from_logits=True
    )


def met_constraints():
    """The recall that the soft counts have at the threshold of the loss is the one asked for."""
    z, y = random_problem("binary", n=60)
    loss = ss.MetricLoss("precision@recall>=0.7")
    x = z.clone().requires_grad_()
    loss(x, y).backward()
    c = loss.confusion(z, y)
    assert float(c.tp / c.support) == pytest.approx(0.7)
    return [float(loss(z, y)), *x.grad]


def intervals_of_labels():
    z, y = random_problem("multilabel", n=40)
    decided = (z > 0).long().numpy()
    rows = metric_table(
        torch.sigmoid(z).numpy(), decided, y.numpy(), task="multilabel", metrics=["f1", "auroc"]
    )
    wanted = f1_score(y.numpy(), decided, average="macro")
    assert rows[0].value == pytest.approx(wanted)
    assert all(row.low < row.value < row.high for row in rows)
    return [rows[0].value, rows[1].value]


def predictions():
    """Of a network by hand: its layers, one row at a time."""
    x, y = _table(120)
    model = ss.MetricMLPClassifier(
        hidden_layer_sizes=(5,), n_networks=2, max_epochs=2, random_state=0
    )
    p = _quiet(model).fit(x, y).predict_proba(x)[:, 1]
    layers = model._layers()
    means = []
    for row in x:
        scaled = model._scaler(row[None])[0]
        each = []
        for k in range(2):
            inner = np.maximum(
                scaled @ layers.weights[0][k].numpy() + layers.biases[0][k, 0].numpy(), 0
            )
            each.append(
                expit(inner @ layers.weights[1][k].numpy() + layers.biases[1][k, 0].numpy())
            )
        means.append(np.mean(each))
    np.testing.assert_allclose(p, means, rtol=1e-9)
    return p


def boosted_on_a_stream():
    """What is on disk block by block is what is in memory."""
    x, y = _table(300)
    found = []
    for library in ("lightgbm", "xgboost"):
        model = ss.MetricBoostingClassifier(
            library=library, n_estimators=5, n_metric_estimators=3, random_state=0, patience=9
        )
        _quiet(model).fit([(x[:150], y[:150]), (x[150:], y[150:])])
        assert f1_score(y, model.predict(x)) > 0.7
        found += [*model.predict_proba(x)[:, 1]]
    return found


def hashes():
    """Equal rows have equal numbers, others have not."""
    x = np.random.default_rng(0).integers(0, 3, (60, 3)).astype(float)
    codes = row_codes(x)
    for i, row in enumerate(x):
        np.testing.assert_array_equal(codes == codes[i], (x == row).all(1))
    return codes.astype(float)


def columns_that_vary():
    x = np.zeros((50, 4))
    x[1, 1], x[49, 2], x[20, 3] = 1, 1, np.nan
    found = varies(x)
    assert found.tolist() == [len(np.unique(column)) > 1 for column in x.T]
    return found


def parquet_parts():
    """Both parts of a split are all rows, and rows that rarely repeat are on one side."""
    frame = pd.DataFrame({"a": np.arange(300) // 2 * 2.0, "y": np.arange(300) // 2 % 3})
    frame["a"] = np.where(np.arange(300) < 20, frame["a"], np.arange(300.0))
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(Path(folder, "rows.parquet"), row_group_size=50)
        parts = ss.ParquetRows(folder, "y").split(0.3)
        train, held = (part.table()[0]["a"].to_numpy() for part in parts)
    assert sorted([*train, *held]) == sorted(frame["a"])
    assert not set(train) & set(held)
    return [len(held)]


def text_tables():
    """Rows of a file that is read in blocks, one of them longer than a block."""
    rows = [f"{i},{'x' * (i % 7)}é,{i / 8}" for i in range(60)]
    rows[30] = f"30,{'long ' * 200},0.5"
    text = "number,text,share\n" + "\n".join(rows) + "\n"
    frame = ss.tables.read_table(io.BytesIO(text.encode()))
    assert frame.shape == (60, 3)
    assert frame["number"].astype(float).tolist() == list(range(60))
    assert frame["text"].iloc[30].strip() == ("long " * 200).strip()
    return frame["share"].astype(float)


def expected_dice():
    """The number of positions with the best expected Dice, by simulation."""
    p = np.sort(np.random.default_rng(0).beta(0.4, 1.2, 40))[::-1].copy()
    drawn = np.random.default_rng(1).random((4000, 40)) < p
    values = [
        (2 * drawn[:, :k].sum(1) / (k + drawn.sum(1))).mean() if k else (~drawn.any(1)).mean()
        for k in range(41)
    ]
    size = best_size(torch.tensor(p))
    assert values[size] > max(values) - 0.01
    return [values[size]]


def smoothed_cut():
    """Near the best of all cuts of the same smoothed counts, in plain sums."""
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.3).astype(np.int64)
    z = rng.normal(size=300) + 1.5 * y
    w = np.where(y == 1, 4, 1) * rng.uniform(0.5, 2, 300)
    cut, value = smooth_threshold(z, y, w, get_metric("f1"))
    temperature = z.std() * y.sum() ** (-1 / 3)

    def smooth_f1(b):
        h = expit((z - b) / temperature)
        return 2 * (w * y * h).sum() / ((w * y).sum() + (w * h).sum())

    best = max(smooth_f1(b) for b in np.linspace(z.min(), z.max(), 400))
    assert smooth_f1(cut) > best - 0.005
    assert value == pytest.approx(smooth_f1(cut), abs=0.005)
    return [smooth_f1(cut)]


def gains_of_many_kinds():
    """A gain is the least with any kind of row left out: with fewer kinds looked at, no less."""
    rng = np.random.default_rng(0)
    y = (rng.random((80, 4)) < 0.4).astype(np.int64)
    z = rng.normal(size=(80, 4)) + y - 0.7
    tuner = Tuner(get_metric("f1"), "multilabel")
    decision = tuner.tune(z, y)
    before, after = (
        f1_score(y, (z >= c).astype(int), average="macro") for c in (0.0, decision.logit)
    )
    assert after >= before
    return [after]


def linear_sample():
    x, y = _table(400)
    model = ss.MetricLinearClassifier("f1").fit(x, y)
    plain = LogisticRegression().fit(x, y)
    best = max(f1_score(y, plain.decision_function(x) > b) for b in np.linspace(-3, 3, 61))
    assert f1_score(y, model.predict(x)) > best - 0.04
    return [0.0]


def blended_sample():
    x, y = _table(400)
    model = ss.MetricEnsembleClassifier(
        base_models=["linear", "forest"], cv=3, time_limit=None, random_state=0
    ).fit(x, y)
    clean, labels = _table(400, seed=1)
    assert f1_score(labels, model.predict(clean)) > 0.6
    assert sum(part.weight for part in model.base_models_) == pytest.approx(1)
    return [0.0]


def _table(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return x, (x[:, 0] - x[:, 1] + 0.5 * rng.normal(size=n) > 0.8).astype(int)


class _quiet:  # noqa: N801
    """``fit`` without what it says about few rows."""

    def __init__(self, model):
        self.model = model

    def fit(self, *data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self.model.fit(*data)


CASES = {
    soft_counts: {
        "counting.numerics.RUN": 7,
        "counting.kernels.binary_grid.BLOCK": 7,
    },
    tuned_decisions: {"decisions.thresholds.BLOCK": 16, "decisions.offsets.BLOCK": 16},
    met_constraints: {"metrics.meeting._BLOCK": 130},
    intervals_of_labels: {
        "decisions.intervals._BLOCK": 90,
        "decisions.intervals._AREA_RESAMPLES": 20,
    },
    predictions: {
        "classifiers.network._BLOCK": 7,
        "training.networks._CHUNK": 40,
        "training.networks._IN_CACHE": 40,
    },
    boosted_on_a_stream: {"boosting.spool.BLOCK": 16, "boosting.trees._BLOCK": 11},
    hashes: {"tables.rows._BLOCK": 7},
    columns_that_vary: {"tables.scaling._SOME": 5},
    parquet_parts: {"tables.parquet_rows._SAMPLE": 60},
    text_tables: {"tables.delimited._BLOCK": 128},
    expected_dice: {"decisions.expected.EXACT": 8},
    smoothed_cut: {"decisions.smoothing.GROUPS": 40},
    gains_of_many_kinds: {"decisions.tuner.KINDS": 2},
    linear_sample: {"classifiers.path.MOST_ROWS": 150},
    blended_sample: {"classifiers.blending.MOST_ROWS": 90},
}  # fmt: skip
# Approximations: their oracle is looser than rounding, and answers may differ by as much.
LOOSE = {"expected_dice": 0.01, "smoothed_cut": 0.005, "gains_of_many_kinds": 0.05}
# Set small where their module is tested.
ELSEWHERE = {
    "classifiers.streamed.HELD": "classifiers/test_streamed.py",
    "cli.on_disk._MOST_HELD": "cli/test_on_disk.py",
    "comparison.importances.CELLS": "comparison/test_importances.py",
    "comparison.importances.COLUMNS": "comparison/test_importances.py",
    "comparison.importances.ROWS": "comparison/test_importances.py",
    "comparison.leakage.COLUMNS": "comparison/test_leakage.py",
    "comparison.leakage.ROWS": "properties/test_samples.py",
    "comparison.experiment.Experiment.most_predictions": "properties/test_samples.py",
    "decisions.resampling._MOST_WORK": "decisions/test_resampling.py",
    "report.operating.VIEWS": "report/test_writer.py",
    "storage.container.LONG": "storage/test_container.py",
    "tables.parquet_rows._ROWS": "tables/test_parquet_rows.py",
    "tables.streams.SAMPLE": "tables/test_streams.py",
    "training.streamed.WINDOW": "training/test_streamed.py",
    "training.streamed.EPOCH": "training/test_streamed.py",
}
# Small enough to be reached, or not a limit of what is computed.
REACHED = {
    "boosting.xgboost._MOST_CATEGORIES": "a number that a file must not exceed",
    "classifiers.blending._STEPS": "steps of a search",
    "classifiers.ensemble.TREES": "the size of a forest",
    "classifiers.path.RESAMPLES": "draws",
    "metrics.meeting._BETWEEN": "steps of a search",
    "classifiers.scorecard.MOST_FEATURES": "reached by the tests of scorecards",
    "classifiers.streamed.HELD_NUMBERS": "the same rule as HELD, by columns",
    "comparison.fits.Sizes.max_epochs": "of a fit",
    "comparison.fits.Sizes.trees": "of a fit",
    "comparison.runs.FEWEST_ROWS": "reached",
    "comparison.runs.NUMBERS_A_SECOND": "of a time limit",
    "comparison.leakage.FEW": "reached",
    "counting.kernels.binary_grid.MOST_BINS": "both ways are reached by the tests of devices",
    "counting.kernels.layout.EXACT": "of floats",
    "counting.kernels.triton.operators.COLUMNS": "tiles of a kernel, reached by its own tests",
    "counting.kernels.triton.operators.PROGRAMS": "of a launch on a graphics card",
    "decisions.confidence._DRAWS": "draws",
    "decisions.confidence._FEWEST": "draws",
    "decisions.confidence._MOST_WORK": "beyond it there is no interval, as the class says",
    "decisions.confidence._QUANTILES": "reached",
    "decisions.confidence._WORK": "decides about the number of draws",
    "classifiers.ensemble.PROBE": "rows of a trial fit",
    "classifiers.folds._TWENTIETHS": "twentieths",
    "counting.kernels.triton.kernels.POSITIONS": "counting/kernels/test_triton.py",
    "counting.problem.FEW_SCORES": "reached",
    "report.sections.frontier._PER": "rows that alerts are counted in",
    "decisions.offsets.MAX_PASSES": "passes of a search",
    "decisions.thresholds.MAX_PASSES": "passes of a search",
    "cli.demo._DRAWS": "draws",
    "cli.outputs.PLAIN_EVERY": "seconds between lines of progress",
    "counting.kernels.triton.formulas.LARGEST": "beyond it PyTorch counts, by tests of formulas",
    "decisions.shift.FEWEST": "reached",
    "decisions.tuner.LONG": "work from which progress is shown",
    "decisions.reference._BINS": "reached",
    "decisions.reference._FEWEST": "of a summary of many labels",
    "decisions.reference._QUANTILES": "reached",
    "decisions.reference._ROWS": "reached",
    "decisions.resampling._DRAWS": "draws",
    "decisions.shift._ITERATIONS": "steps of a search",
    "report.watch._ROWS": "rows of a page, the last ones",
    "decisions.shrinking._QUANTILES": "reached",
    "decisions.smoothing._QUANTILES": "reached",
    "decisions.smoothing._WIDEST": "reached",
    "metrics.meeting._TRIED": "reached",
    "losses.ranks.HEADER": "numbers that describe a form",
    "plot.PIECES": "of a picture",
    "plot.POINTS": "of a picture",
    "report.calibration._FEWEST": "reached",
    "report.calibration._FEWEST_ISOTONIC": "reached",
    "report.calibration._POINTS": "of a picture",
    "report.operating._HEIGHT": "of a picture",
    "report.context.ROWS": "reached by a report of many columns",
    "report.sections.confusion._CLASSES": "reached by a report of many classes",
    "report.sections.data_summary._NOTES": "sentences, the first ones",
    "report.sections.importances._MOST": "columns, the first ones of a sorted list",
    "report.drawing.Plot.height": "of a picture",
    "report.drawing.UNIT": "of a picture",
    "report.drawing._AXIS": "of a picture",
    "report.writer.LARGEST": "reached by a report of many columns",
    "report.writer._PER_STOP": "bytes that a page is likely to have",
    "report.writer._USUAL": "bytes that a page is likely to have",
    "cli.train._TREES": "of a forest",
    "tables.columnar._SAMPLE": "rows that are read to guess a size",
    "storage.container._LONGEST_HEADER": "of refused files",
    "tables.files._BOMB_BYTES": "of refused archives",
    "tables.files._BOMB_TIMES": "of refused archives",
    "tables.columns.IDENTIFIER_ROWS": "reached",
    "tables.columns._MOST_WORDS": "reached by tests of columns",
    "tables.kinds.category.MOST_VALUES": "reached by tests of columns",
    "tables.kinds.number._EXACT": "of floats",
    "tables.parquet_rows._BUFFER": "bytes that are read at once by pyarrow",
    "tables.synthetic._BLOB": "rows that are made",
    "classifiers.linear_stream.GROUPS": "test_counted_scores_are_those_of_the_rows has more rows",
    "tables.rows.MOST_KINDS": "test_copies_beyond_the_limit_count_as_new sets it small",
    "training.linear._LOGISTIC_STEPS": "steps of a search",
    "training.linear._STEPS": "steps of a search",
    "storage.arrays._MOST_BYTES": "of refused files",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_is_computed_does_not_depend_on_limits(case):
    usual = np.asarray(case(), dtype=float)
    with small(CASES[case]):
        found = np.asarray(case(), dtype=float)
    near = LOOSE.get(case.__name__, 1e-9)
    np.testing.assert_allclose(found, usual, rtol=near, atol=near)


def whole_numbers():
    """The name of every whole number of 16 and more at the top of a module or of a class."""
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                for own in node.body:
                    value = _evaluated(own.value) if isinstance(own, ast.AnnAssign) else None
                    if type(value) is int and value >= 16:
                        yield f"{module}.{node.name}.{own.target.id}"
            elif isinstance(node, ast.Assign):
                target = node.targets[0]
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = _evaluated(node.value)
                values = values if isinstance(target, ast.Tuple) else [values]
                for name, value in zip(names, values or [], strict=False):
                    if type(value) is int and value >= 16:
                        yield f"{module}.{name.id}"


def _evaluated(node):
    try:
        return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
    except Exception:
        return None


def test_every_limit_is_known():
    here = {name for limits in CASES.values() for name in limits}
    known = here | set(ELSEWHERE) | set(REACHED)
    found = set(whole_numbers())
    assert sorted(found - known) == [], "a new limit: add a case that sets it small"
    assert sorted(known - found) == [], "a limit that is no more"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_limits_elsewhere_are_set_small(name):
    constant, text = name.rpartition(".")[2], (TESTS / ELSEWHERE[name]).read_text()
    assert f'"{constant}", ' in text or f"{constant}=" in text
