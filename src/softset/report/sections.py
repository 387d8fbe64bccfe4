"""A comparison as the template reads it: every number already a word."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch

from softset.counting.cells import Confusion
from softset.decisions.evaluation import evaluate
from softset.metrics.registry import METRICS, get_metric
from softset.report import formats, plots
from softset.report.layout import shorten
from softset.report.operating import Operating, names_of, shown

_CLASSES = 25  # a confusion matrix with more is a wall of numbers
_ROWS = 200  # of a table of columns or classes
_CONFUSIONS = 15


def context(comparison: dict[str, Any], operating: Operating) -> dict[str, Any]:
    """All that the template needs."""
    names = names_of(comparison)
    metric = formats.metric_name(str(comparison["metric"]))
    done = [c for c in comparison["candidates"] if formats.is_number(c.get("mean"))]
    shown_candidates = {c["id"]: _candidate(c, comparison) for c in done}
    scores, differences = (
        plots.comparison(rows, difference=kind)
        for rows, kind in ((done, False), ([c for c in done if c.get("difference")], True))
    )
    for row in [*scores["rows"], *differences["rows"]]:
        row["shown"] = shown_candidates[row["candidate"]["id"]]
    return {
        "metric": metric,
        "title": shorten(f"{metric} on {_source(comparison)}: softset comparison", 160),
        "eyebrow": _eyebrow(comparison, metric),
        "verdict": _minus(shorten(comparison.get("verdict") or "No candidate finished.", 600)),
        "cards": _cards(comparison, names, metric),
        "warnings": [shorten(w, 500) for w in comparison.get("warnings") or []],
        "winner": names.get(comparison.get("winner") or "", ""),
        "reference": names.get(comparison.get("reference") or "", ""),
        "candidates": list(shown_candidates.values()),
        "failed": [
            {"name": names[str(c["id"])], "error": shorten(c.get("error") or "no result", 300)}
            for c in comparison["candidates"]
            if not formats.is_number(c.get("mean"))
        ],
        "scores": scores,
        "differences": differences,
        "splits": _splits(comparison),
        "prediction_note": _prediction_note(comparison),
        "histories": _histories(comparison, names, metric),
        "per_class": _per_class(comparison, operating, names),
        "matrix": _matrix(comparison, names),
        "data": _data(comparison),
        "settings": _pairs(comparison.get("settings")),
        "versions": _pairs(comparison.get("versions")),
        "seed": shorten(comparison.get("seed", formats.DASH), 40),
        "date": shorten(comparison.get("date") or "", 40),
        "duration": formats.seconds(comparison.get("duration")),
        "command": shorten(comparison.get("command") or "", 2000),
    }


def _minus(text: str) -> str:
    """A real minus sign before numbers."""
    return re.sub(r"(?<![\w.)-])-(?=\d)", formats.MINUS, text)


def _source(comparison: dict[str, Any]) -> str:
    return shorten((comparison.get("data") or {}).get("file") or "your data", 80)


def _eyebrow(comparison: dict[str, Any], metric: str) -> list[str]:
    data = comparison.get("data") or {}
    parts = [metric, shorten(data["file"], 80) if data.get("file") else ""]
    if data.get("rows"):
        parts.append(f"{formats.count(data['rows'])} rows")
    if comparison["task"] == "binary" and comparison.get("positive") is not None:
        parts.append(f"positive: {shorten(comparison['positive'], 60)}")
    parts.append(shorten(comparison.get("date") or "", 40))
    return [p for p in parts if p]


def _cards(comparison: dict[str, Any], names: dict[str, str], metric: str) -> list[dict[str, str]]:
    """The numbers to remember: the winner, its rival, and what is between them."""
    by_id = {c["id"]: c for c in comparison["candidates"]}
    winner, other = (by_id.get(comparison.get(k)) for k in ("winner", "reference"))
    compared = winner
    if winner is not None and winner is other:
        # Nothing beats the reference: the reader asks what training on the metric gave.
        rivals = [c for c in comparison["candidates"] if c.get("difference")]
        compared = other = next((c for c in rivals if c.get("family") != "plain"), None)
    cards = [
        {
            "label": f"{metric}, {names[str(c['id'])]}",
            "value": formats.number(c.get("mean")),
            "detail": formats.interval(c.get("low"), c.get("high")),
            "class_": "accent" if c is winner else "",
        }
        for c in (winner, other)
        if c is not None
    ]
    found = (compared or {}).get("difference") or {}
    if formats.is_number(found.get("mean")):
        value, detail = formats.signed(found["mean"]), _signed_interval(found)
        cards.append({"label": "difference", "value": value, "detail": detail, "class_": ""})
    return cards


def _signed_interval(found: dict[str, Any]) -> str:
    if not (formats.is_number(found.get("low")) and formats.is_number(found.get("high"))):
        return ""
    return f"[{formats.signed(found['low'])}, {formats.signed(found['high'])}]"


def _candidate(c: dict[str, Any], comparison: dict[str, Any]) -> dict[str, Any]:
    found = c.get("difference") or {}
    return {
        "name": shorten(c.get("name") or c["id"], 80),
        "description": shorten(c.get("description") or "", 300),
        "ours": c.get("family") != "plain",
        "winner": c["id"] == comparison.get("winner"),
        "reference": c["id"] == comparison.get("reference"),
        "mean": formats.number(c.get("mean")),
        "interval": formats.interval(c.get("low"), c.get("high")),
        "rank": formats.number(c.get("rank"), 1),
        "difference": formats.signed(found.get("mean")),
        "difference_interval": _signed_interval(found),
        "p": formats.p_value(found.get("p_adjusted", found.get("p"))),
        "probability": formats.percent(found.get("probability"), 0),
        "seconds": formats.seconds(c.get("seconds")),
        "thresholds": _thresholds(c.get("thresholds")),
    }


def _thresholds(values: Any) -> str:
    known = [v for v in values or [] if formats.is_number(v)]
    if not known:
        return formats.DASH
    digits = 2 if min(known) >= 0.01 and max(known) <= 0.99 else 4
    low, high = (formats.number(t, digits) for t in (min(known), max(known)))
    return low if low == high else f"{low}–{high}"


def _splits(comparison: dict[str, Any]) -> str:
    s = comparison.get("splits") or {}
    words = []
    if s.get("folds"):
        words.append(f"{s['folds']} folds")
    if s.get("repeats"):
        words.append(f"{s['repeats']} repeat{'s' if s['repeats'] != 1 else ''}")
    note = str(s.get("note") or "").strip().rstrip(".") or ", ".join(words)
    return shorten(f": {note}." if note else ".", 500)


def _prediction_note(comparison: dict[str, Any]) -> str:
    found = comparison.get("predictions") or {}
    notes = [found.get("note"), *(v.get("note") for v in found.values() if isinstance(v, dict))]
    note = shorten(next((n for n in notes if n), ""), 400).rstrip(".")
    return note[:1].upper() + note[1:]


def _histories(
    comparison: dict[str, Any], names: dict[str, str], metric: str
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    plain = {c["id"] for c in comparison["candidates"] if c.get("family") == "plain"}
    known: list[Any] = []
    # Those trained on the metric first; one fit may serve two candidates, and is shown once.
    for key, history in sorted(
        (comparison.get("history") or {}).items(), key=lambda item: item[0] in plain
    ):
        if history in known:
            continue
        known.append(history)
        picture = plots.training(history, metric)
        if picture is None:
            continue
        soft, hard = ([v for v in history.get(k) or [] if v is not None] for k in ("soft", "hard"))
        words = ""
        if soft and hard:
            words = f"Last epoch: soft {soft[-1]:.3f}, hard {hard[-1]:.3f}."
        name = names.get(key, shorten(key, 80))
        found.append({"name": name, "svg": picture, "words": words, "plain": key in plain})
    return found


# --- classes --------------------------------------------------------------------------------------


def decisions(p: Any, offsets: Any) -> Any:
    """Class numbers: the largest probability, after offsets of the log-probabilities if any."""
    p = np.asarray(p, dtype=np.float64)
    if isinstance(offsets, list | tuple) and len(offsets) == p.shape[1]:
        with np.errstate(divide="ignore"):
            p = np.log(p) + np.asarray(offsets, dtype=np.float64)
    return p.argmax(-1)


def _matrix(comparison: dict[str, Any], names: dict[str, str]) -> dict[str, Any] | None:
    """The confusion matrix of a multiclass winner, or its most frequent confusions."""
    if comparison["task"] != "multiclass" or not shown(comparison):
        return None
    key = shown(comparison)[0]
    labels = [shorten(c, 60) for c in comparison["classes"]]
    cells = _cells(comparison, key)
    share = cells / np.maximum(cells.sum(1, keepdims=True), 1)
    # How often classes are taken for each other, off the diagonal.
    wrong = cells - np.diag(np.diag(cells))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_CONFUSIONS]
    pairs = [np.unravel_index(k, cells.shape) for k in order if wrong.flat[k] > 0]
    return {
        "name": names.get(key, key),
        "metrics": _joint_metrics(comparison),
        "labels": labels,
        "small": len(labels) <= _CLASSES,
        "right": formats.percent(float(np.trace(cells) / max(cells.sum(), 1))),
        "rows": [
            {
                "label": labels[i],
                "cells": [
                    {
                        "count": formats.count(int(cells[i, j])) if cells[i, j] else "",
                        "share": formats.percent(float(share[i, j])),
                        "tint": int(np.ceil(10 * share[i, j] - 1e-9)),
                        "right": i == j,
                    }
                    for j in range(len(labels))
                ],
            }
            for i in range(len(labels))
        ]
        if len(labels) <= _CLASSES
        else [],
        "pairs": [
            {
                "true": labels[i],
                "said": labels[j],
                "count": formats.count(int(cells[i, j])),
                "share": formats.percent(float(share[i, j])),
            }
            for i, j in pairs
        ],
    }


def _joint_metrics(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """Every metric over all classes, for each candidate with predictions."""
    rows: dict[str, list[float]] = {}
    for key in shown(comparison):
        found = comparison["predictions"][key]
        p = np.asarray(found["scores"], dtype=np.float64)
        y = np.asarray(found["target"], dtype=np.int64)
        c = Confusion.from_matrix(torch.as_tensor(_cells(comparison, key)).double())
        for name in METRICS:
            metric = get_metric(name)
            if metric.curve:
                value = evaluate(p, y, metric, task="multiclass", from_logits=False)
            else:
                value = float(metric(c))
            rows.setdefault(name, []).append(value)
    one = [k for k, row in METRICS.items() if len(row.averages) == 1]
    return [
        {"name": formats.metric_name(k if k in one else f"{k}_macro"), "numbers": v}
        for k, v in rows.items()
    ]


def _cells(comparison: dict[str, Any], key: str) -> Any:
    found, n = comparison["predictions"][key], len(comparison["classes"])
    target = np.asarray(found["target"], dtype=int)
    decided = decisions(found["scores"], found.get("threshold"))
    return np.bincount(target * n + decided, minlength=n * n).reshape(n, n)


def _per_class(
    comparison: dict[str, Any], operating: Operating, names: dict[str, str]
) -> dict[str, Any] | None:
    """Precision, recall and F1 of every class or label, for the winner (and F1 of the other)."""
    keys = shown(comparison)
    if not keys or not operating.views:
        return None
    counts = [_class_counts(comparison, operating, k, n) for n, k in enumerate(keys)]
    labels = [shorten(c, 80) for c in comparison.get("classes") or []]
    rows = []
    for i, label in enumerate(labels[:_ROWS]):
        tp, predicted, support = (int(c[i]) for c in counts[0])
        rows.append(
            {
                "label": label,
                "positive": str(comparison["classes"][i]) == str(comparison.get("positive")),
                "support": formats.count(support),
                "predicted": formats.count(predicted),
                "precision": formats.number(tp / predicted if predicted else 0.0),
                "recall": formats.number(tp / support if support else 0.0),
                "f1": formats.number(_f1(*(c[i] for c in counts[0]))),
                "other": formats.number(_f1(*(c[i] for c in counts[1]))) if counts[1:] else "",
            }
        )
    return {
        "rows": rows,
        "more": max(0, len(labels) - _ROWS),
        "live": comparison["task"] == "binary",
        "name": names.get(keys[0], keys[0]),
        "other": names.get(keys[1], keys[1]) if keys[1:] else "",
    }


def _f1(tp: float, predicted: float, support: float) -> float:
    return float(2 * tp / (predicted + support)) if predicted + support else 0.0


def _class_counts(
    comparison: dict[str, Any], operating: Operating, key: str, side: int
) -> tuple[Any, Any, Any]:
    """True positives, decisions and rows of each class."""
    task = comparison["task"]
    if task == "multiclass":
        cells = _cells(comparison, key)
        return np.diag(cells), cells.sum(0), cells.sum(1)
    if task == "binary":
        c = operating.at_start(side)
        rows = (
            np.array([c["tn"], c["tp"]]),
            np.array([c["tn"] + c["fn"], c["tp"] + c["fp"]]),
            np.array([c["tn"] + c["fp"], c["tp"] + c["fn"]]),
        )
        # In the order of the classes: the positive one need not be the last.
        flipped = str(comparison["classes"][0]) == str(comparison.get("positive"))
        return tuple(r[::-1] if flipped else r for r in rows)  # type: ignore[return-value]
    found = comparison["predictions"][key]
    p, y = np.asarray(found["scores"], float), np.asarray(found["target"]).astype(bool)
    cut = found.get("threshold")
    said = p >= np.asarray(0.5 if cut is None else cut, dtype=float)
    return (said & y).sum(0), said.sum(0), y.sum(0)


# --- data and settings ----------------------------------------------------------------------------


def _data(comparison: dict[str, Any]) -> dict[str, Any]:
    data = comparison.get("data") or {}
    classes = data.get("classes") or []
    rows = data.get("rows") or sum(c.get("rows", 0) for c in classes) or 1
    columns = data.get("columns") or []
    return {
        "file": shorten(data.get("file") or "", 200),
        "rows": formats.count(data.get("rows")),
        "features": formats.count(data.get("features")),
        "outputs": formats.count(data.get("outputs")),
        "classes": [
            {
                "label": shorten(c["label"], 80),
                "rows": formats.count(c["rows"]),
                "share": formats.percent(c["rows"] / rows),
                "wide": f"{100 * min(1, c['rows'] / rows):.2f}%",
            }
            for c in classes[:_ROWS]
        ],
        "columns": [
            {
                "name": shorten(c.get("name", ""), 80),
                "kind": shorten(c.get("kind", ""), 20),
                "missing": formats.count(c.get("missing")),
                "distinct": formats.count(c.get("values")),
                "outputs": formats.count(c.get("outputs")),
                "note": shorten(c.get("note") or "", 200),
            }
            for c in columns[:_ROWS]
        ],
        "more_columns": max(0, len(columns) - _ROWS),
        "notes": [shorten(n, 400) for n in (data.get("notes") or [])[:50]],
    }


def _pairs(values: Any) -> list[tuple[str, str]]:
    return [(shorten(k, 60), shorten(formats.words(v), 200)) for k, v in (values or {}).items()]
