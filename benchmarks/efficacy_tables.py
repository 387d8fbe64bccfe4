"""Tables of what ``efficacy.py`` measured.

    python benchmarks/efficacy_tables.py [--out FILE] [--diagram FILE.svg]

For each half and metric: mean, mean rank and time of every classifier that all sets have; the
claims with one-sided Wilcoxon tests over sets; with ``--diagram``, the critical-difference diagram
of F1 on the sets that confirm (Demsar 2006, Nemenyi's test at 5 %).
"""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range, wilcoxon

from efficacy import FOUR, METRICS, OUT, TEST_FOLDS, read
from softset.comparison.statistics import holm, paired

ENSEMBLE, NETWORK = "MetricEnsembleClassifier, own", "MetricMLPClassifier, own"
# What the ensemble is made of, as far as rivals show it: each with our cut.
PARTS = [f"{name}, ours" for name in ("logistic", "forest", "extra-trees", "lightgbm")]
# Measured on fewer sets and splits (automl.py): in a table of their own.
AUTOML = ("flaml", "autogluon")


def by_set(records: list[dict[str, Any]]) -> pd.DataFrame:
    """The mean over splits of each classifier with its cut (columns), for each set (rows).

    Classifiers that are on half of the sets or fewer are left out, and then splits that not every
    other classifier has. scikit-learn's cut, which not every set has, is in a table of its own.
    """
    table = pd.DataFrame([r for r in records if r["cut"] != "sklearn"])
    table["model"] = table["model"] + ", " + table["cut"]
    wide = table.pivot_table(index=["set", "split"], columns="model", values="value")
    sets = wide.groupby("set").count().gt(0).sum()
    wide = wide[sets.index[sets > sets.max() / 2]].dropna()
    return wide.groupby("set").mean()


def nemenyi(classifiers: int, sets: int) -> float:
    """How far apart mean ranks must be to differ clearly (5 %)."""
    q = studentized_range.ppf(0.95, classifiers, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(classifiers * (classifiers + 1) / (6 * sets)))


def mean_ranks(values: pd.DataFrame) -> pd.Series:
    ranks = rankdata(-values.round(6), axis=1).mean(0)
    return pd.Series(ranks, index=values.columns).sort_values()


def less(values: pd.DataFrame, own: str, other: str) -> tuple[float, float]:
    """The mean of ``own`` minus ``other``, and the one-sided p that it is above 0."""
    gain = (values[own] - values[other]).round(6)
    return gain.mean(), wilcoxon(gain, alternative="greater").pvalue if gain.any() else 1.0


def show_means(records: list[dict[str, Any]]) -> None:
    values = by_set(records)
    ranks = mean_ranks(values)
    best, sets = ranks.index[0], len(values)
    table = pd.DataFrame(records)
    splits = table[table["set"].isin(values.index)].groupby("set")["split"].nunique()
    table["model"] = table["model"] + ", " + table["cut"]
    seconds = table.groupby("model")["seconds"].mean()
    print(
        f"{sets} sets, splits of each: {splits.min()} or more; mean ranks less than "
        f"{nemenyi(len(ranks), sets):.2f} apart do not differ clearly (Nemenyi, 5 %).\n"
    )
    print("| classifier, cut | mean | mean rank | wins / ties / losses of the first | s |")
    print("|---|---|---|---|---|")
    for model, rank in ranks.items():
        gain = (values[best] - values[model]).round(6)
        won = f"{(gain > 0).sum()} / {(gain == 0).sum()} / {(gain < 0).sum()}"
        won = "" if model == best else won
        print(
            f"| {model} | {values[model].mean():.4f} | {rank:.2f} | {won} | {seconds[model]:.1f} |"
        )
    left = set(table["model"][table["cut"] != "sklearn"]) - set(ranks.index)
    if left:
        print(f"\nOn too few sets, and left out: {'; '.join(sorted(left))}.")


