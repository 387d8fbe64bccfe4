"""Figures, as SVG: the steps and their slopes (paper 000 supplement, figures 2 to 4), what a loss
says to each class (paper 004, figure 1), and curves of trained networks (its figures 2 to 7)."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softset.counting.steps import LinearStep, SigmoidStep, Step
from softset.losses.pointwise import CrossEntropyLoss, MeanAbsoluteErrorLoss
from softset.losses.surrogate import SurrogateFBetaLoss
from softset_papers.kinds.context import Context
from softset_papers.kinds.curves import POINTS
from softset_papers.specification import Row

_TAUS = (0.1, 0.3, 0.5, 0.7, 0.9)
_KS = (1, 10, 20, 50)
_DELTAS = (0.0, 0.5, 0.1)
_BETAS = (0.5, 1.0, 2.0, 3.0)

Curve = tuple[list[float], list[float]]
Panel = tuple[str, str, dict[str, Curve]]  # title, what is on the x-axis, curves by label


def curve(step: Step, tau: float, slope: bool = False) -> Curve:
    """``p`` and the step (or its slope) at 501 points.

    >>> p, h = curve(LinearStep(0.1), 0.5)
    >>> p[250], round(h[250], 6)
    (0.5, 0.5)
    """
    p = torch.linspace(0, 1, 501, dtype=torch.float64, requires_grad=True)
    h = step(p, tau)
    if slope:
        (h,) = torch.autograd.grad(h.sum(), p)
    return p.tolist(), h.tolist()


def _half_of_mae(scores: Tensor, target: Tensor) -> Tensor:
    """Figure 1 of paper 004 draws MAE as q, half of its equation 14."""
    return MeanAbsoluteErrorLoss()(scores, target) / 2


def term(loss: Callable[[Tensor, Tensor], Tensor], positive: bool) -> Curve:
    """How wrong an example is, ``q``, and its loss: of a positive with probability ``1 - q``, or of
    a negative with ``q`` (paper 004 eq. 16, 18 and 21).

    >>> q, value = term(CrossEntropyLoss(), positive=True)
    >>> round(q[99], 2), round(value[99], 4)
    (0.5, 0.6931)
    """
    q = torch.linspace(0.005, 0.985, 197, dtype=torch.float64)
    z = torch.logit(1 - q if positive else q)
    y = torch.tensor([float(positive)], dtype=torch.float64)
    return q.tolist(), [float(loss(one.unsqueeze(0), y)) for one in z]


def panels(figure: str) -> list[Panel]:
    """What ``000-figure-2``, ``-3``, ``-4`` or ``004-figure-1`` shows."""
    if figure == "004-figure-1":
        losses: dict[str, Any] = {"BCE": CrossEntropyLoss(), "MAE": _half_of_mae}
        # beta is in what is said to negatives alone.
        surrogates = {
            f"surrogate, β = {b:g}": SurrogateFBetaLoss(0.5, b, class_balanced=False)
            for b in _BETAS
        }
        first = losses | {"surrogate (on BCE)": next(iter(surrogates.values()))}
        return [
            ("positives", "q0", {name: term(loss, True) for name, loss in first.items()}),
            ("negatives, p = 0.5", "q1",
             {name: term(loss, False) for name, loss in (losses | surrogates).items()}),
        ]  # fmt: skip
    steps: list[tuple[str, Step]] = (
        [(f"delta = {d:g}", LinearStep(d)) for d in _DELTAS]
        if figure == "000-figure-4"
        else [(f"k = {k}", SigmoidStep(k)) for k in _KS]
    )
    slope = figure == "000-figure-3"
    return [
        (title, "p", {f"threshold {tau:g}": curve(step, tau, slope) for tau in _TAUS})
        for title, step in steps
    ]


def draw(figure: str) -> str:
    """The SVG text of a figure."""
    found = panels(figure)

    def paint(page: Any) -> None:
        for axes, (title, x, curves) in zip(page.subplots(1, len(found)), found, strict=True):
            for label, points in curves.items():
                dashed = "--" if "(on BCE)" in label else "-"
                axes.plot(*points, dashed, label=label, linewidth=1)
            axes.set(title=title, xlabel=x, xlim=(0, 1))
            if title == found[-1][0] or curves.keys() != found[-1][2].keys():
                axes.legend(fontsize=6, ncols=1 + (len(curves) > 5))

    return to_svg(figure, (3 * max(3, len(found)), 2.8), paint)


def to_svg(name: str, size: tuple[float, float], paint: Callable[[Any], None]) -> str:
    """What ``paint`` draws on a page of so many inches; the same text whenever it is drawn."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("figures need matplotlib. Install softset[report].") from error
    with matplotlib.rc_context({"svg.hashsalt": name, "font.size": 9}):
        page = Figure(figsize=size, layout="constrained")
        paint(page)
        out = io.StringIO()
        page.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


