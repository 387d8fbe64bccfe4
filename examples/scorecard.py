"""Can the decision be added up by hand?

Where a decision must be explained, or made without a computer, a scorecard of whole points is
asked for. Here: breast cancer, from the few features that a sparse linear model keeps, as points of
a patient. The card and its threshold are made for F1, and the number it claims is that of patients
it has not seen.

    python examples/scorecard.py
"""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import softset as ss


def main(quick=False):
    """A sparse model, its card, and both on test rows."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.where(y == 0, "malignant", "benign")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    model = ss.MetricLinearClassifier("f1", C=0.02, l1_ratio=1.0, pos_label="malignant")
    model.fit(X, y)
    card = model.scorecard(max_points=10 if quick else 20)
    print(card)
    both = model.score(X_test, y_test), card.score(X_test, y_test)
    print(f"\nF1 on {len(y_test)} test rows: linear model {both[0]:.3f}, scorecard {both[1]:.3f}")
    points = card.points(X_test)
    flagged = card.predict(X_test) == "malignant"
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    bins = np.arange(points.max() + 2) - 0.5
    kinds = [points[y_test == kind] for kind in ("benign", "malignant")]
    ax.hist(kinds, bins=bins, stacked=True, label=["benign", "malignant"])
    ax.axvline(points[flagged].min() - 0.5, color="0.5", linestyle=":", label="threshold")
    ax.set(xlabel="points", ylabel="test patients")
    ax.legend(loc="upper center")
    return figure


if __name__ == "__main__":
    main()
