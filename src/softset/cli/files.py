"""``train``, ``predict``, ``evaluate`` and ``tune-threshold``: one model, one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from softset.cli import app
from softset.cli.common import (
    AsJson,
    DataFile,
    Decimal,
    Drop,
    Encoding,
    Force,
    MetricName,
    PosLabel,
    Seed,
    Sep,
    Target,
    check_columns,
    console,
    fresh_name,
    names,
    print_json,
    read_labelled,
    say,
)

Output = Annotated[Path | None, typer.Option("--output", "-o", help="The file to write.")]
ScoreColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="COLUMN",
        help="Column(s) with probabilities: of the positive class, or one for each class or label, "
        "in order. Left out: the columns p_<class> that `softset predict` writes.",
    ),
]
Logits = Annotated[bool, typer.Option("--logits", help="Scores are logits, not probabilities.")]


@app.command()
def train(
    file: DataFile,
    target: Target,
    metric: MetricName = "f1",
    recipe: Annotated[
        str,
        typer.Option(
            help="warm (cross-entropy, then the metric), cross-entropy, metric, metric-grid, "
            "anneal, boosting, boosting-metric, forest."
        ),
    ] = "warm",
    output: Output = None,
    force: Force = False,
    pos_label: PosLabel = None,
    sample_weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the rows' weights.")
    ] = None,
    drop: Drop = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train one model for a metric and save it.

    \b
    softset train data.csv --target churn --metric f1
    softset train data.parquet -t species -m balanced_accuracy --recipe forest -o species.softset

    Which recipe is best on your data is what `softset compare` finds out.
    """
    import softset
    from softset.classifiers.model import train_model
    from softset.metrics.registry import get_metric
    from softset.tables.files import refuse_existing

    get_metric(metric)
    path = output or fresh_name(f"{file.name.split('.')[0]}-{recipe}.softset")
    refuse_existing(path, force)
    _check_directory(path)
    data = read_labelled(
        file,
        target,
        weight=sample_weight,
        drop=drop,
        sep=sep,
        encoding=encoding,
        decimal=decimal,
    )
    info = {
        "target": data.target,
        "drop": [*names(drop), *([sample_weight] if sample_weight else [])],
        "file": file.name,
        "rows": len(data.table),
        "softset": softset.__version__,
        "seed": seed,
    }
    y = data.y.to_numpy() if hasattr(data.y, "columns") else data.y
    settings: dict[str, Any] = {}
    if not recipe.startswith(("boosting", "forest")):
        settings["verbose"] = 1
    model = train_model(
        data.table,
        y,
        metric,
        recipe=recipe,
        pos_label=pos_label,
        sample_weight=data.weight,
        seed=seed,
        info=info,
        **settings,
    )
    model.save(path)
    notes = model.encoder.notes_ if model.encoder is not None else []
    facts = {
        "model": str(path),
        "metric": model.metric,
        "recipe": recipe,
        "task": model.task,
        "classes": data.target if model.task == "multilabel" else model.classes_.tolist(),
        "threshold": model.threshold,
        "rows": len(data.table),
        "columns": len(data.table.columns),
        "inputs": len(model.encoder.names_) if model.encoder is not None else None,
        "notes": notes,
    }
    if as_json:
        print_json(facts)
        return
    for note in notes:
        if "missing value(s)" in note:  # the rest has been said as a warning
            say(f"softset: note: {note}")
    print(f"{path}: {recipe} for {model.metric}, {facts['rows']} rows, {facts['inputs']} inputs")
    print(f"classes: {', '.join(map(str, facts['classes']))}")
    print(_decision(model))


def _decision(model: Any) -> str:
    if model.task == "multiclass":
        pairs = zip(model.classes_.tolist(), model.threshold, strict=True)
        return "offsets of log-probabilities: " + ", ".join(f"{c} {o:+.3f}" for c, o in pairs)
    if model.task == "multilabel":
        return "thresholds: " + ", ".join(f"{t:.4g}" for t in model.threshold)
    return f"threshold: {model.threshold:.4g} (probability of {model.classes_[1]})"


