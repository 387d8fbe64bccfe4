"""The claims of paper 004, and the theorems of all papers."""

from __future__ import annotations

from softset_papers.verdicts.claim import ONE, against, claim
from softset_papers.verdicts.conditions import Means, Number, Theorem
from softset_papers.verdicts.curves import convergence, correlations

_FASHION, _CIFAR = "004-figures-2-to-4", "004-figures-5-to-7"
_AIRPLANE = "cifar-10-airplane"
_LOSSES = {"mae": "MAE", "bce": "cross-entropy"}
_BETA_1 = {"surrogate-1": "the surrogate", "identity-1-balanced": "the smoothed loss"}
PAPER_004 = (
    *(
        claim(
            "004",
            table,
            f"The surrogate is linearly correlated with F-beta for every β, {name} (we take: -0.9 "
            "or below)",
            Number(correlations(table, "surrogate-{:g}")),
            views=ONE,
        )
        for name, table in (("Fashion-MNIST", _FASHION), ("CIFAR-10", _CIFAR))
    ),
    claim(
        "004",
        _FASHION,
        "The smoothed loss is not linearly correlated with it, but for a few β, Fashion-MNIST (we "
        "take: two of four at most)",
        Number(correlations(_FASHION, "identity-{:g}-balanced", linear=False)),
        views=ONE,
        remark="for a large β every image is called positive, and the score does not move",
    ),
    claim(
        "004",
        _FASHION,
        "The surrogate with β = 3 or 2 needs more epochs to converge than with β = 1, "
        "Fashion-MNIST (we take: until F1 on training images stays within 0.02 of its best)",
        Number(convergence(_FASHION, {f"β = {beta}": f"surrogate-{beta}" for beta in (1, 2, 3)})),
        views=ONE,
    ),
    claim(
        "004",
        _CIFAR,
        "The surrogate converges faster than other losses but the smoothed one, CIFAR-10 (we take: "
        "with β = 1 it is the first to stay within 0.02 of its best F1 on training images)",
        Number(convergence(_CIFAR, {"surrogate": "surrogate-1", "MAE": "mae", "BCE": "bce"})),
        views=ONE,
    ),
    *(
        claim(
            "004",
            _CIFAR,
            text,
            *(
                against("better", best, row, metric, _CIFAR, _AIRPLANE, called=f"to {name}")
                for row, name in {**_LOSSES, **_BETA_1}.items()
                if row != best
            ),
            views=ONE,
        )
        for text, best, metric in (
            (
                "The surrogate has the best F1 on validation (CIFAR-10)",
                "surrogate-1",
                "f1 validation",
            ),
            (
                "The smoothed loss has the best accuracy on test images (CIFAR-10, figure 5c)",
                "identity-1-balanced",
                "accuracy test",
            ),
        )
    ),
    claim(
        "004",
        _FASHION,
        "Class-balanced cross-entropy fails to improve, Fashion-MNIST (we take: F1 on validation "
        "below 0.3)",
        Means(_FASHION, "bce", "f1 validation", ("fashion-mnist-tshirt",), high=0.3),
        views=ONE,
    ),
    claim(
        "004",
        "theory-004-25-surrogate",
        "Equation 25 is the surrogate as q → 0",
        Theorem("theory-004-25-surrogate"),
        views=ONE,
    ),
    claim(
        "004",
        "theory-004-25-mae",
        "Equation 25 is MAE at q = 1, β = 1, p = 0.5",
        Theorem("theory-004-25-mae"),
        views=ONE,
        remark="half of it, which is the same to an optimizer",
    ),
    claim(
        "004",
        "theory-004-25-noise",
        "In equation 25 q controls the robustness to noise in the labels",
        Theorem("theory-004-25-noise"),
        views=ONE,
        remark="a linear model; the paper has no experiment for it",
    ),
)

THEORY = (
    *(
        claim(paper, table, text, Theorem(table, assumed), views=ONE, remark=remark)
        for paper, text, table, assumed, remark in (
            ("000", "Theorem 4.1: the steps are Lipschitz", "theory-000-4.1", (), ""),
            ("000", "Theorem 4.2: soft counts are Lipschitz", "theory-000-4.2", (), ""),
            (
                "000",
                "Accuracy, balanced accuracy, F-beta, Jaccard and G-mean of soft counts are, too",
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
                "000",
                "Soft and hard AUROC agree for many examples",
                "theory-000-auroc",
                ("dominates",),
                "under the same assumption; the supplement has the direction of “dominates” wrong",
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
                "Proposition 5.2: memberships converge to decisions as T falls, for any p",
                "theory-002-5.2",
                (),
                "where the two largest probabilities differ, they do",
            ),
            (
                "002",
                "Theorem 5.3: soft metrics converge to hard ones as T falls, for any p",
                "theory-002-5.3",
                (),
                "where the two largest probabilities of every example differ, they do",
            ),
            (
                "002",
                "Theorem 5.4: the best weights of the soft metric converge to those of the metric "
                "under mild assumptions",
                "theory-002-5.4",
                ("every θ from -3 to 3, T",),
                "it assumes that the two largest probabilities stay apart, which is not mild: "
                "then no decision changes as weights move; true of finitely many weights",
            ),
            (
                "002",
                "Theorem 5.7: the metric of a batch is consistent",
                "theory-002-5.7",
                (),
                "for continuous metrics, as it says; not all that the paper names are",
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
                "Equation 21 approximates the mean of the surrogate",
                "theory-004-jensen",
                ("eq. 15",),
                "Jensen's inequality of a convex and a concave term lies between them",
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
