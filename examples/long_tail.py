"""Ten classes, some of them rare: which loss gives a good macro F1?

Handwritten digits with a long tail: class k keeps a fraction of 0.75^k, so that there are about 13
times as many zeros as nines. Macro F1 counts all ten alike. The same small networks, trained with
five losses; the test rows have no tail. What wins are losses that make up for the tail row by row:
class weights and the balanced softmax. The soft metric is only a little better than cross-entropy.

    python examples/long_tail.py
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit

import softset as ss


def data(seed):
    """4 x 4 gray cells; half of the rows are for testing, the others are thinned to a tail."""
    images, digit = load_digits(return_X_y=True)
    cells = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    x, y = torch.tensor(cells / 16 - 0.5, dtype=torch.float32), torch.tensor(digit)
    ((train, test),) = StratifiedShuffleSplit(1, test_size=0.5, random_state=seed).split(x, y)
    train = train[np.random.RandomState(seed).rand(len(train)) < 0.75 ** digit[train]]
    return (x[train], y[train]), (x[test], y[test])


def losses(y):
    """By name."""
    counts = torch.bincount(y, minlength=10).double()
    cross_entropy = ss.CrossEntropyLoss(task="multiclass")
    macro = ss.MetricLoss("f1_macro", task="multiclass")
    weighted = ss.CrossEntropyLoss(task="multiclass", class_weight=counts.mean() / counts)
    return {
        "cross-entropy": cross_entropy,
        "class-weighted": weighted,
        "balanced softmax": ss.BalancedSoftmaxLoss(counts),
        "soft macro F1": macro,
        "cross-entropy + soft macro F1": cross_entropy + macro,
    }


def main(quick=False):
    """Macro F1 on test rows for each loss and split; recall of each class, in the mean."""
    splits = 1 if quick else 5
    found = {name: [] for name in losses(torch.arange(10))}
    recalls = {name: np.zeros(10) for name in found}
    for seed in range(splits):
        rows, (x_test, y_test) = data(seed)
        for name, loss in losses(rows[1]).items():
            trained = ss.training.train_members(
                (32,),
                rows,
                members=[ss.training.Member(seed=s, learning_rate=0.01) for s in range(2)],
                task="multiclass",
                recipe=loss,
                metric="f1_macro",
                max_epochs=5 if quick else 150,
            )
            scores = trained.scores(x_test).log_softmax(-1).mean(0)
            found[name].append(ss.evaluate(scores, y_test, "f1_macro", task="multiclass"))
            each = ss.evaluate(scores, y_test, ss.Recall(None), task="multiclass")
            recalls[name] += np.array(each) / splits
    print("rows of each class in the last training set:", *torch.bincount(rows[1]).tolist())
    for name, values in found.items():
        gaps = [b - a for a, b in zip(found["cross-entropy"], values, strict=True)]
        print(f"{name:30} macro F1 {np.mean(values):.3f}", end="   ")
        print("against cross-entropy:", *(f"{gap:+.3f}" for gap in gaps))
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for name in ("cross-entropy", "balanced softmax", "soft macro F1"):
        ax.plot(recalls[name], "o-", label=name)
    ax.set_xticks(range(10))
    ax.set(xlabel="digit, the rarest last", ylabel="recall on test rows", ylim=(0, 1.02))
    ax.legend(loc="lower left")
    return figure


if __name__ == "__main__":
    main()
