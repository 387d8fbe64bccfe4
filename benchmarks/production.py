"""After the model is shipped: false alarms and delays of `watch`, other prevalences, calibration.

    python benchmarks/production.py alarms [--mapie ENV/bin/python]
    python benchmarks/production.py shift        # 12 sets of the tuning half
    python benchmarks/production.py calibration tune   # or: confirm

One thread. Results go to --results, one line of JSON for each table.

**alarms**: 1,000 streams of 100 looks whose true recall is exactly the promised 0.90, 2 to 50
positives a look; without labels, scores of which the reference is a sample. "delayed": a fifth of
the labels comes 1 to 20 looks late, and `watch` is run again at every look with what is there. The
delay is until a fall to 0.80 after 50 good looks is found; "window" is an exact test of the last 10
looks at 5 %, as if it were the only one; MAPIE's `RiskMonitoring`, if there, is told of the
rows in the same order.

**shift**: `MetricLinearClassifier`, trained on three quarters; the test rows are resampled within
classes to the prevalence times 1/4 to 4 (at most 0.5). "adapted" has seen them without labels;
"stated" was told the prevalence; "oracle" has the best threshold for these very rows.

**calibration**: out-of-fold probabilities calibrate those of test rows by the model of all training
rows: logistic regression with balanced classes, boosted trees, a random forest. `python
benchmarks/efficacy.py` has the two halves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit
from scipy.stats import binom

RESULTS = Path(__file__).parent / "results" / "production.jsonl"
ALPHA, PROMISED, FALLEN, LOOKS, GOOD, WINDOW = 0.05, 0.90, 0.80, 100, 50, 10


# --- alarms ---------------------------------------------------------------------------------------


def streams(count: int, seed: int, fall: bool) -> tuple[np.ndarray, np.ndarray]:
    """Positives found, and positives, of each look ``(count, LOOKS)``."""
    random = np.random.default_rng(seed)
    rows = random.integers(2, 51, size=(count, LOOKS))
    recall = np.where(fall & (np.arange(LOOKS) >= GOOD), FALLEN, PROMISED)
    return random.binomial(rows, recall), rows


def betting(hits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The logarithm of evidence of `watch` at each look."""
    from softset.decisions.watching import log_evidence  # noqa: PLC0415

    return log_evidence(rows - hits, rows, 1 - PROMISED)


