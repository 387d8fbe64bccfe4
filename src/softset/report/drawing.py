"""Plots as SVG that is as wide as its container: axes, ticks, curves, rows of intervals.

Across, everything is in per cent; down, in pixels. Curves live in an inner picture that is
stretched, their strokes are not; text keeps its size from a phone to a wide screen. Colors are
classes, so that they follow the page's theme. ``softset.plot`` shares the rows and the axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import numpy as np

from softset import formats
from softset.formats import escape
from softset.typing import ArrayLike, Floats, Ints

if TYPE_CHECKING:
    from softset.comparison.result import CandidateResult, Gains

Ticks = Sequence[tuple[float, str]]
Attribute = str | float | None
UNIT = 4000  # the inner picture is UNIT x UNIT, in integers
_AXIS = 34  # pixels below the curves for ticks and the name of the axis
_EDGE = 0.05  # a threshold nearer to 0 or 1 than this needs an axis in log-odds
_NEAREST = 1e-6


@dataclass(frozen=True)
class Axis:
    """The position of a value between 0 and 1 on paper: evenly between ``low`` and ``high``, or in
    log-odds.

    >>> Axis(-1.0, 1.0)(0.5), Axis(-1.0, 1.0).ticks()[0]
    (0.75, (-1.0, '−1.0'))
    >>> float(round(Axis(0.001, 0.999, log_odds=True)(0.5), 6))
    0.5
    """

    low: float = 0.0
    high: float = 1.0
    log_odds: bool = False

    @classmethod
    def around(cls, values: Iterable[float], least: float = 0.01) -> Axis:
        """Space for all values; a spread below ``least`` must not look large."""
        finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
        middle = (min(finite) + max(finite)) / 2
        half = 0.54 * max(max(finite) - min(finite), least)
        return cls(middle - half, middle + half)

    @classmethod
    def of_thresholds(cls, p: Floats, thresholds: Sequence[float]) -> Axis:
        """Of scores ``p``: in log-odds if a threshold is so near to 0 or 1 that it would not show
        on an even axis."""
        if all(_EDGE <= t <= 1 - _EDGE for t in thresholds):
            return cls()
        low = min(float(np.quantile(p, 0.02)), 0.4, *(t / 3 for t in thresholds))
        high = max(float(np.quantile(p, 0.999)), 0.6, *(1 - (1 - t) / 3 for t in thresholds))
        return cls(max(low, _NEAREST), min(high, 1 - _NEAREST), log_odds=True)

    @overload
    def __call__(self, value: float) -> float: ...
    @overload
    def __call__(self, value: Floats) -> Floats: ...
    def __call__(self, value: float | Floats) -> float | Floats:
        low, high = self._ends
        if self.log_odds:
            value = _logit(np.clip(value, self.low, self.high))
        return (value - low) / (high - low)

    def inverse(self, positions: Floats) -> Floats:
        """The value at each position."""
        low, high = self._ends
        value = low + positions * (high - low)
        return 1 / (1 + np.exp(-value)) if self.log_odds else value

    @property
    def _ends(self) -> tuple[float, float]:
        return (_logit(self.low), _logit(self.high)) if self.log_odds else (self.low, self.high)

    def stops(self, steps: int) -> Floats:
        """Thresholds that the slider can reach, evenly apart, in few digits."""
        positions = np.arange(1, steps) / steps
        if not self.log_odds:
            return positions
        values = self.inverse(positions).tolist()
        return np.unique([round(t, 2 - math.floor(math.log10(min(t, 1 - t)))) for t in values])

    def ticks(self, write: Callable[[float, int], str] = formats.number) -> Ticks:
        """Round values with their texts, all with the same number of decimals."""
        if self.log_odds:
            return self._odds_ticks()
        values = nice_ticks(self.low, self.high)
        digits = max((len(f"{t:g}".partition(".")[2]) for t in values), default=0)
        return [(t, write(t, digits)) for t in values]

    def _odds_ticks(self) -> Ticks:
        for step in (1, 2, 3):  # a phone has space for six texts
            low = [10.0**-k for k in range(1, 7, step)]
            values = [*reversed(low), 0.5, *(1 - t for t in low)]
            inside = [t for t in values if self.low <= t <= self.high]
            if len(inside) <= 6:
                break
        return [(t, f"{t:.6f}".rstrip("0")) for t in inside]


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``.

    >>> nice_ticks(0.63, 0.78)
    [0.65, 0.7, 0.75]
    """
    raw = (high - low) / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(m * base for m in (1, 2, 2.5, 5, 10) if m * base >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 10) + 0.0 for k in range(first, last + 1)]


