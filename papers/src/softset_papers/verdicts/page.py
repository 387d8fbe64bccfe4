"""Verdicts as text: for the command, for papers.md and for the page of a paper."""

from __future__ import annotations

import re
from collections.abc import Sequence

from softset_papers.verdicts.claim import Claim
from softset_papers.verdicts.claims import Judged
from softset_papers.verdicts.rule import RULE, VERDICTS

_MOST = 4  # numbers of a claim in a table; all of them stand in the list
_ASIDE = re.compile(r" \([^()]*(implied|we take)[^()]*\)")  # how a claim is read
_STATES = {True: "yes", False: "no", None: "not decided"}


def counts(judged: Sequence[Judged]) -> str:
    """How many claims have which verdict."""
    numbers = [(sum(j.verdict == v for j in judged), v) for v in VERDICTS]
    words = [f"{n} {v.replace('does', 'do').replace('holds', 'hold')}" for n, v in numbers if n]
    return f"{len(judged)} claims: {', '.join(words)}."


def rule_text() -> str:
    """The rule as Markdown."""
    return "\n".join(f"- {line}" for line in RULE)


def to_text(judged: Sequence[Judged]) -> str:
    """What the command prints: the rule, then every claim with all its numbers."""
    lines = [re.sub(r"\*+", "", line) for line in RULE]
    for j in judged:
        lines += ["", f"{j.claim.paper}  {j.claim.text}", f"  {j.verdict.upper()}  {j.claim.table}"]
        lines += [f"  {line}" for line in _numbers(j)]
        lines += [f"  {j.claim.remark}"] * bool(j.claim.remark)
    return "\n".join([*lines, "", counts(judged)])


def _numbers(j: Judged) -> list[str]:
    alone = len(j.found) == 1
    return [
        f"{'found' if alone else view} ({_STATES[found.state]}): "
        + "; ".join(dict.fromkeys(p.full for p in found.parts))
        for view, found in j.found.items()
    ]


def evidence_of(j: Judged) -> str:
    """The numbers that decided, in short, and the remark."""
    view, parts = j.decisive
    texts = list(dict.fromkeys(p.short for p in parts))
    shown = texts[:_MOST]
    if len(texts) > _MOST:
        shown.append(f"and {len(texts) - _MOST} more")
    lead = f"{view}: " if len(j.found) > 1 else ""
    return (
        lead
        + "; ".join(shown)
        + (f". {j.claim.remark[0].upper()}{j.claim.remark[1:]}" if j.claim.remark else "")
    )


def to_table(judged: Sequence[Judged], with_paper: bool = True) -> str:
    """A row for each claim, as Markdown."""
    head = ["paper"] * with_paper + ["claim", "verdict", "what decided", "table"]
    lines = [_line(head), _line(["---"] * len(head))]
    for j in judged:
        cells = [j.claim.text, f"**{j.verdict}**", evidence_of(j), _link(j.claim.table)]
        lines.append(_line([j.claim.paper] * with_paper + cells))
    return "\n".join(lines)


def to_brief(judged: Sequence[Judged]) -> str:
    """The claims by verdict, a line for each; what decided is folded."""
    lines = []
    for verdict in VERDICTS:
        own = [j.claim for j in judged if j.verdict == verdict]
        if own:
            lines.append(f"- **{verdict}** ({len(own)}): {'; '.join(_briefly(own))}.")
    text, table = "\n".join(lines), to_table(judged, with_paper=False)
    summary = "What decided, claim by claim"
    return f"{text}\n\n<details><summary>{summary}</summary>\n\n{table}\n\n</details>"


def _briefly(claims: Sequence[Claim]) -> list[str]:
    """Claims without asides; those that differ in a dataset alone are one."""
    found: dict[str, list[str]] = {}
    for c in claims:
        text = _ASIDE.sub("", c.text.removesuffix(c.where))
        found.setdefault(text, []).append(c.where)
    return [text + ", ".join(where) for text, where in found.items()]


def to_folds(judged: Sequence[Judged]) -> str:
    """The claims of each paper as a table in a fold."""
    papers = dict.fromkeys(j.claim.paper.split(",")[0] for j in judged)
    folds = []
    for paper in sorted(papers):
        own = [j for j in judged if j.claim.paper.startswith(paper)]
        summary = f"Paper {paper}, {counts(own).rstrip('.')}"
        folds.append(f"<details><summary>{summary}</summary>\n\n{to_table(own)}\n\n</details>")
    return "\n\n".join(folds)


def to_list(judged: Sequence[Judged]) -> str:
    """Every claim with all its numbers, to be folded."""
    lines = []
    for j in judged:
        lines.append(f"- {j.claim.text}: **{j.verdict}**")
        lines += [f"  - {line}" for line in _numbers(j)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _link(table: str) -> str:
    if table.startswith("theory"):
        return f"[theory](theorems.md#{table})"
    return f"[{table}](paper-{table[:3]}.md#{table})"
