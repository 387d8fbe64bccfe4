"""What a claim is, and the comparisons that the claims of several papers are made of."""

from __future__ import annotations

from dataclasses import dataclass

from softset_papers.verdicts.conditions import FOUR, Against, Condition
from softset_papers.verdicts.rule import CASCADE, HALF, View

ONE = (HALF,)
T1, T2, T4, T5, T7 = (f"000-table-{n}" for n in (1, 2, 4, 5, 7))


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, the table it rests on, and what must be seen there.

    ``views``: the first decides whether it holds; see ``rule.verdict_of``. ``remark`` says what
    the numbers do not.
    """

    paper: str
    text: str
    table: str
    conditions: tuple[Condition, ...]
    views: tuple[View, ...] = CASCADE
    remark: str = ""
    where: str = ""  # the end of the text, if other claims differ from it in that alone


def claim(
    paper: str,
    table: str,
    text: str,
    *conditions: Condition,
    views: tuple[View, ...] = CASCADE,
    remark: str = "",
    where: str = "",
) -> Claim:
    """A claim that all of its conditions are needed for."""
    return Claim(paper, f"{text}{where}", table, conditions, views, remark, where)


def against(
    wanted: str,
    a: str,
    b: str,
    metric: str,
    tables: str | tuple[str, str],
    *on: str,
    called: str = "",
) -> Against:
    """A comparison on some datasets, on the four tabular ones by default.

    ``tables``: that of both rows, or of each.
    """
    both = (tables, tables) if isinstance(tables, str) else tables
    return Against(wanted, a, b, metric, both, on or FOUR, called)
