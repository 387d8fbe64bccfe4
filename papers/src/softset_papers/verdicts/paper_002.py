"""The claims of papers 002 and 003."""

from __future__ import annotations

from softset_papers.verdicts.claim import ONE, T1, Claim, against
from softset_papers.verdicts.conditions import Against, Means, Reproduced, Spread

_EAST, _LONG, _BATCHES = "002-table-1", "002-annealing", "002-batches"
_FOREST = "002-table-3"
_IMAGES = "002-table-1-images"


def _east(wanted: str, a: str, b: str, metric: str, *on: str) -> Against:
    """EAST at the paper's patience."""
    return against(wanted, a, b, metric, (_LONG, _LONG), *on)


def _images(wanted: str, a: str, b: str, metric: str, tables: tuple[str, str]) -> Against:
    return against(wanted, a, b, metric, tables, "cifar-10")


PAPER_002 = (
    *(
        Claim(
            "002",
            f"Trained for {name}, EAST matches or outperforms cross-entropy in it, on the tabular "
            "datasets",
            _LONG,
            (_east("as good", row, "bce", row),),
            remark="at the paper's patience, as far as it was run",
        )
        for name, row in (("F1", "f1"), ("accuracy", "accuracy"), ("MCC", "mcc"))
    ),
    Claim(
        "002",
        "On Kaggle cross-entropy is slightly better in F1",
        _LONG,
        (_east("worse", "f1", "bce", "f1", "creditcard-subset"),),
        remark="the rule for ties in the search decides what F1 * has there",
    ),
    Claim(
        "002",
        "Larger batches help on Kaggle (we take: 4096 ahead of 128 in F1, trained for F1 and for "
        "MCC)",
        _BATCHES,
        tuple(
            against(
                "better", f"{m}-4096", f"{m}-128", "f1", (_BATCHES, _BATCHES), "creditcard-subset"
            )
            for m in ("f1", "mcc")
        ),
        remark="batches drawn by weight, so that 0.17 % of their rows are frauds",
    ),
    Claim(
        "002, 003",
        "Trained for macro F1 of both classes, as the equations have it, networks reach the "
        "published F1 on Kaggle (implied; we take: 0.75 or more)",
        _EAST,
        (Means(_EAST, "f1-macro", "f1", ("creditcard-subset",), low=0.75),),
        ONE,
        "every network says no always, whatever the setting of the search",
    ),
    *(
        Claim(
            "002",
            f"Annealing gives a better {name} than T = 0.2 throughout (implied)",
            _LONG,
            (_east("better", row, f"{row}-fixed", row, "cocktailparty", "mammography"),),
        )
        for name, row in (("F1", "f1"), ("accuracy", "accuracy"), ("MCC", "mcc"))
    ),
    Claim(
        "002",
        "Dice is far behind in F1",
        _LONG,
        (_east("worse", "dice", "f1", "f1"),),
        remark="ours is the V-Net form",
    ),
    Claim(
        "002",
        "Trained for accuracy, F1 is poor on Mammography and Kaggle (we take: below 0.2)",
        _LONG,
        (Means(_LONG, "accuracy", "f1", ("mammography", "creditcard-subset"), high=0.2),),
        ONE,
        "the paper's own table has 0.75 and 0.80",
    ),
    Claim(
        "002",
        "A random forest outperforms all others on the tabular datasets, in macro F1",
        _FOREST,
        (against("better", "rf", "f1", "f1 macro", (_FOREST, _FOREST)),),
        remark="by the paper's own numbers it does on two of four",
    ),
    Claim(
        "002",
        "CCS has a macro F1 of 0.549 and an accuracy of 0.553 on Adult (we take: within 0.05)",
        _FOREST,
        tuple(
            Reproduced(_FOREST, "ccs", m, ("adult-codes",), 0.05) for m in ("f1 macro", "accuracy")
        ),
        ONE,
        "with the ages misread as in the authors' code of 000 the published values come out",
    ),
    Claim(
        "002",
        "EAST outperforms cross-entropy on CIFAR-10 and Caltech-256",
        _IMAGES,
        tuple(_images("better", m, "ce", m, (_IMAGES, _IMAGES)) for m in ("f1", "accuracy", "mcc")),
        ONE,
        "Caltech-256 is not available",
    ),
    Claim(
        "002",
        "On images a forest after PCA is behind the networks",
        "002-table-2",
        (_images("worse", "rf", "f1", "f1", ("002-table-2", "002-table-2")),),
        ONE,
        "the forest itself comes out as published",
    ),
    Claim(
        "002",
        "On images CCS after PCA is near 0 (we take: macro F1 below 0.1 on CIFAR-10)",
        "002-table-2",
        (Means("002-table-2", "ccs", "f1", ("cifar-10",), high=0.1),),
        ONE,
        "an ordinary linear classifier; the published value is below that of a guess",
    ),
    Claim(
        "002",
        "A β for one class buys its precision or recall",
        "002-table-4-dog",
        tuple(
            _images(w, row, "ce", metric, (f"002-table-4-{name}",) * 2)
            for name in ("dog", "frog")
            for w, row, metric in (
                ("better", f"{name}-0.25", f"precision {name}"),
                ("better", f"{name}-5", f"recall {name}"),
            )
        ),
        ONE,
    ),
    Claim(
        "002, 003",
        "A β for one class keeps macro F1 above that of cross-entropy",
        "002-table-4-dog",
        tuple(
            _images("better", row, "ce", "f1", ("002-table-4-dog",) * 2)
            for row in ("dog-0.25", "dog-5")
        ),
        ONE,
    ),
    Claim(
        "002",
        "Another class is hardly affected (we take: precision and recall of frog within 0.05)",
        "002-table-5",
        tuple(
            Spread("002-table-5", ("dog-0.25", "dog-5"), f"{m} frog", ("cifar-10",), 0.05)
            for m in ("precision", "recall")
        ),
        ONE,
    ),
    Claim(
        "002",
        "At equal precision of one class macro F1 is higher than with cross-entropy",
        "002-table-7",
        (_images("better", "dog-2.5", "ce", "f1", ("002-table-7",) * 2),),
        ONE,
    ),
)

PAPER_003 = (
    Claim(
        "003",
        "Soft F1 is similar to cross-entropy or better on the tabular datasets",
        "003-table-2",
        (against("as good", "f1", "ce", "f1", ("003-table-2",) * 2),),
    ),
    Claim(
        "003",
        "It outperforms the method of 000 on two classes",
        "003-table-2",
        (against("better", "f1", "f1", "f1", ("003-table-2", T1)),),
        ONE,
        "by the papers' own numbers on Mammography alone",
    ),
    Claim(
        "003",
        "A β for one class buys its precision or recall, without annealing",
        "003-table-1",
        (
            _images("better", "dog-0.25", "ce", "precision dog", ("003-table-1",) * 2),
            _images("better", "dog-5", "ce", "recall dog", ("003-table-1",) * 2),
        ),
        ONE,
    ),
    Claim(
        "003",
        "β = 5 prefers precision (in its text): more of it than β = 0.25",
        "003-table-1",
        (_images("better", "dog-5", "dog-0.25", "precision dog", ("003-table-1",) * 2),),
        ONE,
        "the definition says recall",
    ),
)
