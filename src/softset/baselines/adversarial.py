"""Adversarial prediction for F1 (Fathony and Kolter 2020), through their package ``ap_perf``.

Two things to know about the package. Its backward pass ignores the gradient that comes in, so that
scaling or averaging its loss changes nothing; here the solution it finds is used in a backward
pass of our own, which does not. And its cost is cubic in the batch (it solves a program over
n x n marginals), which is why the papers train with batches of 20: so do we, and a longer batch is
cut into such pieces. Against the exact game (a linear program, for two and three rows) its slopes
are off by up to 0.05 after its 100 iterations, and the values it reports by up to 0.2 even after
2000.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softset._tools import check_number
from softset.baselines.base import BatchLoss
from softset.counting import Problem


def is_installed() -> bool:
    """Whether ``ap_perf`` (and numba, which it needs) can be imported."""
    try:
        import ap_perf  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def _f1() -> Any:
    """F1 in the package's language; 1 when there is nothing to find and nothing is found."""
    try:
        import ap_perf  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            "the adversarial loss needs the package ap_perf, which is not installed. "
            "Run: pip install ap_perf (it brings numba)."
        ) from error

    class F1(ap_perf.PerformanceMetric):  # type: ignore[misc]
        def define(self, c: Any) -> Any:
            return (2 * c.tp) / (c.ap + c.pp)

    metric = F1()
    metric.initialize()
    metric.enforce_special_case_positive()
    return metric


class _Game(torch.autograd.Function):
    """The value of the game and its slope ``q - y``, where q are the adversary's marginals."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, metric: Any) -> Tensor:
        scores, labels = z.detach().double().numpy(), y.double().numpy()
        value, q = metric.objective(scores, labels)
        ctx.save_for_backward(torch.as_tensor(q, dtype=z.dtype) - y.to(z.dtype))
        return z.new_tensor(-(value + scores @ labels))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None, None


class AdversarialF1Loss(BatchLoss):
    """``max over Q of (E z . y' - max over P of E F1(P, Q)) - z . y``, the mean over pieces.

    Q is a distribution of labels y' that an adversary draws, P one of predictions.

    ``piece`` is the most rows that are solved together (cost is cubic in it). Rows have no weights
    in this formulation: with ``sample_weight`` it is an error.
    """

    def __init__(self, piece: int = 20) -> None:
        super().__init__()
        check_number("piece", piece, 2, 200, closed="both")
        self.piece = int(piece)
        self._metric: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_metric": None}  # compiled code is not pickled

    def value(self, problem: Problem) -> Tensor:
        if problem.w is not None:
            raise ValueError("AdversarialF1Loss has no sample_weight: leave it out.")
        if self._metric is None:
            self._metric = _f1()
        z, y = problem.z, problem.y.expand_as(problem.z)
        lead = z.shape[:-1]
        rows = zip(z.reshape(-1, z.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True)
        values = [self._mean(a, b) for a, b in rows]
        return torch.stack(values).reshape(lead)

    def _mean(self, z: Tensor, y: Tensor) -> Tensor:
        pieces = max(1, -(-len(z) // self.piece))
        parts = zip(torch.tensor_split(z, pieces), torch.tensor_split(y, pieces), strict=True)
        return torch.stack([_Game.apply(a, b, self._metric) for a, b in parts]).mean()  # type: ignore[no-untyped-call]
