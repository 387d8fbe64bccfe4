"""Plots: a metric at every threshold, steps, a training, a comparison.

Each function returns a display as scikit-learn's do: it holds the drawn values, with the
axes as ``ax_`` and their figure as ``figure_``, and ``plot(ax)`` draws it once more elsewhere.
Colors and fonts are those of matplotlib's current style. matplotlib is the extra ``[plot]``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from softset.checks import check_number, require
from softset.comparison.result import Comparison
from softset.counting.problem import arrange, probabilities
from softset.counting.steps import (
    HardStep,
    IdentityStep,
    LinearStep,
    SigmoidStep,
    Step,
    check_step,
)
from softset.counting.values import check_labels, refuse_rows
from softset.decisions.evaluation import evaluate_problem
from softset.decisions.thresholds import best_threshold
from softset.metrics.registry import MetricLike, label_of, thresholded
from softset.report.counts import Scores
from softset.report.drawing import IntervalRow, difference_rows, score_rows
from softset.tasks import BINARY
from softset.training.loop import History
from softset.typing import TensorLike, Weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ComparisonDisplay",
    "StepsDisplay",
    "ThresholdDisplay",
    "TrainingDisplay",
    "comparison",
    "steps",
    "threshold",
    "training",
]

# More pieces of a line than this cannot be seen, and make a large file.
PIECES = 2000
POINTS = 501  # of a curve of a step
GREY = "0.55"  # readable on white and on black


@dataclass
class Display:
    """What all displays share: the axes that they were drawn on."""

    ax_: Axes = field(init=False, repr=False, compare=False)
    figure_: Figure = field(init=False, repr=False, compare=False)

    def axes(self, ax: Axes | None, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
        """The axes to draw on, new ones if none are given."""
        pyplot = require("matplotlib.pyplot", "plot", "a picture")
        if ax is None:
            ax = pyplot.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, cast("Figure", ax.get_figure())
        return ax


@dataclass
class ThresholdDisplay(Display):
    """A metric at every threshold. ``values[k]`` holds from above ``edges[k]`` up to
    ``edges[k + 1]``; ``marks`` are the thresholds that are marked, by name, each with its value.

    >>> display = threshold([-2.0, -1.0, 0.3, 1.5], [0, 1, 0, 1], "f1")
    >>> [round(value, 3) for value in display.values]
    [0.667, 0.8, 0.5, 0.667, 0.0]
    """

    edges: list[float]
    values: list[float]
    marks: dict[str, tuple[float, float]]
    metric: str

    def plot(self, ax: Axes | None = None) -> ThresholdDisplay:
        """Draw on ``ax``, or on new axes."""
        ax = self.axes(ax)
        ax.stairs(self.values, self.edges, baseline=None, color="C0", linewidth=1.5)
        for k, (name, (tau, value)) in enumerate(self.marks.items()):
            color = f"C{k + 1}"
            ax.axvline(tau, color=color, linewidth=1, linestyle=":")
            label = f"{name}: {value:.3f} at {tau:.3f}"
            ax.plot([tau], [value], "o", color=color, label=label, clip_on=False)
        ax.set(xlim=(0, 1), xlabel="threshold", ylabel=self.metric)
        ax.legend()
        return self


@torch.no_grad()
def threshold(
    scores: TensorLike,
    target: TensorLike,
    metric: MetricLike,
    *,
    at: float | None = None,
    from_logits: bool = True,
    sample_weight: Weights = None,
    ax: Axes | None = None,
) -> ThresholdDisplay:
    """The metric of two classes at every threshold, with 1/2 and the best one marked.

    ``scores`` and ``target`` are ``(N,)``, as for ``best_threshold``; ``at`` is one more threshold
    to mark, such as that of a fitted classifier. The best one is the best *for these rows*: for
    rows that it was tuned on it looks better than it is.

    >>> scores, y = [-2.0, -1.0, 0.3, 1.5], [0, 1, 0, 1]
    >>> shown = threshold(scores, y, "f1", at=0.2)
    >>> [f"{name} {value:.2f}" for name, (_, value) in shown.marks.items()]
    ['1/2 0.50', 'best 0.80', 'given 0.80']
    >>> shown.ax_.get_xlabel()
    'threshold'
    """
    m = thresholded(metric)
    problem = arrange(
        scores, target, task=BINARY, from_logits=from_logits, sample_weight=sample_weight
    )
    p = probabilities(problem.z.double(), BINARY, from_logits)
    if torch.isnan(p).any():
        refuse_rows(torch.isnan(p))
    check_labels(problem.y)
    best = best_threshold(
        scores, target, metric, from_logits=from_logits, sample_weight=sample_weight
    )
    taus = {"1/2": 0.5, "best": best}
    if at is not None:
        check_number("at", at, 0, 1)
        taus["given"] = at
    marks = {
        name: (tau, float(evaluate_problem(problem, m.of_decisions, threshold=tau)))
        for name, tau in taus.items()
    }
    w = None if problem.w is None else problem.w.double().cpu().numpy()
    counts = Scores(p.cpu().numpy(), problem.y.cpu().numpy() > 0, w)
    edges = np.unique(np.append(counts.p, [0.0, 1.0]))
    if len(edges) > PIECES:  # those next to a threshold of a grid, or to a mark
        grid = np.append(np.linspace(0, 1, PIECES), list(taus.values()))
        edges = edges[np.unique(np.searchsorted(edges, grid))]
    values = counts.values(m, edges[1:])
    shown = ThresholdDisplay(edges.tolist(), values.tolist(), marks, label_of(metric))
    return shown.plot(ax)


@dataclass
class StepsDisplay(Display):
    """Steps: ``curves[name]`` is the degree at each of ``probabilities``.

    >>> steps(SigmoidStep(20)).curves.keys()
    dict_keys(['SigmoidStep(k=20)'])
    """

    probabilities: list[float]
    curves: dict[str, list[float]]
    threshold: float

    def plot(self, ax: Axes | None = None) -> StepsDisplay:
        """Draw on ``ax``, or on new axes."""
        ax = self.axes(ax)
        ax.axvline(self.threshold, color=GREY, linewidth=1, linestyle=":")
        for name, degrees in self.curves.items():
            ax.plot(self.probabilities, degrees, label=name)
        ax.set(xlim=(0, 1), xlabel="probability p", ylabel="degree of a positive decision, H(p, τ)")
        ax.legend()
        return self


@torch.no_grad()
def steps(*chosen: Step, threshold: float = 0.5, ax: Axes | None = None) -> StepsDisplay:
    """From hard to soft: how much each step takes a probability for a positive decision.

    Without any, the hard, linear, sigmoid and identity steps at their defaults.

    >>> shown = steps(threshold=0.3)
    >>> [line.get_label() for line in shown.ax_.get_lines()[1:]]
    ['HardStep()', 'LinearStep(delta=0.1, width=1.0)', 'SigmoidStep(k=10.0)', 'IdentityStep()']
    """
    check_number("threshold", threshold, 0, 1)
    for step in chosen:
        check_step(step)
    drawn = chosen or (HardStep(), LinearStep(), SigmoidStep(), IdentityStep())
    p = torch.linspace(0, 1, POINTS, dtype=torch.float64)
    curves = {_name(step): step(p, threshold).tolist() for step in drawn}
    return StepsDisplay(p.tolist(), curves, threshold).plot(ax)


def _name(step: Step) -> str:
    """A step's own name; of a function, the name it was defined by."""
    return getattr(step, "__name__", None) or repr(step)


