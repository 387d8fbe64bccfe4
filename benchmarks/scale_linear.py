"""What a linear model for the metric costs by rows, columns and ranks.

    python benchmarks/scale_linear.py write 20000000   # rows x 30 as Parquet files, in the folder
    python benchmarks/scale_linear.py pass  20000000   # a pass of ours beside SGDClassifier's
    python benchmarks/scale_linear.py fit   20000000   # the whole fit; stopped, it goes on
    python benchmarks/scale_linear.py sparse           # 200,000 x 1,000,000, beside saga
    python benchmarks/scale_linear.py ranks            # rows a second of one rank and of two
    python benchmarks/scale_linear.py gain             # F1 beside logistic regression, tuned
    python benchmarks/scale_linear.py estimate         # 10^10 rows on 1,000 ranks, on paper

Files are in the folder ``SOFTSET_SCALE`` (by default in the temporary directory).
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch.distributed as dist
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, SGDClassifier

import softset as ss
from scale import ring_seconds, tree_seconds
from softset.classifiers import linear_stream
from softset.classifiers.linear_stream import StreamedRows, fit_stream, scaled_blocks, survey
from softset.metrics.registry import get_goal
from softset.tables.rows import Examples
from softset.training import linear_passes
from softset.training.linear_passes import LinearPasses, RankSums

FOLDER = Path(os.environ.get("SOFTSET_SCALE", Path(tempfile.gettempdir(), "softset-scale")))
COLUMNS, BLOCK = 30, 500_000
CLASSES = np.array([0, 1])


def peak() -> float:
    """The peak of resident memory so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def made(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """5 % positives, whose log-odds are not linear in two of the columns, and outliers."""
    g = np.random.default_rng([7, seed])
    x = g.standard_normal((rows, COLUMNS)).astype(np.float32)
    z = x[:, :10] @ np.linspace(1.0, 0.1, 10) + 0.7 * np.maximum(x[:, 10], 0) ** 2
    y = z + g.logistic(size=rows) * 1.2 > 4.9
    far = g.random(rows) < 0.01  # rows whose labels follow another rule
    y[far] = x[far, 0] < -1
    return x, y.astype(np.int64)


def folder(rows: int) -> Path:
    return FOLDER / f"{rows}"


def write(rows: int) -> None:
    folder(rows).mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, BLOCK)):
        x, y = made(min(BLOCK, rows - first), number)
        frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=y)
        frame.to_parquet(
            folder(rows) / f"{number:05}.parquet", compression=None, row_group_size=2**17
        )


def stream(rows: int) -> ss.ParquetRows:
    if not folder(rows).exists():
        write(rows)
    return ss.ParquetRows(folder(rows), "y")


def one_pass(rows: int) -> None:
    """By turns, in the same run: SGDClassifier, log-loss, the metric (two passes)."""
    before, table = peak(), stream(rows)
    model = ss.MetricLinearClassifier("f1")
    source = StreamedRows(model, table)
    start = time.perf_counter()
    found = survey(model, source, RankSums())
    surveyed = time.perf_counter() - start
    model._center, model._scale = found.center, found.scale
    passes = LinearPasses(lambda: scaled_blocks(model, source), COLUMNS, 2)
    flat = np.zeros(COLUMNS + 1)
    sgd = SGDClassifier(loss="log_loss")
    times: dict[str, list[float]] = {"sgd": [], "log-loss": [], "metric": []}
    for _ in range(2):
        start = time.perf_counter()
        for X, y in table:
            sgd.partial_fit(X.to_numpy(dtype=np.float64), y, CLASSES)
        times["sgd"].append(time.perf_counter() - start)
        start = time.perf_counter()
        passes.log_loss(flat)
        times["log-loss"].append(time.perf_counter() - start)
        start = time.perf_counter()
        passes.soft_loss(get_goal("f1"), flat)
        times["metric"].append((time.perf_counter() - start) / 2)
    sgd_time = min(times["sgd"])
    for name, seconds in times.items():
        best = min(seconds)
        print(
            f"{rows:,} rows, a pass of {name}: {best:.1f} s, {rows / best:,.0f} rows a second, "
            f"{best / sgd_time:.2f} of SGDClassifier"
        )
    print(
        f"the survey (two passes): {surveyed:.1f} s; memory above the imports "
        f"{peak() - before:.0f} MB"
    )


def fit(rows: int) -> None:
    before, table = peak(), stream(rows)
    shown: list[linear_passes.Shown] = []

    class Counted(linear_passes.Shown):
        def __init__(self, *given):
            super().__init__(*given)
            shown.append(self)

    linear_stream.Shown = Counted
    model = ss.MetricLinearClassifier("f1", verbose=60)
    start = time.perf_counter()
    fit_stream(model, table, folder(rows).with_suffix(".checkpoint"))
    seconds = time.perf_counter() - start
    passes, memory = 2 + shown[0].passes, peak() - before
    x, y = made(BLOCK, 10**6)  # rows of their own
    part = model.logistic_part()
    print(
        f"{rows:,} rows: {passes} passes in {seconds:.0f} s, memory above the imports "
        f"{memory:.0f} MB, penalty {model.path_[model.chosen_].penalty:g}, F1 of "
        f"{BLOCK:,} new rows {model.score(x, y):.4f}, of its logistic regression "
        f"{part.score(x, y):.4f}"
    )


