"""The temperature schedule of paper 002 section 4.3, for any training loop."""

from __future__ import annotations

import math

from softset.checks import check_integer, check_number
from softset.counting.steps import STEEPEST, LinearStep
from softset.typing import State

COLDEST = 1 / STEEPEST  # a step is hard there, in every float


class Annealing:
    """Geometric cooling ``T_k = start * rate^k`` with early stopping on two levels.

    Train at one temperature until the validation loss has not improved for ``patience`` epochs,
    then cool; stop when ``cooling_patience`` temperatures in a row have not brought the validation
    loss below its best.

    >>> schedule = Annealing(patience=1, cooling_patience=1)
    >>> [schedule.update(loss) for loss in (0.5, 0.4, 0.4, 0.39, 0.4, 0.41, 0.42)]
    ['improved', 'improved', 'cooled', 'improved', 'cooled', 'waiting', 'stopped']
    >>> round(schedule.temperature, 3)
    0.162

    Drive it from a loop with ``loss.step = schedule.step`` before each epoch and
    ``schedule.update(validation_loss)`` after it; keep the weights when it says ``"improved"``.
    """

    def __init__(
        self,
        start: float = 0.2,
        rate: float = 0.9,
        *,
        patience: int = 50,
        cooling_patience: int = 3,
    ) -> None:
        hint = "T must stay below 0.4 (paper 002 eq. 4)."
        check_number("start", start, COLDEST, 0.4, closed="low", hint=hint)
        check_number("rate", rate, 0, 1)
        check_integer("patience", patience, 1)
        check_integer("cooling_patience", cooling_patience, 1)
        self.start, self.rate = start, rate
        self.patience, self.cooling_patience = patience, cooling_patience
        self.coolings = 0
        self.best = math.inf
        self.stopped = False
        self._best_here = math.inf  # at this temperature
        self._waited = 0  # epochs since then
        self._idle_coolings = 0  # temperatures since the best of all
        self._improved_here = False

    @property
    def temperature(self) -> float:
        """``start * rate^coolings``, at least as warm as floats can tell from a hard step."""
        return max(self.start * self.rate**self.coolings, COLDEST)

    @property
    def step(self) -> LinearStep:
        """The step to train with now."""
        return LinearStep.at_temperature(self.temperature)

    def update(self, loss: float) -> str:
        """Record the validation loss of an epoch; returns ``"improved"`` (on the best of all),
        ``"waiting"``, ``"cooled"`` or ``"stopped"``. A NaN never improves."""
        if self.stopped:
            return "stopped"
        loss = float(loss)
        improved = loss < self.best
        if improved:
            self.best, self._improved_here = loss, True
        if loss < self._best_here:
            self._best_here, self._waited = loss, 0
        else:
            self._waited += 1
        if self._waited < self.patience:
            return "improved" if improved else "waiting"
        self._idle_coolings = 0 if self._improved_here else self._idle_coolings + 1
        if self._idle_coolings >= self.cooling_patience:
            self.stopped = True
            return "stopped"
        self.coolings += 1
        self._best_here, self._waited, self._improved_here = math.inf, 0, False
        return "cooled"

    def state_dict(self) -> State:
        """Everything that determines the future, as plain numbers."""
        return dict(self.__dict__)

    def load_state_dict(self, state: State) -> None:
        """Go on where ``state_dict`` was taken."""
        unknown = set(state) ^ set(self.__dict__)
        if unknown:
            raise ValueError(f"state does not fit Annealing: {', '.join(sorted(unknown))}.")
        self.__dict__.update(state)
