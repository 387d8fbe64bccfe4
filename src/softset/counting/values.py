"""Checks of values, on what was reduced anyway; the row is searched for only on failure."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softset.counting.numerics import readable


class Invalid:
    """What is wrong with the values of a problem. ``careful``: they are read on the host, and the
    first that is wrong raises an error. Else they stay on the device, as one flag for all of them,
    and whoever counts makes the counts NaN where it is set."""

    def __init__(self, careful: bool) -> None:
        self.careful = careful
        self._found: Tensor | None = None

    def where(self, bad: Tensor) -> None:
        """Something is invalid where ``bad`` is not 0."""
        one = bad.any()
        self._found = one if self._found is None else self._found | one

    def outside(self, x: Tensor, low: float, high: float) -> None:
        """Numbers outside of an interval are invalid, and NaN."""
        self.where(x != x.clamp(low, high))

    def labels(self, y: Tensor) -> None:
        """Labels other than 0 and 1 are invalid."""
        if y.is_floating_point():
            self.where(torch.addcmul(y, y, y, value=-1))
        elif y.dtype != torch.bool:
            self.where(y >> 1)

    def any(self) -> Tensor | None:
        """The flag; none if nothing was looked at."""
        return self._found


def check_labels(y: Tensor) -> None:
    """Refuse labels other than 0 and 1."""
    if y.dtype != torch.bool and float(off_labels(y.to(torch.float32))) != 0:
        wrong = y[(y != 0) & (y != 1)].flatten()[0].item()
        hint = " Map -1 to 0: target = (target > 0)." if wrong == -1 else ""
        hint = " Fractions need soft_targets=True." if 0 < wrong < 1 else hint
        raise ValueError(f"target must hold 0 and 1 only, got {wrong:g}.{hint}")


def off_labels(y: Tensor, out: Tensor | None = None) -> Tensor:
    """Zero exactly when every label is 0 or 1."""
    d = torch.addcmul(y, y, y, value=-1, out=out)
    d = d if d.dim() == 1 else d.flatten()
    return torch.dot(d, d)


def check_binary(z: Tensor, y: Tensor, bad: Any, sums: Tensor, soft: bool = False) -> None:
    """Refuse stray labels (``bad`` of ``off_labels`` is not 0) and NaN scores. ``soft`` labels are
    checked already."""
    one = sums.sum() if sums.dim() else sums
    if (bad is None or float(bad) == 0) and math.isfinite(float(one)):
        return
    if not soft:
        check_labels(y)
    refuse_scores(z, torch.isnan(z))


def check_classes(y: Tensor, classes: int, invalid: Invalid) -> Tensor:
    """Refuse class numbers that have no column in the scores; on the device they become ones that
    have."""
    if not invalid.careful:
        inside = y.clamp(0, classes - 1)
        invalid.where(inside != y)
        return inside
    low, high = (int(v) for v in torch.aminmax(y))
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise ValueError(
            f"target must hold classes 0 to {classes - 1} (scores have {classes} columns), got "
            f"{wrong}. Set ignore_index={wrong} if it marks rows to leave out."
        )
    return y


def check_fractions(y: Tensor, by_class: bool, invalid: Invalid) -> None:
    """Refuse soft targets outside of [0, 1], and those of several classes that do not add up to
    1."""
    tolerance = 1e-3 if torch.finfo(y.dtype).bits > 16 else 2e-2
    if not invalid.careful:
        invalid.outside(y, 0, 1)
        return invalid.outside(y.sum(-1), 1 - tolerance, 1 + tolerance) if by_class else None
    low, high = (float(v) for v in torch.aminmax(y))
    if not (low >= 0 and high <= 1):
        wrong = low if not low >= 0 else high
        raise ValueError(f"target must be in [0, 1] with soft_targets=True, got {wrong:g}.")
    if by_class:
        sums = y.double().sum(-1)
        off = (sums - 1).abs()
        if off.max() > tolerance:
            wrong = sums.flatten()[off.argmax()].item()
            raise ValueError(
                "target must hold fractions of the classes that add up to 1 in every row with "
                f"soft_targets=True, got {wrong:g}."
            )
    return None


def check_rows(z: Tensor, predicted: Tensor) -> None:
    """Refuse scores of several classes that are NaN, or whose largest is infinite."""
    if not math.isfinite(predicted.sum().item()):
        refuse_scores(z, torch.isnan(z).any(-1) | ~torch.isfinite(z.amax(-1)))


def check_not_nan(z: Tensor, bad: Tensor) -> None:
    """Refuse scores of which ``bad`` marks rows that are NaN."""
    if readable(z, bad) and bad.any():
        refuse_scores(z, bad)


def refuse_scores(z: Tensor, bad: Tensor) -> None:
    """Name the first row marked as bad, and what is the matter with it."""
    place = [] if not bad.any() else bad.nonzero()[0].tolist()
    scores = z.detach()[tuple(place)]
    hint = f"the first bad row is {place[-1] if place else 0}. Check the model's output."
    if place and torch.isnan(scores).any():
        raise ValueError(f"scores must not be NaN: {hint}")
    if place and math.isinf(largest := float(scores.max())):
        raise ValueError(f"the largest score of a row must be finite, got {largest}: {hint}")
    raise ValueError("step must return finite degrees that are not all zero in a row.")


def refuse_rows(bad: Tensor) -> None:
    """Name the first row marked as bad."""
    refuse_scores(torch.where(bad, torch.nan, 0.0), bad)
