"""Small helpers that every other module may use: safe division and roots, argument checks."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
# Counts below this are nothing: a reciprocal, and what it is multiplied by, must stay finite.
NOTHING = 1e-30
# Below this a rate is treated as zero by `root`: 1e-16 is far under 1/n for any n we can count.
_TINY = 1e-16


def ratio(num: Tensor, den: Tensor, empty: float = 0.0) -> Tensor:
    """``num / den``, and ``empty`` where ``den`` is zero, or below 1e-30: value and gradient are
    always finite.

    The denominator is masked *before* dividing: ``where(den > 0, num / den, empty)`` has the
    right value at zero and a NaN gradient.

    >>> import torch
    >>> ratio(torch.tensor([1.0, 1.0]), torch.tensor([4.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    if all_positive(den, NOTHING):
        return num / den
    positive = den > NOTHING
    return torch.where(positive, num / torch.where(positive, den, 1.0), empty)


def all_positive(x: Tensor, low: float = 0.0) -> bool:
    """Whether every element is known to be above ``low``; False where they cannot be looked at."""
    if under_transform(x):
        return False
    return x.item() > low if x.dim() == 0 else bool((x > low).all())


def root(x: Tensor, degree: int = 2) -> Tensor:
    """The ``degree``-th root of a rate in [0, 1], exact, with a finite slope at zero.

    Below 1e-16 the root is replaced by its chord from the origin, so that the slope is bounded.

    >>> import torch
    >>> root(torch.tensor([0.25, 0.0])).tolist()
    [0.5, 0.0]
    """
    normal = x > _TINY
    chord = x * _TINY ** (1 / degree - 1)
    return torch.where(normal, torch.where(normal, x, 1.0) ** (1 / degree), chord.clamp(min=0))


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint for an error message: `` Did you mean 'f1'?``, or nothing.

    >>> nearest("f1_score", ["f1", "recall"])
    " Did you mean 'f1'?"
    """
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.4)
    return f" Did you mean {close[0]!r}?" if close else ""


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names for an error message, the first few of many.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    words = [repr(name) for name in names]
    rest = len(words) - most
    return ", ".join(words) if rest <= 0 else f"{', '.join(words[:most])} and {rest} more"


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Refuse a value that is not one of ``choices``."""
    options = tuple(choices)
    if value not in options:
        hint = nearest(str(value), [str(o) for o in options])
        listed = ", ".join(repr(o) for o in options)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.{hint}")


def check_number(
    name: str, value: Any, low: float, high: float, *, closed: str = "", hint: str = ""
) -> None:
    """Refuse a number (or a list, array or tensor with an element) outside an interval.

    ``closed`` names the ends that belong to it: ``""``, ``"low"``, ``"high"`` or ``"both"``.
    """
    if type(value) is float and low < value < high:
        return
    left = "[" if closed in ("low", "both") else "("
    right = "]" if closed in ("high", "both") else ")"
    interval = f"{left}{low:g}, {high:g}{right}"
    try:
        if isinstance(value, Tensor):
            numbers: Any = list(torch.aminmax(value))
        else:
            numbers = value.tolist() if hasattr(value, "tolist") else value
        flat = _flatten(numbers)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number in {interval}, got {value!r}. {hint}") from None
    for x in flat:
        above = x > low or (closed in ("low", "both") and x == low)
        below = x < high or (closed in ("high", "both") and x == high)
        if not (above and below) or math.isnan(x):
            raise ValueError(f"{name} must be in {interval}, got {x!r}. {hint}".rstrip())


def _flatten(value: Any) -> list[float]:
    if isinstance(value, list | tuple):
        return [x for item in value for x in _flatten(item)]
    if isinstance(value, bool | str):
        raise TypeError
    return [float(value)]


def under_transform(*tensors: Tensor | None) -> bool:
    """Whether values cannot be looked at: while compiling, or inside ``torch.func`` transforms."""
    if torch.compiler.is_compiling():
        return True
    return any(t is not None and _wrapped(t) for t in tensors)
