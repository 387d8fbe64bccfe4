"""The places of a page that are made of results: tables, verdicts, the rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from softset_papers.pages.columns import folded
from softset_papers.pages.layout import to_markdown
from softset_papers.pages.summary import summarize
from softset_papers.results import Record
from softset_papers.tables import find_table
from softset_papers.verdicts.claims import Judged, judge_claims
from softset_papers.verdicts.page import counts, rule_text, to_brief, to_folds, to_list

_PLACE = re.compile(r"(<!-- (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VERDICTS: dict[str, Callable[[list[Judged]], str]] = {
    "brief": to_brief,
    "verdicts": to_folds,
    "numbers": lambda judged: (
        "<details><summary>Every claim with all its numbers</summary>\n\n"
        f"{to_list(judged)}\n\n</details>"
    ),
    "counts": counts,
    "rule": lambda _: rule_text(),
}


def fill_in(text: str, records: Sequence[Record], judged: Sequence[Judged] | None = None) -> str:
    """Replace what stands between ``<!-- WHAT WHICH -->`` and ``<!-- end -->`` by results.

    ``<!-- 000-table-1 fair -->`` is a table under a protocol, ``<!-- 000-table-1 all -->`` the same
    with all protocols as columns, in a fold; ``brief``, ``verdicts``, ``numbers`` and ``counts``
    are of a paper (``000``) or of ``all``, and ``<!-- rule text -->`` is the rule. So a page keeps
    its words and gets new numbers.
    """
    found = list(judge_claims(records) if judged is None else judged)

    def made(place: re.Match[str]) -> str:
        what, which = place[2], place[3]
        if what in _VERDICTS:
            inside = _VERDICTS[what](of_paper(found, which))
        elif which == "all":
            inside = folded(find_table(what), records)
        else:
            inside = to_markdown(summarize(find_table(what), records, which), heading=False)
        return f"{place[1]}\n{inside.rstrip()}\n\n{place[4]}"

    return _PLACE.sub(made, text)


def of_paper(judged: Sequence[Judged], paper: str) -> list[Judged]:
    """The claims of a paper, or of all."""
    return [j for j in judged if paper in ("all", "text") or paper in j.claim.paper]
