"""How often 95 % intervals hold the truth, where the truth is known.

    python benchmarks/intervals.py threshold   # `interval_` of MetricThresholdClassifier
    python benchmarks/intervals.py gain        # `gain_`: what it says and what is true
    python benchmarks/intervals.py evaluate    # the intervals of `softset evaluate`, two classes
    python benchmarks/intervals.py several     # the same of several classes and labels
    python benchmarks/intervals.py show        # the tables, from the results

Resumable: finished cells are kept in --results. One thread.

**threshold**: logistic regression on n rows, of which a share is positive; the truth is the
threshold with the best metric in the population *for the fitted model*. Four populations of two to
four columns, whose densities are known, two of them for each number of rows and positives: the
population is 20,000 points that count with their probabilities of either class, so that it has no
noise of labels. In "discrete", columns have four values each. "mammography" is the file itself, of
which rows are drawn with replacement. The method was chosen on normal scores without any model;
these populations were not looked at before.

**gain**: the same fits; "true" is the metric of the classifier in the population minus that at the
default threshold.

**evaluate**: decisions with a given sensitivity and specificity, and normal scores with a given
distance of the classes for the areas; n rows with a share of positives, one positive at least.

**several**: classes (or labels) of which each is rarer than the one before; a share of all
decisions is wrong, of classes in favor of any other one.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

import softset as ss
from common import DATA, append, load, read
from softset.decisions.confidence import threshold_interval
from softset.decisions.decision import to_logits
from softset.decisions.intervals import metric_table
from softset.decisions.tuner import Tuner
from softset.metrics.curves import Curve

RESULTS = Path(__file__).parent / "results" / "intervals.jsonl"
ROWS, SHARES = (200, 1000, 5000), (0.02, 0.1, 0.4)
METRICS = ("f1", "mcc")
FITS, POINTS = 300, 10_000
# Decisions: sensitivity, specificity, and the distance of the classes' scores.
QUALITIES = {"poor": (0.6, 0.9, 0.5), "fair": (0.8, 0.98, 1.5), "good": (0.95, 0.99, 3.0),
             "all but perfect": (0.99, 0.999, 4.5)}  # fmt: skip
TABLE_ROWS = (50, 200, 1000)
SEVERAL = {"5 classes": 5, "20 classes": 20, "10 labels": 10}
WRONG = (0.01, 0.05, 0.2)
SEVERAL_METRICS = ("accuracy", "f1", "f1_micro", "balanced_accuracy", "mcc", "cohen_kappa")

# --- populations ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """Columns that are independent within a class: ``draw(random, class, n)`` and its density."""

    draw: Callable[[np.random.Generator, int, int], np.ndarray]
    log_density: Callable[[np.ndarray, int], np.ndarray]


def _columns(*classes: list) -> Population:
    """From the distributions of the columns, of class 0 and of class 1."""

    def draw(random: np.random.Generator, k: int, n: int) -> np.ndarray:
        return np.column_stack([d.rvs(n, random_state=random) for d in classes[k]])

    def log_density(x: np.ndarray, k: int) -> np.ndarray:
        parts = [
            (d.logpmf if hasattr(d, "pk") or hasattr(d.dist, "_pmf") else d.logpdf)(column)
            for d, column in zip(classes[k], x.T, strict=True)
        ]
        return np.sum(parts, axis=0)

    return Population(draw, log_density)


POPULATIONS = {
    "normal": _columns(
        [stats.norm(0, 1)] * 4, [stats.norm(1.2, 1), stats.norm(0.8, 1), *[stats.norm(0, 1)] * 2]
    ),
    "heavy tails": _columns([stats.t(3)] * 3, [stats.t(3, 2.0), stats.t(3, 1.0), stats.t(3, 0.0)]),
    "skewed": _columns(
        [stats.gamma(1.5), stats.gamma(2.0)], [stats.gamma(4.5), stats.gamma(2.0, scale=2.0)]
    ),
    "discrete": _columns(
        [stats.binom(3, 0.2)] * 3,
        [stats.binom(3, 0.6), stats.binom(3, 0.5), stats.binom(3, 0.2)],
    ),
}


class Truth(NamedTuple):
    """Points of the population with their weight as a positive and as a negative."""

    x: np.ndarray
    positive: np.ndarray
    negative: np.ndarray

    def curve(self, p: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores in order, and the metric of cuts below each of them and above all."""
        order = np.argsort(p, kind="stable")
        tp, fp = (
            np.append(np.cumsum(v[order][::-1])[::-1], 0.0) for v in (self.positive, self.negative)
        )
        values = _metric(tp, fp, tp[0], fp[0], metric)
        s = p[order]
        values[1:-1][s[1:] == s[:-1]] = -np.inf  # no cut between equal scores
        return s, values

    def best(self, p: np.ndarray, metric: str) -> tuple[float, float]:
        """The gap of scores in which the best threshold lies."""
        s, values = self.curve(p, metric)
        k = int(values.argmax())
        return np.append(0.0, s)[k], np.append(s, 1.0)[k]

    def value(self, p: np.ndarray, threshold: float, metric: str) -> float:
        """The metric at a threshold."""
        said = p >= threshold
        sums = (self.positive[said].sum(), self.negative[said].sum())
        return float(_metric(*sums, self.positive.sum(), self.negative.sum(), metric))


