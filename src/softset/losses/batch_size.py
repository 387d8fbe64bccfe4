"""How large must a batch be for its confusion matrix to be trusted (paper 002 theorem 5.8)."""

from __future__ import annotations

import math

from softset.checks import check_number

# The square of a smaller error is no float.
SMALLEST = 1e-100


def confusion_error_bound(n: int, classes: int = 2, delta: float = 0.05) -> float:
    """How far a batch's confusion matrix may be off: ``sqrt(log(2 d^2 / delta) / (2 n))``.

    With probability ``1 - delta``, no cell of the matrix of ``n`` random examples, as a fraction of
    them, is further than this from the population's.

    >>> round(confusion_error_bound(1024), 4)
    0.0498
    """
    check_number("n", n, 1, math.inf, closed="low")
    return math.sqrt(_log_cells(classes, delta) / (2 * n))


def batch_size_for(
    error: float, classes: int = 2, delta: float = 0.05, prevalence: float | None = None
) -> int:
    """The smallest ``n`` for which ``confusion_error_bound`` is at most ``error``.

    With the ``prevalence`` of the rarest class, ``error`` is relative to that class instead of all
    examples: what matters for F1 of 1 % positives. The bound holds for any distribution, so that
    it asks for more than is usually needed.

    >>> batch_size_for(0.05)
    1016
    >>> batch_size_for(0.5, prevalence=0.05)
    4061
    """
    check_number("error", error, 0, 1, closed="high")
    if prevalence is not None:
        check_number("prevalence", prevalence, 0, 1)
        error = error * prevalence
    if error < SMALLEST:
        raise ValueError(
            f"error must be at least {SMALLEST:g} (times prevalence, if given), got {error:g}."
        )
    return math.ceil(_log_cells(classes, delta) / (2 * error**2))


def _log_cells(classes: int, delta: float) -> float:
    """``log(2 d^2 / delta)``, for any number of classes."""
    check_number("classes", classes, 2, math.inf, closed="low")
    check_number("delta", delta, 0, 1)
    return math.log(2) + 2 * math.log(classes) - math.log(delta)
