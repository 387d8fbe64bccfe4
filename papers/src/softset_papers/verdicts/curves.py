"""Conditions on the curves of paper 004: how a loss follows its score, and when it converges."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from softset_papers.verdicts.conditions import Found, one
from softset_papers.verdicts.rule import Cell, Evidence

BETAS = (0.5, 1.0, 2.0, 3.0)
LINEAR = -0.9  # a correlation that we call linear, or below
_NEAR = 0.02  # of its best F1: there a curve has converged


def _cell(evidence: Evidence, table: str, row: str) -> Cell:
    return Cell(table, evidence.tables[table].blocks[0].key, row)


def correlations(table: str, row: str, linear: bool = True) -> Callable[[Evidence], Found]:
    """The correlation of loss and score for every beta: all linear, or at most two of four."""

    def find(evidence: Evidence) -> Found:
        texts, count, why = [], 0, ""
        for beta in BETAS:
            cell = _cell(evidence, table, row.format(beta))
            shown = evidence.shown(cell)
            if shown is None:
                return one(None, "not run")
            why = why or evidence.reduced(cell)
            values = shown.records[0].result["values"]["fair"]
            whole, late = (values[name] for name in ("correlation", "correlation after epoch 1"))
            known = [v for v in whole if v is not None]
            if not known:
                texts.append(f"β = {beta:g} undefined")
                continue
            count += all(v is not None and v <= LINEAR for v in whole)
            rest = [v for v in late if v is not None]
            without = f" ({statistics.fmean(rest):.2f} without epoch 1)" if rest else ""
            texts.append(f"β = {beta:g} {statistics.fmean(known):.2f}{without}")
        return one(
            count == len(BETAS) if linear else count <= len(BETAS) // 2, ", ".join(texts), why=why
        )

    return find


def convergence(table: str, rows: dict[str, str]) -> Callable[[Evidence], Found]:
    """The first epoch from which F1 on training images stays near its best: first of the first row.

    ``rows``: their ids by what they are called.
    """

    def find(evidence: Evidence) -> Found:
        medians, curves, why = {}, [], ""
        for called, row in rows.items():
            cell = _cell(evidence, table, row)
            shown = evidence.shown(cell)
            if shown is None:
                return one(None, "not run")
            why = why or evidence.reduced(cell)
            curves = shown.records[0].result["curves"]
            medians[called] = statistics.median(converged(c["f1 train"]) for c in curves)
        last = len(curves[0]["f1 train"])
        text = ", ".join(
            f"{called} " + (f"epoch {at:g}" if at <= last else "not yet")
            for called, at in medians.items()
        )
        first, *others = medians.values()
        return one(first < min(others), f"{text} of {last}", why=why)

    return find


def converged(f1: list[float]) -> int:
    """The first epoch (from 1) from which on F1 is never further than 0.02 below its best.

    One more than there are epochs if the last one is not near the best.

    >>> converged([0.1, 0.5, 0.6, 0.59, 0.61]), converged([0.1, 0.6, 0.3])
    (3, 4)
    """
    best = max(f1)
    late = [i for i, value in enumerate(f1) if value < best - _NEAR]
    return 1 if not late else late[-1] + 2
