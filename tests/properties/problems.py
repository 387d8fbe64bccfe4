"""A small problem for each row of options: the arguments of ours, and the masses of the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import softset as ss
from tests.fuzz.loss_oracle import CURVES, JOINT, Setting, masses

STEPS = {
    "default": (None, None),
    "linear": (ss.LinearStep(0.2, 1.3), ("linear", 0.2, 1.3)),
    "cold": (ss.LinearStep.at_temperature(0.05), ("linear", 0.05, 0.25)),
    "sigmoid": (ss.SigmoidStep(10.0), ("sigmoid", 10.0)),
    "identity": (ss.IdentityStep(), ("identity",)),
    "own": (lambda p, tau: torch.sigmoid(20 * (p - tau)) ** 2, ("own",)),
}
# What of two classes is one against the other, and what labels and classes have beside it.
METRICS = {"binary": list(ss.METRICS)}
METRICS["multilabel"] = METRICS["multiclass"] = [
    *ss.METRICS, "fbeta(0.5, 1, 3)", "recall@1", "f1@2", "jaccard@2",
]  # fmt: skip
CLASSES = 3
LAYOUTS = ("rows", "sliced", "column", "image", "channels last", "coinciding")
# Options of a problem, whatever is then done with it.
OPTIONS = {
    "labels": ("usual", "none", "all"),
    "soft": (False, True),
    "weights": ("none", "rows", "positions", "zeros", "problems"),
    "class_weight": ("none", "given", "zero"),
    "ignore": ("none", "some", "nan"),
    "per": ("batch", "image", "rows", "positions"),
    "layout": LAYOUTS,
    "batch": ("one", "several", "shared"),
    "from_logits": (True, False),
    "dtype": (torch.float64, torch.float32),
}
UNLABELLED = 2  # the class that ``ignore_index`` names, with ``ignore="class"``


def options_of(task: str) -> dict[str, tuple[Any, ...]]:
    """``OPTIONS``; of several classes ``ignore_index`` may name one of them."""
    more = ("class",) if task == "multiclass" else ()
    return {**OPTIONS, "ignore": (*OPTIONS["ignore"], *more)}


@dataclass
class Case:
    """``scores``, ``target`` and ``settings`` are ours; the rest is the oracle's, one of each for
    every problem of the batch."""

    scores: torch.Tensor
    target: torch.Tensor
    settings: dict[str, Any]
    rows: list[np.ndarray]  # scores
    labels: list[np.ndarray]
    weights: list[np.ndarray]  # of each label, 0 where it is left out
    masses: list[Any]
    left_out: list[np.ndarray]
    sets: np.ndarray | None
    places: Any  # from a tensor like the scores to one of each problem


def make_case(task: str, row: dict[str, Any], seed: int) -> Case:
    """The problem of these options, of ``OPTIONS``."""
    rng = np.random.default_rng([len(task), seed])
    lead = () if row["batch"] == "one" else (2,)
    own = lead if row["batch"] == "several" else ()  # of target and weights
    shape = {"image": (4, 2, 3), "channels last": (4, 2, 3), "coinciding": (3, 3, 3)}
    inner = shape.get(row["layout"], (24,))
    n, classes = int(np.prod(inner)), 1 if task == "binary" else CLASSES
    z = rng.normal(size=(*lead, n, classes)) * 1.5
    y = _labels(rng, task, (*own, n), row["labels"], row["soft"])
    z = z + (0.8 * np.eye(CLASSES)[y] if task == "multiclass" and not row["soft"] else 0.0)
    if not row["from_logits"]:
        z = np.exp(z) / np.exp(z).sum(-1, keepdims=True) if classes > 1 else 1 / (1 + np.exp(-z))
        z = z if task == "multiclass" else np.clip(z, 0.02, 0.98)
    z = torch.tensor(z).to(row["dtype"]).double().numpy()
    settings: dict[str, Any] = {"task": task, "from_logits": row["from_logits"]}
    settings |= {"batch_dims": len(lead)} if lead else {}
    settings |= {"soft_targets": True} if row["soft"] else {}
    w = _weights(rng, row["weights"], inner, own, settings)
    v = None
    if row["class_weight"] != "none":
        v = np.array([0.5, 2.0] if task == "binary" else [0.5, 2.0, 1.3])
        v[0 if task == "binary" else 2] *= row["class_weight"] == "given"
        settings["class_weight"] = v.tolist()
    by_class = task == "multiclass" and row["soft"]
    ignored = np.zeros(y.shape[:-1] if by_class else y.shape, dtype=bool)
    shown, scores = y.copy(), z.copy()
    if row["ignore"] != "none":
        ignored |= rng.random(ignored.shape) < 0.25
        ignored[(..., 0, slice(None)) if task == "multilabel" else (..., 0)] = False
        named = -1
        if row["ignore"] == "class" and not row["soft"]:
            ignored |= y == UNLABELLED
            named = UNLABELLED
        shown[ignored] = named
        settings["ignore_index"] = named
        everywhere = np.broadcast_to(ignored, z.shape[:-1] if task != "multilabel" else z.shape)
        where = (
            everywhere if task == "multilabel" else everywhere[..., None] & np.ones_like(z, bool)
        )
        scores[where] = np.nan if row["ignore"] == "nan" else scores[where]
        z = np.where(where, 0.25, z)
    left_out = np.broadcast_to(
        ignored if task == "multilabel" else ignored[..., None], (*lead, n, classes)
    )
    sets = _sets(rng, row["per"], inner, settings)
    dtype = torch.float64 if row["soft"] else torch.long
    case = Case(
        _laid_out(torch.tensor(scores, dtype=row["dtype"]), inner, row["layout"], task, len(lead)),
        _target(torch.tensor(shown, dtype=dtype), inner, row["layout"], task, len(own)),
        settings,
        *([] for _ in range(5)),
        sets,
        lambda t: _rows_of(t, inner, task, len(lead)),
    )
    for i in range(2 if lead else 1):
        at = (i,) if lead else ()
        other = (i,) if own else ()
        flat = z[at] if task != "binary" else z[at][:, 0]
        weights = w[other] if w.ndim > 1 else w
        keep = ~ignored[other]
        weights = (weights if keep.ndim == 1 else weights[:, None]) * keep
        case.rows.append(flat)
        case.labels.append(y[other])
        case.weights.append(weights)
        case.masses.append(masses(y[other], weights, task, CLASSES, v))
        case.left_out.append(left_out[at] if task != "binary" else left_out[at][:, 0])
    return case


def _labels(rng, task, shape, kind, soft):
    """Hard or soft; a class that no row has, a label that all have."""
    if task == "multiclass":
        y = rng.integers(0, CLASSES, shape)
        y = np.where(y == 1, 2, y) if kind == "none" else np.zeros_like(y) if kind == "all" else y
        if not soft:
            return y
        shares = 0.7 * np.eye(CLASSES)[y] + 0.3 * rng.dirichlet(np.ones(CLASSES), shape)
        shares[..., 1] *= kind == "usual"
        shares[..., 2] *= kind != "all"
        return shares / shares.sum(-1, keepdims=True)
    whole = shape if task == "binary" else (*shape, CLASSES)
    y = (rng.random(whole) < 0.4).astype(float)
    y = np.abs(y - 0.3 * rng.random(whole)) if soft else y
    if kind != "usual":
        y[... if task == "binary" else (..., 1)] = 1.0 if kind == "all" else 0.0
    return y if soft else y.astype(int)


def _weights(rng, kind, inner, own, settings):
    """Our weights go into the settings; returned is one for each position, ``[*own, n]``."""
    n = int(np.prod(inner))
    if kind == "none":
        return np.ones(n)
    if kind == "rows":
        each = rng.uniform(0.2, 3, inner[0])
        settings["sample_weight"] = torch.tensor(each)
        return np.repeat(each, n // inner[0])
    lead = own if kind == "problems" else ()
    w = rng.uniform(0.2, 3, (*lead, *inner))
    if kind == "zeros":
        w = w * (rng.random(w.shape) < 0.6)
        w.flat[0] = 1.0
    settings["sample_weight"] = torch.tensor(w)
    return w.reshape(*lead, n)


def _sets(rng, kind, inner, settings):
    """The set of each position, ``[n]``."""
    n = int(np.prod(inner))
    if kind == "batch":
        return None
    numbers = np.array([8, 3, 3, 100, 8, 7] * 4)
    if kind == "image":
        settings["per"] = "image"
        return np.repeat(np.arange(inner[0]), n // inner[0])
    if kind == "rows":
        settings["per"] = torch.tensor(numbers[: inner[0]])
        return np.repeat(numbers[: inner[0]], n // inner[0])
    each = rng.choice([5, 2, 11], n, p=[0.6, 0.3, 0.1])
    settings["per"] = torch.tensor(each.reshape(inner))
    return each


def _laid_out(z, inner, layout, task, lead):
    """Rows ``[*lead, n, classes]`` as the scores of a user."""
    images = z.reshape(*z.shape[:lead], *inner, z.shape[-1])
    if task == "binary":
        images = images.squeeze(-1)
        if layout in ("column", "channels last"):
            images = images.unsqueeze(lead + 1)
    elif layout in ("channels last", "column"):
        return images.movedim(-1, lead + 1)
    else:
        images = images.movedim(-1, lead + 1).contiguous()
    if layout == "sliced":
        wide = torch.full((*images.shape[:-1], 2 * images.shape[-1]), float("nan"), dtype=z.dtype)
        wide[..., ::2] = images
        return wide[..., ::2]
    return images


def _target(y, inner, layout, task, lead):
    by_position = task == "binary" or (task == "multiclass" and y.dim() == lead + 1)
    if by_position:
        y = y.reshape(*y.shape[:lead], *inner)
        return y.unsqueeze(lead + 1) if task == "binary" and layout == "column" else y
    return y.reshape(*y.shape[:lead], *inner, y.shape[-1]).movedim(-1, lead + 1)


def _rows_of(t, inner, task, lead):
    """A tensor like the scores as one array for each problem."""
    n = int(np.prod(inner))
    if task == "binary":
        rows = t.reshape(*t.shape[:lead], n)
    else:
        rows = t.movedim(lead + 1, -1).reshape(*t.shape[:lead], n, t.shape[lead + 1])
    rows = rows.detach().double().numpy()
    return list(rows) if lead else [rows]


def our_metric(name: str, average: str | None, task: str) -> tuple[Any, dict[str, Any]]:
    """A metric of ours, and what the oracle calls it."""
    base, _, k = name.partition("@")
    betas = {"f1": 1.0, "f2": 2.0, "f0.5": 0.5, "fbeta(0.5, 1, 3)": (0.5, 1.0, 3.0)}
    beta = betas.get(base, 1.0)
    known = "fbeta" if base in betas else base
    both = task == "binary" and known not in JOINT | CURVES and average != "positive"
    if known in JOINT or (task == "binary" and not both) or (name[:6] == "fbeta(" and average):
        average = "macro"
    if average == "positive":
        average = "macro"
    if isinstance(beta, tuple):
        ours: Any = ss.FBeta(beta, average)
    else:
        ours = ss.METRICS[base].make(average=average, both_classes=both)
    ours = ss.At(ours, k=int(k)) if k else ours
    found = {"metric": known, "average": average, "both": both, "beta": beta}
    return ours, {**found, "k": int(k) if k else None}


def our_thresholds(kind: str, task: str, known: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Ours, and those of the oracle."""
    curve = known["metric"] in CURVES
    if known["k"] or (task == "multiclass" and not curve):
        return {}, (0.5,)
    each = [0.2, 0.5, 0.8]
    grids = {"grid": [0.15, 0.4, 0.9], "even grid": [i / 10 for i in range(1, 10)]}
    if curve and kind not in grids:
        return {}, tuple(i / 100 for i in range(1, 100))
    if kind in grids:
        return {"thresholds": grids[kind]}, tuple(grids[kind])
    if kind == "labels" and task == "multilabel":
        return {"threshold": each}, (each,)
    tau = {"half": 0.5, "low": 0.3, "labels": 0.8}[kind]
    return {"threshold": tau}, (tau,)


def setting(task: str, known: dict[str, Any], row: dict[str, Any], **more: Any) -> Setting:
    left_out = UNLABELLED if row["ignore"] == "class" and not row["soft"] else None
    return Setting(task, **known, from_logits=row["from_logits"], left_out=left_out, **more)
