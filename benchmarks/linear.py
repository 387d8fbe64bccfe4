"""Does a linear model gain from being moved to the metric? Against logistic regression, tuned.

    python benchmarks/linear.py run [--data-dir DIR] [--out FILE] [--splits 10] [--half first]
    python benchmarks/linear.py rule [--out FILE]       # which rule each half would choose
    python benchmarks/linear.py confirm [--out FILE]    # the rule of one half on the other
    python benchmarks/linear.py shipped [--out FILE]    # the rule of the library, on all sets
    python benchmarks/linear.py few [--few FILE] [--seeds 0,300]   # simulated, 4 to 60 positives
    python benchmarks/linear.py time      # also memory

``run`` appends one JSON line for each data set, split and metric to ``--out`` and skips what is
there already. A line has the metric on test rows at every point of the path, the gain and its
error out of fold, and what scikit-learn's ``TunedThresholdClassifierCV`` around the same logistic
regression gets. A *rule* is how many standard errors a gain needs, and how far a model may move
that has few positives for each feature. Sets by name: the first 11 of the 22 with Adult and
CocktailParty, the last 11 with credit card and protein homology.

``few`` draws problems at random (100 to 2,000 rows, 4 to 60 positives, 2 to 20 features, how far
and how the classes are apart) and compares with ``TunedThresholdClassifierCV(LogisticRegression(),
scoring="f1")``: the classifier, and rules for the threshold on the same out-of-fold scores of
logistic regression. F1 is that of 8,000 further rows, weighted to the share of positives. One JSON
line for each seed is added to ``--few``, and the table printed is of the seeds asked for.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
import warnings
from dataclasses import replace
from itertools import product, starmap
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softset as ss
from common import DATA, TEST, append, load, over_sets, read, splits, value, zenodo
from softset.classifiers import linear_path
from softset.classifiers.path import CLEAR, CLEAR_OF_FEW, FEW, MOST_ROWS
from softset.comparison.statistics import holm, paired
from softset.decisions.tuner import Tuner
from softset.tables.scaling import varies
from softset.training.linear import move, scores_of, shifted

METRICS = ("f1", "mcc")
OUT = Path(__file__).parent / "results" / "linear.jsonl"


def halves(directory: Path) -> dict[str, list[str]]:
    names = zenodo(directory)
    return {
        "first": [*names[:11], "adult", "cocktailparty"],
        "last": [*names[11:], "creditcard", "protein"],
    }


# --- running --------------------------------------------------------------------------------------


class AllPoints(ss.MetricLinearClassifier):
    """Keeps the model and the decision of every point of the path."""

    def fit(self, X, y, sample_weight=None):
        kept = {}
        choose, out_of_fold = linear_path.choose, linear_path._out_of_fold

        def remember(*arguments):
            kept["path"], _ = choose(*arguments)
            return kept["path"], 0

        def watch(settings, sample, fold, trains, start, tuner, penalties):
            oof, models = out_of_fold(settings, sample, fold, trains, start, tuner, penalties)
            tested = fold >= 0
            kept["cuts"] = [tuner.best(z[tested], sample.y[tested], sample.w[tested]) for z in oof]
            at = origin = shifted(start, kept["cuts"][0], 2)
            kept["flats"] = [start]
            for penalty in penalties:
                at = move(sample, tuner.goal, origin, penalty, at)
                kept["flats"].append(at)
            return oof, models

        assert len(y) <= MOST_ROWS  # more would be moved on all rows
        linear_path.choose, linear_path._out_of_fold = remember, watch
        try:
            super().fit(X, y, sample_weight)
        finally:
            linear_path.choose, linear_path._out_of_fold = choose, out_of_fold
        self.kept_, self.varies_ = kept, varies(X)  # columns that vary are fitted alone
        return self

    def decisions(self, X):
        x = self._scaled(np.asarray(X))[:, self.varies_]
        pairs = zip(self.kept_["flats"], self.kept_["cuts"], strict=True)
        return [cut(scores_of(x, flat, 1)) for flat, cut in pairs]


def rival(metric: str):
    def score(y, decided, sample_weight=None):
        return ss.evaluate(
            np.asarray(decided, float), y, metric, from_logits=False, sample_weight=sample_weight
        )

    return TunedThresholdClassifierCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        scoring=make_scorer(score),
        cv=5,
    )


def run(args: argparse.Namespace) -> None:
    done = {(r["set"], r["split"], r["metric"]) for r in read(args.out)}
    sets = [n for half, names in halves(args.data_dir).items() for n in names]
    if args.half:
        sets = halves(args.data_dir)[args.half]
    started = time.process_time()
    for name in sets:
        x, y, w = load(args.data_dir, name)
        for number, (train, test) in enumerate(splits(y, args.splits, args.seed)):
            for metric in METRICS:
                if (name, number, metric) in done:
                    continue
                first = time.process_time()
                model = AllPoints(metric).fit(x[train], y[train], w[train])
                ours = time.process_time() - first
                theirs = rival(metric)
                weighted = name == "creditcard"
                # scikit-learn's tuner takes weights for the fit only by routing: without them here
                theirs.fit(x[train], y[train]) if not weighted else None
                record = {
                    "set": name,
                    "split": number,
                    "metric": metric,
                    "positives": int(y[train].sum()),
                    "features": x.shape[1],
                    "penalties": [p.penalty for p in model.kept_["path"]],
                    "gain": [p.gain for p in model.kept_["path"]],
                    "error": [p.error for p in model.kept_["path"]],
                    "test": [value(d, y[test], w[test], metric) for d in model.decisions(x[test])],
                    "sklearn": None
                    if weighted
                    else value(theirs.predict(x[test]), y[test], w[test], metric),
                    "seconds": round(ours, 3),
                }
                append(args.out, record)
        print(f"{name}: {time.process_time() - started:.0f} s of processor time so far", flush=True)


# --- rules ----------------------------------------------------------------------------------------

CLEARS = (0.25, 0.5, 0.75, 1.0, 1.5)
# The least penalty that a model with under three positives for each feature may go to.
NEAREST = (0.0, 0.0003, 0.003, 0.03, float("inf"))


class Rule(NamedTuple):
    clear: float
    nearest: float = 0.0
    clear_of_few: float | None = None  # the same as of the others, if left out


SHIPPED = Rule(CLEAR, clear_of_few=CLEAR_OF_FEW)


def picked(record: dict, rule: Rule) -> int:
    few = record["positives"] < FEW * record["features"]
    least = rule.nearest if few else 0.0
    clear = rule.clear_of_few if few and rule.clear_of_few is not None else rule.clear
    rows = range(1, len(record["gain"]))
    fine = [
        i
        for i in rows
        if record["gain"][i] > clear * record["error"][i] > 0 and record["penalties"][i] >= least
    ]
    return max(fine, key=lambda i: record["gain"][i], default=0)


def gains(records: list[dict], rule: Rule, against: str) -> dict[str, list[float]]:
    """For each set the gain of every split, over the metrics' records given."""
    found: dict[str, list[float]] = {}
    for r in records:
        base = r["test"][0] if against == "start" else r["sklearn"]
        if base is not None:
            found.setdefault(r["set"], []).append(r["test"][picked(r, rule)] - base)
    return found


