"""``softset paper``: list, run and show the papers' tables."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from softset_papers.results import Record

paper = typer.Typer(
    name="paper",
    help="The papers' tables: our numbers beside the published ones.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Output = Annotated[Path, typer.Option("--output", help="Directory of results.")]
Protocol = Annotated[
    str, typer.Option("--protocol", help="How networks are judged: fair, published or code.")
]
DEFAULT = Path("paper-results")


@paper.command("list")
def list_tables() -> None:
    """Print every table and theorem that can be run."""
    from softset_papers.tables import all_tables

    tables = all_tables().values()
    width = max(len(table.id) for table in tables) + 2
    for table in tables:
        typer.echo(f"{table.id:<{width}}{table.title}")


@paper.command("run")
def run(
    id: Annotated[str, typer.Argument(metavar="ID", help="A table, such as 000-table-1.")],
    trials: Annotated[
        int | None, typer.Option(help="Networks for each row [the table's, mostly 10].")
    ] = None,
    protocol: Protocol = "fair",
    quick: Annotated[bool, typer.Option("--quick", help="Few rows and epochs: try it.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory with the data sets [$SOFTSET_DATA].")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at once [all cores].")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from earlier results.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Forget earlier results of these rows first.")
    ] = False,
    output: Output = DEFAULT,
    row: Annotated[
        list[str] | None, typer.Option("--row", help="Only this row (may be repeated).")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="Only this set (may be repeated).")
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(help="At most so many epochs.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="As the paper, where our default is less (days).")
    ] = False,
) -> None:
    """Run a table and write it as Markdown and HTML.

    Rows that take hours (the adversarial one) are run only when --row names them.
    """
    from softset.checks import check_choice
    from softset_papers.judging import PROTOCOLS
    from softset_papers.runner import Effort, run_table
    from softset_papers.tables import find_table

    table = find_table(id)
    check_choice("protocol", protocol, PROTOCOLS)
    effort = Effort.quick() if quick else Effort(trials, max_epochs, full=full)
    if full:
        typer.echo(f"As the paper; what this lacks: {table.lacking}.", err=True)
    done = run_table(
        table,
        output,
        data_dir=data_dir,
        effort=effort,
        rows=row,
        datasets=dataset,
        resume=resume,
        again=again,
        jobs=jobs,
        progress=_progress,
    )
    failed = [r for r in done.records if r is not None and "error" in r]
    _write(id, output, protocol)
    typer.echo(f"spent: {done.cpu / 60:.1f} core-minutes on {done.runs} runs", err=True)
    if failed:
        first = failed[0]["error"].partition(": ")[2]
        raise ValueError(
            f"{len(failed)} of {len(done.records)} runs failed, the first with: {first}"
        )


@paper.command("show")
def show(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A table; all that were run if left out.")
    ] = None,
    protocol: Protocol = "fair",
    output: Output = DEFAULT,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page here.")] = None,
) -> None:
    """Print tables from results, published values beside measured ones."""
    from softset_papers.pages.layout import to_html, to_markdown
    from softset_papers.pages.summary import summarize
    from softset_papers.results import read_records
    from softset_papers.tables import all_tables, find_table

    records = read_records(output)
    tables = [find_table(id)] if id is not None else list(all_tables().values())
    found = [summarize(table, records, protocol) for table in tables]
    found = [s for s in found if id is not None or s.records]
    if not found:
        raise ValueError(f"{str(output)!r} holds no results. Run a table: softset paper run ID.")
    if html is not None:
        html.write_text(to_html(found), encoding="utf-8")
        typer.echo(f"wrote {html}")
        return
    typer.echo("\n".join(to_markdown(summary) for summary in found))


@paper.command("verdicts")
def verdicts(output: Output = DEFAULT) -> None:
    """Print the rule, and for every claim of the papers its verdict and the numbers behind it."""
    from softset_papers.verdicts.claims import judge_claims
    from softset_papers.verdicts.page import to_text

    typer.echo(to_text(judge_claims(_records(output))))


@paper.command("pages")
def pages(
    docs: Annotated[Path, typer.Argument(metavar="DOCS", help="Directory of Markdown pages.")],
    output: Output = DEFAULT,
) -> None:
    """Renew tables, verdicts and figures of the pages in DOCS from results."""
    from softset_papers.pages.pictures import draw_pictures
    from softset_papers.pages.places import fill_in
    from softset_papers.verdicts.claims import judge_claims

    records = _records(output)
    judged = judge_claims(records)
    if not docs.is_dir():
        raise ValueError(f"DOCS must be a directory of Markdown pages, got {str(docs)!r}.")
    for page in sorted(docs.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = fill_in(text, records, judged)
        if new != text:
            page.write_text(new, encoding="utf-8")
            typer.echo(f"wrote {page}")
    for name, svg in draw_pictures(records, judged).items():
        (output / f"{name}.svg").write_text(svg, encoding="utf-8")
        typer.echo(f"wrote {output / name}.svg")


@paper.command("stale")
def stale(output: Output = DEFAULT) -> None:
    """Print the rows whose results are to be run again, why, and by which command.

    That is: rows of earlier settings, and rows whose loss has changed by more than 1e-6 since.
    """
    from softset_papers.pages.summary import stale_rows
    from softset_papers.tables import all_tables

    records = _records(output)
    found = stale_rows(list(all_tables().values()), records)
    for row in found:
        typer.echo(f"{row.table.id}, {row.block.title}, {row.row.label}: {row.why}")
        typer.echo(f"    {row.command}")
    if not found:
        typer.echo(f"{len(records)} runs, none of them stale")


def _records(output: Path) -> list[Record]:
    """The results, of which there must be some."""
    from softset_papers.results import read_records

    records = read_records(output)
    if not records:
        raise ValueError(f"{str(output)!r} holds no results. Run a table: softset paper run ID.")
    return records


def _write(id: str, output: Path, protocol: str) -> None:
    from softset_papers.pages.layout import to_html, to_markdown
    from softset_papers.pages.summary import summarize
    from softset_papers.results import read_records
    from softset_papers.tables import find_table

    summary = summarize(find_table(id), read_records(output), protocol)
    text = to_markdown(summary)
    (output / f"{id}-{protocol}.md").write_text(text, encoding="utf-8")
    (output / f"{id}-{protocol}.html").write_text(to_html([summary], id), encoding="utf-8")
    figures = summary.figures()
    for number, figure in enumerate(figures, 1):
        name = id if len(figures) == 1 else f"{id}-{number}"
        (output / f"{name}.svg").write_text(figure, encoding="utf-8")
    typer.echo(text)


def _progress(done: int, total: int, left: float) -> None:
    rest = "" if math.isnan(left) else f", about {left / 60:.0f} minutes left"
    print(f"{done} of {total} runs{rest}", file=sys.stderr)
