"""What columns with a different whole number in every row were worth to the winner."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

import numpy as np

from softset.checks import listed
from softset.comparison.plan import MARGIN, Plan
from softset.comparison.worker import Experiment, Outcome, outcomes

# Splits on which the winner is fitted once more, without them.
SPLITS = 2


def worth_of_identifiers(
    plan: Plan, winner: str, found: list[dict[str, Outcome]], label: str
) -> list[str]:
    """One sentence: the winner with these columns and without, on the first splits; or none.

    There is none without such columns, where there are no others, or when the time is over.
    """
    seconds = float(np.mean([split[winner].seconds for split in found]))
    left = (plan.deadline - time.monotonic() - MARGIN) / (1.3 * seconds + 1e-9)
    count = int(min(SPLITS, len(found), max(0.0, left)))
    task = _without(plan)
    if task is None or count == 0:
        return []
    candidate = plan.by_id[winner]
    fit = candidate.fit
    task = replace(task, fits={fit: [candidate]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the runs have said so
        without = [outcomes(task, i, fit)[winner].score for i in range(count)]
    own = [split[winner].score for split in found[:count]]
    a, b = math.fsum(own) / count, math.fsum(without) / count
    several = len(plan.table.identifiers) > 1
    return [
        f"column{'s' * several} {listed(plan.table.identifiers)}, different in every row, "
        f"{'were' if several else 'was'} worth {a - b:+.3f} of {label} to the winner: {a:.3f} "
        f"with {'them' if several else 'it'}, {b:.3f} without, on the first "
        f"{f'{count} splits' if count > 1 else 'split'}."
    ]


def _without(plan: Plan) -> Experiment | None:
    """The task of the runs without the columns."""
    table = plan.table
    if not table.identifiers:
        return None
    task = plan.task()
    if table.schema is None:
        kept = np.setdiff1d(np.arange(table.x.shape[1]), table.identifiers)
        return replace(task, x=task.x[:, kept]) if len(kept) else None
    schema = [c for c in table.schema if c.name not in table.identifiers]
    if all(c.kind == "dropped" for c in schema):
        return None
    return replace(task, x=task.x[[c.name for c in schema]], schema=schema)
