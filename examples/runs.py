"""What the examples on real data share: runs that can be stopped and gone on with, and tables.

A run is one line of JSON. What is in the file is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

Row = dict[str, Any]


def parser(about: str, subfolder: str) -> argparse.ArgumentParser:
    """The arguments that all examples have."""
    made = argparse.ArgumentParser(description=about)
    found = os.environ.get("SOFTSET_DATA")
    default = Path(found) / subfolder if found else None
    made.add_argument("--data", type=Path, default=default, help=f"the folder {subfolder}/")
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--losses", nargs="*", help="some of them; all if left out")
    made.add_argument("--out", type=Path, help="a file of runs, to go on with and to add to")
    made.add_argument("--quick", action="store_true", help="small and short: to see that it runs")
    made.add_argument("--threads", type=int, default=1)
    return made


def arguments(made: argparse.ArgumentParser, argv: list[str] | None, losses: Iterable[str]) -> Any:
    """Parsed and checked; one line and exit code 2 if something is wrong."""
    args = made.parse_args(argv)
    if args.data is None or not args.data.is_dir():
        made.error(f"--data must be the folder of the data, got {args.data}")
    unknown = set(args.losses or ()) - set(losses)
    if unknown:
        made.error(f"--losses must be of {', '.join(losses)}, got {', '.join(sorted(unknown))}")
    args.losses = args.losses or list(losses)
    torch.set_num_threads(args.threads)
    return args


def read(path: Path | None) -> list[Row]:
    """The runs of a file; a last line that was cut off is left out."""
    if path is None or not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def append(path: Path, row: Row) -> None:
    """One more line, behind what is whole."""
    whole = path.read_bytes() if path.exists() else b""
    whole = whole[: whole.rfind(b"\n") + 1]
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(len(whole))
        file.write(json.dumps(row).encode() + b"\n")
        file.truncate()


def run_all(keys: Iterable[Row], run: Callable[[Row], Row], out: Path | None) -> list[Row]:
    """The result of each key, from the file or from ``run``: both in one dictionary."""
    keys, done = list(keys), read(out)
    found = []
    for number, key in enumerate(keys, 1):
        known = [row for row in done if key.items() <= row.items()]
        if not known:
            start = time.process_time()
            row = key | run(key)
            known = [row | {"core_seconds": round(time.process_time() - start, 1)}]
            if out is not None:
                append(out, known[0])
            words = " ".join(str(value) for value in key.values())
            print(f"{number}/{len(keys)} {words}: {known[0]['core_seconds']} s", file=sys.stderr)
        found.append(known[0])
    return found


def table(rows: list[Row], names: list[str], columns: dict[str, str], against: str) -> str:
    """A Markdown table: the mean over runs of each column, and the first column's gain over
    ``against`` in the same run (equal in all but the loss), with its 95 % interval by Student's t.
    """
    first = next(iter(columns))
    lines = [
        "| loss | " + " | ".join(columns.values()) + f" | above {against} |",
        "|---" * (len(columns) + 2) + "|",
    ]
    rest = [key for key in ("set", "tail", "size", "epochs", "seed") if key in rows[0]]
    by_run = {(r["loss"], *(r[k] for k in rest)): r for r in rows}
    for name in names:
        own = [r for r in rows if r["loss"] == name]
        if not own:
            continue
        means = [np.mean([r[c] for r in own], 0) for c in columns]
        pairs = [(r, by_run.get((against, *(r[k] for k in rest)))) for r in own]
        gains = [r[first] - other[first] for r, other in pairs if other is not None]
        cells = [f"{value:.3f}" for value in means]
        cells.append("" if name == against else interval(gains))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    minutes = sum(r["core_seconds"] for r in rows) / 60
    count = len({tuple(r[k] for k in rest) for r in rows})
    return "\n".join(
        [*lines, "", f"{count} run{'s' * (count > 1)} of each, {minutes:.1f} core-minutes."]
    )


def interval(gains: list[float]) -> str:
    """``+0.010 (-0.002 … +0.022)``.

    >>> interval([0.01, 0.03])
    '+0.020 (-0.107 … +0.147)'
    """
    mean = float(np.mean(gains)) if gains else float("nan")
    if len(gains) < 2:
        return f"{mean:+.3f}"
    reach = student.ppf(0.975, len(gains) - 1) * np.std(gains, ddof=1) / np.sqrt(len(gains))
    return f"{mean:+.3f} ({mean - reach:+.3f} … {mean + reach:+.3f})"
