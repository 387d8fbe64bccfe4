"""Rows on tabular data: trained and judged, or counted (class weights, oversampling, minutes)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from softset_papers.baselines.rows import fit_ccs, fit_forest, fit_svm_perf
from softset_papers.datasets.splits import Parts, load_parts
from softset_papers.judging import Fitted, judge, the_same
from softset_papers.kinds.context import Context
from softset_papers.networks.searched import Tried, fit_searched, search, search_key
from softset_papers.networks.small import class_weights, fit_network

FITS: dict[str, Callable[[Parts, dict[str, Any], list[int]], Fitted]] = {
    "network": fit_network,
    "searched": fit_searched,
    "svm-perf": fit_svm_perf,
    "ccs": fit_ccs,
    "forest": fit_forest,
}
"""How rows are fitted: ``fit(parts, options, seeds) -> Fitted``.

A fit that has no seeds returns one trial. To add one: name it here, and use it as ``Row.fit``.
"""
_STEADY_EPOCHS = 200  # of an adversarial training that is not run to its end
_FOUND: dict[str, Tried] = {}  # searches of this process


def train_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Fit all trials of a row and judge them under every protocol."""
    parts, options = _parts(run, context), run["options"]
    if run["fit"] == "searched":
        options = options | {"tried": _tried(run, context)}
    fitted = FITS[run["fit"]](parts, options, run["seeds"])
    return {"values": judge(fitted, parts.validation, parts.test, options), **fitted.info}


def _tried(run: dict[str, Any], context: Context) -> Tried:
    """What the search of a run finds, or found before; it is done on split 0."""
    key = search_key(run)
    known = context.searches.get(key) or _FOUND.get(key)
    if known is None:
        known = search(_parts(run | {"split": 0}, context), run["options"])
        _FOUND[key] = known
    return known


def _parts(run: dict[str, Any], context: Context) -> Parts:
    return load_parts(run["data"], run["split"], run["duplicates"], run["rows"], context.data_dir)


# --- counted ------------------------------------------------------------------------------------


def _counted(values: dict[str, float]) -> dict[str, Any]:
    return {"values": the_same({name: [round(v, 5)] for name, v in values.items()})}


def weights_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Paper 000 table 8: ``n / (2 n_c)`` of the training rows."""
    negative, positive = class_weights(_parts(run, context).train)
    return _counted({"negative": negative, "positive": positive})


def counts_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Paper 000 table 10: all rows, and the training rows after oversampling."""
    sizes = []
    for part in _parts(run, context):
        w = np.ones(len(part.y)) if part.w is None else part.w
        sizes.append(np.bincount(part.y, weights=w, minlength=2))
    total, larger = np.sum(sizes, axis=0), float(sizes[0].max())
    return _counted(
        {
            "total": float(total.sum()),
            "positives": float(total[1]),
            "share": float(100 * total[1] / total.sum()),
            "train total": 2 * larger,
            "train positives": larger,
            "train share": 50.0,
        }
    )


def runtime_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """CPU minutes to train one network alone.

    The adversarial method is timed on some of the rows and multiplied up: training it to its end
    takes hours.
    """
    options, whole = dict(run["options"]), _parts(run, context)
    if options["loss"] != "adversarial":
        started = time.process_time()
        fitted = fit_network(whole, options, run["seeds"][:1])
        seconds = time.process_time() - started
        each = round(seconds / fitted.info["epochs"][0], 4)
        return {**_counted({"minutes": seconds / 60}), **fitted.info, "seconds an epoch": each}
    some = _parts(run | {"rows": 1000}, context)
    fit_network(some, options | {"max_epochs": 1}, [0])  # compiles
    started = time.process_time()
    fit_network(some, options | {"max_epochs": 1}, [0])
    row = (time.process_time() - started) / (len(some.train.y) + len(some.validation.y))
    epoch = row * (len(whole.train.y) + len(whole.validation.y))
    minutes = {"minutes": epoch * _STEADY_EPOCHS / 60}
    return {**_counted(minutes), "seconds an epoch": round(epoch, 4)}
