"""A saved column, read strictly: every entry with its type, and nothing that nobody asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


class Saved:
    """The entries of a saved column, taken one by one with their types; none may be left over."""

    def __init__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise ValueError(f"a column must be saved as a dictionary, got {type(state).__name__}.")
        self._rest = dict(state)

    def _take(self, key: str, types: tuple[type, ...], default: Any = ...) -> Any:
        value = self._rest.pop(key, default)
        if type(value) not in types:
            what = " or ".join(t.__name__ for t in types)
            got = "nothing" if value is ... else type(value).__name__
            raise ValueError(f"entry {key!r} of a saved column must be {what}, got {got}.")
        return value

    def text(self, key: str, *, optional: bool = False) -> Any:
        """A text; with ``optional`` None, or nothing in the file."""
        return self._take(key, (str, type(None)), None) if optional else self._take(key, (str,))

    def count(self, key: str, *, optional: bool = False) -> Any:
        """A whole number that is not negative."""
        value = self._take(key, (int, type(None)) if optional else (int,))
        if value is not None and value < 0:
            raise ValueError(f"entry {key!r} of a saved column must not be negative, got {value}.")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or False."""
        return bool(self._take(key, (bool,), default))

    def texts(self, key: str, default: Any = ...) -> list[str]:
        """A list of text."""
        values = self._take(key, (list, tuple), default)
        if not all(type(v) is str for v in values):
            raise ValueError(f"entry {key!r} of a saved column must hold text only.")
        return list(values)

    def number(self, key: str) -> float:
        """A finite number."""
        return _finite(self._rest.pop(key, None), key)

    def numbers(self, key: str, names: Sequence[str]) -> dict[str, float]:
        """A finite number for each of ``names``, in this order."""
        values = self._take(key, (dict,))
        if list(values) != list(names):
            raise ValueError(f"entry {key!r} of a saved column must name {list(names)}.")
        return {name: _finite(values[name], key) for name in names}

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        if self._rest:
            unknown = sorted(map(str, self._rest))
            raise ValueError(f"a saved column has entries nobody knows: {unknown[:5]}.")


def _finite(value: Any, key: str) -> float:
    try:
        number = float(value) if type(value) in (float, int) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"entry {key!r} of a saved column must be a finite number.")
    return number
