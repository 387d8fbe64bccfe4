"""The loop that one network (``single``) and many at once (``members``) share.

The reading order: ``Loop.run`` -> ``next_phase`` -> ``epoch`` -> ``judge`` -> ``leave``. The two
back ends say how an epoch is trained, how the validation rows are scored, and how weights are kept.
"""

from __future__ import annotations

import contextlib
import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypedDict, cast

import torch
from torch import Tensor

from softset.checks import check_choice, check_integer, listed, warn_user
from softset.losses.annealing import Annealing
from softset.losses.loss import Mixture
from softset.storage.files import SavedFileError
from softset.typing import State

if TYPE_CHECKING:
    from softset.progress import Progress
    from softset.training.checkpoints import Checkpoint
    from softset.training.phases import Loss, Phase

MONITORS = ("loss", "metric")
# How a network's training ended; empty while it goes on.
Outcome = Literal["", "stopped", "max_epochs", "not finite", "interrupted"]


def check_form(saved: Any, fresh: Any) -> None:
    """Refuse a saved state that has another form than a fresh one: other keys, lengths, types,
    dtypes or shapes.

    >>> check_form({"weights": torch.zeros(2)}, {"weights": torch.ones(2)})
    >>> check_form([1, "a"], [1, 2])
    Traceback (most recent call last):
    softset.storage.files.SavedFileError: its state has a str in the place of int.
    """
    if type(saved) is not type(fresh):
        kinds = type(saved).__name__, type(fresh).__name__
        raise SavedFileError(f"its state has a {kinds[0]} in the place of {kinds[1]}.")
    if isinstance(fresh, Tensor):
        if saved.shape != fresh.shape or saved.dtype != fresh.dtype:
            form = f"{list(fresh.shape)} of {fresh.dtype}"
            raise SavedFileError(f"its state has another tensor in the place of {form}.")
    elif isinstance(fresh, dict):
        if saved.keys() != fresh.keys():
            raise SavedFileError(f"its state must have {listed(fresh)}.")
        for key, value in fresh.items():
            check_form(saved[key], value)
    elif isinstance(fresh, list | tuple):
        if len(saved) != len(fresh):
            raise SavedFileError(
                f"its state has {len(saved)} entries in the place of {len(fresh)}."
            )
        for one, other in zip(saved, fresh, strict=True):
            check_form(one, other)


def check_finite(weights: Iterable[Tensor]) -> None:
    """Refuse saved weights that are not numbers: a run never keeps such."""
    if not all(torch.isfinite(w).all() for w in weights):
        raise SavedFileError("its weights are not finite.")


class History(TypedDict):
    """One network's epochs, an entry in each list. What validation says is ``None`` without
    validation data; a number that is not finite is the reason why training stopped there."""

    phase: list[int]  # of the recipe, from 0
    loss: list[float]  # mean over the training batches
    validation_loss: list[float | None]
    validation_metric: list[float | None]  # of hard decisions
    validation_soft: list[float | None]  # the soft metric, where the metric has one
    temperature: list[float | None]  # of the linear step


def new_history() -> History:
    """No epochs yet."""
    return cast(History, {name: [] for name in History.__annotations__})


def until_phase(history: History, phase: int) -> History:
    """The epochs before a phase of the recipe."""
    epochs = sum(number < phase for number in history["phase"])
    lists = cast(dict[str, list[object]], history)
    return cast(History, {name: values[:epochs] for name, values in lists.items()})


class Judged(NamedTuple):
    """What the validation rows say of one network."""

    loss: float
    metric: float  # of hard decisions
    soft: float | None  # some metrics have no soft form


NOT_FINITE = Judged(math.nan, math.nan, math.nan)


class Patience:
    """Stop after ``patience`` epochs without a new best; the interface of ``Annealing``.

    >>> stop = Patience(2)
    >>> [stop.update(loss) for loss in (0.5, 0.4, 0.4, 0.3, 0.3, 0.3)]
    ['improved', 'improved', 'waiting', 'improved', 'waiting', 'stopped']
    """

    def __init__(self, patience: int) -> None:
        check_integer("patience", patience, 1)
        self.patience = patience
        self.best = math.inf
        self.waited = 0

    def update(self, loss: float) -> str:
        """Tell the validation loss of an epoch (lower is better); a NaN never improves."""
        if loss < self.best:
            self.best, self.waited = float(loss), 0
            return "improved"
        self.waited += 1
        return "stopped" if self.waited >= self.patience else "waiting"

    def state_dict(self) -> State:
        return dict(self.__dict__)

    def load_state_dict(self, state: State) -> None:
        self.__dict__.update(state)


