"""Run a table: one run of the sweep is a row on a data set on a split, with all its trials.

A run is described by plain values alone (data, way of training, seeds), so that tables that share
a row share its run: the file of results holds it once.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from softset.checks import check_number, nearest
from softset_papers.specification import Block, Row, Table

FITS: dict[str, str] = {
    "network": "softset_papers.networks:fit_network",
    "svm-perf": "softset_papers.classical:fit_svm_perf",
    "ccs": "softset_papers.classical:fit_ccs",
    "searched": "softset_papers.search:fit_searched",
    "forest": "softset_papers.search:fit_forest",
}
"""How rows are fitted: ``fit(parts, options, seeds) -> Fitted``, see ``networks``.

A fit that has no seeds returns one trial. To add one: name it here, and use it as ``Row.fit``.
"""
KINDS: dict[str, str] = {
    "train": "softset_papers.runner:train_run",
    "weights": "softset_papers.counts:weights_run",
    "counts": "softset_papers.counts:counts_run",
    "runtime": "softset_papers.counts:runtime_run",
    "figure": "softset_papers.figures:figure_run",
    "images": "softset_papers.images:image_run",
    "graphs": "softset_papers.images:graph_run",
    "curves": "softset_papers.curves:curve_run",
    "claim": "softset_papers.theory:claim_run",
}
"""What a run of a table does: ``work(run, data_dir) -> result`` with ``result["values"]`` as
``{protocol: {metric: [numbers]}}``."""
RESULTS = "runs.jsonl"
_SETTINGS = {"paper runs": 1}


@dataclass(frozen=True)
class Effort:
    """How much to run: the papers' ``trials``, spread over ``splits``; less for a quick look."""

    trials: int | None = None
    splits: int = 1
    max_epochs: int | None = None
    rows: int | None = None
    full: bool = False  # as the paper, where our default is less

    def __post_init__(self) -> None:
        if self.trials is not None:
            check_number("trials", self.trials, 1, 10_000, closed="both")
        check_number("splits", self.splits, 1, 1000, closed="both")
        if self.max_epochs is not None:
            check_number("max_epochs", self.max_epochs, 1, 10**6, closed="both")
        if self.rows is not None:
            check_number("rows", self.rows, 100, 10**9, closed="both")

    @classmethod
    def quick(cls) -> Effort:
        """Two trials, 20 epochs, 1000 rows: does it run?"""
        return cls(trials=2, max_epochs=20, rows=1000)


def table_runs(
    table: Table,
    effort: Effort,
    rows: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
) -> list[tuple[Block, Row, dict[str, Any]]]:
    """What to run for a table: each row on each data set, and the run that describes it."""
    chosen = [r for r in table.rows if (not r.slow if rows is None else r.id in rows)]
    blocks = [b for b in table.blocks if datasets is None or b.key in datasets]
    _all_known("row", rows, [r.id for r in table.rows], table)
    _all_known("dataset", datasets, [b.key for b in table.blocks], table)
    if table.kind == "claim":
        from softset_papers.theory import claims_of

        none = Block(table.title, ""), Row(table.id, table.title, {})
        return [(*none, {"claim": name}) for name in claims_of(table.id)]
    if table.kind == "figure":
        return [(Block(table.title, ""), Row(table.id, table.title, {}), {"figure": table.id})]
    found = []
    for block in blocks:
        for row in chosen:
            for split in range(effort.splits):
                found.append((block, row, _describe(table, block, row, split, effort)))
    return found


def _all_known(name: str, asked: Sequence[str] | None, known: Sequence[str], table: Table) -> None:
    for word in asked or ():
        if word not in known:
            raise ValueError(
                f"{name} must be one of {', '.join(known)} in {table.id}, got {word!r}."
                f"{nearest(word, known)}"
            )


