"""Churn: we can call 200 customers a week. Whom, and will it not be 260?

Made-up customers, 8 % of whom leave; 5,000 come up for renewal in a week. The goal is the largest
recall with at most 200 calls in 5,000 customers. A threshold that just fits one week is over the
budget in about every second week that follows. With ``confidence=0.9`` the number of calls in the
next 5,000 is a prediction, and the threshold leaves room for it.

    python examples/churn.py
"""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier

import softset as ss

WEEK, CALLS = 5_000, 200
GOAL = f"recall@alerts<={CALLS}/{WEEK}"


def customers(rows, seed):
    """What is known of customers, and who leaves."""
    g = np.random.default_rng(seed)
    X = g.normal(size=(rows, 5))
    z = -3.2 + 1.2 * X[:, 0] + 0.8 * X[:, 1] * X[:, 2]
    return X, (g.random(rows) < expit(z)).astype(int)


def main(quick=False):
    """Calls and recall in weeks to come, with the plain threshold and the promised one."""
    forest = RandomForestClassifier(30 if quick else 200, min_samples_leaf=5, random_state=0)
    forest.fit(*customers(WEEK, seed=0))
    calls = {"plain threshold": [], "promised threshold": []}
    recall = {name: [] for name in calls}
    for pair in range(5 if quick else 40):  # one week to set the threshold, the next to use it
        (X, y), (X_next, left) = (customers(WEEK, 2 * pair + k) for k in (1, 2))
        p, p_next = (forest.predict_proba(x)[:, 1] for x in (X, X_next))
        promise = ss.promise(p, y, GOAL, confidence=0.9, from_logits=False)
        plain = ss.best_threshold(p, y, GOAL, from_logits=False)
        for name, tau in zip(calls, (plain, promise.threshold), strict=True):
            calls[name].append((p_next >= tau).sum())
            recall[name].append((p_next >= tau)[left == 1].mean())
    print(promise)
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for name, counts in calls.items():
        print(
            f"{name:18} {np.mean(counts):4.0f} calls a week, over the budget in "
            f"{np.mean(np.array(counts) > CALLS):.0%} of the weeks; "
            f"{np.mean(recall[name]):.1%} of those who leave are called"
        )
        ax.hist(counts, bins=np.arange(130, 270, 5), alpha=0.6, label=name)
    ax.axvline(CALLS, color="0.4", linestyle="--", label="budget")
    ax.set(xlabel="calls in a week", ylabel="weeks")
    ax.legend()
    return figure


if __name__ == "__main__":
    main()
