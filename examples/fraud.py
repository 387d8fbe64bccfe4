"""Fraud: a missed one costs its amount, a false alarm 5. Whom do I ask?

Made-up payments, 2 % of them fraud. One threshold on the probability treats a fraud of 10 like one
of 1,000. With the column of amounts in the metric, every payment is decided by what it would cost:
small ones are let pass unless they are almost surely fraud, large ones are asked about early. The
picture shows who is asked, by amount and probability.

    python examples/fraud.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.special import expit

import softset as ss

ALARM = 5


def payments(rows, seed):
    """Payments with their amounts, and which of them are fraud."""
    g = np.random.default_rng(seed)
    frame = pd.DataFrame(g.normal(size=(rows, 4)), columns=["hour", "country", "device", "age"])
    frame["amount"] = np.round(np.exp(g.normal(3.5, 1.2, rows)), 2)
    z = -6.2 + frame["country"] + 1.5 * frame["device"] + 0.3 * np.log(frame["amount"])
    return frame, (g.random(rows) < expit(z)).astype(int)


def paid(said, y, amount):
    """Money lost: the amounts of missed frauds, and the alarms that were none."""
    return float(amount[(y == 1) & (said == 0)].sum() + ALARM * ((y == 0) & (said == 1)).sum())


def main(quick=False):
    """Money lost on new payments by four rules, and the picture."""
    X, y = payments(3_000 if quick else 20_000, seed=0)
    X_new, y_new = payments(20_000, seed=1)
    mean = float(X["amount"][y == 1].mean())
    models = {
        "default threshold (0.5)": ss.MetricLinearClassifier("f1", path=(), threshold=None),
        "threshold tuned for F1": ss.MetricLinearClassifier("f1", path=()),
        f"tuned for a mean fraud of {mean:.0f}": ss.MetricLinearClassifier(
            ss.Cost(fn=mean, fp=ALARM), path=()
        ),
        "by the amount of each payment": ss.MetricLinearClassifier(
            f"cost(fn=amount, fp={ALARM})", path=()
        ),
    }
    amount = X_new["amount"].to_numpy()
    print(f"{'nobody is asked':32} {paid(np.zeros(len(y_new)), y_new, amount):9,.0f} lost")
    for name, model in models.items():
        said = model.fit(X, y).predict(X_new)
        print(f"{name:32} {paid(said, y_new, amount):9,.0f} lost, {said.mean():.1%} asked")
    p = models["default threshold (0.5)"].predict_proba(X_new)[:, 1]
    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for flag, color, label in ((0, "0.7", "let pass"), (1, "C3", "asked")):
        some = np.flatnonzero(said == flag)[:600]
        ax.scatter(amount[some], p[some], s=4, color=color, label=label)
    ax.axhline(models["threshold tuned for F1"].threshold_, color="C0", label="threshold for F1")
    ax.set(xscale="log", yscale="log", ylim=(1e-4, 1), xlabel="amount", ylabel="probability")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


if __name__ == "__main__":
    main()
