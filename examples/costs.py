"""A miss costs ten times a false alarm: how do I train for that?

Breast cancer, 569 patients. A metric is any function of the confusion matrix, so the cost is one
too: it is written down once, and trains, tunes and judges. The picture shows how the cost of the
test rows falls and rises with the threshold: the best threshold for F1 is another one.

    python examples/costs.py
"""

from __future__ import annotations

from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import softset as ss

MISS, ALARM = 10, 1


def saved(c):
    """1 minus the cost of a row, if a row can cost a miss at most; more is better."""
    return 1 - (MISS * c.fn + ALARM * c.fp) / (MISS * c.total)


def main(quick=False):
    """Three linear models on the same rows: the cost of each on test rows."""
    X, y = load_breast_cancer(return_X_y=True)
    y = 1 - y  # malignant is the positive class
    if quick:
        X = X[:, :8]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    models = {
        "logistic regression, threshold 0.5": ss.MetricLinearClassifier(
            saved, path=(), threshold=None
        ),
        "the same, threshold tuned for the cost": ss.MetricLinearClassifier(saved, path=()),
        "trained and tuned for the cost": ss.MetricLinearClassifier(saved),
    }
    for name, model in models.items():
        predicted = model.fit(X, y).predict(X_test)
        misses, alarms = int((y_test > predicted).sum()), int((predicted > y_test).sum())
        cost = MISS * misses + ALARM * alarms
        print(f"{name:38} cost {cost:3}: {misses} misses, {alarms} false alarms")
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    p = models["logistic regression, threshold 0.5"].predict_proba(X_test)[:, 1]
    for ax, metric in zip(axes, (saved, "f1"), strict=True):
        ss.plot.threshold(p, y_test, metric, from_logits=False, ax=ax)
    axes[0].set(ylabel="fraction of the cost that is saved", ylim=(0.9, 1.0))
    axes[1].set(ylim=(0.7, 1.0))
    return figure


if __name__ == "__main__":
    main()