def best_rule(records: list[dict]) -> Rule:
    """The rule with the best mean over sets of the gain over the start, both metrics together."""
    means = {
        rule: np.mean([np.mean(g) for g in gains(records, rule, "start").values()])
        for rule in starmap(Rule, product(CLEARS, NEAREST))
    }
    return max(means, key=means.__getitem__)


def by_half(args: argparse.Namespace) -> dict[str, list[dict]]:
    records = read(args.out)
    return {
        half: [r for r in records if r["set"] in names]
        for half, names in halves(args.data_dir).items()
    }


def rule(args: argparse.Namespace) -> None:
    for half, records in by_half(args).items():
        if not records:
            continue
        print(f"\n{half} half: mean gain over the start by rule")
        print("| standard errors | " + " | ".join(f"nearest {n:g}" for n in NEAREST) + " |")
        print("|---" * (1 + len(NEAREST)) + "|")
        for clear in CLEARS:
            row = [
                np.mean([np.mean(g) for g in gains(records, Rule(clear, n), "start").values()])
                for n in NEAREST
            ]
            print(f"| {clear} | " + " | ".join(f"{v:+.4f}" for v in row) + " |")
        print("chosen:", best_rule(records))


def confirm(args: argparse.Namespace) -> None:
    parts = by_half(args)
    rules = {half: best_rule(records) for half, records in parts.items()}
    print(f"rules chosen: {rules}; each is confirmed on the other half\n")
    show(parts, {"first": rules["last"], "last": rules["first"]})


