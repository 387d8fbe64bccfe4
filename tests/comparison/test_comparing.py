"""compare(): the whole of it on small tables, and what it refuses."""

import html
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_multilabel_classification

import softset
from softset import Comparison, compare
from softset.comparison.candidates import BY_ID
from softset.comparison.experiment import Experiment
from softset.comparison.fits import Sizes
from softset.comparison.result import ClassCount
from softset.comparison.runs import split_results
from softset.storage.schema import encoded
from softset.tables.splits import repeated_folds
from softset.tasks import BINARY

# Small tables are warned of, and these are small.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*scores of so few are uncertain", "ignore:too good"),
    pytest.mark.usefixtures("small_models"),
]
PAIR = ["cross-entropy-tuned", "metric"]
LINEAR = ["linear", "linear-tuned"]  # where any will do, for time


def rare(n=240, seed=0):
    """Few positives that a line nearly finds."""
    r = np.random.RandomState(seed)
    X = r.randn(n, 4)
    return X, (X[:, 0] + X[:, 1] + 0.8 * r.randn(n) > 1.8).astype(int)


def table(found):
    """What must not depend on how the runs were made."""
    return {
        "scores": {c.id: c.scores for c in found.candidates},
        "thresholds": {c.id: c.thresholds for c in found.candidates},
        "predictions": encoded(found.predictions),
        "history": encoded(found.history),
        "outcome": (found.outcome, found.winner, found.reference, found.verdict, found.advice),
        "gains": encoded(found.gains),
    }


@pytest.fixture(scope="module")
def found(small_models):
    X, y = rare()
    return compare(X, y, "f1", quick=True, candidates=PAIR, n_jobs=1, random_state=1)


def test_all_fields_are_there_and_json_can_hold_them(found):
    again = Comparison.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again == found
    assert again.model is None
    assert found.to_dict()["format"] == 3
    assert {c.id for c in found.candidates} == set(PAIR)
    means = [c.mean for c in found.candidates]
    assert means == sorted(means, reverse=True)
    for c in found.candidates:
        assert len(c.scores) == len(c.thresholds) == 5
        assert c.low <= c.mean <= c.high
        assert (c.difference is None) == (c.id == found.reference)
    assert found.splits.test_fraction == pytest.approx(0.2)
    assert found.data.rows == 240
    assert sum(c.rows for c in found.data.classes) == 240
    assert set(found.history) == set(PAIR)


def test_predictions_are_out_of_fold_each_row_once(found):
    _, y = rare()
    for p in found.predictions.values():
        assert len(p.target) == len(p.scores) == 240
        assert sum(p.target) == y.sum()
        assert 0 < p.threshold < 1


def test_the_winner_is_refitted_and_predicts(found):
    X, y = rare()
    assert found.winner in PAIR
    assert set(found.model.predict(X)) <= {0, 1}
    assert found.model.predict_proba(X).shape == (240, 2)
    assert softset.evaluate(found.model.predict(X) - 0.5, y, "f1", from_logits=True) > 0.5


def test_intervals_stay_within_the_range_of_the_metric():
    X, y = rare(60)
    given = {"candidates": LINEAR, "n_jobs": 1, "quick": True, "cv": 2}
    for metric, least in (("f1", 0), ("mcc", -1)):
        found = compare(X, y, metric, **given)
        assert all(least <= c.low <= c.mean <= c.high <= 1 for c in found.candidates)


