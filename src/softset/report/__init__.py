"""The report of a comparison: one HTML file that needs nothing else, and loads nothing.

jinja2 (the extra ``[report]``) is imported when a page is made. The plots are written as SVG by
hand, not by a plotting library: their colors follow the page's theme, their text keeps its size
on a phone, and a name such as ``$x_{`` is just a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from softset.formats import escape
from softset.report.layout import page

__all__ = ["escape", "page", "render", "write_report", "write_watch"]


def __getattr__(name: str) -> object:
    # A page alone needs neither torch nor scikit-learn.
    if name not in ("render", "write_report", "write_watch"):
        raise AttributeError(f"module 'softset.report' has no attribute {name!r}")
    from softset.report import watch, writer

    return getattr(watch if name == "write_watch" else writer, name)


if TYPE_CHECKING:
    from softset.report.watch import write_watch as write_watch
    from softset.report.writer import render as render
    from softset.report.writer import write_report as write_report
