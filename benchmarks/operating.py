"""Does training for an operating point gain over the same model with its threshold there?

    python benchmarks/operating.py tune      # the half that everything is chosen on
    python benchmarks/operating.py confirm   # the other half: once, when all is chosen
    python benchmarks/operating.py show      # the tables, from the results

Options: --data-dir DIR, --out FILE, --rows N (at most), --minutes M (of processor time).

For each set, split and goal: `MetricLinearClassifier`, `MetricMLPClassifier(recipe="warm")` and
`MetricBoostingClassifier` trained for the goal, and the same model without that (logistic
regression, cross-entropy, log-loss), which the same fit gives. Both are judged on test rows by what
their ranking can do at the operating point (`evaluate`: the best of all thresholds that meet the
constraint there), so that a constraint missed by a hair does not decide. What was trained for the
goal is taken only where its gain out of fold is more than `CLEAR` standard errors of it, as the
classifiers do; "always" is without that rule (the path of the linear model always has it).

Resumable: finished fits are kept in --out. Sets, halves and rows as in `efficacy.py`; the tests are
Wilcoxon's over sets (the mean of a set's splits), two-sided, and Holm's over the nine.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import softset as ss
from common import DATA, append, over_sets, read
from efficacy import halves, load, splits
from softset.classifiers import boosting, network, path
from softset.comparison.statistics import holm

OUT = Path(__file__).parent / "results" / "operating.jsonl"
GOALS = ("precision@recall>=0.8", "recall@fpr<=0.01", "recall@alerts<=5%")
SEVERAL_CLASSES = ("digits", "iris", "wine", "fashion")
SPLITS = 1


def fitted(kind: str, goal: str, x, y, w):
    """The classifier that started, the one trained for the goal, and the gain of the latter out of
    fold in standard errors: infinite where there was nothing to decide."""
    gains = []

    def always(start, moved, y, w, tuner) -> bool:
        point = path.choose([start, moved], y, w, tuner, [np.inf, 0.0], path.CLEAR)[0][1]
        gains.append(point.gain / point.error if point.error > 0 else 0.0)
        return True

    boosting.is_better = network.is_better = always
    if kind == "linear":
        model = ss.MetricLinearClassifier(goal).fit(x, y, w)
        return model.logistic_part(), model, float("inf")
    if kind == "boosting":
        model = ss.MetricBoostingClassifier(goal, n_jobs=1, random_state=0).fit(x, y, w)
        return model.log_loss_part(), model, gains[0] if gains else float("inf")
    model = network.PhasedClassifier(
        goal, recipe="warm", n_networks=5, max_epochs=60, random_state=0
    ).fit(x, y, w)
    return model.first_phase(recipe="cross-entropy"), model, gains[0] if gains else float("inf")


KINDS = ("boosting", "network", "linear")


def run(half: str, args: argparse.Namespace) -> None:
    done = {(r["set"], r["split"], r["goal"], r["model"]) for r in read(args.out)}
    sets = [n for n in halves(args.data_dir)[half] if n not in SEVERAL_CLASSES]
    for number, name in product(range(SPLITS), sets):
        split = None
        for goal, kind in product(GOALS, KINDS):
            if (name, number, goal, kind) in done:
                continue
            if time.process_time() > 60 * args.minutes:
                print("stopped: --minutes", flush=True)
                return
            if split is None:
                split = splits(load(args.data_dir, name, args.rows), SPLITS)[number]
            started, test = time.process_time(), split.test
            start, model, gain = fitted(kind, goal, split.train.x, split.train.y, split.train.w)
            values = [m.score(test.x, test.y, sample_weight=test.w) for m in (start, model)]
            record = {"half": half, "set": name, "split": number, "goal": goal, "model": kind,
                      "start": values[0], "trained": values[1], "errors": min(gain, 1e9),
                      "positives": [int(split.train.y.sum()), int(test.y.sum())],
                      "seconds": round(time.process_time() - started, 2)}  # fmt: skip
            append(args.out, record)
            print(record, flush=True)


def show(results: Path) -> None:
    records = read(results)
    for half in ("tune", "confirm"):
        rows = []
        for goal, kind in product(GOALS, KINDS[::-1]):
            some = [r for r in records if (r["half"], r["goal"], r["model"]) == (half, goal, kind)]
            if not some:
                continue
            names = sorted({r["set"] for r in some})
            for r in some:
                r["gain"] = r["trained"] - r["start"]
                r["taken"] = r["gain"] if r["errors"] > path.CLEAR else 0.0
            start, always, taken = (
                np.array([np.mean([r[key] for r in some if r["set"] == n]) for n in names])
                for key in ("start", "gain", "taken")
            )
            rows.append((goal, kind, start.mean(), always.mean(), over_sets(taken)))
        if not rows:
            continue
        print(f"\n{half}, {len([r for r in records if r['half'] == half])} fits\n")
        print("| goal | model | without | gain | better, worse, equal | p | adjusted | always |")
        print("|---|---|---|---|---|---|---|---|")
        adjusted = holm([row[-1].p for row in rows])
        for (goal, kind, start, always, g), p in zip(rows, adjusted, strict=True):
            print(
                f"| {goal} | {kind} | {start:.3f} | {g.mean:+.4f} [{g.low:+.3f}, {g.high:+.3f}] | "
                f"{g.better}, {g.worse}, {g.equal} | {g.p:.2f} | {p:.2f} | {always:+.4f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("tune", "confirm", "show"))
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.part == "show":
        show(args.out)
    else:
        run(args.part, args)


if __name__ == "__main__":
    main()