def test_it_shows_itself(found, capsys, monkeypatch, tmp_path):
    text = str(found)
    assert text.startswith(found.verdict)
    assert "Cross-entropy, tuned threshold" in text
    page = found._repr_html_()
    assert page.count("<table>") == 2
    assert "<th>gain</th>" in page
    for text in (found.verdict, *(stage.name for stage in found.gains.stages)):
        assert html.escape(text) in page
    found.help()
    lines = [line.partition("#")[0] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.chdir(tmp_path)
    exec("\n".join(lines), {"result": found})  # the advice runs as printed
    assert {"model.softset", "report.html"} == {path.name for path in tmp_path.iterdir()}
    assert len(repr(found)) < 300


def test_html_is_escaped(found):
    named = [replace(c, name="<script>") for c in found.candidates]
    assert "<script>" not in replace(found, candidates=named)._repr_html_()


def test_a_planted_gain_is_found():
    """Rare noisy positives: logistic regression at 0.5 finds hardly any, training on F1 does."""
    r = np.random.RandomState(0)
    X = r.randn(1500, 3)
    y = (r.rand(1500) < 1 / (1 + np.exp(3.2 - 1.3 * X[:, 0]))).astype(int)
    found = compare(X, y, "f1", quick=True, candidates=["linear", "linear-metric"], n_jobs=1)
    assert found.outcome == "significant"
    assert found.verdict.startswith("Use linear model for F1: F1 0.")
    assert found.verdict.endswith(" over logistic regression, default threshold (0.5).")
    assert (found.winner, found.reference) == ("linear-metric", "linear")
    assert found.gains.stages[1].gain.significant


def test_no_signal_gives_no_significant_difference():
    r = np.random.RandomState(0)
    X, y = r.randn(100, 3), np.arange(100) % 3 == 0
    ids = ["linear", "linear-tuned", "linear-metric", "forest"]
    ids += ["boosting-tuned", "boosting-metric", "forest-tuned"]
    found = compare(X, y, "f1", quick=True, n_jobs=1, candidates=ids)
    assert found.outcome in ("not significant", "stay")
    assert len(found.candidates) == 7
    assert not any(stage.gain.significant for stage in found.gains.stages[1:])


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["f1", "mcc", "auroc"])
def test_no_signal_again_and_again(metric):
    said = []
    for seed in range(7):
        r = np.random.RandomState(seed)
        X, y = r.randn(200, 3), r.rand(200) < 0.3
        said.append(compare(X, y, metric, quick=True, random_state=seed).outcome)
    assert said.count("significant") <= 1


# --- leakage -------------------------------------------------------------------------------------


def test_duplicates_across_the_split_do_not_help():
    r = np.random.RandomState(0)
    X, y = np.repeat(r.randn(160, 4), 2, axis=0), np.repeat(np.arange(160) % 2, 2)
    given = {"candidates": ["forest-tuned", "linear"], "quick": True, "n_jobs": 1}
    together = compare(X, y, "auroc", **given)
    assert together.splits.duplicates == 320
    assert "320 duplicate rows kept on one side" in together.splits.note
    means = {c.id: c.mean for c in together.candidates}
    assert means["forest-tuned"] < 0.65
    apart = compare(X, y, "auroc", duplicates="ignore", **given)
    assert {c.id: c.mean for c in apart.candidates}["forest-tuned"] > 0.9


def test_an_encoder_that_remembers_its_rows_gives_no_gain(monkeypatch):
    """Rows it was fitted on get their label as a feature: fitted on test rows, it would tell."""

    class Memory:
        columns_, notes_, names_ = [], [], ["told", "noise"]

        def __init__(self, schema=None):
            self.seen = {}

        def fit(self, frame):
            self.seen = dict(zip(frame["id"], frame["secret"], strict=True))
            return self

        def transform(self, frame):
            told = [self.seen.get(i, 0.5) for i in frame["id"]]
            return np.column_stack([told, frame["noise"]])

    monkeypatch.setattr("softset.comparison.experiment.TableEncoder", Memory)
    r = np.random.RandomState(0)
    y = r.randint(0, 2, 120)
    frame = pd.DataFrame({"id": r.permutation(120) + 0.5, "secret": y, "noise": r.randn(120)})
    found = compare(frame, y, "auroc", quick=True, n_jobs=1, candidates=["forest-tuned", "linear"])
    assert all(c.mean < 0.7 for c in found.candidates)


@pytest.mark.parametrize("framed", [False, True])
def test_test_rows_have_no_say_in_training(framed):
    """Other inputs and labels in the test rows: the same thresholds and epochs."""
    X, y = rare(150)
    folds = repeated_folds(y, None, 3, 1, 0)
    test = folds[0] == 0
    changed, flipped = X.copy(), y.copy()
    changed[test] = 50 * changed[test] - 7
    flipped[test] = 1 - flipped[test]
    schema = None
    if framed:
        X, changed = (pd.DataFrame(v, columns=list("abcd")) for v in (X, changed))
        schema = softset.tables.infer_schema(X)
    fits = {"networks": ["cross-entropy-tuned", "warm"], "boosting": ["boosting-metric"]}
    fits["forest"] = ["forest-tuned"]
    sizes = Sizes(n_networks=2, max_epochs=5, trees=10)
    results = []
    rows = {fit: [BY_ID[c] for c in ids] for fit, ids in fits.items()}
    for x, target in [(X, y), (changed, flipped)]:
        task = Experiment(x, target, folds, BINARY, "f1", sizes, 0, rows, schema)
        results.append({fit: split_results(task, 0, fit) for fit in fits})
    for fit, ids in fits.items():
        for c in ids:
            one, other = results[0][fit][c], results[1][fit][c]
            assert one.threshold == other.threshold
            assert one.history == other.history
            assert one.predictions.scores != other.predictions.scores


