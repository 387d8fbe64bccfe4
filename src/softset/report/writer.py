"""The report of a comparison: render it, write it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import groupby
from typing import Protocol

from softset.comparison.result import Comparison
from softset.formats import shorten
from softset.report.context import Content, Page
from softset.report.layout import environment, page, source
from softset.report.operating import Operating, pictures, views_of
from softset.report.sections import (
    calibration,
    classes,
    comparison,
    confusion,
    curves,
    data_summary,
    frontier,
    glossary,
    importances,
    settings,
    stages,
    threshold,
    training,
    verdict,
)
from softset.storage.files import write_safely
from softset.typing import JSON


class Section(Protocol):
    """A module of ``softset.report.sections``."""

    ID: str
    GROUP: str
    TITLE: str

    def content(self, page: Page) -> Content | None:
        """The values of the template."""


# In the order of the page.
SECTIONS: tuple[Section, ...] = (
    stages,
    comparison,
    frontier,
    threshold,
    confusion,
    curves,
    training,
    calibration,
    classes,
    importances,
    data_summary,
    settings,
    glossary,
)

LARGEST = 2_000_000  # bytes
_STOPS = (1000, 500, 250, 120, 60)  # of the slider: fewer for many labels
_USUAL, _PER_STOP = 6000, 150  # bytes of one candidate's curves, and of each of its stops


def render(result: Comparison | Mapping[str, JSON]) -> str:
    """The report as one HTML page that needs nothing else, below 2 MB.

    ``result`` is a ``Comparison``, or its ``to_dict()``.
    """
    if not isinstance(result, Comparison):
        result = Comparison.from_dict(result)
    text = ""
    sides = sum(len(v.sides) for v in views_of(result))
    likely = [n for n in _STOPS if sides * (_USUAL + _PER_STOP * n) < LARGEST]
    for stops in likely or _STOPS[-1:]:
        text = _rendered(Page(result, Operating(result, stops)))
        if len(text.encode()) < LARGEST:
            break
    return text


def _rendered(about: Page) -> str:
    operating = about.operating
    interactive = bool(operating.views)
    templates = environment()
    shared = {"operating": operating, "pictures": pictures(operating) if interactive else {}}
    sections = []
    for section in SECTIONS:
        content = section.content(about)
        if content is not None:
            body = templates.get_template(f"{section.ID}.html").render(shared, **content)
            sections.append(
                {"id": section.ID, "title": section.TITLE.format(**about.words), "body": body}
                | {"group": section.GROUP}
            )
    groups = [
        {"name": name, "sections": list(group)}
        for name, group in groupby(sections, lambda s: s["group"])
    ]
    head = templates.get_template("verdict.html").render(verdict.content(about))
    body = templates.get_template("report.html").render(verdict=head, groups=groups)
    file = shorten(about.comparison.data.file or "your data", 80)
    return page(
        shorten(f"{about.metric} on {file}: softset comparison", 160),
        body,
        script=source("report.js") if interactive else "",
        data=operating.data() if interactive else None,
    )


def write_report(result: Comparison | Mapping[str, JSON], path: str | os.PathLike[str]) -> None:
    """Write the page of ``render`` to ``path``, whole or not at all."""
    text = render(result)
    write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