@dataclass(frozen=True)
class IntervalRow:
    """A row of a plot of intervals: a mean, the ends of its interval, and every split.

    ``accent``: drawn in the color of what is trained for the metric, or of a significant gain.
    """

    id: str
    accent: bool
    mean: float
    low: float | None
    high: float | None
    points: Sequence[float] = ()


def score_rows(candidates: Iterable[CandidateResult]) -> list[IntervalRow]:
    """The scores of every candidate that has some."""
    return [
        IntervalRow(c.id, c.family == "metric", c.mean, c.low, c.high, c.scores)
        for c in candidates
        if c.mean is not None
    ]


def difference_rows(candidates: Iterable[CandidateResult]) -> list[IntervalRow]:
    """The difference of every candidate to the reference, which has none."""
    return [
        IntervalRow(c.id, c.family == "metric", d.mean, d.low, d.high)
        for c in candidates
        if (d := c.difference) is not None
    ]


def gain_rows(gains: Gains) -> list[IntervalRow]:
    """The gain of every stage over the one before, and of the last over the first (``"all"``)."""
    stages = [(stage.id, stage.gain) for stage in gains.stages if stage.gain is not None]
    rows = [*stages, ("all", gains.total)]
    return [IntervalRow(key, d.significant, d.mean, d.low, d.high) for key, d in rows]


@overload
def _logit(t: float) -> float: ...
@overload
def _logit(t: Floats) -> Floats: ...
def _logit(t: float | Floats) -> float | Floats:
    return np.log(t) - np.log1p(-np.asarray(t))


# --- SVG ------------------------------------------------------------------------------------------


def tag(name: str, *inside: str, **attributes: Attribute) -> str:
    """An element. ``class_`` stands for ``class``, ``_`` in names for ``-``.

    >>> tag("line", x1="3%", class_="grid")
    '<line x1="3%" class="grid"/>'
    """
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, 100_000)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{''.join(inside)}</{name}>" if inside else f"<{name}{text}/>"


