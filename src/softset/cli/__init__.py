"""The command line: parse, call, exit code.

Command modules import nothing heavier than typer at their top, so that ``--help`` is quick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Annotated, NoReturn

try:
    import typer
except ImportError:  # pragma: no cover
    print(
        "softset: error: the command line needs the packages of `pip install softset[cli]`",
        file=sys.stderr,
    )
    sys.exit(2)

from softset import __version__
from softset.cli.outputs import EscapedStream

app = typer.Typer(
    name="softset",
    help="Train classifiers for the metric they are judged by, and find out whether it pays.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}

# Warnings that the user has seen, so that none is printed twice.
reported: set[str] = set()
# The words after `softset`, for the command that a report shows.
command_line: list[str] = []


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"softset {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before a command."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command. Bad input is one line on standard error and exit code 2."""
    reported.clear()
    command_line[:] = sys.argv[1:] if arguments is None else arguments
    warnings.showwarning = _one_line  # type: ignore[assignment]
    # A closed stream takes nothing, and no file that is opened later may take its place.
    streams = [stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr)]  # noqa: SIM115
    for stream in streams:  # a label the terminal has no letters for is escaped
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout, sys.stderr = map(EscapedStream, streams)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _run(arguments)
    finally:
        # A signal that comes after the work ends the process at once.
        signal.signal(signal.SIGTERM, before)
        sys.stdout, sys.stderr = streams


def _run(arguments: Sequence[str] | None) -> NoReturn:
    try:
        code = app(args=arguments, prog_name="softset", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:  # `softset … | head`
        _end_of_pipe()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # the argument parser made it its own
            _end_of_pipe()
        raise
    except MemoryError as error:
        _fail(
            f"the memory is not enough{f' ({error})' if str(error) else ''}. Take a sample of the "
            "rows, leave out columns, or use a larger machine."
        )
    except (ValueError, OSError, ImportError) as error:
        _fail(error)
    except Exception as error:
        if type(error).__name__ == "RankError":  # of torchrun; its module takes long to import
            _fail(error)
        if not hasattr(error, "format_message"):  # not a complaint of the argument parser
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            sys.exit(0)
        _fail(error.format_message())
    sys.exit(code if isinstance(code, int) else 0)


def _end_of_pipe() -> NoReturn:
    """Exit as a program that SIGPIPE has killed; nothing is left to be written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(128 + 13)


def _add_plugin_commands() -> None:
    """``softset paper`` and ``softset datasets`` come with softset-papers, by entry point."""
    plugins = {point.name: point for point in entry_points(group="softset.commands")}
    for name in dict.fromkeys([*plugins, "paper", "datasets"]):
        if name not in plugins:
            app.command(name, hidden=True, context_settings=_ANY_ARGUMENTS)(_absent(name))
            continue
        command = plugins[name].load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _absent(name: str) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise ImportError(f"`softset {name}` needs softset-papers: pip install softset-papers")

    return command


def _fail(error: object) -> NoReturn:
    if os.environ.get("SOFTSET_DEBUG") and isinstance(error, BaseException):
        raise error
    text = " ".join(str(error).split())
    print(f"softset: error: {text}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # a full disk, say: what is left cannot be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(2)


def _one_line(message: Warning | str, *_: object) -> None:
    if str(message) in reported:
        return
    reported.add(str(message))
    print(f"softset: warning: {' '.join(str(message).split())}", file=sys.stderr)


# Commands register themselves; they import this module, so they come last.
from softset.cli import compare as compare  # noqa: E402
from softset.cli import demo as demo  # noqa: E402
from softset.cli import evaluate as evaluate  # noqa: E402
from softset.cli import explain as explain  # noqa: E402
from softset.cli import predict as predict  # noqa: E402
from softset.cli import report as report  # noqa: E402
from softset.cli import train as train  # noqa: E402
from softset.cli import tune as tune  # noqa: E402

_add_plugin_commands()
