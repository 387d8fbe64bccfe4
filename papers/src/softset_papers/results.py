"""The file of results: a line for each run, which the tables share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softset.storage.files import SavedFileError, locked, write_safely

RESULTS = "runs.jsonl"


@dataclass(frozen=True)
class Record:
    """A finished run: what was to be done, how long it took, and what came out.

    ``result`` has ``values`` (``{protocol: {metric: [numbers]}}``), ``cpu`` (seconds), ``date``,
    ``commit`` and ``pin`` (see ``provenance``), and what the kind of run adds: ``epochs``,
    ``outcome``, ``coolings``, ``chosen``, ``tried``, ``curves``, ``svg``, …
    """

    run: dict[str, Any]
    seconds: float
    result: dict[str, Any]

    @property
    def cpu(self) -> float:
        """CPU seconds."""
        return float(self.result.get("cpu", self.seconds))


def read_records(output: str | Path) -> list[Record]:
    """The finished runs of a directory of results; none if it has none."""
    path = Path(output) / RESULTS
    if not path.exists():
        return []
    return [
        Record(line["run"], line["seconds"], line["result"])
        for line in _lines(path)[1:]
        if "result" in line
    ]


def forget(output: str | Path, wrong: Callable[[dict[str, Any]], bool]) -> int:
    """Take the runs that ``wrong`` is true of out of the file; how many they were."""
    path = Path(output) / RESULTS
    if not path.exists():
        return 0
    with locked(path):
        head, *lines = _lines(path)
        kept = [line for line in lines if not wrong(line["run"])]
        text = "".join(json.dumps(line) + "\n" for line in [head, *kept])
        write_safely(path, lambda new: new.write_text(text, encoding="utf-8"))
    return len(lines) - len(kept)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The header and the records; the last line may be half-written, and is left out."""
    try:
        text = path.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except ValueError as error:
        raise SavedFileError(f"{path.name} is damaged: {error}.") from error
