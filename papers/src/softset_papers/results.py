"""The file of results: a line for each run, which the tables share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softset.storage.files import SavedFileError, locked, write_safely
from softset.storage.schema import checksum, sealed

RESULTS = "runs.jsonl"
_REPEATED = "tried"  # of a search that several runs share, the file has the first in full


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
        left = [line for line in lines if not wrong(line["run"])]
        text = "".join(_dumped(line) for line in [head, *_without_repetition(left)])
        write_safely(path, lambda new: new.write_text(text, encoding="utf-8"))
    return len(lines) - len(left)


def compact(output: str | Path) -> None:
    """Write the file anew: no spaces, and the settings of a search once."""
    forget(output, lambda run: False)


def _dumped(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"


def _without_repetition(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with a checksum in place of a search that is in an earlier one."""
    seen: set[str] = set()
    found = []
    for line in lines:
        if search := _search(line):
            name = checksum(search)
            found.append(_with_search(line, name) if name in seen else line)
            seen.add(name)
        else:
            found.append(line)
    return found


def _with_searches(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The inverse of ``_without_repetition``."""
    searches: dict[str, Any] = {}
    found = []
    for line in lines:
        search = _search(line)
        if isinstance(search, list):
            searches[checksum(search)] = search
        found.append(_with_search(line, searches[search]) if isinstance(search, str) else line)
    return found


def _search(line: dict[str, Any]) -> Any:
    return line.get("result", {}).get(_REPEATED)


def _with_search(line: dict[str, Any], search: Any) -> dict[str, Any]:
    content = {k: v for k, v in line.items() if k != "checksum"}
    return sealed(content | {"result": line["result"] | {_REPEATED: search}})


def _lines(path: Path) -> list[dict[str, Any]]:
    """The header and the records; the last line may be half-written, and is left out."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return _with_searches(lines)
    except (ValueError, KeyError) as error:
        raise SavedFileError(f"{path.name} is damaged: {error}.") from error
