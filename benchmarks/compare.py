"""What is the gain of each stage? ``softset.compare`` on Adult and on 22 imbalanced sets.

    python benchmarks/compare.py [--quick] [--sets ecoli,oil] [--rows 8000] [--output DIR]

The data sets are looked for in ``SOFTSET_DATA`` or in ``../shared/data``. Sets that are finished in
DIR are not compared again; the table at the end has a row for each that is.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import pandas as pd

import softset
from softset.report import write_report

DATA = Path(os.environ.get("SOFTSET_DATA") or Path(__file__).parents[2] / "shared" / "data")


def targets():
    """Names, files and target columns, the smallest files first."""
    files = sorted((DATA / "imblearn_zenodo").glob("*.parquet"), key=lambda f: f.stat().st_size)
    sets = {f.stem: (f, "label", "1") for f in files}
    return {**sets, "adult": (DATA / "adult.parquet", "income", ">50K")}


def run(name, file, target, positive, folder, arguments):
    frame = pd.read_parquet(file)
    if arguments.rows is not None and len(frame) > arguments.rows:
        frame = frame.sample(arguments.rows, random_state=0).reset_index(drop=True)
    y = frame.pop(target).astype(str)
    started, spent = time.perf_counter(), os.times()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = softset.compare(
            frame,
            y,
            "f1",
            pos_label=positive,
            quick=arguments.quick,
            n_jobs=arguments.jobs,
            directory=folder / name,
            resume=True,
            file=name,
        )
    write_report(found, folder / name / "report.html")
    now = os.times()
    cpu = sum(now[:4]) - sum(spent[:4])
    seconds = {"wall": time.perf_counter() - started, "cpu": cpu}
    (folder / f"{name}.json").write_text(json.dumps({**found.to_dict(), "measured": seconds}))
    return found


def row(name, found):
    gains = found["gains"]
    cells = [name, found["data"]["rows"], found["data"]["classes"][1]["rows"]]
    first, *others = gains["stages"]
    cells.append(f"{first['mean']:.3f} {first['choice']}")
    by_stage = {stage["id"]: stage["gain"] for stage in others}
    level = found["settings"]["level"]
    for key in ("tuned", "metric", "ensemble"):
        gain = by_stage.get(key)
        significant = gain is not None and gain["p_adjusted"] <= level
        cells.append("" if gain is None else f"{gain['mean']:+.3f}{' *' * significant}")
    total = gains["total"]
    cells.append(f"{total['mean']:+.3f} [{total['low']:+.3f}, {total['high']:+.3f}]")
    cells += [found["outcome"], found["winner"], f"{found['measured']['wall']:.0f}"]
    return f"| {' | '.join(map(str, cells))} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sets", default="")
    parser.add_argument("--rows", type=int, help="a sample of at most so many")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--output", default="comparisons")
    arguments = parser.parse_args()
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    known = targets()
    names = arguments.sets.split(",") if arguments.sets else list(known)
    for name in names:
        if not (folder / f"{name}.json").exists():
            found = run(name, *known[name], folder, arguments)
            print(f"{name}: {found.verdict} ({found.duration:.0f} s)", flush=True)
    head = ["set", "rows", "positives", "cut at 0.5", "tuned threshold", "trained on F1"]
    head += ["ensemble", "total gain, 95 % interval", "outcome", "winner", "seconds"]
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in names:
        print(row(name, json.loads((folder / f"{name}.json").read_text())))


if __name__ == "__main__":
    main()
