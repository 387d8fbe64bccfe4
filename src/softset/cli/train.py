"""``softset train``: one model, one file, and how good it is on rows that were held out."""

from __future__ import annotations

import shlex
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softset.classifiers.recipes import RECIPES, default_recipe
from softset.cli import app
from softset.cli import options as opt
from softset.cli.inputs import Labeled, check_files, need, read_labeled, split_values, stem
from softset.cli.on_disk import HeldOut, ranks_started, save_new, score_of, train_on_disk
from softset.cli.outputs import fresh_name, met_by_constant, print_json, say, say_notes, verbosity

if TYPE_CHECKING:
    from softset.classifiers.model import Model
    from softset.typing import Settings

_TREES = 200  # of a forest
_FOLDS = 5  # one of them is held out for the score


_RECIPES = ", ".join(f"{name} ({row.about})" for name, row in RECIPES.items())
_RECIPES += f". Default: {default_recipe(beyond_memory=False)}; for files beyond memory "
_RECIPES += f"{default_recipe(beyond_memory=True)}."


@app.command("train")
def run(
    file: opt.DataFiles,
    target: opt.Target,
    metric: opt.MetricName = "f1",
    recipe: Annotated[str | None, typer.Option(help=_RECIPES)] = None,
    output: opt.Output = None,
    force: opt.Force = False,
    pos_label: opt.PosLabel = None,
    time_limit: opt.TimeLimit = None,
    confidence: opt.Confidence = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Calibrate probabilities on out-of-fold scores. Decisions stay: a row is not "
            "flagged where its probability is above the threshold, but where its score is.",
        ),
    ] = False,
    sample_weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the rows' weights.")
    ] = None,
    drop: opt.Drop = None,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Train one model for a metric and save it.

    \b
    softset train data.csv --target churn --metric f1
    softset train data.parquet -t species -m balanced_accuracy --recipe forest-tuned

    Then it is trained once more on four fifths of the rows, to tell how good it is on the last.
    Which recipe is best on your data is what `softset compare` finds out.

    A Parquet file beyond memory, or a directory of such files, is read block by block (networks,
    boosting and linear models). Stopped, a network or linear model goes on by the same command;
    `torchrun --nproc-per-node 2 -m softset train ...` trains a linear model on several ranks.
    """
    started = time.monotonic()
    need("pandas")
    check_files(file, directory=file)
    from softset.storage.files import check_writable

    if output is not None:  # before anything heavy is imported
        check_writable(output, force, inputs=[file])
    from softset.tables.parquet_rows import ParquetRows, is_beyond_memory
    from softset.tables.reading import refuse_text_options

    recipe = recipe or default_recipe(is_beyond_memory(file))
    path = output or fresh_name(f"{stem(file)}-{recipe}.softset", force)
    check_writable(path, force, inputs=[file])

    import softset
    from softset.checks import check_choice
    from softset.classifiers.model import train_model
    from softset.metrics.registry import one_number

    one_number(metric)
    check_choice("recipe", recipe, RECIPES)
    parameters = RECIPES[recipe].make(metric, seed).get_params(deep=False)
    if "library" in parameters:
        need(parameters["library"])
    settings: Settings = {"recipe": recipe, "pos_label": pos_label, "random_state": seed}
    if time_limit is not None:
        if "time_limit" not in parameters:
            raise ValueError(
                f"--time-limit is for recipe ensemble, got recipe {recipe}. Leave it out."
            )
        settings["time_limit"] = time_limit
    if confidence is not None:
        from softset.decisions.promises import promisable

        promisable(metric)
        settings["confidence"] = confidence
    if calibrate:
        settings["calibrate"] = True
    if "verbose" in parameters:
        settings["verbose"] = verbosity()
    if ranks_started() > 1 and not (is_beyond_memory(file) and "sync" in parameters):
        raise ValueError(
            "several ranks (torchrun) train linear-tuned and linear-metric, from a directory "
            f"of Parquet files, got recipe {recipe} and {file.name}."
        )
    about = {"file": file.name, "softset": softset.__version__, "random_state": seed}
    if is_beyond_memory(file):
        refuse_text_options(file.name, sep, encoding, decimal)
        rows = ParquetRows(file, target, sample_weight=sample_weight, drop=drop or ())
        done = train_on_disk(rows, metric, path, force, about, settings)
        if done is not None:  # of several ranks the first tells
            _tell(done[0], path, done[1], rows.rows, len(rows.columns), as_json)
        return
    data = read_labeled(
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
        "drop": [*(drop or []), *split_values(drop), *([sample_weight] if sample_weight else [])],
        "rows": len(data.table),
        **about,
    }
    _check_memory(data, recipe)
    if time_limit is not None:  # the model that is saved, and the one that is scored: a half each
        settings["time_limit"] = _fraction_left(time_limit, started, 0.55)
    model = train_model(
        data.table, data.labels, metric, sample_weight=data.weight, info=info, **settings
    )
    save_new(model, path, force)
    if time_limit is not None:
        left = _fraction_left(time_limit, started, 0.95)
        settings["time_limit"] = min(settings["time_limit"], left)
    held_out = None
    if time_limit is not None and time.monotonic() - started > time_limit:
        say("softset: note: no time is left for a model of fewer rows, which gives the score.")
    else:
        held_out = _held_out(data, metric, settings)
    _tell(model, path, held_out, len(data.table), len(data.table.columns), as_json)


def _fraction_left(limit: float, started: float, fraction: float) -> float:
    """Seconds until the fraction of a time limit is over; some, at least, to fit a model in."""
    return float(f"{max(0.05 * limit, fraction * limit - (time.monotonic() - started)):.3g}")


def _check_memory(data: Labeled, recipe: str) -> None:
    """Raise ValueError if the scores of that many classes cannot fit into memory.

    Eight copies of the scores are counted, and in a forest one number of each class in every leaf.
    """
    import numpy as np

    from softset.tables.reading import free_memory

    rows = len(data.table)
    classes = len(np.unique(data.labels.astype(str))) if len(data.target) == 1 else 0
    trees = _TREES if recipe in ("forest-tuned", "ensemble") else 0
    size, free = 8 * rows * classes * (8 + trees), free_memory()
    if classes > 2 and size > free:
        other = "" if recipe.startswith("linear") else ", or choose --recipe linear-tuned"
        raise ValueError(
            f"{classes} classes of {rows} rows need about {size / 2**30:.0f} GB with --recipe "
            f"{recipe}, and {free / 2**30:.0f} GB are free. Merge rare classes, take a sample of "
            f"the rows{other}. Is the target a number or an identifier?"
        )


def _tell(
    model: Model, path: Path, held_out: HeldOut | None, rows: int, columns: int, as_json: bool
) -> None:
    """Print what was trained, and how good it is."""
    notes = model.encoder.notes_ if model.encoder is not None else []
    facts = {
        "model": str(path),
        "metric": model.metric,
        "recipe": model.info["recipe"],
        "task": model.task,
        "positive": model.positive or None,
        "classes": model.target if model.task.independent else model.classes_.tolist(),
        "threshold": model.threshold,
        "calibrated": model.classifier.calibrated_,
        "rows": rows,
        "columns": columns,
        "inputs": len(model.encoder.names_) if model.encoder is not None else None,
        "held_out": None if held_out is None else vars(held_out),
        "notes": notes,
    }
    decision = model.classifier.decision_
    if decision.promises:
        facts["promises"] = [str(promise) for promise in decision.promises]
    if decision.costs is not None:
        facts["costs"] = {**decision.costs.packed(), "sentence": str(decision.costs)}
    blend = getattr(model.classifier, "base_models_", None)
    if blend is not None:
        facts["base_models"] = {part.name: part.weight for part in blend}
        facts["left_out"] = model.classifier.left_out_
    if as_json:
        print_json(facts)
        return
    say_notes(notes)
    recipe, inputs = facts["recipe"], facts["inputs"]
    print(f"{path}: {recipe} for {model.metric}, {rows} rows, {inputs} inputs")
    print(model.positive or f"classes: {', '.join(map(str, facts['classes']))}")
    print(_decision(model) if decision.costs is None else decision.costs)
    for promise in decision.promises:
        print(promise)
    if blend is None and model.classifier.calibrated_:  # a summary has it anyway
        print(model.classifier._probabilities_in_words())
    if blend is not None:
        print(model.classifier.summary())
    if held_out is not None:
        print(
            f"{model.metric} on {held_out.rows} rows held out: {held_out.value:.3f} "
            f"[{held_out.low:.3f}, {held_out.high:.3f}], by a model of the other rows"
        )
        if note := met_by_constant(held_out.flagged, model.metric):
            say(f"softset: note: {note}")
    print(f"predict: softset predict {shlex.quote(str(path))} NEW_ROWS")


def _decision(model: Model) -> str:
    import numpy as np

    if model.task.exclusive:
        pairs = zip(model.classes_.tolist(), np.atleast_1d(model.threshold), strict=True)
        return "offsets of log-probabilities: " + ", ".join(f"{c} {o:+.3f}" for c, o in pairs)
    if model.task.independent:
        return "thresholds: " + ", ".join(f"{t:.4g}" for t in np.atleast_1d(model.threshold))
    return f"threshold: {model.threshold:.4g} (probability of {model.classes_[1]})"


def _held_out(data: Labeled, metric: str, settings: Settings) -> HeldOut | None:
    """The score of a model like the one that was saved, trained on four fifths of the rows.

    Equal rows stay on one side. ``None``, and a note, if a class has too few rows to be split.
    """
    import numpy as np

    from softset.classifiers.model import train_model
    from softset.comparison.data import check_dataset
    from softset.tables.splits import repeated_folds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # all were reported for the whole table
        try:
            table = check_dataset(
                data.table, data.y, None, settings["pos_label"], None, _FOLDS, "together"
            )
        except ValueError as error:
            say(f"softset: note: no rows are held out for a score: {error}")
            return None
        fold = repeated_folds(table.strata, table.groups, _FOLDS, 1, settings["random_state"])[0]
        train, test = np.flatnonzero(fold), np.flatnonzero(fold == 0)
        weight = None if data.weight is None else data.weight[train]
        model = train_model(
            data.table.iloc[train], data.labels[train], metric, sample_weight=weight, **settings
        )
        weight = None if data.weight is None else data.weight[test]
        return score_of(model, data.table.iloc[test], data.labels[test], weight)
