"""Every theorem as numbers: it comes out as it must, and would not if the claim were wrong."""

from __future__ import annotations

import json

import pytest
import torch

from softset.counting.steps import LinearStep, SigmoidStep
from softset_papers.theory import (
    CLAIMS,
    Claim,
    Finding,
    agreement,
    batches,
    cooling,
    departures,
    descent,
    gradients,
    limits,
    lipschitz,
    markdown,
    optima,
    timing,
)

SMALL = {
    "theory-000-agreement": {"sizes": (100, 2_000, 20_000), "trials": 60},
    "theory-000-auroc": {"sizes": (100, 3_000), "trials": 30},
    "theory-003-agreement": {"sizes": (100, 10_000), "trials": 20},
    "theory-003-5.1": {"rows": 100},
    "theory-000-4.1-step": {"n": 200, "steps": 50},
    "theory-002-5.7": {"trials": 100},
    "theory-002-5.9": {"trials": 100},
    "theory-004-trained": {"n": 500},
    "theory-004-jensen": {"n": 500},
    "theory-000-runtime": {"sizes": (50_000, 1_000_000)},
    "theory-000-lookup": {"sizes": (200_000,), "rounds": 5},
    "theory-001-bce": {"sizes": (1_000, 50_000)},
    "theory-004-25-noise": {"seeds": 1},
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_comes_out_as_it_must(claim: Claim):
    result = claim.run(**SMALL.get(claim.id, {}))
    odd = [f for f in result["findings"] if f["holds"] == bool(f["why"])]
    assert odd == []
    assert result["as_expected"]
    text = markdown(json.loads(json.dumps(result)))
    assert text.count("\n|") == len(result["findings"]) + 2


def _half(function):
    return lambda *args, **kwargs: function(*args, **kwargs) / 2


def _biased(mean, size, g, strength=3):
    return _draws(min(mean + 0.05, 1), size, g, strength)


def _hot(z, y, theta, temperature):
    return _soft(z, y, theta, temperature and 0.2)


_soft = optima.soft_values
_draws = agreement.beta_draws
_memberships = cooling.memberships
_surrogate = limits.SurrogateFBetaLoss


# What a wrong claim, or wrong code under it, looks like: it must be seen.
PLANTED = [
    ("theory-000-4.1", lipschitz, "step_constant", _half(lipschitz.step_constant)),
    ("theory-000-4.2", lipschitz, "step_constant", _half(lipschitz.step_constant)),
    ("theory-000-4.2-metrics", lipschitz, "metric_slope", _half(lipschitz.metric_slope)),
    ("theory-000-4.1-step", descent, "loss_constant", lambda *a: 0.01),
    ("theory-002-5.4", optima, "soft_values", _hot),
    ("theory-000-agreement", agreement, "beta_draws", _biased),
    ("theory-000-agreement", agreement, "f1_limit", _half(agreement.f1_limit)),
    ("theory-000-auroc", agreement, "_soft_draw", lambda x, mean: x.unsqueeze(-1) * mean),
    ("theory-003-5.1", lipschitz, "membership_constant", lambda d: 0.59),
    ("theory-003-agreement", agreement, "macro_limit", _half(agreement.macro_limit)),
    ("theory-002-5.2", cooling, "memberships", lambda p, step: _memberships(p.flip(-1), step)),
    ("theory-002-5.3", cooling, "TEMPERATURES", (0.2, 0.1, 0.2)),
    ("theory-002-5.7", batches, "SIZES", (32, 64)),
    ("theory-002-5.8", batches, "confusion_error_bound", lambda n, d, delta: 0.5 / n**0.5 / 3),
    ("theory-002-5.9", batches, "chebyshev_constant", lambda *a: 0.01),
    ("theory-004-12", gradients, "EXACT", 1.0),
    ("theory-004-trained", gradients, "minimize", lambda function, theta: theta),
    ("theory-004-jensen", gradients, "smoothed_rates", lambda *a: torch.tensor([0.5, 0.5])),
    ("theory-000-runtime", timing, "seconds", lambda call, leaf: float(len(leaf)) ** 2),
    ("theory-000-lookup", timing, "median_ratio", lambda *a: 1.5),
    ("theory-001-bce", limits, "entropy_and_errors", lambda *a: (0.3, 0.3)),
    ("theory-004-25-surrogate", limits, "_SMALL", 0.5),
    ("theory-004-25-noise", limits, "SurrogateFBetaLoss", lambda p, b, q: _surrogate(p, b, 0.0)),
    ("theory-departures", departures, "LiteralLoss", lambda loss: loss),
    ("theory-004-25-mae", limits, "MeanAbsoluteErrorLoss", limits.CrossEntropyLoss),
]


@pytest.mark.parametrize(("name", "module", "attribute", "wrong"), PLANTED)
def test_a_planted_error_is_seen(monkeypatch, name, module, attribute, wrong):
    monkeypatch.setattr(module, attribute, wrong)
    assert not CLAIMS[name].run(**SMALL.get(name, {}))["as_expected"]


def test_every_claim_has_a_planted_error():
    assert {name for name, *_ in PLANTED} == set(CLAIMS)


def test_a_step_without_a_known_constant_is_refused():
    with pytest.raises(ValueError, match="LinearStep or a SigmoidStep"):
        lipschitz.step_constant(lambda p, tau: p, 0.5)
    assert lipschitz.step_constant(SigmoidStep(8), 0.1) == 2


def test_the_constant_of_the_memberships_by_hand_for_two_classes():
    # by_p = max(0.8, 1.2, 0.8), by_tau = max(0.4, 1.8, 1.2); 2 (1.2 + 0.9 + 1.2 + 1.8)
    assert lipschitz.membership_constant(2) == pytest.approx(10.2)
    assert lipschitz.membership_slope(2, LinearStep(0.2), rows=50) == pytest.approx(0.6, abs=1e-3)


def test_a_finding_that_fails_for_a_known_reason_is_as_expected():
    assert Finding("x", "0", 1.0, False, why="because").as_expected
    assert not Finding("x", "0", 1.0, False).as_expected
    assert not Finding("x", "0", 0.0, True, why="because").as_expected
