"""``softset tune-threshold``: the best threshold for scores in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import check_files, need
from softset.cli.outputs import met_by_constant, print_json, say, verbosity
from softset.cli.scores import Scored, decide, read_scores
from softset.typing import Settings

if TYPE_CHECKING:
    from softset.decisions.resampling import Gain
    from softset.metrics.goals import Goal
    from softset.typing import Floats


@app.command("tune-threshold")
def run(
    file: opt.DataFile,
    target: opt.Target,
    metric: opt.MetricName = "f1",
    scores: opt.ScoreColumns = None,
    logits: opt.Logits = False,
    confidence: opt.Confidence = None,
    pos_label: opt.PosLabel = None,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    as_json: opt.AsJson = False,
) -> None:
    """The best threshold for scores in a file.

    Every threshold between two scores is tried.

    \b
    softset tune-threshold validation.csv --target churn --scores probability --metric f1
    softset tune-threshold validation.csv --target churn --metric "precision@recall>=0.9"
    softset tune-threshold scored.csv --target fraud --metric "cost(fn=amount, fp=5)"

    With --confidence 0.95 the threshold keeps the constraint of the metric on new rows with this
    probability, instead of on these rows only.

    Often this is all that is needed. Use rows that the model was not trained on. For several
    classes it gives offsets to add to the log-probabilities before the largest one is taken.
    """
    need("pandas")
    check_files(file)

    from softset.metrics.registry import thresholded

    goal = thresholded(metric)
    data = read_scores(
        file, target, scores, logits, pos_label, sep=sep, encoding=encoding, decimal=decimal
    )
    for line in _notes(goal, len(data.y)):
        if not as_json:
            print(line)
    if confidence is not None:
        _promise(goal, data, confidence, as_json)
    elif getattr(goal.metric, "columns", None):
        _by_costs(goal, data, as_json)
    else:
        _tune(goal, data, as_json)


def _tune(goal: Goal, data: Scored, as_json: bool) -> None:
    from softset.decisions.evaluation import evaluate
    from softset.decisions.offsets import best_offsets
    from softset.decisions.thresholds import best_threshold

    m, task, y = goal.of_decisions, data.task, data.y
    settings: Settings = {"task": task, "from_logits": data.from_logits}
    before = evaluate(data.scores, y, m, **settings)
    if task.exclusive:
        tuned = best_offsets(data.scores, y, goal, from_logits=data.from_logits)
        after = evaluate(data.scores, y, m, offsets=tuned, **settings)
    else:
        tuned = best_threshold(data.scores, y, goal, **settings)
        after = evaluate(data.scores, y, m, threshold=tuned, **settings)
    key = "offsets" if task.exclusive else "threshold"
    interval, gain = _uncertainty(goal, data)
    if as_json:
        facts = {**_facts(goal, data), key: tuned, "value": after, "value_before": before}
        print_json({**facts, "interval": interval, "gain": gain and gain._asdict()})
        return
    default = "without" if task.exclusive else "at 0.5"
    ranges = [""] * len(data.classes)
    if interval is not None:
        both = interval.reshape(-1, 2)
        ranges = [f" (95 % interval {low:.4g} to {high:.4g})" for low, high in both]
    if task.single:
        print(data.positive)
        scale = " as a probability" if data.from_logits else ""
        print(f"best threshold for {goal.name}{scale}: {tuned:.6g}{ranges[0]}")
    else:
        print(f"{key} for {goal.name}:")
        for name, number, ends in zip(data.classes, tuned, ranges, strict=True):
            print(f"  {name}: {number:.6g}{ends}")
    print(f"{m.name}: {after:.4f}, {default} {before:.4f} ({len(y)} rows, tuned on these)")
    if gain is not None:
        noise = "" if gain.low > 0 else ": within noise"
        between = f"[{gain.low:+.4f}, {gain.high:+.4f}]"
        print(f"gain on rows not tuned on: {gain.gain:+.4f} {between}{noise}")
    flagged = float(decide(data, tuned).mean()) if isinstance(tuned, float) else None
    if note := met_by_constant(flagged, goal.name):
        say(f"softset: note: {note}")


def _uncertainty(goal: Goal, data: Scored) -> tuple[Floats | None, Gain | None]:
    """The 95 % interval of the best threshold, or of each offset, and the gain of tuning on rows
    that it was not tuned on; None where there is none."""
    import numpy as np
    from scipy.special import expit, log_softmax

    from softset.decisions.confidence import threshold_interval
    from softset.decisions.resampling import tuning_gain
    from softset.decisions.tuner import Tuner

    task = data.task
    tuner = Tuner(goal, task, rule="exact", clear=False, verbose=verbosity())
    order = np.random.RandomState(0).permutation(len(data.y))  # a file may be sorted
    z = data.scores if data.from_logits else task.scores(data.scores)
    z, y = (log_softmax(z, 1) if task.exclusive else z)[order], data.y[order]
    if not tuner.can_tune(y) or goal.where.exact:
        return None, None
    w = np.ones(len(y))
    interval = threshold_interval(tuner, z, y, w, seed=0)
    if interval is not None and not task.exclusive:  # thresholds are probabilities, also of logits
        interval = expit(interval)
    return interval, tuning_gain(tuner, tuner.crossed(z, y, w), z, y, w, seed=0)


def _by_costs(goal: Goal, data: Scored, as_json: bool) -> None:
    """The cheapest rule for costs of each row, which are columns of the file."""
    from softset.decisions.costs import cost_decision

    if not data.task.single:
        raise ValueError(f"--metric {goal.name} is for two classes.")
    rule = cost_decision(data.scores, data.y, goal.metric, data.table, from_logits=data.from_logits)
    if not as_json:
        print(data.positive)
        print(rule)
        return
    names = ("threshold", "by_row", "row_cost", "threshold_cost", "plain_cost", "rows")
    slope, intercept = rule.calibration.slope, rule.calibration.intercept
    facts = {**_facts(goal, data), **{n: getattr(rule, n) for n in names}}
    print_json({**facts, "calibration": {"slope": slope, "intercept": intercept}})


def _promise(goal: Goal, data: Scored, confidence: float, as_json: bool) -> None:
    from softset.decisions.promises import promise

    result = promise(
        data.scores,
        data.y,
        goal,
        confidence=confidence,
        task=data.task,
        from_logits=data.from_logits,
    )
    promises = result if isinstance(result, list) else [result]
    if as_json:
        each = [{**p.packed(), "sentence": str(p)} for p in promises]
        print_json({**_facts(goal, data), "promises": each})
        return
    if data.task.single:
        print(data.positive)
        print(promises[0])
        return
    print(f"each label at {100 * confidence:.4g} %:")
    for name, p in zip(data.classes, promises, strict=True):
        print(f"  {name}: {p}")


def _facts(goal: Goal, data: Scored) -> Settings:
    """What every answer in JSON begins with."""
    facts: Settings = {"metric": goal.name, "task": data.task}
    return facts | {
        "positive": data.positive or None,
        "classes": data.classes,
        "rows": len(data.y),
    }


def _notes(goal: Goal, rows: int) -> list[str]:
    """What a count of alerts without a number of rows means."""
    constraints = getattr(goal.where, "constraints", ())
    return [
        f"{c.text} is of these {rows} rows; {c.text}/10000 would be of the next 10000 rows."
        for c in constraints
        if c.rows == 0
    ]