def shipped(args: argparse.Namespace) -> None:
    print(f"the rule of the library, chosen with these sets in view: {SHIPPED}\n")
    show(by_half(args), {"first": SHIPPED, "last": SHIPPED})


def show(parts: dict[str, list[dict]], rules: dict[str, Rule]) -> None:
    """The gains of each half by its rule."""
    for metric in METRICS:
        for against in ("start", "sklearn"):
            print(f"{metric} against {'logistic, same tuner' if against == 'start' else against}")
            print("| set | positives / feature | base | moved | gain | p (corrected) |")
            print("|---|---|---|---|---|---|")
            means, few, tests = [], [], []
            for half, records in parts.items():
                own = [r for r in records if r["metric"] == metric]
                for name, found in gains(own, rules[half], against).items():
                    first = next(r for r in own if r["set"] == name)
                    ratio = first["positives"] / first["features"]
                    # A positive in the test rows is worth about this much of the metric.
                    one_row = (1 - TEST) / (TEST * first["positives"])
                    test = paired(found, [0.0] * len(found), TEST, one_row)
                    means.append(np.mean(found))
                    tests.append((name, test))
                    few += [np.mean(found)] if ratio < 3 else []
                    base = np.mean(
                        [
                            r["test"][0] if against == "start" else r["sklearn"]
                            for r in own
                            if r["set"] == name
                        ]
                    )
                    print(
                        f"| {name} | {ratio:.1f} | {base:.3f} | {base + np.mean(found):.3f} | "
                        f"{np.mean(found):+.3f} | {test.p:.3f} |"
                    )
            adjusted = holm([t.p for _, t in tests])
            pairs = zip(tests, adjusted, strict=True)
            worse = [n for (n, t), p in pairs if p < 0.05 and t.mean < 0]
            all_of_them = over_sets(means)
            print(
                f"\nmean {all_of_them.mean:+.4f}, {all_of_them.better} better, "
                f"{all_of_them.worse} worse, {all_of_them.equal} equal, one-sided Wilcoxon "
                f"p = {all_of_them.p_above:.4f}; sets below three positives a feature "
                f"{np.mean(few):+.4f}; clearly worse: {worse or 'none'}\n"
            )


# --- few positives --------------------------------------------------------------------------------


