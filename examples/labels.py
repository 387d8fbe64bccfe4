"""Many labels: is a loss for macro F1 better than cross-entropy with tuned thresholds?

Linear models or small networks on five sets, trained with what people use.

    python examples/labels.py --data FOLDER                # linear models, 3 seeds
    python examples/labels.py --data FOLDER --hidden 64    # networks with a hidden layer

``FOLDER`` holds ``yeast.npz`` and others, the sets of Mulan with their own test rows: sparse rows
``train_data``, ``train_indices``, ``train_indptr``, ``train_shape``, packed labels ``train_y``,
likewise ``test_*``, and the names of the ``labels``. It may be ``SOFTSET_DATA`` with
``multilabel`` in it.

A fifth of the training rows is held out: there training is stopped early (by the mean average
precision), the learning rate is chosen and thresholds are tuned. Scores are those of the test rows.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from torch import nn

import runs
import softset as ss

SETS = ("yeast", "emotions", "enron", "bibtex", "tmc2007")
RATES = (3e-3, 3e-2)


def losses(shares):
    """Losses and recipes by name; ``shares`` are those of positives of each label."""
    cross_entropy = ss.CrossEntropyLoss(task="multilabel")
    f1 = ss.MetricLoss("f1", task="multilabel")
    return {
        "cross-entropy": cross_entropy,
        "positives weighted": nn.BCEWithLogitsLoss(pos_weight=((1 - shares) / shares).sqrt()),
        "logit-adjusted": ss.LogitAdjustedLoss(shares, task="multilabel"),
        "asymmetric": ss.AsymmetricLoss(),
        "soft F1": f1,
        "cross-entropy + soft F1": cross_entropy + f1,
        "cross-entropy, then soft F1": [
            ss.training.Phase(cross_entropy),
            ss.training.Phase(f1, rate=0.3),
        ],
    }


def load(folder, name):
    """Training and test rows: inputs, labels of 0 and 1."""
    found = []
    with np.load(folder / f"{name}.npz") as data:
        for part in ("train", "test"):
            cells = tuple(data[f"{part}_{name}"] for name in ("data", "indices", "indptr"))
            x = sparse.csr_matrix(cells, shape=data[f"{part}_shape"])
            y = np.unpackbits(data[f"{part}_y"], axis=1)[:, : len(data["labels"])]
            found.append((x, y.astype(np.int64)))
    return found


def split(x, y, x_test, seed):
    """Scaled tensors: training rows and held-out ones; test inputs."""
    rows = np.random.default_rng(seed).permutation(len(y))
    held, kept = np.split(rows, [len(rows) // 5])
    sparse_rows = x.nnz < 0.3 * np.prod(x.shape)
    scaler = (MaxAbsScaler() if sparse_rows else StandardScaler(with_mean=False)).fit(x[kept])

    def dense(part):
        return torch.from_numpy(scaler.transform(part).toarray().astype(np.float32))

    train, validation = ((dense(x[part]), torch.from_numpy(y[part])) for part in (kept, held))
    return train, validation, dense(x_test)


def f1_of(z, y, threshold, average="macro"):
    """F1 of decisions by thresholds."""
    return ss.evaluate(z, y, ss.F1(average=average), task="multilabel", threshold=threshold)


def run(data, loss, seed, hidden, epochs):
    """Train at two rates, take the best on held-out rows with tuned thresholds, and judge it."""
    (x, y), (x_test, y_test) = data
    train, validation, x_test = split(x, y, x_test, seed)
    counts = train[1].sum(0).clamp(min=1)
    made = losses((counts / len(train[1])).clamp(max=0.99))[loss]
    if isinstance(made, nn.BCEWithLogitsLoss):  # it wants floats
        train, validation = ((x, y.float()) for x, y in (train, validation))
    trained = ss.training.train_members(
        hidden,
        train,
        validation,
        members=[ss.training.Member(seed=seed, learning_rate=rate) for rate in RATES],
        recipe=made,
        task="multilabel",
        # How well rows are ranked: it does not hang on a threshold, which is tuned later.
        metric="average_precision",
        monitor="metric",
        # A soft metric of many rare labels wants large batches.
        batch_size=max(128, len(train[1]) // 8),
        max_epochs=epochs,
        patience=10,
        shared_order=seed,
    )
    labels = validation[1].long()
    held, new = (trained.scores(part).double() for part in (validation[0], x_test))
    tuned = [ss.best_threshold(z, labels, "f1", task="multilabel", shrink=True) for z in held]
    best = int(np.argmax([f1_of(z, labels, tau) for z, tau in zip(held, tuned, strict=True)]))
    alone = ss.best_threshold(held[best], labels, "f1", task="multilabel")
    return {
        "test": f1_of(new[best], y_test, tuned[best]),
        "alone": f1_of(new[best], y_test, alone),
        "half": f1_of(new[best], y_test, 0.5),
        "micro": f1_of(new[best], y_test, tuned[best], "micro"),
        "rate": RATES[best],
        "ran": len(trained.history[best]["loss"]),
    }


def main(argv=None):
    """Train, judge, print."""
    names = list(losses(torch.full((2,), 0.5)))
    parser = runs.parser(__doc__.split("\n")[0], "multilabel")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--hidden", nargs="*", type=int, default=[])
    args = runs.arguments(parser, argv, names)
    epochs = 3 if args.quick else 60
    for name in args.sets:
        data = load(args.data, name)
        keys = [
            {"set": name, "hidden": args.hidden, "epochs": epochs, "loss": loss, "seed": seed}
            for seed in range(1 if args.quick else args.seeds)
            for loss in args.losses
        ]
        found = runs.run_all(
            keys,
            lambda key, data=data: run(data, key["loss"], key["seed"], args.hidden, epochs),
            args.out,
        )
        (x, y), (_, y_test) = data
        print(
            f"\n{name}: {x.shape[0]} + {len(y_test)} rows, {y.shape[1]} labels; F1 of test rows\n"
        )
        columns = {
            "test": "macro, tuned",
            "alone": "macro, each label tuned alone",
            "half": "macro, at 1/2",
            "micro": "micro, tuned",
        }
        print(runs.table(found, args.losses, columns, "cross-entropy"))


if __name__ == "__main__":
    main()