def show_cuts(records: list[dict[str, Any]]) -> None:
    """``MetricThresholdClassifier`` against ``TunedThresholdClassifierCV``, same scores."""
    table = pd.DataFrame([r for r in records if r["model"] in FOUR])
    if "sklearn" not in set(table.get("cut", [])):
        return
    wide = table.pivot_table(index=["set", "split", "model"], columns="cut", values="value")
    gain = (wide["ours"] - wide["sklearn"]).unstack("model").dropna()
    means = gain.groupby("set").mean()
    print("\nMetricThresholdClassifier minus TunedThresholdClassifierCV, same scores:\n")
    print("| | " + " | ".join(means.columns) + " | all four |\n|---" + "|---" * 5 + "|")
    columns = [*(means[m] for m in means.columns), means.mean(axis=1)]
    print("| mean over sets | " + " | ".join(f"{c.mean():+.4f}" for c in columns) + " |")
    tests = [wilcoxon(c, alternative="greater").pvalue if c.any() else 1.0 for c in columns]
    print("| one-sided Wilcoxon p | " + " | ".join(f"{p:.3f}" for p in tests) + " |")
    found = {(name, m): gain.loc[name, m] for name in means.index for m in means.columns}
    print(f"\nClearly worse: {clearly_worse(found, records)}.")


def clearly_worse(gains: dict[tuple[str, str], Any], records: list[dict[str, Any]]) -> str:
    """Sets and classifiers whose gains over splits are clearly below 0, Holm over all."""
    positives = {r["set"]: r["positives"] for r in records}
    found = {}
    for (name, model), splits in gains.items():
        if len(splits) > 1:
            # A positive in the test rows is worth about this much of the metric.
            one_row = (TEST_FOLDS - 1) / positives[name]
            differences = splits.tolist()
            zeros = [0.0] * len(differences)
            found[name, model] = paired(differences, zeros, 1 / TEST_FOLDS, one_row)
    if not found:
        return "cannot be told from one split"
    adjusted = holm([t.p for t in found.values()])
    pairs = zip(found.items(), adjusted, strict=True)
    worse = [f"{m} on {name}" for ((name, m), t), p in pairs if p < 0.05 and t.mean < 0]
    return ", ".join(worse) or f"none of {len(found)}"


def show_networks(records: list[dict[str, Any]]) -> None:
    """The default network beside other networks and LightGBM."""
    values = by_set(records)
    wanted = [c for c in values if c.startswith(("MetricMLPClassifier", "mlp"))]
    if NETWORK not in wanted or len(wanted) < 2:
        return
    ranks = mean_ranks(values[wanted])
    print("\nThe networks among themselves; what the default is ahead, and p:\n")
    print("| network, cut | mean | mean rank | default minus it | p |\n|---|---|---|---|---|")
    for name in [*ranks.index, *(c for c in ("lightgbm, ours",) if c in values)]:
        ahead, p = less(values, NETWORK, name)
        rank = f"{ranks[name]:.2f}" if name in ranks else ""
        compared = " | " if name == NETWORK else f"{ahead:+.4f} | {p:.3f}"
        print(f"| {name} | {values[name].mean():.4f} | {rank} | {compared} |")


def show_ensemble(records: list[dict[str, Any]]) -> None:
    """The ensemble beside every other classifier with our cut, and its parts."""
    values = by_set(records)
    if ENSEMBLE not in values:
        return
    print("\nWhat the ensemble is ahead, and p:\n")
    print("| classifier, cut | mean | ensemble minus it | p |\n|---|---|---|---|")
    others = [c for c in mean_ranks(values).index if c.endswith((", ours", ", own"))]
    for name in others:
        if name != ENSEMBLE:
            ahead, p = less(values, ENSEMBLE, name)
            print(f"| {name} | {values[name].mean():.4f} | {ahead:+.4f} | {p:.3f} |")
    parts = [c for c in [*PARTS, NETWORK] if c in values]
    best = values[parts].max(axis=1)
    gain = (values[ENSEMBLE] - best).round(4)
    print(
        f"\nEnsemble minus the best of {len(parts)} parts on each set (which part is best is known "
        f"afterwards only): mean {gain.mean():+.4f}; at or above it on {(gain >= 0).sum()} of "
        f"{len(gain)}; furthest below on {gain.idxmin()}, {gain.min():+.4f}."
    )
    table = pd.DataFrame(records)
    table["model"] = table["model"] + ", " + table["cut"]
    wide = table.pivot_table(index=["set", "split"], columns="model", values="value")
    gains = {
        (name, part): (wide[ENSEMBLE] - wide[part]).loc[name].dropna()
        for name in values.index
        for part in [values.loc[name, parts].idxmax()]
    }
    print(f"\nClearly worse than that part: {clearly_worse(gains, records)}.")


