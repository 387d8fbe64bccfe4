"""When a member has learned enough."""

from __future__ import annotations

import math
from typing import Any

from softset.checks import check_whole


class Patience:
    """Stop after ``patience`` epochs without a new best; the interface of ``Annealing``.

    >>> stop = Patience(2)
    >>> [stop.update(loss) for loss in (0.5, 0.4, 0.4, 0.3, 0.3, 0.3)]
    ['improved', 'improved', 'waiting', 'improved', 'waiting', 'stopped']
    """

    def __init__(self, patience: int) -> None:
        check_whole("patience", patience, 1)
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

    def state_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
