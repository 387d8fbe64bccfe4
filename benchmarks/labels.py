"""Do cuts of rare labels and offsets of rare classes gain from being drawn towards shared ones?

Labels: one-against-rest logistic regression on the multilabel sets; cuts are tuned on a fifth of
the rows and judged on another. Classes: TF-IDF and logistic regression on intents of BANKING77, as
they are and long-tailed; offsets are tuned on a fifth of the training rows and judged on the test
rows. Rules: the model's ``own``; ``exact``, the best of each label or class; the exact ones
drawn towards shared ones as if those came with so many positives (``20``); and ``shared`` alone.

    python benchmarks/labels.py --data FOLDER            # to choose on: yeast, enron, tmc2007 and
                                                         # every second intent
    python benchmarks/labels.py --data FOLDER --confirm  # bibtex, emotions, and the other intents
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler

from softset.counting.thresholds import all_thresholds
from softset.decisions.decision import Decision
from softset.decisions.offsets import best_offsets
from softset.decisions.shrinking import OF_CLASS, OF_LABEL, shrunk_offsets, shrunk_thresholds
from softset.decisions.thresholds import best_logits
from softset.decisions.tuner import Tuner
from softset.metrics.registry import get_metric

CHOOSE, CONFIRM = ("yeast", "enron", "tmc2007"), ("bibtex", "emotions")
LABEL_METRICS = ("f1", "jaccard", "mcc", "balanced_accuracy")
MOST_ROWS = 6000
STRENGTHS = {"multilabel": (5, 10, 20, 40, 1e9), "multiclass": (10, 20, 50, 100, 1e9)}
DEFAULT = {"multilabel": int(OF_LABEL), "multiclass": int(OF_CLASS)}
TAIL, FEWEST = 20, 5


# --- scores ---------------------------------------------------------------------------------------


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


def intents(folder, first):
    """Texts and class numbers of training and test rows, of every second intent."""
    parts = [pd.read_csv(folder / f"{name}.csv") for name in ("train", "test")]
    names = sorted(parts[0].category.unique())[first::2]
    parts = [part[part.category.isin(names)] for part in parts]
    return [(p.text.to_numpy(), np.array([names.index(c) for c in p.category])) for p in parts]


def scored_texts(data, tail, seed):
    """Log-probabilities and classes of rows to tune on, and of test rows."""
    (texts, y), (test_texts, y_test) = data
    rng = np.random.default_rng(seed)
    classes = y.max() + 1
    shares = (tail ** (-np.arange(classes) / (classes - 1)))[rng.permutation(classes)]
    rows = [rng.permutation(np.flatnonzero(y == k)) for k in range(classes)]
    rows = [r[: max(FEWEST, int(len(r) * share))] for r, share in zip(rows, shares, strict=True)]
    rows = np.concatenate(rows)
    train, tune = train_test_split(rows, test_size=0.2, stratify=y[rows], random_state=seed)
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit(texts[train])
    model = LogisticRegression(C=10, max_iter=200).fit(words.transform(texts[train]), y[train])
    z, z_test = (
        model.predict_log_proba(words.transform(part)) for part in (texts[tune], test_texts)
    )
    return z, y[tune], z_test, y_test


# --- rules ----------------------------------------------------------------------------------------


def rules(z, y, metric, task):
    """Decisions by name."""
    tuner = Tuner(metric, task)
    found = {"plain": Decision.plain(task, z.shape[1]).logit}
    if task == "multiclass":
        own, w = (
            torch.tensor(best_offsets(z, y, metric, from_logits=True), dtype=torch.float64),
            torch.ones(len(y)),
        )
        found["exact"] = own.numpy()

        def value(offsets):
            return judged(tuner, offsets.numpy(), z, y)

        for k in STRENGTHS[task]:
            found[k] = shrunk_offsets(torch.from_numpy(y), w, own, value, k).numpy()
    else:
        s, target = (torch.from_numpy(a.T.copy()) for a in (z, y))
        cuts = all_thresholds(s, target, None, task)
        own = best_logits(metric, cuts)
        found["exact"] = own.numpy()
        for k in STRENGTHS[task]:
            found[k] = shrunk_thresholds(metric, s, target, cuts, own, k).numpy()
    found["shared"] = found.pop(1e9)
    return found


def judged(tuner, cut, z, y):
    decided = Decision(tuner.task, cut).one_hot(z)
    return float(tuner.values(decided, y, np.ones((1, len(y))))[0])


def header(task):
    names = ["own", "exact", *map(str, STRENGTHS[task][:-1]), "shared"]
    cells = ["set", "metric", *names, f"{DEFAULT[task]} above exact (better of splits)"]
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|")


def measure(name, splits, metrics, task):
    """Print what the rules are worth; ``splits`` are scores to tune on and to judge on."""
    for key in metrics:
        metric, values = get_metric(key), {}
        tuner = Tuner(metric, task)
        for z, y, z_test, y_test in splits:
            for rule, cut in rules(z, y, metric, task).items():
                values.setdefault(rule, []).append(judged(tuner, cut, z_test, y_test))
        gain = np.array(values[DEFAULT[task]]) - values["exact"]
        cells = [name, key, *(f"{np.mean(found):.4f}" for found in values.values())]
        cells.append(f"{gain.mean():+.4f} ({(gain > 0).sum()} of {len(gain)})")
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("SOFTSET_DATA"), type=Path)
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--splits", type=int, default=5)
    args = parser.parse_args()
    if args.data is None:
        sys.exit("give --data, or set SOFTSET_DATA, to the folder of data sets")
    torch.set_num_threads(1)
    header("multilabel")
    for name in CONFIRM if args.confirm else CHOOSE:
        x, y = load(args.data / "multilabel" / f"{name}.npz")
        splits = [scored(x, y, seed) for seed in range(args.splits)]
        measure(name, splits, LABEL_METRICS, "multilabel")
    header("multiclass")
    data = intents(args.data / "banking77", int(args.confirm))
    for tail in (1, TAIL):
        splits = [scored_texts(data, tail, seed) for seed in range(args.splits)]
        measure(f"intents 1 : {tail}", splits, ("f1",), "multiclass")


if __name__ == "__main__":
    main()
