"""The HTML page: style, light and dark theme, and a policy that loads and sends nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from softset import formats
from softset.checks import require
from softset.formats import shorten

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_SECTIONS = Path(__file__).parent / "sections"  # which have their templates beside them


def page(title: str, body_html: str, *, script: str = "", data: object = None) -> str:
    """A whole HTML page, with the style of all our pages inside.

    ``body_html`` is put in as it is: pass text from the data through ``formats.escape``. Style
    attributes and inline handlers do nothing (the page's Content-Security-Policy admits its own
    style and its own script by their hashes, and nothing else); use the classes below.
    ``data`` becomes JSON in ``<script id="data">``, which ``script`` may read.

    Classes: ``lead`` (large first sentence), ``eyebrow``, ``note``, ``muted``, ``cards`` with
    ``card``, ``scroll`` (around a wide table), ``num`` (a cell with a number), ``differs`` (a cell
    to be marked), ``best`` (a cell in bold), ``grid2`` (two columns), ``warning``.

    >>> page("Results", "<h1>Results</h1>").startswith("<!doctype html>")
    True
    """
    text = (
        environment()
        .get_template("base.html")
        .render(
            title=shorten(title),
            style=(style := source("style.css")),
            theme=(theme := source("theme.js")),
            script=script,
            data="" if data is None else to_json(data),
            policy="; ".join(
                [
                    "default-src 'none'",
                    f"style-src {_hash(style)}",
                    f"script-src {_hash(theme)}" + (f" {_hash(script)}" if script else ""),
                    "img-src data:",
                    "base-uri 'none'",
                    "form-action 'none'",
                ]
            ),
            body=body_html,
        )
    )
    return str(text)


def to_json(value: object) -> str:
    """JSON that may stand inside ``<script>``: no ``<``, no NaN (``null`` in its place).

    >>> to_json({"label": "</script>", "value": float("nan")})
    '{"label":"\\\\u003c/script>","value":null}'
    """
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def source(name: str) -> str:
    """A file of ``templates``."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """The templates, with everything escaped that is not marked as HTML."""
    jinja2 = require("jinja2", "report", "the report")
    templates: Environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_TEMPLATES, _SECTIONS]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "count": formats.count,
        "number": formats.number,
        "percent": formats.percent,
        "threshold": formats.threshold,
    }
    return templates


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
