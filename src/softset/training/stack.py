"""Networks of one shape, trained as one stack: the back end of ``Loop`` that ``train_members`` and
``train_streamed`` share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from softset.checks import check_integer, check_number
from softset.counting.steps import LinearStep
from softset.losses.soft_metric import MetricLoss
from softset.metrics.goals import Goal
from softset.tasks import Task
from softset.training.batches import epoch_orders, slices
from softset.training.checkpoints import fingerprint
from softset.training.data import (
    Judge,
    TensorData,
    fold_judges,
    own_rows,
)
from softset.training.judging import member_losses, member_metrics, soft_metric
from softset.training.loop import (
    NOT_FINITE,
    History,
    Judged,
    Loop,
    Outcome,
    check_finite,
    check_form,
)
from softset.training.networks import Buffers, Dropout, Mlp, Network, arranged, score
from softset.training.updates import Updater
from softset.typing import State

if TYPE_CHECKING:
    from softset.training.phases import Phase


@dataclass(frozen=True)
class Member:
    """What may differ between networks that are trained together.

    >>> [Member(seed=s, learning_rate=r) for s in range(2) for r in (1e-3, 1e-2)][-1]
    Member(seed=1, learning_rate=0.01, weight_decay=0.0, dropout=0.0)
    """

    seed: int = 0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, 0)
        check_number("learning_rate", self.learning_rate, 0, math.inf)
        check_number("weight_decay", self.weight_decay, 0, math.inf, closed="low")
        check_number("dropout", self.dropout, 0, 1, closed="low")


@dataclass(frozen=True)
class Trained:
    """Networks after training, each at its best epoch.

    ``weights`` is ``[K, P]``; ``history[k]`` has the epochs of network k; ``phase_ends`` has the
    weights at the end of every phase but the last; ``outcome[k]`` is ``"stopped"`` (early),
    ``"max_epochs"``, ``"not finite"`` or ``"interrupted"``.

    >>> from softset.training import train_members
    >>> x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> rows = x, (x[:, 0] > 0).long()
    >>> members = [Member(seed=0), Member(seed=1)]
    >>> trained = train_members((4,), rows, rows, members=members, max_epochs=2)
    >>> trained.scores(x).shape, trained.module(1)(x).shape, trained.outcome[0]
    (torch.Size([2, 100]), torch.Size([100, 1]), 'max_epochs')
    """

    network: Network
    weights: Tensor
    buffers: Buffers
    task: Task
    history: list[History]
    outcome: list[Outcome]
    phase_ends: list[Tensor] = field(default_factory=list)

    def scores(self, x: Tensor) -> Tensor:
        """Logits ``[K, N]`` (binary) or ``[K, N, classes or labels]`` of inputs ``[N, ...]``."""
        return score(self.network, self.weights, self.buffers, x, self.task)

    def module(self, member: int) -> nn.Module:
        """One member as an ordinary module."""
        buffers = {name: b[member] for name, b in self.buffers.items()}
        return self.network.module(self.weights[member], buffers)


@dataclass(frozen=True)
class StackSettings:
    """What determines a run, besides the data."""

    members: list[Member]
    metric: Goal
    phases: list[Phase]
    task: Task
    optimizer: str
    batch_size: int
    max_epochs: int
    patience: int | None
    monitor: str
    sampling: str
    shared_order: int | None
    network: Network

    def fingerprint(self, **data: TensorData | tuple[Tensor, ...] | str | None) -> str:
        """A hash of settings and data: tensors, or what they are known by."""
        described = {
            **vars(self),
            "members": [asdict(member) for member in self.members],
            "phases": [vars(phase) for phase in self.phases],
            **{name: part for name, part in data.items() if isinstance(part, str)},
        }
        parts = {name: part for name, part in data.items() if isinstance(part, tuple)}
        tensors = {f"{name}.{i}": t for name, part in parts.items() for i, t in enumerate(part)}
        return fingerprint(described, tensors)


class NetworkStack(Loop):
    """Row i of every stack is member ``ids[i]``; ``best`` has a row for each, gone or not."""

    validation_argument = "validation"

    def __init__(
        self,
        settings: StackSettings,
        data: TensorData,
        validation: TensorData | None,
        folds: Tensor | None = None,
    ) -> None:
        self.settings, self.data = settings, data
        self.members, self.network, self.task = settings.members, settings.network, settings.task
        everyone = range(len(self.members))
        self.own: list[Tensor] | None = None  # rows of each member; all of them without folds
        self.judges = [] if validation is None else [Judge(everyone, validation)]
        if folds is not None:
            self.own, self.judges = own_rows(folds, everyone), fold_judges(data, folds, everyone)
        if settings.patience is None:
            self.judges = []
        super().__init__(
            settings.phases,
            len(self.members),
            max_epochs=settings.max_epochs,
            patience=1 if settings.patience is None else settings.patience,
            monitor=settings.monitor,
            validated=bool(self.judges),
            together=folds is not None,
        )
        # Class of each row, for sampling; labels have none.
        multilabel = self.task.independent
        self.classes = data.y[:, 0].cpu() if multilabel else data.y.cpu().long()
        if multilabel and settings.sampling != "shuffled":
            raise ValueError(f"sampling={settings.sampling!r} does not fit task='multilabel'.")
        dtype = data.x.dtype if data.x.is_floating_point() else torch.get_default_dtype()
        seeds = [int(member.seed) for member in self.members]
        best, buffers = self.network.start(seeds, dtype)
        self.best = best.to(data.x.device)
        self.best_buffers = {name: b.to(data.x.device) for name, b in buffers.items()}
        self.generators = [_generator(seed) for seed in seeds]
        shared = settings.shared_order
        self.shared = None if shared is None else _generator(shared)
        self.soft = soft_metric(settings.metric, self.task)
        self.phase_ends: list[Tensor] = []

    def start_phase(self, number: int) -> None:
        """Also keep the best weights of the phase that has ended."""
        if number > 0:
            self.phase_ends.append(self.best.clone())
        super().start_phase(number)

    def begin(self) -> None:
        """The members that still train, from their best weights, with a new optimizer."""
        rows = torch.tensor(self.ids, dtype=torch.long, device=self.best.device)
        self.flat = self.best.index_select(0, rows)
        self.buffers = {name: b.index_select(0, rows) for name, b in self.best_buffers.items()}
        members = [self.members[k] for k in self.ids]
        rates = torch.tensor([m.learning_rate for m in members], dtype=torch.float64)
        decays = torch.tensor([m.weight_decay for m in members], dtype=torch.float64)
        self.updater = Updater(self.settings.optimizer, self.flat, rates * self.phase.rate, decays)

    # --- one epoch -------------------------------------------------------------------------------

    def epoch(self) -> list[float]:
        """An update for every batch; the mean training loss of each member."""
        rows, orders, shared = self.orders()
        total, step = torch.zeros(len(self.ids), dtype=torch.float64), self.step()
        for part in slices(rows, self.settings.batch_size):
            if orders is None:
                batch = self.data
            else:
                index = orders[0, part] if shared else orders[:, part]
                batch = self.data.take(index)
            losses, grad, fine = self.gradients(batch, shared, step)
            if not fine.all():
                self.fail(fine.tolist())
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
        sampling = self.settings.sampling
        if self.own is not None:
            return self.own_orders(self.own)
        if sampling == "shuffled" and self.settings.batch_size >= n:
            return n, None, True  # one batch: its order does not matter
        generators = (
            [self.generators[k] for k in self.ids] if self.shared is None else [self.shared]
        )
        orders = epoch_orders(self.classes, sampling, generators).to(self.data.x.device)
        return orders.shape[1], orders, self.shared is not None

    def own_orders(self, rows_of: list[Tensor]) -> tuple[int, Tensor, bool]:
        """Folds are not quite as large: the last rows of longer orders wait for another epoch."""
        orders_of_members = []
        for k in self.ids:
            classes, generator = self.classes[rows_of[k]], [self.generators[k]]
            orders_of_members.append(
                rows_of[k][epoch_orders(classes, self.settings.sampling, generator)[0]]
            )
        length = min(len(order) for order in orders_of_members)
        orders = torch.stack([order[:length] for order in orders_of_members]).to(self.data.x.device)
        return length, orders, False

    def gradients(
        self, batch: TensorData, shared: bool, step: LinearStep | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Losses and gradients of the members whose loss is finite, and which those are."""
        flat = self.flat.detach().requires_grad_()
        scores = self.network.forward(
            flat, self.buffers, batch.x, shared, self.dropout(), self.draw_seed()
        )
        scores = arranged(scores, self.task)
        fine = _finite(scores.detach())
        y, w = batch.y, batch.w
        if not fine.all():
            rows = fine.nonzero().flatten()
            scores, step = scores.index_select(0, rows), self.step(rows.tolist())
            if not shared:
                y, w = y[rows], None if w is None else w[rows]
        if len(scores) == 0:
            return torch.empty(0), self.flat[:0], fine
        losses = member_losses(self.loss, scores, y, w, step)
        good = _finite(losses.detach())
        if not good.all():
            losses, fine[fine.clone()] = losses[good], good
        (grad,) = torch.autograd.grad(losses.sum(), flat)
        return losses.detach(), grad if fine.all() else grad[fine], fine

    def step(self, rows: Sequence[int] | None = None) -> LinearStep | None:
        """The linear steps of these rows (all) now, if their temperature falls."""
        rows = range(len(self.ids)) if rows is None else rows
        temperatures = [t for t in map(self.temperature, rows) if t is not None]
        if not temperatures:
            return None
        if len(set(temperatures)) == 1:  # numbers are faster than tensors
            return LinearStep.at_temperature(temperatures[0])
        return LinearStep.at_temperature(torch.tensor(temperatures, dtype=torch.float64))

    def dropout(self) -> Dropout | None:
        """The masks of this epoch, if any member has dropout."""
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

    @torch.no_grad()
    def validate(self) -> list[Judged]:
        """The loss and metric of each member on its own held-out rows."""
        judged = [NOT_FINITE for _ in self.ids]
        for judge in self.judges:
            rows = [row for row, k in enumerate(self.ids) if k in judge.members]
            if rows:
                for row, result in zip(rows, self.judged_by(judge.data, rows), strict=True):
                    judged[row] = result
        return judged

    def judged_by(self, held: TensorData, rows_of_members: list[int]) -> list[Judged]:
        """What held-out rows say of these rows of the stack."""
        judged = [NOT_FINITE for _ in rows_of_members]
        flat, buffers = self.flat, self.buffers
        if len(rows_of_members) < len(self.ids):
            flat, buffers = (
                flat[rows_of_members],
                {name: b[rows_of_members] for name, b in buffers.items()},
            )
        scores = score(self.network, flat, buffers, held.x, self.task)
        rows = _finite(scores).nonzero().flatten().tolist()
        if not rows:
            return judged
        scores = scores if len(rows) == len(scores) else scores[rows]
        loss, step = self.loss, self.step([rows_of_members[row] for row in rows])
        losses = member_losses(loss, scores, held.y, held.w, step).double()
        metrics = member_metrics(self.settings.metric, scores, held.y, held.w, self.task)
        soft: list[float] | list[None] = [None for _ in rows]
        if isinstance(loss, MetricLoss):
            soft = [1 - value for value in losses.tolist()]
        elif self.soft is not None:
            soft = (1 - member_losses(self.soft, scores, held.y, held.w)).double().tolist()
        for row, *numbers in zip(rows, losses.tolist(), metrics.tolist(), soft, strict=True):
            judged[row] = Judged(*numbers)
        return judged

    def finite(self) -> list[bool]:
        """Whether all weights of each member are."""
        return torch.isfinite(self.flat).all(1).tolist()

    def keep_best(self, rows: Sequence[int]) -> None:
        """Store the weights of members whose epoch is the best."""
        for i in rows:
            self.best[self.ids[i]] = self.flat[i]
            for name, b in self.buffers.items():
                self.best_buffers[name][self.ids[i]] = b[i]

    def keep(self, rows: Sequence[int]) -> None:
        """Leave out all members but these."""
        index = torch.tensor(rows, dtype=torch.long, device=self.flat.device)
        self.flat = self.flat.index_select(0, index)
        self.buffers = {name: b.index_select(0, index) for name, b in self.buffers.items()}
        self.updater.keep(index)

    def trained(self) -> Trained:
        """What the run has come to."""
        reached = self.history, self.outcome, self.phase_ends
        return Trained(self.network, self.best, self.best_buffers, self.task, *reached)

    # --- checkpoints -----------------------------------------------------------------------------

    def own_state(self) -> State:
        """Weights, optimizer and random numbers of all members."""
        return {
            "phase_ends": self.phase_ends,
            "flat": self.flat,
            "buffers": self.buffers,
            "best": self.best,
            "best_buffers": self.best_buffers,
            "updater": self.updater.state_dict(),
            "generators": [g.get_state() for g in self.generators],
            "shared": None if self.shared is None else self.shared.get_state(),
        }

    def load_own_state(self, state: State) -> None:
        """Go on with these, once they have the form of this run."""
        fresh = {**self.own_state(), "phase_ends": [self.best] * self.phase_number}
        check_form({name: state[name] for name in fresh}, fresh)
        check_finite((state["flat"], state["best"], *state["phase_ends"]))
        self.phase_ends = state["phase_ends"]
        device = self.best.device
        for name in ("flat", "best"):
            setattr(self, name, state[name].to(device))
        for name in ("buffers", "best_buffers"):
            setattr(self, name, {k: b.to(device) for k, b in state[name].items()})
        self.updater.load_state_dict(state["updater"])
        for generator, saved in zip(self.generators, state["generators"], strict=True):
            generator.set_state(saved)
        if self.shared is not None:
            self.shared.set_state(state["shared"])


# --- helpers -------------------------------------------------------------------------------------


def _finite(values: Tensor) -> Tensor:
    return torch.isfinite(values.flatten(1).sum(1) if values.dim() > 1 else values)


def _mixed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def _generator(seed: int) -> torch.Generator:
    """For orders and dropout: another stream than the one that drew the weights."""
    return torch.Generator().manual_seed(_mixed(f"order {seed}"))
