"""When does training for the metric pay, against cross-entropy with a tuned threshold?

    python benchmarks/when.py run [--data-dir DIR] [--out FILE] [--resume] [--jobs 1] [--hours 4]
    python benchmarks/when.py run --quick
    python benchmarks/when.py show [--out FILE] [--picture FILE]

One axis at a time from a base point (F1, all rows, labels as they are): capacity; further rounds of
boosting; metric; rows, positives, noise, prevalence, missing values; rivals. The metric, the data
and the rivals at three capacities.
``run`` appends a JSON line for each cell (axis, level, capacity, set, split) and, with
``--resume``, skips what is there. Cells come in an order such that a run cut short has all axes,
with fewer splits. ``--hours`` of processor time are the most that all cells in the file may take.
``show`` prints the tables and draws the picture.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from joblib import Parallel, delayed

import softset as ss
import when_tables
from common import DATA, append, read, value, zenodo
from softset.comparison.statistics import one_row_of
from when_data import DATA_AXES, DIGITS, FAMILIES, MANY, changed, optimum, problem_of, real_sets
from when_models import CAPACITIES, THREE, fitted

OUT = Path(__file__).parent / "results" / "when.jsonl"
PICTURE = Path(__file__).parents[1] / "docs" / "when-it-pays.svg"
SPLITS = 3
METRICS = ("f2", "f0.5", "mcc", "balanced_accuracy", "jaccard")
QUICK = ("ecoli", "wine_quality")
BASE = "f1"


class Cell(NamedTuple):
    """One comparison: which axis, where on it, which model, set and split."""

    axis: str
    level: str
    capacity: str
    set: str
    split: int


# --- the plan -------------------------------------------------------------------------------------


def cells_of(axis: str, split: int, real: list[str], families: list[str]) -> Iterable[Cell]:
    """The cells of an axis on one split. The base point is on the capacity axis alone."""
    if axis == "capacity":
        for name in [*real, *families]:
            for capacity in CAPACITIES:
                yield Cell(axis, capacity, capacity, name, split)
    elif axis == "further":
        for name in real:
            for capacity in (c for c, size in CAPACITIES.items() if size.rounds > 1):
                yield Cell(axis, capacity, capacity, name, split)
    elif axis == "metric":
        levels = [(name, "f1_macro") for name in DIGITS]
        levels += [(name, m) for name in real for m in METRICS]
        for name, metric in levels:
            for capacity in THREE:
                yield Cell(axis, metric, capacity, name, split)
    elif axis == "rivals":
        for name in real:
            for capacity in THREE:
                yield Cell(axis, axis, capacity, name, split)
    else:
        for name in (n for n in real if n in MANY):
            for level in DATA_AXES[axis]:
                for capacity in THREE:
                    yield Cell(axis, level, capacity, name, split)


def urgency(cell: Cell) -> tuple[int, int]:
    """What to run first: the first split, cheap models, the capacity axis; 500 rounds late."""
    size = CAPACITIES[cell.capacity]
    own, first = cell.axis in ("capacity", "further"), cell.split == 0
    steps = [
        cell.axis == "capacity" and first and cell.capacity in THREE,
        first and size.kind == "linear",
        own and first and 0 < size.rounds <= 100,
        own and first and size.kind == "network",
        own and size.kind == "linear",
        first and not own,
        own and size.rounds <= 100,
        first,
    ]
    return (steps.index(True) if any(steps) else len(steps)), cell.split


def plan(real: list[str], families: list[str], splits: int) -> list[Cell]:
    """All cells, the most urgent first: a run that is cut short has every axis."""
    axes = ("capacity", "further", "rivals", "metric", *DATA_AXES)
    cells = [c for s in range(splits) for a in axes for c in cells_of(a, s, real, families)]
    return sorted(cells, key=urgency)


# --- running --------------------------------------------------------------------------------------


def measured(cell: Cell, directory: Path) -> dict:
    """The record of one cell."""
    torch.set_num_threads(1)
    started = time.process_time()
    problem = problem_of(directory, cell.set, cell.split)
    if cell.axis in DATA_AXES:
        problem = changed(problem, cell.axis, cell.level, cell.split)
    metric = cell.level if cell.axis == "metric" else BASE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decided = fitted(cell.capacity, problem, metric, cell.split, cell.axis)
    _, y, w = problem.test
    counts = np.bincount(y, minlength=problem.classes)
    return {
        **cell._asdict(),
        "metric": metric,
        "scores": {
            name: round(value(d, y, w, metric, problem.task), 6) for name, d in decided.items()
        },
        "optimum": optimum(problem, metric),
        "rows": len(problem.train.y),
        "positives": int(np.bincount(problem.train.y).min()),
        "features": problem.train.x.shape[1],
        "one_row": one_row_of(ss.get_metric(metric), problem.task, counts.tolist(), len(y)),
        "seconds": round(time.process_time() - started, 3),
    }


def run(args: argparse.Namespace) -> None:
    if not zenodo(args.data_dir):
        refuse(f"--data-dir must hold imblearn_zenodo/*.parquet, found none in {args.data_dir}.")
    if args.out.exists() and not args.resume:
        refuse(f"{args.out} exists. Add --resume to go on with it, or name another --out.")
    real, families = real_sets(args.data_dir), list(FAMILIES)
    if args.quick:
        real, families = [n for n in real if n in QUICK], families[:1]
    records = read(args.out)
    done = {Cell(*(r[field] for field in Cell._fields)) for r in records}
    todo = [c for c in plan(real, families, 1 if args.quick else SPLITS) if c not in done]
    spent, allowed = sum(r["seconds"] for r in records), 3600 * args.hours

    def wanted() -> Iterable[Cell]:
        for cell in todo:
            if spent > allowed:
                return
            yield cell

    work = (delayed(measured)(cell, args.data_dir) for cell in wanted())
    options = {"return_as": "generator_unordered", "pre_dispatch": "2*n_jobs"}
    finished = 0
    for record in Parallel(n_jobs=args.jobs, **options)(work):
        append(args.out, record)
        spent += record["seconds"]
        finished += 1
        if finished % 100 == 0:
            print(f"{finished} of {len(todo)} cells, {spent / 60:.1f} core-minutes", flush=True)
    left = len(todo) - finished
    print(f"{finished} cells run, {left} left, {spent / 3600:.2f} core-hours in {args.out}")


def refuse(text: str) -> None:
    print(text, file=sys.stderr)
    raise SystemExit(2)


def text_of(records: list[dict]) -> str:
    """The tables of records, beside what was planned for their sets."""
    real = sorted({r["set"] for r in records} - set(FAMILIES) - set(DIGITS))
    families = [n for n in FAMILIES if any(r["set"] == n for r in records)]
    return when_tables.tables(records, plan(real, families, SPLITS))


def show(args: argparse.Namespace) -> None:
    records = read(args.out)
    if not records:
        refuse(f"{args.out} holds no results. Run: python benchmarks/when.py run")
    print(text_of(records))
    picture = when_tables.picture(records)
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    args.picture.write_text(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    args = parser.parse_args()
    args.out = args.out or (Path("when-quick.jsonl") if args.quick else OUT)
    {"run": run, "show": show}[args.what](args)


if __name__ == "__main__":
    main()
