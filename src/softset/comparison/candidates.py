"""What is compared: training for the metric, and the plain ways it has to beat.

A fit may serve several candidates: a threshold is tuned after training, and training for the metric
from a cross-entropy solution passes through that solution.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softset.checks import nearest
from softset.classifiers.boosting import MetricBoostingClassifier
from softset.classifiers.forest import MetricForestClassifier
from softset.classifiers.network import MetricClassifier
from softset.losses.surrogate import SurrogateFBetaLoss
from softset.metrics.base import Metric
from softset.metrics.formulas import FBeta
from softset.metrics.registry import get_metric
from softset.tables.rows import Rows
from softset.training.members import Trained

Array = NDArray[Any]


@dataclass(frozen=True)
class Candidate:
    """``family`` is ``"metric"`` (trained for it) or ``"plain"``; ``fit`` is what trains it."""

    id: str
    name: str
    family: str
    fit: str
    description: str


def _table(metric: str) -> list[Candidate]:
    """All candidates, with the name of the metric in theirs."""
    rows = [
        ("cross-entropy", "Cross-entropy", "plain", "networks", "threshold 0.5"),
        (
            "cross-entropy-tuned",
            "Cross-entropy, tuned threshold",
            "plain",
            "networks",
            f"the same networks, threshold tuned for {metric}",
        ),
        (
            "cross-entropy-weighted",
            "Class-weighted cross-entropy",
            "plain",
            "weighted",
            "classes weigh the same, threshold 0.5",
        ),
        ("metric", f"Soft {metric}", "metric", "metric", "from scratch, linear step (paper 000)"),
        (
            "anneal",
            f"Soft {metric}, annealed",
            "metric",
            "anneal",
            "from scratch, the step sharpens while training (paper 002)",
        ),
        (
            "warm",
            f"Cross-entropy, then soft {metric}",
            "metric",
            "networks",
            "starts from the cross-entropy networks, at a tenth of the learning rate",
        ),
        (
            "surrogate-fbeta",
            "Surrogate F-beta",
            "metric",
            "surrogate",
            "a loss with the critical points of F-beta (paper 004 eq. 20)",
        ),
        ("boosting", "Gradient boosting", "plain", "boosting", "log-loss, threshold 0.5"),
        (
            "boosting-tuned",
            "Gradient boosting, tuned threshold",
            "plain",
            "boosting",
            f"the same trees, threshold tuned for {metric}",
        ),
        (
            "boosting-metric",
            f"Gradient boosting on {metric}",
            "metric",
            "boosting",
            f"log-loss rounds, then rounds with {metric} as objective",
        ),
        (
            "forest-tuned",
            "Random forest, tuned threshold",
            "plain",
            "forest",
            "threshold tuned on rows out of bag",
        ),
    ]
    return [Candidate(*row) for row in rows]


# Slow ones first: workers that finish late are the short ones.
FITS = ("anneal", "networks", "metric", "surrogate", "weighted", "forest", "boosting")


def choose(
    metric: Metric, label: str, task: str, wanted: Any = None
) -> tuple[list[Candidate], list[str]]:
    """The candidates that fit the metric and the task, and a sentence on each left out."""
    known = _table(label)
    reasons: dict[str, str] = {}
    if metric.curve:
        known = [_without_threshold(c) for c in known]
        for c in ("cross-entropy-tuned", "boosting-tuned"):
            reasons[c] = f"{label} has no threshold to tune"
    if not _has_surrogate(metric, task):
        reasons["surrogate-fbeta"] = "it is for F-beta of two classes"
    if task == "multilabel":
        reasons["cross-entropy-weighted"] = "several labels have no class weights"
        for c in ("boosting", "boosting-tuned", "boosting-metric"):
            reasons.setdefault(c, "boosting has one target")
    if find_spec("lightgbm") is None:
        for c in ("boosting", "boosting-tuned", "boosting-metric"):
            reasons.setdefault(c, "boosting needs LightGBM: pip install softset[boosting]")
    if wanted is None:
        # Said only where someone might miss them.
        said = {c: r for c, r in reasons.items() if "boosting" in r}
        kept = [c for c in known if c.id not in reasons]
    else:
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        ids = [c.id for c in known]
        for c in wanted:
            if c not in ids:
                raise ValueError(
                    f"candidates must be from {', '.join(ids)}; got {c!r}.{nearest(str(c), ids)}"
                )
        said = {c: r for c, r in reasons.items() if c in wanted}
        kept = [c for c in known if c.id in wanted and c.id not in reasons]
    for family, word in (("metric", "trained for the metric"), ("plain", "not trained for it")):
        if not any(c.family == family for c in kept):
            possible = [c.id for c in known if c.family == family and c.id not in reasons]
            raise ValueError(
                f"candidates must hold at least one that is {word} ({', '.join(possible)}), got "
                f"{', '.join(c.id for c in kept) or 'none'}."
            )
    by_reason: dict[str, list[str]] = {}
    for c, reason in said.items():
        by_reason.setdefault(reason, []).append(c)
    return kept, [f"left out: {', '.join(ids)} ({reason})." for reason, ids in by_reason.items()]


def _without_threshold(c: Candidate) -> Candidate:
    if c.id == "forest-tuned":
        return replace(c, name="Random forest", description="200 trees or so")
    return replace(
        c,
        description=c.description.replace(", threshold 0.5", "").replace(
            "threshold 0.5", "log-loss"
        ),
    )


def _has_surrogate(metric: Metric, task: str) -> bool:
    plain = isinstance(metric, FBeta) and not metric.both_classes
    return task == "binary" and plain and isinstance(metric.beta, int | float)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Sizes:
    """How much is spent on a fit: the same for all candidates of a kind."""

    members: int = 8
    patience: int = 10
    max_epochs: int = 100
    trees: int = 200
    leaf: int = 1

    @classmethod
    def of(cls, rows: int, quick: bool) -> Sizes:
        """Large tables need less patience and fewer leaves."""
        large = rows > 10_000
        return cls(
            members=4 if quick else 8,
            patience=5 if large or quick else 10,
            max_epochs=50 if quick else 100,
            trees=100 if quick else 200,
            leaf=5 if large else 1,
        )


def make_classifier(
    candidate: str, metric: Any, target: Array, sizes: Sizes, seed: int
) -> MetricClassifier | MetricBoostingClassifier | MetricForestClassifier:
    """An unfitted classifier for class numbers ``target``."""
    if candidate.startswith("boosting"):
        rounds = 200 if candidate == "boosting-metric" else 0
        threshold: Any = "tuned"
        if candidate == "boosting":
            threshold = 0.5 if target.max() == 1 else None
        return MetricBoostingClassifier(
            metric, rounds=rounds, threshold=threshold, n_jobs=1, random_state=seed
        )
    if candidate == "forest-tuned":
        return MetricForestClassifier(
            metric, n_trees=sizes.trees, min_samples_leaf=sizes.leaf, random_state=seed
        )
    recipe: Any = candidate
    settings: dict[str, Any] = {}
    if candidate.startswith("cross-entropy"):
        recipe = "cross-entropy"
        settings["threshold"] = "tuned" if candidate == "cross-entropy-tuned" else None
    if candidate == "cross-entropy-weighted":
        settings["class_weight"] = "balanced"
    if candidate == "surrogate-fbeta":
        recipe = SurrogateFBetaLoss(float(target.mean()), beta=get_metric(metric).beta)  # type: ignore[attr-defined]
    return MetricClassifier(
        metric,
        recipe=recipe,
        n_members=sizes.members,
        patience=sizes.patience,
        max_epochs=sizes.max_epochs,
        random_state=seed,
        **settings,
    )


@dataclass(frozen=True)
class Fitted:
    """A candidate on one split: its classifier and the seconds that it took (of a shared fit)."""

    candidate: str
    classifier: Any
    seconds: float


def fit_candidates(
    wanted: list[str], metric: Any, x: Array, y: Array, sizes: Sizes, seed: int
) -> list[Fitted]:
    """Fit candidates that share one fit; each is what ``make_classifier`` gives on its own."""
    started = time.perf_counter()
    if any(c.startswith("boosting") for c in wanted):
        return _fit_boosting(wanted, metric, x, y, sizes, seed)
    if "warm" not in wanted and len(wanted) == 1:
        model = make_classifier(wanted[0], metric, y, sizes, seed).fit(x, y)
        return [Fitted(wanted[0], model, time.perf_counter() - started)]
    return _fit_networks(wanted, metric, x, y, sizes, seed)


def _fit_boosting(
    wanted: list[str], metric: Any, x: Array, y: Array, sizes: Sizes, seed: int
) -> list[Fitted]:
    started = time.perf_counter()
    source = "boosting-metric" if "boosting-metric" in wanted else wanted[0]
    model = make_classifier(source, metric, y, sizes, seed)
    if source != "boosting-metric":  # log-loss only, but both thresholds
        model.set_params(rounds=1)
    model.fit(x, y)
    seconds = time.perf_counter() - started
    share = model.warm_rounds_ / max(1, model.warm_rounds_ + len(model.history_))
    fitted = []
    for c in wanted:
        if c == "boosting-metric":
            fitted.append(Fitted(c, model, seconds))
            continue
        threshold = make_classifier(c, metric, y, sizes, seed).threshold
        fitted.append(Fitted(c, model.log_loss_part(threshold), share * seconds))
    return fitted


class _Watched(MetricClassifier):
    """Keeps what is needed to go back to the end of the first phase."""

    def _train(self, rows: Rows, held: Rows | None, seeds: Array, on_epoch: Any) -> Trained:
        self._trained = super()._train(rows, held, seeds, on_epoch)
        return self._trained

    def _tune_on(self, metric: Metric, held: Rows | None) -> None:
        self._held = held
        super()._tune_on(metric, held)

    def part(self, weights: torch.Tensor, phases: int, **params: Any) -> MetricClassifier:
        """As fitted with other parameters, at these weights."""
        found = copy.copy(self).set_params(**params)
        found._weights = weights.double()
        found.history_ = [
            {k: v[: sum(p < phases for p in h["phase"])] for k, v in h.items()}
            for h in self.history_
        ]
        found._tune_on(get_metric(found.metric), self._held)
        return found


def _fit_networks(
    wanted: list[str], metric: Any, x: Array, y: Array, sizes: Sizes, seed: int
) -> list[Fitted]:
    """Cross-entropy, and what starts from it."""
    started = time.perf_counter()
    source = "warm" if "warm" in wanted else "cross-entropy-tuned"
    params = make_classifier(source, metric, y, sizes, seed).get_params(deep=False)
    model = _Watched(**params).fit(x, y)
    ends = [*model._trained.phase_ends, model._trained.weights]
    seconds = time.perf_counter() - started
    epochs = [p for h in model.history_ for p in h["phase"]]
    share = epochs.count(0) / max(1, len(epochs))
    fitted = []
    for c in wanted:
        if c == "warm":
            fitted.append(Fitted(c, model, seconds))
            continue
        own = make_classifier(c, metric, y, sizes, seed).get_params(deep=False)
        fitted.append(Fitted(c, model.part(ends[0], 1, **own), share * seconds))
    return fitted


def first_member(classifier: Any) -> dict[str, Any] | None:
    """The epochs of one network: losses, the soft and the hard metric on validation rows."""
    if not isinstance(classifier, MetricClassifier) or not classifier.history_:
        return None
    h = classifier.history_[0]
    epochs = len(h["loss"])
    names = {"warm": ["cross-entropy", "soft metric"]}
    recipe = classifier.recipe if isinstance(classifier.recipe, str) else "surrogate"
    phases = names.get(recipe, [recipe])
    starts = [[phases[k], h["phase"].index(k) + 1] for k in sorted(set(h["phase"]))]
    return {
        "epoch": list(range(1, epochs + 1)),
        "train_loss": _rounded(h["loss"]),
        "validation_loss": _rounded(h["validation_loss"]),
        "soft": _rounded(h["validation_soft"]),
        "hard": _rounded(h["validation_metric"]),
        "phases": starts,
    }


def _rounded(values: list[Any]) -> list[Any]:
    return [None if v is None or not np.isfinite(v) else float(f"{v:.6g}") for v in values]
