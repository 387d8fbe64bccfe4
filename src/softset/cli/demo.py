"""``softset demo``: three comparisons and a promise, on real data that needs no download.

Image regions are the Image Segmentation data of the Vision Group, University of Massachusetts, the
shells are Abalone by Nash and others: both of the UCI Machine Learning Repository, CC BY 4.0
(docs/licences.md).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.compare import check_directory, compared, write
from softset.cli.inputs import need

if TYPE_CHECKING:
    import numpy as np

    from softset.comparison.result import Comparison
    from softset.typing import Frame

_LINEAR = ("linear", "linear-tuned", "linear-metric")
_BOOSTING = ("boosting", "boosting-tuned")
_RECALL, _CONFIDENCE, _DRAWS = 0.8, 0.95, 100


@dataclass(frozen=True)
class _Story:
    """A comparison with a known end; ``rows`` gives a table and its labels."""

    name: str
    title: str
    rows: Callable[[], tuple[Frame, np.ndarray]]
    positive: str
    candidates: tuple[str, ...]
    note: str = ""


@app.command("demo")
def run(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the reports go.")
    ] = Path("softset-demo"),
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
) -> None:
    """Three comparisons and a promise on built-in real data, within a minute.

    \b
    softset demo

    On one dataset training for the metric wins, on one the threshold is everything, on one nothing
    helps.
    """
    need("pandas", "jinja2", "rich")
    for story in _STORIES:
        check_directory(output / story.name, None, force=force, resume=False)
    for number, story in enumerate(_STORIES, 1):
        table, labels = story.rows()
        result = compared(
            table,
            labels,
            output / story.name,
            metric="f1",
            pos_label=story.positive,
            quick=True,
            repeats=2,
            candidates=list(story.candidates),
            random_state=seed,
            n_jobs=jobs,
            resume=False,
            command="softset demo",
            file=story.name,
        )
        write(result, output / story.name, {"file": story.name})
        print(f"{number}. {story.title}")
        print(_stages(result))
        print(
            textwrap.indent(textwrap.fill(f"{result.verdict} {story.note}", 97), "   "), end="\n\n"
        )
    print("4. Find 80 % of the shells with 7 rings, on new rows too: 1,000 rows set the threshold.")
    print(_promise(seed))
    names = ",".join(story.name for story in _STORIES)
    print(f"\nreports: {output}/{{{names}}}/report.html")


def _stages(result: Comparison) -> str:
    """The positive class, and a line for each stage."""
    from softset.comparison.result import signed, significance

    lines = [f"   {result.positive_line} of {result.data.rows:,}; {result.splits.count} splits"]
    for stage in result.gains.stages:
        line = f"   {stage.name:24} F1 {stage.mean:.3f}"
        if stage.gain is not None:
            line += f"  {signed(stage.gain)}  {significance(stage.gain)}"
        lines.append(line)
    return "\n".join(lines)


def _promise(seed: int) -> str:
    """A threshold for a recall, tuned and promised: how many alerts, and how often it is missed.

    Half of the rows train a logistic regression. The others are the population: rows that are drawn
    from it set the threshold, ``_DRAWS`` times, and all of it judges.
    """
    import numpy as np
    import pandas as pd
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    import softset as ss

    table, labels = _abalone()
    x, y = pd.get_dummies(table).to_numpy(float), labels == "7 rings"
    x, held_out, y, truth = train_test_split(x, y, test_size=0.5, stratify=y, random_state=seed)
    p = LogisticRegression(max_iter=1000).fit(x, y).predict_proba(held_out)[:, 1]
    goal = f"precision@recall>={_RECALL}"
    broken, alerts = {"tuned": 0, "promised": 0}, {"tuned": 0.0, "promised": 0.0}
    for draw in range(_DRAWS):
        drawn = np.random.default_rng([seed, draw]).integers(0, len(p), 1000)
        tuned = ss.best_threshold(p[drawn], truth[drawn], goal, from_logits=False)
        promised = ss.promise(
            p[drawn], truth[drawn], goal, confidence=_CONFIDENCE, from_logits=False
        )
        assert isinstance(promised, ss.Promise)
        assert promised.threshold is not None
        for name, threshold in (("tuned", float(tuned)), ("promised", promised.threshold)):
            flagged = p >= threshold
            broken[name] += bool(flagged[truth].mean() < _RECALL)
            alerts[name] += 100 * float(flagged.mean()) / _DRAWS
    return (
        f"   recall of at least {_RECALL:.2f}, promised at {100 * _CONFIDENCE:.0f} %: "
        f"{alerts['promised']:.0f} alerts in 100 rows; broken in {broken['promised']} of {_DRAWS} "
        f"draws\n   recall of at least {_RECALL:.2f}, only tuned:       "
        f"{alerts['tuned']:.0f} alerts in 100 rows; broken in {broken['tuned']} of {_DRAWS} draws"
    )


# --- data -----------------------------------------------------------------------------------------


def _read(name: str) -> Frame:
    import pandas as pd

    path = files("softset.cli") / "data" / f"{name}.csv.gz"
    with path.open("rb") as file:
        return pd.read_csv(file, compression="gzip")


def _cement() -> tuple[Frame, np.ndarray]:
    table = _read("segment")
    labels = table["category"].where(table["category"] == "cement", "other")
    return table.drop(columns="category"), labels.to_numpy(str)


def _abalone() -> tuple[Frame, np.ndarray]:
    table = _read("abalone")
    labels = (table["rings"] == 7).map({True: "7 rings", False: "other"})
    return table.drop(columns="rings"), labels.to_numpy(str)


def _breast_cancer() -> tuple[Frame, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return data.data, data.target_names[data.target.to_numpy()]


_STORIES = (
    _Story(
        "cement",
        "Which image regions are cement? A linear model must do.",
        _cement,
        "cement",
        _LINEAR,
        "(Picked because training for the metric wins here; a larger model would be better still.)",
    ),
    _Story(
        "abalone",
        "Which shells have 7 rings? Few have a probability above one half.",
        _abalone,
        "7 rings",
        (*_LINEAR, *_BOOSTING),
    ),
    _Story(
        "breast-cancer",
        "Which tumors are malignant?",
        _breast_cancer,
        "malignant",
        (*_LINEAR, *_BOOSTING),
    ),
)
