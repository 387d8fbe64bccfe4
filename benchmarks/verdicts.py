"""How often does a comparison call a gain significant where there is none?

    python benchmarks/verdicts.py [--tables 2000] [--seed 0]

Simulated tables of scores: sixteen candidates in the stages where ``softset compare`` has them, all
of them equally good. Printed is the fraction of tables in which any claim is significant (the gain
of a stage, the total gain, the cost of a simpler model), with the upper end of its 95 % interval
(exact, one-sided).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.stats import beta

from softset.comparison.result import Gains
from softset.comparison.statistics import gains_by_stage, one_row_of
from softset.counting.cells import Confusion
from softset.metrics.registry import get_metric
from softset.tasks import BINARY

# Rungs and sizes as those of the candidates of ``softset compare``.
STAGES = {f"d{k}": "default" for k in range(4)} | {f"t{k}": "tuned" for k in range(5)}
STAGES |= {f"m{k}": "metric" for k in range(6)} | {"e": "ensemble"}
SIZES = {name: 10 ** (3 + k % 4) for k, name in enumerate(STAGES)}
Scores = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator], tuple[Scores, float]]


def correlated(
    random: np.random.Generator,
    folds: int,
    repeats: int,
    gains: dict[str, float] | None = None,
    shared: float = 0.6,
    noise: float = 0.03,
) -> tuple[Scores, float]:
    """Scores with a correlation of n_test / (n_train + n_test) between splits, and of very many
    rows; a share of the variance is common to all candidates, as some splits are easier."""
    splits, rho = folds * repeats, 1 / folds
    luck = random.standard_normal((1 + len(STAGES), 1))
    own = np.sqrt(rho) * luck + np.sqrt(1 - rho) * random.standard_normal((len(luck), splits))
    values = 0.6 + noise * (np.sqrt(shared) * own[0] + np.sqrt(1 - shared) * own[1:])
    found = {c: v + (gains or {}).get(c, 0.0) for c, v in zip(STAGES, values, strict=True)}
    return found, 1e-6


def decided(
    random: np.random.Generator,
    rows: int,
    share: float,
    folds: int,
    repeats: int,
    metric: str,
    own: float,
    luck: float,
) -> tuple[Scores, float]:
    """Scores of decisions on few rows, a ``share`` of them positive.

    What is easy is shared, each candidate has a view of its ``own`` on each row, each fit ``luck``.
    """
    positives = max(folds, round(rows * share))
    y = np.arange(rows) < positives
    count = len(STAGES)
    seen = 1.5 * y + random.standard_normal(rows) + own * random.standard_normal((count, rows))
    cells = []
    for _ in range(repeats):
        place = np.empty(rows, dtype=int)
        for k in (True, False):
            mixed = random.permutation(np.flatnonzero(y == k))
            place[mixed] = np.arange(len(mixed)) % folds
        for fold in range(folds):
            test = place == fold
            noise = 0.3 * own * random.standard_normal((count, test.sum()))
            said = seen[:, test] + noise + luck * random.standard_normal((count, 1)) > 0.9
            sums = [np.full(count, v) for v in (y[test].sum(), test.sum())]
            cells.append(np.stack([(said & y[test]).sum(1), said.sum(1), *sums]))
    c = Confusion.from_sums(*(torch.from_numpy(v.astype(float)) for v in np.stack(cells, -1)))
    measured, test_rows = get_metric(metric), rows // folds
    counts = [test_rows - positives // folds, positives // folds]
    scores = dict(zip(STAGES, measured(c).numpy(), strict=True))
    return scores, one_row_of(measured, BINARY, counts, test_rows)


def constant(
    random: np.random.Generator, folds: int, repeats: int, apart: int
) -> tuple[Scores, float]:
    """Every split is ``apart`` rows better or worse, by the toss of a coin."""
    tosses = random.choice([-1, 1], (len(STAGES), folds * repeats))
    return dict(zip(STAGES, 0.5 + 0.01 * apart * tosses, strict=True)), 0.01


@dataclass(frozen=True)
class Setting:
    """A way to draw tables, in ``folds`` parts."""

    name: str
    folds: int
    draw: Draw


def _settings() -> list[Setting]:
    counts = [(2, 1), (2, 2), (3, 1), (5, 1), (5, 2), (5, 3), (10, 1), (10, 2), (20, 1), (50, 1)]
    found = [
        Setting(f"correlated splits, {f} folds x {r}", f, partial(correlated, folds=f, repeats=r))
        for f, r in counts
    ]
    for rows, share, folds, repeats, metric, own, luck in [
        (12, 0.5, 2, 1, "accuracy", 0.5, 0.2),
        (60, 0.2, 2, 1, "accuracy", 0.1, 0.0),
        (200, 0.1, 2, 1, "f1", 0.5, 0.2),
        (60, 0.2, 2, 2, "f1", 0.5, 0.2),
        (30, 0.3, 5, 1, "mcc", 0.1, 0.0),
        (60, 0.2, 5, 2, "accuracy", 0.1, 0.0),
        (1000, 0.05, 5, 1, "f1", 0.5, 0.2),
        (1000, 0.05, 10, 1, "balanced_accuracy", 0.5, 0.2),
    ]:
        name = f"{rows} rows, {share:.0%} positives, {metric}, {folds} folds x {repeats}"
        given = {"rows": rows, "share": share, "folds": folds, "repeats": repeats}
        draw = partial(decided, **given, metric=metric, own=own, luck=luck)
        found.append(Setting(name, folds, draw))
    for folds, repeats, apart in [(2, 1, 1), (2, 1, 3), (5, 1, 1), (5, 2, 3), (10, 1, 3)]:
        draw = partial(constant, folds=folds, repeats=repeats, apart=apart)
        name = f"{apart} rows up or down in each split, {folds} folds x {repeats}"
        found.append(Setting(name, folds, draw))
    return found


SETTINGS = _settings()


def any_significant(gains: Gains) -> bool:
    """Whether any claim is significant."""
    cost = gains.simpler is not None and gains.simpler.difference.significant
    stages = (stage.gain for stage in gains.stages if stage.gain is not None)
    return gains.total.significant or cost or any(gain.significant for gain in stages)


def count_significant(setting: Setting, tables: int, seed: int) -> int:
    """How many tables of so many have a significant claim."""
    random = np.random.default_rng([seed, SETTINGS.index(setting)])
    found = 0
    for _ in range(tables):
        scores, grain = setting.draw(random)
        found += any_significant(
            gains_by_stage(scores, STAGES, SIZES, folds=setting.folds, one_row=grain)
        )
    return found


def upper(count: int, tables: int) -> float:
    """The upper end of the one-sided 95 % interval of a share (Clopper and Pearson 1934)."""
    return 1.0 if count == tables else float(beta.ppf(0.95, count + 1, tables - count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    n = arguments.tables
    print(
        f"| {n} tables of equal candidates | significant | fraction | at most |\n|---|---|---|---|"
    )
    for setting in SETTINGS:
        count = count_significant(setting, n, arguments.seed)
        share, most = f"{100 * count / n:.1f} %", f"{100 * upper(count, n):.1f} %"
        print(f"| {setting.name} | {count} | {share} | {most} |", flush=True)


if __name__ == "__main__":
    main()