@dataclass
class TrainingDisplay(Display):
    """The epochs of one network or more.

    >>> history = {"phase": [0, 1], "loss": [0.6, 0.5], "validation_loss": [0.7, 0.6],
    ...            "validation_metric": [0.2, 0.4], "validation_soft": [0.3, 0.4],
    ...            "temperature": [None, None]}
    >>> training(history).phases
    [(0, 2)]
    """

    histories: Sequence[History]

    @property
    def phases(self) -> list[tuple[int, int]]:
        """``(network, epoch)`` of every phase that begins after the first epoch."""
        return [
            (k, epoch + 1)
            for k, history in enumerate(self.histories)
            for epoch in range(1, len(history["phase"]))
            if history["phase"][epoch] != history["phase"][epoch - 1]
        ]

    def plot(self, ax: Axes | None = None) -> TrainingDisplay:
        """Draw on ``ax``, or on new axes."""
        ax = self.axes(ax)
        curves = (
            ("loss", "training loss", GREY),
            ("validation_metric", "metric, validation rows", "C0"),
            ("validation_soft", "soft metric, validation rows", "C1"),
        )
        faint = 1.0 if len(self.histories) == 1 else 0.45
        for key, name, color in curves:
            for k, history in enumerate(self.histories):
                values: list[float | None] = history[key]  # type: ignore[literal-required]
                if all(v is None for v in values):  # a loss that is no metric, no validation rows
                    continue
                numbers = [float("nan") if v is None else v for v in values]
                label = name if k == 0 else f"_{name}"  # in the legend once
                epochs = range(1, len(numbers) + 1)
                ax.plot(epochs, numbers, color=color, alpha=faint, label=label)
        for _, epoch in self.phases:
            ax.axvline(epoch - 0.5, color=GREY, linewidth=1, linestyle=":", alpha=faint)
        ax.set(xlabel="epoch (dotted: a phase begins)" if self.phases else "epoch")
        ax.legend()
        return self


