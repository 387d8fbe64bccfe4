"""The papers' theorems as numbers: each claim is a function that measures it.

``CLAIMS["theory-000-4.1"].run()`` returns what was claimed, what was measured, and whether it
holds; ``markdown`` makes a table of that.
"""

from __future__ import annotations

from typing import Any

from softset_papers.theory.agreement import check_auroc, check_beta, check_dirichlet
from softset_papers.theory.batches import check_bound, check_convergence, check_rate
from softset_papers.theory.cooling import check_confusions_cool, check_memberships_cool
from softset_papers.theory.departures import check_departures
from softset_papers.theory.descent import check_steps
from softset_papers.theory.findings import Claim, Finding, markdown
from softset_papers.theory.gradients import check_jensen, check_trained, check_true_rates
from softset_papers.theory.limits import check_entropy, check_mae, check_noise, check_small_q
from softset_papers.theory.lipschitz import (
    check_cells,
    check_memberships,
    check_metrics,
    check_step_constants,
)
from softset_papers.theory.optima import check_optima
from softset_papers.theory.timing import check_lookup, check_runtime

__all__ = ["CLAIMS", "Claim", "Finding", "claim_run", "claims_of", "markdown"]

_ALL = [
    Claim(
        "theory-000-4.1",
        "000",
        "Theorem 4.1: the steps are Lipschitz",
        "The constant is max(m1, m2, m3) and cannot be smaller. It is one constant for each "
        "threshold: towards τ = 0 or 1 it grows without bound, as (1 - 2δ)/min(τ, 1 - τ).",
        check_step_constants,
    ),
    Claim(
        "theory-000-4.2",
        "000",
        "Theorem 4.2: the cells of the soft confusion are Lipschitz",
        "In the sum of |Δp| over examples the constant is that of the step, at τ = 0.5 and "
        "δ = 0.1: 1.6. In the Euclidean distance it is at most √n times that.",
        check_cells,
    ),
    Claim(
        "theory-000-4.2-metrics",
        "000",
        "Section 4.1: metrics of the soft confusion are Lipschitz",
        "True at a fixed share r of positives for accuracy, balanced accuracy, F-beta and "
        "Jaccard, with constants of the order 1/r. Not true for G-mean, which the paper lists, "
        "nor for MCC: both end in a square root, and their slope grows without bound towards a "
        "matrix where a class is never found or never predicted. Where an untrained network "
        "predicts one class only, that is where training starts.",
        check_metrics,
    ),
    Claim(
        "theory-000-4.1-step",
        "000",
        "Section 4.1: the change of the loss in a step of training is bounded",
        "With K from the constants of metric, step and sigmoid, for a linear model. The bound is "
        "loose and says that the loss does not jump, not that it falls. MCC has no constant in the "
        "probabilities (theory-000-4.2-metrics); by the weights its slope does not grow where "
        "hardly anything is called positive, because there the slope of p by the logit falls "
        "faster than that of MCC by p grows.",
        check_steps,
    ),
    Claim(
        "theory-000-agreement",
        "000",
        "Section 4.2: soft F1 and accuracy agree with the hard ones for Beta memberships",
        "The proof assumes that membership and decision have the same mean in each class. "
        "For memberships and decisions of the same probabilities they have not, and the gap "
        "does not close with n: it closes as the step gets sharper (002 theorem 5.3).",
        check_beta,
    ),
    Claim(
        "theory-000-auroc",
        "000",
        "Supplement 1.2.2: soft AUROC agrees with the hard one for Beta memberships",
        "The supplement says that Beta(α, β) dominates Beta(α, β′) for β > β′; it is the other "
        "way round. The construction that follows uses the right direction.",
        check_auroc,
    ),
    Claim(
        "theory-003-5.1",
        "003",
        "Theorem 5.1: the cells of the d × d soft confusion are Lipschitz",
        "The constant that follows from the proof (dynamic threshold in [1/d, 1/2], sum of "
        "steps at least 1/2) grows as d²; what is measured hardly grows with d, because a low "
        "threshold comes with many classes to share the membership. It grows as 1/T when "
        "annealing.",
        check_memberships,
    ),
    Claim(
        "theory-003-agreement",
        "003",
        "Section 5.2: soft macro F-beta agrees with the hard one for Dirichlet memberships",
        "The same assumption as in 000 section 4.2: equal means in each class.",
        check_dirichlet,
    ),
    Claim(
        "theory-002-5.2",
        "002",
        "Proposition 5.2: memberships become decisions as T falls",
        "The paper says for any p. Where the two largest probabilities are equal it does not "
        "hold: both keep 1/2 at every T. T = 0.4 is allowed by the paper and divides by zero.",
        check_memberships_cool,
    ),
    Claim(
        "theory-002-5.3",
        "002",
        "Theorem 5.3: soft counts and metrics converge as T falls",
        "The theorem takes any probabilities, by proposition 5.2, and fails with it where the two "
        "largest are equal: the row stays half in each class at every T. Without such a row, and "
        "for metrics that are continuous at the matrix in question, it is true: from T = 0.2 with "
        "r = 0.9 it takes about 25 coolings until the metrics are within 0.01.",
        check_confusions_cool,
    ),
    Claim(
        "theory-002-5.4",
        "002",
        "Theorem 5.4: the best weights for the soft metric tend to the best for the metric",
        "True over a finite set of weights. The assumption that the two largest probabilities stay "
        "apart is not mild for a network: over a connected set of weights a decision can change "
        "only through a tie, so under it no decision ever changes and every weight is as good as "
        "any other. Without it soft and hard metric do not meet everywhere, but differ by half an "
        "example where two probabilities are equal.",
        check_optima,
    ),
    Claim(
        "theory-002-5.7",
        "002",
        "Theorem 5.7: the metric of a batch is consistent and asymptotically unbiased",
        "F1 and MCC are not continuous at matrices with an empty class, as small batches of "
        "rare classes have: the bias of macro F1 at n = 32 is 0.02, half of its spread.",
        check_convergence,
    ),
    Claim(
        "theory-002-5.8",
        "002",
        "Theorem 5.8: how far the confusion of a batch is off",
        "The bound holds, and is loose: Hoeffding's inequality for the worst distribution and a "
        "union over d² cells.",
        check_bound,
    ),
    Claim(
        "theory-002-5.9",
        "002",
        "Theorem 5.9: the metric of a batch is off by O(L/√n)",
        "L is taken at the population's matrix. No L serves all matrices: F-beta of a class has "
        "a slope of the order of 1 / its share, and G-mean and MCC have none at degenerate "
        "matrices (see theory-000-4.2-metrics).",
        check_rate,
    ),
    Claim(
        "theory-004-12",
        "004",
        "Equation 12: the gradient condition of F-beta",
        "Exact, for the true proportions.",
        check_true_rates,
    ),
    Claim(
        "theory-004-trained",
        "004",
        "Equations 17, 19 and 22: gradient conditions at trained optima",
        "Eq. 19 is exact, and so is eq. 22 for the smoothed F-beta of eq. 24. For cross-entropy "
        "(17) and the surrogate (22) they hold up to Jensen's inequality, which is not small: "
        "−log f weighs an example by 1/f, the condition weighs all examples of a class alike. "
        "MAE and smoothed F-beta are linear or linear-fractional in f, so a model with a free "
        "slope has its optimum at infinity; they are checked with a fixed slope.",
        check_trained,
    ),
    Claim(
        "theory-004-jensen",
        "004",
        "Equations 15, 16 and 21: the approximation behind the conditions",
        "In eq. 15 both terms are convex, so the approximation is a lower bound. In eq. 21 the "
        "second term is concave: there it is no bound at all. The gap is small only where "
        "the classes are far apart, because f then varies little within a class.",
        check_jensen,
    ),
    Claim(
        "theory-000-runtime",
        "000",
        "Supplement 3: the time of the loss is linear in the rows, and batches have no limit",
        "Of `MetricLoss`. The adversarial method, which the paper calls cubic, was not timed.",
        check_runtime,
    ),
    Claim(
        "theory-000-lookup",
        "000",
        "Supplement 3: a look-up table makes the step cheaper",
        "The step alone; the whole loss with it is compared with `MetricLoss`, whose kernels do "
        "not go through torch.",
        check_lookup,
    ),
    Claim(
        "theory-001-bce",
        "001",
        "Section 5.1: cross-entropy and accuracy do not converge to each other",
        "For calibrated probabilities, with the share of errors in place of accuracy.",
        check_entropy,
    ),
    Claim(
        "theory-004-25-surrogate",
        "004",
        "Equation 25: the surrogate as q → 0",
        "",
        check_small_q,
    ),
    Claim(
        "theory-004-25-mae",
        "004",
        "Equation 25: MAE at q = 1, β = 1, p = 0.5",
        "It is half of the MAE of equation 14, which is the same to an optimizer.",
        check_mae,
    ),
    Claim(
        "theory-004-25-noise",
        "004",
        "Equation 25: q controls the robustness to noise in the labels",
        "The paper has no experiment for it. Ours: a linear model on two Gaussian classes, 20 % "
        "positives, class-balanced as in the paper, β = 1, three draws, judged on clean rows.",
        check_noise,
    ),
    Claim(
        "theory-departures",
        "000 to 003",
        "Departures: the papers' literal losses beside softset's",
        "Not a theorem: where the losses of our rows are on purpose not those of the papers, both "
        'on the same batches. A row trains with the papers\' behavior by `empty="as-published"` in '
        "its settings, and with the cells and thresholds of the "
        'authors\' code by `cells="published"`.',
        check_departures,
    ),
]


def claims_of(name: str) -> list[str]:
    """The claims behind an id: itself, or all of them for ``"theory"``."""
    return list(CLAIMS) if name == "theory" else [name]


def claim_run(run: dict[str, Any], context: object = None) -> dict[str, Any]:
    """For the runner of the tables: the claim that ``run["claim"]`` names."""
    return CLAIMS[run["claim"]].run(run.get("seed", 0))


CLAIMS: dict[str, Claim] = {claim.id: claim for claim in _ALL}
