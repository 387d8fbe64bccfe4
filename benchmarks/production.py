"""After the model is shipped: false alarms and delays of `watch`, other prevalences, calibration.

    python benchmarks/production.py alarms [--mapie ENV/bin/python]
    python benchmarks/production.py shift        # 12 sets of the tuning half
    python benchmarks/production.py tolerance    # what `adapt` and `watch` take for no change
    python benchmarks/production.py employment --data nannyml-0.13.1-py3-none-any.whl
    python benchmarks/production.py calibration tune [--venn-abers ENV/bin/python]
    python benchmarks/production.py calibration confirm     # once

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

**employment**: rows of the American Community Survey, Massachusetts, by year, as the package
NannyML has them: `pip download nannyml --no-deps`. Boosted trees of half of 2015.

**calibration**: classifiers of ours that are quick to fit, for F1 (several classes: macro F1). On
the tuning half, methods of calibration on the same out-of-fold scores, judged on test rows; on the
confirming half, `calibrate=True` beside the same fit without. `python benchmarks/efficacy.py` has
the halves.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit
from scipy.stats import binom

if TYPE_CHECKING:
    from efficacy import Split

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
    for name, number in product(names, range(3)):
        split = splits(load(DATA, name, args.rows), 3)[number]
        random = np.random.default_rng(number)
        for goal in GOALS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = ss.MetricLinearClassifier(goal, path=()).fit(split.train.x, split.train.y)
                scores = model._scores(split.test.x)
                before = model.reference_.prior[0, 1]
                for factor in SHIFTS:
                    target = min(0.5, before * factor)
                    drawn = resampled(split.test.y, target, random)
                    if len(drawn) < 20:  # which `adapt` refuses
                        continue
                    z, y = scores[drawn], split.test.y[drawn]
                    adapted = model.adapt(split.test.x[drawn])
                    stated = model.at_prevalence(target)
                    shift = adapted.shift_
                    clear = adapted if not shift.low[0] <= before <= shift.high[0] else model
                    said = {"as it was": model, "adapted": adapted, "if clear": clear}
                    said = {k: m.decision_(z) for k, m in (said | {"stated": stated}).items()}
                    found = {
                        **{k: score(goal, d, y) for k, d in said.items()},
                        "oracle": oracle(goal, z, y),
                        **{f"recall, {k}": float(d @ y / y.sum()) for k, d in said.items()},
                        "rejected": float(shift.rejected),
                        "error": abs(shift.after[0] - y.mean()) / y.mean(),
                        "held": float(shift.low[0] <= y.mean() <= shift.high[0]),
                    }
                    rows.setdefault(f"{goal} x {factor:g}", []).append(found)
        print(name, number, "done", flush=True)
    table = {
        key: {"draws": len(found)} | {k: float(np.mean([r[k] for r in found])) for k in found[0]}
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
    order = np.argsort(-z, kind="stable")
    last = np.append(np.diff(z[order]) != 0, True)  # rows of equal scores are on one side
    tp, flagged = np.cumsum(y[order])[last], np.flatnonzero(last) + 1
    if goal == "f1":
        return float((2 * tp / (flagged + y.sum())).max())
    return float((tp / flagged)[tp >= 0.8 * y.sum() - 1e-9].max())


# --- employment -----------------------------------------------------------------------------------


def employment(args: argparse.Namespace) -> None:
    import pandas as pd  # noqa: PLC0415

    import softset as ss  # noqa: PLC0415

    def read(name: str) -> pd.DataFrame:
        with zipfile.ZipFile(args.data) as file:
            content = file.read(f"nannyml/datasets/data/employment_MA_{name}.pq")
        return pd.read_parquet(io.BytesIO(content))

    later = read("analysis").merge(read("analysis_target"), on="id")
    rows = pd.concat([read("reference"), later], ignore_index=True)
    inputs = rows.drop(columns=["id", "employed", "year", "prediction", "predicted_probability"])
    inputs = inputs.astype(float)
    y, year = rows["employed"].to_numpy(), rows["year"].to_numpy()
    half = np.random.default_rng(0).random(len(y)) < 0.5
    young, last = inputs["AGEP"].to_numpy() < 30, year == year.max()
    parts = {"2015, other half": (year == 2015) & ~half}
    parts |= {str(t): year == t for t in range(2016, 2019)}
    parts |= {"2018, under 30": last & young, "2018, from 30 on": last & ~young}
    table = {}
    for goal in GOALS:
        train = (year == 2015) & half
        model = ss.train_model(
            inputs[train], y[train], goal, recipe="boosting-tuned", pos_label=1, n_estimators=200
        )
        for name, part in parts.items():
            x, t = inputs[part], y[part]
            z = model.classifier._scores(model.classifier._checked(model.inputs(x)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                adapted = model.adapt(x)
            shift = adapted.shift
            said = model.classifier.decision_(z), adapted.classifier.decision_(z)
            table[f"{goal}, {name}"] = {
                "rows": len(t),
                "prevalence": float(t.mean()),
                "estimated": shift.after[0],
                "low": shift.low[0],
                "high": shift.high[0],
                "p": shift.p_value,
                "distance": shift.distance,
                "rejected": shift.rejected,
                "as it was": score(goal, said[0], t),
                "adapted": score(goal, said[1], t),
                "oracle": oracle(goal, z, t),
                "recall": float(said[0] @ t / t.sum()),
                "recall adapted": float(said[1] @ t / t.sum()),
            }
            print(goal, name, table[f"{goal}, {name}"], flush=True)
    keep(args, "employment", table)


# --- tolerance ------------------------------------------------------------------------------------

DISTANCES, ODDS = (0.0, 0.02, 0.05, 0.1), (1.0, 1.1, 1.25, 1.5)
NEW, STREAM, LOOK = (500, 2000, 10_000), 5000, 100


def tolerance(args: argparse.Namespace) -> None:
    """Random problems and models: how often what has not changed is called changed, and what has
    changed is seen, by the least distance of `adapt` and the tolerated odds of `watch`."""
    settings = [one_setting(seed) for seed in range(args.settings)]
    table: dict[str, dict[str, float]] = {}
    for kind, change in product(range(len(KINDS)), CHANGES):
        found = [setting[change] for setting in settings[kind :: len(KINDS)]]
        line = {"metric lost": float(np.mean([f["lost"] for f in found]))}
        for n in NEW:
            for least in DISTANCES:
                rejected = [f["p", n] < 0.01 and f["distance", n] > least for f in found]
                line[f"adapt rejects, {n} rows, distance {least}"] = float(np.mean(rejected))
        for odds in ODDS:
            alarms = float(np.mean([f["alarm", odds] for f in found]))
            line[f"watch alarms, odds x {odds:g}"] = alarms
        table[f"{KINDS[kind]}, {change}"] = line
        print(KINDS[kind], change, {k: round(v, 3) for k, v in line.items()}, flush=True)
    keep(args, f"tolerance, {args.settings} settings", table)


# What happens to new rows: noise of so many standard deviations is added to their inputs.
KINDS = ("linear", "boosting", "forest, out of bag")
CHANGES = {"none": 0.0, "noise 0.25": 0.25, "noise 0.5": 0.5, "noise 1": 1.0}


def by_look(mask: np.ndarray) -> np.ndarray:
    return np.bincount((np.arange(STREAM) // LOOK)[mask], minlength=STREAM // LOOK)


def one_setting(seed: int) -> dict[str, dict[Any, float]]:
    from sklearn.datasets import make_classification  # noqa: PLC0415
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415

    import softset as ss  # noqa: PLC0415
    from softset.classifiers.watching import _drift  # noqa: PLC0415
    from softset.decisions import watching  # noqa: PLC0415

    random = np.random.default_rng(10_000 + seed)
    features = int(random.integers(4, 20))
    prevalence, rows = random.choice([0.05, 0.1, 0.2, 0.4]), int(random.choice([400, 1000, 4000]))
    x, y = make_classification(
        24_000,
        n_features=features,
        n_informative=max(3, features // 2),
        n_redundant=0,
        weights=[1 - prevalence],
        class_sep=random.uniform(0.5, 1.5),
        flip_y=random.uniform(0, 0.1),
        random_state=seed,
    )
    makers = [
        lambda: ss.MetricLinearClassifier("f1", path=()),
        lambda: ss.MetricBoostingClassifier(
            "f1", n_estimators=60, n_metric_estimators=0, random_state=seed
        ),
        lambda: ss.MetricThresholdClassifier(
            RandomForestClassifier(100, random_state=seed), "f1", cv="oob", random_state=seed
        ),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = makers[seed % len(KINDS)]().fit(x[:rows], y[:rows])
    x, y = x[rows:], y[rows:]
    factor, found = random.choice([0.25, 0.5, 1, 2]), {}
    for change, noise in CHANGES.items():
        line: dict[Any, float] = {}
        moved = x + noise * x.std(0) * random.normal(size=x.shape)
        scores = model._scores(moved)
        line["f1"] = score("f1", model.decision_(scores), y)
        line["lost"] = found.get("none", line)["f1"] - line["f1"]
        for n in NEW:
            drawn = resampled(y, min(0.5, prevalence * factor), random)[:n]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shift = model.adapt(moved[drawn]).shift_
            line["p", n], line["distance", n] = shift.p_value, shift.distance
        some = random.permutation(len(y))[:STREAM]
        for odds in ODDS:
            watching._TOLERATED = odds
            drift = _drift(model, model.reference_, scores[some], by_look, ALPHA)
            line["alarm", odds] = drift.found is not None
        found[change] = line
    return found


# --- calibration ----------------------------------------------------------------------------------

Map = Callable[[np.ndarray], np.ndarray]
Fit = Callable[..., Any]


def isotonic(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> Map:
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    model = IsotonicRegression(out_of_bounds="clip").fit(z, y, sample_weight=w)
    least = 1 / (len(y) + 2)  # no probability is 0 or 1
    return lambda s: np.clip(model.predict(s), least, 1 - least)


def platt(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> Map:
    from softset.decisions.calibration import Calibration  # noqa: PLC0415

    return Calibration.fit(z, y, w)


def beta(z: np.ndarray, y: np.ndarray, w: np.ndarray) -> Map:
    """Kull, Silva Filho and Flach 2017: logistic regression on log p and -log(1 - p)."""
    from scipy.special import log_expit  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    def inputs(s: np.ndarray) -> np.ndarray:
        s = np.clip(s, -50, 50)
        return np.column_stack([log_expit(s), -log_expit(-s)])

    used = [0, 1]
    while True:
        model = LogisticRegression(C=1e6, max_iter=5000)
        model.fit(inputs(z)[:, used], y, sample_weight=w / w.mean())
        if len(used) == 1 or (model.coef_ >= 0).all():
            break
        used = [used[int(np.argmax(model.coef_[0]))]]
    return lambda s: model.predict_proba(inputs(s)[:, used])[:, 1]


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Map]] = {
    "Platt": platt,
    "beta": beta,
    "isotonic": isotonic,
}


def models() -> dict[str, Callable[..., object]]:
    """Classifiers of ours that are quick to fit, by kind."""
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    import softset as ss  # noqa: PLC0415

    def balanced(metric: str, **settings: object) -> object:
        inner = LogisticRegression(class_weight="balanced", max_iter=300)
        model = make_pipeline(StandardScaler(), inner)
        return ss.MetricThresholdClassifier(model, metric, random_state=0, **settings)

    def forest(metric: str, **settings: object) -> object:
        inner = RandomForestClassifier(60, random_state=0)
        return ss.MetricThresholdClassifier(inner, metric, cv="oob", random_state=0, **settings)

    def boosting(metric: str, **settings: object) -> object:
        return ss.MetricBoostingClassifier(metric, random_state=0, **settings)

    return {
        "linear": ss.MetricLinearClassifier,
        "boosting": boosting,
        "balanced": balanced,
        "forest": forest,
    }


def log_loss(p: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Of probabilities ``(n, classes)``."""
    return float(-(w @ np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1))) / w.sum())