def training(history: History | Sequence[History], *, ax: Axes | None = None) -> TrainingDisplay:
    """Losses and the metric of validation rows over the epochs, one line for each network.

    ``history`` is what ``fit`` returns, or the ``history`` of ``train_members``, or ``history_`` of
    a ``MetricMLPClassifier``. Dotted lines say where a phase of the recipe begins.

    >>> import torch, softset as ss
    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> rows = x, (x[:, 0] > 0.5).long()
    >>> from softset.training import Member, train_members
    >>> trained = train_members((4,), rows, rows, members=[Member(), Member(seed=1)], max_epochs=3)
    >>> training(trained.history).ax_.get_xlabel()[:5]
    'epoch'
    """
    histories = [history] if isinstance(history, dict) else list(history)
    for one in histories:
        if not isinstance(one, dict) or not set(History.__annotations__) <= set(one):
            raise ValueError(
                "history must be what fit returns, or a list of such (train_members(...).history, "
                f"MetricMLPClassifier's history_), got {type(one).__name__}."
            )
    if not histories or not histories[0]["phase"]:
        raise ValueError("history must have one epoch at least, got none.")
    return TrainingDisplay(histories).plot(ax)


@dataclass
class ComparisonDisplay(Display):
    """Candidates and their differences to the reference, of a ``Comparison``.

    >>> import softset as ss
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, weights=[0.8], random_state=0)
    >>> result = ss.compare(X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1,
    ...                     quick=True)
    >>> ComparisonDisplay(result).plot().figure_.get_size_inches().tolist()
    [7.2, 2.4]
    """

    result: Comparison

    def plot(self, ax: Axes | None = None) -> ComparisonDisplay:
        """Draw on ``ax``, or on new axes."""
        scored = score_rows(self.result.candidates)
        gaps = {row.id: row for row in difference_rows(self.result.candidates)}
        # The reference has no difference to itself.
        rows = [gaps.get(r.id, IntervalRow(r.id, r.accent, 0.0, None, None)) for r in scored]
        names = {c.id: c.name for c in self.result.candidates}
        ax = self.axes(ax, size=(7.2, 1.8 + 0.3 * len(rows)))
        ax.axvline(0, color=GREY, linewidth=1)
        labels = {"C1": "trained for the metric", "C0": "baseline"}
        for place, row in enumerate(rows):
            color = "C1" if row.accent else "C0"
            if row.low is not None and row.high is not None:
                ax.plot([row.low, row.high], [place, place], color=color, linewidth=2)
            label = labels.pop(color, None)  # in the legend once
            ax.plot([row.mean], [place], "o", color=color, label=label)
        ax.set_yticks(range(len(rows)), [f"{names[r.id]}  {r.mean:.3f}" for r in scored])
        ax.invert_yaxis()
        metric, best = self.result.label, names[self.result.reference]
        best = f"{best[:1].lower()}{best[1:]}"
        ax.set_xlabel(_wrapped(f"difference in {metric} to {best}, 95 % interval"))
        ax.set_title(_wrapped(self.result.verdict), fontsize="medium")
        ax.legend()
        return self


def _wrapped(text: str) -> str:
    """In lines that fit beside the names of candidates."""
    return "\n".join(textwrap.wrap(text, 50))


def comparison(result: Comparison, *, ax: Axes | None = None) -> ComparisonDisplay:
    """Every candidate's difference to the reference (the best baseline at the default
    threshold), with its 95 % interval; the number behind a name is the mean of the metric itself.

    >>> import softset as ss
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, weights=[0.8], random_state=0)
    >>> result = ss.compare(X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1,
    ...                     quick=True)
    >>> len(comparison(result).ax_.get_yticks())
    2
    """
    if not isinstance(result, Comparison):
        raise ValueError(f"result must be what compare returns, got {type(result).__name__}.")
    return ComparisonDisplay(result).plot(ax)
