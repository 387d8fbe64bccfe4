"""Comparisons to report, from fits that take a second or two."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import softset as ss
from softset import report
from softset.storage.schema import sealed
from softset.tables.synthetic import load_synthetic

FOLDS = 2
NAMES = {
    "cross-entropy": ("Cross-entropy, default threshold", "baseline"),
    "cross-entropy-tuned": ("Cross-entropy, tuned threshold", "baseline"),
    "cross-entropy-weighted": ("Cross-entropy, class weights", "baseline"),
    "metric": ("Soft F1 from scratch", "metric"),
    "anneal": ("Soft F1, annealed (EAST)", "metric"),
    "warm": ("Cross-entropy, then soft F1", "metric"),
    "surrogate-fbeta": ("Surrogate F-beta", "metric"),
    "boosting": ("Gradient boosting, default threshold", "baseline"),
    "boosting-tuned": ("Gradient boosting, tuned threshold", "baseline"),
    "boosting-metric": ("Gradient boosting for F1", "metric"),
    "forest-tuned": ("Random forest, tuned threshold", "baseline"),
}


@functools.cache
def _data(task: str) -> tuple[np.ndarray, np.ndarray]:
    if task == "binary":
        X, y = load_synthetic(500)
        return X[:3000], y[:3000]
    if task == "multiclass":
        return make_classification(
            1500, 8, n_informative=5, n_classes=4, weights=[0.5, 0.3, 0.15, 0.05], random_state=0
        )
    return make_multilabel_classification(1200, 10, n_classes=3, random_state=0)


@functools.cache
def _held_out(task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Out-of-fold scores of two models, and the first one's history."""
    X, y = _data(task)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(X))
    shape = (len(X),) if task == "binary" else (len(X), 4 if task == "multiclass" else 3)
    warm, plain, history = np.empty(shape), np.empty(shape), {}
    for k in range(FOLDS):
        train, held = fold != k, fold == k
        model = ss.MetricMLPClassifier(
            "f1", recipe="warm", max_epochs=15, patience=15, n_networks=1, random_state=0
        ).fit(X[train], y[train])
        linear = LogisticRegression()
        other = OneVsRestClassifier(linear) if task == "multilabel" else linear
        other.fit(X[train], y[train])
        for place, fitted in ((warm, model), (plain, other)):
            p = np.asarray(fitted.predict_proba(X[held]))
            place[held] = p[:, 1] if task == "binary" else p
        if k == 0:
            h = model.history_[0]
            hard = np.array(h["validation_metric"], float)
            soft = 1 - np.array(h["validation_loss"], float)
            names = [str(p) for p in h["phase"]]
            starts = [i for i in range(len(names)) if i == 0 or names[i] != names[i - 1]]
            history = {
                "epoch": list(range(1, len(hard) + 1)),
                "train_loss": [float(v) for v in h["loss"]],
                "validation_loss": [float(v) for v in h["validation_loss"]],
                "soft": np.clip(soft, 0, 1).tolist(),
                "hard": hard.tolist(),
                "phases": [
                    [("cross-entropy", "soft F1")[n % 2], i + 1] for n, i in enumerate(starts)
                ],
            }
    predictions = {}
    for key, p in (("warm", warm), ("cross-entropy-tuned", plain)):
        cut = None
        if task != "multiclass":
            cut = ss.best_threshold(p, y, "f1", task=task, from_logits=False)
        cut = cut.tolist() if hasattr(cut, "tolist") else cut
        predictions[key] = {"target": y.tolist(), "scores": p.tolist(), "threshold": cut}
        predictions[key]["note"] = f"out of fold, first repeat, {len(y)} of {len(y)} rows"
    return predictions, {"warm": history, "anneal": history}


def _stage(key: str, family: str) -> str:
    tuned = "tuned" if "tuned" in key or "weighted" in key else "default"
    return tuned if family == "baseline" else "metric"


