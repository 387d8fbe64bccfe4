"""What happens while a network is trained for F1?

The recipe "warm" trains with cross-entropy until validation rows say stop, and then with soft F1
from there, more slowly. Three networks at once, on data with 5 % positives. The soft metric, which
has a gradient, follows the metric itself, which has none. All is at a threshold of one half: a good
part of the jump is what a tuned threshold gives the networks of the first phase too. The training
loss jumps because it is another one.

    python examples/epochs.py
"""

from __future__ import annotations

import torch
from sklearn.model_selection import train_test_split

import softset as ss
from softset.tables.synthetic import load_synthetic


def main(quick=False):
    """Train three members, print the best epoch of each phase, draw."""
    X, y = load_synthetic(positives=250)
    parts = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    x, x_val, y, y_val = (torch.tensor(part) for part in parts)
    mean, std = x.mean(0), x.std(0)
    rows, held_out = ((x - mean) / std, y), ((x_val - mean) / std, y_val)
    trained = ss.training.train_members(
        (32, 16),
        rows,
        held_out,
        members=[ss.training.Member(seed=s, learning_rate=3e-3) for s in range(3)],
        metric="f1",
        recipe="warm",
        max_epochs=6 if quick else 120,
    )
    for k, history in enumerate(trained.history):
        best = {}
        for phase, value in zip(history["phase"], history["validation_metric"], strict=True):
            best[phase] = max(best.get(phase, 0.0), value)
        words = ", ".join(f"{best[phase]:.3f} in phase {phase + 1}" for phase in best)
        print(f"network {k}: {len(history['phase'])} epochs; best F1 on validation rows {words}")
    return ss.plot.training(trained.history).figure_


if __name__ == "__main__":
    main()
