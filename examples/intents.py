"""Many classes, as they are and long-tailed: which loss is best for macro F1?

77 intents of questions to a bank, TF-IDF and a linear model.

    python examples/intents.py --data FOLDER               # as they are, and long-tailed; 3 seeds

``FOLDER`` holds ``train.csv`` and ``test.csv`` with the columns ``text`` and ``category``
(BANKING77). It may be ``SOFTSET_DATA`` with ``banking77`` in it.

Long-tailed: of the k-th class of a random order ``100^(-k/76)`` of the training rows are kept, at
least four. A fifth of the training rows is held out: there training is stopped early (by macro F1),
the learning rate is chosen and offsets of the classes are tuned. Scores are those of the test
rows, of which every class has 40.
"""

from __future__ import annotations

import csv

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

import runs
import softset as ss

RATES = (1e-2, 3e-2)
TAIL, FEWEST = 100, 4


def losses(counts):
    """Losses and recipes by name; ``counts`` are those of the classes in the training rows."""
    cross_entropy = ss.CrossEntropyLoss(task="multiclass")
    f1 = ss.MetricLoss("f1", task="multiclass")
    weights = counts.sum() / (len(counts) * counts)
    return {
        "cross-entropy": cross_entropy,
        "class-weighted": ss.CrossEntropyLoss(task="multiclass", class_weight=weights),
        "logit-adjusted": ss.LogitAdjustedLoss(counts),
        "soft F1": f1,
        "cross-entropy + soft F1": cross_entropy + f1,
        "cross-entropy, then soft F1": [
            ss.training.Phase(cross_entropy),
            ss.training.Phase(f1, rate=0.3),
        ],
        "logit-adjusted + soft F1": ss.LogitAdjustedLoss(counts) + f1,
    }


def load(folder):
    """Texts and class numbers, of training and of test."""
    parts = []
    for name in ("train", "test"):
        with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
            parts.append([(row["text"], row["category"]) for row in csv.DictReader(file)])
    names = sorted({category for _, category in parts[0]})
    return [
        (np.array([text for text, _ in rows]), np.array([names.index(c) for _, c in rows]))
        for rows in parts
    ]


def thinned(y, seed):
    """The rows of a long-tailed training set."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(y.max() + 1)
    kept = []
    for place, k in enumerate(classes):
        rows = rng.permutation(np.flatnonzero(y == k))
        share = TAIL ** (-place / (len(classes) - 1))
        kept.append(rows[: max(FEWEST, round(share * len(rows)))])
    return np.sort(np.concatenate(kept))


def run(data, loss, seed, tail, epochs):
    """Train at two rates, take the best on held-out rows and judge it."""
    (texts, y), (test_texts, y_test) = data
    if tail:
        rows = thinned(y, seed)
        texts, y = texts[rows], y[rows]
    kept, held = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
    words = TfidfVectorizer(min_df=2, max_features=2000, sublinear_tf=True)
    words.fit(texts[kept])
    x, x_held, x_test = (
        torch.from_numpy(words.transform(part).toarray().astype(np.float32))
        for part in (texts[kept], texts[held], test_texts)
    )
    classes = int(y_test.max()) + 1
    counts = torch.bincount(torch.from_numpy(y[kept]), minlength=classes)
    trained = ss.training.train_members(
        [],
        (x, torch.from_numpy(y[kept])),
        (x_held, torch.from_numpy(y[held])),
        members=[ss.training.Member(seed=seed, learning_rate=rate) for rate in RATES],
        recipe=losses(counts)[loss],
        task="multiclass",
        monitor="metric",
        batch_size=512,
        max_epochs=epochs,
        patience=5,
        shared_order=seed,
    )
    z_held, z_test = (trained.scores(part).double() for part in (x_held, x_test))
    best = int(np.argmax([f1_of(z, y[held]) for z in z_held]))
    offsets = ss.best_offsets(z_held[best], y[held], "f1", shrink=True)
    rare = np.argsort(counts.numpy(), kind="stable")[: classes // 3]
    plain, tuned = (f1_of(z_test[best], y_test, at, None) for at in (None, offsets))
    return {
        "test": float(np.mean(tuned)),
        "plain": float(np.mean(plain)),
        "rare": float(np.mean([tuned[k] for k in rare])),
        "rare_plain": float(np.mean([plain[k] for k in rare])),
        "rate": RATES[best],
        "ran": len(trained.history[best]["loss"]),
    }


def f1_of(z, y, offsets=None, average="macro"):
    """F1 of decisions by offsets of the classes."""
    metric = ss.F1(average=average)
    return ss.evaluate(z, y, metric, task="multiclass", offsets=offsets)


def main(argv=None):
    """Train, judge, print."""
    names = list(losses(torch.ones(2)))
    parser = runs.parser(__doc__.split("\n")[0], "banking77")
    args = runs.arguments(parser, argv, names)
    data, epochs = load(args.data), 2 if args.quick else 40
    for tail in (True, False):
        keys = [
            {"tail": tail, "epochs": epochs, "loss": loss, "seed": seed}
            for seed in range(1 if args.quick else args.seeds)
            for loss in args.losses
        ]
        found = runs.run_all(
            keys,
            lambda key, tail=tail: run(data, key["loss"], key["seed"], tail, epochs),
            args.out,
        )
        print(f"\n{'Long-tailed' if tail else 'All training rows'}: F1 of test rows\n")
        columns = {
            "test": "tuned offsets",
            "plain": "most probable class",
            "rare": "rarest third, tuned",
            "rare_plain": "rarest third, most probable class",
        }
        print(runs.table(found, args.losses, columns, "cross-entropy"))


if __name__ == "__main__":
    main()
