"""How to cut, and how to blend: chosen on the tuning half of ``efficacy.py`` alone.

    python benchmarks/efficacy_rules.py cuts [--splits 2] [--rows 4000]
    python benchmarks/efficacy_rules.py blends [--splits 1] [--rows 2000]

``cuts`` takes the scores of logistic regression, random forest, extra trees and
HistGradientBoosting, and cuts them for F1 and MCC by each rule. It judges the cuts on test rows,
and, with less noise, on a third of the out-of-fold scores, cut by the other two thirds, five times.

``blends`` takes out-of-fold scores of the ensemble's parts for F1, and blends them with weights
that are held near equal ones by penalties of several strengths.

What was judged is kept in ``results/efficacy_rules.jsonl`` and not judged again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, wilcoxon
from sklearn.model_selection import StratifiedKFold

from efficacy import (
    FOLDS,
    FOUR,
    OUT,
    SEED,
    Scores,
    Split,
    arguments,
    halves,
    load,
    read,
    scores,
    splits,
    value,
)
from softset.classifiers.blending import blend_weights
from softset.classifiers.ensemble import KINDS, LEAST_SHARE, Order
from softset.classifiers.export import averaged
from softset.classifiers.responses import least_probability
from softset.counting.cells import Confusion
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric
from softset.tables.rows import Examples

DRAWS, BAGS = 5, 30
THEIRS = "TunedThresholdClassifierCV"
Floats = np.ndarray


# --- cuts -----------------------------------------------------------------------------------------


def found_cuts(metric: str, z: Floats, y: Floats, guarded: bool) -> dict[str, float]:
    """The cut of each rule."""
    exact, smooth = (Tuner(get_metric(metric), "binary", rule) for rule in ("exact", "smooth"))
    ones = np.ones(len(y))
    bags, random = [], np.random.default_rng(SEED)
    for _ in range(BAGS):
        times = random.poisson(1.0, len(y)).astype(float)
        some = times > 0
        if len(np.unique(y[some])) == 2:
            bags.append(float(exact.best(z[some], y[some], times[some]).logit))
    at = {
        "1/2": 0.0,
        "exact": float(exact.best(z, y, ones).logit),
        "smooth": float(smooth.best(z, y, ones).logit),
        "mean of 30 bags, exact": float(np.mean(bags)),
        "median of 30 bags, exact": float(np.median(bags)),
    }
    at["halfway between exact and smooth"] = (at["exact"] + at["smooth"]) / 2
    for strength in (1, 3, 10):
        share = y.sum() / (y.sum() + strength)
        at[f"smooth, shrunk to 1/2 as by {strength} positives"] = share * at["smooth"]
    if guarded:
        at["smooth, if clearly better out of fold"] = float(smooth.tune(z, y).logit)
        at["smooth, if better out of fold"] = float(replace(smooth, clear=False).tune(z, y).logit)
    return at


def logits(p: np.ndarray, least: float) -> np.ndarray:
    logs = np.log(np.maximum(p, least))
    return logs[:, 1] - logs[:, 0]


def values(metric: str, s: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The metric at each of some cuts."""
    sizes = []
    for part in (np.sort(s[y == 1]), np.sort(s)):
        sizes += [len(part) - np.searchsorted(part, at, "left"), np.full(len(at), len(part))]
    tp, support, predicted, total = (torch.from_numpy(a.astype(float)) for a in sizes)
    return get_metric(metric)(Confusion.from_sums(tp, predicted, support, total)).numpy()


def theirs(metric: str, p: Floats, y: Floats, folds: Iterable[Floats]) -> float:
    """scikit-learn's rule: the metric of each fold at 100 thresholds, interpolated, its mean."""
    grids, found = [], []
    for test in folds:
        grids.append(np.linspace(p[test].min(), p[test].max(), 100))
        found.append(values(metric, p[test], y[test], grids[-1]))
    grid = np.linspace(min(g[0] for g in grids), max(g[-1] for g in grids), 100)
    mean = np.mean([np.interp(grid, g, v) for g, v in zip(grids, found, strict=True)], axis=0)
    return float(grid[mean.argmax()])


def on_test(split: Split, found: Scores, metric: str) -> dict[str, float]:
    """On test rows."""
    p, y, least = found.oof, split.train.y, least_probability(found.oof)
    order = np.random.RandomState(SEED).permutation(len(y))
    at = found_cuts(metric, logits(p, least)[order], y[order], guarded=True)
    own = np.array([theirs(metric, p[:, 1], y, (test for _, test in split.folds()))])
    z, y = logits(found.test, least), split.test.y
    judged = dict(zip(at, values(metric, z, y, np.array(list(at.values()))), strict=True))
    return {**judged, THEIRS: values(metric, found.test[:, 1], y, own)[0]}