def test_groups_are_kept_together():
    """A feature that names the group, whose label is random: no use across groups."""
    r = np.random.RandomState(0)
    group = np.repeat(np.arange(30), 8)
    X = np.column_stack([r.permutation(30)[group], r.randn(240)])
    y = r.randint(0, 2, 30)[group]
    given = {"candidates": ["forest-tuned", "linear"], "quick": True, "n_jobs": 1}
    kept = compare(X, y, "auroc", groups=group, **given)
    means = {c.id: c.mean for c in kept.candidates}
    assert means["forest-tuned"] < 0.7
    assert kept.splits.groups == "given"
    loose = compare(X, y, "auroc", **given)
    assert {c.id: c.mean for c in loose.candidates}["forest-tuned"] > 0.9


# --- tasks and metrics ---------------------------------------------------------------------------


def test_multiclass_with_names():
    X, y = make_classification(
        180, 6, n_informative=4, n_classes=3, weights=[0.6, 0.3], random_state=0
    )
    names = np.array(["cat", "dog", "<script>"])[y]
    ids = [*LINEAR, "forest-tuned"]
    found = compare(X, names, "f1", quick=True, n_jobs=1, candidates=ids)
    assert found.task == "multiclass"
    assert found.positive is None
    assert found.classes == ["<script>", "cat", "dog"]
    assert set(found.model.predict(X)) <= set(names)
    p = found.predictions[found.winner]
    assert np.shape(p.scores) == (180, 3)
    assert len(p.threshold) == 3


def test_multilabel_with_names():
    X, y = make_multilabel_classification(200, 5, n_classes=3, random_state=0)
    labels = pd.DataFrame(y, columns=["a", "b", "c"])
    ids = [*LINEAR, "forest-tuned", "cross-entropy-weighted"]
    found = compare(X, labels, "f1", quick=True, n_jobs=1, candidates=ids)
    assert found.task == "multilabel"
    assert found.classes == ["a", "b", "c"]
    assert any("cross-entropy-weighted" in w for w in found.warnings)
    assert np.shape(found.predictions[found.reference].scores) == (200, 3)
    assert found.model.predict(X).shape == (200, 3)


@pytest.mark.parametrize("metric", ["auroc", "average_precision"])
def test_areas_have_no_threshold(metric):
    X, y = rare()
    found = compare(X, y, metric, quick=True, n_jobs=1, candidates=["linear", "boosting"])
    assert all(c.thresholds is None for c in found.candidates)
    assert found.predictions[found.winner].threshold is None
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_a_frame_of_mixed_columns_and_the_positive_class():
    X, y = rare()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["color"] = np.where(X[:, 0] > 0, "red", "blue")
    frame.loc[3, "b"] = np.nan
    frame["same"] = 1
    text = np.where(y == 1, "good", "bad")
    with pytest.warns(UserWarning, match="'same' is constant"):
        found = compare(frame, text, "f1", pos_label="bad", quick=True, n_jobs=1, candidates=LINEAR)
    assert found.positive == "bad"
    assert found.classes == ["good", "bad"]
    assert found.data.classes[1] == ClassCount("bad", int((text == "bad").sum()))
    assert found.data.features == 6
    assert any("same" in n for n in found.data.notes)
    assert any("same" in w for w in found.warnings)
    assert set(found.model.predict(frame)) <= {"good", "bad"}


def test_a_metric_of_ones_own():
    X, y = rare()
    cost = lambda c: 1 - (5 * c.fn + c.fp) / c.total / 5  # noqa: E731
    found = compare(X, y, cost, quick=True, n_jobs=2, candidates=PAIR)
    assert found.metric == "<lambda>"


def test_a_candidate_that_fails_is_left_out_and_named(monkeypatch):
    from softset.comparison import runs  # noqa: PLC0415

    fit = runs.fit_candidates

    def failing(wanted, *rest):
        if [c.id for c in wanted] == ["forest-tuned"]:
            raise RuntimeError("no trees today")
        return fit(wanted, *rest)

    monkeypatch.setattr(runs, "fit_candidates", failing)
    X, y = rare()
    found = compare(X, y, quick=True, n_jobs=1, candidates=[*LINEAR, "forest-tuned"])
    bad = found.candidates[-1]
    assert bad.id == "forest-tuned"
    assert bad.error == "split 1: RuntimeError: no trees today"
    assert "failed: split 1" in str(found)


# --- what is refused -----------------------------------------------------------------------------

