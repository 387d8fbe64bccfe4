"""The metric itself, made soft: ``loss(scores, target, sample_weight=None) -> scalar``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softset.checks import check_choice, warn_user
from softset.counting.arguments import as_numbers
from softset.counting.cells import Confusion, Counting
from softset.counting.flat import Form, flatten
from softset.counting.kernels.interface import Counted, composed, differentiable
from softset.counting.numerics import (
    CHECKS,
    as_dtype,
    checked,
    full_precision,
    readable,
    under_transform,
    working,
)
from softset.counting.problem import (
    FEW_SCORES,
    PER,
    Problem,
    all_in_unit_interval,
    arrange,
    check_thresholds,
)
from softset.counting.steps import LinearStep, Step, check_step, is_hard
from softset.losses.loss import Loss, refuse_words
from softset.losses.parts import no_rows, row_in_their_place
from softset.losses.pointwise import class_weight_buffer
from softset.losses.ranks import Ranks
from softset.losses.running import RunningCounts
from softset.metrics.curves import Curve
from softset.metrics.custom import Custom
from softset.metrics.derivatives import Derivatives, derivatives
from softset.metrics.goals import Goal
from softset.metrics.grid import Grid, over_grid
from softset.metrics.registry import MetricLike, one_number
from softset.tasks import Task, get_task
from softset.typing import Groups, TensorLike, Threshold, Weights

EMPTY = ("penalize", "ignore")
SETTINGS = (
    "metric", "task", "step", "threshold", "thresholds", "sample_weight", "class_weight",
    "ignore_index", "from_logits", "empty", "batch_dims", "per", "soft_targets", "check",
)  # fmt: skip


@dataclass(slots=True)
class Settings:
    """The arguments of ``metric_loss`` but for the tensors and the metric."""

    task: Task
    step: Step
    threshold: Threshold
    class_weight: Weights
    ignore_index: int | None
    from_logits: bool
    empty: str
    batch_dims: int
    per: Groups
    soft_targets: bool
    check: str = "auto"

    def arranged(self, scores: TensorLike, target: TensorLike, weight: Any) -> Problem:
        """The problem of a batch."""
        return arrange(
            scores,
            target,
            task=self.task,
            from_logits=self.from_logits,
            sample_weight=weight,
            class_weight=self.class_weight,
            ignore_index=self.ignore_index,
            batch_dims=self.batch_dims,
            per=self.per,
            soft_targets=self.soft_targets,
        )


def default_step(task: Task) -> LinearStep:
    """Paper 000's step for binary and multilabel, paper 002's first temperature for multiclass."""
    return LinearStep.at_temperature(0.2) if task.exclusive else LinearStep(0.1)


def metric_loss(
    scores: Tensor,
    target: Tensor,
    metric: MetricLike = "f1",
    *,
    task: str = "binary",
    step: Step | None = None,
    threshold: Threshold = 0.5,
    thresholds: Threshold | None = None,
    sample_weight: Weights = None,
    class_weight: Weights = None,
    ignore_index: int | None = None,
    from_logits: bool = True,
    empty: str = "penalize",
    batch_dims: int = 0,
    per: Groups = "batch",
    soft_targets: bool = False,
    check: str = "auto",
    **unknown: object,
) -> Tensor:
    """``1 - metric`` of the soft confusion of ``scores`` and ``target``.

    Arguments as for ``confusion``, and:

    Args:
        metric: a name in ``METRICS``, a metric, or any function of a ``Confusion``.
        step: ``LinearStep(0.1)`` if left out, ``LinearStep.at_temperature(0.2)`` for multiclass.
        thresholds: average the metric over this grid instead of one ``threshold``; AUROC and
            average precision integrate over it (99 thresholds if left out).
        empty: what a batch without positives says (binary and multilabel). F-beta is constant
            there. ``"penalize"``: ``1 - predicted / total`` takes the metric's place, so that
            false positives are pushed down; ``"ignore"``: the label is left out. Of several
            classes, those without examples in the batch are left out.
        batch_dims: leading dimensions of independent problems; the result has their shape.
        check: ``"full"`` reads values on the host and raises an error that names what is wrong;
            ``"device"`` reads none, and the loss of bad input is NaN: nothing waits for a GPU
            (docs/how-to/gpu.md). ``"auto"``: ``"full"`` on the CPU, ``"device"`` elsewhere.
        per: the mean of each set's metric: of each ``"image"`` (each of N), or of sets by their
            numbers. A set without positives is one by ``empty``, one without weight is left out.

    >>> import torch
    >>> z = torch.tensor([3.0, -2.0, 0.5, -4.0], requires_grad=True)
    >>> loss = metric_loss(z, torch.tensor([1, 0, 0, 1]), "f1")
    >>> loss.backward()
    >>> round(loss.item(), 4), bool(z.grad.isfinite().all())
    (0.4704, True)
    """
    if unknown:
        refuse_words("metric_loss", unknown, SETTINGS)
    check_choice("empty", empty, EMPTY)
    check_choice("check", check, CHECKS)
    task = get_task(task)
    settings = Settings(
        task=task,
        step=default_step(task) if step is None else step,
        threshold=threshold,
        class_weight=class_weight,
        ignore_index=ignore_index,
        from_logits=from_logits,
        empty=empty,
        batch_dims=batch_dims,
        per=per,
        soft_targets=soft_targets,
        check=check,
    )
    return _loss(scores, target, sample_weight, over_grid(one_number(metric), thresholds), settings)


def _loss(
    scores: TensorLike,
    target: TensorLike,
    weight: Weights,
    goal: Goal,
    settings: Settings,
) -> Tensor:
    with checked(settings.check):
        return problem_loss(
            settings.arranged(scores, target, weight),
            goal,
            step=settings.step,
            threshold=settings.threshold,
            empty=settings.empty,
        )


def problem_loss(
    problem: Problem,
    goal: Goal,
    *,
    step: Step | None = None,
    threshold: Threshold = 0.5,
    empty: str = "penalize",
) -> Tensor:
    """``metric_loss`` of a problem that is arranged already."""
    step = default_step(problem.task) if step is None else step
    loss = _one_node(problem, goal, step, threshold, empty)
    if loss is not None:
        return loss
    c = goal.soft_cells(problem, step, threshold)
    return as_dtype(1 - goal.soft_value(c, empty, problem.in_sets), working(problem.z))


def _one_node(
    problem: Problem, goal: Goal, step: Step, threshold: Threshold, empty: str
) -> Tensor | None:
    """``1 - metric`` as one node of the graph, where a kernel counts the arguments where they lie.

    It is what ``problem_loss`` computes, by the same kernel and the same formula: the formula is
    differentiated at once, on a handful of numbers (``counting.traced``), and the backward pass is
    one call of the kernel. None where there is more to be done.
    """
    metric = goal.metric
    if isinstance(metric, Custom) or problem.numbers is not None:
        return None
    if problem.batch_dims and not (problem.batch_dims == 1 and problem.sets):
        return None
    exclusive = problem.task.exclusive  # only then there is a matrix
    if exclusive and metric.wants_matrix(problem.task, problem.classes, training=True):
        return None
    if torch.compiler.is_compiling():
        return None
    counting = goal.where.counting(metric, problem, step, threshold)
    if counting is None or counting.kernel is None:
        return None
    problem, dtype = counting.problem, working(problem.scores)
    if problem.sets and readable(problem.scores):
        return None
    counted, scores = counting.in_place(), problem.scores
    if counted is None:
        counted, scores = counting.laid_out(), problem.z
    if counted is None:
        return None
    computed = derivatives(goal, counting.oriented(counted.cells), problem, empty, dtype)
    if computed is None:
        cells = differentiable(scores, counting.kernel, problem, counted)
        c = counting.confusion(cells, unit=1.0)
        return (1 - goal.soft_value(c, empty, problem.sets)).to(dtype)
    node = _Node(counting, counted, goal, empty, computed)
    return _OneNode.apply(scores, node)  # type: ignore[no-untyped-call]


class _Node(NamedTuple):
    """What a node of the graph is made of."""

    counting: Counting
    counted: Counted
    goal: Goal
    empty: str
    known: Derivatives


class _OneNode(torch.autograd.Function):
    """One minus a metric that is known already, with its derivatives by the cells."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, node: _Node) -> Tensor:
        ctx.node = node
        # What is read again: autograd refuses it if it was changed in between.
        ctx.save_for_backward(scores, *node.counting.problem.read)
        loss = node.known.loss
        if isinstance(loss, Tensor):
            return loss
        return torch.scalar_tensor(loss, dtype=working(scores), device="cpu")

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor) -> tuple[Tensor, None]:
        scores, *_ = ctx.saved_tensors
        counting, counted, goal, empty, computed = ctx.node
        if torch.is_grad_enabled() or under_transform(adjoint):
            cells = composed(counting.kernel, counting.problem)
            with torch.enable_grad():
                c = counting.confusion(cells)
                loss = 1 - goal.soft_value(c, empty, counting.problem.sets)
            (grad,) = torch.autograd.grad(loss, scores, adjoint.to(loss.dtype), create_graph=True)
            return grad, None
        by = computed.by
        if not isinstance(by, Tensor):
            by = torch.from_numpy(by * adjoint.item())
        else:
            out = torch.empty(by.shape, dtype=counting.kernel.dtype, device=by.device)
            by = torch.mul(by, adjoint, out=out)
        positive, negative = counting.oriented(by)
        with full_precision(scores):
            return counted.gradient(positive, negative), None


