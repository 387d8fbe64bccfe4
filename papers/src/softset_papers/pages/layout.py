"""A table as Markdown and as an HTML page, published and measured side by side."""

from __future__ import annotations

import base64
import math
import re
import statistics
from collections.abc import Sequence
from typing import Any

from softset import __version__
from softset.formats import escape
from softset.metrics.registry import label_of
from softset.report.layout import page
from softset_papers.networks.searched import TIE
from softset_papers.pages.summary import TRAINED, Cell, Shown, Summary, has_networks
from softset_papers.results import Record
from softset_papers.specification import SOURCES, Block, Table, Value, sources
from softset_papers.theory.page import claim_grid, claims_page

MARK = "✱"
_EXPLAINED = {
    "fair": (
        "Protocol fair: probabilities, at threshold 0.5 and at one tuned on validation; AUROC is "
        "exact. F1 is that of the positive class; macro is the mean over both classes."
    ),
    "published": (
        "Protocol published: the mean over thresholds 0.1 … 0.9, on probabilities, as the text of "
        "the paper says; AUROC is that of the decisions, as in its tables."
    ),
    "code": (
        "Protocol code: as published, but the logits of BCE, WMW, adversarial and Dice are "
        "thresholded at 0.1 … 0.9, as in the paper's code."
    ),
}
_ARGMAX = "Protocol published: the decision for the largest probability, as papers 002 and 003 say."
# Columns that are no metrics of softset.
_NAMES = {"share": "%", "train share": "train %", "f1 other": "F1 other"}


def column_name(metric: str) -> str:
    """A column as it is called: a metric by softset's label, anything else by its own words."""
    return _NAMES.get(metric) or label_of(metric.replace(" ", "_")).replace("_", " ")


def _explained(summary: Summary) -> str:
    if summary.table.kind != "train":
        return ""
    argmax = any(row.options().get("judged") == "argmax" for row in summary.table.rows)
    return _ARGMAX if argmax and summary.protocol != "fair" else _EXPLAINED[summary.protocol]


# --- Markdown and HTML ----------------------------------------------------------------------------


def to_markdown(summary: Summary, heading: bool = True) -> str:
    """The table, a heading and lines on how it was made."""
    table = summary.table
    if table.kind == "claim":
        return claims_page(summary.claims, f"softset paper run {table.id}")
    parts = [f"### {table.id}: {table.title}", ""] if heading else []
    parts += [line for text in (_explained(summary), table.note) if text for line in (text, "")]
    for caption, head, body in grids(summary):
        parts += [f"**{caption}**", "", line(head), line(["---"] * len(head))]
        parts += [line(row) for row in body] + [""]
    parts += ["\n\n".join(footer(summary))]
    return "\n".join(parts) + "\n"


def to_html(summaries: Sequence[Summary], title: str = "The papers' tables") -> str:
    """One self-contained page in the style of our reports: nothing comes from elsewhere."""
    parts = []
    for summary in summaries:
        table = summary.table
        if table.kind == "claim":
            parts += [_html_claim(claim.result) for claim in summary.claims]
            continue
        parts.append(f"<h2>{escape(table.id)}: {escape(table.title)}</h2>")
        texts = [_explained(summary), table.note]
        parts += [f"<p>{escape(t, 2000)}</p>" for t in texts if t]
        parts += [_image(figure, table.title) for figure in summary.figures()]
        parts += [_html_table(*grid) for grid in grids(summary)]
        parts += [f"<p class='muted'>{_code(escape(t, 4000))}</p>" for t in footer(summary)]
    top = f"<p class='eyebrow'><b>softset</b> {escape(__version__)}</p><h1>{escape(title)}</h1>"
    return page(title, "\n".join([top, *parts]))


def _html_claim(claim: dict[str, Any]) -> str:
    head, body = claim_grid(claim)
    table = _html_table(f"{claim['title']} (paper {claim['paper']}, {claim['id']})", head, body)
    return f"{table}<p>{escape(claim['caveat'], 2000)}</p>"