X0, Y0 = rare(60)
FEW = np.array(["a"] * 40 + ["b"] * 17 + ["c"] * 3)
MISSING = [None if i in (4, 9) else int(v) for i, v in enumerate(Y0)]
BAD = [
    ({"y": np.zeros(60)}, "one class only: 0"),
    ({"y": FEW}, "class 'c' has 3 rows, fewer than cv=5"),
    ({"y": MISSING}, r"missing.* in 2 row\(s\): 4, 9"),
    ({"y": pd.Series(MISSING, dtype="Int64")}, r"missing .*in 2 row\(s\): 4, 9"),
    ({"y": ["a", 1] * 30}, "mix text and numbers"),
    ({"y": np.random.RandomState(0).rand(60)}, "y must hold classes, got 60 different numbers"),
    ({"pos_label": "yes"}, r"pos_label must be one of \[0, 1\], got 'yes'"),
    ({"y": Y0[:50]}, "X has 60 rows, y has 50"),
    ({"metric": "f1x"}, "metric 'f1x' is not known"),
    ({"task": "multiclass"}, "task is 'multiclass', but y is binary"),
    ({"groups": np.zeros(60)}, "1 groups, fewer than cv=5"),
    ({"groups": np.zeros(5)}, "one label for each of 60 rows"),
    ({"cv": 1}, "cv must be in"),
    ({"time_limit": -1}, "time_limit must be in"),
    ({"resume": True}, "resume needs the directory"),
    ({"X": np.ones((60, 2)) * np.nan}, "NaN"),
    ({"duplicates": "keep"}, "duplicates must be"),
    ({"n_jobs": 0}, "jobs must be"),
    ({"candidates": ["warn"]}, "Did you mean 'warm'"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_arguments_are_named(changed, message):
    arguments = {"X": X0, "y": Y0, "candidates": PAIR, **changed}
    with pytest.raises(ValueError, match=message):
        compare(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_equal_rows_of_a_class_are_not_enough():
    X, y = X0.copy(), (np.arange(60) < 8).astype(int)
    X[4:8] = X[:4]
    with pytest.raises(ValueError, match="class 1 has 4 different rows or groups"):
        compare(X, y, candidates=PAIR)


def test_columns_of_few_categories_are_compared_as_other_columns_are():
    """Two columns of 0 and 1, which need their product: rows are held out, not kinds of rows."""
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (300, 2)).astype(float)
    y = (random.random(300) < np.where(X[:, 0] == X[:, 1], 0.85, 0.15)).astype(int)
    candidates = ["linear-tuned", "forest-tuned"]
    found = compare(X, y, candidates=candidates, n_jobs=1, quick=True, random_state=0)
    means = {c.id: c.mean for c in found.candidates}
    assert found.winner == "forest-tuned"
    assert means["forest-tuned"] > 0.8 > means["linear-tuned"] + 0.1
    assert found.splits.duplicates == 0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y0[:, None], r"shape \(n, 1\)"),
        (np.where(Y0 == 1, "A", np.where(np.arange(60) < 25, "B", "B ")), "differ only by blanks"),
    ],
)
def test_doubtful_labels_are_a_warning(y, message):
    with pytest.warns(UserWarning, match=message):
        found = compare(X0, y, candidates=LINEAR, n_jobs=1, cv=2, repeats=1, quick=True)
    assert found.warnings


@pytest.mark.parametrize("labels", [["NA", "None"], ["01", "1"], [-1, 1], [False, True], ["", "x"]])
def test_labels_of_any_kind_come_back(labels):
    given = np.array(labels)[Y0]
    found = compare(X0, given, candidates=LINEAR, n_jobs=1, cv=2, repeats=1, quick=True)
    assert found.classes == sorted(labels)
    assert set(found.model.predict(X0).tolist()) <= set(labels)


def test_half_the_labels_flipped_still_ends():
    y = np.where(np.random.RandomState(0).rand(60) < 0.5, 1 - Y0, Y0)
    found = compare(X0, y, candidates=PAIR, n_jobs=1, cv=3, repeats=1, quick=True)
    assert all(np.isfinite(c.scores).all() for c in found.candidates)


# --- time, interruption, clusters ----------------------------------------------------------------


def test_quick_makes_one_repeat_and_repeats_can_be_set():
    given = {"candidates": LINEAR, "n_jobs": 1, "quick": True, "cv": 3}
    one, two = compare(X0, Y0, **given), compare(X0, Y0, repeats=2, **given)
    assert [f.splits.count for f in (one, two)] == [3, 6]
    scores = [{c.id: c.scores[:3] for c in f.candidates} for f in (one, two)]
    assert scores[0] == scores[1]


