"""Progress is seen: on a terminal, in a notebook, in a log; and never where nobody asked."""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from softset import MetricMLPClassifier, progress
from softset.progress import Line, Progress
from softset.training.members import train_members
from softset.training.single import fit
from softset.training.stack import Member
from tests.training.helpers import make_binary, split


class Terminal(io.StringIO):
    def isatty(self):
        return True


# Not fixtures: pytest puts its own streams back between the set-up and the test.


def on_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(progress, "LIVE_EVERY", 0)
    return stream


@pytest.fixture
def clock(monkeypatch):
    """Seconds pass only when the test says so."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def train(verbose=1, **changes):
    train, validation = split(*make_binary(80), 60)
    members = [Member(0), Member(1)]
    return train_members(
        (4,), train, validation, members=members, max_epochs=3, verbose=verbose, **changes
    )


def test_on_a_terminal_the_line_is_replaced_and_taken_away(monkeypatch):
    terminal = on_terminal(monkeypatch)
    train(recipe="metric")
    shown = terminal.getvalue()
    for epoch in (1, 2, 3):
        assert f"{epoch} of 3" in shown
    assert "loss 0." in shown
    assert "f1 0." in shown
    assert "2 of 2 running" in shown
    assert "left" in shown
    assert shown.count("\n") <= 1
    assert "\x1b[2K" in shown.rpartition("3 of 3")[2], "erased at the end"
    assert "\x1b[?25h" in shown.rpartition("3 of 3")[2], "the cursor is back"


def test_words_in_brackets_are_words(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with Line("[red]what") as line:
        line.show(1, 2, "[bold] metric[0]")
    assert "[red]what" in terminal.getvalue()
    assert "[bold] metric[0]" in terminal.getvalue()


def test_an_error_leaves_no_line_and_no_redirected_stream(monkeypatch):
    terminal = on_terminal(monkeypatch)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(on_epoch=stop)
    assert sys.stderr is terminal
    assert terminal.getvalue().endswith("\x1b[2K")


# --- notebooks -----------------------------------------------------------------------------------


class Output:
    """Stands for the widget: what is displayed inside it, and what it was cleared of."""

    made: list[Output] = []
    open: Output | None = None

    def __init__(self):
        Output.made.append(self)
        self.shown, self.closed = [], False

    def __enter__(self):
        Output.open = self

    def __exit__(self, *_):
        Output.open = None

    def clear_output(self, wait=False):
        assert wait, "or the line flickers"

    def close(self):
        self.closed = True


def display(what):
    if Output.open is not None:
        Output.open.shown.append(what.text)


def in_notebook(monkeypatch):
    """As rich sees one: the shell's name, IPython's display, and a standard error that is none."""
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    ipython, part = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    part.display, ipython.display = display, part
    widgets = types.ModuleType("ipywidgets")
    widgets.Output = Output
    widgets.__spec__ = importlib.machinery.ModuleSpec("ipywidgets", None)
    for name, module in (("IPython", ipython), ("IPython.display", part), ("ipywidgets", widgets)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(progress, "LIVE_EVERY", 0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    Output.made = []
    return Output


@pytest.mark.parametrize("way", ["members", "fit", "classifier"])
def test_in_a_notebook_one_widget_shows_every_epoch(monkeypatch, way):
    notebook = in_notebook(monkeypatch)
    x, y = make_binary(80)
    if way == "members":
        train(recipe="metric")
    elif way == "fit":
        rows = DataLoader(TensorDataset(x.float(), y), 40)
        fit(torch.nn.Linear(5, 1), "metric", rows, rows, max_epochs=3, verbose=1)
    else:
        model = MetricMLPClassifier("f1", recipe="metric", max_epochs=3, verbose=1, random_state=0)
        model.fit(x.numpy(), y.numpy())
    (widget,) = notebook.made
    assert widget.closed
    assert len(widget.shown) == 3
    for epoch, text in enumerate(widget.shown, 1):
        assert f"{epoch} of 3" in text
        assert "loss" in text
        assert "f1" in text
    assert sys.stderr.getvalue() == ""


def test_in_a_notebook_without_widgets_there_are_plain_lines_and_no_warning(monkeypatch):
    notebook = in_notebook(monkeypatch)
    monkeypatch.setattr(progress, "find_spec", lambda name: None if name == "ipywidgets" else 1)
    train(recipe="metric")
    assert notebook.made == []
    assert [line[:12] for line in sys.stderr.getvalue().splitlines()] == [
        "epoch 1 of 3",
        "epoch 3 of 3",
    ]


# --- elsewhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rich", [True, False])
def test_in_a_log_plain_lines_come_every_few_seconds(capfd, clock, monkeypatch, rich):
    if not rich:
        monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with Line("run") as line:
        for i in range(1, 101):
            line.show(i, 100, f"{100 - i} s left")
            clock[0] += 0.25
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        f"run {i} of 100 | {100 - i} s left" for i in (1, 21, 41, 61, 81, 100)
    ]


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    train(recipe="metric")
    assert "\x1b" not in terminal.getvalue()
    assert terminal.getvalue().startswith("epoch 1 of 3 | loss 0.")


def test_nothing_is_said_twice_and_nothing_if_nothing_was_shown(capfd):
    with Line("run") as line:
        line.show(1, 2)
        line.close()
    assert capfd.readouterr().err == "run 1 of 2\n"
    with Line("run"):
        pass
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("seconds", "shown"), [(29, []), (31, [30, 31]), (100, [30, 60, 90, 100])])
def test_with_an_interval_only_long_jobs_have_lines(capfd, clock, seconds, shown):
    with Line("run", every=30) as line:
        for i in range(1, seconds + 1):
            clock[0] += 1
            line.show(i, seconds)
    assert capfd.readouterr() == ("", "".join(f"run {i} of {seconds}\n" for i in shown))


def test_of_verbose_above_one_plain_lines_are_so_many_seconds_apart(capfd, clock):
    """As `softset train` asks where its output is no terminal."""
    steps = progress.progress("fit", 50, 30)
    for _ in range(50):
        clock[0] += 1
        next(steps)
    steps.close()
    assert capfd.readouterr().err == "fit 31 of 50\nfit 50 of 50\n"


def test_silence_is_the_default(monkeypatch, capfd):
    terminal = on_terminal(monkeypatch)
    train(verbose=0)
    assert terminal.getvalue() == ""
    assert capfd.readouterr() == ("", "")


def test_the_time_left_is_that_of_the_phase(clock, capfd):
    shown = Progress(1, 10, 1, "f1")
    clock[0] += 100
    shown.start()
    clock[0] += 30
    shown.show(2, 0.5, None, 1)
    shown.close()
    assert capfd.readouterr().err == "epoch 2 of 10 | loss 0.5000 | at most 2:00 left\n"


def test_a_line_needs_nothing_heavy():
    code = (
        "import sys, softset.progress as p; p.Line('run').show(1, 2); "
        "print([m for m in ('torch', 'numpy', 'sklearn') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(progress.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"
    assert done.stderr == "run 1 of 2\n"