def _describe(table: Table, block: Block, row: Row, split: int, effort: Effort) -> dict[str, Any]:
    trials = effort.trials or table.trials
    options = {**row.options, **row.full} if effort.full else dict(row.options)
    if effort.max_epochs is not None and "max_epochs" in options:
        options["max_epochs"] = min(options["max_epochs"], effort.max_epochs)
        options["patience"] = min(options["patience"], effort.max_epochs)
    run: dict[str, Any] = {
        "data": block.dataset,
        "duplicates": block.duplicates,
        "split": split,
        "rows": effort.rows,
    }
    if table.kind != "train":
        run["kind"] = table.kind
    if row.options:
        run |= {
            "fit": row.fit,
            "options": options,
            "seeds": list(range(trials))[split :: effort.splits],
        }
    return run


def run_table(
    table: Table,
    output: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    effort: Effort | None = None,
    rows: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    resume: bool = True,
    jobs: int | None = 1,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[dict[str, Any] | None]:
    """Run what is missing of a table; the records are in ``output/runs.jsonl``.

    Rows marked as slow are left out unless ``rows`` names them. The networks are judged under all
    protocols at once, so that one run serves them all.
    """
    from softset.comparison.sweep import sweep

    directory = Path(output)
    directory.mkdir(parents=True, exist_ok=True)
    runs = [run for _, _, run in table_runs(table, effort or Effort(), rows, datasets)]
    if not resume and _any_done(directory / RESULTS, runs):
        raise ValueError(
            f"{str(directory / RESULTS)!r} holds runs of {table.id}. Go on from them with "
            "--resume, or choose another --output."
        )
    work = partial(
        _work, path=KINDS[table.kind], data_dir=None if data_dir is None else str(data_dir)
    )
    return sweep(
        work,
        runs,
        path=directory / RESULTS,
        settings=_SETTINGS,
        resume=True,
        jobs=jobs,
        progress=progress,
    )


def _any_done(path: Path, runs: list[dict[str, Any]]) -> bool:
    """Whether a file of results (which tables share) has one of these runs."""
    from softset_papers.summary import read_records

    known = [record["run"] for record in read_records(path.parent)]
    return any(run in known for run in runs)


def _work(run: dict[str, Any], path: str, data_dir: str | None) -> Any:
    return _named(path)(run, data_dir)


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def train_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Fit all trials of a row and judge them under every protocol."""
    from softset_papers.judging import at_zero, judge

    parts = load_parts(run["data"], run["split"], run["duplicates"], run["rows"], data_dir)
    started = time.process_time()
    fitted = _named(FITS[run["fit"]])(parts, run["options"], run["seeds"])
    seconds = time.process_time() - started
    logits = run["options"].get("output") == "logit"
    argmax = run["options"].get("judged") == "argmax"
    values = judge(fitted, parts.validation, parts.test, logits, argmax)
    if run["options"].get("output") == "sign":
        values |= dict.fromkeys(("published", "code"), at_zero(fitted, parts.test))
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {"values": values, "cpu": round(seconds, 2), "date": date, **fitted.info}


@cache
def load_parts(
    name: str, split: int, duplicates: str, rows: int | None, data_dir: str | None
) -> Any:
    """The parts of a split of a set, perhaps of some rows only; kept for the next run."""
    from softset_papers.datasets.papers import PaperSet, load_paper_set
    from softset_papers.datasets.splits import make_parts

    data = load_paper_set(name, data_dir)
    if rows is not None and rows < len(data.y):
        keep = _some(data.y, rows)
        data = PaperSet(
            data.name,
            data.x[keep],
            data.y[keep],
            data.features,
            None if data.weight is None else data.weight[keep],
            None if data.official_test is None else data.official_test[keep],
        )
    return make_parts(data, split, duplicates)


def _some(y: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """So many rows, at least thirty of them positive."""
    rng = np.random.default_rng(0)
    positive = rng.permutation(np.flatnonzero(y == 1))
    negative = rng.permutation(np.flatnonzero(y == 0))
    wanted = min(len(positive), max(30, round(rows * len(positive) / len(y))))
    return np.sort(np.concatenate([positive[:wanted], negative[: rows - wanted]]))