def calibration_error(p: np.ndarray, y: np.ndarray, w: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error of the probabilities of each class, in bins of as many rows."""
    found = []
    for k in range(p.shape[1]):
        parts = np.array_split(np.argsort(p[:, k], kind="stable"), bins)
        found.append(sum(abs(w[i] @ (p[i, k] - (y[i] == k))) for i in parts))
    return float(np.mean(found) / w.sum())


def fits(args: argparse.Namespace) -> Iterator[tuple[str, Split, str, Fit]]:
    """Every set of the half, each kind of model, and the function that fits it with settings."""
    from efficacy import DATA, halves, load, splits  # noqa: PLC0415

    for name in halves(DATA)[args.half]:
        split = splits(load(DATA, name, args.rows), 1)[0]
        goal = "f1" if split.train.task.single else "f1_macro"
        weight = split.train.w if np.ptp(split.train.w) else None
        for kind, make in models().items():

            def fitted(make=make, goal=goal, split=split, weight=weight, **settings):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return make(goal, **settings).fit(split.train.x, split.train.y, weight)

            yield name, split, kind, fitted
        print(name, "done", flush=True)


def select(args: argparse.Namespace) -> None:
    """The tuning half: each method on the same out-of-fold scores."""
    from softset.decisions.calibration import against_rest  # noqa: PLC0415

    cases, judges = [], []
    for name, split, kind, fitted in fits(args):
        path = args.scores / f"calibration-{name}-{kind}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            model = fitted()
            np.savez(path, oof=model.oof_scores_, test=model._scores(split.test.x))
        found, task = np.load(path), split.train.task
        some = np.isfinite(found["oof"].reshape(len(split.train.y), -1)).all(1)
        y, w = split.train.y[some], split.train.w[some]
        targets = y[None] if task.single else (y == np.arange(y.max() + 1)[:, None]).astype(int)
        old, new = (against_rest(task, z) for z in (found["oof"][some], found["test"]))
        cases.append((old, targets, w, new))
        judges.append(Judge(kind, split.test.y, split.test.w))
    answers = {
        "as it was": [expit(new) for *_, new in cases],
        **{
            method: [
                np.stack([fit(z, t, w)(s) for z, t, s in zip(old, targets, new, strict=True)])
                for old, targets, w, new in cases
            ]
            for method, fit in METHODS.items()
        },
    }
    if args.venn_abers:
        answers["Venn-Abers"] = venn_abers_of(args.venn_abers, cases)
    rows = {
        method: [judge(p) for judge, p in zip(judges, found, strict=True)]
        for method, found in answers.items()
    }
    keep(args, "calibration, methods on the tuning half", summary(rows))


def calibrate(args: argparse.Namespace) -> None:
    """The confirming half: ``calibrate=True`` beside the same fit without; goes on where it was
    stopped, and prints only at the end."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    rows: dict[str, list[tuple[str, float, float]]] = {"as it was": [], "calibrated": []}
    differ = 0
    for name, split, kind, fitted in fits(args):
        path = args.scores / f"calibrated-{name}-{kind}.json"
        if not path.exists():
            judge, x = Judge(kind, split.test.y, split.test.w), split.test.x
            plain, model = fitted(), fitted(calibrate=True)
            changed = int((plain.predict(x) != model.predict(x)).sum())
            judged = [judge(m.predict_proba(x).T) for m in (plain, model)]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps([changed, *judged]), encoding="utf-8")
        changed, *judged = json.loads(path.read_text(encoding="utf-8"))
        differ += changed
        for found, line in zip(rows.values(), judged, strict=True):
            found.append(line)
    print(f"decisions that differ: {differ}")
    table = {**summary(rows), "decisions": {"differ": differ}, "commit": commit}
    keep(args, f"calibration, {args.half}", table)


