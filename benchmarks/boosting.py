"""Does training for the metric beat log-loss with a tuned threshold? And what does a round cost?

    python benchmarks/boosting.py quality [--data-dir DIR] [--out FILE] [--library xgboost]
    python benchmarks/boosting.py summary [--out FILE]
    python benchmarks/boosting.py curvature [--data-dir DIR]
    python benchmarks/boosting.py cost

``quality`` appends one JSON line for each data set, split and metric to ``--out`` and skips what is
there already, so that it can be stopped and started again; ``summary`` prints its tables.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata, wilcoxon
from sklearn.model_selection import StratifiedKFold

import softset as ss
from softset.boosting.base import LIBRARIES, library_class
from softset.boosting.objective import lightgbm_objective, metric_gradient, xgboost_objective
from softset.decisions.smoothing import smooth_threshold
from softset.tables.rows import Examples
from softset.tables.splits import content_split

METRICS = ("f1", "mcc")
SEED = 1
SPLITS = 5
DEFAULT = "log-loss, then metric (default)"
BASELINE = "log-loss, tuned"


# --- data -----------------------------------------------------------------------------------------


def data_sets(directory: Path) -> dict[str, Path]:
    folder = directory / "imblearn_zenodo"
    if not folder.is_dir():
        sys.exit(f"--data-dir must hold imblearn_zenodo/*.parquet, found none in {directory}.")
    # Mammography is one of the 22.
    found = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
    return found | {n: directory / f"{n}.parquet" for n in ("adult", "creditcard_subset")}


def load(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    frame = pd.read_parquet(path)
    frame = frame.drop(columns=["split", "source"], errors="ignore")
    target = next(c for c in ("label", "income", "Class") if c in frame)
    y = frame.pop(target).isin([1, ">50K"]).to_numpy().astype(int)
    return frame, y


def splits(x: pd.DataFrame, y: np.ndarray):
    folds = StratifiedKFold(SPLITS, shuffle=True, random_state=SEED)
    return enumerate(folds.split(np.zeros(len(y)), y))


# --- quality --------------------------------------------------------------------------------------


def compare(x, y, x_test, y_test, metric: str, library: str, seed: int) -> dict[str, float]:
    settings = {"library": library, "random_state": seed}
    default = ss.MetricBoostingClassifier(metric, **settings).fit(x, y)
    fresh = ss.MetricBoostingClassifier(metric, n_estimators=0, **settings).fit(x, y)
    halves = (fresh.predict_proba(x_test)[:, 1] >= 0.5).astype(float)
    return {
        "log-loss, 0.5": default.log_loss_part(threshold=None).score(x_test, y_test),
        BASELINE: default.log_loss_part().score(x_test, y_test),
        "metric, 0.5": ss.evaluate(halves, y_test, metric, from_logits=False),
        "metric, tuned": fresh.score(x_test, y_test),
        DEFAULT: default.score(x_test, y_test),
    }


def quality(directory: Path, out: Path, library: str) -> None:
    torch.set_num_threads(1)
    done = {(r["set"], r["split"], r["metric"], r["library"]) for r in read(out)}
    for name, path in data_sets(directory).items():
        x, y = load(path)
        for k, (train, test) in splits(x, y):
            for metric in METRICS:
                if (name, k, metric, library) in done:
                    continue
                start = time.perf_counter()
                parts = x.iloc[train], y[train], x.iloc[test], y[test]
                scores = compare(*parts, metric, library, seed=k)
                row = {"set": name, "split": k, "metric": metric, "library": library}
                row |= {"scores": scores, "seconds": round(time.perf_counter() - start, 2)}
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        print(name, flush=True)


def read(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def summary(out: Path) -> None:
    rows = read(out)
    if not rows:
        sys.exit(f"{out} holds no results. Run: python benchmarks/boosting.py quality")
    for library in sorted({r["library"] for r in rows}):
        for metric in METRICS:
            chosen = [r for r in rows if (r["library"], r["metric"]) == (library, metric)]
            if chosen:
                report(chosen, library, metric)


def report(rows: list[dict], library: str, metric: str) -> None:
    names = list(rows[0]["scores"])
    sets = sorted({r["set"] for r in rows})
    values = {
        s: np.array([[r["scores"][n] for n in names] for r in rows if r["set"] == s]) for s in sets
    }
    means = np.array([values[s].mean(0) for s in sets])
    ranks = np.array([rankdata(-row) for row in means.round(12)]).mean(0)
    ours = names.index(DEFAULT)
    print(f"\n### {metric}, {library}: {len(sets)} sets, {len(rows) // len(sets)} splits\n")
    print(f"| | mean {metric} | mean rank | default better / worse (sets) | Wilcoxon p |")
    print("|---|---|---|---|---|")
    for j, name in enumerate(names):
        difference = means[:, ours] - means[:, j]
        versus = " | "
        if j != ours:
            p = wilcoxon(difference).pvalue
            versus = f"{(difference > 1e-12).sum()} / {(difference < -1e-12).sum()} | {p:.3f}"
        print(f"| {name} | {means[:, j].mean():.4f} | {ranks[j]:.2f} | {versus} |")
    base = names.index(BASELINE)
    print(f"\n| set | {BASELINE} | default | difference | standard error |\n|---|---|---|---|---|")
    worse = []
    for s in sets:
        d = values[s][:, ours] - values[s][:, base]
        error = d.std(ddof=1) / np.sqrt(len(d))
        low = d.mean() < -2 * error - 1e-12
        worse += [s] if low else []
        a, b = values[s][:, base].mean(), values[s][:, ours].mean()
        mark = " (worse by more than 2)" if low else ""
        print(f"| {s} | {a:.4f} | {b:.4f} | {d.mean():+.4f} | {error:.4f}{mark} |")
    print(
        f"\nWorse than {BASELINE!r} by more than two standard errors: {', '.join(worse) or 'none'}."
    )


# --- curvature ------------------------------------------------------------------------------------


def curvatures(g: np.ndarray, z: np.ndarray) -> dict[str, np.ndarray]:
    """The candidates; the diagonal is ``g (1 - 2p)`` where the step is straight."""
    p = 1 / (1 + np.exp(-z))
    return {
        "absolute gradient": np.abs(g),
        "Gauss-Newton p(1-p)": p * (1 - p),
        "half of each": np.abs(g) / 2 + p * (1 - p) / 4,
        "clipped true diagonal": np.maximum(g * (1 - 2 * p), 0.1 * np.abs(g)),
    }


def curvature(directory: Path) -> None:
    """From nothing, LightGBM, 200 rounds, threshold and rounds chosen on held-out rows; F1."""
    import lightgbm

    torch.set_num_threads(1)
    table: dict[str, list[list[float]]] = {}
    for name, path in data_sets(directory).items():
        if path.parent.name != "imblearn_zenodo":
            continue
        x, y = load(path)
        x = x.to_numpy(float)
        results: dict[str, list[float]] = {}
        for k, (train, test) in splits(x, y):
            if k >= 2:
                break
            own = Examples(x[train], y[train], np.ones(len(train)))
            rows, checks = (train[part] for part in content_split(own, 0.25, salt=k))
            for kind in curvatures(np.zeros(1), np.zeros(1)):

                def objective(z, _, kind=kind, rows=rows, y=y):
                    g, _ = metric_gradient(z, y[rows], "f1")
                    return g, curvatures(g, np.asarray(z))[kind] + 1e-6

                settings = library_class("lightgbm")(
                    {"learning_rate": 0.1, "seed": 0}, 1, len(rows), 2, [], {}
                ).settings
                data = lightgbm.Dataset(x[rows], y[rows])
                booster = lightgbm.train(settings | {"objective": objective}, data, 200)
                tuned = []
                for i in range(10, 201, 10):
                    z = booster.predict(x[checks], num_iteration=i)
                    cut, value = smooth_threshold(
                        z, y[checks], np.ones(len(z)), ss.get_metric("f1")
                    )
                    tuned.append((value, cut, i))
                _, cut, i = max(tuned)
                z = booster.predict(x[test], num_iteration=i) - cut
                results.setdefault(kind, []).append(ss.evaluate(z, y[test], "f1", from_logits=True))
        for kind, scores in results.items():
            table.setdefault(kind, []).append(scores)
        print(name, {k: round(float(np.mean(v)), 4) for k, v in results.items()}, flush=True)
    means = np.array([np.mean(v, axis=1) for v in table.values()])
    ranks = np.array([rankdata(-column) for column in means.T]).mean(0)
    print("\n| curvature | mean F1 | mean rank |\n|---|---|---|")
    for kind, mean, rank in zip(table, means.mean(1), ranks, strict=True):
        print(f"| {kind} | {mean:.4f} | {rank:.2f} |")


# --- cost -----------------------------------------------------------------------------------------


def cost(n: int = 10**6, features: int = 30, rounds: int = 10, repeats: int = 5) -> None:
    """Processor time of a round with the built-in log-loss and with the metric; they take turns.

    Processor time on one thread, the least of several runs: other programs do not disturb it much.
    """
    import lightgbm
    import xgboost

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, features)).astype(np.float32)
    signal = x[:, :5].sum(1) + rng.normal(size=n)

    def seconds(train) -> float:
        start = time.process_time()
        train()
        return (time.process_time() - start) / rounds

    def with_lightgbm(objective, rows) -> float:
        settings = {"objective": objective, "verbosity": -1, "num_threads": 1}
        settings |= {"force_col_wise": True}
        return seconds(lambda: lightgbm.train(settings, rows, rounds))

    def with_xgboost(objective, rows) -> float:
        settings = {"objective": "binary:logistic", "nthread": 1, "base_score": 0.5}
        settings |= {"min_child_weight": 1e-3}
        return seconds(lambda: xgboost.train(settings, rows, rounds, obj=objective))

    print(f"n = {n}, {features} features, 1 thread, least of {repeats} x {rounds} rounds\n")
    print(
        "| | positives | log-loss | f1 | of it the objective | ratio |\n|---|---|---|---|---|---|"
    )
    for share in (0.5, 0.1):
        y = (signal > np.quantile(signal, 1 - share)).astype(np.float32)
        lightgbm_rows = lightgbm.Dataset(x, y, params={"verbosity": -1}).construct()
        cases = {
            "LightGBM": (with_lightgbm, lightgbm_rows, "binary", lightgbm_objective("f1")),
            "XGBoost": (with_xgboost, xgboost.QuantileDMatrix(x, y), None, xgboost_objective("f1")),
        }
        for name, (run, rows, built_in, ours) in cases.items():
            pairs = [[run(built_in, rows), run(ours, rows)] for _ in range(repeats)]
            a, b = np.min(pairs, axis=0)
            once = [seconds(lambda o=ours, r=rows: o(signal, r)) * rounds for _ in range(repeats)]
            own = min(once)
            line = " | ".join(f"{1e3 * t:.0f} ms" for t in (a, b, own))
            print(f"| {name} | {share:.0%} | {line} | {b / a:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["quality", "summary", "curvature", "cost"])
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("boosting.jsonl"))
    parser.add_argument("--library", choices=list(LIBRARIES), default="lightgbm")
    args = parser.parse_args()
    if args.what == "quality":
        quality(args.data_dir, args.out, args.library)
        summary(args.out)
    elif args.what == "summary":
        summary(args.out)
    elif args.what == "curvature":
        curvature(args.data_dir)
    else:
        cost()


if __name__ == "__main__":
    main()
