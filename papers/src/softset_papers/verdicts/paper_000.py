"""The claims of papers 000 and 001."""

from __future__ import annotations

from softset_papers.verdicts.claim import ONE, T1, T2, T4, T5, T7, Claim, against
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
from softset_papers.verdicts.rule import HALF, PUBLISHED, Evidence

BETA = "000-table-3", "000-table-6"
SENSITIVITY = "000-sensitivity"


def _beta(wanted: str, metric: str, *on: str) -> tuple[Against, ...]:
    """F3 against F1; Mammography has a table of its own."""
    return tuple(
        against(wanted, "f3", "f1", metric, (table, table), block)
        for block in on
        for table in [BETA[0] if block == "mammography" else BETA[1]]
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


PAPER_000 = (
    Claim(
        "000",
        "Soft F1 has a higher F1 than cross-entropy on all four tabular datasets",
        T1,
        (against("better", "f1", "bce", "f1", (T1, T1)),),
    ),
    Claim(
        "000",
        "Soft F1 has a higher F1 than cross-entropy on Adult and Kaggle (implied)",
        T1,
        (against("better", "f1", "bce", "f1", (T1, T1), "adult-codes", "creditcard-subset"),),
        remark="cross-entropy rarely says yes at 0.5 on Kaggle",
    ),
    Claim(
        "000",
        "Soft F1 has a higher F1 than cross-entropy on CocktailParty and Mammography (implied)",
        T1,
        (against("better", "f1", "bce", "f1", (T1, T1), "cocktailparty", "mammography"),),
    ),
    Claim(
        "000",
        "The published gap on Adult (F1 0.63 against 0.26) is one between losses (implied; we "
        "take: half of it or more)",
        T1,
        (Gap(T1, "f1", "bce", "f1", "adult-codes"),),
        ONE,
        "the authors' code gives test ages other codes than training ages; read that way the "
        "published values come out",
    ),
    Claim(
        "000",
        "Trained for F1, networks are as good as cross-entropy in accuracy and AUROC",
        T1,
        tuple(against("as good", "f1", "bce", m, (T1, T1)) for m in ("accuracy", "auroc")),
        remark="AUROC is exact at 0.5 and tuned, that of decisions as published",
    ),
    Claim(
        "000",
        "Soft F1 outperforms the adversarial method",
        T1,
        (against("better", "f1", "adversarial", "f1", (T1, T1)),),
        remark="10,000 updates each; on Kaggle without the weights of the rows",
    ),
    Claim(
        "000",
        "The published gap to the adversarial method (0.75 against 0.30) is one between losses "
        "(implied; we take: half of it or more)",
        T1,
        (Gap(T1, "f1", "adversarial", "f1", "cocktailparty"),),
        ONE,
        "judged over nine thresholds of the logit, as the authors' code does, it comes out",
    ),
    Claim(
        "000",
        "Soft accuracy is comparable to cross-entropy in accuracy",
        T1,
        (against("as good", "accuracy", "bce", "accuracy", (T1, T1)),),
    ),
    Claim(
        "000",
        "Trained for accuracy, rare positives are never predicted (Mammography, Kaggle): F1 0",
        T1,
        (Means(T1, "accuracy", "f1", ("mammography", "creditcard-subset"), high=0.005),),
        (HALF, PUBLISHED),
        "the paper's own table has 0.62 on Kaggle",
    ),
    Claim(
        "001",
        "Trained for accuracy, rare positives are never predicted (Mammography): F1 0",
        T1,
        (Means(T1, "accuracy", "f1", ("mammography",), high=0.005),),
        (HALF, PUBLISHED),
    ),
    Claim(
        "000",
        "Networks trained for soft AUROC or WMW have a lower AUROC than cross-entropy",
        T1,
        tuple(against("worse", row, "bce", "auroc", (T1, T1)) for row in ("auroc", "wmw")),
        remark="exact AUROC at 0.5 and tuned; the published columns are of decisions, and of "
        "losses with the cells of the authors' code",
    ),
    Claim(
        "000",
        "Networks trained for soft AUROC or WMW have a lower F1 than cross-entropy",
        T1,
        tuple(against("worse", row, "bce", "f1", (T1, T1)) for row in ("auroc", "wmw")),
    ),
    Claim(
        "000",
        "Networks trained for soft AUROC or WMW have a lower accuracy than cross-entropy",
        T1,
        tuple(against("worse", row, "bce", "accuracy", (T1, T1)) for row in ("auroc", "wmw")),
    ),
    *(
        Claim(
            "000",
            f"The published rows of {name} on {title} are what the authors' code trains (implied; "
            "we take: within 0.05)",
            T1,
            tuple(
                Reproduced(table, row, metric, (block,), 0.05)
                for table in tables
                for metric in ("f1", "accuracy", "auroc")
            ),
            (PUBLISHED,),
        )
        for name, row, tables in (
            ("soft AUROC, both steps,", "auroc-code", (T1, T4)),
            ("WMW", "wmw-code", (T1,)),
        )
        for title, block in (
            ("CocktailParty", "cocktailparty"),
            ("Adult", "adult-as-read"),
            ("Mammography", "mammography"),
            ("Kaggle", "creditcard-subset"),
        )
    ),
    Claim(
        "000",
        "The sigmoid step is comparable to the linear one",
        T4,
        (against("as good", "f1", "f1", "f1", (T4, T1)),),
    ),
    Claim(
        "000",
        "On imbalanced data (Synthetic 5 %) the linear step is better than the sigmoid, at every "
        "batch size",
        T5,
        tuple(
            against("better", f"f1-linear-{b}", f"f1-sigmoid-{b}", "f1", (T5, T5), "synthetic-5")
            for b in (128, 1024, 2048, 4096)
        ),
    ),
    Claim(
        "000",
        "The sigmoid fails on Synthetic 5 % (F1 below 0.3; published 0.27)",
        T5,
        (Means(T5, "f1-sigmoid-1024", "f1", ("synthetic-5",), high=0.3),),
    ),
    Claim(
        "000",
        "The batch size has a minimal effect from 128 to 4096 (we take: F1 of soft F1 within 0.05)",
        T5,
        (
            Spread(
                T5,
                tuple(f"f1-linear-{b}" for b in (128, 1024, 2048, 4096)),
                "f1",
                ("synthetic-5", "synthetic-33"),
                0.05,
            ),
        ),
    ),
    Claim(
        "000",
        "A larger β (3 against 1) raises recall",
        BETA[0],
        _beta("better", "recall", *FOUR),
        ONE,
    ),
    Claim(
        "000",
        "A larger β (3 against 1) costs precision",
        BETA[1],
        _beta("worse", "precision", *FOUR),
        ONE,
    ),
    Claim(
        "000",
        "A larger β (3 against 1) loses little F1 (Mammography; we take: not behind)",
        BETA[0],
        _beta("as good", "f1", "mammography"),
    ),
    Claim(
        "000",
        "With class weights soft F1 gets worse and soft accuracy better, in F1",
        "000-table-9",
        (
            against("worse", "f1-linear", "f1", "f1", ("000-table-9", T1)),
            against("better", "accuracy-linear", "accuracy", "f1", ("000-table-9", T1)),
        ),
    ),
    Claim(
        "000",
        "Soft F1 without weights is as good as weighted cross-entropy or better",
        "000-table-9",
        (against("as good", "f1", "bce", "f1", (T1, "000-table-9")),),
    ),
    Claim(
        "000",
        "Soft F1 without oversampling is as good as cross-entropy with it or better",
        "000-table-11",
        (against("as good", "f1", "bce", "f1", (T1, "000-table-11")),),
    ),
    Claim(
        "000",
        "Soft F1 outperforms Dice in all cases",
        T7,
        (against("better", "f1", "dice", "f1", (T1, T7)),),
        remark="Dice over the batch; as published it is that of each example alone, as in the "
        "authors' code",
    ),
    Claim(
        "000",
        "Soft F1 is comparable to SVM-perf or better",
        T7,
        tuple(
            against("as good", "f1", f"svm-{loss}", "f1", (T1, T7))
            for loss in ("f1", "error", "roc")
        ),
    ),
    Claim(
        "000",
        "It trains in minutes where the adversarial method takes an hour",
        "000-runtime",
        (Number(_minutes),),
        ONE,
    ),
    Claim(
        "000",
        "Its time is linear in the rows of a batch, and batches have no limit",
        "theory-000-runtime",
        (Theorem("theory-000-runtime"),),
        ONE,
    ),
    Claim(
        "000",
        "The time of the adversarial method is cubic, and its batches are limited to 25 rows",
        "theory-000-runtime",
        (Untested("it was not timed by batch size"),),
        ONE,
    ),
    Claim(
        "000",
        "A look-up table makes the step cheaper",
        "theory-000-lookup",
        (Theorem("theory-000-lookup", ("whole loss",)),),
        ONE,
        "the step, not the whole loss for many rows",
    ),
    Claim(
        "000",
        "k = 10 is the best of 1, 10, 20 and 50",
        SENSITIVITY,
        tuple(
            against(
                "better",
                "k-10",
                f"k-{k}",
                "f1",
                (SENSITIVITY, SENSITIVITY),
                "cocktailparty",
                "mammography",
            )
            for k in (1, 20, 50)
        ),
    ),
    Claim(
        "000",
        "δ from 0.1 to 0.2 works well (we take: F1 within 0.05)",
        SENSITIVITY,
        (
            Spread(
                SENSITIVITY,
                ("delta-0.1", "delta-0.15", "delta-0.2"),
                "f1",
                ("cocktailparty", "mammography"),
                0.05,
            ),
        ),
    ),
    Claim(
        "000",
        "A step through three points is difficult to optimize (we take: behind δ = 0.2)",
        SENSITIVITY,
        (
            against(
                "worse",
                "three-point",
                "delta-0.2",
                "f1",
                (SENSITIVITY, SENSITIVITY),
                "cocktailparty",
                "mammography",
            ),
        ),
    ),
    Claim(
        "000, 001",
        "On images of two classes soft F1 and soft accuracy beat cross-entropy in F1",
        T2,
        tuple(
            against(
                "better", row, "bce", "f1", (T2, T2), "cifar-10-transportation", "cifar-10-frog"
            )
            for row in ("f1", "accuracy")
        ),
    ),
    Claim(
        "000",
        "Dice of each example is poor on images (we take: behind soft F1)",
        "000-table-12",
        (
            against(
                "worse",
                "dice",
                "f1",
                "f1",
                ("000-table-12", T2),
                "cifar-10-transportation",
                "cifar-10-frog",
            ),
        ),
    ),
)

_GRAPHS = "001-table-3"
PAPER_001 = (
    Claim(
        "001",
        "On graphs soft F1 has the best F1 and accuracy",
        _GRAPHS,
        tuple(
            against("better", "f1", row, metric, (_GRAPHS, _GRAPHS), "cocktailparty-graphs-splits")
            for metric in ("f1", "accuracy")
            for row in ("bce", "accuracy")
        ),
        remark="soft F1 and soft accuracy end in “all in one group” on every split",
    ),
    Claim(
        "001",
        "Cross-entropy and accuracy do not converge to each other as n grows",
        "theory-001-bce",
        (Theorem("theory-001-bce"),),
        ONE,
    ),
)