def window(hits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The same for an exact test of the last looks: the logarithm of 1 / p."""
    k, n = (np.convolve(a, np.ones(WINDOW, int))[: len(a)] for a in (hits, rows))
    return -np.log(np.maximum(binom.cdf(k, n, PROMISED), 1e-300))


def first(evidence: np.ndarray, level: float = -np.log(ALPHA)) -> int | None:
    above = np.flatnonzero(evidence >= level)
    return int(above[0]) if len(above) else None


def delayed_alarm(hits: np.ndarray, rows: np.ndarray, seed: int) -> bool:
    """Whether any of the runs alarms, each of all looks so far with the labels that are there."""
    random = np.random.default_rng(seed)
    look = np.repeat(np.arange(LOOKS), rows)
    hit = np.concatenate([np.arange(n) < k for k, n in zip(hits, rows, strict=True)])
    late = random.random(len(look)) < 0.2
    come = look + np.where(late, random.integers(1, 21, len(look)), 0)
    for now in range(LOOKS):
        there = come <= now
        n = np.bincount(look[there], minlength=now + 1)
        k = np.bincount(look[there & hit], minlength=now + 1)
        if betting(k, n).max() >= -np.log(ALPHA):
            return True
    return False


def unlabeled_alarm(seed: int) -> bool:
    """Whether scores of the reference's own distribution are ever taken for others."""
    from softset.classifiers.watching import _drift  # noqa: PLC0415
    from softset.decisions.decision import Decision  # noqa: PLC0415
    from softset.decisions.reference import Reference  # noqa: PLC0415
    from softset.tasks import BINARY  # noqa: PLC0415

    class Deciding:  # of a classifier, what `_drift` reads
        task_, decision_ = BINARY, Decision.at(BINARY, 0.3)

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = (random.random(n) < 0.1).astype(int)
        return random.normal(size=n) + 2 * y - 2, y

    random = np.random.default_rng(seed)
    reference = Reference.of(BINARY, *drawn(1000))
    look = np.repeat(np.arange(LOOKS), random.integers(20, 501, LOOKS))
    scores, _ = drawn(len(look))

    def by_look(rows: np.ndarray) -> np.ndarray:
        return np.bincount(look[rows], minlength=LOOKS)

    return _drift(Deciding(), reference, scores, by_look, ALPHA).found is not None


def mapie_firsts(hits: np.ndarray, rows: np.ndarray) -> list[int | None]:
    """The first look at which MAPIE's monitoring calls the recall too low, for each stream."""
    from mapie.exchangeability_testing import RiskMonitoring  # noqa: PLC0415

    found: list[int | None] = []
    for k, n in zip(hits, rows, strict=True):
        # Half of its level is for a reference, of which there is none: the bound is given.
        monitor = RiskMonitoring(
            risk="recall", test_level=2 * ALPHA, threshold=1 - PROMISED, warn=False
        )
        when = None
        for t in range(LOOKS):
            y_pred = np.repeat([1, 0], [k[t], n[t] - k[t]])
            monitor.update(np.ones(n[t], dtype=int), y_pred)
            if monitor.harmful_shift_detected:
                when = t
                break
        found.append(when)
    return found


def alarms(args: argparse.Namespace) -> None:
    count = args.streams
    table: dict[str, dict[str, float | None]] = {}

    def add(name: str, good: list[int | None], fallen: list[int | None] | None) -> None:
        share = float(np.mean([g is not None for g in good]))
        table[name] = {"false": share, "error": float(np.sqrt(share * (1 - share) / len(good)))}
        if fallen is not None:
            late = [f for f in fallen if f is None or f >= GOOD]
            found = [f - GOOD for f in late if f is not None]
            table[name] |= {
                "delay": float(np.median([f - GOOD if f is not None else np.inf for f in late])),
                "found": len(found) / max(1, len(late)),
            }
        print(name, table[name], flush=True)

    boundary, falls = streams(count, 0, fall=False), streams(count, 1, fall=True)
    for name, method in (("watch", betting), ("window of 10 looks", window)):
        each = [
            [first(method(k, n)) for k, n in zip(*pair, strict=True)] for pair in (boundary, falls)
        ]
        add(name, *each)
    each = [1 if delayed_alarm(k, n, i) else None for i, (k, n) in
            enumerate(zip(*boundary, strict=True))]  # fmt: skip
    add("watch, delayed labels", each, None)
    add("watch, without labels", [1 if unlabeled_alarm(i) else None for i in range(count)], None)
    if args.mapie:
        few = args.mapie_streams
        arrays = [a[:few].tolist() for a in (*boundary, *falls)]
        done = subprocess.run(
            [args.mapie, __file__, "mapie"],
            input=json.dumps(arrays),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        add("MAPIE", *json.loads(done.stdout.splitlines()[-1]))
    keep(args, "alarms", table)


def mapie_child() -> None:
    """What `--mapie` runs in its own environment."""
    arrays = [np.array(a) for a in json.load(sys.stdin)]
    warnings.simplefilter("ignore")
    print(json.dumps([mapie_firsts(*arrays[:2]), mapie_firsts(*arrays[2:])]))


# --- shift ----------------------------------------------------------------------------------------

SHIFTS = (0.25, 0.5, 1.0, 2.0, 4.0)
GOALS = ("f1", "precision@recall>=0.8")


def shift(args: argparse.Namespace) -> None:
    import softset as ss  # noqa: PLC0415
    from efficacy import DATA, halves, load, splits  # noqa: PLC0415

    rows: dict[str, list[dict[str, float]]] = {}
    names = [n for n in halves(DATA)["tune"] if n not in ("digits", "iris")][:12]
    for name in names:
        split = splits(load(DATA, name, args.rows), 1)[0]
        random = np.random.default_rng(0)
        for goal in GOALS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = ss.MetricLinearClassifier(goal, path=()).fit(split.train.x, split.train.y)
                scores = model._scores(split.test.x)
                before = model.reference_.prior[0, 1]
                for factor in SHIFTS:
                    target = min(0.5, before * factor)
                    drawn = resampled(split.test.y, target, random)
                    z, y = scores[drawn], split.test.y[drawn]
                    adapted = model.adapt(split.test.x[drawn])
                    stated = model.at_prevalence(target)
                    tuner = model._tuner()
                    found = {
                        "as it was": score(goal, model.decision_(z), y),
                        "adapted": score(goal, adapted.decision_(z), y),
                        "stated": score(goal, stated.decision_(z), y),
                        "oracle": oracle(goal, z, y),
                        "rejected": float(adapted.shift_.rejected),
                        "error": abs(adapted.shift_.after[0] - y.mean()) / y.mean(),
                        "held": float(adapted.shift_.low[0] <= y.mean() <= adapted.shift_.high[0]),
                        "recall": float((model.decision_(z) @ y) / y.sum()),
                    }
                    assert tuner.goal.name == goal
                    rows.setdefault(f"{goal} x {factor:g}", []).append(found)
        print(name, "done", flush=True)
    table = {
        key: {k: float(np.mean([r[k] for r in found])) for k in found[0]}
        for key, found in rows.items()
    }
    for key, found in table.items():
        print(key, {k: round(v, 3) for k, v in found.items()})
    keep(args, "shift", table)


def resampled(y: np.ndarray, prevalence: float, random: np.random.Generator) -> np.ndarray:
    """Rows with that prevalence, as many of both classes as there are, or fewer of one."""
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    wanted = prevalence / (1 - prevalence) * len(negative)
    if wanted <= len(positive):
        positive = random.permutation(positive)[: max(1, round(wanted))]
    else:
        fewer = max(1, round(len(positive) * (1 - prevalence) / prevalence))
        negative = random.permutation(negative)[:fewer]
    return random.permutation(np.concatenate([positive, negative]))


def score(goal: str, said: np.ndarray, y: np.ndarray) -> float:
    """F1, or precision: the metric of the goal."""
    tp, flagged, positives = said @ y, said.sum(), y.sum()
    if goal == "f1":
        return float(2 * tp / max(1, flagged + positives))
    return float(tp / max(1, flagged))


def oracle(goal: str, z: np.ndarray, y: np.ndarray) -> float:
    """The best that any threshold gives on these rows (with the constraint met)."""
    best = 0.0
    for cut in np.unique(z):
        said = (z >= cut).astype(int)
        if goal == "f1" or said @ y >= 0.8 * y.sum() - 1e-9:
            best = max(best, score(goal, said, y))
    return best


# --- calibration ----------------------------------------------------------------------------------

Map = Callable[[np.ndarray], np.ndarray]


def isotonic(z: np.ndarray, y: np.ndarray) -> Map:
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    model = IsotonicRegression(out_of_bounds="clip").fit(z, y)
    least = 1 / (len(y) + 2)  # no probability is 0 or 1
    return lambda s: np.clip(model.predict(s), least, 1 - least)


def platt(z: np.ndarray, y: np.ndarray) -> Map:
    from softset.decisions.calibration import Calibration  # noqa: PLC0415

    return Calibration.fit(z, y, np.ones(len(y)))


def beta(z: np.ndarray, y: np.ndarray) -> Map:
    """Kull, Silva Filho and Flach 2017: logistic regression on log p and -log(1 - p)."""
    from scipy.special import log_expit  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    def inputs(s: np.ndarray) -> np.ndarray:
        s = np.clip(s, -50, 50)
        return np.column_stack([log_expit(s), -log_expit(-s)])

    used = [0, 1]
    while True:
        model = LogisticRegression(C=1e6, max_iter=2000).fit(inputs(z)[:, used], y)
        if len(used) == 1 or (model.coef_ >= 0).all():
            break
        used = [used[int(np.argmax(model.coef_[0]))]]
    return lambda s: model.predict_proba(inputs(s)[:, used])[:, 1]


def venn_abers(z: np.ndarray, y: np.ndarray, points: int = 200) -> Map:
    """Inductive Venn-Abers (Vovk, Large and Nouretdinov 2015) at quantiles of the scores, merged
    for log-loss; constant between them."""
    from sklearn.isotonic import isotonic_regression  # noqa: PLC0415

    order = np.argsort(z, kind="stable")
    z, y = z[order], y[order].astype(float)
    grid = np.unique(np.quantile(z, np.linspace(0, 1, points)))
    ends = []
    for s in grid:
        at = int(np.searchsorted(z, s))
        ends.append([isotonic_regression(np.insert(y, at, label))[at] for label in (0.0, 1.0)])
    low, high = np.array(ends).T
    p = high / (1 - low + high)
    return lambda s: np.interp(s, grid, p)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Map]] = {
    "as it was": lambda z, y: expit,
    "Platt": platt,
    "isotonic": isotonic,
    "beta": beta,
    "Venn-Abers": venn_abers,
}


