"""My classifier flags too few rows: which threshold should it have?

Handwritten digits, shrunk to 16 gray cells; the question is "is it an 8?", which is true for one
in ten. Logistic regression asks for a probability of one half. F1 is better with another
threshold, and `MetricThresholdClassifier` finds it on scores of rows that the model has not seen,
for any classifier of scikit-learn. The line is F1 of the test rows at every threshold.

    python examples/threshold.py
"""

from __future__ import annotations

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softset as ss


def data():
    """1,797 images of 4 x 4 cells, each the mean of 2 x 2 pixels."""
    images, digit = load_digits(return_X_y=True)
    cells = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    return train_test_split(cells, digit == 8, test_size=0.5, stratify=digit, random_state=0)


def main(quick=False):
    """Tune, print the gain, draw."""
    X, X_test, y, y_test = data()
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model = ss.MetricThresholdClassifier(plain, "f1", cv=3 if quick else 5, random_state=0)
    model.fit(X, y)
    p = model.predict_proba(X_test)[:, 1]
    tau = model.threshold_
    low, high = model.interval_
    print(f"threshold: {tau:.3f}, 95 % interval [{low:.3f}, {high:.3f}]")
    for threshold in (0.5, tau):
        f1 = ss.evaluate(p, y_test, "f1", threshold=threshold, from_logits=False)
        flagged = (p >= threshold).mean()
        print(f"threshold {threshold:.3f}: F1 {f1:.3f} on test rows; flags {flagged:.1%}")
    return ss.plot.threshold(p, y_test, "f1", at=tau, from_logits=False).figure_


if __name__ == "__main__":
    main()