def _check_directory(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {str(path.parent)!r} for {path.name!r}.")


# --- predict --------------------------------------------------------------------------------------


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model of `softset train` or `compare`.")],
    file: DataFile,
    output: Output = None,
    force: Force = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Columns of the file to keep, such as an identifier."),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    as_json: AsJson = False,
) -> None:
    """Write labels and probabilities for the rows of a file.

    \b
    softset predict model.softset new.csv
    softset predict model.softset new.parquet --keep customer -o predictions.csv

    Columns are found by name. A missing one is an error, further ones are ignored.
    """
    from softset.classifiers.model import load_model
    from softset.tables.files import expanded, refuse_existing, write_table

    path = output or fresh_name(f"{file.name.split('.')[0]}-predictions.csv")
    refuse_existing(path, force)
    _check_directory(path)
    found = load_model(model)
    frame = _read_for(found, file, sep, encoding, decimal)
    kept = expanded(keep or [], frame.columns)
    check_columns(file, frame, kept)
    trained = {c["name"] for c in found.encoder.columns_} if found.encoder is not None else set()
    inputs = frame[[c for c in frame.columns if c in trained or c not in kept]]
    result = _predictions(found, inputs)
    for i, name in enumerate(kept):
        result.insert(i, name, frame[name].to_numpy())
    write_table(result, path, force=force)
    counts = {n: result[n].value_counts().to_dict() for n in result if n.startswith("prediction")}
    if as_json:
        print_json({"output": str(path), "rows": len(result), "predictions": counts})
        return
    print(f"{path}: {len(result)} rows")
    for name, numbers in counts.items():
        print(f"{name}: " + ", ".join(f"{c} {n}" for c, n in numbers.items()))


def _read_for(
    model: Any,
    file: Path,
    sep: str | None,
    encoding: str | None,
    decimal: str,
    labels: list[str] | None = None,
) -> Any:
    """A file for a model: its columns of categories stay text."""
    from softset.tables.files import read_table

    text = []
    if model.encoder is not None:
        text = [c["name"] for c in model.encoder.columns_ if c["kind"] == "category"]
    return read_table(
        file, sep=sep, encoding=encoding, decimal=decimal, text=text, labels=labels or ()
    )


def _predictions(model: Any, frame: Any) -> Any:
    import pandas as pd

    p, decided = model.predict_both(frame)
    if model.task == "multilabel":
        labels = model.target or [str(c) for c in model.classes_.tolist()]
        columns = {f"prediction_{n}": decided[:, i] for i, n in enumerate(labels)}
    else:
        labels = [str(c) for c in model.classes_.tolist()]
        columns = {"prediction": decided}
    columns.update({f"p_{n}": p[:, i] for i, n in enumerate(labels)})
    return pd.DataFrame(columns)


# --- evaluate -------------------------------------------------------------------------------------


