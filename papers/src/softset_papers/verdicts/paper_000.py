"""The claims of papers 000 and 001."""

from __future__ import annotations

from softset_papers.verdicts.claim import ONE, T1, T2, T4, T5, T7, against, claim
from softset_papers.verdicts.conditions import (
    FOUR,
    Against,
    Found,
    Gap,
    Means,
    Number,
    Reproduced,
    Spread,
    Theorem,
    Untested,
    one,
)
from softset_papers.verdicts.rule import PUBLISHED, Evidence

BETA = "000-table-3", "000-table-6"
SENSITIVITY = "000-sensitivity"
WEIGHTED, OVERSAMPLED, RUNTIME = "000-table-9", "000-table-11", "theory-000-runtime"
TWO = "cocktailparty", "mammography"
IMAGES = "cifar-10-transportation", "cifar-10-frog"
SIZES = (128, 1024, 2048, 4096)
HIGHER = "Soft F1 has a higher F1 than cross-entropy"


def _beta(wanted: str, metric: str, *on: str) -> tuple[Against, ...]:
    """F3 against F1; Mammography has a table of its own."""
    return tuple(
        against(wanted, "f3", "f1", metric, BETA[0] if block == "mammography" else BETA[1], block)
        for block in on
    )


def _of_ranking(metric: str) -> tuple[Against, ...]:
    """Soft AUROC and WMW against cross-entropy."""
    return tuple(
        against("worse", row, "bce", metric, T1, called=name)
        for row, name in (("auroc", "soft AUROC"), ("wmw", "WMW"))
    )


def _minutes(evidence: Evidence) -> Found:
    """Soft F1 against the adversarial method, whose minutes are multiplied up."""
    pairs: list[list[float]] = []
    for rows in evidence.summary("000-runtime").shown.values():
        minutes = {s.row.id: s.cells["minutes"].measured for s in rows}
        if len(minutes) == 2 and all(minutes.values()):
            pairs.append([minutes[name].mean for name in ("f1", "adversarial")])  # type: ignore[union-attr]
    if not pairs:
        return one(None, "not run")
    first, second = zip(*pairs, strict=True)
    text = f"{min(first):.1f} to {max(first):.1f} minutes against {min(second):.0f} to "
    return one(None, f"{text}{max(second):.0f}, multiplied up from one epoch of 1,000 rows")


