"""F1 against the threshold: the picture that explains paper 000."""

from __future__ import annotations

from typing import Any

import torch

from softset.counting.cells import confusion
from softset_papers.datasets.splits import load_parts
from softset_papers.judging import METRICS, the_same
from softset_papers.kinds.context import Context
from softset_papers.networks.small import fit_network

THRESHOLDS = tuple(round(0.02 * i, 2) for i in range(1, 50))


def thresholds_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train all trials of a row; F1 on test rows at 49 thresholds, the mean over the trials."""
    parts = load_parts(run["data"], run["split"], run["duplicates"], run["rows"], context.data_dir)
    fitted = fit_network(parts, run["options"], run["seeds"])
    w = None if parts.test.w is None else torch.from_numpy(parts.test.w)
    c = confusion(
        torch.from_numpy(fitted.test),
        torch.from_numpy(parts.test.y),
        thresholds=list(THRESHOLDS),
        sample_weight=w,
        batch_dims=1,
    )
    f1 = METRICS["f1"](c).double()
    values = {
        "f1 at 0.5": f1[:, THRESHOLDS.index(0.5)].tolist(),
        "f1 at its best": f1.max(-1).values.tolist(),
        "f1 at its worst from 0.1 to 0.9": f1[:, 4:45].min(-1).values.tolist(),
    }
    rounded = {name: [round(v, 5) for v in numbers] for name, numbers in values.items()}
    curve = [round(v, 4) for v in f1.mean(0).tolist()]
    return {"values": the_same(rounded), "f1": curve, **fitted.info}
