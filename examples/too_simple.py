"""When does a tuned threshold not do it?

When the model is too simple to know the probabilities. Two features; the first one lowers the
chance of most rows, and raises it in the upper region, where a "yes" pays. A linear
model has one direction for both. Logistic regression takes that of the many, and no threshold turns
it round. Trained for F1, the line turns to where the decisions are. The data is made up to show
this; the page "When it pays" says how much of it is left on 25 real sets.

    python examples/too_simple.py
"""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import expit

import softset as ss


def data(rows, seed):
    """Points, labels that are drawn with the chance of their region, and this chance."""
    random = np.random.RandomState(seed)
    x = random.randn(rows, 2)
    low, high = expit(-3.5 - 1.2 * x[:, 0]), expit(-0.5 + 2 * x[:, 0])
    chance = np.where(x[:, 1] < 1, low, high)
    return x, (random.rand(rows) < chance).astype(int), chance


def main(quick=False):
    """F1 on fresh rows in some draws of the data, and the lines that decide in the first."""
    X_test, y_test, chance = data(20_000, seed=100)
    tau = ss.best_threshold(chance, y_test, "f1", from_logits=False)
    best = ss.evaluate(chance, y_test, "f1", threshold=tau, from_logits=False)
    print("draw   logistic regression, tuned   linear model for F1   true probabilities, tuned")
    for seed in range(1 if quick else 5):
        X, y, _ = data(1_000 if quick else 6_000, seed)
        model = ss.MetricLinearClassifier("f1").fit(X, y)
        start = model.logistic_part()
        f1 = [m.score(X_test, y_test) for m in (start, model)]
        print(f"{seed:4}{f1[0]:29.3f}{f1[1]:22.3f}{best:24.3f}")
        if seed == 0:
            models = {"logistic regression, tuned": start, "linear model for F1": model}
    figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    shown = slice(800)
    for label, name in ((0, "negative"), (1, "positive")):
        points = X_test[shown][y_test[shown] == label]
        ax.scatter(*points.T, s=4 + 10 * label, color=f"C{label}", alpha=0.5, label=name)
    side = np.linspace(-3.2, 3.2, 201)
    plane = np.stack(np.meshgrid(side, side), -1)
    for color, (name, model) in zip(("0.45", "C3"), models.items(), strict=True):
        heights = model.decision_function(plane.reshape(-1, 2)).reshape(201, 201)
        ax.contour(side, side, heights, levels=[0], colors=color, linewidths=2)
        ax.plot([], [], color=color, linewidth=2, label=name)
    ax.set(xlabel="first feature", ylabel="second feature")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
