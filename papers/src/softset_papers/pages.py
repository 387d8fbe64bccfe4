"""A table as Markdown and as an HTML page, published and measured side by side."""

from __future__ import annotations

import base64
import re
import statistics
from collections.abc import Sequence
from typing import Any

from softset import __version__
from softset.report.layout import escape, page
from softset_papers.specification import Block, Row, Value, find_table
from softset_papers.summary import NAMES, TRAINED, Cell, Summary, summarise
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
        "Protocol code: as published, but the logits of BCE, WMW, adversarial and Dice are cut at "
        "0.1 … 0.9, as in the paper's code."
    ),
}
_ARGMAX = "Protocol published: the decision for the largest probability, as papers 002 and 003 say."


def _explained(summary: Summary) -> str:
    if summary.table.kind != "train":
        return ""
    argmax = any(row.options.get("judged") == "argmax" for row in summary.table.rows)
    return _ARGMAX if argmax and summary.protocol != "fair" else _EXPLAINED[summary.protocol]


def to_markdown(summary: Summary, heading: bool = True) -> str:
    """The table, a heading and a line on how it was made."""
    table = summary.table
    if table.kind == "claim":
        return claims_page(summary.claims, f"softset paper run {table.id}")
    parts = [f"### {table.id}: {table.title}", ""] if heading else []
    if table.kind == "train":
        parts += [_explained(summary), ""]
    if table.note:
        parts += [table.note, ""]
    for block in table.blocks:
        grid = _grid(summary, block)
        if grid is None:
            continue
        head, body = grid
        parts += [f"**{_title(block)}**", "", _line(head), _line(["---"] * len(head))]
        parts += [_line(row) for row in body] + [""]
    if summary.chosen:
        head, body = _chosen_grid(summary)
        parts += [f"**{_CHOSEN}**", "", _line(head), _line(["---"] * len(head))]
        parts += [_line(row) for row in body] + [""]
    parts += [_footer(summary)]
    return "\n".join(parts) + "\n"


def to_html(summaries: Sequence[Summary], title: str = "The papers' tables") -> str:
    """One self-contained page in the style of our reports: nothing comes from elsewhere."""
    parts = []
    for summary in summaries:
        table = summary.table
        if table.kind == "claim":
            parts += [_html_claim(claim) for claim in summary.claims]
            continue
        parts.append(f"<h2>{escape(table.id)}: {escape(table.title)}</h2>")
        texts = [_explained(summary), table.note]
        parts += [f"<p>{escape(t, 2000)}</p>" for t in texts if t]
        parts += [_image(figure, table.title) for figure in summary.figures]
        for block in table.blocks:
            grid = _grid(summary, block)
            if grid is not None:
                parts.append(_html_table(_title(block), *grid))
        if summary.chosen:
            parts.append(_html_table(_CHOSEN, *_chosen_grid(summary)))
        parts.append(f"<p class='muted'>{_code(escape(_footer(summary), 2000))}</p>")
    top = f"<p class='eyebrow'><b>softset</b> {escape(__version__)}</p><h1>{escape(title)}</h1>"
    return page(title, "\n".join([top, *parts]))


_PLACE = re.compile(r"(<!-- (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_in(text: str, records: Sequence[dict[str, Any]]) -> str:
    """Replace what stands between ``<!-- ID PROTOCOL -->`` and ``<!-- end -->`` by that table.

    So a page of results keeps its words and gets new numbers.
    """

    def table(place: re.Match[str]) -> str:
        summary = summarise(find_table(place[2]), records, place[3])
        return f"{place[1]}\n{to_markdown(summary, heading=False)}\n{place[4]}"

    return _PLACE.sub(table, text)


def _html_claim(claim: dict[str, Any]) -> str:
    head, body = claim_grid(claim)
    table = _html_table(f"{claim['title']} (paper {claim['paper']}, {claim['id']})", head, body)
    return f"{table}<p>{escape(claim['caveat'])}</p>"


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


_CHOSEN = "What the search chose, by validation loss"


def _chosen_grid(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """The settings of each set and loss, and how long its networks were trained."""
    head = ["set", "loss", "batch", "rate", "dropout", "cooling", "settings tried"]
    head += ["validation loss", "epochs (median)", "coolings (median)"]
    body = []
    for title, label, result in summary.chosen:
        found, tried = result["chosen"], result["tried"]
        annealed = any(result["coolings"])
        middle = [f"{statistics.median(result[name]):g}" for name in ("epochs", "coolings")]
        body.append(
            [
                title,
                label,
                f"{found['batch_size']}",
                f"{found['learning_rate']:g}",
                f"{found['dropout']:g}",
                f"{found['cooling']:g}" if annealed else "",
                f"{len(tried)}",
                f"{min(t['loss'] for t in tried):.3f}",
                middle[0],
                middle[1] if annealed else "",
            ]
        )
    return head, body


def _title(block: Block) -> str:
    return block.title + (" (not in the paper)" if block.extra else "")


def _grid(summary: Summary, block: Block) -> tuple[list[str], list[list[str]]] | None:
    """Head and body as text: for each metric what was published, and what we measured."""
    rows = summary.rows[block.key]
    if not rows:
        return None
    cells = summary.cells[block.key]
    named = summary.table.kind == "train" or any(row.label for row in rows)
    head, picks = (["loss"] if named else []), []
    for metric in summary.metrics:
        name = NAMES.get(metric, metric)
        present = [cells[row.id][metric] for row in rows]
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
    for row in rows:
        line = [_label(row, summary.shortened.get((block.key, row.id)))] if named else []
        line += [_text(cells[row.id][metric], which) for metric, which in picks]
        body.append(line)
    return head, body


def _label(row: Row, short: str | None) -> str:
    words = ["not in the paper"] * row.extra + [f"cut short: {short}"] * bool(short)
    return f"{row.label} ({'; '.join(words)})" if words else row.label


def _text(cell: Cell, which: str) -> str:
    value: Value | None = getattr(cell, which)
    if value is None:
        return ""
    large = value.mean >= 100
    printed = 2 if round(value.mean, 2) == value.mean else 3  # 000 prints two digits, 002 three
    digits = printed if which == "published" else 3
    text = f"{value.mean:.0f}" if large else f"{value.mean:.{digits}f}"
    if value.sd is not None:
        text += f" ± {value.sd:.{2 if which == 'published' else 3}f}"
    return f"{text} {MARK}" if which == "measured" and cell.marked else text


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _footer(summary: Summary) -> str:
    about, table = summary.about, summary.table
    command = f"`softset paper run {table.id}`"
    if table.kind == "figure":
        return f"{command} writes the figure as SVG."
    if not about["runs"]:
        return f"Nothing measured yet: {command}."
    if table.kind not in (*TRAINED, "curves"):
        return f"{command}, {', '.join(about['dates'])}, split 0."
    splits, cpu = about["splits"], about["cpu"]
    took = f"{cpu / 60:.1f} CPU minutes" if cpu >= 60 else f"{cpu:.0f} CPU seconds"
    text = (
        f"{command}, {', '.join(about['dates'])}; seeds 0 to {about['last seed']} on "
        f"{'split 0' if splits == 1 else f'splits 0 to {splits - 1}'}; {about['runs']} runs, "
        f"{took} in all. Mean ± standard deviation; {MARK}: more than two standard deviations "
        "from the published value."
    )
    if about["limited"]:
        text += f" {about['limited']} networks were still improving at the last epoch."
    return text
