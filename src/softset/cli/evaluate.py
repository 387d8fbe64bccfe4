"""``softset evaluate``: every metric of a model or of a file of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import ReadOptions, check_files, need, read_for, split_values
from softset.cli.outputs import console, print_json
from softset.cli.scores import Scored, decide, read_scores
from softset.cli.watching import over_time

if TYPE_CHECKING:
    from softset.classifiers.model import Model
    from softset.decisions.intervals import Interval
    from softset.metrics.goals import Goal
    from softset.typing import Array, Settings


@app.command("evaluate")
def run(
    file: opt.DataFile,
    target: opt.MaybeTarget = None,
    model: Annotated[
        Path | None, typer.Option(help="A model of `softset train` or `compare`.")
    ] = None,
    scores: opt.ScoreColumns = None,
    logits: opt.Logits = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Threshold for two classes or labels. Default: that of the model, the decisions "
            "in the column `prediction`, or 0.5."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="Only these metrics (f1,mcc); all by default."),
    ] = None,
    pos_label: opt.PosLabel = None,
    level: Annotated[float, typer.Option(help="Of the confidence intervals.")] = 0.95,
    resamples: Annotated[
        int, typer.Option(help="For the intervals; areas under curves have 200.")
    ] = 1000,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Dates or numbers by which the rows are in order: is the model still as good?",
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="With --time, how often to look: day, week, month, year.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --time, write a page: watch.html.")
    ] = None,
    force: opt.Force = False,
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
    softset evaluate new.csv --target churn --model model.softset --time day --report watch.html

    A column `prediction`, which `softset predict` writes, is what was decided, unless --scores or
    --threshold is given. Rows that the model was trained on make it look better than it is.

    With --time: does the promise of the model still hold? Without --target only its scores are
    watched, against those of training.
    """
    if time is not None:
        unused = {"--scores": bool(scores), "--logits": logits, "--metric": bool(metric)}
        unused |= {"--threshold": threshold is not None, "--pos-label": pos_label is not None}
        unused |= {"--level": level != 0.95, "--resamples": resamples != 1000, "--seed": seed != 0}
        if unusable := [name for name, is_set in unused.items() if is_set]:
            raise ValueError(
                "--time judges the decisions of --model by the metric of its training: leave out "
                f"{', '.join(unusable)}."
            )
        over_time(file, target, model, time, every, report, force, as_json, sep, encoding, decimal)
        return
    if report is not None or every is not None:
        raise ValueError("--report and --every are for rows over time: name their column, --time.")
    if not target:
        raise ValueError(
            "--target is needed: the column with the true labels; only --time does without."
        )
    need("pandas", *([] if as_json else ["rich"]))
    check_files(file, *([model] if model is not None else []))
    if model is not None and (scores or logits):
        raise ValueError(
            "--scores and --logits are about scores in the file: give --model or these, not both."
        )

    from softset.classifiers.model import load_model
    from softset.decisions.intervals import metric_table
    from softset.metrics.registry import get_goal

    chosen = [get_goal(m) for m in split_values(metric)] or None
    options: ReadOptions = {"sep": sep, "encoding": encoding, "decimal": decimal}
    if model is not None:
        loaded = load_model(model)
        scored = _by_model(loaded, file, target, pos_label, options)
        by = "the model"
    else:
        decided_in_file = threshold is None and not scores
        scored = read_scores(
            file, target, scores, logits, pos_label, decided=decided_in_file, **options
        )
        by = "column 'prediction'" if not scored.task.independent else "columns 'prediction_…'"
    decided = scored.prediction
    if threshold is not None or decided is None:
        decided = decide(scored, threshold)
        by = "the largest score" if scored.task.exclusive else f"threshold {threshold or 0.5:g}"
    wanted = chosen or []
    if model is not None and not chosen and loaded.classifier.decision_.costs is not None:
        wanted = [get_goal(loaded.classifier.metric)]
    rows, money = _of_costs(wanted, scored, decided, level)
    chosen = [m for m in wanted if not getattr(m.metric, "columns", None)] or None
    if chosen is not None or not metric:
        rows += metric_table(
            scored.scores,
            decided,
            scored.y,
            task=scored.task,
            from_logits=scored.from_logits,
            metrics=chosen,
            level=level,
            resamples=resamples,
            seed=seed,
        )
    classes, count = scored.classes, len(scored.y)
    checks = _checked_promises(loaded, scored) if model is not None and threshold is None else []
    if as_json:
        facts = {"file": file.name, "task": scored.task, "rows": count}
        facts |= {"positive": scored.positive or None, "classes": classes}
        promises: Settings = {"promises": checks} if checks else {}
        promises |= {"costs": money} if money else {}
        metrics = [row._asdict() for row in rows]
        print_json({**facts, "level": level, "metrics": metrics, **promises})
        return
    kind = scored.positive or f"{len(classes)} {'labels' if scored.task.independent else 'classes'}"
    _print_metrics(rows, f"{file.name}: {count} rows, {kind}, decided by {by}", level)
    for line in [*money, *checks]:
        print(line)


def _of_costs(
    goals: list[Goal], scored: Scored, decided: Array, level: float
) -> tuple[list[Interval], list[str]]:
    """Costs of each row, which are columns of the file: the metrics, and in money."""
    from softset.classifiers.row_costs import row_costs
    from softset.decisions.costs import in_money
    from softset.decisions.intervals import cost_interval
    from softset.metrics.costs import Cost

    rows, money = [], []
    for goal in goals:
        cost = goal.metric
        if not isinstance(cost, Cost) or not cost.columns:
            continue
        if not scored.task.single:
            raise ValueError(f"--metric {goal.name} is for two classes.")
        costs = row_costs(goal, scored.table, None)
        assert costs is not None
        rows.append(cost_interval(cost, decided, scored.y, costs, level))
        money.append(in_money(cost, decided, scored.y, costs))
    return rows, money


def _checked_promises(model: Model, scored: Scored) -> list[str]:
    """What the model promised, and whether it holds on these rows."""
    promised = model.classifier.promise_
    if (
        promised is None
        or scored.prediction is None
        or (scored.task.single and scored.classes != model.classes_.tolist())
    ):
        return []  # or those of the other class
    if not isinstance(promised, list):
        return [str(c) for c in promised.check(scored.prediction, scored.y)]
    columns = zip(promised, scored.classes, scored.prediction.T, scored.y.T, strict=True)
    return [f"{name}: {c}" for p, name, flagged, y in columns for c in p.check(flagged, y)]


def _by_model(
    model: Model, file: Path, target: list[str], pos_label: str | None, options: ReadOptions
) -> Scored:
    from softset.checks import check_choice

    data = read_for(model, file, target, **options)
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
        return Scored(model.task, classes[::-1], p[:, 0], 1 - y, 1 - decided, table=data.table)
    return Scored(model.task, classes, p[:, 1], y, decided, table=data.table)


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
