"""The report of a comparison: one HTML file that needs nothing else, and loads nothing.

jinja2 (the extra ``[report]``) is imported when a page is made. The plots are written as SVG by
hand, not by a plotting library: their colours follow the page's theme, their text keeps its size
on a phone, and a name such as ``$x_{`` is just a name.
"""

from softset.report.layout import escape, page

__all__ = ["escape", "page"]
