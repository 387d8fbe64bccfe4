"""``softset evaluate``: every metric of a model or of a file of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import check_files, need, parts, read_for
from softset.cli.outputs import console, print_json
from softset.cli.scores import Scored, decide, read_scores

if TYPE_CHECKING:
    from softset.classifiers.model import Model
    from softset.decisions.intervals import Interval


@app.command("evaluate")
def run(
    file: opt.DataFile,
    target: opt.Target,
    model: Annotated[
        Path | None, typer.Option(help="A model of `softset train` or `compare`.")
    ] = None,
    scores: opt.ScoreColumns = None,
    logits: opt.Logits = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Of two classes or labels. Left out: that of the model, the column `prediction`, "
            "or 0.5."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="Only these (f1,mcc); all if left out."),
    ] = None,
    pos_label: opt.PosLabel = None,
    level: Annotated[float, typer.Option(help="Of the confidence intervals.")] = 0.95,
    resamples: Annotated[
        int, typer.Option(help="For the intervals; areas under curves have 200.")
    ] = 1000,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> None:
    """All metrics of a model, or of scores in a file.

    With confidence intervals.

    \b
    softset evaluate test.csv --target churn --model model.softset
    softset evaluate predictions.csv --target churn -m f1,mcc
    softset evaluate scored.csv --target churn --scores probability --threshold 0.3

    A column `prediction`, which `softset predict` writes, is what was decided, unless --scores or
    --threshold is given. Rows that the model was trained on make it look better than it is.
    """
    need("pandas", *([] if as_json else ["rich"]))
    check_files(file, *([model] if model is not None else []))
    if model is not None and (scores or logits):
        raise ValueError(
            "--scores and --logits are about scores in the file: give --model or these, not both."
        )

    from softset.classifiers.model import load_model
    from softset.decisions.intervals import metric_table
    from softset.metrics.registry import get_goal

    chosen = [get_goal(m) for m in parts(metric)] or None
    reading = {"sep": sep, "encoding": encoding, "decimal": decimal}
    if model is not None:
        loaded = load_model(model)
        found = _by_model(loaded, file, target, pos_label, reading)
        by = "the model"
    else:
        own = threshold is None and not scores
        found = read_scores(file, target, scores, logits, pos_label, decided=own, **reading)
        by = "column 'prediction'" if not found.task.independent else "columns 'prediction_…'"
    decided = found.prediction
    if threshold is not None or decided is None:
        decided = decide(found, threshold)
        by = "the largest score" if found.task.exclusive else f"threshold {threshold or 0.5:g}"
    rows = metric_table(
        found.scores,
        decided,
        found.y,
        task=found.task,
        from_logits=found.from_logits,
        metrics=chosen,
        level=level,
        resamples=resamples,
        seed=seed,
    )
    classes, count = found.classes, len(found.y)
    kept = _checked_promises(loaded, found) if model is not None and threshold is None else []
    if as_json:
        facts = {"file": file.name, "task": found.task, "rows": count}
        facts |= {"positive": found.positive or None, "classes": classes}
        promises = {"promises": kept} if kept else {}
        metrics = [row._asdict() for row in rows]
        print_json({**facts, "level": level, "metrics": metrics, **promises})
        return
    kind = found.positive or f"{len(classes)} {'labels' if found.task.independent else 'classes'}"
    _print_metrics(rows, f"{file.name}: {count} rows, {kind}, decided by {by}", level)
    for line in kept:
        print(line)


def _checked_promises(model: Model, found: Scored) -> list[str]:
    """What the model promised, and whether it holds on these rows."""
    promised = model.classifier.promise_
    if promised is None or (found.task.single and found.classes != model.classes_.tolist()):
        return []  # or those of the other class
    if not isinstance(promised, list):
        return [str(c) for c in promised.check(found.prediction, found.y)]
    columns = zip(promised, found.classes, found.prediction.T, found.y.T, strict=True)
    return [f"{name}: {c}" for p, name, said, y in columns for c in p.check(said, y)]


def _by_model(
    model: Model, file: Path, target: list[str], pos_label: str | None, reading: dict[str, Any]
) -> Scored:
    from softset.checks import check_choice

    data = read_for(model, file, target, **reading)
    several = model.task.independent
    classes = data.target if several else model.classes_.tolist()
    if pos_label is not None and not model.task.single:
        raise ValueError(f"--pos-label is for two classes; the model knows {len(classes)}.")
    p, decided = model.predict_both(data.table)
    y = model.codes(data.labels)
    if several:
        return Scored(model.task, classes, p, y, decided)
    decided = model.codes(decided)
    if model.task.exclusive:
        return Scored(model.task, classes, p, y, decided)
    check_choice("--pos-label", pos_label or str(classes[1]), [str(c) for c in classes])
    if pos_label == str(classes[0]):
        return Scored(model.task, classes[::-1], p[:, 0], 1 - y, 1 - decided)
    return Scored(model.task, classes, p[:, 1], y, decided)


def _print_metrics(rows: list[Interval], title: str, level: float) -> None:
    from rich.table import Table

    out = console()
    out.print(title, style="bold")
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column(f"{level:.0%} interval", justify="right")
    for row in rows:
        table.add_row(row.metric, f"{row.value:.4f}", f"{row.low:.4f} to {row.high:.4f}")
    out.print(table)
