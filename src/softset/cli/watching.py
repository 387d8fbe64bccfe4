"""``softset evaluate --time``: is the model still as good, look by look?"""

from __future__ import annotations

from pathlib import Path

from softset.cli.inputs import ReadOptions, check_columns, check_files, need, options_of_model
from softset.cli.outputs import print_json, say


def over_time(
    file: Path,
    target: list[str] | None,
    model: Path | None,
    time: str,
    every: str | None,
    report: Path | None,
    force: bool,
    as_json: bool,
    sep: str | None,
    encoding: str | None,
    decimal: str,
) -> None:
    """Print what ``watch`` finds, and write its page."""
    if model is None:
        raise ValueError("--time needs --model: a model of `softset train` or `compare`.")
    need("pandas", *([] if report is None else ["jinja2"]))
    check_files(file, model)
    from softset.classifiers.model import load_model
    from softset.classifiers.watching import watch
    from softset.storage.files import check_writable
    from softset.tables.files import read_table
    from softset.tables.reading import expanded

    if report is not None:
        check_writable(report, force, inputs=[model, file])
    fitted = load_model(model)
    options: ReadOptions = {"sep": sep, "encoding": encoding, "decimal": decimal}
    options |= options_of_model(fitted)
    options["text"] = [name for name in options["text"] if name not in (target or [])]
    frame = read_table(file, labels=target or [], **options)
    names = expanded(target or [], frame.columns)
    check_columns(file, frame, [*names, time])
    labels = None
    if names:
        several = len(names) > 1
        expected = fitted.target if several else names
        if several != fitted.task.independent or sorted(expected) != sorted(names):
            raise ValueError(
                f"the model predicts {', '.join(fitted.target) or 'one column'}; --target names "
                f"{', '.join(names)}."
            )
        labels = frame[expected] if several else frame[names[0]]
    encoder = fitted.encoder
    used = set() if encoder is None else {column.name for column in encoder.columns_}
    rows = frame.drop(columns=[*names, *([] if time in used else [time])])
    watched = watch(fitted, rows, labels, time=frame[time].to_numpy(), every=every)
    if report is not None:
        from softset.report.watch import write_watch

        write_watch(watched, report, file.name)
    if as_json:
        print_json(watched.to_dict())
        return
    print(watched)
    if report is not None:
        say(f"softset: {report} shows it over time")
