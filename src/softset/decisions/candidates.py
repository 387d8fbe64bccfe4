"""The thresholds that can be chosen: one between any two neighboring scores."""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch
from torch import Tensor

from softset.counting.cells import in_units
from softset.counting.problem import Problem
from softset.counting.thresholds import Thresholds, all_thresholds
from softset.counting.values import check_labels, refuse_rows

# The least and the largest probability that a threshold can be.
INSIDE = (sys.float_info.min, 1 - 2.0**-53)


class Candidates(NamedTuple):
    """All thresholds of the scores of a problem that a probability in (0, 1) can express."""

    thresholds: Thresholds
    scores: Tensor  # sorted, as they were passed: logits or probabilities
    logits: Tensor  # not sorted
    from_logits: bool

    @classmethod
    def of(cls, problem: Problem) -> Candidates:
        """Of a binary or multilabel problem with targets of 0 and 1."""
        scores, from_logits = problem.z.double(), problem.from_logits
        if torch.isnan(scores).any():
            refuse_rows(torch.isnan(scores))
        check_labels(problem.y)
        # Rows without weight lie beyond all others.
        scores = torch.where(problem.weights() > 0, scores, float("inf"))
        logits = scores if from_logits else torch.logit(scores.clamp(max=1))
        ordered = scores.contiguous().sort(dim=-1).values
        thresholds = all_thresholds(logits, problem.y, problem.w, problem.task)
        expressible = _as_thresholds(thresholds.logit, ordered, from_logits)[1]
        width = torch.where(expressible, thresholds.width, 0.0)
        thresholds = thresholds._replace(width=width, counts=in_units(thresholds.counts, problem))
        return cls(thresholds, ordered, logits, from_logits)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Thresholds in logits, ``[]`` or ``[labels]``, as probabilities."""
        return _as_thresholds(logits.unsqueeze(-1), self.scores, self.from_logits)[0].squeeze(-1)


def _as_thresholds(at: Tensor, ordered: Tensor, from_logits: bool) -> tuple[Tensor, Tensor]:
    """Logits ``at`` ``[*lead, k]`` as probabilities in (0, 1), and whether those decide the sorted
    scores ``given`` ``[*lead, N]`` alike: between many logits that lie far out there is none."""
    scores = ordered if from_logits else torch.logit(ordered.clamp(max=1))
    wanted = torch.searchsorted(scores, at.contiguous())
    near, higher = torch.sigmoid(at), ordered.gather(-1, wanted.clamp(max=ordered.shape[-1] - 1))
    # Rounding may have moved it out of a narrow gap: to a neighbor, or to the gap's upper end.
    tried = [near, *(torch.nextafter(near, torch.full_like(near, end)) for end in (0.0, 1.0))]
    tried.append(torch.sigmoid(higher) if from_logits else higher)
    tau, exact = near.clamp(*INSIDE), torch.zeros_like(near, dtype=torch.bool)
    for p in (t.clamp(*INSIDE) for t in tried):
        alike = torch.searchsorted(ordered, torch.logit(p) if from_logits else p) == wanted
        tau, exact = torch.where(alike & ~exact, p, tau), exact | alike
    return tau, exact
