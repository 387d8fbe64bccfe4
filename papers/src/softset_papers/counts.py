"""Tables that are counted, not trained: class weights, oversampling, and minutes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from softset_papers.networks import class_weights, fit_network
from softset_papers.runner import load_parts

_STEADY_EPOCHS = 200  # of an adversarial training that is not run to its end


def _of(values: dict[str, float]) -> dict[str, Any]:
    """The same under every protocol: nothing is judged here."""
    plain = {name: [round(v, 5)] for name, v in values.items()}
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {"values": dict.fromkeys(("fair", "published", "code"), plain), "date": date}


def weights_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Paper 000 table 8: ``n / (2 n_c)`` of the training rows."""
    parts = load_parts(run["data"], run["split"], run["duplicates"], run["rows"], data_dir)
    negative, positive = class_weights(parts.train)
    return _of({"negative": negative, "positive": positive})


def counts_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Paper 000 table 10: all rows, and the training rows after oversampling."""
    parts = load_parts(run["data"], run["split"], run["duplicates"], run["rows"], data_dir)
    sums = np.zeros(2)
    for part in parts:
        w = np.ones(len(part.y)) if part.w is None else part.w
        sums += np.bincount(part.y, weights=w, minlength=2)
    w = np.ones(len(parts.train.y)) if parts.train.w is None else parts.train.w
    larger = np.bincount(parts.train.y, weights=w, minlength=2).max()
    return _of(
        {
            "total": sums.sum(),
            "positives": sums[1],
            "share": 100 * sums[1] / sums.sum(),
            "train total": 2 * larger,
            "train positives": larger,
            "train share": 50.0,
        }
    )


def runtime_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """CPU minutes to train one network alone.

    The adversarial method is timed on some of the rows and multiplied up: training it to its end
    takes hours.
    """
    options, rows = dict(run["options"]), run["rows"]
    if options["loss"] != "adversarial":
        parts = load_parts(run["data"], run["split"], run["duplicates"], rows, data_dir)
        started = time.process_time()
        fitted = fit_network(parts, options, run["seeds"][:1])
        seconds = time.process_time() - started
        return {**_of({"minutes": seconds / 60}), **fitted.info, "seconds an epoch": round(
            seconds / fitted.info["epochs"][0], 4)}  # fmt: skip
    some = load_parts(run["data"], run["split"], run["duplicates"], 1000, data_dir)
    whole = load_parts(run["data"], run["split"], run["duplicates"], rows, data_dir)
    fit_network(some, options | {"max_epochs": 1}, [0])  # compiles
    started = time.process_time()
    fit_network(some, options | {"max_epochs": 1}, [0])
    each = (time.process_time() - started) / (len(some.train.y) + len(some.validation.y))
    epoch = each * (len(whole.train.y) + len(whole.validation.y))
    return {**_of({"minutes": epoch * _STEADY_EPOCHS / 60}), "seconds an epoch": round(epoch, 4)}
