"""Adversarial prediction for F1 (Fathony and Kolter 2020), with the package ``ap_perf``.

The package sets up the game over n x n marginals; its cost is cubic in the batch, which is why the
papers train with batches of 20: so do we, and a longer batch is split into such pieces. Three
things are done here instead of there. Its backward pass ignores the gradient that comes in, so that
scaling or averaging its loss changes nothing. Its value adds up one row too few of each column, and
is off by up to 0.2. And it calls a general optimizer for the one number that a projection needs,
which is most of its time: with a root search the same iterations take little more than a quarter
(``papers/benchmarks/adversarial.py``). Against the exact game (a linear program, for two and three
rows) the slopes are off by up to 0.05 after the package's 100 iterations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softset.checks import check_number
from softset.counting.problem import Problem
from softset_papers.baselines.batch import BatchLoss


def is_installed() -> bool:
    """Whether ``ap_perf`` (and numba, which it needs) can be imported."""
    try:
        import ap_perf  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        return False
    return True


def _game(rows: int) -> Any:
    """The matrices of the F1 game; F1 is 1 when there is nothing to find and nothing is found."""
    try:
        import ap_perf
    except ImportError as error:
        raise ValueError(
            "the adversarial loss needs the package ap_perf, which is not installed. "
            "Run: pip install 'softset-papers[adversarial]' (it brings numba)."
        ) from error

    class F1(ap_perf.PerformanceMetric):  # type: ignore[misc]
        def define(self, c: Any) -> Any:
            return (2 * c.tp) / (c.ap + c.pp)

    metric = F1()
    metric.initialize()
    metric.enforce_special_case_positive()
    metric.objective(np.zeros(rows), np.zeros(rows), max_iter=1)  # makes them
    return metric.opt_data


def _project(a: NDArray[Any], rho: float) -> tuple[NDArray[Any], float]:
    """The marginals nearest to ``a``, and their dual ``rho``, sought from the last one.

    ``obj_rho`` has the nearest for a given rho. What its probabilities add up to falls with rho,
    in straight pieces, and must be 1, or less at rho = 0: secants, kept between the ends.
    """
    from ap_perf.projection import obj_rho  # type: ignore[import-not-found]

    low, high, last = 0.0, math.inf, (math.inf, 0.0)
    for _ in range(50):
        _, minus, p = obj_rho(np.array([rho]), a)
        over = -float(minus[0])
        if abs(over) < 1e-9 or (rho == 0 and over < 0):
            break
        low, high = (rho, high) if over > 0 else (low, rho)
        fall = (last[1] - over) / (rho - last[0]) if math.isfinite(last[0]) else 10.0
        last = rho, over
        rho = max(rho + over / fall, 0.0) if fall > 0 else -1.0
        if not low <= rho < high:
            rho = (low + high) / 2 if math.isfinite(high) else 2 * low + 1
    return np.maximum(p, 0.0), rho


def _solve(game: Any, z: NDArray[Any]) -> tuple[float, NDArray[Any]]:
    """The value of the game for scores z, and the adversary's marginals.

    ADMM as in the package (unit penalty, 100 iterations), over Q, its copy X, and what P is paid
    for X, ``Z = 1 1' X B + X C + D``; U and W are the scaled duals.
    """

    def paid(q: NDArray[Any]) -> NDArray[Any]:
        return q.sum(0) @ game.B + q @ game.C + game.D

    cost = game.E - z[:, None]
    x = u = w = np.zeros((len(z), len(z)))
    pay = paid(x)
    rho_q = rho_p = 0.5
    for _ in range(100):
        q, rho_q = _project(x + w - cost, rho_q)
        p, rho_p = _project(pay + u, rho_p)  # Z = pay + U - P
        left = game.D - pay + p
        f = left.sum(0) @ game.B.T + left @ game.C.T + w - q
        x = game.UA @ (game.UAinv @ (-f @ game.CIinv) @ game.UBC / game.sabc1) @ game.UBCinv
        before, pay = pay, paid(x)
        u = pay - before + p
        w = w + x - q
    best = np.sort(paid(q), 0)[::-1].cumsum(0).diagonal().max()  # of k rows, k = 1 … n
    return max(float(best), 0.0) + float((q * cost).sum()) + game.ct, q.sum(1)


class _Game(torch.autograd.Function):
    """The value of the game and its slope ``q - y``, where q are the adversary's marginals."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, game: Any) -> Tensor:
        scores, labels = z.detach().double().numpy(), y.double().numpy()
        value, q = _solve(game, scores)
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
        self._games: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_games": {}}  # compiled code is not pickled

    def value(self, problem: Problem) -> Tensor:
        if problem.w is not None:
            raise ValueError("AdversarialF1Loss has no sample_weight: leave it out.")
        z, y = problem.z, problem.y.expand_as(problem.z)
        lead = z.shape[:-1]
        rows = zip(z.reshape(-1, z.shape[-1]), y.reshape(-1, y.shape[-1]), strict=True)
        values = [self._mean(a, b) for a, b in rows]
        return torch.stack(values).reshape(lead)

    def _mean(self, z: Tensor, y: Tensor) -> Tensor:
        pieces = max(1, -(-len(z) // self.piece))
        parts = zip(torch.tensor_split(z, pieces), torch.tensor_split(y, pieces), strict=True)
        return torch.stack([_Game.apply(a, b, self._game(len(a))) for a, b in parts]).mean()  # type: ignore[no-untyped-call]

    def _game(self, rows: int) -> Any:
        if rows not in self._games:
            self._games[rows] = _game(rows)
        return self._games[rows]
