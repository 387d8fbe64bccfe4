"""Does it pay on my data?

One call trains sensible classifiers on the same splits, some for the metric and some not, and says
whether the difference is more than overlapping splits give by chance. Here the digits of 16 gray
cells again, "is it an 8?". The number behind a name is its mean F1; the bar is the 95 % interval of
the difference to the reference, the best baseline at the default threshold (0.5).

    python examples/worth_it.py
"""

from __future__ import annotations

from sklearn.datasets import load_digits

import softset as ss

LINEAR = ["linear", "linear-tuned", "linear-metric"]
OTHERS = ["boosting", "boosting-tuned", "boosting-metric", "forest-tuned"]


def main(quick=False):
    """Compare, print the verdict, draw."""
    images, digit = load_digits(return_X_y=True)
    cells = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    candidates = LINEAR if quick else [*LINEAR, *OTHERS]
    found = ss.compare(cells, digit == 8, "f1", candidates=candidates, quick=True, n_jobs=1)
    print(found)
    return ss.plot.comparison(found).figure_


if __name__ == "__main__":
    main()