def _metric(tp, fp, positives, negatives, metric: str):
    if metric == "f1":
        return 2 * tp / (tp + fp + positives)
    fn, tn = positives - tp, negatives - fp
    scale = np.sqrt(np.maximum((tp + fp) * positives * negatives * (tn + fn), 0))
    return np.where(scale > 1e-12, (tp * tn - fp * fn) / np.maximum(scale, 1e-12), 0.0)


def truth_of(name: str, share: float) -> Truth:
    """Points of both classes alike, weighted to the share."""
    if name == "mammography":
        x, y, _ = load(DATA, name)
        return Truth(x, y / len(y), (1 - y) / len(y))
    random = np.random.default_rng(123)
    population = POPULATIONS[name]
    x = np.concatenate([population.draw(random, k, POINTS) for k in (0, 1)])
    odds = population.log_density(x, 1) - population.log_density(x, 0)
    eta = 1 / (1 + np.exp(-odds))
    return Truth(x, share * eta, (1 - share) * (1 - eta))


def draw(name: str, truth: Truth, n: int, share: float, seed: int) -> tuple:
    """Rows of two classes, with two positives at least."""
    random = np.random.default_rng([seed, n, round(1000 * share)])
    while True:
        if name == "mammography":
            rows = random.integers(0, len(truth.x), n)
            x, y = truth.x[rows], (truth.positive[rows] > 0).astype(int)
        else:
            y = (random.random(n) < share).astype(int)
            parts = [POPULATIONS[name].draw(random, k, int((y == k).sum())) for k in (0, 1)]
            x = np.empty((n, truth.x.shape[1]))
            x[y == 0], x[y == 1] = parts
        if min(y.sum(), n - y.sum()) >= 2:
            return x, y


# --- threshold and gain ---------------------------------------------------------------------------


class OnlyIntervals(ss.MetricThresholdClassifier):
    """Intervals for all ``METRICS`` by the scores of one fit, and no gain; the threshold itself,
    which nobody looks at here, by the faster rule."""

    def _tuner(self):
        return Tuner(ss.get_metric("f1"), self._task, "exact", clear=False)

    @property
    def logits_(self):
        _, scores, y, w = self._tuned_on
        found = [Tuner(ss.get_metric(m), "binary", clear=False) for m in METRICS]
        return [threshold_interval(tuner, scores, y, w, self._seed) for tuner in found]


