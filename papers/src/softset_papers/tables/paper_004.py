"""The curves of paper 004: how networks converge, and how closely a loss follows its score.

By default 3 trials on Fashion-MNIST and 1 on CIFAR-10, where the network is the largest, on fewer
images and with fewer channels and epochs.
"""

from __future__ import annotations

from softset_papers.specification import Block, Row, Table, ours, paper
from softset_papers.tables.shared import reduced

# Section 5.1.
SURROGATE = (
    paper(optimizer="sgd", learning_rate=0.01, momentum=0.9, weight_decay=1e-4, batch_size=100)
    | paper(max_epochs=120, split="90/10", normalize="pixel", augment=True)
    | paper(width=1.0, images=None)
    | ours(patience=120)  # all epochs are run
)
REDUCED = ours(images=[2000, 500, 1000], max_epochs=20, width=0.125)
BETAS = (0.5, 1.0, 2.0, 3.0)


def curve_rows(network: str) -> tuple[Row, ...]:
    """Surrogate and smoothed F-beta for each beta, MAE and BCE, class-balanced as in the paper.

    The smoothed loss without balance is ours.
    """
    common = SURROGATE | paper(network=network)
    balanced = common | paper(balanced=True)

    def smoothed(beta: float) -> Row:
        settings = balanced | paper(loss="identity", beta=beta)
        return reduced(f"identity-{beta:g}-balanced", f"smoothed, β = {beta:g}", settings, REDUCED)

    def unbalanced(beta: float) -> Row:
        settings = common | ours(loss="identity", beta=beta)
        label = f"smoothed, unbalanced, β = {beta:g}"
        return reduced(f"identity-{beta:g}", label, settings, REDUCED, extra=True)

    surrogates = [
        reduced(
            f"surrogate-{beta:g}",
            f"surrogate, β = {beta:g}",
            common | paper(loss="surrogate", beta=beta),
            REDUCED,
        )
        for beta in BETAS
    ]
    return (
        *surrogates,
        *map(smoothed, BETAS),
        reduced("mae", "MAE", balanced | paper(loss="mae"), REDUCED),
        reduced("bce", "BCE", balanced | paper(loss="cross-entropy"), REDUCED),
        *map(unbalanced, BETAS),
    )


CURVES = (
    "correlation",
    "correlation after epoch 1",
    "rank correlation",
    "rank correlation after epoch 1",
    "f1 train",
    "f1 validation",
    "accuracy test",
)
_NOTE = (
    "Loss and score after every epoch on the training images, in the mode for evaluation; the "
    "correlation is that of the two over the epochs, Pearson's and of ranks, with the first epoch "
    "and without it: -1 is what a loss should have. It is undefined where the score never moves. "
    "The surrogate is class-balanced by its definition."
)

TABLES = (
    Table("004-figure-1", "What losses say to positives and to negatives", kind="figure"),
    Table(
        "004-figures-2-to-4",
        "Convergence, and loss against score: Fashion-MNIST, ResNet-18",
        (Block("Fashion-MNIST", "fashion-mnist-tshirt", updates=64_800),),
        curve_rows("resnet-18"),
        CURVES,
        kind="curves",
        trials=3,
        full_trials=5,
        note=_NOTE,
    ),
    Table(
        "004-figures-5-to-7",
        "Convergence, and loss against score: CIFAR-10, ResNet-34",
        (Block("CIFAR-10", "cifar-10-airplane", updates=54_000),),
        curve_rows("resnet-34"),
        CURVES,
        kind="curves",
        trials=1,
        full_trials=5,
        note=_NOTE,
    ),
)
