"""Runs the examples, and keeps what they print and draw for the site: ``make gallery``.

    python docs/tools/gallery.py [name ...]

Of each example whose ``main`` has the argument ``quick``, ``docs/gallery`` gets the text that it
prints and the figure that it returns. The others need data that is not part of the project.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import sys
from pathlib import Path
from types import ModuleType

import matplotlib
from matplotlib import pyplot as plt

matplotlib.use("agg")
ROOT = Path(__file__).parents[2]
MADE = ROOT / "docs" / "gallery"
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",  # text stays text: small files, and sharp on a phone
    "svg.hashsalt": "softset",
}


def load(path: Path) -> ModuleType:
    """The example as a module, without running it."""
    found = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def runnable(path: Path) -> bool:
    """Whether it can be run anywhere, quickly if asked to."""
    return "def main(quick" in path.read_text(encoding="utf-8")


def run(path: Path, folder: Path, quick: bool = False) -> list[Path]:
    """Run one example and write what it prints and draws."""
    main = load(path).main
    assert "quick" in inspect.signature(main).parameters
    printed = io.StringIO()
    with matplotlib.rc_context(STYLE), contextlib.redirect_stdout(printed):
        figure = main(quick=quick)
        text = folder / f"{path.stem}.txt"
        text.write_text(printed.getvalue(), encoding="utf-8")
        if figure is None:
            return [text]
        picture = folder / f"{path.stem}.svg"
        figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)
    return [text, picture]


def main() -> None:
    """All examples, or those that are named."""
    MADE.mkdir(exist_ok=True)
    for path in sorted((ROOT / "examples").glob("*.py")):
        if runnable(path) and path.stem in (sys.argv[1:] or [path.stem]):
            for made in run(path, MADE):
                print(made.relative_to(ROOT))


if __name__ == "__main__":
    main()
