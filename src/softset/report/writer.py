"""The report of a comparison: render it, write it."""

from __future__ import annotations

import os
from itertools import groupby
from typing import Any

from softset.comparison.result import Comparison
from softset.report.layout import environment, page, shorten, source
from softset.report.operating import Operating, views_of
from softset.report.plots import pictures
from softset.report.sections import SECTIONS, verdict
from softset.report.sections.base import Page
from softset.storage.files import write_safely

LARGEST = 2_000_000  # bytes
_PARTS = (1000, 500, 250, 120, 60)  # stops of the slider: fewer where there are many labels
_USUAL, _PER_STOP = 6000, 150  # bytes of one candidate's curves, and of each of its stops


def render(comparison: Comparison | dict[str, Any]) -> str:
    """The report as one HTML page that needs nothing else, below 2 MB.

    ``comparison`` is a ``Comparison``, or what its ``to_dict()`` gave.
    """
    if not isinstance(comparison, Comparison):
        comparison = Comparison.from_dict(comparison)
    text = ""
    sides = sum(len(v.sides) for v in views_of(comparison))
    likely = [n for n in _PARTS if sides * (_USUAL + _PER_STOP * n) < LARGEST]
    for parts in likely or _PARTS[-1:]:
        text = _rendered(Page(comparison, Operating(comparison, parts)))
        if len(text.encode()) < LARGEST:
            break
    return text


def _rendered(about: Page) -> str:
    operating = about.operating
    moves = bool(operating.views)
    templates = environment()
    shared = {"operating": operating, "pictures": pictures(operating) if moves else {}}
    sections = []
    for section in SECTIONS:
        found = section.content(about)
        if found is not None:
            body = templates.get_template(f"{section.ID}.html").render(shared, **found)
            sections.append(
                {"id": section.ID, "title": section.TITLE.format(**about.words), "body": body}
                | {"group": section.GROUP}
            )
    groups = [
        {"name": name, "sections": list(members)}
        for name, members in groupby(sections, lambda s: s["group"])
    ]
    head = templates.get_template("verdict.html").render(verdict.content(about))
    body = templates.get_template("report.html").render(verdict=head, groups=groups)
    file = shorten(about.comparison.data.file or "your data", 80)
    return page(
        shorten(f"{about.metric} on {file}: softset comparison", 160),
        body,
        script=source("report.js") if moves else "",
        data=operating.data() if moves else None,
    )


def write_report(comparison: Comparison | dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the page of ``render`` to ``path``: the whole of it, or the old file stays."""
    text = render(comparison)
    write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
