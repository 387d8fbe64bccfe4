"""Does any of our classifiers collapse on a whole dataset? Against plain LightGBM and logistic
regression, on all rows (the yardstick of ``efficacy.py`` thins them).

    python benchmarks/all_rows.py run [--half confirm] [--minutes 14] [--splits 1] [--sets A,B]
    python benchmarks/all_rows.py show [--half confirm]

A quarter of the rows of each dataset is tested, in one split or the mean of several, F1 (macro F1
of several classes), seed 0. Both baselines at the default threshold and with one tuned on three
folds. One JSON line for each fit; what is there is skipped, and no fit is begun after ``--minutes``
of processor time; ``--models A,B`` is for some. Small datasets come first.
``show`` prints what is more than .05 behind the better baseline, and on the
confirming half only what is worse than one class for all rows, or failed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import softset as ss
from common import append
from efficacy import DATA, OUT, OWN, RIVALS, SEED, Split, halves, load, read, splits, value

RESULTS = OUT.parent / "all_rows.jsonl"
BEHIND = 0.05
MODELS: dict[str, Callable[[str], Any]] = {
    name: lambda metric, name=name: ss.MetricThresholdClassifier(
        RIVALS[name](), metric, cv=3, random_state=SEED
    )
    for name in ("logistic", "lightgbm")
} | {
    **OWN,
    "MetricMLPClassifier": lambda metric: ss.MetricMLPClassifier(metric, random_state=SEED),
    "networks-30-epochs": lambda metric: ss.MetricMLPClassifier(
        metric, early_stopping=False, max_epochs=30, random_state=SEED
    ),
}
BASELINES = ("logistic", "lightgbm")


def measured(split: Split, model: str) -> dict[str, Any]:
    """The metric on the test rows, and the processor time; or the error."""
    metric = "f1" if split.train.task.single else "f1_macro"
    weight = split.train.w if np.ptp(split.train.w) else None
    started = time.process_time()

    def score(said: np.ndarray) -> float:
        return round(value(said, split.test.y, split.test.w, metric, split.test.task), 4)

    constant = max(score(np.full(len(split.test.y), k)) for k in range(split.train.y.max() + 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fitted = MODELS[model](metric).fit(split.train.x, split.train.y, sample_weight=weight)
            found = {"f1": score(fitted.predict(split.test.x)), "constant": constant}
            if model in BASELINES:
                plain = fitted.with_threshold(None).predict(split.test.x)
                found["default"] = score(plain)
    except Exception as error:  # what is looked for
        found = {"error": f"{type(error).__name__}: {error}", "constant": constant}
    return {**found, "seconds": round(time.process_time() - started, 2)}


def run(args: argparse.Namespace) -> None:
    done = {(r["set"], r["model"], r["split"]) for r in read(args.results)}
    tables = [load(args.data_dir, name, 10**9) for name in halves(args.data_dir)[args.half]]
    for table in sorted(tables, key=lambda t: t.x.size):
        if table.name not in (args.sets or [table.name]):
            continue
        for split, model in product(splits(table, args.splits), args.models or MODELS):
            if (table.name, model, split.number) in done:
                continue
            if time.process_time() > 60 * args.minutes:
                return
            line = {"half": args.half, "set": table.name, "split": split.number, "model": model}
            line |= {"rows": len(split.fold), **measured(split, model)}
            append(args.results, line)
            print(*line.values(), flush=True)


def show(args: argparse.Namespace) -> None:
    found = pd.DataFrame([r for r in read(args.results) if r["half"] == args.half])
    fits, minutes = len(found), found.seconds.sum() / 60
    found["error"] = found["error"].fillna("") if "error" in found else ""
    numbers = ["f1", "default", "constant", "seconds"]
    found = (
        found.groupby(["set", "model"], sort=False)
        .agg({**dict.fromkeys(numbers, "mean"), "error": "max", "split": "count"})
        .reset_index()
    )
    scores = found.pivot(index="set", columns="model", values="f1")
    best = found[found.model.isin(BASELINES)].groupby("set")[["f1", "default"]].max().max(axis=1)
    if args.half == "tune":
        order = [m for m in MODELS if m in scores]
        print("| dataset | " + " | ".join(order) + " |\n" + "|---" * (len(order) + 1) + "|")
        for name, row in scores[order].iterrows():
            print(f"| {name} | " + " | ".join(f"{v:.3f}" for v in row) + " |")
        print(f"\nMore than {BEHIND} behind the better baseline, tuned or not:\n")
        for line in found.itertuples():
            if line.model not in BASELINES and not line.f1 >= best[line.set] - BEHIND:
                values = f"{line.f1:.3f}, {best[line.set]:.3f}"
                print(f"- {line.set}, {line.model}: {values}; {line.split} split(s)")
    print("\nWorse than one class for all rows, or failed:\n")
    for line in found.itertuples():
        if not line.f1 >= line.constant:
            print(f"- {line.set}, {line.model}: {line.f1:.3f}, {line.error}")
    print(f"\n{fits} fits, {minutes:.0f} minutes of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "show"])
    parser.add_argument("--half", choices=["tune", "confirm"], default="tune")
    parser.add_argument("--minutes", type=float, default=14)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--sets", type=lambda text: text.split(","))
    args = parser.parse_args()
    {"run": run, "show": show}[args.command](args)


if __name__ == "__main__":
    main()