def drawn_problem(seed: int) -> tuple[dict, list[np.ndarray]]:
    """A problem, and its training and test rows."""
    random = np.random.default_rng(seed)
    n, wanted, features = (
        round(np.exp(random.uniform(np.log(low), np.log(high))))
        for low, high in ((100, 2000), (4, 60), (2, 20))
    )
    positives, apart = min(wanted, n // 3), random.uniform(0.5, 3.5)
    kind = ("shift", "two clusters", "heavy tails")[random.integers(3)]
    centers = random.normal(size=(2, features))
    centers *= apart / np.linalg.norm(centers, axis=1, keepdims=True)

    def rows(negatives: int, positives: int) -> tuple[np.ndarray, np.ndarray]:
        size = (negatives + positives, features)
        heavy = kind == "heavy tails"
        x = random.standard_t(3, size) / np.sqrt(3) if heavy else random.normal(size=size)
        which = random.random(positives) < 0.5 if kind == "two clusters" else np.zeros(positives)
        x[negatives:] += centers[which.astype(int)]
        return x, np.repeat([0, 1], [negatives, positives])

    x, y = rows(n - positives, positives)
    order = random.permutation(n)
    about = {"seed": seed, "n": n, "positives": positives, "features": features}
    return about | {"apart": apart, "kind": kind}, [x[order], y[order], *rows(6000, 2000)]


def judged(seed: int) -> dict:
    """F1 on the test rows of one problem, by each rule."""
    about, (x, y, test_x, test_y) = drawn_problem(seed)
    share = about["positives"] / about["n"]
    w = np.where(test_y == 1, share / test_y.mean(), (1 - share) / (1 - test_y.mean()))
    model = ss.MetricLinearClassifier("f1").fit(x, y)
    start = model.logistic_part()
    theirs = TunedThresholdClassifierCV(LogisticRegression(), scoring="f1").fit(x, y)
    (origin,), rows = model._training.origins, model._training.rows
    tuner = Tuner(ss.get_metric("f1"), "binary")
    found = {
        "default threshold (0.5)": 0.0,
        "tuned if better whichever row is left out": tuner.tune(origin.scores, rows.y).logit,
        "tuned if better": replace(tuner, clear=False).tune(origin.scores, rows.y).logit,
        "tuned always": tuner.best(origin.scores, rows.y, rows.w).logit,
    }
    z = start._scores(test_x)
    decided = {name: z >= cut for name, cut in found.items()}
    decided["tuned always, drawn to the share of positives"] = start.predict(test_x)
    decided["MetricLinearClassifier"] = model.predict(test_x)
    decided["TunedThresholdClassifierCV"] = theirs.predict(test_x)
    return about | {name: value(d, test_y, w, "f1") for name, d in decided.items()}


def few(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # folds without a positive have no F1
    records = {r["seed"]: r for r in read(args.few)}
    wanted = range(*map(int, args.seeds.split(",")))
    for seed in wanted:
        if seed not in records:
            records[seed] = judged(seed)
            append(args.few, records[seed])
    some = [records[seed] for seed in wanted]
    print(f"{len(some)} problems, seeds {wanted[0]} to {wanted[-1]}\n")
    print(
        "| rule | mean F1 | difference | worse by .03 | better by .03 | worst | difference, few |"
    )
    print("|---|---|---|---|---|---|---|")
    base = np.array([r["TunedThresholdClassifierCV"] for r in some])
    rare = np.array([r["positives"] for r in some]) < 12
    for name in [key for key in some[0] if key not in drawn_problem(0)[0]]:
        values = np.array([r[name] for r in some])
        d = values - base
        print(
            f"| {name} | {values.mean():.3f} | {d.mean():+.4f} | {np.mean(d < -0.03):.1%} | "
            f"{np.mean(d > 0.03):.1%} | {d.min():+.3f} | {d[rare].mean():+.4f} |"
        )


def rows_of(n: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    x = rng.randn(n, features)
    return x, (x[:, :3].sum(1) + rng.randn(n) > 2.5).astype(int)


def measure(args: argparse.Namespace) -> None:
    print(
        "| rows x features | ours, s | TunedThresholdClassifierCV, s | ratio |\n|---|---|---|---|"
    )
    for n, d in ((1000, 20), (1_000_000, 30)):
        x, y = rows_of(n, d, args.seed)
        times = {"ours": [], "theirs": []}
        for _ in range(5 if n < 10**5 else 1):
            models = {"ours": ss.MetricLinearClassifier("f1"), "theirs": rival("f1")}
            for name, model in models.items():
                first = time.perf_counter()
                model.fit(x, y)
                times[name].append(time.perf_counter() - first)
        a, b = (float(np.median(times[k])) for k in ("ours", "theirs"))
        print(f"| {n:,} x {d} | {a:.2f} | {b:.2f} | {a / b:.2f} |", flush=True)


def added(n: int, features: int, seed: int) -> float:
    """How many megabytes a fit adds to the most that the process has used."""
    x, y = rows_of(n, features, seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ss.MetricLinearClassifier("f1").fit(x, y)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def memory(args: argparse.Namespace) -> None:
    print("| rows x features | inputs, MB | added by the fit, MB |\n|---|---|---|")
    for n in (250_000, 500_000, 1_000_000):
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            used = fresh.apply(added, (n, 30, args.seed))
        print(f"| {n:,} x 30 | {n * 30 * 8 / 2**20:.0f} | {used:.0f} |", flush=True)


def main() -> None:
    todo = {"run": run, "rule": rule, "confirm": confirm, "shipped": shipped}
    todo |= {"few": few, "time": measure, "memory": memory}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=sorted(todo))
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--half", choices=("first", "last"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--few", type=Path, default=OUT.with_name("linear_few.jsonl"))
    parser.add_argument("--seeds", default="0,300", help="of few: from, to (left out)")
    args = parser.parse_args()
    todo[args.what](args)


if __name__ == "__main__":
    main()
