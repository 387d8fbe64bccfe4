"""Why can I not train on F1 itself?

Because it does not change while no decision changes: left, the hard step jumps at the threshold and
is flat elsewhere; right, F1 of 60 rows while all scores are moved together is a staircase, and the
slope of a staircase is zero. A soft step counts each row to a degree instead. F1 of the soft counts
has a slope everywhere, and gets close to F1 itself as the step gets sharp.

    python examples/steps.py
"""

from __future__ import annotations

import torch
from matplotlib import pyplot as plt

import softset as ss

STEPS = {
    "hard": ss.HardStep(),
    "linear, sharp": ss.LinearStep.at_temperature(0.05),
    "linear": ss.LinearStep(),
    "identity": ss.IdentityStep(),
}


def main(quick=False):
    """The steps, and F1 by each of them."""
    random = torch.Generator().manual_seed(3)
    y = torch.arange(60) % 4 == 0
    scores = torch.randn(60, generator=random, dtype=torch.float64) * 1.5 + 2 * y - 1
    moved = torch.linspace(-4, 4, 41 if quick else 401, dtype=torch.float64)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    ss.plot.steps(*STEPS.values(), ax=left)
    left.legend(list(STEPS)).remove()
    for k, (name, step) in enumerate(STEPS.items()):
        c = ss.confusion(scores + moved[:, None], y, step=step, batch_dims=1)
        f1 = ss.F1()(c)
        flat = (f1.diff() == 0).double().mean()
        print(f"{name:14} F1 between {f1.min():.3f} and {f1.max():.3f}; flat for {flat:.0%}")
        right.plot(moved, f1, color=f"C{k}", label=name)
    right.set(xlabel="added to all scores", ylabel="F1 of 60 rows")
    right.legend()
    return figure


if __name__ == "__main__":
    main()
