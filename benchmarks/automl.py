"""FLAML and AutoGluon beside our ensemble, with as much time as it takes: F1 on ten sets.

    python benchmarks/automl.py splits      # where softset is: write the rows and the time limits
    python benchmarks/automl.py flaml       # where FLAML is, without softset
    python benchmarks/automl.py autogluon   # where AutoGluon is, without softset
    python benchmarks/automl.py score       # where softset is: append to the results of efficacy.py

Options: --out FILE (of ``efficacy.py``), --folder DIR, --data-dir DIR, --rows 1000.

Each library wants versions of its own, so each has an environment of its own:

    pip install flaml lightgbm scikit-learn pandas && pip install --no-deps xgboost==2.1.4
    pip install "autogluon.tabular[lightgbm,xgboost]"

The first ten sets of two classes that confirm, two splits, one core. The limit is what ``fit`` of
``MetricEnsembleClassifier`` took on the same rows, in seconds of the processor, and their clocks
are made to count the same. AutoGluon has its trees (LightGBM, XGBoost, random forest, extra trees),
its default preset, and calibrates the threshold itself. FLAML has no threshold: 1/2, and as a
second row our cut on out-of-fold scores of the model that it found, for which that model is fitted
five times more after the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

RESULTS = Path(__file__).parent / "results"
SETS, SPLITS, SEED = 10, 2, 0


# --- where softset is -----------------------------------------------------------------------------


def _tables(args: argparse.Namespace) -> dict[str, Any]:
    from efficacy import halves, load  # noqa: PLC0415

    found: dict[str, Any] = {}
    for name in halves(args.data_dir)["confirm"]:
        table = load(args.data_dir, name, args.rows)
        if table.task == "binary" and len(found) < SETS:
            found[name] = table
    return found


def write_splits(args: argparse.Namespace) -> None:
    """A file for each set and split: rows, folds and the limit."""
    from efficacy import read, splits  # noqa: PLC0415

    limits = {
        (r["set"], r["split"]): r["seconds"]
        for r in read(args.out)
        if (r["model"], r["metric"]) == ("MetricEnsembleClassifier", "f1")
    }
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, table in _tables(args).items():
        for split in splits(table, SPLITS):
            limit = limits.get((name, split.number))
            if limit is None:
                print(f"split {split.number}, {name}: no time of the ensemble yet", flush=True)
                continue
            np.savez(
                args.folder / f"{name}-{split.number}.npz",
                x=split.train.x,
                y=split.train.y,
                test=split.test.x,
                fold=split.fold,
                limit=limit,
            )


def append_scores(args: argparse.Namespace) -> None:
    """A line for each library, cut, set and split that is not there yet."""
    from efficacy import Scores, cuts, read, splits, value  # noqa: PLC0415

    done = {(r["model"], r["set"], r["split"]) for r in read(args.out)}
    for name, table in _tables(args).items():
        for split in splits(table, SPLITS):
            for library in LIBRARIES:
                path = _path(args.folder, name, split.number, library)
                if (library, name, split.number) in done or not path.exists():
                    continue
                found = np.load(path)
                said = {"half": found["test"].argmax(1), "own": found["said"]}
                if len(found["oof"]):
                    kept = Scores(found["oof"], found["test"], found["test"], 0.0)
                    said = cuts(split, kept, "f1", theirs=False)
                line = {"half": "confirm", "set": name, "split": split.number}
                line |= {"rows": len(split.fold), "positives": int(split.train.y.sum())}
                line |= {"model": library, "metric": "f1"}
                with open(args.out, "a", encoding="utf-8") as file:
                    for cut, decided in said.items():
                        score = value(decided, split.test.y, split.test.w, "f1", "binary")
                        own = {"cut": cut, "value": round(score, 6)}
                        seconds = {"seconds": round(float(found["seconds"]), 2)}
                        file.write(json.dumps({**line, **own, **seconds}) + "\n")


# --- where the libraries are ----------------------------------------------------------------------


def _flaml(x: np.ndarray, y: np.ndarray, limit: float, test: np.ndarray) -> tuple[Any, Any, Any]:
    """The fitted search, probabilities of test rows and decisions."""
    from flaml import AutoML  # noqa: PLC0415

    model = AutoML()
    model.fit(
        x,
        y,
        task="classification",
        metric="f1",
        time_budget=limit,
        n_jobs=1,
        seed=SEED,
        verbose=0,
    )
    p = model.predict_proba(test)
    return model, p, p.argmax(1)


def _flaml_again(model: Any, x: np.ndarray, y: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Out-of-fold probabilities of what was found."""
    from sklearn.base import clone  # noqa: PLC0415

    oof = np.zeros((len(y), 2))
    for k in np.unique(fold):
        part = clone(model.model.estimator).fit(x[fold != k], y[fold != k])
        oof[fold == k] = part.predict_proba(x[fold == k])
    return oof


