"""Argument checks with the nearest name as a hint; nothing heavy is imported here."""

from __future__ import annotations

import difflib
import importlib
import math
import numbers
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from types import ModuleType


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint for an error message: `` Did you mean 'f1'?``, or nothing.

    >>> nearest("f1_score", ["f1", "recall"]), nearest("AGE", ["page", "age"])
    (" Did you mean 'f1'?", " Did you mean 'age'?")
    >>> nearest("logistic", ["boosting", "forest"])
    ''
    """
    by_lower = {w.lower(): w for w in reversed(list(words))}
    matches = difflib.get_close_matches(word.lower(), by_lower, n=1)
    matches = matches or [w for w in by_lower if len(w) > 1 and w in word.lower()]
    return f" Did you mean {by_lower[matches[0]]!r}?" if matches else ""


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names for an error message, the first few of many.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    words = [repr(name) for name in names]
    others = len(words) - most
    return ", ".join(words) if others <= 0 else f"{', '.join(words[:most])} and {others} more"


def repeated(names: Iterable[str]) -> list[str]:
    """Names that occur more than once.

    >>> repeated(["b", "a", "b", "c", "a"])
    ['a', 'b']
    """
    return sorted(name for name, count in Counter(names).items() if count > 1)


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a package of an extra that ``purpose`` needs, or say how to install it.

    >>> require("no_such_package", "excel", "reading an Excel file")
    Traceback (most recent call last):
    ImportError: reading an Excel file needs no_such_package: pip install 'softset[excel]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(f"{purpose} needs {module}: pip install 'softset[{extra}]'") from None


# Warnings are about the line that called these, not about one of theirs.
_NOT_THE_USER = ("softset", "sklearn", "joblib", "torch", "contextlib", "functools")


def warn_user(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn, and point at the user's line: the nearest one that is neither ours nor scikit-learn's.

    All warnings go through here; nobody counts frames (``stacklevel``).
    """
    frame, level = sys._getframe(1), 2
    while frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER and frame.f_back:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise ValueError unless ``value`` is one of ``choices``."""
    options = tuple(choices)
    if value not in options:
        hint = nearest(str(value), [str(o) for o in options])
        listed = ", ".join(repr(o) for o in options)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.{hint}")


def check_number(
    name: str, value: object, low: float, high: float, *, closed: str = "", hint: str = ""
) -> None:
    """Raise ValueError for a number (or an element of a list, array or tensor) outside an interval.

    ``closed`` names the ends that belong to it: ``""``, ``"low"``, ``"high"`` or ``"both"``.
    """
    if type(value) is float and low < value < high:
        return
    left = "[" if closed in ("low", "both") else "("
    right = "]" if closed in ("high", "both") else ")"
    interval = f"{left}{low:g}, {high:g}{right}"
    try:
        if hasattr(value, "detach"):  # a tensor, of which the two ends are enough
            flat = [float(v) for v in value.detach().aminmax()]
        else:
            flat = _flatten(value.tolist() if hasattr(value, "tolist") else value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number in {interval}, got {value!r}. {hint}") from None
    for x in flat:
        above = x > low or (closed in ("low", "both") and x == low)
        below = x < high or (closed in ("high", "both") and x == high)
        if not (above and below) or math.isnan(x):
            raise ValueError(f"{name} must be in {interval}, got {x!r}. {hint}".rstrip())


def check_integer(name: str, value: object, low: int, high: int = 2**63 - 1) -> None:
    """Raise ValueError unless ``value`` is an integer from ``low`` to ``high``, both included.

    >>> check_integer("epochs", float("inf"), 1, 1000)
    Traceback (most recent call last):
    ValueError: epochs must be an integer from 1 to 1000, got inf.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not low <= value <= high or value != int(value):  # type: ignore
        raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}.")


def _flatten(value: object) -> list[float]:
    if isinstance(value, list | tuple):
        return [x for item in value for x in _flatten(item)]
    if isinstance(value, bool | str):
        raise TypeError
    return [float(value)]  # type: ignore[arg-type]
