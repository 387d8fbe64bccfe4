"""The pictures of the pages, drawn from results: verdicts, published against measured, F1 against
the threshold, and the curves of paper 004."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from softset_papers.kinds.thresholds import THRESHOLDS
from softset_papers.pages.figures import to_svg
from softset_papers.pages.summary import TRAINED, summarize
from softset_papers.results import Record
from softset_papers.specification import Table, Value
from softset_papers.tables import all_tables
from softset_papers.verdicts.claims import Judged
from softset_papers.verdicts.rule import (
    AS_PUBLISHED,
    AT_HALF,
    FAILS,
    HOLDS,
    PUBLISHED,
    UNTESTED,
    VERDICTS,
    Cell,
    Evidence,
    why_reduced,
)

PAPERS = ("000", "001", "002", "003", "004")
COLORS = {
    HOLDS: "#2a7f3f",
    AT_HALF: "#8fbf6f",
    AS_PUBLISHED: "#e0b43a",
    FAILS: "#b8433a",
    UNTESTED: "#c9ccd1",
}
_NEAR, _FAR, _OTHER = "#2b6cb0", "#b8433a", "#9aa0a6"


def draw_pictures(records: Sequence[Record], judged: Sequence[Judged]) -> dict[str, str]:
    """Every picture by the name of its file."""
    found = {"verdicts": draw_verdicts(judged)}
    for paper in PAPERS:
        dots = draw_dots(paper, records)
        if dots:
            found[f"dots-{paper}"] = dots
    found |= {"000-thresholds": draw_thresholds(records)}
    for name in ("004-figures-2-to-4", "004-figures-5-to-7"):
        figures = summarize(all_tables()[name], records, "fair").figures()
        found |= {f"{name}-{i}": svg for i, svg in enumerate(figures, 1)}
    return {name: svg for name, svg in found.items() if svg}


# --- verdicts -------------------------------------------------------------------------------------


def draw_verdicts(judged: Sequence[Judged]) -> str:
    """A square for each claim, by paper and verdict."""

    def paint(page: Any) -> None:
        axes = page.subplots()
        for y, paper in enumerate(PAPERS):
            own = [j for j in judged if j.claim.paper.startswith(paper)]
            verdicts = sorted((j.verdict for j in own), key=VERDICTS.index)
            for x, verdict in enumerate(verdicts):
                axes.add_patch(_square(x, y, COLORS[verdict]))
            axes.text(-0.6, y, f"paper {paper}", ha="right", va="center")
        most = max(sum(j.claim.paper.startswith(p) for j in judged) for p in PAPERS)
        bottom, legend = len(PAPERS) + 0.7, 16.0  # squares for each word of the legend
        for i, (verdict, color) in enumerate(COLORS.items()):
            left, down = legend * (i % 3), bottom + 1.3 * (i // 3)
            axes.add_patch(_square(left, down, color))
            text = f"{verdict}: {sum(j.verdict == verdict for j in judged)}"
            axes.text(left + 0.9, down, text, va="center")
        axes.set(xlim=(-6.5, max(most, 3 * legend)), ylim=(bottom + 2.1, -0.6), aspect="equal")
        axes.axis("off")

    return to_svg("verdicts", (9, 1.7), paint)


def _square(x: float, y: float, color: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.42, y - 0.42), 0.84, 0.84, color=color)


# --- published against measured -------------------------------------------------------------------


def dots_of(table: Table, evidence: Evidence) -> list[tuple[Value, Value, bool, bool]]:
    """Published and measured values, whether they are apart, and whether the row decides nothing.

    As the rule judges what was published: as the authors' code judges and trains, and Adult as it
    reads it, where we have such rows.
    """
    shown = summarize(table, evidence.records, PUBLISHED.protocol).shown
    dots = []
    for block, row in itertools.product(table.blocks, table.rows):
        if block.of or row.of:
            continue  # it stands for another
        (used,) = evidence.judged([Cell(table.id, block.key, row.id)], PUBLISHED)
        for s in shown.get(used.block, ()):
            if s.row.id == used.row:
                reduced = bool(why_reduced(s, table))
                dots += [
                    (cell.published, cell.measured, cell.marked, reduced)
                    for cell in s.cells.values()
                    if cell.published and cell.measured
                ]
    return dots


def draw_dots(paper: str, records: Sequence[Record]) -> str:
    """A panel for each table of trained rows: published across, measured up; empty if none."""
    evidence = Evidence(records)
    panels = []
    for table in evidence.tables.values():
        if table.id.startswith(paper) and table.kind in TRAINED:
            dots = dots_of(table, evidence)
            if dots:
                panels.append((table.id, dots))
    if not panels:
        return ""
    across = min(5, len(panels))
    down = math.ceil(len(panels) / across)

    def paint(page: Any) -> None:
        grid = page.subplots(down, across, squeeze=False).flat
        for axes in grid:
            axes.axis("off")
        for axes, (name, dots) in zip(page.axes, panels, strict=False):
            axes.axis("on")
            low = min(0.0, *(min(p.mean, m.mean) for p, m, *_ in dots))
            axes.plot([low, 1], [low, 1], color="0.8", linewidth=1, zorder=0)
            for color in (_OTHER, _NEAR, _FAR):
                own = [
                    (p.mean, m.mean)
                    for p, m, apart, reduced in dots
                    if color == (_OTHER if reduced else _FAR if apart else _NEAR)
                ]
                if own:
                    axes.plot(*zip(*own, strict=True), "o", markersize=3, color=color, alpha=0.8,
                              markeredgewidth=0)  # fmt: skip
            whole = sum(not r for *_, r in dots)
            agree = sum(not (a or r) for _, _, a, r in dots)
            words = f"{agree} of {whole} agree" if whole else "reduced"
            axes.set_title(f"{name}\n{words}", fontsize=8)
            axes.tick_params(labelsize=7)
        page.supxlabel("published", fontsize=8)
        page.supylabel("measured, judged as published", fontsize=8)

    return to_svg(f"dots-{paper}", (2.1 * across + 0.4, 2.2 * down + 0.3), paint)


# --- F1 against the threshold ---------------------------------------------------------------------


def draw_thresholds(records: Sequence[Record]) -> str:
    """F1 of soft F1 and of cross-entropy at every threshold; empty if it was not run."""
    table = all_tables()["000-thresholds"]
    shown = summarize(table, records, "fair").shown
    panels = [(b.title, shown[b.key]) for b in table.blocks if shown[b.key]]
    if not panels:
        return ""

    def paint(page: Any) -> None:
        for axes, (title, rows) in zip(
            page.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            axes.axvspan(0.1, 0.9, color="0.95", zorder=0)
            axes.axvline(0.5, color="0.7", linewidth=1)
            for s, color in zip(rows, (_NEAR, "#d97706"), strict=True):
                axes.plot(THRESHOLDS, s.records[0].result["f1"], color=color, label=s.row.label)
            axes.set(title=title, xlabel="threshold", ylabel="F1 on test rows", xlim=(0, 1))
            axes.legend(fontsize=8, loc="lower center")

    return to_svg("000-thresholds", (4.2 * len(panels), 2.8), paint)