def show_automl(records: list[dict[str, Any]]) -> None:
    """FLAML and AutoGluon beside the ensemble, on the splits that they have."""
    some = [r for r in records if r["model"] in AUTOML]
    if not some:
        return
    splits = {(r["set"], r["split"]) for r in some}
    values = by_set(some + [r for r in records if (r["set"], r["split"]) in splits])
    if ENSEMBLE not in values:
        return
    beside = [f"{name}, ours" for name in ("forest", "extra-trees", "hist-boosting", "lightgbm")]
    found = [c for c in values if c.startswith(AUTOML)]
    ranks = mean_ranks(values[[ENSEMBLE, *found, *(c for c in beside if c in values)]])
    table = pd.DataFrame(records)
    table = table[[key in splits for key in zip(table["set"], table["split"], strict=True)]]
    seconds = table.groupby(table["model"] + ", " + table["cut"])["seconds"].mean()
    print(f"\nAutoML, {len(values)} sets, {len(splits)} splits in all:\n")
    print("| classifier, cut | mean | mean rank | ensemble minus it | p | s |")
    print("|---|---|---|---|---|---|")
    for name, rank in ranks.items():
        ahead, p = less(values, ENSEMBLE, name)
        compared = " | " if name == ENSEMBLE else f"{ahead:+.4f} | {p:.3f}"
        mean = values[name].mean()
        print(f"| {name} | {mean:.4f} | {rank:.2f} | {compared} | {seconds[name]:.1f} |")


def diagram(values: pd.DataFrame) -> str:
    """Mean ranks on a line, the best on the left; bars join those that do not differ clearly."""
    ranks, apart = mean_ranks(values), nemenyi(values.shape[1], len(values))
    count, left, width, row = len(ranks), 260, 420, 17
    low, high = 1.0, float(np.ceil(ranks.max()))

    def at(rank: float) -> float:
        return left + (rank - low) / (high - low) * width

    bars = []
    for i, rank in enumerate(ranks):
        last = int((ranks <= rank + apart).sum()) - 1
        if last > i and (not bars or last > bars[-1][1]):
            bars.append((i, last))
    top = 56 + 9 * len(bars)
    half = (count + 1) // 2
    size = (2 * left + width, top + row * half + 20)
    line = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#333" stroke-width="{}"/>'
    text = '<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>'
    parts = [line.format(left, 40, left + width, 40, 1)]
    for tick in range(int(low), int(high) + 1):
        parts.append(line.format(at(tick), 36, at(tick), 40, 1))
        parts.append(text.format(at(tick), 31, "middle", tick))
    parts.append(line.format(left, 12, min(at(low + apart), left + width), 12, 2))
    parts.append(text.format(left - 6, 16, "end", f"critical difference {apart:.2f}"))
    for place, (i, last) in enumerate(bars):
        y = 50 + 9 * place
        parts.append(line.format(at(ranks.iloc[i]) - 4, y, at(ranks.iloc[last]) + 4, y, 4))
    for i, (name, rank) in enumerate(ranks.items()):
        first = i < half
        y = top + row * (i if first else count - 1 - i)
        end, anchor = (left - 8, "end") if first else (left + width + 8, "start")
        parts.append(line.format(at(rank), 40, at(rank), y, 0.7))
        parts.append(line.format(at(rank), y, end, y, 0.7))
        shown = f"{name.rsplit(', ', 1)[0]}  {rank:.2f}"
        parts.append(text.format(end + (-3 if first else 3), y + 4, anchor, escape(shown)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--diagram", type=Path)
    args = parser.parse_args()
    records = read(args.out)
    for half in ("tune", "confirm"):
        for metric in METRICS:
            some = [r for r in records if (r["half"], r["metric"]) == (half, metric)]
            if some:
                print(f"\n## {metric}, sets that {half}\n")
                own = [r for r in some if r["model"] not in AUTOML]
                for part in (show_means, show_cuts, show_networks, show_ensemble):
                    part(own)
                show_automl(some)
    if args.diagram is not None:
        some = [r for r in records if (r["half"], r["metric"]) == ("confirm", "f1")]
        tuned = by_set([r for r in some if r["model"] not in AUTOML])
        tuned = tuned[[c for c in tuned if not c.endswith(", half")]]
        args.diagram.write_text(diagram(tuned), encoding="utf-8")


if __name__ == "__main__":
    main()
