"""Claims on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softset_papers.theory.findings import HEAD, cells, markdown

_INTRODUCTION = """\
# The papers' theorems as numbers

What each paper proves, measured. A line says what was claimed and what came out; "no" with a \
reason is a case that the claim leaves out or gets wrong, put there on purpose, and the \
paragraph below the table says what it means for a user.
"""


def claim_grid(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and body of the table of one claim."""
    return ["", *HEAD], [cells(f) for f in result["findings"]]


def claims_page(results: Sequence[dict[str, Any]], command: str) -> str:
    """Results of ``Claim.run`` as Markdown, and how they were made."""
    if not results:
        return f"Nothing measured yet: `{command}`.\n"
    seeds = ", ".join(sorted({str(r["seed"]) for r in results}))
    dates = ", ".join(sorted({r["date"] for r in results}))
    lines = sum(len(r["findings"]) for r in results)
    odd = [r["id"] for r in results if not r["as_expected"]]
    outcome = "all came out as they must" if not odd else f"unexpected: {', '.join(odd)}"
    cpu = sum(r["cpu"] for r in results)
    made = f"`{command}`, {dates}, CPU, seed {seeds}, {cpu:.0f} s: {lines} numbers, {outcome}."
    return "\n\n".join([_INTRODUCTION.rstrip(), made, *map(markdown, results)]) + "\n"
