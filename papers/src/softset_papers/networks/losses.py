"""The loss (or the phases) that the settings of a row name, for networks of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softset.checks import check_choice, check_integer
from softset.counting.numerics import ratio
from softset.counting.steps import IdentityStep, LinearStep, SigmoidStep, Step
from softset.losses.loss import Loss
from softset.losses.pointwise import CrossEntropyLoss, MeanAbsoluteErrorLoss
from softset.losses.soft_metric import MetricLoss
from softset.losses.surrogate import SurrogateFBetaLoss
from softset.metrics.formulas import FBeta
from softset.metrics.registry import MetricLike
from softset.training.phases import Phase, RecipeLike
from softset.training.recipes import GRID
from softset_papers.baselines.adversarial import AdversarialF1Loss
from softset_papers.baselines.dice import DiceLoss, ExampleDiceLoss
from softset_papers.baselines.published_cells import PublishedMetricLoss
from softset_papers.baselines.wmw import PublishedWMWLoss, WMWLoss
from softset_papers.judging import other_f1
from softset_papers.networks.literal import EMPTY, LiteralLoss

START = 0.2  # of the temperature when annealing (paper 002 section 4.3)
METRICS: dict[str, MetricLike] = {
    "f1": "f1",
    "f2": FBeta(2),
    "f3": FBeta(3),
    "accuracy": "accuracy",
    "mcc": "mcc",
    "auroc": "auroc",
    "f1-macro": "f1_macro",  # over both classes: 002 eq. 2 and 003 eq. 4 for d = 2
    "f1-other": other_f1,
}
"""Losses that are a soft metric; besides them ``"fbeta"``, with ``beta`` in the settings."""


@dataclass(frozen=True)
class ThreePointStep:
    """Through (0, 0), (τ, 0.5) and (1, 1): the step that 000 supplement 2.2 begins with (eq. 23).

    At τ = 0.5 it is ``H = p``; towards 0 or 1 one of its two slopes grows without bound.

    >>> ThreePointStep()(torch.tensor([0.05, 0.1, 0.55]), 0.1).tolist()
    [0.25, 0.5, 0.75]
    """

    def __call__(self, p: Tensor, tau: Any) -> Tensor:
        return torch.where(p < tau, p / (2 * tau), 1 - (1 - p) / (2 * (1 - tau)))


@dataclass(frozen=True)
class LookupStep:
    """``step`` read from a table over ``p`` truncated to ``decimals`` (paper 000 supplement, 3).

    The gradient is that of the step it tabulates. Kept for reproducing the paper's numbers, not its
    speed: a real table takes 0.1 to 0.6 of the step's time, but this computes both.

    >>> LookupStep(SigmoidStep(10), decimals=1)(torch.tensor([0.59]), 0.5).item()
    0.5
    """

    step: Step
    decimals: int = 2

    def __post_init__(self) -> None:
        check_integer("decimals", self.decimals, 1, 6)
        if not callable(self.step):
            raise ValueError(f"step must be callable as step(p, tau), got {self.step!r}.")

    def __call__(self, p: Tensor, tau: Any) -> Tensor:
        # Half an ulp is added before truncating: 0.29 is stored as 0.28999999165534973.
        size = 10**self.decimals
        nudge = torch.finfo(p.dtype).eps
        truncated = ((p.detach() * size * (1 + nudge)).floor() / size).clamp(max=1)
        exact = self.step(p, tau)
        return exact + (self.step(truncated, tau) - exact).detach()


class ClassDiceLoss(nn.Module):
    """V-Net's Dice (Milletari et al. 2016) of each class, averaged over the classes of the batch.

    >>> ClassDiceLoss()(torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 1])).item() < 1e-3
    True
    """

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        p = torch.softmax(scores, -1)
        y = nn.functional.one_hot(target, scores.shape[-1]).to(p.dtype)
        support = y.sum(0)
        dice = ratio(2 * (p * y).sum(0), (p * p).sum(0) + support)
        return 1 - dice[support > 0].mean()


def make_recipe(
    options: dict[str, Any],
    classes: tuple[str, ...] = ("0", "1"),
    *,
    prevalence: float = 0.5,
    class_weight: Any = None,
) -> RecipeLike:
    """The loss (or phases) that ``options["loss"]`` names.

    Args:
        options: besides ``loss``: ``step`` with ``delta`` or ``k``, ``anneal`` (the rate at which
            the temperature falls from 0.2, or true for ``cooling``), ``beta`` (a number, or
            ``{class: beta}`` where other classes have 1), ``gamma`` and ``power``, ``batch_size``,
            and ``cells="published"`` for the cells of the published code of paper 000, with
            ``thresholds`` (those of ``GRID`` by default), and ``empty="as-published"`` (see
            ``networks.literal``).
        classes: their names; more than two make the task ``"multiclass"``.
        prevalence: share of positives in training, for the surrogate.
        class_weight: for the losses that can take it.
    """
    name, task = options["loss"], "multiclass" if len(classes) > 2 else "binary"
    beta: Any = options.get("beta", 1.0)
    if isinstance(beta, dict):
        beta = tuple(float(beta.get(c, 1.0)) for c in classes)

    def soft(metric: MetricLike, step: Step | None, **settings: Any) -> Loss:
        settings = {"task": task, "class_weight": class_weight, "from_logits": True, **settings}
        loss = MetricLoss(metric, step=step, **settings)
        if "empty" not in options:
            return loss
        check_choice("empty", options["empty"], EMPTY)
        return LiteralLoss(loss)

    def entropy() -> CrossEntropyLoss:
        return CrossEntropyLoss(task=task, class_weight=class_weight)

    step = make_step(options, task)
    if options.get("cells") == "published":
        if name == "wmw":
            return PublishedWMWLoss(options["gamma"], options["power"])
        assert step is not None
        return PublishedMetricLoss(name, step, options.get("thresholds", GRID))
    others: dict[str, Callable[[], RecipeLike]] = {
        # The mean over thresholds of the published code of 000, with the cells of equation 6.
        "f1-grid": lambda: soft(
            "f1", step if "step" in options else LinearStep(0.2), thresholds=GRID
        ),
        "warm": lambda: [Phase(CrossEntropyLoss(task=task)), Phase(soft("f1", step), rate=0.1)],
        "bce": entropy,
        "cross-entropy": entropy,
        "wmw": lambda: WMWLoss(options["gamma"], options["power"]),
        "dice": lambda: DiceLoss() if task == "binary" else ClassDiceLoss(),
        "dice-example": lambda: ExampleDiceLoss("logit"),
        "dice-logit": lambda: ExampleDiceLoss("logit"),
        "dice-sigmoid": lambda: ExampleDiceLoss("probability"),
        "mae": lambda: MeanAbsoluteErrorLoss(class_weight=class_weight),
        "surrogate": lambda: SurrogateFBetaLoss(prevalence, beta),
        "identity": lambda: soft(FBeta(beta), IdentityStep()),
        "adversarial": lambda: AdversarialF1Loss(options["batch_size"]),
    }
    check_choice("loss", name, [*METRICS, "fbeta", *others])
    if name in others:
        return others[name]()
    metric = FBeta(beta) if name == "fbeta" else METRICS[name]
    if options.get("anneal"):
        rate = options["cooling"] if options["anneal"] is True else options["anneal"]
        warm = soft(metric, LinearStep.at_temperature(START))
        return [Phase(warm, cooling={"rate": rate})]
    return soft(metric, step)


def make_step(options: dict[str, Any], task: str = "binary") -> Step | None:
    """The step that the options describe; that of ``MetricLoss`` if they do not."""
    kind = options.get("step")
    if kind is None:
        return LinearStep(0.1) if task == "binary" else None
    makers: dict[str, Callable[[], Step]] = {
        "linear": lambda: LinearStep(options.get("delta", 0.1)),
        "sigmoid": lambda: SigmoidStep(options.get("k", 10)),
        "three-point": ThreePointStep,
    }
    check_choice("step", kind, makers)
    return makers[kind]()
