"""``softset demo``: two comparisons on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.compare import check_directory, compared, tell, write
from softset.cli.inputs import need

if TYPE_CHECKING:
    from softset.comparison.result import Comparison
    from softset.typing import Array, Frame

# Of each comparison, so that both take less than a minute.
_SECONDS = 27.0
# For time, without the networks that are trained from scratch for the metric.
_CANDIDATES = [
    *("linear", "linear-tuned", "linear-metric"),
    *("cross-entropy", "cross-entropy-tuned", "warm"),
    *("boosting", "boosting-tuned", "boosting-metric"),
    *("forest", "forest-tuned", "ensemble"),
]


@app.command("demo")
def run(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the reports go.")
    ] = Path("softset-demo"),
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Compare on two built-in datasets, within a minute.

    \b
    softset demo

    On one of them something beats the default threshold, on the other nothing does.
    """
    need("pandas", "jinja2", "rich")
    for name in ("breast-cancer", "rare"):
        check_directory(output / name, None, force=force, resume=False)
    datasets = [
        ("breast-cancer", "Breast cancer: 569 tumors, 30 measurements", *_breast_cancer()),
        ("rare", "Rare: 3000 rows, 9 % positives, classes that overlap", *_rare()),
    ]
    answers = []
    for name, title, table, labels in datasets:
        directory = output / name
        print(f"{title}\n{'=' * len(title)}")
        result = compared(
            table,
            labels,
            directory,
            metric="f1",
            pos_label="malignant" if name == "breast-cancer" else None,
            quick=True,
            time_limit=_SECONDS,
            candidates=_CANDIDATES,
            random_state=seed,
            n_jobs=jobs,
            resume=False,
            command="softset demo",
            file=name,
        )
        write(result, directory, {"file": name})
        tell(result, directory)
        print()
        answers.append(f"{title.partition(':')[0]}: {_in_short(result)}")
    print("Does anything beat the default threshold?")
    print("\n".join(answers))


def _in_short(result: Comparison) -> str:
    """Whether anything does, by the verdict."""
    from softset.comparison.verdict import answer

    return f"{answer(result.outcome)}, {result.gains.total.mean:+.3f} of F1"


def _breast_cancer() -> tuple[Frame, Array]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return data.data, data.target_names[data.target.to_numpy()]


def _rare(rows: int = 3000) -> tuple[Frame, Array]:
    """Rare positives whose probability is seldom above one half, as of fraud, churn or faults."""
    import numpy as np
    import pandas as pd

    random = np.random.RandomState(0)
    x = random.randn(rows, 6)
    logit = -3.3 + 1.1 * x[:, 0] + 0.8 * np.maximum(x[:, 1], 0) + 0.5 * x[:, 2]
    y = random.rand(rows) < 1 / (1 + np.exp(-logit))
    return pd.DataFrame(x, columns=[f"x{i + 1}" for i in range(6)]), y.astype(int)