class Logistic(ClassifierMixin, BaseEstimator):
    """scikit-learn's ``LogisticRegression()`` of standardized columns, by Newton's method: of small
    tables it takes a tenth of the time."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        self.mean_, self.scale_ = X.mean(0), np.maximum(X.std(0), 1e-12)
        x = self._standard(X)
        penalty = np.diag([0.0] + [1.0] * X.shape[1])
        b = np.zeros(len(penalty))
        b[0] = np.log(y.mean() / (1 - y.mean()))

        def loss(b):
            return (np.logaddexp(0, x @ b) - y * (x @ b)).sum() + b @ penalty @ b / 2

        for _ in range(12):
            p = 1 / (1 + np.exp(-x @ b))
            hessian = (x * (p * (1 - p))[:, None]).T @ x + penalty
            step = np.linalg.solve(hessian, x.T @ (p - y) + penalty @ b)
            now = loss(b)
            while loss(b - step) > now + 1e-9:
                step = step / 2
            b = b - step
        self.coef_ = b
        return self

    def _standard(self, X):
        return np.column_stack([np.ones(len(X)), (X - self.mean_) / self.scale_])

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self._standard(X) @ self.coef_))
        return np.column_stack([1 - p, p])


def model(kind: type, y: np.ndarray, seed: int):
    """Logistic regression; no more folds than positives."""
    folds = int(min(5, y.sum(), (1 - y).sum()))
    return kind(Logistic(), "f1", cv=folds, random_state=seed)


def threshold_cell(name: str, n: int, share: float, fits: int) -> dict:
    """How often the interval holds the best threshold, and what it looks like."""
    truth = truth_of(name, share)
    held: dict[str, list] = {m: [] for m in METRICS}
    ends: dict[str, list] = {m: [] for m in METRICS}
    for seed in range(fits):
        x, y = draw(name, truth, n, share, seed)
        found = model(OnlyIntervals, y, seed).fit(x, y)
        p = found.predict_proba(truth.x)[:, 1]
        for metric, (low, high) in zip(METRICS, found.logits_, strict=True):
            below, above = to_logits(np.array(truth.best(p, metric)))
            held[metric].append(bool(low <= above and below <= high))
            ends[metric].append(1 / (1 + np.exp(-np.array([low, (below + above) / 2, high]))))
    return {
        m: {"held": sum(held[m]), "ends": np.nanmedian(ends[m], axis=0).round(4).tolist()}
        for m in METRICS
    }


def gain_cell(name: str, n: int, share: float, fits: int) -> dict:
    """What is said to be gained, what is, and what the rule had decided by."""
    truth = truth_of(name, share)
    rows = []
    for seed in range(fits):
        x, y = draw(name, truth, n, share, seed)
        found = model(Remembering, y, seed).fit(x, y)
        p = found.predict_proba(truth.x)[:, 1]
        true = truth.value(p, found.threshold_, "f1") - truth.value(p, 0.5, "f1")
        w = found.gain_
        rows.append((w.gain, found.decided_by_, true, w.low <= true <= w.high))
    return {"rows": np.array(rows, dtype=float).round(5).tolist()}


class Remembering(ss.MetricThresholdClassifier):
    """With the gain that the threshold was chosen by."""

    @property
    def decided_by_(self):
        crossed, scores, y, w = self._tuned_on
        tuner = self._tuner()
        values = [tuner.values(d, y, w[None])[0] for d in (crossed, (scores >= 0).astype(float))]
        return float(values[0] - values[1])


# --- evaluate -------------------------------------------------------------------------------------


def true_metrics(share: float, sensitivity: float, specificity: float, distance: float) -> dict:
    """Of the population: metrics of its cells, areas of its normal scores."""
    cells = [
        [(1 - share) * specificity, (1 - share) * (1 - specificity)],
        [share * (1 - sensitivity), share * sensitivity],
    ]
    c = ss.Confusion.from_matrix(np.array(cells) * 1e6, task="binary")
    found = {
        k: float(ss.get_metric(k)(c)) for k in ss.METRICS if not isinstance(ss.get_metric(k), Curve)
    }
    cut = np.linspace(12, -8, 40_001)
    tpr, fpr = stats.norm.sf(cut - distance), stats.norm.sf(cut)
    rise = np.diff(tpr, prepend=0)
    inside = np.diff(np.minimum(fpr, 0.1), prepend=0)
    found["auroc"] = float(stats.norm.cdf(distance / np.sqrt(2)))
    precision = share * tpr / (share * tpr + (1 - share) * fpr)
    found["average_precision"] = float((rise * precision).sum())
    found["partial_auroc"] = float((1 + ((tpr * inside).sum() - 0.005) / 0.095) / 2)
    return found


def evaluate_cell(quality: str, n: int, share: float, fits: int) -> dict:
    """How often each metric's interval holds the truth; their mean width; how many are NaN."""
    sensitivity, specificity, distance = QUALITIES[quality]
    truth = true_metrics(share, sensitivity, specificity, distance)
    held, width, nan = (dict.fromkeys(truth, 0.0) for _ in range(3))
    for seed in range(fits):
        random = np.random.default_rng([seed, n, round(1000 * share)])
        y = np.zeros(n, dtype=int)
        while not 0 < y.sum() < n:
            y = (random.random(n) < share).astype(int)
        right = random.random(n) < np.where(y == 1, sensitivity, specificity)
        p = 1 / (1 + np.exp(-(random.normal(size=n) + distance * y - distance / 2)))
        for row in metric_table(p, np.where(right, y, 1 - y), y, seed=seed):
            held[row.metric] += row.low - 1e-9 <= truth[row.metric] <= row.high + 1e-9
            width[row.metric] += (row.high - row.low) / fits
            nan[row.metric] += bool(np.isnan([row.low, row.high]).any())
    return {"held": held, "width": {k: round(v, 4) for k, v in width.items()}, "nan": nan}


