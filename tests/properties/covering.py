"""Covering arrays: few rows of options in which every two (or three) values meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]


def covering_array(
    options: Mapping[str, Sequence[Any]], strength: int = 2, triples: Sequence[str] = ()
) -> list[Row]:
    """Rows in which every ``strength`` options take every combination of their values; those in
    ``triples`` any three of them. Greedy, and the same rows every time.

    >>> rows = covering_array({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    >>> len(rows), sorted({(row["a"], row["c"]) for row in rows})
    (4, [(0, 0), (0, 1), (1, 0), (1, 1)])
    """
    sizes = {name: len(values) for name, values in options.items()}
    groups = [*combinations(options, strength), *combinations(triples, 3)]
    missing = {
        frozenset(zip(names, values, strict=True)): None
        for names in groups
        for values in product(*(range(sizes[name]) for name in names))
    }
    own = {name: [g for g in groups if name in g] for name in options}
    found: list[dict[str, int]] = []
    while missing:
        row = dict(next(iter(missing)))
        for name in sorted(options, key=lambda n: -sizes[n]):
            if name not in row:
                start = len(found)  # ties go to each value in turn
                tried = [(start + i) % sizes[name] for i in range(sizes[name])]
                row[name] = max(tried, key=lambda v: _gain(row, name, v, own[name], missing))
        found.append(row)
        for names in groups:
            missing.pop(frozenset((name, row[name]) for name in names), None)
    return [{name: options[name][row[name]] for name in options} for row in found]


def _gain(row: Row, name: str, value: int, groups: Any, missing: Any) -> int:
    """How many combinations are covered that were not."""
    tried = {**row, name: value}
    return sum(
        frozenset((n, tried[n]) for n in names) in missing
        for names in groups
        if all(n in tried for n in names)
    )


def meetings(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The combinations of values that some options take."""
    return iter({tuple(row[name] for name in names) for row in rows})
