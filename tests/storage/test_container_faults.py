"""Containers that were changed, pickled, cut off by a full disk or by a kill."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from softset.storage import container
from softset.storage.container import read_file, write_file
from softset.storage.files import SavedFileError

CONTENT = {
    "numbers": [1, 2.5, float("inf"), None, True],
    "tuple": (1, ("a", 2)),
    7: torch.arange(5, dtype=torch.float64),
    "half": torch.ones(2, 3, dtype=torch.bfloat16),
    "text": "ä\n\"'",
}


def fuzz(path: Path, rounds: int) -> int:
    write_file(path, "test", CONTENT)
    data = path.read_bytes()
    chance = random.Random(0)
    refused = 0
    for _ in range(rounds):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            kind = chance.random()
            at = chance.randrange(len(changed))
            if kind < 0.6:
                changed[at] = chance.randrange(256)
            elif kind < 0.8:
                del changed[at : at + chance.randint(1, 20)]
            else:
                changed[at:at] = chance.randbytes(chance.randint(1, 20))
            if not changed:
                break
        path.write_bytes(changed)
        try:
            read_file(path, "test")
        except SavedFileError:
            refused += 1
    return refused


def test_mutated_files_raise_our_error_only(tmp_path):
    assert fuzz(tmp_path / "a", 1_000) > 900


@pytest.mark.slow
def test_a_hundred_thousand_mutated_files_raise_our_error_only(tmp_path):
    assert fuzz(tmp_path / "a", 100_000) > 90_000


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x80\x04]\x94.", b"\xff" * 100])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(
        SavedFileError, match=r"^a (is damaged or no file of softset|looks like a pickled)"
    ):
        read_file(tmp_path / "a", "test")


def test_a_pickle_is_refused(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "a")
    with pytest.raises(SavedFileError):
        read_file(tmp_path / "a", "test")


def test_another_format_or_kind_is_refused(tmp_path, monkeypatch):
    write_file(tmp_path / "a", "other", 1)
    with pytest.raises(SavedFileError, match="is 'other'"):
        read_file(tmp_path / "a", "test")
    monkeypatch.setattr(container, "FORMAT", 3)
    write_file(tmp_path / "a", "test", 1)
    monkeypatch.undo()
    with pytest.raises(SavedFileError, match="format '3'; expected 'test' in format '2'"):
        read_file(tmp_path / "a", "test")


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_intact(tmp_path, monkeypatch, where):
    write_file(tmp_path / "a", "test", 1)

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match=r"could not write a .No space left on device"):
        write_file(tmp_path / "a", "test", 2)
    monkeypatch.undo()
    assert read_file(tmp_path / "a", "test") == 1
    assert os.listdir(tmp_path) == ["a"]


def test_a_missing_directory_says_so(tmp_path):
    with pytest.raises(OSError, match="could not write b"):
        write_file(tmp_path / "a" / "b", "test", 1)


# --- kills ---------------------------------------------------------------------------------------


def save_for_ever(path: str) -> None:
    """Write one file after the other, each 2 MB of one number."""
    print("ready", flush=True)
    for i in range(10**6):
        write_file(path, "test", {"number": i, "values": torch.full((500_000,), float(i))})


def kill_while_saving(tmp_path: Path, rounds: int) -> None:
    path = tmp_path / "a"
    write_file(path, "test", {"number": -1, "values": torch.full((500_000,), -1.0)})
    chance = random.Random(0)
    halves = 0
    for i in range(rounds):
        command = [sys.executable, __file__, str(path)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if i % 2:
                time.sleep(chance.random() * 0.05)
            else:  # as soon as a new file is on its way
                while not any(tmp_path.glob("*.tmp")):
                    pass
            process.kill()
            process.wait()
        content = read_file(path, "test")
        assert (content["values"] == content["number"]).all()
        leftovers = list(tmp_path.glob("*.tmp"))
        halves += bool(leftovers)
        for leftover in leftovers:
            leftover.unlink()
    assert halves > 0, "some kill must have hit a save on its way"


def test_kills_during_save_never_lose_the_previous_file(tmp_path):
    kill_while_saving(tmp_path, 2)


@pytest.mark.slow
def test_a_hundred_kills_during_save_never_lose_the_previous_file(tmp_path):
    kill_while_saving(tmp_path, 100)


if __name__ == "__main__":  # the process to be killed
    torch.set_num_threads(1)
    save_for_ever(sys.argv[1])