def on_thirds(split: Split, found: Scores, metric: str) -> dict[str, float]:
    """On a third of the out-of-fold scores, cut by the other two, five times."""
    p, y = found.oof, split.train.y
    z = logits(p, least_probability(p))
    judged: dict[str, list[float]] = {}
    for draw in range(DRAWS):
        random, place = np.random.RandomState(draw), np.empty(len(y))
        for k in (0, 1):
            own = np.flatnonzero(y == k)
            place[own] = random.permutation(len(own)) / len(own)
        rows = random.permutation(np.flatnonzero(place < 2 / 3))
        rest = np.flatnonzero(place >= 2 / 3)
        at = found_cuts(metric, z[rows], y[rows], guarded=False)
        found_values = values(metric, z[rest], y[rest], np.array(list(at.values())))
        for rule, v in zip(at, found_values, strict=True):
            judged.setdefault(rule, []).append(v)
        folds = StratifiedKFold(5, shuffle=True, random_state=SEED).split(rows, y[rows])
        own = theirs(metric, p[rows, 1], y[rows], (test for _, test in folds))
        judged.setdefault(THEIRS, []).append(
            values(metric, p[rest, 1], y[rest], np.array([own]))[0]
        )
    return {rule: float(np.mean(v)) for rule, v in judged.items()}


def tuning_splits(args: argparse.Namespace) -> Iterator[Split]:
    for name in halves(args.data_dir)["tune"]:
        if not args.sets or name in args.sets:
            yield from splits(load(args.data_dir, name, args.rows), args.splits)


def kept(path: Path) -> dict[tuple[Any, ...], dict[str, float]]:
    """What was judged before, by what it is of."""
    return {tuple(record["of"]): record["values"] for record in read(path)}


def keep(path: Path, of: tuple[Any, ...], found: dict[str, float]) -> dict[str, float]:
    plain = {name: round(float(v), 6) for name, v in found.items()}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"of": of, "values": plain}) + "\n")
    return plain