@app.command()
def evaluate(
    file: DataFile,
    target: Target,
    model: Annotated[
        Path | None, typer.Option(help="A model of `softset train` or `compare`.")
    ] = None,
    scores: ScoreColumns = None,
    logits: Logits = False,
    threshold: Annotated[
        float, typer.Option(help="For scores of two classes or labels; a model has its own.")
    ] = 0.5,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Only these; all if left out.")
    ] = None,
    pos_label: PosLabel = None,
    level: Annotated[float, typer.Option(help="Of the confidence intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 1000,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """All metrics of a model, or of scores in a file.

    With bootstrap confidence intervals.

    \b
    softset evaluate test.csv --target churn --model model.softset
    softset evaluate scored.csv --target churn --scores probability --threshold 0.3

    Rows that the model was trained on make it look better than it is.
    """
    from softset.decisions.intervals import metric_table
    from softset.metrics.registry import get_metric

    chosen = None if not metric else [get_metric(m) for m in metric]
    if model is not None and scores:
        raise ValueError("give --model or --scores, not both.")
    if model is not None:
        task, classes, p, decided, y = _by_model(model, file, target, sep, encoding, decimal)
    else:
        task, classes, p, y = _by_scores(
            file, target, scores, logits, pos_label, sep=sep, encoding=encoding, decimal=decimal
        )
        decided = _decided(p, task, threshold)
    rows = metric_table(
        p, decided, y, task=task, metrics=chosen, level=level, resamples=resamples, seed=seed
    )
    if as_json:
        facts = {"file": file.name, "task": task, "classes": classes, "rows": len(y)}
        print_json({**facts, "level": level, "metrics": rows})
        return
    what = {"binary": f"positive class {classes[-1]!r}", "multilabel": f"{len(classes)} labels"}
    title = f"{file.name}: {len(y)} rows, {what.get(task, f'{len(classes)} classes')}"
    _print_metrics(rows, title, level)


def _by_model(
    path: Path, file: Path, target: list[str], sep: str | None, encoding: str | None, decimal: str
) -> tuple[str, list[Any], Any, Any, Any]:
    import numpy as np

    from softset.classifiers.model import load_model

    model = load_model(path)
    text = []
    if model.encoder is not None:
        text = [c["name"] for c in model.encoder.columns_ if c["kind"] == "category"]
    text = [c for c in text if c not in target]
    data = read_labelled(file, target, text=text, sep=sep, encoding=encoding, decimal=decimal)
    several = len(data.target) > 1
    if several != (model.task == "multilabel"):
        wanted = ", ".join(model.target) or "one column"
        raise ValueError(f"the model predicts {wanted}; --target names {len(data.target)}.")
    p, decided = model.predict_both(data.table)
    y = model.codes(data.y.to_numpy() if several else data.y)
    if several:
        return model.task, data.target, p, decided, y
    order = {c: i for i, c in enumerate(model.classes_.tolist())}
    codes = np.array([order[c] for c in decided.tolist()])
    classes = model.classes_.tolist()
    return model.task, classes, p[:, 1] if model.task == "binary" else p, codes, y


def _by_scores(
    file: Path,
    target: list[str],
    columns: list[str] | None,
    logits: bool,
    pos_label: str | None,
    **reading: Any,
) -> tuple[str, list[Any], Any, Any]:
    """Task, classes, probabilities and numbers of classes from a file with scores."""
    import numpy as np

    from softset.tables.files import expanded
    from softset.tables.labels import codes_and_classes

    data = read_labelled(file, target, **reading)
    several = len(data.target) > 1
    y, found = codes_and_classes(data.y.to_numpy() if several else data.y, pos_label)
    classes = data.target if found is None else found.tolist()
    task = "multilabel" if several else "binary" if len(classes) == 2 else "multiclass"
    used = expanded(columns or [], data.table.columns)
    if not used:
        used = [f"p_{c}" for c in classes]
        if task == "binary":
            used = used[1:]
        if any(n not in data.table.columns for n in used):
            raise ValueError(
                f"{file.name} has no column(s) {', '.join(used)}: say where the probabilities are "
                "with --scores COLUMN, or give --model."
            )
    wanted = 1 if task == "binary" else len(classes)
    if len(used) != wanted:
        raise ValueError(
            f"--scores names {len(used)} column(s), {wanted} expected: "
            + (
                f"the probability of {classes[1]!r}."
                if task == "binary"
                else f"one for each of {', '.join(map(str, classes))}, in this order."
            )
        )
    check_columns(file, data.table, used)
    p = np.column_stack([_numbers(file, name, data.table[name]) for name in used])
    p = _probabilities(p, task, logits, used)
    return task, classes, p[:, 0] if task == "binary" else p, y


def _numbers(file: Path, name: str, series: Any) -> Any:
    import numpy as np

    try:
        values = series.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{file.name}: column {name!r} must hold numbers (scores).") from None
    bad = np.flatnonzero(np.isnan(values))
    if len(bad):
        raise ValueError(
            f"{file.name}: the score {name!r} is missing in {len(bad)} row(s), the first is row "
            f"{bad[0] + 1}."
        )
    return values


def _probabilities(p: Any, task: str, logits: bool, names: list[str]) -> Any:
    import numpy as np
    import torch

    if logits:
        z = torch.from_numpy(p)
        return (torch.softmax(z, -1) if task == "multiclass" else torch.sigmoid(z)).numpy()
    outside = (p < 0) | (p > 1)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"probabilities must lie in [0, 1]; {names[column]!r} has {p[row, column]:g} in row "
            f"{row + 1}. If these are logits, say --logits."
        )
    if task == "multiclass":
        sums = p.sum(1)
        if (np.abs(sums - 1) > 0.01).any():
            row = int(np.abs(sums - 1).argmax())
            raise ValueError(
                f"the probabilities of a row must add up to 1, those of row {row + 1} give "
                f"{sums[row]:g}. If these are logits, say --logits."
            )
        return p / sums[:, None]
    return p


def _decided(p: Any, task: str, threshold: float) -> Any:
    from softset.checks import check_number

    if task == "multiclass":
        return p.argmax(1)
    check_number("threshold", threshold, 0, 1)
    return (p >= threshold).astype(int)


def _print_metrics(rows: list[dict[str, Any]], title: str, level: float) -> None:
    from rich.table import Table

    out = console()
    out.print(title, style="bold")
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column(f"{level:.0%} interval", justify="right")
    for row in rows:
        span = f"{row['low']:.4f} to {row['high']:.4f}"
        table.add_row(row["metric"], f"{row['value']:.4f}", span)
    out.print(table)


# --- tune-threshold -------------------------------------------------------------------------------


@app.command("tune-threshold")
def tune_threshold(
    file: DataFile,
    target: Target,
    metric: MetricName = "f1",
    scores: ScoreColumns = None,
    logits: Logits = False,
    pos_label: PosLabel = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    as_json: AsJson = False,
) -> None:
    """The best threshold for scores in a file.

    Every cut is tried.

    \b
    softset tune-threshold validation.csv --target churn --scores probability --metric f1

    Often this is all that is needed. Use rows that the model was not trained on. For several
    classes it gives offsets to add to the log-probabilities before the largest one is taken.
    """
    from softset.decisions.evaluation import evaluate as value_of
    from softset.decisions.offsets import best_offsets
    from softset.decisions.thresholds import best_threshold
    from softset.metrics.registry import get_metric

    m = get_metric(metric)
    task, classes, p, y = _by_scores(
        file, target, scores, logits, pos_label, sep=sep, encoding=encoding, decimal=decimal
    )
    given: Any = {"from_logits": False}
    before = value_of(p, y, m, task=task, **given)
    if task == "multiclass":
        found: Any = best_offsets(p, y, m, **given)
        after = value_of(p, y, m, task=task, offsets=found, **given)
    else:
        found = best_threshold(p, y, m, task=task, **given)
        after = value_of(p, y, m, task=task, threshold=found, **given)
    key = "offsets" if task == "multiclass" else "threshold"
    if as_json:
        facts = {"metric": m.name, "task": task, "classes": classes, "rows": len(y)}
        print_json({**facts, key: found, "value": after, "value_before": before})
        return
    default = "without" if task == "multiclass" else "at 0.5"
    if task == "binary":
        print(f"threshold for {m.name} of {classes[1]!r}: {found:.6g}")
    else:
        print(f"{key} for {m.name}:")
        for name, number in zip(classes, found, strict=True):
            print(f"  {name}: {number:.6g}")
    print(f"{m.name}: {after:.4f}, {default} {before:.4f} ({len(y)} rows, tuned on these)")
