"""``compare``, ``report`` and ``demo``: the honest answer on a table, and its page."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from softset.cli import app, given, said
from softset.cli.common import (
    AsJson,
    DataFile,
    Decimal,
    Drop,
    Encoding,
    Force,
    MetricName,
    PosLabel,
    Progress,
    Seed,
    Sep,
    Target,
    console,
    duration,
    fresh_name,
    names,
    print_json,
    read_labelled,
    say,
)

# What a comparison leaves in its directory.
FILES = ("report.html", "comparison.json", "comparison.csv", "model.softset", "runs.jsonl")


@app.command()
def compare(
    file: DataFile,
    target: Target,
    metric: MetricName = "f1",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where report, tables and model go."),
    ] = None,
    force: Force = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted comparison in --output.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer splits, smaller models.")] = False,
    budget: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="Stop starting runs after this time.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Rows of one group stay on one side of every split."),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option("--candidate", metavar="NAME", help="Only these, e.g. warm,boosting-tuned."),
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Parts that each repeat is cut into.")] = None,
    repeats: Annotated[int | None, typer.Option(help="How often the rows are cut anew.")] = None,
    pos_label: PosLabel = None,
    drop: Drop = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(help="Runs at once; all cores if left out.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="A joblib backend: loky, threading, dask, ray, …")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Is training on the metric worth it on your data?

    A verdict, a report to look at, and the best model.

    \b
    softset compare data.csv --target churn --metric f1
    softset compare data.parquet -t income -m f1 --quick --output adult
    softset compare data.csv -t label --groups patient --budget 10
    softset compare data.csv -t sports,politics --metric f1_macro
    softset compare data.csv -t churn --output adult --resume

    Cross-entropy, gradient boosting and a random forest, with tuned thresholds, compete with
    training on the metric, on the same repeated splits. The winner is fitted again on all rows.
    """
    from softset.metrics.registry import get_metric

    chosen = get_metric(metric)
    usual = f"{file.name.split('.')[0]}-{chosen.name}"
    directory = output or (Path(usual) if resume else fresh_name(usual))
    _check_directory(directory, force=force, resume=resume)
    data = read_labelled(
        file, target, groups=groups, drop=drop, sep=sep, encoding=encoding, decimal=decimal
    )
    shape = f"{len(data.table)} rows, {len(data.table.columns)} columns"
    intro = "" if as_json else f"{file.name}: {shape}; results go to {directory}/"
    options = {} if folds is None else {"folds": folds}
    options |= {} if repeats is None else {"repeats": repeats}
    result = _compared(
        data.table,
        data.y,
        directory,
        intro=intro,
        metric=metric,
        groups=data.groups,
        pos_label=_as_label(pos_label, data.y),
        quick=quick,
        budget=budget,
        seed=seed,
        jobs=jobs,
        backend=backend,
        resume=resume,
        candidates=_split(candidates),
        command=shlex.join(["softset", *given]),
        file=file.name,
        **options,
    )
    info = {"target": data.target, "groups": groups, "drop": names(drop), "file": file.name}
    _write(result, directory, info)
    _tell(result, directory, as_json)


def _split(given: list[str] | None) -> list[str] | None:
    return [part.strip() for item in given for part in item.split(",")] if given else None


def _as_label(given: str | None, y: Any) -> Any:
    """A class as the file has it: ``1`` is a number where labels are numbers."""
    if given is None or hasattr(y, "columns"):
        return given
    return {str(c): c for c in dict.fromkeys(y.tolist())}.get(given, given)


def _check_directory(directory: Path, *, force: bool, resume: bool) -> None:
    if force and resume:
        raise ValueError("--force starts anew and --resume goes on: give one of them.")
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; --output must name a directory.")
    there = [name for name in FILES if (directory / name).exists()]
    if there and not force and not resume:
        raise ValueError(
            f"{directory} holds a comparison already ({there[0]}). Say --force to replace it, "
            "--resume to go on with it, or choose another --output."
        )


def _compared(
    table: Any, y: Any, directory: Path, *, resume: bool, intro: str = "", **options: Any
) -> Any:
    from softset.comparison.comparing import compare as run

    runs, fresh = directory / "runs.jsonl", not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    if not resume and runs.exists():  # --force
        from softset.storage.files import locked

        with locked(runs):
            runs.unlink()
    try:
        with Progress("comparing", intro) as progress:
            return run(table, y, directory=directory, resume=resume, progress=progress, **options)
    except ValueError:
        if fresh and not runs.exists():  # nothing was done: leave nothing behind
            runs.with_name("runs.jsonl.lock").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise


def _write(result: Any, directory: Path, info: dict[str, Any]) -> None:
    """Report, tables and model, each whole or not at all."""
    from softset.storage.files import write_safely

    document = result.to_dict()
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, default=str)
    write_safely(directory / "comparison.json", lambda t: t.write_text(text, encoding="utf-8"))
    rows = _csv(document)
    write_safely(directory / "comparison.csv", lambda t: t.write_text(rows, encoding="utf-8"))
    result.model.save(directory / "model.softset", **info)
    _render(document, directory)


def _render(document: dict[str, Any], directory: Path) -> None:
    from softset.report import write_report

    write_report(document, directory / "report.html")


