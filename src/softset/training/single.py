"""``fit``: a plain loop for one model of your own and a DataLoader, with the same recipes, early
stopping, annealing and checkpoints. Read it top to bottom; copy it if you need something else."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import random
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import TensorDataset

from softset.checks import check_choice, check_number
from softset.losses.annealing import Annealing
from softset.metrics.registry import MetricLike, one_number
from softset.training.checkpoints import Checkpoint, fingerprint
from softset.training.members import HISTORY, MONITORS
from softset.training.progress import Progress
from softset.training.recipes import RecipeLike, make_phases, member_metrics
from softset.training.stopping import Patience

History = dict[str, list[Any]]


def fit(
    model: nn.Module,
    loss: RecipeLike,
    train_loader: Iterable[Any],
    val_loader: Iterable[Any] | None = None,
    *,
    metric: MetricLike = "f1",
    task: str = "binary",
    optimizer: Callable[[Any], Optimizer] | None = None,
    scheduler: Callable[[Optimizer], LRScheduler] | None = None,
    max_epochs: int = 100,
    patience: int = 20,
    monitor: str = "loss",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    verbose: int = 0,
) -> History:
    """Train ``model`` in place and leave it at its best epoch; returns the history of all epochs.

    Args:
        model: gives scores ``(N,)`` or ``(N, 1)``, ``(N, classes)`` or ``(N, labels)``.
        loss: a loss ``loss(scores, target[, sample_weight])``, the name of a recipe
            (``"cross-entropy"``, ``"metric"``, ``"metric-grid"``, ``"anneal"``, ``"warm"``), or a
            list of ``Phase``.
        train_loader: gives batches ``(x, y)`` or ``(x, y, sample_weight)``.
        val_loader: the same; the loss and the metric are those of *all* its rows together, for the
            mean of F1 over batches is not F1. Without it all ``max_epochs`` are run.
        optimizer: makes one from the parameters, afresh for each phase: ``lambda p: SGD(p, 0.1)``.
            AdamW if left out.
        scheduler: makes one from the optimiser; it steps after each epoch.
        max_epochs, patience, monitor, checkpoint: as for ``train_members``.

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
    check_choice("monitor", monitor, MONITORS)
    check_number("max_epochs", max_epochs, 1, math.inf, closed="low")
    run = _Plain(model, train_loader, val_loader)
    run.metric, run.task, run.monitor = one_number(metric), task, monitor
    run.phases = make_phases(loss, metric, task)
    run.patience, run.max_epochs = patience, max_epochs
    run.make_optimizer = AdamW if optimizer is None else optimizer
    run.make_scheduler = scheduler
    run.make_phase(0)
    progress = Progress(verbose, max_epochs, 1, run.metric.name)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(progress))
        file, state = None, None
        if checkpoint is not None:
            file = Checkpoint(checkpoint, run.fingerprint(), checkpoint_seconds)
            state = stack.enter_context(file.open())
        if state is None:
            run.start_phase(0)
        else:
            run.load_state_dict(state)
        run.all_phases(progress, file)
    model.load_state_dict(run.best)
    return run.history


