"""Run a table: one run of the sweep is a row on a data set on a split, with all its trials.

A run is described by plain values alone (data, way of training, seeds), so that tables that share
a row share its run: the file of results holds it once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from softset.checks import check_number, nearest
from softset.comparison.sweep import sweep
from softset_papers.datasets.papers import data_directory, has_files
from softset_papers.kinds.context import Context
from softset_papers.kinds.curves import curve_run
from softset_papers.kinds.images import graph_run, image_run
from softset_papers.kinds.tabular import counts_run, runtime_run, train_run, weights_run
from softset_papers.kinds.thresholds import thresholds_run
from softset_papers.networks.searched import search_key
from softset_papers.pages.figures import figure_run
from softset_papers.provenance import current_commit, moved, pin
from softset_papers.results import RESULTS, Record, compact, forget, read_records
from softset_papers.specification import Block, Row, Table
from softset_papers.theory import claim_run, claims_of

KINDS: dict[str, Callable[[dict[str, Any], Context], dict[str, Any]]] = {
    "train": train_run,
    "weights": weights_run,
    "counts": counts_run,
    "runtime": runtime_run,
    "figure": figure_run,
    "images": image_run,
    "graphs": graph_run,
    "curves": curve_run,
    "claim": claim_run,
    "thresholds": thresholds_run,
}
"""What a run of a table does: ``work(run, context) -> result`` with ``result["values"]`` as
``{protocol: {metric: [numbers]}}``. How rows of kind ``"train"`` are fitted: ``tabular.FITS``."""
_SETTINGS = {"paper runs": 1}


@dataclass(frozen=True)
class Effort:
    """How much to run: the table's trials, or fewer for a quick look, or all that the paper did."""

    trials: int | None = None
    max_epochs: int | None = None
    rows: int | None = None
    full: bool = False  # as the paper, where our default is less

    def __post_init__(self) -> None:
        if self.trials is not None:
            check_number("trials", self.trials, 1, 10_000, closed="both")
        if self.max_epochs is not None:
            check_number("max_epochs", self.max_epochs, 1, 10**6, closed="both")
        if self.rows is not None:
            check_number("rows", self.rows, 100, 10**9, closed="both")

    @classmethod
    def quick(cls) -> Effort:
        """Two trials, 20 epochs, 1000 rows: does it run?"""
        return cls(trials=2, max_epochs=20, rows=1000)


# --- what to run --------------------------------------------------------------------------------


class Planned(NamedTuple):
    """A run, and the row and block it is for."""

    block: Block
    row: Row
    run: dict[str, Any]


