"""``softset datasets``: the papers' sets, what they are and where to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

IMAGES = {
    "cifar-10": "60,000 images, 10 classes (equitability 1); www.cs.toronto.edu/~kriz/cifar.html",
    "cifar-10-transportation": "airplane, automobile, ship, truck against the rest, 40 %",
    "cifar-10-frog": "frog against the rest, 10 %",
    "fashion-mnist": "70,000 images, 10 classes, MIT; github.com/zalandoresearch/fashion-mnist",
    "caltech-256": "30,607 images, 257 classes (equitability 0.87); data.caltech.edu, 20087",
}


def datasets(
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory with the data sets [$SOFTSET_DATA].")
    ] = None,
    download: Annotated[
        str | None, typer.Option(metavar="NAME", help="Fetch a set into --data-dir.")
    ] = None,
) -> None:
    """List the papers' data sets: rows, positives, balance, licence, origin."""
    import os

    from softset_papers.datasets.papers import PAPER_SETS, data_directory, has_files

    if download is not None:
        if data_dir is None:
            raise ValueError("--download needs --data-dir, the directory to write to.")
        if download in ("cifar-10", "fashion-mnist"):
            from softset_papers.datasets.images_download import download_images

            for path in download_images(download, data_dir):
                typer.echo(f"wrote {path}")
            return
        from softset_papers.datasets.download import download_paper_set

        typer.echo(f"wrote {download_paper_set(download, data_dir)}")
        return
    given = data_dir is not None or "SOFTSET_DATA" in os.environ
    directory = data_directory(data_dir, "") if given else None
    head = ("name", "rows", "features", "positives", "%", "equitability", "here", "licence")
    rows = [head]
    for name, info in PAPER_SETS.items():
        share = info.positives / info.rows
        there = not info.files or (directory is not None and has_files(name, directory))
        rows.append(
            (
                name,
                str(info.rows),
                str(info.features),
                str(info.positives),
                f"{100 * share:.2f}",
                f"{_equitability(share):.3f}",
                "yes" if there else "no",
                info.licence,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for i, row in enumerate(rows):
        line = "  ".join(
            text.ljust(w) if j in (0, 6, 7) else text.rjust(w)
            for j, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo(line.rstrip())
        if i == 0:
            typer.echo("-" * len(line))
    typer.echo("\nWhere they come from:")
    for name, info in PAPER_SETS.items():
        typer.echo(f"  {name}: {info.title}; {info.origin}")
    typer.echo("\nImages, read from their official files:")
    for name, text in IMAGES.items():
        typer.echo(f"  {name}: {text}")
    typer.echo(
        "\nOf OpenML, cifar-10 and fashion-mnist: softset datasets --download NAME --data-dir DIR "
        "(checked by checksum)."
    )


def _equitability(share: float) -> float:
    """Shannon equitability of two classes."""
    from math import log

    return -(share * log(share) + (1 - share) * log(1 - share)) / log(2)
