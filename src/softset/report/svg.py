"""Plots as SVG that is as wide as its place.

Across, everything is in per cent; down, in pixels. Curves live in an inner picture that is
stretched, their strokes are not; text keeps its size from a phone to a wide screen. Colors are
classes, so that they follow the page's theme.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softset.report.geometry import Axis, Ticks
from softset.report.layout import escape

UNIT = 4000  # the inner picture is UNIT x UNIT, in whole numbers
_AXIS = 34  # pixels below the curves for ticks and the name of the axis


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


@dataclass
class Plot:
    """Axes, with things drawn into them in data coordinates.

    ``left`` and ``right`` are margins in per cent.
    """

    title: str  # read aloud, not shown
    height: int = 260
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    x_ticks: Ticks | None = None  # those of the axis
    y_ticks: Ticks | None = None
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
        for value, words in self.y.ticks() if self.y_ticks is None else self.y_ticks:
            y = self.down(value)
            ends = {"x1": percent(self.left), "x2": percent(100 - self.right), "y1": y, "y2": y}
            self._behind.append(tag("line", **ends, class_="grid"))
            place = {"x": percent(self.left), "y": y, "dx": -7, "dy": "0.32em"}
            self._behind.append(tag("text", escape(words), **place, class_="tick end"))
        for value, words in self.x.ticks() if self.x_ticks is None else self.x_ticks:
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