def sparse(rows: int = 200_000, columns: int = 1_000_000, filled: int = 50) -> None:
    g = np.random.default_rng(11)
    place = (columns * g.random((2 * rows, filled)) ** 3).astype(np.int64)  # some are frequent
    data = np.ones(place.size, dtype=np.float64)
    at = np.arange(0, place.size + 1, filled)
    x = csr_matrix((data, place.ravel(), at), shape=(2 * rows, columns))
    coef = g.normal(size=columns) * (g.random(columns) < 0.1)
    z = np.asarray(x @ coef).ravel()
    y = (z + g.logistic(size=2 * rows) > np.quantile(z, 0.9)).astype(np.int64)
    half = slice(rows), slice(rows, None)
    blocks = [(x[i : i + 20_000], y[i : i + 20_000]) for i in range(0, rows, 20_000)]
    start = time.perf_counter()
    ours = ss.MetricLinearClassifier("f1").fit(blocks)
    print(
        f"softset, in blocks: F1 {ours.score(x[half[1]], y[half[1]]):.4f}, "
        f"{time.perf_counter() - start:.0f} s, point {ours.chosen_} of the path"
    )
    start = time.perf_counter()
    saga = LogisticRegression(solver="saga", max_iter=100).fit(x[half[0]], y[half[0]])
    seconds = time.perf_counter() - start
    p = saga.predict_proba(x[half[0]])[:, 1]
    cut = ss.best_threshold(p, y[half[0]], "f1", from_logits=False)
    q = (saga.predict_proba(x[half[1]])[:, 1] >= cut).astype(float)
    f1 = ss.evaluate(q, y[half[1]], "f1", from_logits=False)
    print(f"LogisticRegression(saga), threshold tuned: F1 {f1:.4f}, {seconds:.0f} s")


def one_rank(where: str, rank: int, size: int, rows: int) -> None:
    dist.init_process_group(
        "gloo", f"file://{where}/meeting", datetime.timedelta(minutes=5), size, rank
    )
    blocks = []
    for number in range(rank, 8, size):
        x, y = made(rows // 8, number)
        blocks.append(Examples(x.astype(np.float64), y, np.ones(len(y))))
    passes = LinearPasses(lambda: blocks, COLUMNS, 2, sums=RankSums("auto"))
    flat, goal, times = np.zeros(COLUMNS + 1), get_goal("f1"), []
    for _ in range(5):
        dist.barrier()
        start = time.perf_counter()
        passes.soft_loss(goal, flat)
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(2 * rows / min(times)))


def ranks(rows: int = 2_000_000) -> None:
    for size in (1, 2):
        with tempfile.TemporaryDirectory() as where:
            words = [sys.executable, __file__, "one-rank", where]
            running = [
                subprocess.Popen([*words, str(k), str(size), str(rows)], stdout=subprocess.PIPE)
                for k in range(size)
            ]
            told, *_ = [process.communicate()[0] for process in running]
            print(f"{size} rank(s): {json.loads(told):,.0f} rows a second and pass, in memory")


def gain(rows: int = 5_000_000, draws: int = 200) -> None:
    """F1 of the model and of its logistic regression on new rows, and their difference."""
    x, y = (np.concatenate(c) for c in zip(*(made(BLOCK, k) for k in range(4)), strict=True))
    model = ss.MetricLinearClassifier("f1").fit(stream(rows))
    both = [m.predict(x) for m in (model, model.logistic_part())]
    g = np.random.default_rng(0)

    def f1(decided: np.ndarray, w: np.ndarray) -> float:
        tp = w @ (decided * y)
        return 2 * tp / (w @ decided + w @ y)

    ones = np.ones(len(y))
    values = [f1(d, ones) for d in both]
    drawn = [f1(both[0], w) - f1(both[1], w) for w in g.poisson(1.0, (draws, len(y)))]
    low, high = np.quantile(drawn, [0.025, 0.975])
    print(
        f"{rows:,} rows: F1 {values[0]:.4f}, logistic regression with a tuned threshold "
        f"{values[1]:.4f}, difference {values[0] - values[1]:+.4f} [{low:+.4f}, {high:+.4f}], "
        f"penalty {model.path_[model.chosen_].penalty:g}"
    )


def estimate(a_second: float = 1e6, rows: float = 1e10, size: int = 1000) -> None:
    """Seconds of a fit: passes over the rows of a rank, and two sums for each evaluation."""
    passes = 150
    print("| columns | s of a pass | s of sums in an evaluation | h of 150 passes |")
    print("|---|---|---|---|")
    for columns in (30, 1000, 10**6):
        a_pass = rows / size / a_second
        sums = tree_seconds(size, 40) + ring_seconds(size, 8 * (columns + 1))
        print(
            f"| {columns:,} | {a_pass:.0f} | {sums:.4f} | {passes * (a_pass + sums) / 3600:.2f} |"
        )


def main(words: list[str]) -> None:
    what, *rest = words or [""]
    numbers = [int(word) for word in rest if word.isdigit()]
    simple = {"write": write, "pass": one_pass, "fit": fit, "sparse": sparse, "ranks": ranks}
    simple.update({"gain": gain, "estimate": estimate})
    if what == "one-rank":
        one_rank(rest[0], *map(int, rest[1:]))
    elif what in simple:
        simple[what](*numbers)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