def _csv(document: dict[str, Any]) -> str:
    import csv
    import io

    from softset.tables.files import guarded_rows

    keys = ("mean", "low", "high", "rank")
    paired = ("mean", "low", "high", "p", "p_adjusted", "probability")
    head = ["candidate", "name", "family", *keys, *(f"difference_{k}" for k in paired), "seconds"]
    rows: list[list[Any]] = [head]
    for c in document["candidates"]:
        gap = c.get("difference") or {}
        named = [c["id"], c["name"], c["family"]]
        numbers = [c.get(k) for k in keys] + [gap.get(k) for k in paired] + [c.get("seconds")]
        rows.append([*named, *numbers])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(guarded_rows(rows))
    return out.getvalue()


# --- on the terminal ------------------------------------------------------------------------------


def _tell(result: Any, directory: Path, as_json: bool) -> None:
    document = result.to_dict()
    if as_json:
        left_out = ("predictions", "history")
        brief = {k: v for k, v in document.items() if k not in left_out}
        print_json({"output": str(directory), "files": _present(directory), **brief})
        return
    for note in document["data"].get("notes") or []:
        if "missing value(s)" in note:  # the rest has been said as a warning
            say(f"softset: note: {note}")
    show(document)
    print(f"\nreport: {directory / 'report.html'}")
    print(f"model:  {directory / 'model.softset'}")


def _present(directory: Path) -> dict[str, str]:
    return {n.split(".")[0]: str(directory / n) for n in FILES if (directory / n).exists()}


def show(document: dict[str, Any]) -> None:
    """The verdict, then the candidates, as wide as there is room."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    colour = {"metric": "green", "plain": "yellow"}.get(document["outcome"], "cyan")
    out.print(Text(document["verdict"], style=f"bold {colour}"))
    out.print()
    measure = document["metric"] if len(document["metric"]) <= 6 else "mean"
    columns = ["", "candidate", measure, "95 % interval", "difference"]
    for name, width in (("95 % interval", 98), ("p", 106), ("rank", 112)):
        columns += [name] if out.width >= width else []
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in [*columns, "fit"]:
        text = name in ("", "candidate")
        table.add_column(name, justify="left" if text else "right", no_wrap=name != "candidate")
    for c in document["candidates"]:
        bold = "bold" if c["id"] == document["winner"] else None
        table.add_row(*_row(c, document, len(columns)), style=bold)
    out.print(table)
    splits = document["splits"]
    made = splits.get("note") or f"{splits['folds']} folds, {splits['repeats']} repeats"
    out.print()
    key = "* winner, = reference (the best that is not trained on the metric; differences to it)"
    took = duration(document.get("duration") or 0)
    for line in (key, f"{made}; {took}"):
        out.print(Text(line, style="dim"))
    for warning in document.get("warnings") or []:
        if warning not in said:
            out.print(Text(f"note: {warning}", style="dim"))


def _row(c: dict[str, Any], document: dict[str, Any], columns: int) -> list[Any]:
    from rich.text import Text

    mark = {document["reference"]: "=", document["winner"]: "*"}.get(c["id"], "")
    if c.get("error") or c.get("mean") is None:
        reason = (c.get("error") or "no run was finished")[:60]
        return [mark, Text(f"{c['name']}: {reason}", style="red"), *[""] * (columns - 1)]
    gap = c.get("difference") or {}
    p = gap.get("p_adjusted", gap.get("p"))
    cells = [
        mark,
        Text(c["name"]),
        _number(c["mean"]),
        _span(c["low"], c["high"]),
        _number(gap.get("mean"), "+"),
        _span(gap.get("low"), gap.get("high"), "+"),
        _number(p),
        "" if c.get("rank") is None else f"{c['rank']:.1f}",
    ]
    seconds = c.get("seconds")
    return [*cells[:columns], "" if seconds is None else f"{seconds:.1f} s"]


def _number(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.3f}"


def _span(low: float | None, high: float | None, sign: str = "") -> str:
    return "" if low is None or high is None else f"[{low:{sign}.3f}, {high:{sign}.3f}]"


# --- report ---------------------------------------------------------------------------------------


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Of `softset compare`.")],
) -> None:
    """Write report.html again from a comparison.

    \b
    softset report adult-f1
    """
    path = directory / "comparison.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} holds no comparison.json; give a directory of `softset compare`."
        )
    document = read_comparison(path)
    _render(document, directory)
    print(directory / "report.html")


def read_comparison(path: Path) -> dict[str, Any]:
    """The results in ``comparison.json``; an error if it is not that."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeError) as error:
        raise ValueError(f"{path} is damaged: no JSON ({error}).") from None
    needed = ("format", "metric", "verdict", "candidates", "data")
    if not isinstance(document, dict) or any(key not in document for key in needed):
        raise ValueError(f"{path} is no comparison of softset: {', '.join(needed)} expected.")
    if document["format"] != 1:
        raise ValueError(
            f"{path} is in format {document['format']!r}, 1 is expected. Read it with the version "
            "that wrote it."
        )
    return document


# --- demo -----------------------------------------------------------------------------------------


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the reports go.")
    ] = Path("softset-demo"),
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(help="Runs at once; all cores if left out.")] = None,
) -> None:
    """Compare on two built-in sets, in two minutes.

    \b
    softset demo
    """
    from softset.tables.synthetic import load_synthetic

    x, y = load_synthetic()
    sets = [
        ("breast-cancer", "Breast cancer: 569 tumours, 30 measurements", *_breast_cancer()),
        ("synthetic", f"Synthetic: {len(y)} rows, 5 % positives", _as_frame(x), y),
    ]
    for name, title, table, labels in sets:
        directory = output / name
        print(f"{title}\n{'=' * len(title)}")
        result = _compared(
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
        _write(result, directory, {"file": name})
        _tell(result, directory, as_json=False)
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
