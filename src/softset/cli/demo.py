"""``softset demo``: two comparisons on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.compare import compared, tell, write
from softset.cli.inputs import need


@app.command("demo")
def run(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the reports go.")
    ] = Path("softset-demo"),
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Compare on two built-in sets, in half a minute.

    \b
    softset demo

    On a slow machine it takes two minutes at most.
    """
    need("pandas", "jinja2", "rich")
    from softset.tables.synthetic import load_synthetic

    x, y = load_synthetic()
    sets = [
        ("breast-cancer", "Breast cancer: 569 tumours, 30 measurements", *_breast_cancer()),
        ("synthetic", f"Synthetic: {len(y)} rows, 5 % positives", _as_frame(x), y),
    ]
    for name, title, table, labels in sets:
        directory = output / name
        print(f"{title}\n{'=' * len(title)}")
        result = compared(
            table,
            labels,
            directory,
            metric="f1",
            pos_label="malignant" if name == "breast-cancer" else None,
            quick=True,
            budget=0.75,
            seed=seed,
            jobs=jobs,
            resume=False,
            command="softset demo",
            file=name,
        )
        write(result, directory, {"file": name})
        tell(result, directory)
        print()


def _breast_cancer() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return data.data, data.target_names[data.target.to_numpy()]


def _as_frame(x: Any) -> Any:
    import numpy as np
    import pandas as pd

    values = np.asarray(x)
    return pd.DataFrame(values, columns=[f"x{i + 1}" for i in range(values.shape[1])])
