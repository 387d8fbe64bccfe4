"""Numbers and text as people read them."""

from __future__ import annotations

import html
import math
import numbers
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeGuard

MINUS, DASH = "−", "–"
# A message about a column: its name in quotes.
_COLUMN = re.compile(r"""column ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.IGNORECASE)
_SWITCHES = {True: "yes", False: "no", None: DASH}


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return isinstance(value, numbers.Real) and math.isfinite(value)


def number(value: object, digits: int = 3) -> str:
    """A fixed number of decimals, a real minus sign; a dash if it is no finite number.

    >>> number(0.71239), number(-0.5, 2), number(None)
    ('0.712', '−0.50', '–')
    """
    if not is_number(value):
        return DASH
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(value: object, digits: int = 3) -> str:
    """The same with its sign.

    >>> signed(0.0213), signed(-0.0001)
    ('+0.021', '0.000')
    """
    text = number(value, digits)
    return f"+{text}" if is_number(value) and float(f"{value:.{digits}f}") > 0 else text


def interval(low: object, high: object, write: Callable[[object], str] = number) -> str:
    """``[0.701, 0.723]``, or nothing; ``write=signed`` for that of a difference."""
    if not (is_number(low) and is_number(high)):
        return ""
    return f"[{write(low)}, {write(high)}]"


def count(value: object) -> str:
    """An integer with separated thousands.

    >>> count(48842)
    '48,842'
    """
    return f"{round(value):,}" if is_number(value) else DASH


def percent(value: object, digits: int = 1) -> str:
    """A fraction in per cent.

    >>> percent(0.2393)
    '23.9 %'
    """
    return f"{number(100 * value, digits)} %" if is_number(value) else DASH


def p_value(value: object) -> str:
    """Two significant digits, never "0".

    >>> p_value(0.0312), p_value(1e-9), p_value(1)
    ('0.031', '< 0.001', '1')
    """
    if not is_number(value):
        return DASH
    if value < 0.001:
        return "< 0.001"
    if value > 0.995:
        return "1"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def threshold(value: object) -> str:
    """Three decimals, more near 0 and 1, as the page's script writes it.

    >>> threshold(0.31249), threshold(0.00012345), threshold(0.9995)
    ('0.312', '0.00012', '0.99950')
    """
    if not is_number(value):
        return DASH
    edge = min(value, 1 - value)
    digits = 3 if edge >= 0.01 else min(8, 1 - math.floor(math.log10(max(edge, 1e-8))))
    return f"{value:.{digits}f}"


def words(value: object) -> str:
    """A setting in plain words: lists with commas, yes and no.

    >>> words({"networks": ["warm", "metric"], "quick": True})
    'networks: warm, metric; quick: yes'
    """
    if isinstance(value, dict):
        return "; ".join(f"{k}: {words(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(words(v) for v in value)
    return _SWITCHES[value] if isinstance(value, bool | None) else str(value)


def seconds(value: object) -> str:
    """A duration.

    >>> seconds(0.42), seconds(71.3), seconds(133), seconds(7260)
    ('0.4 s', '71 s', '2 min 13 s', '2 h 1 min')
    """
    if not is_number(value):
        return DASH
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(value: object) -> str:
    """Bytes.

    >>> size(412), size(5300), size(181_297), size(5_433_106), size(None)
    ('412 B', '5.3 kB', '181 kB', '5.4 MB', '–')
    """
    if not is_number(value):
        return DASH
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.{1 if value < 10 * factor else 0}f} {unit}"
    return f"{value:.0f} B"


def grouped(messages: Iterable[str]) -> list[str]:
    """Messages about one column each, joined where they differ in names and numbers only.

    >>> grouped(["column 'a' has 3 gaps.", "column 'b' has 5 gaps.", "few rows."])
    ["2 columns ('a', 'b'), for example: column 'a' has 3 gaps.", 'few rows.']
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for message in dict.fromkeys(messages):
        match = _COLUMN.match(message)
        name = match[1] if match else ""
        # Sample cells differ as well, which follow a colon or "e.g.".
        kind = re.split(r": ['\d]|, e\.g\.", message[match.end() :])[0] if match else message
        key = re.sub(r"\d[\d.,]*", "0", kind) if match else message
        groups.setdefault(f"{bool(match)} {key}", []).append((name, message))
    result = []
    for members in groups.values():
        first = members[0][1]
        if len(members) > 1:
            names = [name for name, _ in members]
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" * (len(names) > 5))
            first = f"{len(names)} columns ({shown}), for example: {first}"
        result.append(first)
    return result


def escape(text: object, longest: int = 300) -> str:
    """Text from the data as HTML: quotes and angle brackets escaped, shortened if very long.

    >>> escape("<script>")
    '&lt;script&gt;'
    """
    return html.escape(shorten(text, longest))


def shorten(text: object, longest: int = 300) -> str:
    """The text in one line, without control characters, shortened if it is very long.

    >>> shorten("a" * 10, 5)
    'aaaa…'
    """
    # A file name may hold half of a surrogate pair, which no file in UTF-8 can.
    plain = str(text).encode("utf-8", "replace").decode()
    plain = "".join(c if c.isprintable() else " " for c in plain)
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def html_table(head: list[str], rows: list[list[str]], bold: list[bool] | None = None) -> str:
    """A table of HTML, all cells escaped; ``bold`` is one flag for each row."""
    lines = [f"<th>{'</th><th>'.join(map(html.escape, head))}</th>"]
    lines += [f"<td>{'</td><td>'.join(map(html.escape, cells))}</td>" for cells in rows]
    styles = ["", *(' style="font-weight:bold"' if b else "" for b in bold or [False] * len(rows))]
    return (
        f"<table>{''.join(f'<tr{s}>{t}</tr>' for s, t in zip(styles, lines, strict=True))}</table>"
    )


class Summary(str):
    """Lines of facts and a table: plain text when printed, HTML in a notebook.

    >>> print(Summary.of(["threshold: 0.3"], ["base model", "weight"], [["linear", "0.25"]]))
    threshold: 0.3
    base model  weight
    linear        0.25
    """

    __slots__ = ("_html",)
    _html: str

    @classmethod
    def of(
        cls,
        facts: Sequence[str],
        head: list[str] | None = None,
        rows: Sequence[list[str]] = (),
        notes: Sequence[str] = (),
    ) -> Summary:
        """``facts`` above the table and ``notes`` below it; the first column is to the left."""
        table = [head, *rows] if head else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = []
        for cells in table:
            first, *others = (
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            lines.append("  ".join([first, *others]).rstrip())
        made = cls("\n".join([*facts, *lines, *notes]))
        above, below = (
            "".join(f"<p>{html.escape(t)}</p>" for t in part) for part in (facts, notes)
        )
        made._html = above + (html_table(head, list(rows)) if head else "") + below
        return made

    def after(self, fact: str) -> Summary:
        """The same with one more fact above the others."""
        made = type(self)(f"{fact}\n{self}")
        made._html = f"<p>{html.escape(fact)}</p>{self._html}"
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._html