def models() -> dict[str, Callable[[], object]]:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    return {
        "cal-balanced": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=300)
        ),
        "cal-boosted": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
        "cal-forest": lambda: RandomForestClassifier(60, random_state=0),
    }


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    """Of probabilities ``(n, classes)``."""
    return float(-np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1)).mean())


def calibration_error(p: np.ndarray, y: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error of the probabilities of each class, in bins of as many rows."""
    found = []
    for k in range(p.shape[1]):
        parts = np.array_split(np.argsort(p[:, k], kind="stable"), bins)
        found.append(
            sum(abs(p[i, k].mean() - (y[i] == k).mean()) * len(i) for i in parts if len(i))
        )
    return float(np.mean(found) / len(y))


def calibration(args: argparse.Namespace) -> None:
    from efficacy import DATA, halves, load, scores, splits  # noqa: PLC0415

    rows: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    worse = dict.fromkeys(METHODS, 0)
    for name in halves(DATA)[args.half]:
        split = splits(load(DATA, name, args.rows), 1)[0]
        for model, make in models().items():
            found = scores(split, model, make, args.scores)
            n = len(found.oof)
            classes = found.oof.shape[1]
            columns = [1] if classes == 2 else list(range(classes))

            def logit(p: np.ndarray, least: float = 1 / (2 * n)) -> np.ndarray:
                p = np.clip(p, least, 1 - least)
                return np.log(p) - np.log1p(-p)

            losses = {}
            for method, fit in METHODS.items():
                each = [
                    fit(logit(found.oof[:, k]), (split.train.y == k).astype(int))(
                        logit(found.test[:, k])
                    )
                    for k in columns
                ]
                p = np.column_stack([1 - each[0], each[0]] if classes == 2 else each)
                p = np.maximum(p, 1e-9)
                p = p / p.sum(1, keepdims=True)
                losses[method] = log_loss(p, split.test.y)
                rows[method].append([losses[method], calibration_error(p, split.test.y)])
            for method in METHODS:
                worse[method] += losses[method] > losses["as it was"]
        print(name, "done", flush=True)
    table = {
        method: {
            "log-loss": float(np.mean([r[0] for r in found])),
            "calibration error": float(np.mean([r[1] for r in found])),
            "worse": worse[method],
            "fits": len(found),
        }
        for method, found in rows.items()
    }
    for method, found in table.items():
        print(method, found)
    keep(args, f"calibration {args.half}", table)


# --- results --------------------------------------------------------------------------------------


def keep(args: argparse.Namespace, name: str, table: dict) -> None:
    with args.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"table": name, "rows": table}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["alarms", "shift", "calibration", "mapie"])
    parser.add_argument("half", nargs="?", choices=["tune", "confirm"], default="tune")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--scores", type=Path, default=RESULTS.parent / "scores")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--mapie", help="Python of an environment with mapie")
    parser.add_argument("--mapie-streams", type=int, default=200)
    args = parser.parse_args()
    if args.what == "mapie":
        mapie_child()
        return
    {"alarms": alarms, "shift": shift, "calibration": calibration}[args.what](args)


if __name__ == "__main__":
    main()