def plan(
    table: Table,
    effort: Effort,
    rows: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> list[Planned]:
    """What to run for a table: each row on each data set, and the run that describes it.

    Rows marked as slow, or not among those of the block, are left out unless ``rows`` names them.
    A block on a subset is run on the whole dataset if ``datasets`` names that, or if all is to be
    as in the paper and ``data_dir`` has its file.
    """
    _all_known("row", rows, [r.id for r in table.rows], table)
    whole = [b.in_full() for b in table.blocks if b.whole]
    _all_known("dataset", datasets, [b.key for b in (*table.blocks, *whole)], table)
    none = Block(table.title, ""), Row(table.id, table.title)
    if table.kind == "claim":
        return [Planned(*none, {"claim": name}) for name in claims_of(table.id)]
    if table.kind == "figure":
        return [Planned(*none, {"figure": table.id})]
    return [
        Planned(block, row, _describe(table, block, row, split, effort))
        for block in _blocks(table, effort, datasets, data_dir)
        for row in table.rows
        if (table.runs(block, row) if rows is None else row.id in rows)
        for split in range(row.splits_on(block))
    ]


def _blocks(
    table: Table,
    effort: Effort,
    datasets: Sequence[str] | None,
    data_dir: str | os.PathLike[str] | None,
) -> list[Block]:
    """The blocks to run, on whole datasets where those are wanted."""
    found = []
    for block in table.blocks:
        whole = block.in_full()
        named = datasets is not None and block.whole and whole.key in datasets
        if named or (
            effort.full
            and block.whole
            and (datasets is None or block.key in datasets)
            and _is_there(block.whole, data_dir)
        ):
            found.append(whole)
        elif datasets is None or block.key in datasets:
            found.append(block)
    return found


def _is_there(dataset: str, data_dir: str | os.PathLike[str] | None) -> bool:
    """Whether the files of a dataset are where the others are."""
    try:
        return has_files(dataset, data_directory(data_dir, dataset))
    except ValueError:
        return False


def _all_known(name: str, asked: Sequence[str] | None, known: Sequence[str], table: Table) -> None:
    for word in asked or ():
        if word not in known:
            raise ValueError(
                f"{name} must be one of {', '.join(known)} in {table.id}, got {word!r}."
                f"{nearest(word, known)}"
            )


def _describe(table: Table, block: Block, row: Row, split: int, effort: Effort) -> dict[str, Any]:
    run: dict[str, Any] = {
        "data": block.dataset,
        "duplicates": block.duplicates,
        "split": split,
        "rows": effort.rows,
    }
    splits = row.splits_on(block)
    if splits > 1:
        run["splits"] = splits
    if table.kind != "train":
        run["kind"] = table.kind
    if row.settings:
        options = row.options(block, effort.full)
        for limit in ("max_epochs", "patience"):
            if effort.max_epochs is not None and limit in options:
                options[limit] = min(options[limit], effort.max_epochs)
        trials = effort.trials or (table.full_trials if effort.full else table.trials_on(block))
        seeds = list(range(trials))[split::splits]
        run |= {"fit": row.fit, "options": options, "seeds": seeds}
    return run


# --- running ------------------------------------------------------------------------------------


class Done(NamedTuple):
    """The records of a table's runs, in their order, and what the new ones of them cost."""

    records: list[Any]
    runs: int
    cpu: float  # seconds


def run_table(
    table: Table,
    output: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    effort: Effort | None = None,
    rows: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    resume: bool = True,
    again: bool = False,
    jobs: int | None = 1,
    progress: Callable[[int, int, float], None] | None = None,
) -> Done:
    """Run what is missing of a table; the records are in ``output/runs.jsonl``.

    The networks are judged under all protocols at once, so that one run serves them all. A search
    that is in the file already is not done again. ``again`` forgets earlier results of these runs.
    """
    directory = Path(output)
    directory.mkdir(parents=True, exist_ok=True)
    runs = _distinct(p.run for p in plan(table, effort or Effort(), rows, datasets, data_dir))
    known = read_records(directory)
    done = [record.run for record in known]
    if not (resume or again) and any(run in done for run in runs):
        raise ValueError(
            f"{str(directory / RESULTS)!r} holds runs of {table.id}. Go on from them with "
            "--resume, or choose another --output."
        )
    if again:
        forget(directory, lambda run: run in runs)
        done = []
    context = Context(None if data_dir is None else str(data_dir), _searches(known))
    records = sweep(
        partial(_work, kind=table.kind, context=context, commit=current_commit()),
        runs,
        path=directory / RESULTS,
        settings=_SETTINGS,
        resume=True,
        jobs=jobs,
        progress=progress,
    )
    compact(directory)
    new = [r for r in records if r is not None and r["run"] not in done]
    spent = sum(r["result"]["cpu"] if "result" in r else r["seconds"] for r in new)
    return Done(records, len(new), spent)


def _distinct(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each run once, for two blocks may share it; and none without a trial.

    When there are fewer trials than splits, some splits get none.
    """
    found: list[dict[str, Any]] = []
    for run in runs:
        if run.get("seeds", [0]) != [] and run not in found:
            found.append(run)
    return found


def _searches(records: Sequence[Record]) -> dict[str, Any]:
    """What searches found before, by what determines them; not those of a loss that has changed."""
    return {
        search_key(r.run): r.result["tried"]
        for r in records
        if "tried" in r.result and not moved(r.result.get("pin"), pin(r.run))
    }


def _work(run: dict[str, Any], kind: str, context: Context, commit: str) -> dict[str, Any]:
    """One run, with what it cost and which code made it."""
    started = time.process_time()
    result = KINDS[kind](run, context)
    return {
        **result,
        "cpu": round(time.process_time() - started, 2),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit,
        "pin": pin(run),
    }
