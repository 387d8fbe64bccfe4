"""How to get the same comparison again."""

from __future__ import annotations

from collections.abc import Mapping

from softset import formats
from softset.formats import shorten
from softset.report.context import Content, Page
from softset.storage.schema import encoded
from softset.typing import JSON

ID, GROUP = "settings", ""
TITLE = "How to get this again"


def content(page: Page) -> Content | None:
    """The values of the template."""
    c = page.comparison
    return {
        "settings": _pairs(encoded(c.settings)),
        "versions": _pairs(c.versions),
        "seed": c.random_state,
        "date": shorten(c.date, 40),
        "duration": formats.seconds(c.duration),
        "command": shorten(c.command, 2000),
    }


def _pairs(values: Mapping[str, JSON]) -> list[tuple[str, str]]:
    return [
        (shorten(k.replace("_", " "), 60), shorten(formats.words(v), 200))
        for k, v in values.items()
    ]
