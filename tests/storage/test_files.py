"""Files whole or not at all; nothing replaced that is no file; what killed processes left goes."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from softset.storage import files
from softset.storage.files import (
    SavedFileError,
    check_writable,
    locked,
    remove_leftovers,
    scratch_directory,
    write_safely,
)


def put(path, text="new"):
    write_safely(path, lambda temporary: temporary.write_text(text))


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# --- writing --------------------------------------------------------------------------------------


def test_a_file_and_its_directory_are_brought_to_the_disk(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_mode), real(fd)))
    put(tmp_path / "a")
    assert [stat.S_ISDIR(mode) for mode in synced] == [False, True]


def test_files_are_replaced_in_one_place():  # 14: the report's own way had no fsync
    source = Path(files.__file__).parents[1]
    found = [p for p in source.rglob("*.py") if re.search(r"os\.re(place|name)\(", p.read_text())]
    assert found == [Path(files.__file__)]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), RuntimeError("x")])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a"
    put(path, "old")

    def fail(temporary):
        temporary.write_text("half")
        raise error

    with pytest.raises(type(error), match=r"x|could not write a \(No space left\)"):
        write_safely(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def special(tmp_path, kind):
    path = tmp_path / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/null")
    else:
        return "/dev/null"
    return path


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "device"])
def test_what_is_no_file_is_never_replaced(tmp_path, kind):  # 19
    path = special(tmp_path, kind)
    before = os.lstat(path)
    for attempt in (lambda: put(path), lambda: check_writable(path, force=True)):
        with pytest.raises(ValueError, match=r"is a (directory|device or pipe)"):
            attempt()
    assert os.lstat(path)[:3] == before[:3]
    assert len(os.listdir(tmp_path)) == (kind != "device")


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "a")
    for text in ("first", "second"):
        check_writable(link, force=True)
        put(link, text)
        assert link.is_symlink()
        assert (tmp_path / "there" / "a").read_text() == text


def test_an_output_is_checked_before_the_work(tmp_path):  # 19
    path = tmp_path / "a"
    check_writable(path)
    assert os.listdir(tmp_path) == []
    put(path)
    with pytest.raises(ValueError, match=r"a exists already. Pass --force"):
        check_writable(path)
    check_writable(path, force=True)
    with pytest.raises(FileNotFoundError, match=r"no directory .*gone' for 'a'"):
        check_writable(tmp_path / "gone" / "a")
    with pytest.raises(OSError, match=r"cannot be written \(File name too long\)"):
        check_writable(tmp_path / ("a" * 254))
    (tmp_path / "dangling").symlink_to(tmp_path / "gone" / "a")
    with pytest.raises(FileNotFoundError, match=r"is a link to .* no directory"):
        check_writable(tmp_path / "dangling")


def test_an_unwritable_place_is_found_before_the_work(tmp_path, monkeypatch):  # 19
    if os.getuid():
        tmp_path.chmod(0o500)
    else:  # root writes anywhere but on a read-only file system

        def refuse(path):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(files.Path, "touch", refuse)
    with pytest.raises(OSError, match=r"a cannot be written \((Read-only|Permission)"):
        check_writable(tmp_path / "a")
    tmp_path.chmod(0o700)


def test_an_input_is_no_output_under_whatever_name(tmp_path):  # 19
    path = tmp_path / "a"
    put(path)
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for name in ("a", "link", "hard", "../" + tmp_path.name + "/a"):
        with pytest.raises(ValueError, match="is the input"):
            check_writable(tmp_path / name, force=True, inputs=["-", tmp_path / "b", path])


# --- what killed processes left -------------------------------------------------------------------

NAMES = ["a", "a[1]", "*", "a*b", "[!x]", "a.b", "ä?"]


@pytest.mark.parametrize("name", NAMES)
def test_leftovers_of_dead_processes_go_whatever_the_name(tmp_path, name, dead):  # 14
    for other in ("z", f"{name}.{dead}.tmp.x", f"{name}.x.{dead}.tmp", f"x{name}.{dead}.tmp"):
        (tmp_path / other).write_text("another's")
    others = set(os.listdir(tmp_path))
    mine = [f"{name}.{dead}.tmp", f"{name}.{10**30}.tmp"]
    for leftover in [*mine, f"{name}.{os.getppid()}.tmp"]:
        (tmp_path / leftover).write_text("half")
    put(tmp_path / name)
    assert set(os.listdir(tmp_path)) == others | {name, f"{name}.{os.getppid()}.tmp"}
    remove_leftovers(tmp_path / name, alone=True)
    assert set(os.listdir(tmp_path)) == others | {name}


SCRATCH = """
import sys, time
from softset.storage.files import scratch_directory
with scratch_directory("softset-test") as folder:
    (folder / "task").write_text("the table")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_scratch_directories_of_killed_processes_go_at_the_next_start(tmp_path, monkeypatch):  # 21
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "softset-test-1-mine").mkdir()  # without a lock: of nobody we know
    (tmp_path / "other").mkdir()
    kept = {"softset-test-1-mine", "other"}
    process = subprocess.Popen([sys.executable, "-c", SCRATCH], stdout=subprocess.PIPE, text=True)
    name = os.path.basename(process.stdout.readline().strip())
    try:
        with scratch_directory("softset-test") as mine:
            assert set(os.listdir(tmp_path)) == kept | {name, mine.name}  # it lives
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert (tmp_path / name / "task").read_text() == "the table"
            with scratch_directory("softset-test") as next_one:
                assert set(os.listdir(tmp_path)) == kept | {mine.name, next_one.name}
        assert set(os.listdir(tmp_path)) == kept
    finally:
        process.kill()
        process.stdout.close()


def test_a_scratch_directory_goes_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def work():
        with scratch_directory() as folder:
            (folder / "inner").mkdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert os.listdir(tmp_path) == []


# --- locks ----------------------------------------------------------------------------------------


def test_a_lock_is_held_by_one_and_free_afterwards(tmp_path):
    with (
        locked(tmp_path / "a"),
        pytest.raises(SavedFileError, match="a is in use by another run"),
        locked(tmp_path / "a"),
    ):
        pass
    started = time.monotonic()
    with locked(tmp_path / "a"):
        assert time.monotonic() - started < 5


def test_who_may_read_a_file_stays_as_it_is(tmp_path):  # D26
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o600)
    modes = []

    def write(temporary):
        modes.append(temporary.stat().st_mode & 0o777)
        temporary.write_text("new")

    files.write_safely(path, write)
    assert modes == [0o600]
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_new_file_never_replaces_another(tmp_path):  # D21
    path = tmp_path / "model"
    with files.new_file(path) as temporary:
        temporary.write_text("first")
    with pytest.raises(ValueError, match="exists already"), files.new_file(path) as temporary:
        temporary.write_text("second")
    assert path.read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
