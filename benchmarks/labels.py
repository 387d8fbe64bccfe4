"""Do cuts of rare labels gain from being drawn towards a cut that all labels share?

One-against-rest logistic regression on the multilabel sets; cuts are tuned on a fifth of the rows
and judged on another. Rules: the best cut of each label (``exact``, what ``Tuner`` does), the best
by smoothed counts (``smooth``), one cut for all labels (``shared``), and either of the first two
drawn towards the shared one as if that came with so many positives (``exact > 10``).

    python benchmarks/labels.py --data FOLDER            # to choose on: yeast, enron, tmc2007
    python benchmarks/labels.py --data FOLDER --confirm  # bibtex, emotions
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

from softset.decisions.cuts import all_cuts
from softset.decisions.smoothing import smooth_cut
from softset.decisions.thresholds import best_cuts
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric

CHOOSE, CONFIRM = ("yeast", "enron", "tmc2007"), ("bibtex", "emotions")
MOST_ROWS = 6000
SHARES = (2, 5, 10, 20, 50)
F1 = get_metric("f1")


def load(path):
    data = np.load(path)
    x, y = [], []
    for part in ("train", "test"):
        cells = [data[f"{part}_{name}"] for name in ("data", "indices", "indptr")]
        x.append(sparse.csr_matrix(tuple(cells), shape=data[f"{part}_shape"]))
        y.append(np.unpackbits(data[f"{part}_y"], axis=1)[:, : len(data["labels"])])
    return sparse.vstack(x).tocsr(), np.vstack(y).astype(np.int64)


def scored(x, y, seed):
    """Logits and labels of rows to tune on, and of rows to judge on."""
    rows = np.random.default_rng(seed).permutation(x.shape[0])[:MOST_ROWS]
    train, tune, test = np.split(rows, [int(0.6 * len(rows)), int(0.8 * len(rows))])
    scaler = MaxAbsScaler().fit(x[train])
    parts = [scaler.transform(x[part]) for part in (train, tune, test)]
    scores = [np.full((len(part), y.shape[1]), -7.0) for part in (tune, test)]
    for label in range(y.shape[1]):
        if 0 < y[train, label].sum() < len(train):
            model = LogisticRegression(solver="liblinear").fit(parts[0], y[train, label])
            for s, part in zip(scores, parts[1:], strict=True):
                s[:, label] = model.decision_function(part)
    return scores[0], y[tune], scores[1], y[test]


def macro_f1(z, y, cut):
    """Over the labels that are there."""
    said, there = z >= cut, y.sum(0) > 0
    size = said.sum(0) + y.sum(0)
    return (2 * (said & (y == 1)).sum(0) / np.maximum(size, 1))[there].mean()


def smooth_cuts(z, y, shared):
    some = [0 < own.sum() < len(own) for own in y.T]
    return np.array(
        [
            smooth_cut(s, own, np.ones(len(s)), F1)[0] if ok else shared
            for s, own, ok in zip(z.T, y.T, some, strict=True)
        ]
    )


def rules(z, y):
    grid = np.linspace(-4, 2, 61)
    shared = grid[np.argmax([macro_f1(z, y, cut) for cut in grid])]
    columns = (torch.from_numpy(a.T.copy()) for a in (z, y))
    exact = best_cuts(F1, all_cuts(*columns, None, "multilabel")).numpy()
    smooth, positives = smooth_cuts(z, y, shared), y.sum(0)
    found = {
        "half": 0.0,
        "exact": exact,
        "tuner": Tuner(F1, "multilabel").tune(z, y).cut,
        "smooth": smooth,
        "shared": shared,
    }
    for k in SHARES:
        for name, cuts in (("exact", exact), ("smooth", smooth)):
            found[f"{name} > {k}"] = (positives * cuts + k * shared) / (positives + k)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("SOFTSET_DATA"), type=Path)
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--splits", type=int, default=5)
    args = parser.parse_args()
    if args.data is None:
        sys.exit("give --data, or set SOFTSET_DATA, to the folder of data sets")
    torch.set_num_threads(1)
    for name in CONFIRM if args.confirm else CHOOSE:
        x, y = load(args.data / "multilabel" / f"{name}.npz")
        values = {}
        for seed in range(args.splits):
            tune_z, tune_y, z, truth = scored(x, y, seed)
            for rule, cut in rules(tune_z, tune_y).items():
                values.setdefault(rule, []).append(macro_f1(z, truth, cut))
        print(f"{name}: macro F1, {args.splits} splits, and what it is above the exact cuts")
        for rule, found in values.items():
            gain = np.array(found) - values["exact"]
            wins = (gain > 0).sum()
            print(
                f"  {rule:12} {np.mean(found):.4f} {gain.mean():+.4f} ({wins} better)", flush=True
            )


if __name__ == "__main__":
    main()
