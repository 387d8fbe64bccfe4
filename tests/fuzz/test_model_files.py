"""Model files that someone has tampered with, checksum repaired: our own error, or predictions.

A crash, a hang, more than a gigabyte, another exception, a number that is not finite or an array
of another shape is a failure. Each case is made from its number, so that it can be run again:
``python -m tests.fuzz.model_files FOLDER SEED NUMBER NUMBER+1``.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.model_files import SECONDS, Saved, outcome, write_files

SEED, PART = 0, 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


def run_cases(folder, first, last):
    """The records of cases; a crash is the record of the case that was running."""
    records = []
    while first < last:
        end = min(first + PART, last)
        command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.model_files"]
        command += map(str, (folder, SEED, first, end))
        patience = 60 + SECONDS * 20 + (end - first)
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
                cwd=Path(__file__).parents[2],
            )
            lines, code, errors = done.stdout.splitlines(), done.returncode, done.stderr
        except subprocess.TimeoutExpired as hanging:
            lines, code, errors = (hanging.stdout or b"").decode().splitlines(), "no end", ""
        records += [json.loads(line) for line in lines if line[0] + line[-1] == "{}"]
        first = end
        if code != 0:
            started = [int(line) for line in lines if line.isdigit()]
            assert started, f"{code}: {errors}"
            assert code != 1, f"the harness itself is wrong: {errors}"
            first = started[-1] + 1
            records.append({"case": first - 1, "is": f"crash: {code}", "seconds": 0})
    return records


def check(records, count):
    bad = [r for r in records if r["is"] not in ("refused", "predicts")]
    counts = Counter(r["is"] for r in records)
    print(f"\n{len(records)} mutated files: {dict(counts)}")
    assert not bad, "\n".join(json.dumps(r) for r in bad[:20])
    assert len(records) == count
    assert counts["refused"] > count / 3
    assert counts["predicts"] > count / 20, "what is mutated must be read at all"


def test_the_files_themselves_are_read(folder, tmp_path):
    for path in folder.iterdir():
        saved, copied = Saved(path), tmp_path / "mutated"
        copied.write_bytes(saved.written(saved.content, saved.tensors))
        assert outcome(saved, copied) == "predicts", path.name


def test_mutated_files_are_refused_or_predict(folder):
    check(run_cases(folder, 0, 150), 150)


@pytest.mark.slow
def test_very_many_mutated_files_are_refused_or_predict(folder):
    check(run_cases(folder, 150, 100_150), 100_000)
