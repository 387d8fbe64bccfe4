"""The sections of the report, in their order. To add one: its module and its template
here, and its name in ``SECTIONS``.

A section is a module with an ``ID`` (its anchor, and the name of its template beside it), a
``TITLE`` (with the words of ``Page.words`` in braces) and a ``content``: what its template reads,
every number already a word, or ``None`` where there is nothing to show. Sections of one ``GROUP``
stand in one box: the slider stays in sight while they are read.
"""

from __future__ import annotations

from typing import Any, Protocol

from softset.report.sections import (
    calibration,
    classes,
    comparison,
    confusion,
    curves,
    data_summary,
    drivers,
    glossary,
    ladder,
    settings,
    threshold,
    training,
)
from softset.report.sections.base import Page


class Section(Protocol):
    """What a module of this package has."""

    ID: str
    GROUP: str
    TITLE: str

    def content(self, page: Page) -> dict[str, Any] | None:
        """What the template reads."""


SECTIONS: tuple[Section, ...] = (
    ladder,
    comparison,
    threshold,
    confusion,
    curves,
    training,
    calibration,
    classes,
    drivers,
    data_summary,
    settings,
    glossary,
)
