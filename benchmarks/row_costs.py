"""Costs of each row: what decisions cost on test rows, beside cost-sensitive models of empulse.

    python benchmarks/row_costs.py run                              # softset and plain models
    python benchmarks/row_costs.py run --empulse ENV/bin/python     # empulse, if ENV has it
    python benchmarks/row_costs.py show                             # the table, from the results

empulse is under the AGPL: it runs in an environment of its own (`pip install empulse lightgbm`),
and nothing of it is read here. Without --empulse a line says that it is left out.

Resumable: finished fits are kept in --results. One thread; splits and inputs (standardized by the
training rows) are the same for all.

**creditcard**: a missed fraud costs its amount, which is a column of the data; a false alarm costs
5. **adult**, **mammography**, **letter_img**: the data have no money, so amounts are drawn,
lognormal with a median of 20 and a mean of 54; a false alarm costs 5. 70 % of at most 16,000 rows
train; the rest tests, five times. A cost of 1 is that of flagging all rows or none, whichever is
cheaper on the test rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

RESULTS = Path(__file__).parent / "results" / "row_costs.jsonl"
SETS = ("creditcard", "adult", "mammography", "letter_img")
SPLITS, ROWS, FALSE_ALARM = 5, 16_000, 5.0
METRIC = f"cost(fn=amount, fp={FALSE_ALARM:g})"


def prepared(name: str) -> list[dict[str, np.ndarray]]:
    """Inputs, labels and amounts of training and test rows, for each split."""
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    from common import DATA, load, splits  # noqa: PLC0415

    x, y, _ = load(DATA, name)
    random = np.random.default_rng(SETS.index(name))
    amount = random.lognormal(3, 1.41, len(y)).round(2)
    if name == "creditcard":
        import pandas as pd  # noqa: PLC0415

        amount = pd.read_parquet(DATA / "creditcard_subset.parquet")["Amount"].to_numpy(float)
    rows = np.sort(random.permutation(len(y))[:ROWS])
    x, y, amount = x[rows], y[rows], amount[rows]
    prepared = []
    for train, test in splits(y, SPLITS):
        scaler = StandardScaler().fit(x[train])
        prepared.append({"x": scaler.transform(x[train]), "y": y[train], "amount": amount[train],
                         "x_test": scaler.transform(x[test]), "y_test": y[test],
                         "amount_test": amount[test]})  # fmt: skip
    return prepared


# --- methods: 0 and 1 for each test row -----------------------------------------------------------


def plain(d: dict[str, np.ndarray]) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    return LogisticRegression(max_iter=1000).fit(d["x"], d["y"]).predict(d["x_test"])


def ours(kind: str):
    def decide(d: dict[str, np.ndarray]) -> np.ndarray:
        import softset as ss  # noqa: PLC0415

        if kind == "linear":
            model = ss.MetricLinearClassifier(METRIC)
        else:
            model = ss.MetricBoostingClassifier(METRIC, n_jobs=1, random_state=0)
        model.fit(d["x"], d["y"], sample_cost={"amount": d["amount"]})
        return model.predict(d["x_test"], {"amount": d["amount_test"]})

    return decide


def theirs(kind: str):
    def decide(d: dict[str, np.ndarray]) -> np.ndarray:
        from empulse import models  # noqa: PLC0415
        from lightgbm import LGBMClassifier  # noqa: PLC0415
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

        costs = {"fn_cost": d["amount"], "fp_cost": FALSE_ALARM}
        if kind == "threshold":  # decides by the amount of each test row
            model = models.CSThresholdClassifier(LogisticRegression(max_iter=1000), random_state=0)
            new = {"fn_cost": d["amount_test"], "fp_cost": FALSE_ALARM}
            return model.fit(d["x"], d["y"], **costs).predict(d["x_test"], **new)
        trees = LGBMClassifier(n_jobs=1, random_state=0, verbose=-1)
        model = {"logit": models.CSLogitClassifier, "boosting": models.CSBoostClassifier,
                 "forest": models.CSForestClassifier}[kind](
            **{"boosting": {"estimator": trees}, "forest": {"random_state": 0}}.get(kind, {})
        )  # fmt: skip
        return model.fit(d["x"], d["y"], **costs).predict(d["x_test"])

    return decide


OURS = {
    "logistic regression, 0.5": plain,
    "softset, linear": ours("linear"),
    "softset, boosting": ours("boosting"),
}
EMPULSE = {
    "empulse, CSLogit": theirs("logit"),
    "empulse, CSBoost": theirs("boosting"),
    "empulse, CSForest": theirs("forest"),
    "empulse, CSThreshold of logistic regression": theirs("threshold"),
}

# --- runs -----------------------------------------------------------------------------------------


def spent(flagged: np.ndarray, d: dict[str, np.ndarray]) -> float:
    y, said = d["y_test"], np.asarray(flagged).astype(bool)
    return float(np.where(said, FALSE_ALARM * (y == 0), d["amount_test"] * (y == 1)).mean())


def run(results: Path, methods: dict, folder: Path | None) -> None:
    done = {(r["set"], r["split"], r["method"]) for r in read(results)}
    for name in SETS:
        every = (
            [dict(np.load(folder / f"{name}{k}.npz")) for k in range(SPLITS)] if folder else None
        )
        for split, d in enumerate(every or prepared(name)):
            none = np.zeros(len(d["y_test"]))
            constant = min(spent(none, d), spent(none + 1, d))
            for method, decide in methods.items():
                if (name, split, method) in done:
                    continue
                started = time.process_time()
                record = {"set": name, "split": split, "method": method,
                          "cost": spent(decide(d), d), "constant": constant,
                          "seconds": round(time.process_time() - started, 2)}  # fmt: skip
                with open(results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(record, flush=True)


def run_empulse(python: str, results: Path) -> None:
    """The same splits in empulse's environment, which has neither softset nor its loaders."""
    asked = [python, "-c", "import empulse, lightgbm"]
    if subprocess.run(asked, check=False, capture_output=True).returncode:
        print(f"empulse is left out: {python} cannot import it (pip install empulse lightgbm).")
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in SETS:
            for split, arrays in enumerate(prepared(name)):
                np.savez(Path(folder) / f"{name}{split}.npz", **arrays)
        command = [python, __file__, "run", "--results", str(results), "--folder", folder]
        subprocess.run(command, check=True)


def read(path: Path) -> list[dict]:
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def show(results: Path) -> None:
    records = read(results)
    print(f"| {' | '.join(['cost of a row, as a fraction', *SETS, 'seconds'])} |")
    print(f"|---{'|---' * (len(SETS) + 1)}|")
    for method in [*OURS, *EMPULSE]:
        cells = []
        own = [r for r in records if r["method"] == method]
        for name in SETS:
            each = [r["cost"] / r["constant"] for r in own if r["set"] == name]
            cells.append(f"{np.mean(each):.3f} ± {np.std(each, ddof=1):.3f}" if each else "")
        if own:
            seconds = np.mean([r["seconds"] for r in own])
            print(f"| {method} | {' | '.join(cells)} | {seconds:.1f} |")
        else:
            print(f"| {method} | not run |{' |' * len(SETS)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("run", "show"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--empulse", metavar="PYTHON", help="an interpreter that has empulse")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part == "show":
        show(given.results)
    elif given.folder:
        run(given.results, EMPULSE, given.folder)
    elif given.empulse:
        run_empulse(given.empulse, given.results)
    else:
        run(given.results, OURS, None)
        print("empulse is left out: pass --empulse PYTHON, an interpreter that has it.")


if __name__ == "__main__":
    sys.exit(main())
