"""Which code made a result, and whether that code still says the same.

A result keeps the commit it was made at and a *pin*: the value of its loss, and of its gradient
along a fixed direction, on a few fixed batches. When a pin moves by more than ``MOVED``, the loss
is no longer the one that was trained, and the table is to be run again.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softset.training.phases import Phase
from softset_papers.baselines.adversarial import is_installed
from softset_papers.baselines.svm_perf import EQUAL, LOSSES
from softset_papers.networks.images import recipe_for
from softset_papers.networks.losses import make_recipe

MOVED = 1e-6
_N = 40
_CLASSES = ("cat", "dog", "frog", "horse", "ship")
_SEVERAL = ("cifar-10", "caltech-256")  # sets of more than two classes


def current_commit() -> str:
    """The commit of the code, with ``+`` if files differ from it; empty outside a repository."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        return found.stdout.strip()

    try:
        root = git("rev-parse", "--show-toplevel")
        changed = git("-C", root, "status", "--porcelain", "--", "src", "papers/src")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def pin(run: dict[str, Any]) -> list[float] | None:
    """The pin of the loss that a run trains; None if it trains none, or cannot do so here.

    >>> pin({"kind": "weights"}) is None
    True
    """
    parts = {name: run.get(name) for name in ("kind", "fit", "options")}
    return _pin(json.dumps(parts, sort_keys=True), run.get("data") in _SEVERAL)


@cache
def _pin(described: str, several: bool) -> list[float] | None:
    run = json.loads(described)
    options = run["options"] or {}
    if "loss" not in options or (options["loss"] == "adversarial" and not is_installed()):
        return None
    if run["fit"] == "svm-perf":
        return _svm_pin(options)
    values: list[float] = []
    for scores, target, weight in _batches(several, weighted=run["kind"] is None):
        if weight is not None and options["loss"] == "adversarial":
            continue
        for loss in _losses(run, options, target, several):
            values += _value_and_slope(loss, scores, target, weight)
    return [round(v, 9) for v in values]


def moved(before: list[float] | None, now: list[float] | None) -> bool:
    """Whether a pin is another one; one that is not known does not count.

    >>> moved([0.5, 0.1], [0.5, 0.1 + 1e-7]), moved([0.5, 0.1], [0.5, 0.1 + 1e-5])
    (False, True)
    """
    if before is None or now is None:
        return False
    if len(before) != len(now):
        return True
    return any(not abs(a - b) <= MOVED for a, b in zip(before, now, strict=True))


# --- batches without chance, so that every version of every library draws the same ---------------


def _batches(several: bool, weighted: bool) -> list[tuple[Tensor, Tensor, Tensor | None]]:
    """An ordinary batch, saturated scores, the first class alone; perhaps weights.

    Of two classes also the negative one with counts next to nothing, in float32: there a loss once
    had slopes that were not numbers.
    """
    i = torch.arange(_N, dtype=torch.float64)
    if several:
        column = torch.arange(len(_CLASSES), dtype=torch.float64)
        scores = 3 * torch.sin(12.9898 * i[:, None] + 7.233 * column + 1)
        target = (torch.arange(_N) * 7) % len(_CLASSES)
    else:
        scores, target = 3 * torch.sin(12.9898 * i + 1), ((torch.arange(_N) * 7) % 10 < 3).long()
    found: list[tuple[Tensor, Tensor, Tensor | None]] = [
        (scores, target, None),
        (20 * scores, target, None),
        (scores, torch.zeros_like(target), None),
    ]
    if not several:
        found.append((torch.linspace(-50, -47, _N), torch.zeros_like(target), None))
    return [*found, (scores, target, 1 + i % 5)] if weighted else found


def _losses(
    run: dict[str, Any], options: dict[str, Any], target: Tensor, several: bool
) -> list[Any]:
    options = {"cooling": 0.8, **options}
    if run["kind"] is None:
        counts = torch.bincount(target, minlength=2).clamp(min=1)
        weights = (len(target) / (2 * counts)).tolist()
        recipe = make_recipe(
            options, class_weight=weights if options.get("balance") == "weights" else None
        )
    else:
        # Prevalence and balance come from a training set, which has every class.
        whole = _batches(several, weighted=False)[0][1]
        recipe = recipe_for(options, whole, _CLASSES if several else ("rest", "one"))
    return (
        [p.loss for p in recipe if isinstance(p, Phase)] if isinstance(recipe, list) else [recipe]
    )


def _value_and_slope(loss: Any, z: Tensor, y: Tensor, w: Tensor | None) -> list[float]:
    leaf = z.clone().requires_grad_()
    value = loss(leaf, y) if w is None else loss(leaf, y, w)
    slope = 0.0
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(value, leaf)
        direction = torch.cos(torch.arange(z.numel(), dtype=z.dtype)).reshape(z.shape)
        slope = float((gradient * direction).sum())
    return [float(value.detach()), slope]


def _svm_pin(options: dict[str, Any]) -> list[float]:
    i = np.arange(_N)
    s, positive = 3 * np.sin(12.9898 * i + 1), (i * 7) % 10 < 3
    weights = (18.76, 1.0) if options.get("weighted") else EQUAL
    coefficient, delta = LOSSES[options["loss"]](s, positive, weights)
    return [round(delta, 9), round(float(coefficient @ np.cos(i)), 9)]
