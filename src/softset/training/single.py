"""``fit``: the loop for one model of your own and a DataLoader, with the same recipes, early
stopping, annealing and checkpoints as ``train_members``."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import TensorDataset

from softset.checks import check_choice
from softset.counting.problem import PER
from softset.losses.annealing import Annealing
from softset.losses.soft_metric import MetricLoss
from softset.metrics.goals import Goal
from softset.metrics.registry import MetricLike, one_number
from softset.progress import Progress
from softset.tasks import Task, get_task
from softset.training.checkpoints import Checkpoint, fingerprint
from softset.training.judging import batch_loss, member_metrics, soft_metric
from softset.training.loop import NOT_FINITE, History, Judged, Loop, check_finite, check_form
from softset.training.phases import Phase, RecipeLike, make_phases
from softset.training.rare import warn_if_rare
from softset.typing import PathLike, Settings, State

if TYPE_CHECKING:
    from softset.training.accumulation import Batch


def fit(
    model: nn.Module,
    loss: RecipeLike,
    train_loader: Iterable[Batch],
    val_loader: Iterable[Batch] | None = None,
    *,
    metric: MetricLike = "f1",
    task: str = "binary",
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
    scheduler: Callable[[Optimizer], LRScheduler] | None = None,
    max_epochs: int = 100,
    patience: int = 20,
    monitor: str = "loss",
    checkpoint: PathLike | None = None,
    checkpoint_seconds: float = 30.0,
    verbose: int = 0,
    per: str = "batch",
    ignore_index: int | None = None,
    soft_targets: bool = False,
) -> History:
    """Train ``model`` in place and leave it at its best epoch; returns the history of all epochs.

    Args:
        model: gives scores ``(N, ...)`` or ``(N, 1, ...)``, ``(N, classes, ...)`` or
            ``(N, labels, ...)``.
        loss: a loss ``loss(scores, target[, sample_weight])``; a name in
            ``softset.training.recipes.RECIPES``, such as ``"warm"``; or a list of ``Phase``.
        train_loader: gives batches ``(x, y)``, ``(x, y, sample_weight)`` or ``(x, y,
            sample_weight, set numbers)``, of which metrics are the mean over these sets. It warns
            if a soft metric is trained on batches that expect fewer than five rows of a class.
        val_loader: the same; the loss and the metric are those of *all* its rows together, for the
            mean of F1 over batches is not F1. Without it all ``max_epochs`` are run.
        optimizer: makes one from the parameters, afresh for each phase: ``lambda p: SGD(p, 0.1)``.
            AdamW by default.
        scheduler: makes one from the optimizer; it steps after each epoch.
        max_epochs, patience, monitor, checkpoint, verbose: as for ``train_members``.
        per, ignore_index, soft_targets: of ``metric`` and of recipes given by name, as for
            ``metric_loss``. A loss of your own has its own.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(200, 2)
    >>> rows = TensorDataset(x, (x.sum(1) > 1).long())
    >>> model = torch.nn.Linear(2, 1)
    >>> history = fit(model, "cross-entropy", DataLoader(rows, 50), max_epochs=3)
    >>> len(history["loss"])
    3
    """
    task = get_task(task)
    check_choice("per", per, PER)
    counted: Settings = {"per": per, "ignore_index": ignore_index, "soft_targets": soft_targets}
    phases = make_phases(loss, metric, task, **counted)
    warn_if_rare(phases, train_loader, task)
    run = _Single(
        model,
        train_loader,
        val_loader,
        _Makers(AdamW if optimizer is None else optimizer, scheduler),
        one_number(metric),
        task,
        phases,
        counted,
        max_epochs=max_epochs,
        patience=patience,
        monitor=monitor,
        validated=val_loader is not None,
    )
    file = None
    if checkpoint is not None:
        file = Checkpoint(checkpoint, run.fingerprint(), checkpoint_seconds)
    run.run(Progress(verbose, max_epochs, 1, run.metric.name), file)
    model.load_state_dict(run.best)
    return run.history[0]


@dataclass(frozen=True)
class _Makers:
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    scheduler: Callable[[Optimizer], LRScheduler] | None


class _Single(Loop):
    """One model: the only row there is, or none once it has stopped."""

    validation_argument = "val_loader"

    def __init__(
        self,
        model: nn.Module,
        train: Any,
        validation: Any,
        make: _Makers,
        metric: Goal,
        task: Task,
        phases: list[Phase],
        counted: Settings,
        **settings: Any,
    ) -> None:
        super().__init__(phases, 1, **settings)
        self.model, self.train, self.validation = model, train, validation
        self.make, self.metric, self.task, self.counted = make, metric, task, counted
        self.soft = soft_metric(metric, task, **counted)
        self.best = copy.deepcopy(model.state_dict())

    def begin(self) -> None:
        """A new optimizer, from the best weights so far."""
        self.optimizer, self.scheduler = self.make_optimizer()
        self.model.load_state_dict(self.best)

    def make_optimizer(self) -> tuple[Optimizer, LRScheduler | None]:
        """The optimizer at the rate of the phase, and the scheduler if there is one."""
        optimizer = self.make.optimizer(self.model.parameters())
        for group in optimizer.param_groups:
            group["lr"] *= self.phase.rate
        make = self.make.scheduler
        return optimizer, None if make is None else make(optimizer)

    def epoch(self) -> list[float]:
        """Once through the loader; the mean loss over its rows."""
        self.set_step()
        self.model.train()
        total, rows = 0.0, 0
        for batch in self.train:
            x, *rest = self.moved(batch)
            self.optimizer.zero_grad(set_to_none=True)
            scores = self.scores(x)
            fine = torch.isfinite(scores).all()
            value = batch_loss(self.loss, scores, *rest) if fine else None
            if value is None or not torch.isfinite(value):
                self.fail([False])
                return []
            value.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total, rows = total + float(value.detach()) * len(x), rows + len(x)
        if rows == 0:
            raise ValueError("train_loader gave no batch.")
        if self.scheduler is not None:
            self.scheduler.step()
        return [total / rows]

    def set_step(self) -> None:
        """The step at the temperature of now."""
        if isinstance(self.stoppers[0], Annealing):
            self.loss.step = self.stoppers[0].step  # type: ignore[attr-defined]

    @torch.no_grad()
    def validate(self) -> list[Judged]:
        """Of all validation rows together."""
        self.model.eval()
        parts = []
        for batch in self.validation:
            x, *rest = self.moved(batch)
            parts.append((self.scores(x), *rest))
        if not parts:
            raise ValueError("val_loader gave no batch.")
        scores, *rest = (torch.cat(columns) for columns in zip(*parts, strict=True))
        if not torch.isfinite(scores).all():
            return [NOT_FINITE]
        self.set_step()
        value = float(batch_loss(self.loss, scores, *rest))
        target, (w, per) = rest[0], (*rest[1:], None, None)[:2]
        settings = self.counted | ({} if per is None else {"per": per})
        values = member_metrics(self.metric, scores[None], target, w, self.task, **settings)
        metric = float(values[0])
        soft = None
        if isinstance(self.loss, MetricLoss):
            soft = 1 - value
        elif self.soft is not None:
            soft = 1 - float(batch_loss(self.soft, scores, *rest))
        return [Judged(value, metric, soft)]

    def finite(self) -> list[bool]:
        """Whether all weights are."""
        return [all(torch.isfinite(p).all().item() for p in self.model.parameters())]

    def keep_best(self, rows: Sequence[int]) -> None:
        """Store the weights if this epoch is the best."""
        if rows:
            self.best = copy.deepcopy(self.model.state_dict())

    def keep(self, rows: Sequence[int]) -> None:
        """One network stays or ends: nothing is left out."""
        pass  # there is no stack to leave

    def scores(self, x: Tensor) -> Tensor:
        """The output of the model; one column of two classes without its dimension."""
        scores = self.model(x)
        return scores.squeeze(-1) if self.task.single and scores.dim() == 2 else scores

    def moved(self, batch: Batch) -> list[Tensor]:
        """A batch on the device of the model."""
        device = next(self.model.parameters()).device
        return [t.to(device) for t in batch]

    # --- checkpoints -----------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """Settings, the model, and the data as far as it can be known without reading it all."""
        loaders = {"train": self.train, "validation": self.validation}
        sizes = {
            name: [getattr(one, "batch_size", None), len(one) if hasattr(one, "__len__") else None]
            for name, one in loaders.items()
        }
        settings = {
            "model": str(self.model),
            "phases": [vars(phase) for phase in self.phases],
            "optimizer": str(self.make_optimizer()[0]),
            "loaders": sizes,
            "others": [self.metric, self.task, self.monitor, self.patience, self.max_epochs],
        }
        unusual = {k: v for k, v in self.counted.items() if v not in ("batch", None, False)}
        settings |= {"counted": unusual} if unusual else {}
        tensors: dict[str, Tensor | None] = {}
        for name, loader in loaders.items():
            rows = getattr(loader, "dataset", None)
            if isinstance(rows, TensorDataset):
                tensors.update({f"{name}.{i}": t for i, t in enumerate(rows.tensors)})
        return fingerprint(settings, tensors)

    def own_state(self) -> State:
        """Weights, optimizer and random numbers: all that the next epoch depends on."""
        generator = getattr(self.train, "generator", None)
        name, keys, *rest = np.random.get_state(legacy=True)
        return {
            "best": dict(self.best),
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "loss": dict(getattr(self.loss, "state_dict", dict)()),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "loader": None if generator is None else generator.get_state(),
            "python": random.getstate(),
            "numpy": (name, np.asarray(keys).tolist(), *rest),
        }

    def load_own_state(self, state: State) -> None:
        """Go on with these, once they have the form of this run."""
        check_form(state["best"], dict(self.best))
        check_finite(state["best"][name] for name, _ in self.model.named_parameters())
        self.best = state["best"]
        if self.ids:  # else the next phase has a fresh optimizer and starts from the best
            check_form(state["model"], dict(self.model.state_dict()))
            check_form(
                state["optimizer"]["param_groups"], self.optimizer.state_dict()["param_groups"]
            )
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(state["scheduler"])
            if state["loss"]:
                self.loss.load_state_dict(state["loss"])  # type: ignore[attr-defined]
        torch.set_rng_state(state["torch"])
        if state["cuda"]:
            torch.cuda.set_rng_state_all(state["cuda"])
        if state["loader"] is not None:
            self.train.generator.set_state(state["loader"])
        random.setstate(state["python"])
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