def calibration(args: argparse.Namespace) -> None:
    (select if args.half == "tune" else calibrate)(args)


class Judge(NamedTuple):
    """Measures probabilities ``(outputs, n)`` of the test rows of a fit."""

    kind: str
    y: np.ndarray
    w: np.ndarray

    def __call__(self, p: np.ndarray) -> tuple[str, float, float]:
        p = np.stack([1 - p[0], p[0]]) if len(p) == 1 else p / p.sum(0)
        return self.kind, log_loss(p.T, self.y, self.w), calibration_error(p.T, self.y, self.w)


def summary(rows: dict[str, list[tuple[str, float, float]]]) -> dict[str, dict[str, float]]:
    """Means over all fits and those of each kind, and how many fits have a larger log-loss."""
    table = {}
    for method, found in rows.items():
        kinds, losses, errors = (np.array(column) for column in zip(*found, strict=True))
        before = np.array([loss for _, loss, _ in rows["as it was"]])
        table[method] = {
            "log-loss": float(losses.mean()),
            "calibration error": float(errors.mean()),
            "worse": int((losses > before).sum()),
            "fits": len(losses),
            **{f"log-loss, {k}": float(losses[kinds == k].mean()) for k in models()},
            **{f"calibration error, {k}": float(errors[kinds == k].mean()) for k in models()},
        }
        print(method, {k: round(v, 4) for k, v in table[method].items()})
    return table


