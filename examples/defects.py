"""Defects: 99 % must be found. How many good parts are thrown away, and is it sure?

Made-up measurements of parts, 5 % of which are defective. A threshold with a recall of 99 % on the
parts that it was tuned on misses more than 1 % of later defects about half of the time. With too
few defects nothing can be promised, and the answer says how many it takes. With enough, the
promised threshold discards more good parts, and how many more falls with every defect measured.

    python examples/defects.py
"""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import norm

import softset as ss

GOAL = "precision@recall>=0.99"


def parts(rows, seed):
    """The score of each part (a logit), and whether it is defective."""
    g = np.random.default_rng(seed)
    y = (g.random(rows) < 0.05).astype(int)
    return 4 * (g.normal(size=rows) + 4 * y) - 11, y


def main(quick=False):
    """Promises by the number of parts measured, and what they cost."""
    found = []
    for rows in (2_000, 10_000, 40_000):
        draws = 5 if quick else 50
        kept = []
        for seed in range(draws):
            scores, y = parts(rows, seed)
            promise = ss.promise(scores, y, GOAL, confidence=0.95)
            plain = ss.best_threshold(scores, y, GOAL)
            taus = [plain, promise.threshold]
            cuts = [np.inf if t is None else np.log(t / (1 - t)) for t in taus]
            # The true rates of later parts: scores are 4 * (normal + 4 * y) - 11.
            kept.append([norm.sf((c + 11) / 4 - 4 * k) for c in cuts for k in (1, 0)])
        recall, good, sure, lost = np.array(kept).T
        answered = sure > 0
        print(f"{rows:,} parts. {promise}")
        print(
            f"    plain threshold:    recall below 99 % in {np.mean(recall < 0.99):.0%} of {draws} "
            f"draws; discards {good.mean():.2%} of the good parts"
        )
        if answered.any():
            print(
                f"    promised threshold: recall below 99 % in "
                f"{np.mean(sure[answered] < 0.99):.0%} of {answered.sum()} draws; "
                f"discards {lost[answered].mean():.2%} of the good parts"
            )
            found.append((rows, good.mean(), lost[answered].mean()))
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    rows, good, lost = np.array(found).T
    at = np.arange(len(rows))
    ax.bar(at - 0.2, 100 * good, 0.38, label="plain threshold")
    ax.bar(at + 0.2, 100 * lost, 0.38, label="promised at 95 %")
    ax.set_xticks(at, [f"{n:,.0f} parts" for n in rows])
    ax.set(ylabel="% of good parts discarded", ylim=(0, 130 * lost.max()))
    ax.legend()
    return figure


if __name__ == "__main__":
    main()
