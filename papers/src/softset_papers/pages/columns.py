"""A table with all protocols side by side: a line for each loss and metric, a column for each way
to judge."""

from __future__ import annotations

from collections.abc import Sequence

from softset_papers.judging import PROTOCOLS
from softset_papers.pages.layout import (
    Grid,
    cell_text,
    column_name,
    footer,
    grids,
    line,
    row_label,
)
from softset_papers.pages.summary import Cell, Summary, summarize
from softset_papers.results import Record
from softset_papers.specification import Block, Table

_HEADS = {
    "published": "published",
    "text": "as the text judges",
    "code": "as the code judges",
    "half": "at 0.5",
    "tuned": "tuned",
}
_EXPLAINED = (
    "*As the text judges*: the mean over thresholds 0.1 … 0.9, on probabilities, and AUROC of the "
    "decisions. *As the code judges*: the same, with the logits of BCE, WMW, adversarial and Dice "
    "thresholded at 0.1 … 0.9. *At 0.5* and *tuned* (on validation rows): AUROC is exact; macro F1 "
    "is the mean over both classes."
)
_ARGMAX = "*At 0.5* is the decision for the largest probability, as the paper judges."


def folded(table: Table, records: Sequence[Record]) -> str:
    """The table in a fold, with how it was made."""
    summaries = {protocol: summarize(table, records, protocol) for protocol in PROTOCOLS}
    fair = summaries["fair"]
    argmax = any(row.options().get("judged") == "argmax" for row in table.rows)
    found = _columns(summaries, argmax) if table.kind == "train" else grids(fair)
    chosen = [g for g in grids(fair) if g[0].startswith("What the search")]
    found += chosen if table.kind == "train" else []
    parts = []
    if table.kind == "train":
        parts.append(_ARGMAX if argmax else _EXPLAINED)
    parts += [table.note] * bool(table.note)
    for caption, head, body in found:
        parts.append("\n".join([f"**{caption}**", "", *_markdown(head, body)]))
    parts += footer(fair)
    inside = "\n\n".join(parts)
    title = f"All numbers of {table.id}"
    return f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"


def _markdown(head: list[str], body: list[list[str]]) -> list[str]:
    return [line(head), line(["---"] * len(head)), *(line(row) for row in body)]


def _columns(summaries: dict[str, Summary], argmax: bool) -> list[Grid]:
    blocks = summaries["fair"].table.blocks
    return [
        _block(summaries, block, argmax) for block in blocks if summaries["fair"].shown[block.key]
    ]


def _block(summaries: dict[str, Summary], block: Block, argmax: bool) -> Grid:
    fair, text, code = (summaries[p] for p in ("fair", "published", "code"))
    rows = fair.shown[block.key]
    lines: list[dict[str, str]] = []
    for s in rows:
        others = [
            next((o for o in summary.shown[block.key] if o.row.id == s.row.id), None)
            for summary in (text, code)
        ]
        label = row_label(s, fair.table)
        for metric in fair.metrics:
            cell = s.cells[metric]
            by_text, by_code = (None if o is None else o.cells.get(metric) for o in others)
            if not (cell.published or cell.measured):
                continue
            lines.append(
                {
                    "loss": label,
                    "metric": column_name(metric),
                    "published": cell_text(cell, "published"),
                    "text": "" if argmax else _measured(by_text),
                    "code": "" if argmax else _measured(by_code),
                    "half": cell_text(cell, "measured") if argmax else _plain(cell),
                    "tuned": cell_text(cell, "tuned"),
                }
            )
            label = ""  # of the first line alone
    names = [name for name in _HEADS if any(entry[name] for entry in lines)]
    head = ["loss", "metric", *(_HEADS[name] for name in names)]
    body = [[entry["loss"], entry["metric"], *(entry[n] for n in names)] for entry in lines]
    return block.title + (" (not in the paper)" if block.extra else ""), head, body


def _measured(cell: Cell | None) -> str:
    return "" if cell is None else cell_text(cell, "measured")


def _plain(cell: Cell) -> str:
    """Without a mark: what is marked is the way in which the paper judged."""
    return cell_text(cell, "measured").removesuffix(" ✱")