def _gains(candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the candidates' own scores: how it is made is tested elsewhere."""
    gap = {"mean": 0.02, "low": 0.008, "high": 0.032, "p": 0.01, "probability": 0.99}
    gap |= {"p_adjusted": 0.03}
    stages = []
    names = {
        "default": "default threshold (0.5)",
        "tuned": "tuned threshold",
        "metric": "trained for F1",
    }
    for k, (key, name) in enumerate(names.items()):
        best = max((c for c in candidates if c["stage"] == key), key=lambda c: c["mean"])
        stages.append(
            {"id": key, "name": name, "choice": best["id"], "scores": best["scores"]}
            | {"mean": best["mean"], "low": best["low"], "high": best["high"]}
            | {"gain": None if k == 0 else gap if k == 1 else gap | {"p_adjusted": 0.4}}
        )
    difference = gap | {"mean": -0.004, "low": -0.01, "p_adjusted": 0.4}
    simpler = {"candidate": "cross-entropy-tuned", "times": 310.0, "difference": difference}
    return {"stages": stages, "total": gap, "simpler": simpler}


def comparison(task: str = "binary", **changes: Any) -> dict[str, Any]:
    """A comparison in the form of ``Comparison.to_dict()``; the table's numbers are made up."""
    predictions, history = _held_out(task)
    X, y = _data(task)
    random = np.random.default_rng(1)
    labels = {
        "binary": ["stayed", "left"],
        "multiclass": ["red", "green", "blue", "rare"],
        "multilabel": ["sport", "politics", "arts"],
    }[task]
    easy = random.normal(0, 0.02, 10)
    candidates = []
    for k, (key, (name, family)) in enumerate(NAMES.items()):
        level = {"warm": 0.462, "cross-entropy-tuned": 0.441}.get(key, 0.44 - 0.006 * k)
        scores = level + easy + random.normal(0, 0.008, 10)
        mean, half = float(scores.mean()), 0.022
        candidates.append(
            {"id": key, "name": name, "family": family, "description": f"{name}, ten splits"}
            | {"scores": scores.tolist(), "mean": mean, "low": mean - half, "high": mean + half}
            | {"rank": 2.0 + k, "seconds": 0.4 + k, "error": ""}
            | {"thresholds": [0.3, 0.42] if "tuned" in key else None, "difference": None}
            | {"stage": _stage(key, family), "size": 1000 * (1 + k)}
        )
    reference = next(c for c in candidates if c["id"] == "cross-entropy-tuned")
    for c in candidates:
        if c is not reference:
            d = c["mean"] - reference["mean"]
            c["difference"] = {"mean": d, "low": d - 0.012, "high": d + 0.012}
            c["difference"] |= {
                "p": 0.01,
                "p_adjusted": 0.031,
                "probability": min(max(0.5 + 10 * d, 0.0), 1.0),
            }
    candidates.sort(key=lambda c: -c["mean"])
    columns = [
        {"name": f"x{k}", "kind": "number", "missing": 0, "values": None, "outputs": 1, "note": ""}
        for k in range(X.shape[1])
    ]
    sizes = np.bincount(y, minlength=len(labels)) if y.ndim == 1 else y.sum(0)
    content = {
        "format": 3,
        "metric": "f1",
        "task": task,
        "classes": labels,
        "positive": "left" if task == "binary" else None,
        "verdict": "Use cross-entropy, then soft F1: F1 0.462, +0.021 [+0.009, +0.033] over "
        "cross-entropy, tuned threshold.",
        "advice": "Significant stages: tuned threshold (+0.020); not significant: trained for F1 "
        "(-0.020).",
        "outcome": "significant",
        "winner": "warm",
        "reference": "cross-entropy-tuned",
        "gains": _gains(candidates),
        "candidates": candidates,
        "splits": {"folds": 5, "repeats": 2, "count": 10, "test_fraction": 0.2, "groups": None}
        | {"duplicates": 12, "note": "10 splits (5 folds, stratified)"},
        "predictions": predictions,
        "history": history,
        "importances": [
            {"column": c["name"], "falls": 0.2 / (1 + k), "spread": 0.01}
            for k, c in enumerate(columns)
        ],
        "promise": "",
        "costs": None,
        "data": {
            "rows": len(X),
            "features": X.shape[1],
            "outputs": X.shape[1],
            "classes": [{"label": c, "rows": int(n)} for c, n in zip(labels, sizes, strict=True)],
            "columns": columns,
            "notes": ["Column 'age' has 31 missing values: the median, and an indicator."],
            "file": "example.csv",
            "used": len(X),
            "refitted": len(X),
        },
        "settings": {"n_networks": 2, "patience": 5, "max_epochs": 40, "trees": 50}
        | {"min_samples_leaf": 1, "cv": 5, "repeats": 2, "quick": True, "level": 0.05}
        | {"fits": {"networks": ["cross-entropy", "warm"], "forest": ["forest-tuned"]}},
        "versions": {"softset": "0.1.0", "torch": "2.13.0", "scikit-learn": "1.9.0"},
        "random_state": 0,
        "command": "softset compare example.csv --target outcome --metric f1 --seed 0",
        "date": "2026-11-16",
        "duration": 133.0,
        "warnings": [],
        **changes,
    }
    return sealed(content)


def resealed(content: dict[str, Any]) -> dict[str, Any]:
    """A comparison that a test has changed, with the checksum that it would have."""
    return sealed({k: v for k, v in content.items() if k != "checksum"})


def render(content: Any) -> str:
    """The page of a comparison that a test may have changed."""
    return report.render(resealed(content) if isinstance(content, dict) else content)