class Loop(ABC):
    """Networks in training: row i of what a back end holds is network ``ids[i]``.

    A network that has stopped leaves; so does one whose loss is not finite. The next phase begins
    with all that are healthy, from their best weights, which count as a first epoch.
    """

    validation_argument: ClassVar[str]  # what the user calls the validation data

    def __init__(
        self,
        phases: list[Phase],
        count: int,
        *,
        max_epochs: int,
        patience: int,
        monitor: str,
        validated: bool,
        together: bool = False,
    ) -> None:
        check_choice("monitor", monitor, MONITORS)
        check_integer("max_epochs", max_epochs, 1)
        check_integer("patience", patience, 1)
        if not validated and any(phase.cooling is not None for phase in phases):
            raise ValueError(
                f"the recipe cools at early stops, which need rows to validate on: give "
                f"{self.validation_argument}."
            )
        moving = any(isinstance(p.loss, Mixture) and p.loss.moves for p in phases)
        if moving and validated and monitor == "loss":
            raise ValueError(
                "the weights of the loss move from epoch to epoch, so that the validation loss of "
                "two epochs can't be compared: use monitor='metric'."
            )
        self.phases = phases
        self.loss: Loss = phases[0].loss
        self.max_epochs, self.patience = max_epochs, patience
        self.monitor, self.validated = monitor, validated
        self.together = together  # all stop by the mean of what is watched
        self.phase_number = self.epoch_number = 0
        self.finished = False
        self.ids: list[int] = []
        self.stoppers: list[Patience | Annealing] = []
        self.outcome: list[Outcome] = [""] * count
        self.history = [new_history() for _ in range(count)]

    # --- what a back end does --------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> None:
        """Take the best weights of the networks ``ids``, with a fresh optimizer."""

    @abstractmethod
    def epoch(self) -> list[float]:
        """An update for every batch; the mean loss of each network that is still there.

        One whose loss is not finite leaves at once, by ``fail``."""

    @abstractmethod
    def validate(self) -> list[Judged]:
        """What the validation rows say of each; ``NOT_FINITE`` if its scores are not."""

    @abstractmethod
    def finite(self) -> list[bool]:
        """Whether the weights of each are numbers, for want of validation rows that would tell."""

    @abstractmethod
    def keep_best(self, rows: Sequence[int]) -> None:
        """The weights of these rows are the best so far."""

    @abstractmethod
    def keep(self, rows: Sequence[int]) -> None:
        """Only these rows go on."""

    @abstractmethod
    def own_state(self) -> State:
        """What the back end adds to a checkpoint."""

    @abstractmethod
    def load_own_state(self, state: State) -> None:
        """Go on where ``own_state`` was taken."""

    # --- phases and epochs -----------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """The phase of the recipe that is being trained."""
        return self.phases[self.phase_number]

    def run(
        self,
        progress: Progress,
        file: Checkpoint | None = None,
        on_epoch: Callable[[], bool] | None = None,
    ) -> None:
        """All phases, from the start or from what ``file`` holds. ``on_epoch`` may stop it."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(progress))
            state = None if file is None else stack.enter_context(file.open())
            if state is None:
                self.start_phase(0)
            else:
                assert file is not None
                with file.reading():
                    self.load_state_dict(state)
            while not self.finished:
                progress.start()
                while self.ids and self.epoch_number < self.max_epochs:
                    if isinstance(self.loss, Mixture):
                        self.loss.epoch = self.epoch_number
                    self.judge(self.epoch())
                    self.epoch_number += 1
                    self.report(progress)
                    if file is not None:
                        file.save(self.state_dict)
                    if on_epoch is not None and on_epoch():
                        self.finished = True
                        break
                everyone = [False] * len(self.ids)
                self.leave(everyone, "interrupted" if self.finished else "max_epochs")
                if self.phase_number + 1 == len(self.phases):
                    self.finished = True
                if not self.finished:
                    self.start_phase(self.phase_number + 1)
            if file is not None:
                file.save(self.state_dict, last=True)

    def start_phase(self, number: int) -> None:
        """All healthy networks, judged once before the first update."""
        self.phase_number, self.epoch_number = number, 0
        self.ids = [k for k, outcome in enumerate(self.outcome) if outcome != "not finite"]
        self.stoppers = [self.make_stopper() for _ in self.ids]
        self.take_loss()
        self.begin()
        if self.validated:
            self.judge(None)

    def take_loss(self) -> None:
        """The loss of this phase, as a copy: its step and its weights may move."""
        self.loss = copy.copy(self.phase.loss)

    def make_stopper(self) -> Patience | Annealing:
        """Early stopping of a network in this phase."""
        if self.phase.cooling is None:
            return Patience(self.patience)
        return Annealing(**{"patience": self.patience, **self.phase.cooling})

    def temperature(self, row: int) -> float | None:
        """The temperature of the linear step now, if it falls."""
        stopper = self.stoppers[row]
        return stopper.temperature if isinstance(stopper, Annealing) else None

    def report(self, progress: Progress) -> None:
        """Means over the networks that are still there."""
        last = [self.history[k] for k in self.ids]
        if last:
            loss = sum(h["loss"][-1] for h in last) / len(last)
            judged = [m for h in last if (m := h["validation_metric"][-1]) is not None]
            metric = sum(judged) / len(judged) if judged else None
            progress.show(self.epoch_number, loss, metric, len(last))

    # --- after an epoch --------------------------------------------------------------------------

    def judge(self, losses: list[float] | None) -> None:
        """Validate, write the history, keep the best weights, let go of those that are done.

        ``losses`` are those of an epoch; none at the start of a phase.
        """
        if not self.ids:
            return
        if not self.validated:
            for row, loss in enumerate(losses or []):
                self.write(row, loss, None)
            self.leave(self.finite(), "not finite")
            self.keep_best(range(len(self.ids)))
            return
        judged = self.validate()
        for row, loss in enumerate(losses or []):
            self.write(row, loss, judged[row])
        fine = [math.isfinite(one.loss) for one in judged]
        self.leave(fine, "not finite")
        judged = [one for one, ok in zip(judged, fine, strict=True) if ok]
        watched = [one.loss if self.monitor == "loss" else -one.metric for one in judged]
        if self.together and watched:
            watched = [sum(watched) / len(watched)] * len(watched)
        outcomes = [stop.update(v) for stop, v in zip(self.stoppers, watched, strict=True)]
        self.keep_best([row for row, word in enumerate(outcomes) if word == "improved"])
        self.leave([word != "stopped" for word in outcomes], "stopped")

    def write(self, row: int, loss: float, judged: Judged | None) -> None:
        """An entry in the history of one network."""
        history = self.history[self.ids[row]]
        history["phase"].append(self.phase_number)
        history["loss"].append(loss)
        history["validation_loss"].append(None if judged is None else judged.loss)
        history["validation_metric"].append(None if judged is None else judged.metric)
        history["validation_soft"].append(None if judged is None else judged.soft)
        history["temperature"].append(self.temperature(row))

    def fail(self, fine: list[bool]) -> None:
        """In the middle of an epoch: networks whose loss is not finite leave."""
        for row, ok in enumerate(fine):
            if not ok:
                self.write(row, math.nan, NOT_FINITE if self.validated else None)
        self.leave(fine, "not finite")

    def leave(self, stay: list[bool], outcome: Outcome) -> None:
        """Networks that do not stay leave every list."""
        gone = [k for k, ok in zip(self.ids, stay, strict=True) if not ok]
        if not gone:
            return
        for k in gone:
            self.outcome[k] = outcome
        if outcome == "not finite":
            whose = f" of member {', '.join(map(str, gone))}" if len(self.outcome) > 1 else ""
            warn_user(
                f"the loss{whose} is not finite in epoch {self.epoch_number + 1}: stopped, the "
                "last good weights are kept. Try a lower learning rate.",
                RuntimeWarning,
            )
        staying = [row for row, ok in enumerate(stay) if ok]
        self.ids = [self.ids[row] for row in staying]
        self.stoppers = [self.stoppers[row] for row in staying]
        self.keep(staying)

    # --- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything that determines the future, at the end of an epoch."""
        return {
            "phase_number": self.phase_number,
            "epoch_number": self.epoch_number,
            "finished": self.finished,
            "ids": self.ids,
            "outcome": self.outcome,
            "history": self.history,
            "stoppers": [stopper.state_dict() for stopper in self.stoppers],
            **self.own_state(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on where ``state_dict`` was taken."""
        for name in ("phase_number", "epoch_number", "finished", "outcome"):
            check_form(state[name], getattr(self, name))
            setattr(self, name, state[name])
        check_choice("phase_number", self.phase_number, range(len(self.phases)))
        check_integer("epoch_number", self.epoch_number, 0)
        self.ids, self.history = state["ids"], state["history"]
        if sorted({*self.ids, *range(len(self.outcome))}) != list(range(len(self.outcome))):
            raise ValueError(f"ids must be among {len(self.outcome)} networks, got {self.ids}.")
        for history in cast(list[dict[str, list[object]]], self.history):
            lengths = {name: len(values) for name, values in history.items()}
            if lengths != dict.fromkeys(new_history(), len(history["phase"])):
                raise ValueError(f"history must have as many entries in all lists, got {lengths}.")
        check_form([None for _ in self.history], [None for _ in self.outcome])
        self.stoppers = [self.make_stopper() for _ in self.ids]
        check_form(state["stoppers"], [stopper.state_dict() for stopper in self.stoppers])
        for stopper, saved in zip(self.stoppers, state["stoppers"], strict=True):
            stopper.load_state_dict(saved)
        self.take_loss()
        self.begin()
        self.load_own_state(state)
