"""Records of runs -> the cells of a table: published beside measured."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softset.checks import check_choice
from softset.storage.files import SavedFileError
from softset_papers.runner import RESULTS
from softset_papers.specification import PROTOCOLS, Block, Row, Table, Value, differs

NAMES = {
    "f1": "F1",
    "f2": "F2",
    "f3": "F3",
    "auroc": "AUROC",
    "mcc": "MCC",
    "f1 macro": "macro F1",
    "share": "%",
    "train share": "train %",
}


TRAINED = ("train", "images", "graphs")


@dataclass(frozen=True)
class Cell:
    """One number of the paper beside ours; ``tuned`` is ours at a tuned threshold."""

    published: Value | None
    measured: Value | None
    tuned: Value | None
    marked: bool


@dataclass(frozen=True)
class Summary:
    """A table with its cells: ``cells[block key][row id][metric]``."""

    table: Table
    protocol: str
    rows: dict[str, list[Row]]  # by block: rows with a published or measured value
    cells: dict[str, dict[str, dict[str, Cell]]]
    metrics: tuple[str, ...]
    about: dict[str, Any]  # last seed, splits, dates, CPU seconds, …
    figures: list[str]
    shortened: dict[tuple[str, str], str]  # by block key and row id: how a run was cut short
    claims: tuple[dict[str, Any], ...] = ()  # results of ``theory``
    chosen: tuple[tuple[str, str, dict[str, Any]], ...] = ()  # set, row, what a search found


def read_records(output: str | Path) -> list[dict[str, Any]]:
    """The records of a directory of results; none if it has none."""
    path = Path(output) / RESULTS
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        _, *lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half-written
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise SavedFileError(f"{path.name} is damaged: {error}.") from error


def summarise(table: Table, records: Sequence[dict[str, Any]], protocol: str) -> Summary:
    """The cells of a table from all records that belong to it."""
    check_choice("protocol", protocol, PROTOCOLS)
    if table.kind == "claim":
        return _claims(table, records, protocol)
    metrics = table.metrics
    macro = "f1" in metrics and "f1 macro" not in metrics
    if protocol == "fair" and table.kind == "train" and macro:
        metrics = (*metrics, "f1 macro")
    cells: dict[str, dict[str, dict[str, Cell]]] = {}
    used: list[dict[str, Any]] = []
    rows: dict[str, list[Row]] = {}
    shortened: dict[tuple[str, str], str] = {}
    chosen: list[tuple[str, str, dict[str, Any]]] = []
    drawn: dict[str, dict[str, Any]] = {}
    figures = [
        r["result"]["svg"] for r in records if r["run"].get("figure") == table.id and "result" in r
    ]
    for block in table.blocks:
        cells[block.key] = {}
        for row in table.rows:
            own = [r for r in records if "result" in r and _belongs(r["run"], table, block, row)]
            own, short = _longest(own, row, table.trials)
            used += own
            if short:
                shortened[block.key, row.id] = short
            if own and "curves" in own[0]["result"]:
                drawn[row.label] = own[0]["result"]
            chosen += [
                (block.title, row.label, r["result"]) for r in own if "chosen" in r["result"]
            ]
            found = _cells(table, block, row, metrics, own, protocol)
            if any(c.published or c.measured for c in found.values()):
                cells[block.key][row.id] = found
        rows[block.key] = [r for r in table.rows if r.id in cells[block.key]]
    about = {
        "last seed": max((max(r["run"].get("seeds", [0])) for r in used), default=0),
        "splits": len({r["run"]["split"] for r in used}),
        "dates": sorted({r["result"]["date"] for r in used}),
        "cpu": sum(r["result"].get("cpu", r["seconds"]) for r in used),
        "runs": len(used),
        "limited": sum(
            outcome == "max_epochs" for r in used for outcome in r["result"].get("outcome", ())
        ),
    }
    if drawn:
        from softset_papers.curves import draw_all

        figures = draw_all(drawn)
    return Summary(
        table, protocol, rows, cells, metrics, about, figures, shortened, chosen=tuple(chosen)
    )


def _claims(table: Table, records: Sequence[dict[str, Any]], protocol: str) -> Summary:
    from softset_papers.theory import claims_of

    found = {r["run"]["claim"]: r for r in records if "claim" in r["run"] and "result" in r}
    own = [found[name] for name in claims_of(table.id) if name in found]
    about = {"runs": len(own), "seconds": sum(r["seconds"] for r in own)}
    claims = tuple(r["result"] for r in own)
    return Summary(table, protocol, {}, {}, (), about, [], {}, claims)


_LIMITS = ("max_epochs", "patience")


def _belongs(run: dict[str, Any], table: Table, block: Block, row: Row) -> bool:
    """Whether a run is of this row, perhaps with fewer rows or epochs."""
    if run.get("data") != block.dataset or run.get("duplicates") != block.duplicates:
        return False
    if run.get("kind", "train") != table.kind:
        return False
    if not row.options:
        return True
    if run.get("fit") != row.fit:
        return False
    return _but_limits(run["options"]) in (
        _but_limits(row.options),
        _but_limits({**row.options, **row.full}),
    )


def _but_limits(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if k not in _LIMITS}


def _longest(
    records: list[dict[str, Any]], row: Row, usual: int
) -> tuple[list[dict[str, Any]], str]:
    """Of runs of one row those that go furthest, never mixed; and in words how they fall short."""

    def kind(record: dict[str, Any]) -> tuple[Any, ...]:
        run, options = record["run"], record["run"].get("options", {})
        rows = math.inf if run["rows"] is None else run["rows"]
        full = bool(row.full) and options == {**row.options, **row.full}
        return rows, full, options.get("max_epochs", 0)

    if not records:
        return [], ""
    best = max(kind(r) for r in records)
    by_split: dict[int, dict[str, Any]] = {}
    for record in sorted(records, key=lambda r: len(r["run"].get("seeds", ()))):
        if kind(record) == best:
            by_split[record["run"]["split"]] = record  # of one split, the run with most trials
    chosen = [by_split[split] for split in sorted(by_split)]
    rows, _, epochs = best
    words = []
    if rows < math.inf:
        words.append(f"{rows} rows")
    if epochs < row.options.get("max_epochs", 0):
        words.append(f"{epochs} epochs")
    trials = sum(len(r["run"].get("seeds", ())) for r in chosen)
    if words or (trials < usual and row.fit == "network" and "kind" not in chosen[0]["run"]):
        words.append(f"{trials} trial{'s' if trials > 1 else ''}" if trials else "")
    return chosen, ", ".join(filter(None, words))


def _cells(
    table: Table,
    block: Block,
    row: Row,
    metrics: Sequence[str],
    records: Sequence[dict[str, Any]],
    protocol: str,
) -> dict[str, Cell]:
    cells = {}
    for metric in metrics:
        published = table.value(block, row, metric)
        measured = _mean(records, protocol, metric)
        tuned = _mean(records, protocol, f"{metric} tuned")
        marked = (
            published is not None
            and measured is not None
            and table.kind in TRAINED
            and differs(published, measured.mean, measured.sd or 0.0)
        )
        cells[metric] = Cell(published, measured, tuned, marked)
    return cells


def _mean(records: Sequence[dict[str, Any]], protocol: str, metric: str) -> Value | None:
    values = [v for r in records for v in r["result"]["values"].get(protocol, {}).get(metric, ())]
    if not values:
        return None
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Value(statistics.fmean(values), sd)