def _autogluon(
    x: np.ndarray, y: np.ndarray, limit: float, test: np.ndarray
) -> tuple[Any, Any, Any]:
    import pandas as pd  # noqa: PLC0415
    from autogluon.tabular import TabularPredictor  # noqa: PLC0415

    names = [f"x{i}" for i in range(x.shape[1])]
    frame = pd.DataFrame(x, columns=names).assign(label=y)
    with tempfile.TemporaryDirectory() as folder:
        model = TabularPredictor("label", eval_metric="f1", path=folder, verbosity=0)
        model.fit(
            frame,
            time_limit=limit,
            hyperparameters={"GBM": {}, "XGB": {}, "RF": {}, "XT": {}},
            calibrate_decision_threshold=True,
            num_cpus=1,
            num_gpus=0,
        )
        tested = pd.DataFrame(test, columns=names)
        p = model.predict_proba(tested)[[0, 1]].to_numpy()
        return None, p, model.predict(tested).to_numpy()


LIBRARIES: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "flaml": _flaml,
    "autogluon": _autogluon,
}
MODULES = {"flaml": "flaml", "autogluon": "autogluon.tabular"}


def run(library: str, args: argparse.Namespace) -> None:
    """Fit what is not there yet."""
    warnings.simplefilter("ignore")
    measure_by_processor()
    import_module(MODULES[library])  # which takes seconds, and is no part of a fit
    given = sorted(p for p in args.folder.glob("*.npz") if p.stem.split("-")[-1].isdecimal())
    for source in given:
        name, number = source.stem.rsplit("-", 1)
        path = _path(args.folder, name, int(number), library)
        if path.exists():
            continue
        data = np.load(source)
        x, y, limit = data["x"], data["y"], float(data["limit"])
        started = time.process_time()
        model, p, said = LIBRARIES[library](x, y, limit, data["test"])
        seconds = time.process_time() - started
        oof = np.empty((0, 2)) if model is None else _flaml_again(model, x, y, data["fold"])
        np.savez(path, oof=oof, test=p, said=said, seconds=seconds)
        print(f"split {number}, {name}: limit {limit:.1f} s, took {seconds:.1f} s", flush=True)


def measure_by_processor() -> None:
    """Give whatever is imported from here on a clock of the processor time of this process: what
    else the machine does takes nothing from the libraries' limit."""
    begun, started = time.time(), time.process_time()
    time.time = lambda: begun + time.process_time() - started
    time.perf_counter = time.monotonic = time.process_time


def _path(folder: Path, name: str, split: int, library: str) -> Path:
    return folder / f"{name}-{split}-{library}.npz"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["splits", *LIBRARIES, "score"])
    parser.add_argument("--out", type=Path, default=RESULTS / "efficacy.jsonl")
    parser.add_argument("--folder", type=Path, default=RESULTS / "automl")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SOFTSET_DATA"))
    parser.add_argument("--rows", type=int, default=1000)
    args = parser.parse_args()
    if args.what in LIBRARIES:
        run(args.what, args)
    else:
        {"splits": write_splits, "score": append_scores}[args.what](args)


if __name__ == "__main__":
    main()