class ProbabilitiesWarning(UserWarning):
    """The scores of a loss look like probabilities, and are taken for logits."""


class MetricLoss(Loss):
    """``1 - metric`` as a loss: drop it in where ``BCEWithLogitsLoss`` stood.

    Arguments as for ``metric_loss``, of which this is the module, and two for batches that are
    parts of a whole (docs/scale.md). Both count only where gradients are on: without, as in an
    evaluation, the loss is that of the batch. ``loss.step`` may be replaced while training (see
    ``Annealing``). Set numbers belong to a batch: ``loss(scores, target, sample_weight,
    per=numbers)``.

    Args:
        ema_decay: in [0, 1). The loss is that of a running mean of counts over batches, in which
            the batch before has the weight ``ema_decay``; the gradient has the metric's derivative
            there, and the derivative of the batch's own counts. It is part of ``state_dict``. 0:
            counts of each batch alone.
        sync: the loss is that of the batches of all ranks together, and its gradient the one that
            DDP and FSDP must average. ``"auto"``: of the default process group, if there is one;
            or a process group. A rank may have no rows, and must call the loss all the same.

    >>> import torch
    >>> loss = MetricLoss("mcc")
    >>> z = torch.zeros(4, requires_grad=True)
    >>> loss(z, torch.tensor([1, 0, 1, 0])).item()
    1.0
    """

    takes_sets = True

    def __init__(
        self,
        metric: MetricLike = "f1",
        *,
        task: str = "binary",
        step: Step | None = None,
        threshold: Threshold = 0.5,
        thresholds: Threshold | None = None,
        class_weight: Weights = None,
        ignore_index: int | None = None,
        from_logits: bool | None = None,
        empty: str = "penalize",
        batch_dims: int = 0,
        per: Groups = "batch",
        soft_targets: bool = False,
        check: str = "auto",
        ema_decay: float = 0.0,
        sync: Any = None,
        **unknown: object,
    ) -> None:
        super().__init__()
        refuse_words("MetricLoss", unknown, SETTINGS)
        check_choice("empty", empty, EMPTY)
        self.goal, task = over_grid(one_number(metric), thresholds), get_task(task)
        self.step = default_step(task) if step is None else step
        self.task, self.empty = task, empty
        self.from_logits = from_logits is None or bool(from_logits)
        # How many scores have been seen, as long as all of them lie in [0, 1]; then None.
        self._unclear: int | None = 0 if from_logits is None else None
        self.threshold = threshold
        self.ignore_index, self.batch_dims = ignore_index, batch_dims
        if not isinstance(per, str):
            raise ValueError(
                f"per of a loss must be one of {', '.join(map(repr, PER))}, got "
                f"{type(per).__name__}. Set numbers belong to a batch: loss(scores, target, "
                "sample_weight, per=numbers)."
            )
        check_choice("per", per, PER)
        self.per, self.soft_targets = per, soft_targets
        check_choice("check", check, CHECKS)
        self.check = check
        self.class_weight: Tensor | None
        self.register_buffer("class_weight", class_weight_buffer(class_weight), persistent=False)
        running = RunningCounts(ema_decay)  # checks ema_decay
        self.running = running if running.ema_decay else None
        self.ranks = None if sync is None else Ranks(sync)
        if self._is_part and is_hard(self.step):
            raise ValueError(f"ema_decay and sync need a step with a gradient, got {self.step!r}.")
        if self._is_part and not self.goal.where.adds_up:
            raise ValueError(f"ema_decay and sync can't find the place of {self.goal.name!r}.")
        if self._is_part and per != "batch":
            raise ValueError(
                f"ema_decay and sync are for one set of counts: per='batch', not {per!r}."
            )
        self._check()

    def _check(self) -> None:
        """Find mistakes where they are made, rather than in the first epoch."""
        check_step(self.step)
        goal, where = self.goal, self.goal.where
        where.refuse_threshold(goal, self.threshold)
        goal.check(self.task)
        if not isinstance(where, Grid):
            check_thresholds(self.task, self.threshold)
        elif not isinstance(goal.metric, Curve):  # an area is one against the rest
            check_thresholds(self.task, 0.5, where.thresholds)
        if self.task.single:  # else the number of classes is not known yet
            goal.metric.wants_matrix(self.task, 1, training=True)

    def settings(self, per: Groups | None = None, batch_dims: int | None = None) -> Settings:
        """How it counts; ``per`` and ``batch_dims`` take the place of its own."""
        return Settings(
            self.task,
            self.step,
            self.threshold,
            self.class_weight,
            self.ignore_index,
            self.from_logits,
            self.empty,
            self.batch_dims if batch_dims is None else batch_dims,
            self.per if per is None else per,
            self.soft_targets,
            self.check,
        )

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        sample_weight: Weights = None,
        per: Groups | None = None,
    ) -> Tensor:
        if not torch.compiler.is_compiling() and self._unclear is not None:
            self._look(scores)
        if self._is_part and torch.is_grad_enabled():
            if per is not None:
                raise ValueError(
                    "ema_decay and sync are for one set of counts: without set numbers."
                )
            scores = as_numbers("scores", scores)
            with checked(self.check):
                value = self.of_whole(
                    lambda: flatten(self.cells(scores, target, sample_weight)), scores.device
                )
            return as_dtype(value, working(scores))
        return _loss(scores, target, sample_weight, self.goal, self.settings(per))

    def _look(self, scores: Tensor) -> None:
        """Warn once if the first scores all lie in [0, 1]. On a GPU, which it would wait for, only
        with ``check="full"``."""
        z = as_numbers("scores", scores)
        with checked(self.check):
            if not readable(z):
                return
        self._unclear = (self._unclear or 0) + z.numel() if all_in_unit_interval(z) else None
        if self._unclear is not None and self._unclear >= FEW_SCORES:
            self._unclear = None
            warn_user(
                "all scores so far lie in [0, 1], and are taken for logits. Pass from_logits=False "
                "if they are probabilities, from_logits=True if they are logits.",
                ProbabilitiesWarning,
            )

    @property
    def _is_part(self) -> bool:
        """Whether a batch is part of a whole."""
        return self.running is not None or self.ranks is not None

    def cells(self, scores: Tensor, target: Tensor, sample_weight: Weights = None) -> Confusion:
        """The soft counts that the loss is made of, with their graph; zeros if there are no rows,
        or none with a weight."""
        scores = as_numbers("scores", scores)
        nothing = no_rows(scores, sample_weight)
        if nothing:
            rows = row_in_their_place(scores, self.task, self.batch_dims, self.from_logits)
            problem = self.settings().arranged(*rows)
        else:
            problem = self.settings().arranged(scores, target, sample_weight)
        c = self.goal.soft_cells(problem, self.step, self.threshold)
        return c.map(lambda t: torch.zeros_like(t) + scores[:0].sum()) if nothing else c

    def of_whole(self, count: Callable[[], tuple[Tensor, Form]], device: torch.device) -> Tensor:
        """The loss of the counts that ``count`` gives, with those of all ranks and of the batches
        before. Counts are as ``softset.counting.flat`` has them."""
        flat, form = count() if self.ranks is None else self.ranks.total(count, device)
        flat = flat if self.running is None else self.running(flat)
        return 1 - self.goal.soft_value(form.confusion(flat), self.empty)

    def of_members(
        self,
        scores: Tensor,
        target: Tensor,
        weight: Tensor | None,
        step: Step | None = None,
        per: Groups | None = None,
    ) -> Tensor:
        """One loss for each member: scores ``[K, N, ...]``; target and weight with or without that
        dimension. ``step`` takes the place of the loss's own."""
        if self._is_part:
            raise ValueError(
                "ema_decay and sync are for one network. Train it with softset.training.fit, or in "
                "your own loop."
            )
        settings = self.settings(per, batch_dims=1)
        settings.step = self.step if step is None else step
        return _loss(scores, target, weight, self.goal, settings)

    @torch.no_grad()
    def confusion(
        self,
        scores: Tensor,
        target: Tensor,
        sample_weight: Weights = None,
        per: Groups | None = None,
    ) -> Confusion:
        """The soft counts behind the loss, for logging."""
        problem = self.settings(per).arranged(scores, target, sample_weight)
        return self.goal.soft_cells(problem, self.step, self.threshold)

    def __copy__(self) -> MetricLoss:
        """With a step and running counts of its own."""
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__)
        copied._modules = copy.deepcopy(self._modules)
        return copied

    def extra_repr(self) -> str:
        sync = "" if self.ranks is None else f", sync={self.ranks!r}"
        return f"{self.goal.name!r}, task={self.task!r}, step={self.step!r}{sync}"
