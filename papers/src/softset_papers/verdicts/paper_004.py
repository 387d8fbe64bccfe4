"""The claims of paper 004, and the theorems of all papers."""

from __future__ import annotations

from softset_papers.verdicts.claim import ONE, Claim, against
from softset_papers.verdicts.conditions import Means, Number, Theorem, Untested
from softset_papers.verdicts.curves import convergence, correlations

_FASHION, _CIFAR = "004-figures-2-to-4", "004-figures-5-to-7"
_AIRPLANE = "cifar-10-airplane"
PAPER_004 = (
    *(
        Claim(
            "004",
            f"The surrogate is linearly correlated with F-beta for every β, {name} (we take: -0.9 "
            "or below)",
            table,
            (Number(correlations(table, "surrogate-{:g}")),),
            ONE,
        )
        for name, table in (("Fashion-MNIST", _FASHION), ("CIFAR-10", _CIFAR))
    ),
    Claim(
        "004",
        "The smoothed loss is not linearly correlated with it, but for a few β",
        _FASHION,
        (Number(correlations(_FASHION, "identity-{:g}-balanced", linear=False)),),
        ONE,
        "for a large β every image is called positive, and the score does not move",
    ),
    Claim(
        "004",
        "The surrogate with β = 3 or 2 needs more epochs to converge than with β = 1",
        _FASHION,
        (Number(convergence(_FASHION)),),
        ONE,
    ),
    Claim(
        "004",
        "The surrogate has the best F1 on validation (CIFAR-10)",
        _CIFAR,
        tuple(
            against("better", "surrogate-1", row, "f1 validation", (_CIFAR,) * 2, _AIRPLANE)
            for row in ("identity-1-balanced", "mae", "bce")
        ),
        ONE,
    ),
    Claim(
        "004",
        "The smoothed loss has the best accuracy on test images (figure 5c)",
        _CIFAR,
        tuple(
            against("better", "identity-1-balanced", row, "accuracy test", (_CIFAR,) * 2, _AIRPLANE)
            for row in ("surrogate-1", "mae", "bce")
        ),
        ONE,
    ),
    Claim(
        "004",
        "Class-balanced cross-entropy fails to improve (Fashion-MNIST; we take: F1 on validation "
        "below 0.3)",
        _FASHION,
        (Means(_FASHION, "bce", "f1 validation", ("fashion-mnist-tshirt",), high=0.3),),
        ONE,
    ),
    Claim(
        "004",
        "Equation 25 is the surrogate as q → 0",
        "theory-004-25-surrogate",
        (Theorem("theory-004-25-surrogate"),),
        ONE,
    ),
    Claim(
        "004",
        "Equation 25 is MAE at q = 1, β = 1, p = 0.5",
        "theory-004-25-mae",
        (Theorem("theory-004-25-mae"),),
        ONE,
        "half of it, which is the same to an optimizer",
    ),
    Claim(
        "004",
        "Equation 25 is robust to label noise",
        "theory-004-25-surrogate",
        (Untested("the paper has no experiment for it, and neither do we"),),
        ONE,
    ),
)

THEORY = (
    *(
        Claim(paper, text, table, (Theorem(table, assumed),), ONE, remark)
        for paper, text, table, assumed, remark in (
            ("000", "Theorem 4.1: the steps are Lipschitz", "theory-000-4.1", (), ""),
            ("000", "Theorem 4.2: soft counts are Lipschitz", "theory-000-4.2", (), ""),
            (
                "000",
                "Accuracy, F-beta, Jaccard and G-mean of them are, too",
                "theory-000-4.2-metrics",
                ("MCC",),
                "at a fixed share of positives",
            ),
            (
                "000",
                "The change of the loss in a step of training is bounded by K α times the gradient",
                "theory-000-4.1-step",
                (),
                "a linear model, three rates",
            ),
            (
                "000",
                "Soft and hard metric agree for many examples",
                "theory-000-agreement",
                ("both from the same p",),
                "if soft and hard counts have the same mean in each class, which is assumed and "
                "not what probabilities give",
            ),
            (
                "003",
                "Soft and hard macro F-beta agree for many examples",
                "theory-003-agreement",
                (),
                "under the same assumption",
            ),
            (
                "002",
                "Theorem 5.3: soft metrics converge to hard ones as T falls",
                "theory-002-5.3",
                (),
                "but where two probabilities are equal",
            ),
            (
                "002",
                "Theorem 5.4: the best weights of the soft metric converge to those of the metric "
                "under mild assumptions",
                "theory-002-5.4",
                (),
                "true if there are finitely many weights to choose from",
            ),
            (
                "002",
                "Theorem 5.7: the metric of a batch is consistent",
                "theory-002-5.7",
                (),
                "",
            ),
            (
                "002",
                "Theorem 5.8: how far the confusion of a batch is off",
                "theory-002-5.8",
                (),
                "the bound is loose",
            ),
            (
                "002",
                "Theorem 5.9: the metric of a batch is off by O(L/√n)",
                "theory-002-5.9",
                ("L of macro F1 where",),
                "L is unbounded over all matrices",
            ),
            (
                "003",
                "Theorem 5.1: the cells of the soft confusion of several classes are Lipschitz",
                "theory-003-5.1",
                ("T = 0.002",),
                "the constant grows as 1 / T when annealing",
            ),
            (
                "004",
                "Equation 12: the gradient condition of F-beta",
                "theory-004-12",
                ("2β in place of",),
                "",
            ),
            (
                "004",
                "The surrogate and cross-entropy meet their conditions at an optimum",
                "theory-004-trained",
                (),
                "up to Jensen's inequality, which is not small",
            ),
        )
    ),
)
