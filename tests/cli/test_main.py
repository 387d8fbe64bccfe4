from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer

from softset import __version__, cli

HEAVY = ["torch", "sklearn", "pandas", "numpy", "matplotlib", "lightgbm"]


def run(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    return stop.value.code, *capsys.readouterr()


def test_version(capsys):
    assert run(["--version"], capsys) == (0, f"softset {__version__}\n", "")


def test_help_loads_nothing_heavy():
    """Start-up stays under half a second because of this."""
    program = (
        "import sys\nfrom softset.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "[]", out.stderr


def test_the_package_is_the_command():
    """``python -m softset``, so that torchrun can start it."""
    command = [sys.executable, "-m", "softset", "--version"]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out.stdout == f"softset {__version__}\n"


@pytest.mark.parametrize("arguments", [["--versoin"], ["no-such-command"]])
def test_bad_usage_is_one_line_and_exit_code_2(arguments, capsys):
    code, out, err = run(arguments, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("softset: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "start"),
    [
        (ValueError("metric must\nfit"), 2, "softset: error: metric must fit"),
        (OSError("disk full"), 2, "softset: error: disk full"),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(3), 3, ""),
        (SystemExit(143), 143, ""),
    ],
)
def test_every_end_has_its_exit_code(error, code, start, capsys, monkeypatch):
    def fail():
        raise error

    other = typer.Typer()
    other.command()(fail)
    monkeypatch.setattr(cli, "app", other)
    got, out, err = run([], capsys)
    assert (got, out) == (code, "")
    assert err.strip() == start


def test_a_bug_is_not_dressed_up_as_bad_input(monkeypatch):
    def fail():
        raise KeyError("bug")

    other = typer.Typer(pretty_exceptions_enable=False)
    other.command()(fail)
    monkeypatch.setattr(cli, "app", other)
    with pytest.raises(KeyError):
        cli.main([])


# --- what is wrong is found before anything heavy is imported -----------------------------------


def alone(calls, before="", **options):
    """Commands one after the other in a process of its own: of each its exit code, output, errors,
    and the heavy modules that are loaded after it. ``before`` is run first."""
    program = (
        f"import contextlib, io, json, sys\n{before}\nfrom softset.cli import main\n"
        f"for words, absent in {calls!r}:\n"
        "    if absent: sys.modules[absent] = None\n"
        "    out, err, code = io.StringIO(), io.StringIO(), None\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
        "        try: main(words)\n"
        "        except SystemExit as stop: code = stop.code\n"
        f"    loaded = [m for m in {HEAVY} if sys.modules.get(m)]\n"
        "    if absent: del sys.modules[absent]\n"
        "    print(json.dumps([code, out.getvalue(), err.getvalue().splitlines(), loaded]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, **options
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


ABSENT = [
    (["compare", "none.csv", "-t", "y"], "there is no file 'none.csv'"),
    (["train", "none.csv", "-t", "y"], "there is no file 'none.csv'"),
    (["predict", "none.softset", "data.csv"], "there is no file 'none.softset'"),
    (["predict", "data.csv", "none.csv"], "there is no file 'none.csv'"),
    (["evaluate", "none.csv", "-t", "y"], "there is no file 'none.csv'"),
    (["evaluate", "data.csv", "-t", "y", "--model", "no.softset"], "no file 'no.softset'"),
    (["tune-threshold", "none.csv", "-t", "y"], "there is no file 'none.csv'"),
    (["explain", "data.csv", "none.csv"], "there is no file 'none.csv'"),
    (["report", "none"], "none holds no comparison.json"),
    (["compare", ".", "-t", "y"], ". is a directory; a file is expected"),
    (["predict", "..", "data.csv"], ".. is a directory; a file is expected"),
    (["train", "data.csv", "-t", "y", "-o", "no/where"], "there is no directory 'no'"),
    (["train", "data.csv", "-t", "y", "-o", "."], ". is a directory"),
    (["train", "data.csv", "-t", "y", "-o", "data.csv"], "data.csv is the input"),
    (["compare", "data.csv", "-t", "y", "-o", "data.csv"], "data.csv is a file"),
    (["evaluate", "data.csv", "-t", "y", "--model", "data.csv", "--scores", "p"], "not both"),
]


def test_a_missing_file_loads_nothing_heavy(tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n1,0\n2,1\n")
    found = alone([(arguments, None) for arguments, _ in ABSENT], cwd=tmp_path)
    for (arguments, message), (code, out, err, loaded) in zip(ABSENT, found, strict=True):
        assert (code, out, len(err), loaded) == (2, "", 1, []), arguments
        assert message in err[0]
    assert os.listdir(tmp_path) == ["data.csv"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_place_that_cannot_be_written_is_found_first(command, tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n1,0\n2,1\n")
    (tmp_path / "shut").mkdir(mode=0o500)
    words = [command, "data.csv", "-t", "y", "-o", "shut/it"]
    ((code, _, err, loaded),) = alone([(words, None)], cwd=tmp_path)
    assert (code, loaded) == (2, [])
    assert "shut/it cannot be written" in err[0]


PACKAGES = [
    (["compare", "data.csv", "-t", "y"], "jinja2", "softset[report]"),
    (["compare", "data.csv", "-t", "y"], "rich", "softset[cli]"),
    (["compare", "data.csv", "-t", "y"], "pandas", "softset[cli]"),
    (["demo"], "jinja2", "softset[report]"),
    (["report", "."], "jinja2", "softset[report]"),
    (["train", "data.csv", "-t", "y"], "pandas", "softset[cli]"),
    (["evaluate", "data.csv", "-t", "y"], "rich", "softset[cli]"),
]


def test_a_missing_package_is_found_first_and_how_to_install_it(tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n1,0\n2,1\n")
    found = alone([(arguments, package) for arguments, package, _ in PACKAGES], cwd=tmp_path)
    for (arguments, package, extra), (code, out, err, loaded) in zip(PACKAGES, found, strict=True):
        assert (code, out, loaded) == (2, "", []), arguments
        assert err == [f"softset: error: {package} is not installed: pip install '{extra}'"]


def test_a_recipe_without_its_library_is_refused_before_the_file_is_read(
    tmp_path, capsys, monkeypatch
):
    (tmp_path / "data.csv").write_text("not a table")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    arguments = ["train", str(tmp_path / "data.csv"), "-t", "y", "--recipe", "boosting-tuned"]
    assert run([*arguments, "-o", str(tmp_path / "m.softset")], capsys) == (
        2,
        "",
        "softset: error: lightgbm is not installed: pip install 'softset[boosting]'\n",
    )


def test_without_softset_papers_its_commands_say_how_to_get_it():
    absent = "import importlib.metadata as m; m.entry_points = lambda **_: []"
    commands = ("paper", "datasets")
    calls = [([command, "table", "--any"], None) for command in commands]
    *found, (code, out, _, _) = alone([*calls, (["--help"], None)], absent)
    for command, refused in zip(commands, found, strict=True):
        said = f"`softset {command}` needs softset-papers: pip install softset-papers"
        assert refused == [2, "", [f"softset: error: {said}"], []]
        assert command not in out.split()
    assert code == 0


# --- terminals and pipes -------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_a_pipe_that_ends_early_is_no_error_of_ours(arguments):
    program = "from softset.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        err = process.stderr.read()
        assert (process.wait(60), err) == (141, b"")


def test_labels_that_the_terminal_has_no_letters_for(tmp_path, monkeypatch):
    label = "naïve 中"
    frame = pd.DataFrame({"p": np.linspace(0, 1, 20), "y": ["a", label] * 10})
    frame.to_csv(tmp_path / "p.csv", index=False)
    arguments = ["evaluate", str(tmp_path / "p.csv"), "-t", "y", "--scores", "p", "-m", "f1"]

    def printed(*more):
        ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", ascii_only)
        with pytest.raises(SystemExit) as stop:
            cli.main([*arguments, *more])
        assert stop.value.code == 0
        return ascii_only.buffer.getvalue().decode("ascii")

    assert r"na\xefve \u4e2d" in printed()
    assert json.loads(printed("--json"))["classes"] == ["a", label]


def test_words_can_be_completed():
    words = {"_SOFTSET_COMPLETE": "complete_bash", "COMP_WORDS": "softset tun", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from softset.cli import main; main()"],
        env={**os.environ, **words, "_TYPER_COMPLETE_ARGS": "softset tun"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["tune-threshold"]


def test_without_a_command_the_help_is_printed(capsys):  # D27
    code, out, err = run([], capsys)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: softset")
    assert out.count("\n") > 10


PROGRAM = "from softset.cli import main; main({arguments!r})"


def test_a_closed_standard_output_is_no_traceback():  # D27
    program = PROGRAM.format(arguments=["--version"])
    for start in ("import sys", "import sys; sys.stdout = None"):
        ran = subprocess.run(
            ["bash", "-c", f'"{sys.executable}" -c "{start}; {program}" >&-'],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in ran.stderr
        assert ran.returncode in (0, 2), ran.stderr


def test_sigterm_after_the_work_is_no_traceback():  # D27
    program = (
        "import atexit, os, signal\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        + PROGRAM.format(arguments=["--version"])
    )
    words = [sys.executable, "-c", program]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (-15, "")


def test_escape_codes_of_names_and_labels_never_reach_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # D26
    red = "\x1b[31mred\x07\x9b"
    x = np.random.default_rng(0).normal(size=200)
    labels = np.where(x > 0, red, "blue")
    frame = pd.DataFrame({"x": x, f"z{red}": x**2, "y": labels})
    frame.to_csv("data.csv", index=False)
    steps = [
        ["train", "data.csv", "-t", "y", "--recipe", "linear-tuned", "-o", "m.softset"],
        ["predict", "m.softset", "data.csv", "-o", "p.csv"],
        ["evaluate", "data.csv", "-t", "y", "--model", "m.softset", "-m", "f1"],
        ["explain", "m.softset", "data.csv", "--repeats", "1"],
        ["train", "data.csv", "-t", f"no{red}"],
    ]
    shown = ""
    for step in steps:
        code, out, err = run(step, capsys)
        assert code == (2 if step == steps[-1] else 0), err
        shown += out + err
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "\\u001b[31mred" in shown


def test_too_little_memory_is_one_line(capsys, monkeypatch):  # D23
    def full(*_, **__):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(cli, "app", full)
    code, out, err = run(["demo"], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the memory is not enough (Unable to allocate 9 GiB)" in err