class _Plain:
    """One network in training. The reading order: ``all_phases`` -> ``epoch`` -> ``judge``."""

    metric: Any
    task: str
    monitor: str
    phases: list[Any]
    patience: int
    max_epochs: int
    make_optimizer: Callable[[Any], Optimizer]
    make_scheduler: Callable[[Optimizer], LRScheduler] | None

    def __init__(self, model: nn.Module, train: Any, validation: Any) -> None:
        self.model, self.train, self.validation = model, train, validation
        self.best = copy.deepcopy(model.state_dict())
        self.finished = False
        self.history: History = {name: [] for name in HISTORY}

    def make_phase(self, number: int) -> None:
        """A phase's loss, early stopping and fresh optimiser."""
        self.phase_number, self.epoch_number, self.stopped = number, 0, False
        phase = self.phases[number]
        if phase.cooling is not None and self.validation is None:
            raise ValueError("loss cools at early stops; give val_loader.")
        self.loss = copy.copy(phase.loss)  # its step may change
        self.stopper: Patience | Annealing = Patience(self.patience)
        if phase.cooling is not None:
            self.stopper = Annealing(**{"patience": self.patience, **phase.cooling})
        self.optimizer = self.make_optimizer(self.model.parameters())
        for group in self.optimizer.param_groups:
            group["lr"] *= phase.rate
        make = self.make_scheduler
        self.scheduler = None if make is None else make(self.optimizer)

    def start_phase(self, number: int) -> None:
        """From the best weights so far, which count as a first epoch."""
        self.make_phase(number)
        self.model.load_state_dict(self.best)
        if self.validation is not None:
            loss, metric = self.validate()
            self.stopper.update(loss if self.monitor == "loss" else -metric)

    def all_phases(self, progress: Progress, file: Checkpoint | None) -> None:
        while not self.finished:
            progress.start()
            while not self.stopped and self.epoch_number < self.max_epochs:
                self.set_step()
                self.judge(self.epoch())
                self.epoch_number += 1
                if self.scheduler is not None:
                    self.scheduler.step()
                progress.show(
                    self.epoch_number,
                    self.history["loss"][-1],
                    self.history["validation_metric"][-1],
                    1,
                )
                if file is not None:
                    file.save(self.state_dict)
            if self.phase_number + 1 < len(self.phases):
                self.start_phase(self.phase_number + 1)
            else:
                self.finished = True
        if file is not None:
            file.save(self.state_dict, last=True)

    def set_step(self) -> None:
        if isinstance(self.stopper, Annealing):
            self.loss.step = self.stopper.step

    def epoch(self) -> float:
        """An update for every batch; the mean loss, or NaN as soon as one is not finite."""
        self.model.train()
        total, rows = 0.0, 0
        for batch in self.train:
            x, *rest = self.moved(batch)
            self.optimizer.zero_grad(set_to_none=True)
            scores = self.scores(x)
            if not torch.isfinite(scores).all():
                return math.nan
            value = self.loss(scores, *rest)
            if not torch.isfinite(value):
                return math.nan
            value.backward()
            self.optimizer.step()
            total, rows = total + float(value.detach()) * len(x), rows + len(x)
        if rows == 0:
            raise ValueError("train_loader gave no batch.")
        return total / rows

    def judge(self, loss: float) -> None:
        """Validate, keep the best weights, and see whether to go on."""
        judged: tuple[Any, Any] = (None, None)
        if math.isfinite(loss) and self.validation is not None:
            judged = self.validate()
        temperature = self.stopper.temperature if isinstance(self.stopper, Annealing) else None
        entry = (self.phase_number, loss, *judged, temperature)
        for values, value in zip(self.history.values(), entry, strict=True):
            values.append(value)
        if not math.isfinite(loss) or (judged[0] is not None and not math.isfinite(judged[0])):
            warnings.warn(
                f"the loss is not finite in epoch {self.epoch_number + 1}: stopped, the last good "
                "weights are kept. Try a lower learning rate.",
                RuntimeWarning,
                stacklevel=4,
            )
            self.stopped = self.finished = True
            self.phase_number = len(self.phases) - 1
            return
        said = "improved"
        if self.validation is not None:
            said = self.stopper.update(judged[0] if self.monitor == "loss" else -judged[1])
        if said == "improved":
            self.best = copy.deepcopy(self.model.state_dict())
        self.stopped = said == "stopped"

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """Loss and metric of all validation rows together."""
        self.model.eval()
        parts = []
        for batch in self.validation:
            x, *rest = self.moved(batch)
            parts.append((self.scores(x), *rest))
        if not parts:
            raise ValueError("val_loader gave no batch.")
        scores, target, *weight = (torch.cat(columns) for columns in zip(*parts, strict=True))
        if not torch.isfinite(scores).all():
            return math.nan, math.nan
        self.set_step()
        value = float(self.loss(scores, target, *weight))
        w = weight[0] if weight else None
        return value, float(member_metrics(self.metric, scores[None], target, w, self.task)[0])

    def scores(self, x: Tensor) -> Tensor:
        scores = self.model(x)
        return scores.squeeze(-1) if self.task == "binary" and scores.dim() == 2 else scores

    def moved(self, batch: Any) -> list[Tensor]:
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
            "optimizer": str(self.optimizer),
            "loaders": sizes,
            "others": [self.metric, self.task, self.monitor, self.patience, self.max_epochs],
        }
        tensors: dict[str, Tensor | None] = {}
        for name, loader in loaders.items():
            rows = getattr(loader, "dataset", None)
            if isinstance(rows, TensorDataset):
                tensors.update({f"{name}.{i}": t for i, t in enumerate(rows.tensors)})
        return fingerprint(settings, tensors)

    def state_dict(self) -> dict[str, Any]:
        """Everything that determines the future, at the end of an epoch."""
        generator = getattr(self.train, "generator", None)
        name, keys, *rest = np.random.get_state(legacy=True)
        return {
            "phase_number": self.phase_number,
            "epoch_number": self.epoch_number,
            "stopped": self.stopped,
            "finished": self.finished,
            "history": self.history,
            "best": dict(self.best),
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "stopper": self.stopper.state_dict(),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "loader": None if generator is None else generator.get_state(),
            "python": random.getstate(),
            "numpy": (name, np.asarray(keys).tolist(), *rest),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.make_phase(state["phase_number"])
        self.epoch_number, self.stopped = state["epoch_number"], state["stopped"]
        self.finished, self.history, self.best = state["finished"], state["history"], state["best"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.stopper.load_state_dict(state["stopper"])
        torch.set_rng_state(state["torch"])
        if state["cuda"]:
            torch.cuda.set_rng_state_all(state["cuda"])
        if state["loader"] is not None:
            self.train.generator.set_state(state["loader"])
        random.setstate(state["python"])
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
