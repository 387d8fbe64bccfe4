"""Plots as SVG that is as wide as its place.

Across, everything is in per cent; down, in pixels. Curves live in an inner picture that is
stretched, their strokes are not; text keeps its size from a phone to a wide screen. Colours are
classes, so that they follow the page's theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softset.report.layout import escape

UNIT = 4000  # the inner picture is UNIT x UNIT, in whole numbers
_AXIS = 34  # pixels below the curves for ticks and the name of the axis

Ticks = Sequence[tuple[float, str]]
TENTHS: Ticks = tuple((k / 5, f"{k / 5:g}") for k in range(6))


def tag(name: str, *inside: str, **attributes: Any) -> str:
    """An element. ``class_`` stands for ``class``, ``_`` in names for ``-``.

    >>> tag("line", x1="3%", class_="grid")
    '<line x1="3%" class="grid"/>'
    """
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, 100_000)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{listed}>{''.join(inside)}</{name}>" if inside else f"<{name}{listed}/>"


def percent(value: float) -> str:
    """A place across."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def path(x: Any, y: Any, most: int = 400) -> str:
    """Points in [0, 1] x [0, 1] as the ``d`` of a path in the inner picture, at most ``most``.

    >>> path([0, 0.5, 1], [0, 1, 1])
    'M0 4000L2000 0 4000 0'
    """
    points = np.stack([np.asarray(x, float), 1 - np.asarray(y, float)], -1)
    points = points[np.isfinite(points).all(-1)]
    if not len(points):
        return "M0 0"
    whole = np.clip((points * UNIT).round(), -UNIT, 2 * UNIT).astype(int)
    kept = np.append(True, (whole[1:] != whole[:-1]).any(-1))
    whole = whole[kept]
    if len(whole) > most:
        # Evenly along the curve, not along the rows: what is steep keeps its shape.
        length = np.append(0, np.cumsum(np.hypot(*np.diff(whole, axis=0).T.astype(float))))
        place = np.linspace(0, length[-1], most)
        whole = whole[np.unique(np.searchsorted(length, place - 1e-9))]
    return "M" + "L".join([_point(whole[0]), " ".join(map(_point, whole[1:]))]).rstrip("L")


def _point(p: Any) -> str:
    return f"{p[0]} {p[1]}"


def dots(x: Any, y: Any) -> str:
    """Points as a path of no length: its round ends stay round when the picture is stretched."""
    places = path(x, y)[1:].replace("L", " ").split()
    pairs = zip(places[::2], places[1::2], strict=True)
    return "".join(f"M{a} {b}h0" for a, b in pairs)


