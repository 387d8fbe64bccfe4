"""``softset report``: the page again, from the results of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softset.cli import app
from softset.cli.inputs import need


@app.command("report")
def run(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Of `softset compare`.")],
) -> None:
    """Write report.html again from a comparison.

    \b
    softset report adult-f1
    """
    need("jinja2")
    from softset.storage.files import check_writable

    path = directory / "comparison.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} holds no comparison.json; give a directory of `softset compare`."
        )
    check_writable(directory / "report.html", force=True)

    from softset.comparison.result import Comparison
    from softset.report import write_report

    write_report(Comparison.load(path), directory / "report.html")
    print(directory / "report.html")
