"""How to get the same comparison again."""

from __future__ import annotations

from typing import Any

from softset.report import formats
from softset.report.layout import shorten
from softset.report.sections.base import Page
from softset.storage.schema import encoded

ID, GROUP = "settings", ""
TITLE = "How to get this again"


def content(page: Page) -> dict[str, Any] | None:
    """What the template reads."""
    c = page.comparison
    return {
        "settings": _pairs(encoded(c.settings)),
        "versions": _pairs(c.versions),
        "seed": c.seed,
        "date": shorten(c.date, 40),
        "duration": formats.seconds(c.duration),
        "command": shorten(c.command, 2000),
    }


def _pairs(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (shorten(k.replace("_", " "), 60), shorten(formats.words(v), 200))
        for k, v in values.items()
    ]