def several_cell(name: str, n: int, wrong: float, fits: int) -> dict:
    """The same of several classes or labels; metrics of decisions only."""
    task, count = name.split()[1], SEVERAL[name]
    task = "multiclass" if task == "classes" else "multilabel"
    shares = 1 / np.arange(1, count + 1)

    def drawn(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        if task == "multiclass":
            y = random.choice(count, n, p=shares / shares.sum())
            other = (y + random.integers(1, count, n)) % count
            return y, np.where(random.random(n) < wrong, other, y)
        y = (random.random((n, count)) < shares / 2).astype(int)
        # Some rows are harder: the decisions of a row are not independent.
        hard = wrong * random.choice([0.5, 1.5], (n, 1))
        return y, np.where(random.random((n, count)) < hard, 1 - y, y)

    y, decided = drawn(np.random.default_rng(123), 500_000)
    scores = np.eye(count)[decided] if task == "multiclass" else decided.astype(float)
    truth = {m: ss.evaluate(scores, y, m, task=task, from_logits=False) for m in SEVERAL_METRICS}
    held = dict.fromkeys(truth, 0)
    for seed in range(fits):
        y, decided = drawn(np.random.default_rng([seed, n]), n)
        rows = metric_table(
            np.zeros((n, count)), decided, y, task=task, metrics=SEVERAL_METRICS, seed=seed
        )
        for metric, row in zip(SEVERAL_METRICS, rows, strict=True):
            held[metric] += bool(row.low - 1e-9 <= truth[metric] <= row.high + 1e-9)
    return {"held": held}


# --- run ------------------------------------------------------------------------------------------


def cells(part: str) -> Iterator[tuple[str, int, float]]:
    """What a part looks at."""
    if part == "threshold":
        names = list(POPULATIONS)
        for k, (n, share) in enumerate((n, share) for n in ROWS for share in SHARES):
            yield from ((names[(k + turn) % 4], n, share) for turn in (0, 1))
        yield from (("mammography", n, 0.0232) for n in (1000, 5000))
    elif part == "gain":
        yield from ((name, 200, 0.1) for name in POPULATIONS)
        yield ("normal", 1000, 0.1)
    elif part == "several":
        yield from ((k, n, wrong) for k in SEVERAL for n in TABLE_ROWS for wrong in WRONG)
    else:
        yield from ((q, n, s) for q in QUALITIES for n in TABLE_ROWS for s in SHARES)


PARTS = {
    "threshold": threshold_cell,
    "gain": gain_cell,
    "evaluate": evaluate_cell,
    "several": several_cell,
}


def run(part: str, fits: int, path: Path) -> None:
    """All cells that are not there yet."""
    done = {(r["part"], r["name"], r["n"], r["share"], r["fits"]) for r in read(path)}
    for name, n, share in cells(part):
        if (part, name, n, share, fits) not in done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = PARTS[part](name, n, share, fits)
            key = {"part": part, "name": name, "n": n, "share": share, "fits": fits}
            append(path, {**key, **found})
            print(*key.values(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=[*PARTS, "show"])
    parser.add_argument("--fits", type=int, default=FITS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.part != "show":
        run(options.part, options.fits, options.results)
    show(read(options.results))


# --- tables ---------------------------------------------------------------------------------------


def _table(head: list[str], rows: list[list[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def show(records: list[dict]) -> None:
    """Every table that has records."""
    by_part = {part: [r for r in records if r["part"] == part] for part in PARTS}
    tables = (_thresholds, _gains, _evaluations, _several)
    for part, table in zip(PARTS, tables, strict=True):
        if by_part[part]:
            table(by_part[part])


def _thresholds(records: list[dict]) -> None:
    head = ["population", "rows", "positives", "covers, F1", "covers, MCC", "best", "interval (F1)"]
    rows = []
    for r in sorted(records, key=lambda r: (r["n"], r["share"], r["name"])):
        low, best, high = r["f1"]["ends"]
        held = [f"{r[m]['held'] / r['fits']:.3f}" for m in METRICS]
        share = f"{100 * r['share']:.3g} %"
        ends = [f"{best:.2f}", f"{low:.2f} to {high:.2f}"]
        rows.append([r["name"], f"{r['n']:,}", share, *held, *ends])
    _table(head, rows)


def _gains(records: list[dict]) -> None:
    head = ["population", "rows", "fits", "decided by", "said", "true", "said - true",
            "tuned: decided by - true", "said - true", "interval covers"]  # fmt: skip
    rows = []
    for r in records:
        said, decided, true, held = np.array(r["rows"]).T
        tuned = decided > 0
        rows.append([
            r["name"], f"{r['n']:,}", str(len(said)),
            *(f"{v.mean():+.3f}" for v in (decided, said, true)), _mean(said - true),
            _mean((decided - true)[tuned]), _mean((said - true)[tuned]), f"{held.mean():.3f}",
        ])  # fmt: skip
    _table(head, rows)


def _mean(v: np.ndarray) -> str:
    """With its standard error."""
    if len(v) < 2:
        return "-"
    return f"{v.mean():+.4f} ± {v.std(ddof=1) / np.sqrt(len(v)):.4f}"


def _evaluations(records: list[dict]) -> None:
    """Coverage by metric: over all cells, and by the expected number of positives."""
    groups = {
        "fewer than 10": lambda r: r["n"] * r["share"] < 10,
        "10 to 50": lambda r: 10 <= r["n"] * r["share"] < 50,
        "50 or more": lambda r: r["n"] * r["share"] >= 50,
    }
    groups = {name: of for name, of in groups.items() if any(map(of, records))}
    head = ["metric", "lowest of all cells", *(f"{g} positives" for g in groups), "NaN"]
    rows = []
    for metric in records[0]["held"]:
        share = {id(r): r["held"][metric] / r["fits"] for r in records}
        means = [np.mean([share[id(r)] for r in records if of(r)]) for of in groups.values()]
        nan = int(sum(r["nan"][metric] for r in records))
        rows.append([metric, f"{min(share.values()):.3f}", *(f"{m:.3f}" for m in means), str(nan)])
    _table(head, rows)


def _several(records: list[dict]) -> None:
    head = ["lowest and mean over cells", *SEVERAL_METRICS]
    rows = []
    for name in SEVERAL:
        held = [r for r in records if r["name"] == name]
        shares = [[r["held"][m] / r["fits"] for r in held] for m in SEVERAL_METRICS]
        if held:
            rows.append([name, *(f"{min(s):.3f}, {np.mean(s):.3f}" for s in shares)])
    _table(head, rows)


if __name__ == "__main__":
    main()
