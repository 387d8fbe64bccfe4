"""How large must a batch be?

F1 of a batch is not F1: with rare positives most small batches have none. One million scores with
1 % positives are fixed, and batches are drawn from them. The band holds nine in ten of the values
of F1 in batches of a size. Their mean is off as well, so that averaging over more batches does not
help; what helps are larger batches, batches with positives in each, or a running mean of counts.

    python examples/batches.py
"""

from __future__ import annotations

import torch
from matplotlib import pyplot as plt

import softset as ss

SIZES = [32, 128, 512, 2048, 8192, 32768]


def main(quick=False):
    """Draw batches of each size, and look at their F1."""
    random = torch.Generator().manual_seed(0)
    rows, draws = (100_000, 100) if quick else (1_000_000, 400)
    y = (torch.rand(rows, generator=random) < 0.01).long()
    scores = torch.randn(rows, generator=random) + 3.5 * y - 2.5
    whole = ss.evaluate(scores, y, "f1")
    print(f"F1 of all {rows:,} rows: {whole:.3f}\n")
    print("   batch   mean F1   nine in ten between   without positives   bound on a cell")
    bands = []
    for size in SIZES[: 3 if quick else None]:
        taken = torch.randint(rows, (draws, size), generator=random)
        # Each batch is a problem of its own: one call for all of them.
        counts = ss.confusion(scores[taken], y[taken], batch_dims=1)
        f1 = ss.F1()(counts)
        low, high = torch.quantile(f1, torch.tensor([0.05, 0.95], dtype=f1.dtype)).tolist()
        bands.append((low, f1.mean().item(), high))
        none = (y[taken].sum(1) == 0).float().mean()
        bound = ss.losses.confusion_error_bound(size, 2, 0.05)
        print(f"{size:8,}{bands[-1][1]:10.3f}{low:15.3f} to {high:.3f}{none:20.0%}{bound:18.3f}")
    print(f"\nrows for an error of 0.01 in every cell: {ss.losses.batch_size_for(error=0.01):,}")
    low, mean, high = zip(*bands, strict=True)
    figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    sizes = SIZES[: len(bands)]
    ax.fill_between(sizes, low, high, alpha=0.25, label="nine in ten batches")
    ax.plot(sizes, mean, "o-", label="mean over batches")
    ax.axhline(whole, color="0.5", linestyle=":", label="F1 of all rows")
    ax.set(xscale="log", xlabel="rows in a batch", ylabel="F1 of the batch", ylim=(0, 1))
    ax.legend(loc="lower right")
    return figure


if __name__ == "__main__":
    main()
