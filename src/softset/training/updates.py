"""Optimizers for a stack of members: every state is a matrix like the parameters, ``[K, P]``."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softset.checks import check_integer
from softset.typing import State

OPTIMIZERS = ("adamw", "adam", "sgd")
_BETAS, _EPS, _MOMENTUM = (0.9, 0.999), 1e-8, 0.9


class Updater:
    """AdamW, Adam, or SGD with momentum 0.9, as in ``torch.optim``, with a learning rate and a
    weight decay ``[K]`` for each member.

    ``keep`` leaves out members; ``state`` is all there is.
    """

    def __init__(
        self, optimizer: str, flat: Tensor, learning_rate: Tensor, weight_decay: Tensor
    ) -> None:
        self.optimizer = optimizer
        self.learning_rate = learning_rate.to(flat).unsqueeze(1)
        self.weight_decay = weight_decay.to(flat).unsqueeze(1)
        self.step_count = 0
        self.first = torch.zeros_like(flat)
        self.second = torch.zeros_like(flat) if optimizer != "sgd" else None

    def keep(self, rows: Tensor) -> None:
        """Only these members go on."""
        self.learning_rate = self.learning_rate.index_select(0, rows)
        self.weight_decay = self.weight_decay.index_select(0, rows)
        self.first = self.first.index_select(0, rows)
        if self.second is not None:
            self.second = self.second.index_select(0, rows)

    @torch.no_grad()
    def step(self, flat: Tensor, grad: Tensor) -> None:
        """Change the parameters in place."""
        self.step_count += 1
        rate, decay = self.learning_rate, self.weight_decay
        if self.optimizer == "adamw":
            flat.mul_(1 - rate * decay)
        else:
            grad = grad.addcmul(flat, decay)
        if self.second is None:
            self.first.mul_(_MOMENTUM).add_(grad)
            flat.addcmul_(self.first, rate, value=-1)
            return
        self.first.lerp_(grad, 1 - _BETAS[0])
        self.second.mul_(_BETAS[1]).addcmul_(grad, grad, value=1 - _BETAS[1])
        scale = 1 / math.sqrt(1 - _BETAS[1] ** self.step_count)
        root = self.second.sqrt().mul_(scale).add_(_EPS)
        flat.addcmul_(self.first.div(root), rate / (1 - _BETAS[0] ** self.step_count), value=-1)

    def state_dict(self) -> State:
        """The moments of the gradient, and how many updates they are of."""
        return {"step_count": self.step_count, "first": self.first, "second": self.second}

    def load_state_dict(self, state: State) -> None:
        """Go on with these moments."""
        check_integer("step_count", state["step_count"], 0)
        self.step_count = state["step_count"]
        self.first = state["first"].to(self.first)
        self.second = None if self.second is None else state["second"].to(self.second)