def test_a_budget_is_kept_and_splits_are_whole():
    X, y = rare(150)
    started = time.monotonic()
    found = compare(X, y, candidates=PAIR, n_jobs=1, quick=True, repeats=100, time_limit=3)
    assert time.monotonic() - started < 15
    assert 1 <= found.splits.count < 500
    assert "of 500 splits were run in the time limit of 3 seconds" in found.splits.note
    assert len({len(c.scores) for c in found.candidates}) == 1


def test_a_short_budget_takes_fewer_rows_and_says_so():
    X, y = rare(60_000)
    given = {"candidates": ["forest-tuned", "boosting-metric"], "n_jobs": 1, "quick": True}
    found = compare(X, y, time_limit=3, **given)
    assert "of 60000 rows were compared on" in found.splits.note
    assert found.duration < 15
    assert found.data.rows == 60_000
    assert f"{found.data.used} of 60000 rows" in found.splits.note
    assert found.data.used <= found.data.refitted <= 60_000
    assert found.model is not None


def test_interrupted_and_resumed_is_the_same_table(tmp_path):
    X, y = rare(100)
    given = {
        "candidates": [*LINEAR, "warm"],
        "n_jobs": 1,
        "quick": True,
        "cv": 3,
        "random_state": 2,
    }
    whole = compare(X, y, directory=tmp_path / "whole", **given)
    for stop in (1, 3, 4):

        def interrupt(done, total, left, stop=stop):
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            compare(X, y, directory=tmp_path / "a", resume=stop > 1, progress=interrupt, **given)
    counted = []
    resumed = compare(
        X, y, directory=tmp_path / "a", resume=True, progress=lambda *p: counted.append(p), **given
    )
    assert table(resumed) == table(whole)
    assert [done for done, *_ in counted[:2]] == [0, 4]  # what was done is not done again
    assert (tmp_path / "a" / "runs.jsonl").read_text().count("\n") == 7


@pytest.mark.parametrize(
    "changed", [{"random_state": 3}, {"y": Y0[::-1]}, {"quick": False}, {"metric": "mcc"}]
)
def test_resuming_something_else_is_refused(tmp_path, changed):
    given = {"y": Y0, "candidates": LINEAR, "n_jobs": 1, "quick": True, "cv": 2, "metric": "f1"}
    compare(X0, directory=tmp_path, **given)
    with pytest.raises(ValueError, match="other data or settings"):
        compare(X0, directory=tmp_path, resume=True, **{**given, **changed})
    with pytest.raises(ValueError, match="holds an earlier sweep"):
        compare(X0, directory=tmp_path, **given)


def test_workers_give_the_same_table(found):
    X, y = rare()
    again = compare(X, y, "f1", quick=True, candidates=PAIR, n_jobs=2, random_state=1)
    assert table(again) == table(found)


SCRIPT = """
import json, sys
import softset
from tests.comparison.test_comparing import PAIR, rare, table

if __name__ == "__main__":
    X, y = rare(400)
    found = softset.compare(X, y, n_jobs=2, quick=True, repeats=2, directory=sys.argv[1],
                            resume=True, candidates=[*PAIR, "warm", "boosting-metric"])
    print(json.dumps(table(found)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_ten_interruptions_at_random(tmp_path, how):
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    whole = subprocess.run(
        [*command, tmp_path / "whole"], env=environment, capture_output=True, check=True
    )
    log, stopped, r = tmp_path / "a" / "runs.jsonl", 0, random.Random(int(how))
    while stopped < 10:
        before = log.read_text().count("\n") if log.exists() else 0
        process = subprocess.Popen(
            [*command, tmp_path / "a"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Some are stopped at once, most after another run or two.
        wanted = before + r.choice([0, 1, 2])
        while process.poll() is None and (not log.exists() or log.read_text().count("\n") < wanted):
            time.sleep(0.02)
        time.sleep(r.random())
        if process.poll() is not None:
            break
        (os.killpg if how == signal.SIGKILL else os.kill)(process.pid, how)
        process.wait()
        stopped += 1
    assert stopped >= 8
    last = subprocess.run(
        [*command, tmp_path / "a"], env=environment, capture_output=True, check=True
    )
    assert json.loads(last.stdout) == json.loads(whole.stdout)


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_table(found):
    distributed = pytest.importorskip("distributed")
    X, y = rare()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        again = compare(
            X, y, "f1", quick=True, candidates=PAIR, random_state=1, backend="dask", n_jobs=2
        )
    assert table(again) == table(found)
