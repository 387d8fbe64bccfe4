"""Every claim of the papers, judged: the verdicts that follow from the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softset_papers.results import Record
from softset_papers.verdicts.claim import Claim
from softset_papers.verdicts.conditions import Found, Part, together
from softset_papers.verdicts.paper_000 import PAPER_000, PAPER_001
from softset_papers.verdicts.paper_002 import PAPER_002, PAPER_003
from softset_papers.verdicts.paper_004 import PAPER_004, THEORY
from softset_papers.verdicts.rule import (
    AT_HALF,
    HOLDS,
    TUNED,
    UNTESTED,
    Evidence,
    verdict_of,
)

CLAIMS: tuple[Claim, ...] = (
    *PAPER_000,
    *PAPER_001,
    *PAPER_002,
    *PAPER_003,
    *PAPER_004,
    *THEORY,
)
"""Every claim, by paper; theorems last."""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict, and by view what was found."""

    claim: Claim
    verdict: str
    found: dict[str, Found]

    @property
    def decisive(self) -> tuple[str, list[Part]]:
        """The view that decided, and those of its numbers that did."""
        first = next(iter(self.found))
        if self.verdict == AT_HALF:
            return TUNED.name, [p for p in self.found[TUNED.name].parts if p.state is not True]
        parts = self.found[first].parts
        if self.verdict == HOLDS:
            return first, list(parts)
        wanted = None if self.verdict == UNTESTED else False
        return first, [p for p in parts if p.state is wanted]


def judge_claims(records: Sequence[Record], claims: Sequence[Claim] = CLAIMS) -> list[Judged]:
    """The verdict on every claim."""
    evidence = Evidence(records)
    judged = []
    for claim in claims:
        found = {
            view.name: together([condition(evidence, view) for condition in claim.conditions])
            for view in claim.views
        }
        states = {name: f.state for name, f in found.items()}
        judged.append(Judged(claim, verdict_of(states), found))
    return judged
