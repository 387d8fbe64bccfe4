"""The metric itself, made soft: ``loss(scores, target, sample_weight=None) -> scalar``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from softset.checks import check_choice, check_number
from softset.counting.cells import Confusion, confusion
from softset.counting.kernels.choice import binary_kernel, multiclass_kernel
from softset.counting.kernels.interface import linearised_loss
from softset.counting.numerics import as_dtype, under_transform, working
from softset.counting.problem import THRESHOLD_HINT, arrange, as_numbers
from softset.counting.steps import LinearStep, Step
from softset.decisions.evaluation import one_against_rest
from softset.losses.pointwise import _weights
from softset.metrics.custom import Custom
from softset.metrics.formulas import Fraction
from softset.metrics.registry import MetricLike, get_metric, one_number

# Rows up to which the numbers of a metric cost more than the rows.
SMALL = 2**15
EMPTY = ("penalise", "ignore")
DEFAULT_GRID = tuple(i / 100 for i in range(1, 100))


def default_step(task: str) -> LinearStep:
    """Paper 000's step for binary and multilabel, paper 002's first temperature for multiclass."""
    return LinearStep.at_temperature(0.2) if task == "multiclass" else LinearStep(0.1)


def metric_loss(
    scores: Tensor,
    target: Tensor,
    metric: MetricLike = "f1",
    *,
    task: str = "binary",
    step: Step | None = None,
    threshold: Any = 0.5,
    thresholds: Any = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    ignore_index: int | None = None,
    from_logits: bool = True,
    empty: str = "penalise",
    batch_dims: int = 0,
) -> Tensor:
    """``1 - metric`` of the soft confusion of ``scores`` and ``target``.

    Arguments as for ``confusion``, and:

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        step: ``LinearStep(0.1)`` if left out, ``LinearStep.at_temperature(0.2)`` for multiclass.
        thresholds: average the metric over this grid instead of one ``threshold``; AUROC and
            average precision integrate over it (99 thresholds if left out).
        empty: what a batch without positives says (binary and multilabel). F-beta is constant
            there. ``"penalise"``: ``1 - predicted / total`` takes the metric's place, so that
            false positives are pushed down; ``"ignore"``: the label is left out. Of several
            classes, those without examples in the batch are left out.
        batch_dims: leading dimensions of independent problems; the result has their shape.

    >>> import torch
    >>> z = torch.tensor([3.0, -2.0, 0.5, -4.0], requires_grad=True)
    >>> loss = metric_loss(z, torch.tensor([1, 0, 0, 1]), "f1")
    >>> loss.backward()
    >>> round(loss.item(), 4), bool(z.grad.isfinite().all())
    (0.4704, True)
    """
    check_choice("empty", empty, EMPTY)
    scores = as_numbers("scores", scores)
    m = one_number(metric)
    if m.curve:
        thresholds = DEFAULT_GRID if thresholds is None else thresholds
        if task == "multiclass":
            scores, target, sample_weight = one_against_rest(
                scores,
                target,
                from_logits=from_logits,
                sample_weight=sample_weight,
                class_weight=class_weight,
                ignore_index=ignore_index,
                batch_dims=batch_dims,
            )
            task, from_logits, class_weight, ignore_index = "multilabel", False, None, None
    step = default_step(task) if step is None else step
    if isinstance(m, Fraction) and thresholds is None and not batch_dims:
        short = _shortcut(
            m,
            step,
            threshold,
            empty,
            scores,
            target,
            task=task,
            from_logits=from_logits,
            sample_weight=sample_weight,
            class_weight=class_weight,
            ignore_index=ignore_index,
        )
        if short is not None:
            return short
    c = confusion(
        scores,
        target,
        task=task,
        step=step,
        threshold=threshold,
        thresholds=thresholds,
        from_logits=from_logits,
        sample_weight=sample_weight,
        class_weight=class_weight,
        ignore_index=ignore_index,
        batch_dims=batch_dims,
        matrix=m.wants_matrix(task, _columns(scores, batch_dims)),
    )
    value = m(c, empty=empty)
    if thresholds is not None and not m.curve:
        value = value.mean(-1)
    dtype = working(scores) if scores.is_floating_point() else torch.float32
    return as_dtype(1 - value, dtype)


def _shortcut(
    m: Fraction, step: Any, threshold: Any, empty: str, scores: Any, target: Any, **settings: Any
) -> Tensor | None:
    """The same loss with less ado, where the counts and not the rows take the time."""
    task, from_logits = settings["task"], settings["from_logits"]
    if not (isinstance(step, LinearStep) and isinstance(scores, Tensor) and scores.is_cpu):
        return None
    if not all(isinstance(v, int | float) for v in (threshold, step.delta, step.width)):
        return None
    if isinstance(getattr(m, "beta", None), tuple) or under_transform(scores):
        return None
    if task == "binary" and not m.both_classes and scores.numel() <= SMALL:
        z, y, w, _, _ = arrange(scores, target, **settings)
        check_number("threshold", threshold, 0, 1, hint=THRESHOLD_HINT)
        kernel: Any = binary_kernel(z, step, [threshold], False, from_logits)
    elif task == "multiclass" and m.average == "macro" and from_logits and threshold == 0.5:
        z, y, w, _, _ = arrange(scores, target, **settings)
        kernel = multiclass_kernel(z, step, True)
    else:
        return None

    def again(tp: Tensor, predicted: Tensor, support: Tensor, total: Tensor) -> Tensor:
        return 1 - m(Confusion(tp, predicted, support, total, task), empty=empty)

    return linearised_loss(kernel, z, y, w, m.slopes, again)


def _columns(scores: Tensor, batch_dims: int) -> int:
    return scores.shape[batch_dims + 1] if scores.dim() > batch_dims + 1 else 1


class MetricLoss(nn.Module):
    """``1 - metric`` as a loss: drop it in where ``BCEWithLogitsLoss`` stood.

    Arguments as for ``metric_loss``, of which this is the module. ``loss.step`` may be replaced
    while training (see ``Annealing``).

    >>> import torch
    >>> loss = MetricLoss("mcc")
    >>> z = torch.zeros(4, requires_grad=True)
    >>> loss(z, torch.tensor([1, 0, 1, 0])).item()
    1.0
    """

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        task: str = "binary",
        step: Step | None = None,
        threshold: Any = 0.5,
        thresholds: Any = None,
        class_weight: Any = None,
        ignore_index: int | None = None,
        from_logits: bool = True,
        empty: str = "penalise",
        batch_dims: int = 0,
    ) -> None:
        super().__init__()
        check_choice("empty", empty, EMPTY)
        self.metric = get_metric(metric)
        self.step = default_step(task) if step is None else step
        self.task, self.empty, self.from_logits = task, empty, from_logits
        self.threshold, self.thresholds = threshold, thresholds
        self.ignore_index, self.batch_dims = ignore_index, batch_dims
        self.class_weight: Tensor | None
        self.register_buffer("class_weight", _weights(class_weight), persistent=False)
        self._check()

    def _check(self) -> None:
        """Find mistakes where they are made, on a batch of two, rather than in the first epoch."""
        if isinstance(self.metric, Custom) and self.task != "binary":
            return  # its number of classes is not known yet
        classes = 2 if self.class_weight is None else len(self.class_weight)
        beta = getattr(self.metric, "beta", None)
        classes = len(beta) if isinstance(beta, tuple) else classes
        tau = self.threshold
        classes = len(tau) if self.task == "multilabel" and hasattr(tau, "__len__") else classes
        shape = {"binary": (2,), "multiclass": (2, classes), "multilabel": (2, classes)}
        scores = torch.full(shape.get(self.task, (2,)), 0.5)
        labels = torch.tensor([0, 1])
        target = labels if self.task != "multilabel" else labels.unsqueeze(-1).expand(scores.shape)
        step = self.step if not _has_batch_parameters(self.step) else LinearStep()
        settings = {**self._settings(), "batch_dims": 0, "step": step, "class_weight": None}
        with torch.no_grad():
            metric_loss(scores, target, self.metric, **settings)

    def _settings(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "step": self.step,
            "threshold": self.threshold,
            "thresholds": self.thresholds,
            "class_weight": self.class_weight,
            "ignore_index": self.ignore_index,
            "from_logits": self.from_logits,
            "empty": self.empty,
            "batch_dims": self.batch_dims,
        }

    def forward(self, scores: Tensor, target: Tensor, sample_weight: Any = None) -> Tensor:
        return metric_loss(
            scores, target, self.metric, sample_weight=sample_weight, **self._settings()
        )

    def confusion(self, scores: Tensor, target: Tensor, sample_weight: Any = None) -> Confusion:
        """The soft counts behind the loss, for logging."""
        settings = self._settings()
        del settings["empty"]
        return confusion(scores, target, sample_weight=sample_weight, **settings).detach()

    def extra_repr(self) -> str:
        return f"{self.metric!r}, task={self.task!r}, step={self.step!r}"


def _has_batch_parameters(step: Any) -> bool:
    values = getattr(step, "__dict__", {}).values()
    return any(isinstance(v, Tensor) and v.dim() > 0 for v in values)
