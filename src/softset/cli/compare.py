"""``softset compare``: the honest answer on a table, with a report and the best model."""

from __future__ import annotations

import contextlib
import csv
import io
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softset.cli import app, command_line, reported
from softset.cli import options as opt
from softset.cli.inputs import check_columns, check_files, need, read_labeled, split_values, stem
from softset.cli.outputs import Progress, console, fresh_name, print_json, say, say_notes
from softset.formats import seconds

if TYPE_CHECKING:
    from types import EllipsisType

    from rich.console import Console
    from rich.text import Text

    from softset.comparison.data import Class
    from softset.comparison.result import CandidateResult, Comparison
    from softset.typing import JSON, Array, Frame, Labels

# What a comparison leaves in its directory.
FILES = ("report.html", "comparison.json", "comparison.csv", "model.softset", "runs.jsonl")


@app.command("compare")
def run(
    file: opt.DataFile,
    target: opt.Target,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            help="Metric to optimize: f1 by default, f2, mcc, auroc, … Several (f1,mcc) are one "
            "comparison each.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where report, tables and model go."),
    ] = None,
    force: opt.Force = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue an interrupted comparison, in --output or the default directory.",
        ),
    ] = False,
    confidence: Annotated[
        float | None,
        typer.Option(help="Keep the constraint of the metric on new rows so surely, e.g. 0.95."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer splits, smaller models.")] = False,
    time_limit: opt.TimeLimit = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Rows of one group stay on one side of every split."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="COLUMN", help="Dates or numbers: train on earlier rows, test later."
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            metavar="COLUMN",
            help="Scores of your model, which was not trained on these rows, as a candidate.",
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option("--candidate", metavar="NAME", help="Only these, e.g. warm,boosting-tuned."),
    ] = None,
    cv: Annotated[int, typer.Option(help="Folds of each repeat.")] = 5,
    repeats: Annotated[int | None, typer.Option(help="How often to divide the rows.")] = None,
    pos_label: opt.PosLabel = None,
    drop: opt.Drop = None,
    sep: opt.Sep = None,
    encoding: opt.Encoding = None,
    decimal: opt.Decimal = ".",
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    backend: Annotated[
        str | None, typer.Option(help="A joblib backend: loky, threading, dask, ray, …")
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare ways to get the best metric on your data, and the gain of each stage.

    Prints a verdict, and writes a report and the best model.

    \b
    softset compare data.csv --target churn --metric f1
    softset compare data.parquet -t income -m f1 --quick --output adult
    softset compare data.csv -t label --groups patient --time-limit 10m
    softset compare data.csv -t churn --time date --scores old_model
    softset compare data.csv -t sports,politics --metric f1_macro
    softset compare data.csv -t churn -m "precision@recall>=0.9" --confidence 0.95
    softset compare data.csv -t churn --output adult --resume

    Models at the default threshold (0.5), the same with tuned thresholds, models trained for the
    metric, and their ensemble are compared on the same repeated splits. The winner is fitted again
    on all rows.
    """
    need("pandas", "jinja2", *([] if as_json else ["rich"]))
    check_files(file)
    if force and resume:
        raise ValueError("--force starts again and --resume continues: pass one of them.")
    check_directory(output, file, force=force, resume=resume)

    from softset.metrics.registry import one_number

    chosen = {m: one_number(m).name for m in split_values(metric) or ["f1"]}
    places = {}
    for m, name in chosen.items():
        usual = f"{stem(file)}-{name}"
        inside = output if output is None or len(chosen) == 1 else output / name
        places[m] = inside or (Path(usual) if resume else fresh_name(usual, force))
        check_directory(places[m], file, force=force, resume=resume)
    data = read_labeled(
        file, target, groups=groups, drop=drop, sep=sep, encoding=encoding, decimal=decimal
    )
    given_scores = split_values(scores)
    check_columns(file, data.table, [*given_scores, *([time] if time else [])])
    apart = data.table[[*given_scores, *([time] if time else [])]]
    data.table = data.table.drop(columns=list(apart.columns))
    wanted: list[str | EllipsisType | tuple[str, Array]] = [*split_values(candidates)]
    if given_scores and not wanted:
        wanted = [...]
    wanted += [(name, apart[name].to_numpy()) for name in given_scores]
    info = {"target": data.target, "groups": groups, "file": file.name}
    info["drop"] = [*(drop or []), *split_values(drop)]
    documents = []
    for m, directory in places.items():
        shape = f"{len(data.table)} rows, {len(data.table.columns)} columns"
        result = compared(
            data.table,
            data.y,
            directory,
            intro="" if as_json else f"{file.name}: {shape}; results go to {directory}/",
            again=_again(directory, output, len(places)),
            metric=m,
            groups=data.groups,
            times=None if time is None else apart[time],
            pos_label=_as_label(pos_label, data.y),
            confidence=confidence,
            quick=quick,
            time_limit=time_limit,
            random_state=seed,
            n_jobs=jobs,
            backend=backend,
            resume=resume,
            candidates=wanted or None,
            command=shlex.join(["softset", *command_line]),
            file=file.name,
            cv=cv,
            repeats=repeats,
        )
        write(result, directory, info)
        if as_json:
            documents.append(_brief(result, directory))
        else:
            tell(result, directory)
    if as_json:
        print_json(documents[0] if len(documents) == 1 else documents)


def _as_label(label: str | None, y: Labels) -> Class | None:
    """The class of that text: a number if the labels are numbers."""
    if label is None or hasattr(y, "columns"):
        return label
    import numpy as np

    return {str(c): c for c in dict.fromkeys(np.asarray(y).tolist())}.get(label, label)


def check_directory(
    directory: Path | None, file: Path | None, *, force: bool, resume: bool
) -> None:
    """Raise, before the work, if the results cannot or must not be written there."""
    from softset.storage.files import check_writable

    if directory is None:
        return
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; --output must name a directory.")
    existing = [name for name in FILES if (directory / name).exists()]
    if existing and not force and not resume:
        again = ", --resume to continue it" if file is not None else ""
        raise ValueError(
            f"{directory} holds a comparison already ({existing[0]}). Pass --force to replace it"
            f"{again}, or choose another --output."
        )
    if directory.is_dir():
        for name in FILES:
            check_writable(directory / name, force=True, inputs=[file] if file else [])
        return
    parent = next(p for p in directory.absolute().parents if p.exists())
    check_writable(parent / directory.name, force=True)  # the directory can be created


def _again(directory: Path, output: Path | None, metrics: int) -> str:
    """The command that continues this one."""
    words = [word for word in command_line if word not in ("--force", "--resume")]
    named = output is not None or metrics > 1  # several have a directory each
    return shlex.join(
        ["softset", *words, *([] if named else ["--output", str(directory)]), "--resume"]
    )


def compared(
    table: Frame,
    y: Labels,
    directory: Path,
    *,
    resume: bool,
    intro: str = "",
    again: str = "",
    **options: Any,
) -> Comparison:
    """``softset.compare`` with a progress line and its fits stored in ``directory``; if it is
    stopped, ``again`` is the command that continues it."""
    from softset.comparison.comparing import compare

    runs, fresh = directory / "runs.jsonl", not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    progress = Start("comparing", intro, [] if resume else [directory / name for name in FILES])
    try:
        with progress:
            return compare(
                table, y, directory=directory, resume=resume, progress=progress, **options
            )
    except (KeyboardInterrupt, SystemExit):  # SIGTERM
        if again and progress.done:
            stored = f"{progress.done} of {progress.total} fits are stored in {runs}"
            say(f"softset: stopped; {stored}. To continue: {again}")
        raise
    except ValueError:
        if fresh and not runs.exists():  # nothing was fitted: leave nothing behind
            runs.with_name("runs.jsonl.lock").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise


class Start(Progress):
    """Progress that removes files of an earlier comparison when the arguments of this one are
    checked: stopped, it must not leave a report and a model of another."""

    def __init__(self, what: str, intro: str, old: list[Path]) -> None:
        super().__init__(what, intro)
        self.old = old

    def __call__(self, done: int, total: int, seconds_left: float) -> None:
        """Remove the old files at the first call."""
        from softset.storage.files import locked

        old, self.old = [path for path in self.old if path.exists()], []
        if old:
            with locked(old[0].with_name("runs.jsonl")):
                for path in old:
                    path.unlink()
        super().__call__(done, total, seconds_left)


def write(result: Comparison, directory: Path, info: Mapping[str, JSON]) -> None:
    """Write report, tables and model, each whole or not at all."""
    from softset.report import write_report
    from softset.storage.files import write_safely

    result.save(directory / "comparison.json")
    rows = as_csv(result.candidates)
    write_safely(directory / "comparison.csv", lambda t: t.write_text(rows, encoding="utf-8"))
    if result.model is not None:
        result.model.save(directory / "model.softset", **info)
    write_report(result, directory / "report.html")


def as_csv(candidates: Iterable[CandidateResult]) -> str:
    """The table of candidates, with nothing in it that a spreadsheet would run."""
    from softset.tables.guards import guarded_rows

    keys = ("mean", "low", "high", "rank")
    paired = ("mean", "low", "high", "p", "p_adjusted", "probability")
    head = ["candidate", "name", "family", "stage", *keys]
    head += [*(f"difference_{k}" for k in paired), "seconds", "size"]
    rows: list[list[object]] = [list(head)]
    for c in candidates:
        gap = {} if c.difference is None else asdict(c.difference)
        numbers = [getattr(c, k) for k in keys] + [gap.get(k) for k in paired]
        rows.append([c.id, c.name, c.family, c.stage, *numbers, c.seconds, c.size])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(guarded_rows(rows))
    return out.getvalue()


# --- on the terminal ------------------------------------------------------------------------------


def _brief(result: Comparison, directory: Path) -> dict[str, JSON]:
    left_out = ("predictions", "history", "checksum")
    brief = {k: v for k, v in result.to_dict().items() if k not in left_out}
    files = {n.split(".")[0]: str(directory / n) for n in FILES if (directory / n).exists()}
    return {"output": str(directory), "files": files, **brief}


def tell(result: Comparison, directory: Path) -> None:
    """Print the verdict, the table, and the names of the files."""
    say_notes(result.data.notes)
    show(result)
    print(f"\nreport: {directory / 'report.html'}")
    if result.model is None:
        print("model:  none: your scores are the best, see the table for their threshold")
        return
    print(f"model:  {directory / 'model.softset'}, fitted on {result.data.refitted} rows")
    print(f"        softset predict {shlex.quote(str(directory / 'model.softset'))} NEW_ROWS")


_COLORS = {"significant": "green", "stay": "yellow"}


def show(result: Comparison) -> None:
    """Print the verdict, the stages, then the candidates, as wide as the terminal allows."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    color = _COLORS.get(result.outcome, "cyan")
    if result.positive_line:
        out.print(Text(result.positive_line, style="dim"))
    out.print(Text(result.verdict, style=f"bold {color}"))
    if result.advice:
        out.print(Text(result.advice))
    out.print()
    has_stages = _show_stages(result, out)
    measure = result.metric if len(result.metric) <= 6 else "mean"
    # The name of a candidate and the least width of the terminal at which a column is shown.
    columns = [("", 0), ("candidate", 0), (measure, 0), ("95 % interval", 70), ("difference", 50)]
    wider = 40 if any(c.operating for c in result.candidates) else 0
    columns += [("95 % interval", 98 + wider), ("p", 105 + wider), ("p adj.", 113 + wider)]
    columns += [("rank", 119 + wider)]
    columns += [("at its threshold", 100), ("broken", 60), ("fit", 70)]
    rows = [_row(c, result) for c in result.candidates]
    # A single split has neither intervals nor p.
    filled = [
        k
        for k, (_, width) in enumerate(columns)
        if out.width >= width and any(str(row[k]) for row in rows)
    ]
    names = [columns[k][0] for k in filled]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        text = name in ("", "candidate")
        table.add_column(name, justify="left" if text else "right", no_wrap=name != "candidate")
    for c, row in zip(result.candidates, rows, strict=True):
        bold = "bold" if c.id == result.winner else None
        table.add_row(*(row[k] for k in filled), style=bold)
    out.print(table)
    out.print()
    same = result.winner == result.reference
    lines = [
        "* winner (differences are to it)"
        if same
        else "* winner, = reference (differences are to it)"
    ]
    if "p" in names:
        tests = sum(c.difference is not None for c in result.candidates)
        lines.append(f"p is of that pair alone, p adj. is corrected for {tests} such tests (Holm)")
    if "broken" in names:
        lines.append("at its threshold: what the tuned threshold gave on test rows; broken: splits")
    if has_stages:
        lines.append("the verdict uses the stages above, which are corrected among themselves")
    if result.costs is not None:
        lines.append(f"the saved model: {result.costs.sentence}")
    if result.promise:
        lines.append(f"promise of the saved model: {result.promise}")
    if result.importances:
        lines.append(result.importances_note())
    for line in (*lines, f"{result.splits.note}; {seconds(result.duration)}"):
        out.print(Text(line, style="dim"))
    for warning in result.warnings:
        if warning not in reported:
            out.print(Text(f"note: {warning}", style="dim"))


def _show_stages(result: Comparison, out: Console) -> bool:
    """Print the stages; whether there is more than one."""
    from rich.table import Table
    from rich.text import Text

    from softset.comparison.result import significance, span

    if len(result.gains.stages) < 2:
        return False
    names = {c.id: c.name for c in result.candidates}
    measure = result.metric if len(result.metric) <= 6 else "mean"
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [("stage", 0), ("best so far", 70), (measure, 0), ("gain", 0)]
    columns += [("95 % interval", 90), ("", 60)]
    shown = [k for k, (_, width) in enumerate(columns) if out.width >= width]
    for k in shown:
        name = columns[k][0]
        right, wraps = name in (measure, "gain", "95 % interval"), name in ("stage", "best so far")
        table.add_column(name, justify="right" if right else "left", no_wrap=not wraps)
    rows = [(s.name, names[s.choice], f"{s.mean:.3f}", s.gain) for s in result.gains.stages]
    rows.append(("all stages", "", "", result.gains.total))
    for name, choice, mean, gain in rows:
        cells = ["", "", ""]
        if gain is not None:
            cells = [f"{gain.mean:+.3f}", span(gain.low, gain.high, "+"), significance(gain)]
        style = "bold" if gain is not None and gain.significant else None
        row: list[str | Text] = [Text(name), Text(choice), mean, *cells]
        table.add_row(*(row[k] for k in shown), style=style)
    out.print(table)
    out.print(Text(result.stages_note(), style="dim"))
    out.print()
    return True


def _row(c: CandidateResult, result: Comparison) -> list[str | Text]:
    from rich.text import Text

    from softset.comparison.result import span

    mark = {result.reference: "=", result.winner: "*"}.get(c.id, "")
    if c.mean is None:
        return [mark, Text(f"{c.name}: {c.error[:60]}", style="red"), *[""] * 10]
    d = c.difference
    cells: list[str | Text] = [mark, Text(c.name), f"{c.mean:.3f}", span(c.low, c.high)]
    cells += [f"{d.mean:+.3f}", span(d.low, d.high, "+")] if d else ["", ""]
    cells += [f"{d.p:.3f}", f"{d.p_adjusted:.3f}"] if d and d.low is not None else ["", ""]
    cells += ["" if c.rank is None else f"{c.rank:.1f}"]
    point = c.operating
    if point is None:
        cells += ["", ""]
    else:
        rates = [f"{point.metric:.3f}", *(f"{name} {v:.3f}" for name, v in point.rates.items())]
        cells += [", ".join(rates), f"{point.broken}/{result.splits.count}"]
    return [*cells, "" if c.seconds is None else f"{c.seconds:.1f} s"]