def venn_abers_of(python: str, cases: list) -> list[np.ndarray]:
    """The answers of the package venn-abers, in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given = {}
        for i, (old, targets, w, new) in enumerate(cases):
            given |= {f"old{i}": old, f"y{i}": targets, f"w{i}": w, f"new{i}": new}
        np.savez(Path(folder, "given.npz"), **given)
        subprocess.run([python, __file__, "venn-abers", folder], check=True)
        found = np.load(Path(folder, "found.npz"))
        return [found[str(i)] for i in range(len(cases))]


def venn_abers_child(folder: str) -> None:
    """What `--venn-abers` runs in its own environment; weights are not for it."""
    from venn_abers import VennAbers  # noqa: PLC0415

    given, found = np.load(Path(folder, "given.npz")), {}
    for i in range(sum(name.startswith("old") for name in given)):
        each = []
        for z, y, s in zip(given[f"old{i}"], given[f"y{i}"], given[f"new{i}"], strict=True):
            p, q = (np.column_stack([expit(-v), expit(v)]) for v in (z, s))
            model = VennAbers()
            model.fit(p, y)
            each.append(model.predict_proba(q)[0][:, 1])
        found[str(i)] = np.clip(np.stack(each), 1e-9, 1 - 1e-9)
    np.savez(Path(folder, "found.npz"), **found)


# --- results --------------------------------------------------------------------------------------


def keep(args: argparse.Namespace, name: str, table: dict) -> None:
    with args.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"table": name, "rows": table}) + "\n")


COMMANDS = {
    "alarms": alarms,
    "shift": shift,
    "tolerance": tolerance,
    "employment": employment,
    "calibration": calibration,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*COMMANDS, "mapie", "venn-abers"])
    parser.add_argument("half", nargs="?", default="tune", help="of the sets: tune or confirm")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--scores", type=Path, default=RESULTS.parent / "scores")
    parser.add_argument("--settings", type=int, default=90, help="of tolerance")
    parser.add_argument("--data", help="the wheel of nannyml")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--mapie", help="Python of an environment with mapie")
    parser.add_argument("--venn-abers", help="Python of an environment with venn-abers")
    parser.add_argument("--mapie-streams", type=int, default=200)
    args = parser.parse_args()
    if args.what in ("mapie", "venn-abers"):  # with --mapie, --venn-abers
        mapie_child() if args.what == "mapie" else venn_abers_child(args.half)
        return
    COMMANDS[args.what](args)


if __name__ == "__main__":
    main()
