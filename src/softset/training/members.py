"""Train K small networks at once on tensors in memory.

The reading order: ``train_members`` -> ``_Run.phase`` -> ``_Run.epoch`` -> ``_Run.validate`` ->
``_Run.judge``. A member that has stopped leaves the stack; so does one whose loss is not finite.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from softset.checks import check_choice, check_number
from softset.counting.problem import TASKS
from softset.counting.steps import LinearStep
from softset.losses.annealing import Annealing
from softset.losses.soft_metric import MetricLoss
from softset.metrics.registry import MetricLike, one_number
from softset.training.batches import epoch_orders, slices
from softset.training.checkpoints import Checkpoint, fingerprint
from softset.training.data import Data, compare_data, make_data, outputs_of
from softset.training.networks import Buffers, Dropout, Mlp, Network, make_network
from softset.training.progress import Progress
from softset.training.recipes import (
    Phase,
    RecipeLike,
    make_phases,
    member_losses,
    member_metrics,
)
from softset.training.stopping import Patience
from softset.training.updates import Updater

MONITORS = ("loss", "metric")
HISTORY = ("phase", "loss", "validation_loss", "validation_metric", "temperature")
# Numbers in one chunk of inputs when scoring: bounds memory.
_CHUNK = 2**22


@dataclass(frozen=True)
class Member:
    """What may differ between networks that are trained together.

    ``temperature`` sets the linear step of a soft metric to ``LinearStep.at_temperature``, and is
    where ``"anneal"`` starts; give it to all members or to none.
    """

    seed: int = 0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.0
    temperature: float | None = None

    def __post_init__(self) -> None:
        check_number("seed", self.seed, 0, 2**63, closed="low")
        check_number("learning_rate", self.learning_rate, 0, math.inf)
        check_number("weight_decay", self.weight_decay, 0, math.inf, closed="low")
        check_number("dropout", self.dropout, 0, 1, closed="low")
        if self.temperature is not None:
            check_number("temperature", self.temperature, 0, 0.4)


@dataclass(frozen=True)
class Trained:
    """Members after training, each at its best epoch.

    ``weights`` is ``[K, P]``; ``history[k]`` has a list for each of ``phase``, ``loss``,
    ``validation_loss``, ``validation_metric`` (of hard decisions), ``validation_soft`` (the soft
    metric) and ``temperature``, with one entry an epoch; ``phase_ends`` has the weights at the end
    of every phase but the last; ``outcome[k]`` is ``"stopped"`` (early), ``"max_epochs"``,
    ``"not finite"``, ``"interrupted"``.
    """

    network: Network
    weights: Tensor
    buffers: Buffers
    task: str
    history: list[dict[str, list[Any]]]
    outcome: list[str]
    phase_ends: list[Tensor] = field(default_factory=list)

    def scores(self, x: Tensor) -> Tensor:
        """Logits ``[K, N]`` (binary) or ``[K, N, classes or labels]`` of inputs ``[N, ...]``."""
        return score(self.network, self.weights, self.buffers, x, self.task)

    def module(self, member: int) -> nn.Module:
        """One member as an ordinary module."""
        buffers = {name: b[member] for name, b in self.buffers.items()}
        return self.network.module(self.weights[member], buffers)


def train_members(
    network: Sequence[int] | Callable[[], nn.Module],
    train: Sequence[Any],
    validation: Sequence[Any] | None = None,
    *,
    members: Sequence[Member] = (Member(),),
    recipe: RecipeLike = "warm",
    metric: MetricLike = "f1",
    task: str = "binary",
    optimizer: str = "adamw",
    batch_size: int = 1024,
    max_epochs: int = 200,
    patience: int = 20,
    monitor: str = "loss",
    sampling: str = "shuffled",
    shared_order: int | None = None,
    class_weight: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    verbose: int = 0,
    on_epoch: Callable[[], bool] | None = None,
) -> Trained:
    """Train a network for each of ``members``, all in one stack.

    Args:
        network: hidden sizes of a perceptron with ReLU, or a function that returns a new module
            for inputs ``(N, ...)`` and scores ``(N,)``, ``(N, classes)`` or ``(N, labels)``.
        train: ``(x, y)`` or ``(x, y, sample_weight)``, tensors; ``y`` as for ``confusion``.
        validation: the same, for early stopping. Without it, all ``max_epochs`` are run.
        recipe: ``"cross-entropy"``, ``"metric"``, ``"metric-grid"``, ``"anneal"``, ``"warm"``, a
            loss ``loss(scores, target[, sample_weight])``, or a list of ``Phase``.
        batch_size: the most rows in a batch; batches are as even as can be.
        max_epochs: the most epochs in each phase of the recipe.
        patience: epochs without a better validation before a phase ends (with ``"anneal"``,
            before the temperature falls). A phase starts from the best weights of the last one.
        monitor: stop by the validation ``"loss"`` or by the ``"metric"`` of hard decisions.
        sampling: ``"shuffled"``, ``"stratified"`` or ``"oversampled"`` batches.
        shared_order: a seed: all members see the same batches, which is faster. Without it each
            draws its own order.
        class_weight: as for the losses; for recipes given by name.
        checkpoint: a file to save to, and to go on from when it exists.
        on_epoch: called after each epoch; stops the training by returning true.

    >>> import torch
    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(300, 2, generator=g)
    >>> y = (x[:, 0] + x[:, 1] > 1).long()
    >>> trained = train_members(
    ...     (8,), (x[:200], y[:200]), (x[200:], y[200:]), max_epochs=30,
    ...     members=[Member(seed=s, learning_rate=0.03) for s in range(3)], batch_size=50)
    >>> trained.scores(x).shape
    torch.Size([3, 300])
    """
    check_choice("task", task, TASKS)
    check_choice("monitor", monitor, MONITORS)
    check_number("batch_size", batch_size, 1, math.inf, closed="low")
    check_number("max_epochs", max_epochs, 1, math.inf, closed="low")
    check_number("patience", patience, 1, math.inf, closed="low")
    members = list(members)
    if not members or not all(isinstance(m, Member) for m in members):
        raise ValueError(f"members must be a list of Member, got {members!r}.")
    if len({m.temperature is None for m in members}) > 1:
        raise ValueError("temperature must be given to all members or to none.")
    data = make_data("train", train, task)
    judged = None if validation is None else make_data("validation", validation, task)
    if judged is not None:
        compare_data(data, judged, task)
    outputs = outputs_of(data, task)
    settings: dict[str, Any] = {
        "members": [asdict(m) for m in members],
        "metric": one_number(metric),
        "phases": make_phases(recipe, metric, task, class_weight),
        "task": task,
        "optimizer": optimizer,
        "batch_size": batch_size,
        "max_epochs": max_epochs,
        "patience": patience,
        "monitor": monitor,
        "sampling": sampling,
        "shared_order": shared_order,
        "network": make_network(network, data.x, outputs),
    }
    run = _Run(members, data, judged, settings)
    progress = Progress(verbose, max_epochs, len(members), run.metric.name)
    if checkpoint is None:
        return run.all_phases(progress, on_epoch, None)
    named = {"train": data, "validation": judged or ()}
    tensors = {f"{name}.{i}": t for name, d in named.items() for i, t in enumerate(d)}
    described = {**settings, "phases": [vars(phase) for phase in settings["phases"]]}
    file = Checkpoint(checkpoint, fingerprint(described, tensors), checkpoint_seconds)
    with file.open() as state:
        if state is not None:
            run.load_state_dict(state)
        return run.all_phases(progress, on_epoch, file)


class _Run:
    """The members in training (row i of every stack is member ``ids[i]``) and the best of all."""

    def __init__(
        self,
        members: list[Member],
        data: Data,
        validation: Data | None,
        settings: dict[str, Any],
    ) -> None:
        self.members, self.data, self.validation = members, data, validation
        self.network: Network = settings["network"]
        self.phases: list[Phase] = settings["phases"]
        self.metric, self.task = settings["metric"], settings["task"]
        self.optimizer, self.monitor = settings["optimizer"], settings["monitor"]
        self.batch_size, self.max_epochs = settings["batch_size"], settings["max_epochs"]
        self.patience, self.sampling = settings["patience"], settings["sampling"]
        # Class of each row, for sampling; labels have none.
        self.classes = data.y.cpu().long() if self.task != "multilabel" else data.y[:, 0].cpu()
        if self.task == "multilabel" and self.sampling != "shuffled":
            raise ValueError(f"sampling={self.sampling!r} does not fit task='multilabel'.")
        for phase in self.phases:
            if phase.cooling is not None and validation is None:
                raise ValueError("recipe cools at early stops; give validation data.")
        dtype = data.x.dtype if data.x.is_floating_point() else torch.get_default_dtype()
        seeds = [m.seed for m in members]
        self.best, self.best_buffers = self.network.start(seeds, dtype)
        self.best = self.best.to(data.x.device)
        self.best_buffers = {k: b.to(data.x.device) for k, b in self.best_buffers.items()}
        self.generators = [_generator(seed) for seed in seeds]
        shared = settings["shared_order"]
        self.shared = None if shared is None else _generator(shared)
        self.history: list[dict[str, list[Any]]] = [
            {name: [] for name in (*HISTORY, "validation_soft")} for _ in members
        ]
        self.outcome = ["" for _ in members]
        self.phase_ends: list[Tensor] = []
        self.soft = _soft_metric(self.metric, self.task)
        self.finished = False
        self.start_phase(0)

    # --- phases ----------------------------------------------------------------------------------

    def start_phase(self, number: int) -> None:
        """All healthy members, from their best weights, with a fresh optimiser."""
        self.phase_number, self.epoch_number = number, 0
        phase = self.phases[number]
        self.ids = [k for k, out in enumerate(self.outcome) if out != "not finite"]
        rows = torch.tensor(self.ids, dtype=torch.long, device=self.best.device)
        self.flat = self.best.index_select(0, rows)
        self.buffers = {k: b.index_select(0, rows) for k, b in self.best_buffers.items()}
        self.stoppers: list[Any] = [self.make_stopper(phase, self.members[k]) for k in self.ids]
        self.updater = self.make_updater()
        if self.validation is not None and self.ids:
            self.judge(None)

    def make_stopper(self, phase: Phase, member: Member) -> Patience | Annealing:
        if phase.cooling is None:
            return Patience(self.patience)
        start = {} if member.temperature is None else {"start": member.temperature}
        return Annealing(**{"patience": self.patience, **start, **phase.cooling})

    def make_updater(self) -> Updater:
        own = [self.members[k] for k in self.ids]
        rates = torch.tensor([m.learning_rate for m in own], dtype=torch.float64)
        decays = torch.tensor([m.weight_decay for m in own], dtype=torch.float64)
        rates = rates * self.phases[self.phase_number].rate
        return Updater(self.optimizer, self.flat, rates, decays)

    def all_phases(
        self, progress: Progress, on_epoch: Callable[[], bool] | None, file: Checkpoint | None
    ) -> Trained:
        with contextlib.closing(progress):
            while not self.finished:
                progress.start()
                while self.ids and self.epoch_number < self.max_epochs:
                    self.judge(self.epoch())
                    self.epoch_number += 1
                    self.report(progress)
                    if file is not None:
                        file.save(self.state_dict)
                    if on_epoch is not None and on_epoch():
                        self.finished = True
                        break
                self.leave_all("interrupted" if self.finished else "max_epochs")
                if self.phase_number + 1 == len(self.phases):
                    self.finished = True
                if not self.finished:
                    self.phase_ends.append(self.best.clone())
                    self.start_phase(self.phase_number + 1)
            if file is not None:
                file.save(self.state_dict, last=True)
        return Trained(
            self.network,
            self.best,
            self.best_buffers,
            self.task,
            self.history,
            self.outcome,
            self.phase_ends,
        )

    def report(self, progress: Progress) -> None:
        last = [self.history[k] for k in self.ids]
        if last:
            losses = [h["loss"][-1] for h in last]
            judged = [h["validation_metric"][-1] for h in last]
            mean = None if self.validation is None else sum(judged) / len(judged)
            progress.show(self.epoch_number, sum(losses) / len(losses), mean, len(last))

    # --- one epoch -------------------------------------------------------------------------------

    def epoch(self) -> list[float]:
        """An update for every batch; the mean training loss of each member."""
        rows, orders, shared = self.orders()
        total, step = torch.zeros(len(self.ids), dtype=torch.float64), self.step()
        for part in slices(rows, self.batch_size):
            if orders is None:
                batch = self.data
            else:
                index = orders[0, part] if shared else orders[:, part]
                batch = Data(*(None if t is None else _take(t, index) for t in self.data))  # type: ignore[arg-type]
            losses, grad, fine = self.gradients(batch, shared, step)
            if not fine.all():
                self.leave(fine.tolist(), "not finite")
                if not self.ids:
                    return []
                total, step = total[fine.cpu()], self.step()
                orders = orders if shared or orders is None else orders[fine]
            self.updater.step(self.flat, grad)
            total += losses.double().cpu() * (part.stop - part.start)
        return (total / rows).tolist()

    def orders(self) -> tuple[int, Tensor | None, bool]:
        """How many rows there are in this epoch, their order(s), and whether members share it."""
        n = len(self.data.x)
        if self.sampling == "shuffled" and self.batch_size >= n:
            return n, None, True  # one batch: its order does not matter
        generators = (
            [self.generators[k] for k in self.ids] if self.shared is None else [self.shared]
        )
        orders = epoch_orders(self.classes, self.sampling, generators).to(self.data.x.device)
        return orders.shape[1], orders, self.shared is not None

    def gradients(
        self, batch: Data, shared: bool, step: LinearStep | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Losses and gradients of the members whose loss is finite, and which those are."""
        flat = self.flat.detach().requires_grad_()
        scores = self.network.forward(
            flat, self.buffers, batch.x, shared, self.dropout(), self.draw_seed()
        )
        scores = _arrange(scores, self.task)
        fine = _finite(scores.detach())
        y, w = batch.y, batch.w
        if not fine.all():
            rows = fine.nonzero().flatten()
            scores, step = scores.index_select(0, rows), _select(step, rows)
            if not shared:
                y, w = y[rows], None if w is None else w[rows]
        if len(scores) == 0:
            return torch.empty(0), self.flat[:0], fine
        losses = member_losses(self.phases[self.phase_number].loss, scores, y, w, step)
        good = _finite(losses.detach())
        if not good.all():
            losses, fine[fine.clone()] = losses[good], good
        (grad,) = torch.autograd.grad(losses.sum(), flat)
        return losses.detach(), grad if fine.all() else grad[fine], fine

    def step(self) -> LinearStep | None:
        """The linear steps of the members now, if they have temperatures of their own."""
        phase = self.phases[self.phase_number]
        if not (isinstance(phase.loss, MetricLoss) and isinstance(phase.loss.step, LinearStep)):
            return None
        temperatures = [t for t in map(self.temperature, range(len(self.ids))) if t is not None]
        if not temperatures:
            return None
        if len(set(temperatures)) == 1:  # numbers are faster than tensors
            return LinearStep.at_temperature(temperatures[0])
        return LinearStep.at_temperature(torch.tensor(temperatures, dtype=torch.float64))

    def temperature(self, row: int) -> float | None:
        stopper = self.stoppers[row]
        if isinstance(stopper, Annealing):
            return stopper.temperature
        return self.members[self.ids[row]].temperature

    def dropout(self) -> Dropout | None:
        rates = [self.members[k].dropout for k in self.ids]
        if not any(rates):
            return None
        return Dropout(torch.tensor(rates), [self.generators[k] for k in self.ids])

    def draw_seed(self) -> int:
        """A seed for random layers inside modules, of this update only."""
        if isinstance(self.network, Mlp):
            return 0  # it has none
        return _mixed(f"{self.members[0].seed} {self.phase_number} {self.updater.step_count}")

    # --- after an epoch --------------------------------------------------------------------------

    def judge(self, losses: list[float] | None) -> None:
        """Validate, keep the best weights, and let go of members that are done.

        ``losses`` are those of an epoch; none at the start of a phase.
        """
        if not self.ids:
            return
        if self.validation is None:
            self.write_history(losses, None, None, None)
            self.keep_best(range(len(self.ids)))
            return
        scores = score(self.network, self.flat, self.buffers, self.validation.x, self.task)
        fine = _finite(scores)
        if not fine.all():
            scores = scores[fine]
            losses = (
                None if losses is None else [v for v, ok in zip(losses, fine, strict=True) if ok]
            )
            self.leave(fine.tolist(), "not finite")
            if not self.ids:
                return
        _, y, w = self.validation
        with torch.no_grad():
            loss = self.phases[self.phase_number].loss
            judged = member_losses(loss, scores, y, w, self.step()).double().tolist()
            metric = member_metrics(self.metric, scores, y, w, self.task).tolist()
            soft: list[float] | None = None
            if isinstance(loss, MetricLoss):
                soft = [1 - v for v in judged]
            elif self.soft is not None:
                soft = (1 - member_losses(self.soft, scores, y, w)).double().tolist()
        self.write_history(losses, judged, metric, soft)
        watched = judged if self.monitor == "loss" else [-m for m in metric]
        said = [stop.update(v) for stop, v in zip(self.stoppers, watched, strict=True)]
        self.keep_best([i for i, word in enumerate(said) if word == "improved"])
        self.leave([word != "stopped" for word in said], "stopped")

    def write_history(
        self,
        losses: list[float] | None,
        judged: list[float] | None,
        metric: list[float] | None,
        soft: list[float] | None,
    ) -> None:
        if losses is None:
            return
        for i, k in enumerate(self.ids):
            h = self.history[k]
            h["phase"].append(self.phase_number)
            h["loss"].append(losses[i])
            h["validation_loss"].append(None if judged is None else judged[i])
            h["validation_metric"].append(None if metric is None else metric[i])
            h["validation_soft"].append(None if soft is None else soft[i])
            h["temperature"].append(self.temperature(i))

    def keep_best(self, rows: Sequence[int]) -> None:
        for i in rows:
            self.best[self.ids[i]] = self.flat[i]
            for name, b in self.buffers.items():
                self.best_buffers[name][self.ids[i]] = b[i]

    def leave(self, stay: list[bool], outcome: str) -> None:
        """Members that do not stay leave every stack."""
        gone = [k for k, ok in zip(self.ids, stay, strict=True) if not ok]
        if not gone:
            return
        for k in gone:
            self.outcome[k] = outcome
        if outcome == "not finite":
            warnings.warn(
                f"the loss of member {', '.join(map(str, gone))} is not finite in epoch "
                f"{self.epoch_number + 1}: stopped, the last good weights are kept. Try a lower "
                "learning_rate.",
                RuntimeWarning,
                stacklevel=2,
            )
        kept = [i for i, ok in enumerate(stay) if ok]
        rows = torch.tensor(kept, dtype=torch.long, device=self.flat.device)
        self.ids = [self.ids[i] for i in kept]
        self.flat = self.flat.index_select(0, rows)
        self.buffers = {name: b.index_select(0, rows) for name, b in self.buffers.items()}
        self.updater.keep(rows)
        self.stoppers = [self.stoppers[i] for i in kept]

    def leave_all(self, outcome: str) -> None:
        self.leave([False] * len(self.ids), outcome)

    # --- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that determines the future, at the end of an epoch."""
        return {
            "phase_number": self.phase_number,
            "epoch_number": self.epoch_number,
            "finished": self.finished,
            "ids": self.ids,
            "outcome": self.outcome,
            "history": self.history,
            "phase_ends": self.phase_ends,
            "flat": self.flat,
            "buffers": self.buffers,
            "best": self.best,
            "best_buffers": self.best_buffers,
            "updater": self.updater.state_dict(),
            "stoppers": [stopper.state_dict() for stopper in self.stoppers],
            "generators": [g.get_state() for g in self.generators],
            "shared": None if self.shared is None else self.shared.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        plain = ("phase_number", "epoch_number", "finished", "ids", "outcome", "history")
        for name in (*plain, "phase_ends"):
            setattr(self, name, state[name])
        device = self.best.device
        for name in ("flat", "best"):
            setattr(self, name, state[name].to(device))
        for name in ("buffers", "best_buffers"):
            setattr(self, name, {k: b.to(device) for k, b in state[name].items()})
        phase = self.phases[self.phase_number]
        self.updater = self.make_updater()
        self.updater.load_state_dict(state["updater"])
        self.stoppers = [self.make_stopper(phase, self.members[k]) for k in self.ids]
        for stopper, saved in zip(self.stoppers, state["stoppers"], strict=True):
            stopper.load_state_dict(saved)
        for generator, saved in zip(self.generators, state["generators"], strict=True):
            generator.set_state(saved)
        if self.shared is not None:
            self.shared.set_state(state["shared"])


# --- helpers -------------------------------------------------------------------------------------


@torch.no_grad()
def score(network: Network, flat: Tensor, buffers: Buffers, x: Tensor, task: str) -> Tensor:
    """Logits of every member for every row, by chunks of rows."""
    size = max(1, _CHUNK // max(1, len(flat) * max(x[0].numel(), 64)))
    parts = [network.forward(flat, buffers, part, True) for part in torch.split(x, size)]
    return _arrange(torch.cat(parts, 1), task)


def _arrange(scores: Tensor, task: str) -> Tensor:
    """``[K, N]`` for binary, else ``[K, N, outputs]``."""
    if task != "binary":
        return scores
    if scores.shape[-1] != 1:
        raise ValueError(
            f"network must give one score a row for task='binary', got {scores.shape[-1]}."
        )
    return scores.squeeze(-1)


def _soft_metric(metric: MetricLike, task: str) -> MetricLoss | None:
    """To watch the soft metric while training for another loss; some metrics have none."""
    try:
        return MetricLoss(metric, task=task)
    except ValueError:
        return None


def _finite(values: Tensor) -> Tensor:
    return torch.isfinite(values.flatten(1).sum(1) if values.dim() > 1 else values)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """``values[index]`` along the first dimension; ``index_select`` is 5 times as fast."""
    return values.index_select(0, index.reshape(-1)).reshape(*index.shape, *values.shape[1:])


def _select(step: LinearStep | None, rows: Tensor) -> LinearStep | None:
    if step is None or not isinstance(step.delta, Tensor):
        return step
    return LinearStep(step.delta[rows], step.width[rows])


def _mixed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def _generator(seed: int) -> torch.Generator:
    """For orders and dropout: another stream than the one that drew the weights."""
    return torch.Generator().manual_seed(_mixed(f"order {seed}"))
