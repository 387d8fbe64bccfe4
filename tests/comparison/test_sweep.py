from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor

from softset.comparison.sweep import sweep
from softset.storage.files import SavedFileError
from softset.storage.schema import sealed, unsealed
from tests.comparison import sweep_work

RUNS = [{"x": x} for x in range(6)]
SQUARES = [0, 1, 4, 9, 16, 25]


def results(records):
    return [r and r.get("result") for r in records]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("backend", [None, "threading"])
def test_records_come_in_the_order_of_the_runs(jobs, backend):
    records = sweep(sweep_work.square, RUNS, jobs=jobs, backend=backend)
    assert results(records) == SQUARES
    assert [r["run"] for r in records] == RUNS


class NoGenerator(joblib.parallel.ThreadingBackend):
    """As Ray's: results come as lists only."""

    supports_return_generator = False


def test_a_backend_without_a_generator_gives_lists():
    joblib.register_parallel_backend("no-generator", NoGenerator)
    done = []
    records = sweep(
        sweep_work.square, RUNS, jobs=2, backend="no-generator", progress=lambda *d: done.append(d)
    )
    assert results(records) == SQUARES
    assert [d[0] for d in done] == [1, 2, 3, 4, 5, 6]


def test_threads_of_the_callers_choice_do_not_end_the_process(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with joblib.parallel_config(backend="threading"):
        records = sweep(sweep_work.square, RUNS, jobs=2)
    time.sleep(0.05)
    assert (results(records), ended) == (SQUARES, [])


def test_runs_that_are_unfinished_at_the_stop_are_left_out_and_the_next_sweep_runs():
    runs = [{"seconds": 0}, {"seconds": 600}, {"seconds": 601}]
    sweep(sweep_work.square, RUNS, jobs=2)  # the workers are there
    records = sweep(sweep_work.sleep, runs, jobs=2, stop=time.monotonic() + 2)
    assert results(records) == [0, None, None]
    assert results(sweep(sweep_work.square, RUNS, jobs=2)) == SQUARES


def test_a_finished_file_is_read_not_run_again(tmp_path):
    path = tmp_path / "runs.jsonl"
    first = sweep(sweep_work.square, RUNS, path=path, jobs=1)
    lines = path.read_text().splitlines()
    assert sweep(sweep_work.die, RUNS, path=path, jobs=1, resume=True) == first
    assert path.read_text().splitlines() == lines


def test_a_torn_last_line_is_run_again(tmp_path):
    path = tmp_path / "runs.jsonl"
    sweep(sweep_work.square, RUNS, path=path, jobs=1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert results(sweep(sweep_work.square, RUNS, path=path, jobs=1, resume=True)) == SQUARES
    assert len(path.read_bytes().splitlines()) == 1 + len(RUNS)


def test_more_runs_go_on_from_fewer(tmp_path):
    path = tmp_path / "runs.jsonl"
    sweep(sweep_work.square, RUNS[:4], path=path, jobs=1)
    assert results(sweep(sweep_work.square, RUNS, path=path, jobs=1, resume=True)) == SQUARES
    assert len(path.read_text().splitlines()) == 1 + len(RUNS)


def test_an_error_is_a_record_and_is_tried_again_on_resume(tmp_path):
    path = tmp_path / "runs.jsonl"
    records = sweep(sweep_work.fail_on_three, RUNS, path=path, jobs=1)
    assert records[3]["error"] == "ValueError: three is not allowed"
    assert results(records)[4] == 4
    again = sweep(sweep_work.square, RUNS, path=path, jobs=1, resume=True)
    assert results(again)[3] == 9


def existing(path):
    sweep(sweep_work.square, RUNS, path=path, jobs=1)


def other_settings(path):
    sweep(sweep_work.square, RUNS, path=path, jobs=1, settings={"data": "other"})


def damaged(path):
    path.write_bytes(b'{"format": 3}\nnonsense\n')


def another_kind(path):
    path.write_bytes(b"a,b\n1,2\n")


@pytest.mark.parametrize(
    ("prepare", "resume", "match"),
    [
        (existing, False, "holds an earlier sweep"),
        (other_settings, True, "other data or settings"),
        (damaged, True, "damaged or not a sweep"),
        (another_kind, True, "damaged or not a sweep"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, prepare, resume, match):
    path = tmp_path / "runs.jsonl"
    prepare(path)
    before = path.read_bytes()
    with pytest.raises(SavedFileError, match=match):
        sweep(sweep_work.square, RUNS, path=path, resume=resume, jobs=1)
    assert path.read_bytes() == before


LINES = [
    ("result", 10, "was changed after it was written"),
    ("run", {"x": 4}, "was changed after it was written"),
    ("checksum", "0" * 64, "was changed after it was written"),
    ({"note": 1}, None, "note is not known"),
    ({"error": "both"}, None, "result is not known"),
    ({"seconds": "long"}, None, "seconds must be a finite number"),
    ({"seconds": float("nan")}, None, "seconds must be a finite number"),
    ({"run": 3}, None, "run must be an object"),
    ('{"run": {"x": 3}, "seconds": 1.0, "result": 9}', None, "its checksum is missing"),
    ("[]", None, "an object with a checksum"),
    ("{{", None, "an object with a checksum"),
]


@pytest.mark.parametrize(("what", "value", "message"), LINES)
def test_every_record_is_checked(tmp_path, what, value, message):
    path = tmp_path / "runs.jsonl"
    sweep(sweep_work.square, RUNS, path=path, jobs=1)
    lines = path.read_text().splitlines()
    record = json.loads(lines[4])
    if isinstance(what, dict):  # with a checksum that fits
        record = sealed({**unsealed(record), **what})
    elif value is not None:
        record[what] = value
    lines[4] = what if value is None and isinstance(what, str) else json.dumps(record)
    path.write_text("\n".join(lines) + "\n")
    before = path.read_bytes()
    with pytest.raises(SavedFileError, match=f"runs.jsonl is damaged in line 5: .*{message}"):
        sweep(sweep_work.square, RUNS, path=path, jobs=1, resume=True)
    assert path.read_bytes() == before
    path.write_text("\n".join(lines[:4] + lines[5:]) + "\n")  # as the message says
    assert results(sweep(sweep_work.square, RUNS, path=path, jobs=1, resume=True)) == SQUARES


def test_bad_arguments():
    with pytest.raises(ValueError, match="runs must be distinct"):
        sweep(sweep_work.square, [{"x": 1}, {"x": 1}], jobs=1)
    with pytest.raises(ValueError, match="jobs must be in"):
        sweep(sweep_work.square, RUNS, jobs=0)


def test_a_second_sweep_of_the_same_file_is_refused(tmp_path):
    path = tmp_path / "runs.jsonl"

    def nested(run):
        return sweep(sweep_work.square, RUNS, path=path, jobs=1, resume=True)

    record = sweep(nested, [{"x": 0}], path=path, jobs=1)[0]
    assert "in use by another run" in record["error"]


def test_nothing_starts_after_the_deadline():
    seen = []

    def work(run):
        seen.append(run["x"])
        time.sleep(0.05)
        return run["x"]

    records = sweep(work, RUNS, jobs=1, deadline=time.monotonic() + 0.02)
    assert seen == [0]
    assert results(records) == [0, None, None, None, None, None]


def test_progress_tells_what_is_left(tmp_path):
    told = []
    path = tmp_path / "runs.jsonl"
    sweep(sweep_work.square, RUNS[:2], path=path, jobs=1)
    sweep(
        sweep_work.square, RUNS, path=path, jobs=1, resume=True, progress=lambda *a: told.append(a)
    )
    assert [t[:2] for t in told] == [(2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]
    assert told[-1][2] == 0


def test_a_killed_worker_costs_nothing_but_time(tmp_path):
    """Case 64: its run is tried again and nothing is counted twice."""
    path = tmp_path / "runs.jsonl"
    runs = [{"x": x, "folder": str(tmp_path)} for x in range(5)]
    assert results(sweep(sweep_work.die_once, runs, path=path, jobs=2)) == [0, 1, 2, 3, 4]
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert sorted(line["run"]["x"] for line in lines) == [0, 1, 2, 3, 4]


def test_workers_that_always_die_are_an_error(monkeypatch):
    monkeypatch.setattr("softset.comparison.sweep._BREAKDOWNS", 2)
    with pytest.raises(OSError, match="Use fewer jobs"):
        sweep(sweep_work.die, RUNS, jobs=2)


def test_workers_times_threads_stay_within_the_cores(monkeypatch):
    """Case 65."""
    get_reusable_executor().shutdown(
        wait=True
    )  # new workers, which no variable holds to one thread
    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.delenv(f"{library}_NUM_THREADS", raising=False)
    used = results(sweep(sweep_work.threads, RUNS[:4], jobs=2))
    assert max(used) * 2 <= max(joblib.cpu_count(), 2)


def kill_and_resume(path, times, runs):
    """Interrupt a sweep in another process ``times`` times at random, then let it finish."""
    chance = random.Random(0)
    command = [sys.executable, sweep_work.__file__, str(path), str(runs)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(times):
        process = subprocess.Popen(
            command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
        )
        before = path.stat().st_size if path.exists() else 0
        while process.poll() is None and (path.stat().st_size if path.exists() else 0) <= before:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        assert process.poll() is None, "the sweep was too short to be interrupted so often"
        os.killpg(process.pid, chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        process.wait()
    subprocess.run(command, env=environment, check=True)
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def started(path):
    """A sweep of two workers in a process group of its own, some runs of which are done."""
    process = subprocess.Popen(
        [sys.executable, sweep_work.__file__, str(path), "200"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while process.poll() is None and not (path.exists() and path.read_text().count("\n") > 4):
        time.sleep(0.02)
    assert process.poll() is None
    return process


def ends_like_an_uninterrupted_one(path):
    """What is stored is not run again, and nothing is stored twice."""
    stored = path.read_text().count("\n") - 1
    runs, ran = [{"x": x} for x in range(200)], []

    def square(run):
        ran.append(run["x"])
        return run["x"] ** 2

    sweep(square, runs, path=path, jobs=1, resume=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert len(ran) == 200 - stored
    assert sorted(line["run"]["x"] for line in lines) == list(range(200))
    assert all(line["result"] == line["run"]["x"] ** 2 for line in lines)


def workers(group):
    """The workers of a process group, by what the kernel says of each process."""
    found = []
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{number}/cmdline").read_bytes()
            if os.getpgid(int(number)) == group and b"popen_loky" in command:
                found.append(int(number))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_control_c_is_for_the_parent_alone(tmp_path):
    """A terminal sends it to the whole group: workers must not answer with tracebacks."""
    process = started(tmp_path / "runs.jsonl")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.decode().count("Traceback") == 1, err.decode()  # of the script, which has no main()
    assert b"loky" not in err.split(b"KeyboardInterrupt")[-1]
    assert workers(process.pid) == []
    ends_like_an_uninterrupted_one(tmp_path / "runs.jsonl")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path):
    process = started(tmp_path / "runs.jsonl")
    assert len(workers(process.pid)) == 2
    process.kill()
    for _ in range(100):
        if not workers(process.pid):
            break
        time.sleep(0.1)
    assert workers(process.pid) == []
    process.communicate(timeout=60)
    ends_like_an_uninterrupted_one(tmp_path / "runs.jsonl")


@pytest.mark.slow
def test_a_sweep_that_is_interrupted_often_ends_like_an_uninterrupted_one(tmp_path):
    lines = kill_and_resume(tmp_path / "runs.jsonl", 10, 200)
    assert sorted(line["run"]["x"] for line in lines) == list(range(200))
    assert all(line["result"] == line["run"]["x"] ** 2 for line in lines)


def test_a_partial_function_is_work_too():
    assert results(sweep(partial(_add, more=1), RUNS[:2], jobs=2)) == [1, 2]


def _add(run, more):
    return run["x"] + more
