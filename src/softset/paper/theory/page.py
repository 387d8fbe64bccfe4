"""All claims on one page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from softset.paper.theory.findings import markdown

_INTRODUCTION = """\
# The papers' theorems as numbers

What each paper proves, measured. A line says what was claimed and what came out; "no" with a \
reason is a case that the claim leaves out or gets wrong, put there on purpose, and the \
paragraph below the table says what it means for a user.
"""


def page(results: Iterable[dict[str, Any]], *, command: str, date: str, seconds: float) -> str:
    """The page ``docs/papers-theory.md``: results of ``Claim.run``, and how they were made."""
    results = list(results)
    seeds = sorted({r["seed"] for r in results})
    lines = sum(len(r["findings"]) for r in results)
    odd = [r["id"] for r in results if not r["as_expected"]]
    outcome = "all came out as they must" if not odd else f"unexpected: {', '.join(odd)}"
    made = (
        f"`{command}`, {date}, 2-core CPU (one thread), seed {', '.join(map(str, seeds))}, "
        f"{seconds:.0f} s: {lines} numbers, {outcome}."
    )
    return "\n\n".join([_INTRODUCTION.rstrip(), made, *(markdown(r) for r in results)]) + "\n"
