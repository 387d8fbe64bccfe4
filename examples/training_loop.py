"""What changes in my training loop?

The loss, and nothing else: the same small network, trained with cross-entropy and with soft F1, on
data with 5 % positives. Five random splits (64 % training, 16 % validation, 20 % test), one seed
each. Weights and the tuned threshold are chosen on validation data only; scores are those of the
test data.

    python examples/training_loop.py
"""

from __future__ import annotations

import copy

import torch
from sklearn.model_selection import train_test_split
from torch import nn

import softset as ss
from softset.tables.synthetic import load_synthetic

SPLITS, EPOCHS, PATIENCE, BATCH = 5, 300, 40, 1024


def split(X, y, seed):
    """Standardized tensors for training, validation and test."""
    rest, test = train_test_split(range(len(y)), test_size=0.2, stratify=y, random_state=seed)
    train, val = train_test_split(rest, test_size=0.2, stratify=y[rest], random_state=seed)
    mean, std = X[train].mean(0), X[train].std(0)
    return [(torch.tensor((X[i] - mean) / std), torch.tensor(y[i])) for i in (train, val, test)]


def train_network(loss, train, val, seed, epochs=EPOCHS):
    """An ordinary training loop; the loss is the only thing that differs."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = train
    best, kept, waited = float("inf"), None, 0
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            now = loss(model(val[0]), val[1]).item()
        if now < best:
            best, kept, waited = now, copy.deepcopy(model.state_dict()), 0
        elif (waited := waited + 1) == PATIENCE:
            break
    model.load_state_dict(kept)
    return model


@torch.no_grad()
def scores_of(model, val, test):
    """F1 on test data, at 0.5 and at the threshold that is best on validation data."""
    tau = ss.best_threshold(model(val[0]), val[1], "f1")
    logits = model(test[0])
    return [ss.evaluate(logits, test[1], "f1", threshold=t) for t in (0.5, tau)]


def main(quick: bool = False) -> None:
    """Train, evaluate, print."""
    splits, epochs = (2, 3) if quick else (SPLITS, EPOCHS)
    torch.set_num_threads(1)
    X, y = load_synthetic(positives=250)
    print(f"Synthetic 5 %: {len(y)} rows, {y.sum()} positives; F1 on test data, {splits} splits\n")
    losses = {"cross-entropy": ss.CrossEntropyLoss(), "soft F1": ss.MetricLoss("f1")}
    scores = {name: [] for name in losses}
    for seed in range(splits):
        train, val, test = split(X, y, seed)
        for name, loss in losses.items():
            scores[name].append(scores_of(train_network(loss, train, val, seed, epochs), val, test))
    print(f"{'trained with':<16}{'at 0.5':>16}{'tuned threshold':>20}")
    for name, rows in scores.items():
        table = torch.tensor(rows)
        mean, std = table.mean(0).tolist(), table.std(0).tolist()
        print(f"{name:<16}{mean[0]:>9.3f} ± {std[0]:.3f}{mean[1]:>13.3f} ± {std[1]:.3f}")
    gap = torch.tensor(scores["soft F1"])[:, 0] - torch.tensor(scores["cross-entropy"])[:, 1]
    print(
        f"\nsoft F1 at 0.5 minus cross-entropy with a tuned threshold: {gap.mean():+.3f}"
        f" (from {gap.min():+.3f} to {gap.max():+.3f} over the splits)"
    )


if __name__ == "__main__":
    main()
