"""Linear models of streams and ranks: the same numbers as in memory, faults, and stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist
from scipy import sparse

import softset as ss
from softset.classifiers import path
from softset.classifiers.linear_stream import StreamedRows, counted_scores, fit_stream, survey
from softset.losses.ranks import RankError
from softset.metrics.registry import get_goal
from softset.storage.files import SavedFileError
from softset.tables.streams import ClassCounts
from softset.training.linear import LinearProblem
from softset.training.linear_passes import LinearPasses, RankSums
from tests.classifiers.run_linear_ranks import FEW, METRICS, QUICK, SECONDS, blocks, evaluated, rows

ROOT = Path(__file__).parents[2]
needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")


@pytest.fixture
def few(monkeypatch):
    """The path is chosen on a sample; all rows are gone through in passes."""
    monkeypatch.setattr(path, "MOST_ROWS", FEW)


def cut(*arrays):
    return [tuple(v[i : i + 90] for v in arrays) for i in range(0, arrays[0].shape[0], 90)]


def same(a, b, tolerance=1e-6):
    assert a.chosen_ == b.chosen_
    assert np.abs(a.coef_ - b.coef_).max() <= tolerance * np.abs(a.coef_).max()
    assert np.abs(a.intercept_ - b.intercept_).max() <= tolerance * np.abs(a.coef_).max()


def ranks(folder, size, what):
    """What each rank tells. No rank may hang."""
    command = [sys.executable, "-m", "tests.classifiers.run_linear_ranks", str(folder)]
    running = subprocess.Popen([*command, str(size), what], cwd=ROOT, start_new_session=True)
    try:
        running.wait(timeout=240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    files = [folder / f"{rank}.json" for rank in range(size)]
    return [json.loads(f.read_text()) if f.exists() else None for f in files]


# --- the same numbers -----------------------------------------------------------------------------


def test_objectives_and_gradients_of_blocks_are_those_of_memory():
    x, y, w = rows()
    flat = np.array([0.5, -0.3, 1.0, 0.2, -0.4])
    whole = LinearProblem(x / 10, y, w, 2)
    expected = [whole.soft_loss(get_goal(metric), flat) for metric in METRICS]
    expected.append(whole.log_loss(flat))
    for (value, grad), found in zip(expected, evaluated(x, y, w, None), strict=True):
        np.testing.assert_allclose(found, [value, *grad], rtol=1e-12, atol=1e-12 * abs(value))


@needs_gloo
@pytest.mark.usefixtures("few")
def test_memory_streams_and_ranks_agree(tmp_path):
    """Two ranks with arrays, and three with streams, uneven, one without positives."""
    told = ranks(tmp_path, 3, "agree")
    alone = evaluated(*rows(), None)
    for rank, size in ((0, 2), (1, 2), (0, 3), (1, 3), (2, 3)):
        found = told[rank][f"evaluated {size}"]
        for got, expected in zip(found, alone, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * abs(expected[0]))
    for metric in METRICS:
        memory = ss.MetricLinearClassifier(metric, **QUICK).fit(*rows())
        stream = ss.MetricLinearClassifier(metric, **QUICK).fit(blocks(*rows()))
        same(memory, stream)
        sizes = ((0, 2), (1, 2)) if metric == "f1" else ()
        for rank, size in (*sizes, (0, 3), (1, 3), (2, 3)):
            chosen, coef, threshold = told[rank][f"{metric} {size}"]
            assert chosen == memory.chosen_
            np.testing.assert_allclose(coef, memory.coef_, atol=1e-6 * np.abs(memory.coef_).max())
            assert threshold == pytest.approx(stream.threshold_, abs=1e-6)


CASES = {
    "multiclass": ("f1_macro", {"class_weight": "balanced"}),
    "labels": ("f1_macro", {"class_weight": "balanced"}),
    "sparse": ("f1", {}),
    "zeros": ("f1", {"l1_ratio": 0.8, "C": 0.05}),
    "signs": ("mcc", {"monotonic_cst": [1, -1, 0, 0], "pos_label": 0}),
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::softset.classifiers.base.ConstantWarning")
def test_every_kind_of_problem_is_the_same_in_a_stream(case):
    metric, settings = CASES[case]
    x, y, w = rows()
    if case == "multiclass":
        y = np.where(x[:, 2] > 0.1, 2, y)
    if case == "labels":
        y = np.column_stack([y, x[:, 2] > 0.1]).astype(int)
    if case in ("sparse", "zeros"):
        # Equal rows: which copy is sampled is no matter if they have one weight.
        x, w = sparse.csr_matrix(np.where(np.abs(x) > 1, x, 0)), np.ones(len(y))
    memory = ss.MetricLinearClassifier(metric, **settings, **QUICK).fit(x, y, w)
    stream = ss.MetricLinearClassifier(metric, **settings, **QUICK).fit(cut(x, y, w))
    # L-BFGS-B ends less sharply where pairs of variables stand for absolute values.
    same(memory, stream, 1e-4 if case == "zeros" else 1e-6)
    assert (memory.coef_ == 0).tolist() == (stream.coef_ == 0).tolist()


def test_a_stream_that_fits_into_the_sample_is_the_model_of_memory():
    """Threshold, promise and scorecard too."""
    x, y, w = rows()
    settings = {"metric": "recall@precision>=0.7", "confidence": 0.9, **QUICK}
    memory = ss.MetricLinearClassifier(**settings).fit(x, y, w)
    stream = ss.MetricLinearClassifier(**settings).fit(blocks(x, y, w))
    same(memory, stream)
    assert stream.threshold_ == pytest.approx(memory.threshold_, abs=1e-9)
    assert stream.promise_.packed() == pytest.approx(memory.promise_.packed(), abs=1e-9)
    assert str(stream.scorecard()) == str(memory.scorecard())
    parts = [model.logistic_part().threshold_ for model in (memory, stream)]
    assert parts[0] == pytest.approx(parts[1], abs=1e-9)


def test_rows_that_repeat_are_sampled_copy_by_copy(monkeypatch):
    """Of five kinds of rows a sample has each about as often as all rows have it."""
    monkeypatch.setattr(path, "MOST_ROWS", 300)
    x = np.repeat(np.arange(5.0), 600)[:, None]
    y = (np.arange(3000) % 7 < 1 + x[:, 0] / 2).astype(int)
    memory = ss.MetricLinearClassifier("f1").fit(x, y)
    stream = ss.MetricLinearClassifier("f1").fit(cut(x, y))
    same(memory, stream)
    sampled = np.bincount(stream._training.rows.x[:, 0].astype(int))
    assert (np.abs(sampled - 60) < 30).all()


def test_counted_scores_are_those_of_the_rows():
    g = np.random.default_rng(0)
    z, y = g.normal(size=50_000) * 3, (np.arange(50_000) % 9 == 0).astype(int)
    found, target, w = counted_scores(lambda: iter([(z, y, np.ones(len(y)))]), RankSums())
    assert w.sum() == 50_000
    for k in (0, 1):
        exact, near = np.sort(z[y == k]), found[target == k]
        mass = np.cumsum(w[target == k]) - w[target == k] / 2
        middle = np.abs(near) < 7
        assert np.abs(exact[mass.astype(int)] - near)[middle].max() < 0.05
    with_counts = ss.best_threshold(found, target, "f1", sample_weight=w, from_logits=True)
    assert with_counts == pytest.approx(ss.best_threshold(z, y, "f1", from_logits=True), abs=0.02)


# --- faults ---------------------------------------------------------------------------------------


def check_fault(folder, what):
    told = ranks(folder, 2, what)
    assert told[0][0] == "RankError", told
    assert told[0][2] < SECONDS + 60
    if what == "killed":
        assert told[1] is None
    else:
        assert told[1][0] == ("ValueError" if what == "nan" else "RankError")
    expected = {
        "killed": "does not answer",
        "nan": "rank 1 has failed",
        "columns": "columns",
        "empty": "none on rank 1",
    }
    assert expected[what] in told[0][1]


@needs_gloo
@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_ten_faults_of_ten_end_all(tmp_path, number):
    check_fault(tmp_path, ["killed", "nan", "columns", "empty"][number % 4])


def test_a_rank_without_rows_is_refused():
    """By all ranks, as all of them see what each has gathered."""

    class WithAnother(RankSums):
        def gather(self, make):
            return [make(), (ClassCounts(), None, None)]

    model = ss.MetricLinearClassifier("f1")
    with pytest.raises(RankError, match=r"got none on rank 1\. Start fewer ranks"):
        survey(model, StreamedRows(model, blocks(*rows())), WithAnother())


class StoppedError(Exception):
    pass


@pytest.mark.usefixtures("few")
def test_a_stopped_training_goes_on_to_the_same_coefficients(tmp_path, monkeypatch):
    stream, file = blocks(*rows()), tmp_path / "run"
    expected = ss.MetricLinearClassifier("mcc").fit(stream)
    passes = []
    problems = LinearPasses.problems

    def counted(self):
        passes.append(0)
        if stops and len(passes) == stops[0]:
            raise StoppedError
        return problems(self)

    monkeypatch.setattr(LinearPasses, "problems", counted)
    stops = [4]
    with pytest.raises(StoppedError):
        fit_stream(ss.MetricLinearClassifier("mcc"), stream, file)
    with open(file, "ab") as torn:
        torn.write(b"torn")
    stops, first = [len(passes) + 12], len(passes)
    with pytest.raises(StoppedError):
        fit_stream(ss.MetricLinearClassifier("mcc"), stream, file)
    stops, total = [], len(passes)
    model = ss.MetricLinearClassifier("mcc")
    fit_stream(model, stream, file)
    assert (model.coef_ == expected.coef_).all()
    again, total = len(passes) - total, len(passes)
    fit_stream(ss.MetricLinearClassifier("mcc"), stream, file)
    assert len(passes) - total == 1  # the threshold; all evaluations are in the file
    assert again > first > 0
    with pytest.raises(SavedFileError, match="other data or settings"):
        fit_stream(ss.MetricLinearClassifier("f1"), stream, file)


@pytest.mark.parametrize(
    ("stream", "settings", "message"),
    [
        ([(np.ones((4, 2)), np.ones(4, int))], {}, "at least two classes"),
        ([(np.ones((4, 2)), [0, 1, 0, 1], [1, 1, -1, 1])], {}, "not negative"),
        ([(np.ones((4, 2)), [0, 1, 0, 1])], {"cv": [([0], [1])]}, "cv must be a number"),
    ],
)
def test_what_cannot_be_trained_is_refused(stream, settings, message):
    with pytest.raises(ValueError, match=message):
        ss.MetricLinearClassifier("f1", **settings).fit(stream)