# --- curves of paper 004 ------------------------------------------------------------------------


Drawn = list[tuple[Row, dict[str, Any]]]  # rows of a table, each with the result of its run


def draw_all(drawn: Drawn) -> list[str]:
    """Convergence of all rows, then loss against score for each loss that has several betas."""
    found = [draw_curves(drawn)]
    for loss in dict.fromkeys(_loss(row) for row, _ in drawn):
        own = [(row, result) for row, result in drawn if _loss(row) == loss]
        if "beta" in own[0][0].settings:
            found.append(draw_scatter(own))
    return found


def _loss(row: Row) -> tuple[Any, Any]:
    """What tells losses apart, whatever their beta."""
    options = row.options()
    return options.get("loss"), options.get("balanced")


def draw_curves(drawn: Drawn) -> str:
    """The SVG of convergence, as small multiples: a column for each loss, a row for each measure.

    Medians over the repeats; a color for each beta.
    """
    losses = list(dict.fromkeys(_loss(row) for row, _ in drawn))
    betas = sorted({row.options()["beta"] for row, _ in drawn if "beta" in row.settings})
    colors = {beta: f"C{i}" for i, beta in enumerate(betas)}

    def paint(page: Any) -> None:
        grid = page.subplots(3, len(losses), squeeze=False, sharex=True, sharey="row")
        for across, loss in enumerate(losses):
            own = [(row, result) for row, result in drawn if _loss(row) == loss]
            for down, name in enumerate(POINTS[2:]):
                axes = grid[down][across]
                for row, result in own:
                    median = np.median([c[name] for c in result["curves"]], axis=0)
                    beta = row.options().get("beta")
                    color, label = colors.get(beta, "0.3"), f"β = {beta:g}" if beta else ""
                    axes.plot(range(1, len(median) + 1), median, color=color, linewidth=1,
                              label=label)  # fmt: skip
                axes.tick_params(labelsize=7)
                if down == 0:
                    axes.set_title(own[0][0].label.partition(", β")[0], fontsize=8)
                if across == 0:
                    axes.set_ylabel(name, fontsize=8)
            grid[-1][across].set_xlabel("epoch", fontsize=8)
        handles, labels = grid[0][0].get_legend_handles_labels()
        page.legend(handles, labels, loc="outside upper center", ncols=len(betas), fontsize=8)

    return to_svg("curves", (2.1 * len(losses), 5.2), paint)


def draw_scatter(drawn: Drawn) -> str:
    """The SVG of loss against score, a panel for each row: the first repeat, late epochs darker."""

    def paint(page: Any) -> None:
        panels = page.subplots(1, len(drawn), squeeze=False)[0]
        for axes, (row, result) in zip(panels, drawn, strict=True):
            first = result["curves"][0]
            r = result["values"]["fair"]["correlation"][0]
            text = "undefined" if r is None else f"{r:.2f}"
            shade = np.linspace(0.15, 1, len(first["loss"]))
            axes.scatter(first["loss"], first["score"], c=shade, cmap="Blues", vmin=0, s=14,
                         edgecolors="0.4", linewidths=0.4)  # fmt: skip
            axes.set(title=f"{row.label}\nr = {text}", xlabel="loss", ylabel="score")
            axes.title.set_fontsize(8)

    return to_svg("scatter", (2.5 * len(drawn), 2.6), paint)


def figure_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """The figure, as text."""
    del context
    return {"values": {}, "svg": draw(run["figure"])}