_RANKING = "Networks trained for soft AUROC or WMW have a lower"
PAPER_000 = (
    claim(
        "000",
        T1,
        f"{HIGHER} on all four tabular datasets",
        against("better", "f1", "bce", "f1", T1),
    ),
    claim(
        "000",
        T1,
        f"{HIGHER} on Adult and Kaggle (implied)",
        against("better", "f1", "bce", "f1", T1, "adult-codes", "creditcard-subset"),
        remark="cross-entropy rarely says yes at 0.5 on Kaggle",
    ),
    claim(
        "000",
        T1,
        f"{HIGHER} on CocktailParty and Mammography (implied)",
        against("better", "f1", "bce", "f1", T1, *TWO),
    ),
    claim(
        "000",
        T1,
        "The published gap on Adult (F1 0.63 against 0.26) is one between losses (implied; we "
        "take: half of it or more)",
        Gap(T1, "f1", "bce", "f1", "adult-codes"),
        views=ONE,
        remark="the authors' code gives test ages other codes than training ages; read that way "
        "the published values come out",
    ),
    claim(
        "000",
        T1,
        "Trained for F1, networks are as good as cross-entropy in accuracy and AUROC",
        *(against("as good", "f1", "bce", m, T1) for m in ("accuracy", "auroc")),
        remark="AUROC is exact at 0.5 and tuned, that of decisions as published",
    ),
    claim(
        "000",
        T1,
        "Soft F1 outperforms the adversarial method in F1",
        against("better", "f1", "adversarial", "f1", T1),
        remark="10,000 updates each; on Kaggle without the weights of the rows",
    ),
    claim(
        "000",
        T1,
        "The published gap to the adversarial method on CocktailParty (0.75 against 0.30) is one "
        "between losses (implied; we take: half of it or more)",
        Gap(T1, "f1", "adversarial", "f1", "cocktailparty"),
        views=ONE,
        remark="judged over nine thresholds of the logit, as the authors' code does, it comes out",
    ),
    claim(
        "000",
        T1,
        "Soft accuracy is comparable to cross-entropy in accuracy",
        against("as good", "accuracy", "bce", "accuracy", T1),
    ),
    claim(
        "000",
        T1,
        "Trained for accuracy, rare positives are never predicted (Mammography, Kaggle): F1 0 "
        "(we take: below 0.005)",
        Means(T1, "accuracy", "f1", ("mammography", "creditcard-subset"), high=0.005),
        remark="the paper's own table has 0.62 on Kaggle",
    ),
    claim(
        "000",
        T5,
        "Trained for accuracy, rare positives are never predicted (Synthetic 5 %): F1 0 (we take: "
        "below 0.005, both steps, every batch size)",
        *(
            Means(T5, f"accuracy-{step}-{b}", "f1", ("synthetic-5",), high=0.005)
            for step in ("linear", "sigmoid")
            for b in SIZES
        ),
    ),
    claim(
        "001",
        T1,
        "Trained for accuracy, rare positives are never predicted (Mammography): F1 0 (we take: "
        "below 0.005)",
        Means(T1, "accuracy", "f1", ("mammography",), high=0.005),
        remark="tuned for F1, it says yes always",
    ),
    claim(
        "000",
        T1,
        f"{_RANKING} AUROC than cross-entropy",
        *_of_ranking("auroc"),
        remark="exact AUROC at 0.5 and tuned; the published columns are of decisions, and of "
        "losses with the cells of the authors' code",
    ),
    claim(
        "000",
        T1,
        f"{_RANKING} F1 than cross-entropy",
        *_of_ranking("f1"),
        remark="the paper's own table has 0.42 for soft AUROC on Adult, 0.26 for cross-entropy",
    ),
    claim("000", T1, f"{_RANKING} accuracy than cross-entropy", *_of_ranking("accuracy")),
    *(
        claim(
            "000",
            table,
            f"The authors' code trains what is published of {name} (implied): ",
            *(Reproduced(table, row, metric, block) for metric in ("f1", "accuracy", "auroc")),
            views=(PUBLISHED,),
            where=title,
        )
        for name, row, table in (
            ("soft AUROC, linear step", "auroc-code", T1),
            ("soft AUROC, sigmoid step", "auroc-code", T4),
            ("WMW", "wmw-code", T1),
        )
        for title, block in (
            ("CocktailParty", "cocktailparty"),
            ("Adult", "adult-as-read"),
            ("Mammography", "mammography"),
            ("Kaggle", "creditcard-subset"),
        )
    ),
    claim(
        "000",
        T4,
        "The sigmoid step is comparable to the linear one (soft F1, in F1)",
        against("as good", "f1", "f1", "f1", (T4, T1)),
    ),
    claim(
        "000",
        T5,
        "On imbalanced data (Synthetic 5 %) the linear step is better than the sigmoid, at every "
        "batch size",
        *(
            against(
                "better",
                f"f1-linear-{b}",
                f"f1-sigmoid-{b}",
                "f1",
                T5,
                "synthetic-5",
                called=f"B = {b}",
            )
            for b in SIZES
        ),
    ),
    claim(
        "000",
        T5,
        "The sigmoid fails on Synthetic 5 % (implied; F1 below 0.3 with batches of 1024; "
        "published 0.27)",
        Means(T5, "f1-sigmoid-1024", "f1", ("synthetic-5",), high=0.3),
    ),
    claim(
        "000",
        T5,
        "The batch size has a minimal effect from 128 to 4096 (we take: F1 of soft F1 with the "
        "linear step within 0.05)",
        Spread(
            T5, tuple(f"f1-linear-{b}" for b in SIZES), "f1", ("synthetic-5", "synthetic-33"), 0.05
        ),
        remark="with the sigmoid step the published F1 on Synthetic 5 % goes from 0.32 to 0.21",
    ),
    claim(
        "000",
        BETA[0],
        "A larger β (3 against 1) raises recall",
        *_beta("better", "recall", *FOUR),
        remark="tuned for F1, both losses end at much the same recall on two sets",
    ),
    claim(
        "000",
        BETA[1],
        "A larger β (3 against 1) costs precision (implied)",
        *_beta("worse", "precision", *FOUR),
        remark="on Kaggle no network of either row has a false alarm among the test rows of the "
        "subset",
    ),
    claim(
        "000",
        BETA[0],
        "A larger β (3 against 1) loses little F1 on Mammography (we take: not behind)",
        *_beta("as good", "f1", "mammography"),
    ),
    claim(
        "000",
        BETA[1],
        "A larger β (3 against 1) loses little F1 on the other datasets, too (“similar”; we take: "
        "not behind)",
        *_beta("as good", "f1", "cocktailparty", "adult-codes", "creditcard-subset"),
        remark="published on Adult: 0.39 against 0.64",
    ),
    claim(
        "000",
        WEIGHTED,
        "With class weights soft F1 gets worse and soft accuracy better, in F1",
        against("worse", "f1-linear", "f1", "f1", (WEIGHTED, T1), called="soft F1"),
        against("better", "accuracy-linear", "accuracy", "f1", (WEIGHTED, T1), called="accuracy"),
        remark="the paper's own tables have 0.42 for soft accuracy on Kaggle, 0.62 without weights",
    ),
    claim(
        "000",
        WEIGHTED,
        "Soft F1 without weights is as good as weighted cross-entropy or better, in F1",
        against("as good", "f1", "bce", "f1", (T1, WEIGHTED)),
    ),
    claim(
        "000",
        OVERSAMPLED,
        "Soft F1 without oversampling is as good as cross-entropy with it or better, in F1",
        against("as good", "f1", "bce", "f1", (T1, OVERSAMPLED)),
    ),
    claim(
        "000",
        OVERSAMPLED,
        "Soft F1 is better without oversampling, in F1 (“in general”; we take: on all four "
        "datasets)",
        against("better", "f1", "f1-linear", "f1", (T1, OVERSAMPLED)),
    ),
    claim(
        "000",
        T7,
        "Soft F1 outperforms Dice in all cases, in F1",
        against("better", "f1", "dice", "f1", (T1, T7)),
        remark="Dice over the batch; as published, but for Adult, it is that of each example "
        "alone, as in the authors' code",
    ),
    claim(
        "000",
        T7,
        "Soft F1 is comparable to SVM-perf or better, in F1",
        *(
            against("as good", "f1", f"svm-{loss}", "f1", (T1, T7), called=f"SVM-perf {name}")
            for loss, name in (("f1", "F1"), ("error", "error"), ("roc", "ROC"))
        ),
        remark="on Adult and Kaggle soft F1 was run on one of its ten splits",
    ),
    claim(
        "000",
        "000-runtime",
        "It trains in minutes where the adversarial method takes an hour",
        Number(_minutes),
        views=ONE,
    ),
    claim(
        "000",
        RUNTIME,
        "Its time is linear in the rows of a batch, and batches have no limit",
        Theorem(RUNTIME),
        views=ONE,
    ),
    claim(
        "000",
        RUNTIME,
        "The time of the adversarial method is cubic, and its batches are limited to about 25 rows",
        Untested("it was not timed by batch size"),
        views=ONE,
    ),
    claim(
        "000",
        "theory-000-lookup",
        "A look-up table makes the step cheaper",
        Theorem("theory-000-lookup", ("whole loss",)),
        views=ONE,
        remark="the step, not the whole loss for many rows",
    ),
    claim(
        "000",
        SENSITIVITY,
        "k = 10 is the best of 1, 10, 20 and 50 (we take: ahead of each in F1)",
        *(
            against("better", "k-10", f"k-{k}", "f1", SENSITIVITY, *TWO, called=f"k = {k}")
            for k in (1, 20, 50)
        ),
    ),
    claim(
        "000",
        SENSITIVITY,
        "δ from 0.1 to 0.2 works well (we take: F1 within 0.05)",
        Spread(SENSITIVITY, ("delta-0.1", "delta-0.15", "delta-0.2"), "f1", TWO, 0.05),
    ),
    claim(
        "000",
        SENSITIVITY,
        "A step through three points is difficult to optimize (we take: behind δ = 0.2 in F1, at "
        "τ = 0.5 and over nine thresholds)",
        against("worse", "three-point", "delta-0.2", "f1", SENSITIVITY, *TWO, called="τ = 0.5"),
        against("worse", "three-point-grid", "f1-grid", "f1", SENSITIVITY, *TWO, called="nine"),
        remark="at τ = 0.5 it is the identity; the paper means thresholds near 0 or 1",
    ),
    claim(
        "000, 001",
        T2,
        "On images of two classes soft F1 and soft accuracy beat cross-entropy in F1 and accuracy",
        *(
            against("better", row, "bce", metric, T2, *IMAGES, called=name)
            for row, name in (("f1", "soft F1"), ("accuracy", "soft accuracy"))
            for metric in ("f1", "accuracy")
        ),
    ),
    claim(
        "000",
        "000-table-12",
        "Soft F1 greatly outperforms Dice of each example on images (we take: Dice behind)",
        *(
            against("worse", row, "f1", "f1", ("000-table-12", T2), *IMAGES, called=name)
            for row, name in (("dice", "on logits"), ("dice-sigmoid", "on probabilities"))
        ),
    ),
)

_GRAPHS = "001-table-3"
PAPER_001 = (
    claim(
        "001",
        _GRAPHS,
        "On graphs soft F1 has the best F1 and accuracy",
        *(
            against("better", "f1", row, metric, _GRAPHS, "cocktailparty-graphs-splits", called=to)
            for metric in ("f1", "accuracy")
            for row, to in (("bce", "cross-entropy"), ("accuracy", "soft accuracy"))
        ),
        remark="soft F1 and soft accuracy end in “all in one group” on every split",
    ),
    claim(
        "001",
        "theory-001-bce",
        "Cross-entropy and accuracy do not converge to each other as n grows",
        Theorem("theory-001-bce"),
        views=ONE,
    ),
)