def _code(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", text)


def _image(svg: str, text: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return f"<img width='100%' alt='{escape(text)}' src='data:image/svg+xml;base64,{data}'>"


def _html_table(caption: str, head: list[str], body: list[list[str]]) -> str:
    top = f"<th scope='col'>{escape(head[0])}</th>"
    top += "".join(f"<th scope='col' class='num'>{escape(text)}</th>" for text in head[1:])
    lines = []
    for row in body:
        cells = "".join(
            f"<td class='{'num differs' if MARK in c else 'num'}'>{escape(c)}</td>" for c in row[1:]
        )
        lines.append(f"<tr><th scope='row'>{escape(row[0])}</th>{cells}</tr>")
    return (
        f"<div class='scroll'><table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def line(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


# --- cells as text --------------------------------------------------------------------------------

Grid = tuple[str, list[str], list[list[str]]]  # caption, head, body


def grids(summary: Summary) -> list[Grid]:
    """A grid for each block that has rows, and what a search chose."""
    blocks = [(block, summary.shown[block.key]) for block in summary.table.blocks]
    found = [_grid(summary, block, rows) for block, rows in blocks if rows]
    searched = [
        s for _, rows in blocks for s in rows if any("chosen" in r.result for r in s.records)
    ]
    return [*found, _chosen(searched)] if searched else found


def _grid(summary: Summary, block: Block, rows: list[Shown]) -> Grid:
    """For each metric what was published, and what we measured."""
    named = summary.table.kind == "train" or any(s.row.label for s in rows)
    head, picks = (["loss"] if named else []), []
    for metric in summary.metrics:
        name = column_name(metric)
        present = [s.cells[metric] for s in rows]
        fair = any(c.tuned for c in present)
        if any(c.published for c in present):
            head.append(f"{name} published")
            picks.append((metric, "published"))
        head.append(f"{name} {block.untuned}" if fair else f"{name} measured")
        picks.append((metric, "measured"))
        if fair:
            head.append(f"{name} tuned")
            picks.append((metric, "tuned"))
    body = []
    for s in rows:
        line = [row_label(s, summary.table)] if named else []
        line += [cell_text(s.cells[metric], which) for metric, which in picks]
        body.append(line)
    return block.title + (" (not in the paper)" if block.extra else ""), head, body


def row_label(s: Shown, table: Table) -> str:
    """A row by its name, and what must be said of it."""
    words = ["not in the paper"] * s.row.extra
    words += [s.short] * bool(s.short)
    words += [f"{s.trials} networks"] * (_unusual(s, table) and not s.short)
    words += ["the paper's settings"] * s.full
    if s.block.updates and not s.full:
        words.append(f"{_updates(s):,} updates, the paper's {s.block.updates:,}")
    if s.records:
        words += [f"run again: {s.stale}"] * bool(s.stale)
        words += ["trained without the weights"] * (s.row.unweighted and s.block.weighted)
        words += [f"{len(s.records)} splits"] * (s.row.splits not in (None, s.block.splits))
    return f"{s.row.label} ({'; '.join(words)})" if words else s.row.label


def _updates(s: Shown) -> int:
    """How many updates a network of curves had."""
    options = s.records[0].run["options"] if s.records else s.row.options(s.block)
    return int(options["max_epochs"] * math.ceil(options["images"][0] / options["batch_size"]))


def _unusual(s: Shown, table: Table) -> bool:
    """Whether it has another number of networks than the table's rows have."""
    return bool(s.records) and has_networks(table, s.row) and s.trials != table.trials


def cell_text(cell: Cell, which: str) -> str:
    """A value of a cell as text: ``"published"``, ``"measured"`` or ``"tuned"``."""
    value: Value | None = getattr(cell, which)
    gone = cell.undefined if which == "measured" else 0
    if value is None:
        return "undefined" if gone else ""
    if which == "published":
        return value.printed
    text = f"{value.mean:.0f}" if value.mean >= 100 else f"{value.mean:.3f}"
    if value.sd is not None:
        text += f" ± {value.sd:.3f}"
    text += f" ({gone} undefined)" if gone else ""
    return f"{text} {MARK}" if which == "measured" and cell.marked else text


def _chosen(rows: Sequence[Shown]) -> Grid:
    """The settings of each set and loss, and how long its networks were trained."""
    head = ["set", "loss", "batch", "rate", "dropout", "cooling", "settings tried", "tied"]
    head += ["validation loss", "epochs (median)", "coolings (median)"]
    body = []
    for s in rows:
        result = s.records[0].result
        found, tried = result["chosen"], result["tried"]
        best = min(t["loss"] for t in tried)
        epochs, coolings = (_all(s, name) for name in ("epochs", "coolings"))
        cooled = any(n > 0 for n in coolings)
        body.append(
            [
                s.block.title,
                s.row.label,
                f"{found['batch_size']}",
                f"{found['learning_rate']:g}",
                f"{found['dropout']:g}",
                f"{found['cooling']:g}" if cooled else "",
                f"{len(tried)}",
                f"{sum(t['loss'] <= best + TIE for t in tried)}",
                f"{best:.3f}",
                f"{statistics.median(epochs):g}",
                f"{statistics.median(coolings):g}" if cooled else "",
            ]
        )
    return "What the search chose, by validation loss", head, body


def _all(s: Shown, name: str) -> list[float]:
    """What the runs of a row say of each of their networks."""
    return [n for r in s.records for n in r.result.get(name, ())]


# --- how it was made ------------------------------------------------------------------------------


def footer(summary: Summary) -> list[str]:
    """Paragraphs: the command and its cost, caps, coolings, where the settings come from."""
    table, records = summary.table, summary.records
    command = f"`softset paper run {table.id}`"
    if table.kind == "figure":
        return [f"{command} writes the figure as SVG."]
    if not records:
        return [f"Nothing measured yet: {command}."]
    dates = ", ".join(sorted({r.result["date"] for r in records}))
    made = f"{command}, {dates}, {_commits(records)}"
    if table.kind not in (*TRAINED, "curves"):
        return [f"{made}; split 0."]
    seeds = max(max(r.run["seeds"]) for r in records)
    cpu = sum(r.cpu for r in records)
    took = f"{cpu / 60:.1f} CPU minutes" if cpu >= 60 else f"{cpu:.0f} CPU seconds"
    text = (
        f"{made}; seeds 0 to {seeds}; {len(records)} runs, {took} in all. Mean ± standard "
        f"deviation; {MARK}: further from the published value than two standard deviations of both "
        "together and 0.005."
    )
    rows = [s for block in table.blocks for s in summary.shown[block.key]]
    return [text, *_caps(rows), *_coolings(rows), *_settings(summary, rows), *_departures(rows)]


def _commits(records: Sequence[Record]) -> str:
    found = dict.fromkeys(r.result.get("commit") or "an unknown commit" for r in records)
    return f"at {', '.join(found)}"


def _caps(rows: Sequence[Shown]) -> list[str]:
    """Which rows had networks that the cap on epochs ended, not their patience."""
    hit = [
        f"{s.row.label} on {s.block.title} ({s.capped[0]} of {s.capped[1]})"
        for s in rows
        if s.capped[0]
    ]
    return [f"Ended by the cap, not by patience: {'; '.join(hit)}."] if hit else []


def _coolings(rows: Sequence[Shown]) -> list[str]:
    """How often annealed networks cooled, where no table of searched settings says it."""
    found = [
        f"{s.row.label} on {s.block.title} {statistics.median(_all(s, 'coolings')):g}"
        for s in rows
        if _all(s, "coolings") and not any("chosen" in r.result for r in s.records)
    ]
    return [f"Coolings of a network (median): {'; '.join(found)}."] if found else []


def _settings(summary: Summary, rows: Sequence[Shown]) -> list[str]:
    """Where the settings come from, and what even ``--full`` lacks of the paper's protocol."""
    reduced, full = (
        list({s.row.id: s.row for s in rows if s.records and s.full is whole}.values())
        for whole in (False, True)
    )
    parts = [f"from {SOURCES[source]}: {text}" for source, text in sources(reduced, full).items()]
    lines = [f"Settings {'; '.join(parts)}."] if parts else []
    if any(row.full for row in (*reduced, *full)):
        lacks = summary.table.lacking
        lines.append(f"`--full` runs the paper's protocol; what it lacks: {lacks}.")
    return lines


_SOFT_F = ("f1", "f2", "f3", "f1-grid", "warm")  # F-beta of the positive class


def _departures(rows: Sequence[Shown]) -> list[str]:
    """Where what we train is not literally what the papers define."""
    used = [s.row.options(s.block) for s in rows if s.records]
    ours = [o for o in used if o.get("cells") != "published" and o.get("empty") is None]
    several = any(o.get("network") == "darknet-19" for o in ours)
    found = []
    if any(o.get("loss") in _SOFT_F for o in ours) and not several:
        found.append(
            "of a batch without positives F-beta is 0 whatever is predicted, a loss of 1 without a "
            'slope; we train with `empty="penalize"`, which has one'
        )
    if several and any(o.get("loss") in ("f1", "fbeta") for o in ours):
        found.append(
            "a class that no row of a batch has counts as 0 in the papers' macro F1; we leave it "
            "out"
        )
    if any(o.get("loss") == "auroc" for o in ours):
        found.append(
            "soft AUROC is the area over 99 thresholds with both ends, the authors' code has nine "
            "thresholds and no ends"
        )
    both = "[Both on the same batches](theorems.md#theory-departures)."
    return [f"Departures: {'; '.join(found)}. {both}"] if found else []