def area(x: Any, low: Any, high: Any) -> str:
    """The ``d`` of the area between two curves over the same places."""
    x, low, high = (np.asarray(a, float) for a in (x, low, high))
    return path(np.append(x, x[::-1]), np.append(high, low[::-1]), most=10**6) + "Z"


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``.

    >>> nice_ticks(0.63, 0.78)
    [0.65, 0.7, 0.75]
    """
    if not high > low:
        return [low]
    raw = (high - low) / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(m * base for m in (1, 2, 2.5, 5, 10) if m * base >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) + 0.0 for k in range(first, last + 1)]


@dataclass
class Plot:
    """Axes, with things drawn into them in data coordinates.

    ``x`` and ``y`` map data to [0, 1]; ``left`` and ``right`` are margins in per cent.
    """

    title: str  # read aloud, not shown
    height: int = 260
    x: Callable[[Any], Any] = lambda v: v
    y: Callable[[Any], Any] = lambda v: v
    x_ticks: Ticks = TENTHS
    y_ticks: Ticks = TENTHS
    x_name: str = ""
    y_name: str = ""
    left: float = 9.0
    right: float = 2.0
    name: str | None = None  # by which the page's script finds it
    _inner: list[str] = field(default_factory=list)
    _outer: list[str] = field(default_factory=list)
    _behind: list[str] = field(default_factory=list)

    @property
    def top(self) -> int:
        return 26 if self.y_name else 10

    @property
    def width(self) -> float:
        return 100 - self.left - self.right

    def across(self, value: float) -> str:
        """A place in per cent of the whole picture."""
        return percent(self.left + self.width * float(self.x(value)))

    def down(self, value: float) -> float:
        """A place in pixels."""
        return round(self.top + self.height * (1 - float(self.y(value))), 2)

    def curve(self, x: Any, y: Any, class_: str, *, most: int = 400, **attributes: Any) -> None:
        """A line through points."""
        d = path(self.x(np.asarray(x, float)), self.y(np.asarray(y, float)), most)
        self.shape(d, f"curve {class_}", **attributes)

    def shape(self, d: str, class_: str, **attributes: Any) -> None:
        """A path in units of the inner picture."""
        self._inner.append(tag("path", d=d, class_=class_, **attributes))

    def dot(self, x: float, y: float, class_: str, r: float = 4, **attributes: Any) -> None:
        """A round mark."""
        place = {"cx": self.across(x), "cy": self.down(y)}
        self._outer.append(tag("circle", **place, r=round(r, 2), class_=class_, **attributes))

    def upright(self, x: float, class_: str, **attributes: Any) -> None:
        """A vertical line from bottom to top."""
        place = self.across(x)
        ends = {"x1": place, "x2": place, "y1": self.top, "y2": self.top + self.height}
        self._outer.append(tag("line", **ends, class_=class_, **attributes))

    def text(self, x: float, y: float, words: str, class_: str = "", **attributes: Any) -> None:
        """Words at a place, escaped."""
        place = {"x": self.across(x), "y": self.down(y)}
        self._outer.append(tag("text", escape(words, 80), **place, class_=class_, **attributes))

    def __str__(self) -> str:
        bottom = self.top + self.height
        for value, words in self.y_ticks:
            y = self.down(value)
            ends = {"x1": percent(self.left), "x2": percent(100 - self.right), "y1": y, "y2": y}
            self._behind.append(tag("line", **ends, class_="grid"))
            place = {"x": percent(self.left), "y": y, "dx": -7, "dy": "0.32em"}
            self._behind.append(tag("text", escape(words), **place, class_="tick end"))
        for value, words in self.x_ticks:
            place = {"x": self.across(value), "y": bottom, "dy": "1.35em"}
            self._behind.append(tag("text", escape(words), **place, class_="tick middle"))
        names = []
        if self.y_name:
            names.append(
                tag("text", escape(self.y_name), x=percent(self.left), y=12, class_="axis")
            )
        if self.x_name:
            place = {"x": percent(100 - self.right), "y": bottom, "dy": "2.75em"}
            names.append(tag("text", escape(self.x_name), **place, class_="axis end"))
        inner = tag(
            "svg",
            *(self._inner or [""]),
            x=percent(self.left),
            y=self.top,
            width=percent(self.width),
            height=self.height,
            viewBox=f"0 0 {UNIT} {UNIT}",
            preserveAspectRatio="none",
            class_="inner",
        )
        return tag(
            "svg",
            tag("title", escape(self.title)),
            *self._behind,
            *names,
            inner,
            *self._outer,
            class_="plot",
            width="100%",
            height=bottom + (_AXIS + (8 if self.x_name else -12)),
            role="img",
            data_plot=self.name,
            data_left=self.left,
            data_width=self.width,
            data_top=self.top,
            data_height=self.height,
        )


@dataclass(frozen=True)
class Marks:
    """What is drawn of one candidate: a mean, the ends of its interval, and every split."""

    mean: float | None
    low: float | None
    high: float | None
    points: Sequence[float]


def interval_row(
    axis: Callable[[float], float],
    marks: Marks,
    class_: str,
    ticks: Iterable[float],
    zero: float | None = None,
) -> str:
    """One candidate in one line: every split a tick, the interval a bar, the mean a dot."""

    def at(value: float) -> str:
        return percent(100 * axis(value))

    parts = [tag("line", x1=at(t), x2=at(t), y1=0, y2=34, class_="grid") for t in ticks]
    if zero is not None:
        parts.append(tag("line", x1=at(zero), x2=at(zero), y1=0, y2=34, class_="zero"))
    parts += [
        tag("line", x1=at(s), x2=at(s), y1=13, y2=21, class_=f"split {class_}")
        for s in marks.points
    ]
    if marks.low is not None and marks.high is not None:
        ends = {"x1": at(marks.low), "x2": at(marks.high), "y1": 17, "y2": 17}
        parts.append(tag("line", **ends, class_=f"interval {class_}"))
    if marks.mean is not None:
        parts.append(tag("circle", cx=at(marks.mean), cy=17, r=5, class_=f"mean {class_}"))
    return tag("svg", *parts, class_="row", width="100%", height=34, aria_hidden="true")
