"""The numbers of a comparison follow from its runs, for every task: means, intervals, tests, ranks,
thresholds, and what the report says of each class."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import sklearn.metrics as sk
from scipy.stats import rankdata
from scipy.stats import t as student

from softset import compare
from softset.report import render

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*scores of so few are uncertain", "ignore:too good"
)
CV, REPEATS, N = 3, 2, 150
CANDIDATES = ["linear", "linear-tuned", "boosting-tuned", "forest-tuned"]
NAMES = {
    "binary": ["well", "ill"],
    "multiclass": ["a", "b", "c"],
    "multilabel": ["label 0", "label 1"],
}


def table(task):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3))
    z = x + 0.8 * rng.normal(size=x.shape)
    if task == "multilabel":
        return x, (z[:, :2] > [0.5, 0.9]).astype(int)
    if task == "binary":
        return x, np.where(z[:, 0] > 0.6, "ill", "well")
    return x, np.array(["a", "b", "c"])[(z - [0, 0.3, 0.6]).argmax(1)]


@pytest.fixture(scope="module", params=NAMES)
def made(request, tmp_path_factory, small_models):
    """A task, its comparison, and what the runs wrote down."""
    task, folder = request.param, tmp_path_factory.mktemp("runs")
    given = {"pos_label": "ill"} if task == "binary" else {}
    x, y = table(task)
    found = compare(
        x,
        y,
        "f1",
        candidates=CANDIDATES,
        cv=CV,
        repeats=REPEATS,
        n_jobs=1,
        directory=folder,
        **given,
    )
    lines = (folder / "runs.jsonl").read_text().splitlines()[1:]
    splits = [{} for _ in range(CV * REPEATS)]
    for line in map(json.loads, lines):
        splits[line["run"]["split"]].update(line["result"]["candidates"])
    return task, found, splits


def f1(task, y, decided):
    return sk.f1_score(y, decided, average="binary" if task == "binary" else "macro")


def decided_by(task, p, cut):
    if task == "multiclass":
        with np.errstate(divide="ignore"):
            return (np.log(p) + (np.zeros(3) if cut is None else cut)).argmax(1)
    return (p >= (0.5 if cut is None else np.array(cut))).astype(int)


def codes(task):
    _, y = table(task)
    if task == "multilabel":
        return y
    return np.array([NAMES[task].index(name) for name in y])


def test_every_split_is_scored_by_its_own_decisions(made):
    task, found, splits = made
    assert found.classes == NAMES[task]
    for number, split in enumerate(splits):
        for name, run in split.items():
            if number >= CV:  # rows are kept of the first repeat
                assert run["predictions"] is None
                continue
            p, y = (np.array(run["predictions"][key]) for key in ("scores", "target"))
            wanted = f1(task, y, decided_by(task, p, run["threshold"]))
            assert run["score"] == pytest.approx(wanted, abs=1e-12), name
    assert [c.scores for c in found.candidates] == [
        [split[c.id]["score"] for split in splits] for c in found.candidates
    ]


def test_means_intervals_and_ranks(made):
    """Nadeau and Bengio: a variance of (1/J + test/train) s^2."""
    _, found, splits = made
    scores = {c: np.array([split[c]["score"] for split in splits]) for c in CANDIDATES}
    ranks = rankdata([-scores[c] for c in CANDIDATES], axis=0).mean(1)
    count = CV * REPEATS
    factor = 1 / count + 1 / (CV - 1)
    reach = student.ppf(0.975, count - 1)
    for c in found.candidates:
        own = scores[c.id]
        assert c.mean == pytest.approx(own.mean())
        assert c.rank == pytest.approx(ranks[CANDIDATES.index(c.id)])
        half = reach * np.sqrt(factor * own.var(ddof=1))
        assert c.high == pytest.approx(min(1, own.mean() + half), abs=1e-9)
        assert c.low == pytest.approx(max(0, own.mean() - half), abs=1e-9)
        if c.id == found.reference:
            assert c.difference is None
            continue
        gap = own - scores[found.reference]
        assert c.difference.mean == pytest.approx(gap.mean())
        least = reach * np.sqrt(factor * gap.var(ddof=1))  # or what one row is worth
        assert c.difference.high - c.difference.mean >= least - 1e-9
        assert c.seconds == pytest.approx(np.mean([s[c.id]["seconds"] for s in splits]), abs=1e-3)
    assert found.splits.count == count
    assert found.splits.test_fraction == pytest.approx(1 / CV)


def test_predictions_are_of_the_first_repeat_at_the_median_threshold(made):
    task, found, splits = made
    for name, kept in found.predictions.items():
        first = [split[name] for split in splits[:CV]]
        assert kept.target == [t for run in first for t in run["predictions"]["target"]]
        assert kept.scores == [s for run in first for s in run["predictions"]["scores"]]
        median = np.median([run["threshold"] for run in first], axis=0)
        np.testing.assert_allclose(kept.threshold, median)
        y = codes(task)
        assert sorted(kept.target) == sorted(y.tolist())


def test_the_report_counts_each_class(made):
    """Precision, recall, F1, support and predictions of the winner, and its areas."""
    task, found, _ = made
    kept = found.predictions[found.winner]
    p, y = np.array(kept.scores), np.array(kept.target)
    decided = decided_by(task, p, kept.threshold)
    precision, recall, score, support = sk.precision_recall_fscore_support(
        y, decided, zero_division=0
    )
    predicted = decided.sum(0) if task == "multilabel" else np.bincount(decided)
    text = render(found)
    section = text.partition('<section id="classes">')[2].partition("</section>")[0]
    rows = re.findall(r"<tr.*?</tr>", section, flags=re.S)[1:]
    assert len(rows) == len(NAMES[task])
    for k, row in enumerate(rows):
        cells = [c.strip() for c in re.findall(r"<t[dh][^>]*>\s*([^<]*)", row)]
        numbers = [f"{support[k]}", f"{predicted[k]}"]
        numbers += [f"{v[k]:.3f}" for v in (precision, recall, score)]
        assert cells[0] == NAMES[task][k]
        for number in numbers:
            assert number in cells, (number, cells)
    data = json.loads(re.search(r"<script[^>]*>\s*(\{.*?)</script>", text, flags=re.S)[1])
    labels = NAMES[task][1:] if task == "binary" else NAMES[task]
    assert [view["label"] for view in data["views"]] == labels
    for k, view in enumerate(data["views"]):
        own, score_of = (y == 1, p) if task == "binary" else (y == k, p[:, k])
        own, score_of = (y[:, k] == 1, p[:, k]) if task == "multilabel" else (own, score_of)
        side = view["sides"][0]
        assert (side["positives"], side["total"]) == (own.sum(), len(own))
        assert side["auroc"] == pytest.approx(sk.roc_auc_score(own, score_of))
        wanted = sk.average_precision_score(own, score_of)
        assert side["averagePrecision"] == pytest.approx(wanted)
        if task == "multiclass":
            continue
        cut = np.atleast_1d(kept.threshold)[k]
        assert side["thresholds"][side["start"]] == pytest.approx(cut)
        for at in range(0, len(side["thresholds"]), 97):
            said = score_of >= side["thresholds"][at]
            assert (side["tp"][at], side["predicted"][at]) == ((said & own).sum(), said.sum())
            shown = side["values"]["f1"][at] / data["scale"]
            assert shown == pytest.approx(sk.f1_score(own, said), abs=1e-6)


def test_the_winner_is_refitted_and_explained(made):
    task, found, _ = made
    x, y = table(task)
    assert (found.model.predict(x) == y).mean() > 0.6
    columns = [i.column for i in found.importances]
    strong = {"binary": {"0"}, "multiclass": {"0", "1", "2"}, "multilabel": {"0", "1"}}[task]
    assert set(columns[: len(strong)]) == strong
    falls = [i.falls for i in found.importances]
    assert falls == sorted(falls, reverse=True)