def percent(value: float) -> str:
    """A position across."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def path(x: ArrayLike, y: ArrayLike, most: int = 400) -> str:
    """Points in [0, 1] x [0, 1] as the ``d`` of a path in the inner picture, at most ``most``.

    >>> path([0, 0.5, 1], [0, 1, 1])
    'M0 4000L2000 0 4000 0'
    """
    points = np.stack([np.asarray(x, float), 1 - np.asarray(y, float)], -1)
    points = points[np.isfinite(points).all(-1)]
    if not len(points):
        return "M0 0"
    units = np.clip((points * UNIT).round(), -UNIT, 2 * UNIT).astype(int)
    units = units[np.append(True, (units[1:] != units[:-1]).any(-1))]
    if len(units) > most:
        # Evenly along the curve, not along the rows, so that steep parts keep their shape.
        length = np.append(0, np.cumsum(np.hypot(*np.diff(units, axis=0).T.astype(float))))
        along = np.linspace(0, length[-1], most)
        units = units[np.unique(np.searchsorted(length, along - 1e-9))]
    return "M" + "L".join([_point(units[0]), " ".join(map(_point, units[1:]))]).rstrip("L")


def _point(p: Ints) -> str:
    return f"{p[0]} {p[1]}"


def dots(x: ArrayLike, y: ArrayLike) -> str:
    """Points as a path of no length: its round ends stay round when the picture is stretched."""
    numbers = path(x, y)[1:].replace("L", " ").split()
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return "".join(f"M{a} {b}h0" for a, b in pairs)


def area(x: ArrayLike, low: ArrayLike, high: ArrayLike) -> str:
    """The ``d`` of the area between two curves over the same positions."""
    across, down, up = (np.asarray(a, float) for a in (x, low, high))
    return path(np.append(across, across[::-1]), np.append(up, down[::-1]), most=10**6) + "Z"


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
        """The position of a value in per cent of the whole picture."""
        return percent(self.left + self.width * float(self.x(value)))

    def down(self, value: float) -> float:
        """The position of a value in pixels."""
        return round(self.top + self.height * (1 - float(self.y(value))), 2)

    def curve(
        self, x: ArrayLike, y: ArrayLike, class_: str, *, most: int = 400, **attributes: Attribute
    ) -> None:
        """A line through points."""
        d = path(self.x(np.asarray(x, float)), self.y(np.asarray(y, float)), most)
        self.shape(d, f"curve {class_}", **attributes)

    def shape(self, d: str, class_: str, **attributes: Attribute) -> None:
        """A path in units of the inner picture."""
        self._inner.append(tag("path", d=d, class_=class_, **attributes))

    def dot(self, x: float, y: float, class_: str, r: float = 4, **attributes: Attribute) -> None:
        """A round mark."""
        cx, cy = self.across(x), self.down(y)
        self._outer.append(tag("circle", cx=cx, cy=cy, r=round(r, 2), class_=class_, **attributes))

    def upright(self, x: float, class_: str, **attributes: Attribute) -> None:
        """A vertical line from bottom to top."""
        at, y2 = self.across(x), self.top + self.height
        line = tag("line", x1=at, x2=at, y1=self.top, y2=y2, class_=class_, **attributes)
        self._outer.append(line)

    def text(
        self, x: float, y: float, words: str, class_: str = "", **attributes: Attribute
    ) -> None:
        """Words at a position, escaped."""
        x_, y_ = self.across(x), self.down(y)
        self._outer.append(tag("text", escape(words, 80), x=x_, y=y_, class_=class_, **attributes))

    def __str__(self) -> str:
        bottom = self.top + self.height
        for value, words in self.y.ticks() if self.y_ticks is None else self.y_ticks:
            y = self.down(value)
            left, right = percent(self.left), percent(100 - self.right)
            self._behind.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
            text = tag("text", escape(words), x=left, y=y, dx=-7, dy="0.32em", class_="tick end")
            self._behind.append(text)
        for value, words in self.x.ticks() if self.x_ticks is None else self.x_ticks:
            x = self.across(value)
            text = tag("text", escape(words), x=x, y=bottom, dy="1.35em", class_="tick middle")
            self._behind.append(text)
        names = []
        if self.y_name:
            names.append(
                tag("text", escape(self.y_name), x=percent(self.left), y=12, class_="axis")
            )
        if self.x_name:
            x = percent(100 - self.right)
            text = tag("text", escape(self.x_name), x=x, y=bottom, dy="2.75em", class_="axis end")
            names.append(text)
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


# --- rows of intervals ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Forest:
    """Rows of intervals on one axis, as drawings by their ids, and that axis below them."""

    rows: dict[str, str]
    axis: str


def forest(rows: Sequence[IntervalRow], *, difference: bool = False) -> Forest:
    """Every row in one line: each split a tick, the interval a bar, the mean a dot."""
    values = [v for r in rows for v in (r.mean, r.low, r.high, *r.points) if v is not None]
    axis = Axis.around([*values, 0.0] if difference else values)
    ticks = axis.ticks(formats.signed if difference else formats.number)

    def at(value: float) -> str:
        return percent(100 * axis(value))

    def upright(value: float, class_: str, y1: int = 0, y2: int = 34) -> str:
        return tag("line", x1=at(value), x2=at(value), y1=y1, y2=y2, class_=class_)

    behind = [upright(t, "grid") for t, _ in ticks] + [upright(0.0, "zero")] * difference
    drawn = {}
    for row in rows:
        color = color_of(row.accent)
        shapes = [upright(v, f"split {color}", 13, 21) for v in row.points]
        if row.low is not None and row.high is not None:
            ends = at(row.low), at(row.high)
            shapes.append(
                tag("line", x1=ends[0], x2=ends[1], y1=17, y2=17, class_=f"interval {color}")
            )
        shapes.append(tag("circle", cx=at(row.mean), cy=17, r=5, class_=f"mean {color}"))
        drawn[row.id] = _strip(34, *behind, *shapes)
    labels = [
        tag("text", words, x=at(t), y=14, class_="tick middle")
        for t, words in ticks
        if 0.03 < axis(t) < 0.97
    ]
    return Forest(drawn, _strip(20, *labels))


def _strip(height: int, *shapes: str) -> str:
    """A drawing as wide as its cell of a table."""
    shapes = shapes or ("",)
    return tag("svg", *shapes, class_="row", width="100%", height=height, aria_hidden="true")


def color_of(accent: bool) -> str:
    """The class that gives a candidate or a gain its color."""
    return "ours" if accent else "theirs"
