"""Claims on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softset_papers.results import Record
from softset_papers.theory.findings import HEAD, cells, markdown


def claim_grid(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and body of the table of one claim."""
    return ["", *HEAD], [cells(f) for f in result["findings"]]


def claims_page(records: Sequence[Record], command: str) -> str:
    """Results of ``Claim.run`` as Markdown, and how they were made."""
    if not records:
        return f"Nothing measured yet: `{command}`.\n"
    results = [r.result for r in records]
    seeds = ", ".join(sorted({str(r["seed"]) for r in results}))
    dates = ", ".join(sorted({r["date"] for r in results}))
    commits = ", ".join(sorted({r["commit"] or "an unknown commit" for r in results}))
    lines = sum(len(r["findings"]) for r in results)
    odd = [r["id"] for r in results if not r["as_expected"]]
    outcome = "all came out as they must" if not odd else f"unexpected: {', '.join(odd)}"
    cpu = sum(r["cpu"] for r in results)
    made = (
        f"`{command}`, {dates}, at {commits}, CPU, seed {seeds}, {cpu:.0f} s: {lines} numbers, "
        f"{outcome}."
    )
    return "\n\n".join([made, *map(markdown, results)]) + "\n"
