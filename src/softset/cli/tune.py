"""``softset tune-threshold``: the best cut for scores in a file."""

from __future__ import annotations

from typing import Any

from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import check_files, need
from softset.cli.outputs import print_json
from softset.cli.scores import read_scores


@app.command("tune-threshold")
def run(
    file: opt.DataFile,
    target: opt.Target,
    metric: opt.MetricName = "f1",
    scores: opt.ScoreColumns = None,
    logits: opt.Logits = False,
    pos_label: opt.PosLabel = None,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    as_json: opt.AsJson = False,
) -> None:
    """The best threshold for scores in a file.

    Every cut is tried.

    \b
    softset tune-threshold validation.csv --target churn --scores probability --metric f1

    Often this is all that is needed. Use rows that the model was not trained on. For several
    classes it gives offsets to add to the log-probabilities before the largest one is taken.
    """
    need("pandas")
    check_files(file)

    from softset.decisions.evaluation import evaluate
    from softset.decisions.offsets import best_offsets
    from softset.decisions.thresholds import best_threshold
    from softset.metrics.registry import thresholded

    goal = thresholded(metric)
    m = goal.of_decisions
    found = read_scores(
        file, target, scores, logits, pos_label, sep=sep, encoding=encoding, decimal=decimal
    )
    task, scores, y = found.task, found.scores, found.y
    given: Any = {"task": task, "from_logits": found.from_logits}
    before = evaluate(scores, y, m, **given)
    if task.exclusive:
        cut: Any = best_offsets(scores, y, goal, from_logits=found.from_logits)
        after = evaluate(scores, y, m, offsets=cut, **given)
    else:
        cut = best_threshold(scores, y, goal, **given)
        after = evaluate(scores, y, m, threshold=cut, **given)
    key = "offsets" if task.exclusive else "threshold"
    if as_json:
        facts: dict[str, Any] = {"metric": goal.name, "task": task}
        facts |= {"positive": found.positive or None, "classes": found.classes, "rows": len(y)}
        print_json({**facts, key: cut, "value": after, "value_before": before})
        return
    default = "without" if task.exclusive else "at 0.5"
    if task.single:
        print(found.positive)
        print(f"best threshold for {goal.name}: {cut:.6g}")
    else:
        print(f"{key} for {goal.name}:")
        for name, number in zip(found.classes, cut, strict=True):
            print(f"  {name}: {number:.6g}")
    print(f"{m.name}: {after:.4f}, {default} {before:.4f} ({len(y)} rows, tuned on these)")
