from __future__ import annotations

import subprocess
import sys

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