def compare_cuts(args: argparse.Namespace) -> None:
    done = kept(args.out)
    for judge in (on_test, on_thirds):
        table: dict[str, dict[str, dict[str, list[float]]]] = {}
        for split in tuning_splits(args):
            if split.train.task != "binary":
                continue
            name, size = split.train.name, len(split.fold)
            for model, metric in product(FOUR, ("f1", "mcc")):
                of = (judge.__name__, name, size, split.number, model, metric)
                judged = done.get(of)
                if judged is None:
                    found = scores(split, model, FOUR[model], args.scores)
                    judged = keep(args.out, of, judge(split, found, metric))
                for rule, v in judged.items():
                    by_set = table.setdefault(rule, {}).setdefault(metric, {})
                    by_set.setdefault(name, []).append(v)
        print(f"\n{judge.__doc__} Mean, minus {THEIRS}, one-sided Wilcoxon p over sets.\n")
        print("| rule | F1 | | p | MCC | | p |\n|---|---|---|---|---|---|---|")
        for rule, by_metric in table.items():
            cells = [rule]
            for metric, by_set in by_metric.items():
                own = np.array([np.mean(v) for v in by_set.values()])
                other = np.array([np.mean(v) for v in table[THEIRS][metric].values()])
                gain = own - other
                p = wilcoxon(gain, alternative="greater").pvalue if gain.any() else 1.0
                cells += [f"{own.mean():.4f}", f"{gain.mean():+.4f}", f"{p:.3f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


# --- blends ---------------------------------------------------------------------------------------

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
TREES = ("extra-trees", "forest", "boosting")


def part_scores(split: Split, metric: str, folder: Path) -> dict[str, Scores]:
    """Every part of the ensemble: out of fold, and the mean of the fold models on test rows."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Scores] = {}
    classes = split.train.y.max() + 1
    for name, kind in KINDS.items():
        path = folder / f"{split.train.name}-{len(split.fold)}-{split.number}-{metric}-{name}.npz"
        if not path.exists():
            parts: dict[str, tuple[np.ndarray, ...]] = {}
            for train, test in split.folds():
                part = split.train.take(train)
                rows = Examples(part.x, part.y, part.w)
                for key, model in kind.fit(rows, Order(metric, SEED, None)).items():
                    empty = (
                        np.zeros((len(split.fold), classes)),
                        np.zeros((len(split.test.y), classes)),
                    )
                    oof, mean = parts.setdefault(key, empty)
                    oof[test] = model.predict_proba(split.train.x[test])
                    mean += model.predict_proba(split.test.x) / FOLDS
            arrays = {f"{k}|{i}": a for k, pair in parts.items() for i, a in enumerate(pair)}
            np.savez(path, **arrays)
        saved = np.load(path)
        for key in dict.fromkeys(k.split("|")[0] for k in saved.files):
            oof, mean = (saved[f"{key}|{i}"] for i in (0, 1))
            found[key] = Scores(oof, mean, mean, 0.0)
    return found


def blended_value(
    split: Split, parts: list[Scores], metric: str, weigh: Callable[..., np.ndarray]
) -> float:
    """The metric on test rows of a blend with the weights of ``weigh(scores, y, w, tuner)``."""
    task, y = split.train.task, split.train.y
    order = np.random.RandomState(SEED).permutation(len(y))
    least = min(least_probability(part.oof) for part in parts)
    as_scores = (
        (lambda p: np.log(np.maximum(p, least)))
        if task == "multiclass"
        else (lambda p: logits(p, least))
    )
    z = np.stack([as_scores(part.oof)[order] for part in parts])
    tuner, w = Tuner(get_metric(metric), task, clear=False), np.ones(len(y))
    weights = weigh(z, y[order], w, tuner)
    weights = torch.from_numpy(np.where(weights >= LEAST_SHARE / len(parts), weights, 0.0))
    used = torch.nonzero(weights).ravel()
    share = weights[used] / weights.sum()
    decision = tuner.tune(averaged(torch.from_numpy(z)[used], task, share).numpy(), y[order], w)
    tested = torch.from_numpy(np.stack([as_scores(part.test) for part in parts]))
    decided = decision(averaged(tested[used], task, share).numpy())
    return value(decided, split.test.y, None, metric, task)


def equal(z: np.ndarray, y: np.ndarray, w: np.ndarray, tuner: Tuner) -> np.ndarray:
    return np.full(len(z), 1 / len(z))


def blends(split: Split, metric: str, folder: Path) -> dict[str, float]:
    """The metric on test rows of every part alone and of every blend."""
    parts = part_scores(split, metric, folder)
    found = {name: blended_value(split, [part], metric, equal) for name, part in parts.items()}
    trees = [parts[name] for name in TREES]
    found["extra trees, forest, boosting, equal"] = blended_value(split, trees, metric, equal)
    plain = [part for name, part in parts.items() if not name.endswith("-metric")]
    for label, some in (("all", list(parts.values())), ("not trained for the metric", plain)):
        found[f"{label}, equal"] = blended_value(split, some, metric, equal)
        for strength in STRENGTHS:
            weigh = partial(blend_weights, shrinkage=strength)
            found[f"{label}, shrinkage {strength:g}"] = blended_value(split, some, metric, weigh)
    return found


def compare_blends(args: argparse.Namespace) -> None:
    metric, done = "f1", kept(args.out)
    table: dict[str, dict[str, list[float]]] = {}
    for split in tuning_splits(args):
        of = ("blends", split.train.name, len(split.fold), split.number, metric)
        judged = done.get(of)
        if judged is None:
            judged = keep(args.out, of, blends(split, metric, args.scores / "parts"))
        for name, v in judged.items():
            table.setdefault(name, {}).setdefault(split.train.name, []).append(v)
    means = {name: np.array([np.mean(v) for v in found.values()]) for name, found in table.items()}
    ranks = rankdata(-np.round(np.stack(list(means.values())), 6), axis=0).mean(1)
    sets = len(next(iter(means.values())))
    print(f"F1 on test rows, {sets} sets that tune: mean, mean rank of {len(means)}\n")
    print("| blend | mean | mean rank |\n|---|---|---|")
    for (name, found), rank in zip(means.items(), ranks, strict=True):
        print(f"| {name} | {found.mean():.4f} | {rank:.2f} |")


def main() -> None:
    args = arguments("cuts", "blends")
    args.out = OUT.with_name("efficacy_rules.jsonl") if args.out == OUT else args.out
    {"cuts": compare_cuts, "blends": compare_blends}[args.what](args)


if __name__ == "__main__":
    main()
