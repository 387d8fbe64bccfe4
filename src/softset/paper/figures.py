"""Figures 2 to 4 of paper 000's supplement: the steps and their slopes, as SVG."""

from __future__ import annotations

import io
from typing import Any

import torch

from softset.steps import LinearStep, SigmoidStep, Step

_TAUS = (0.1, 0.3, 0.5, 0.7, 0.9)
_KS = (1, 10, 20, 50)
_DELTAS = (0.0, 0.5, 0.1)


def curve(step: Step, tau: float, slope: bool = False) -> tuple[list[float], list[float]]:
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


def draw(figure: str) -> str:
    """The SVG text of ``000-figure-2``, ``-3`` or ``-4``."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError("figures need matplotlib. Install softset[report].") from error
    linear, slope = figure.endswith("4"), figure.endswith("3")
    panels: list[tuple[str, Step]] = (
        [(f"delta = {d:g}", LinearStep(d)) for d in _DELTAS]
        if linear
        else [(f"k = {k}", SigmoidStep(k)) for k in _KS]
    )
    with matplotlib.rc_context({"svg.hashsalt": figure, "font.size": 9}):
        page = Figure(figsize=(3 * len(panels), 2.8), layout="constrained")
        for axes, (title, step) in zip(page.subplots(1, len(panels)), panels, strict=True):
            for tau in _TAUS:
                axes.plot(*curve(step, tau, slope), label=f"threshold {tau:g}", linewidth=1)
            axes.set(title=title, xlabel="p", xlim=(0, 1))
        axes.legend(fontsize=6)
        out = io.StringIO()
        page.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def figure_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """The figure, as text."""
    del data_dir
    return {"values": {}, "svg": draw(run["figure"])}
