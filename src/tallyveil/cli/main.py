"""The program ``tallyveil``: collects the commands and turns errors into one clear line.

Commands import what they need when they run, so ``tallyveil --help`` loads nothing heavy.
"""

from __future__ import annotations

import io
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tallyveil import __version__
from tallyveil.cli import (
    account,
    allocate,
    audit,
    baseline,
    cite,
    codebook,
    compare,
    compiling,
    demo,
    epl,
    estimate,
    evaluate,
    keygen,
    ledger,
    presets,
    protect,
    publish,
    report,
    reproduce,
    risk,
    sign,
    strategy,
    sweep,
    synth,
    uncertainty,
    units,
    verify,
)
from tallyveil.cli.help_text import unwrap_help
from tallyveil.cli.stderr import keep_stderr
from tallyveil.errors import InputError, TallyveilError, one_line


class _Group(TyperGroup):
    """The commands. What the command-line library says about a word that it does not know is cut like any message."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _short_messages():
            return super().make_context(*given, **more)

    def invoke(self, *given: Any, **more: Any) -> Any:
        with _short_messages():
            return super().invoke(*given, **more)


@contextmanager
def _short_messages() -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        if hasattr(problem, "exit_code") and isinstance(getattr(problem, "message", None), str):
            problem.message = one_line(problem.message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="tallyveil",
    cls=_Group,
    help="Differential privacy for counts of people that nest in geography: protect them, and "
    "measure what the protection costs and buys.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("synth")(synth.synth)
app.command("codebook")(codebook.codebook)
app.command("units")(units.units)
app.command("strategy")(strategy.strategy)
app.command("allocate")(allocate.allocate)
app.command("protect")(protect.protect)
app.command("verify")(verify.verify)
app.command("keygen")(keygen.keygen)
app.command("sign")(sign.sign)
app.command("baseline")(baseline.baseline)
app.command("evaluate")(evaluate.evaluate)
app.command("tables")(publish.tables)
app.command("report")(report.report)
app.command("estimate")(estimate.estimate)
app.command("uncertainty")(uncertainty.uncertainty)
app.command("compare")(compare.compare)
app.command("epl")(epl.epl)
app.command("sweep")(sweep.sweep)
app.command("compile")(compiling.compile_)
app.command("audit")(audit.audit)
app.add_typer(risk.app, name="risk")
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
app.command("reproduce", context_settings=_ANYTHING, add_help_option=False)(reproduce.reproduce)
app.command("account")(account.account)
app.add_typer(ledger.app, name="ledger")
app.add_typer(presets.app, name="presets", no_args_is_help=True)
app.command("cite")(cite.cite)
unwrap_help(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tallyveil {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Take the options that come before a command."""
    del version


def main() -> None:
    """Run the program. Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted (143 terminated, 129 hung up)."""
    keep_stderr()
    if isinstance(sys.stdout, io.TextIOWrapper):  # labels need not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _refuse_undecoded(sys.argv[1:])
        with _interruptible(), warnings.catch_warnings():
            warnings.showwarning = _warn
            app()
    except InputError as problem:
        sys.exit(_failed(problem, 2))
    except MemoryError:
        sys.exit(_out_of_memory())
    except (_Interrupted, Exception) as problem:
        stop: BaseException | None = problem  # a compiled kernel that is interrupted ends in a SystemError
        while stop is not None and not isinstance(stop, _Interrupted):
            stop = stop.__cause__
        sys.exit(_failed(problem, 1) if stop is None else _interrupted(stop))


def _refuse_undecoded(words: list[str]) -> None:
    """Refuse names of files that are not text in this locale: libraries that read them need UTF-8."""
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise InputError(f"{word}: not text in this locale. Set LC_ALL=C.UTF-8, or rename the file.")


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Interrupted(BaseException):
    """Ctrl-C, which the command-line library would turn into exit code 1 if it were a KeyboardInterrupt.

    Its notes say what is kept of the work.
    """

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        self.how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"

    def __str__(self) -> str:
        return " ".join([f"{self.how}; nothing was left half-written.", *getattr(self, "__notes__", ())])


@contextmanager
def _interruptible() -> Iterator[None]:
    """Signals that end the program raise ``_Interrupted`` once; under nohup, closing the terminal does not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN or number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: object) -> None:
    for other in _SIGNALS:  # nothing interrupts the cleaning up
        signal.signal(other, signal.SIG_IGN)
    raise _Interrupted(number)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"tallyveil: {one_line(str(message))}", err=True)


def _interrupted(stop: _Interrupted) -> int:
    typer.echo(f"tallyveil: {stop}", err=True)
    return stop.code


def _failed(problem: BaseException, code: int) -> int:
    """Print what went wrong, in a line; what nobody foresaw also goes to a report."""
    if isinstance(problem, TallyveilError):
        typer.echo(f"tallyveil: {problem}", err=True)
    if isinstance(problem, InputError):
        return code
    from tallyveil.cli.unexpected import is_expected, line_for, short_of_memory

    if not is_expected(problem) and short_of_memory():
        told = _out_of_memory()
        return code if isinstance(problem, TallyveilError) else told  # a run that ended after noise has failed
    if not is_expected(problem):
        typer.echo(f"tallyveil: {line_for(problem)}", err=True)
    elif not isinstance(problem, TallyveilError):
        typer.echo(f"tallyveil: {one_line(str(problem))}. Check the file, the folder and the disk.", err=True)
    return code


def _out_of_memory() -> int:
    typer.echo("tallyveil: there is not enough memory. Use a machine with more, or a smaller table.", err=True)
    return 2
