"""Errors that nobody foresaw: one line for the user, and a report file that says where it happened and holds no data.

The messages and variables of an exception may hold counts, labels or a key, so the report names only types, modules,
lines, functions and versions.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType

from tallyveil import __version__
from tallyveil.errors import TallyveilError

PACKAGES = ("cryptography", "dp-accounting", "numba", "numpy", "pandas", "pyarrow", "python-flint", "scipy", "typer")
NEARLY = 0.6  # of the memory; what was asked for last may have been large
_PACKAGE = Path(__file__).parents[1]


def is_expected(problem: BaseException) -> bool:
    """Whether an error, and what it was raised from, is ours or the system's (no space, memory or permission)."""
    cause: BaseException | None = problem
    while isinstance(cause, TallyveilError | OSError | MemoryError):
        cause = cause.__cause__
    return cause is None


def short_of_memory() -> bool:
    """Whether the process nearly has the memory that it may have at most (``ulimit -v``).

    Libraries that get no memory fail in ways of their own: an ImportError, a TypeError, a SystemError.
    """
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return False
    return limit != resource.RLIM_INFINITY and used > NEARLY * limit


def line_for(problem: BaseException) -> str:
    """Write the report of an unexpected error, and return the line for the user."""
    what = f"an unexpected error ({type(problem).__name__} in {_place(problem)})"
    try:
        handle, name = tempfile.mkstemp(prefix="tallyveil-error-", suffix=".txt")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(report_of(problem))
    except OSError:
        return f"{what}. This is a bug in tallyveil; please report it."
    return f"{what}. This is a bug in tallyveil; please report it with {name}, which holds no data."


def report_of(problem: BaseException) -> str:
    """Where an error happened, and the versions that it happened with."""
    lines = [f"tallyveil {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"]
    lines.append(", ".join(f"{name} {_version(name)}" for name in PACKAGES))
    for cause in _chain(problem):
        lines += ["", f"{type(cause).__module__}.{type(cause).__qualname__}", *_frames(cause.__traceback__)]
    return "\n".join(lines) + "\n"


def _chain(problem: BaseException) -> list[BaseException]:
    """An error, what caused it, what caused that, and so on."""
    found: list[BaseException] = []
    cause: BaseException | None = problem
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return found


def _frames(traceback: TracebackType | None) -> list[str]:
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"  {_module(code.co_filename)}, line {traceback.tb_lineno}, {code.co_name}")
        traceback = traceback.tb_next
    return frames


def _module(file: str) -> str:
    """A source file by its place in its package, without the folders of this machine."""
    path = Path(file)
    if path.is_relative_to(_PACKAGE):
        return path.relative_to(_PACKAGE.parent).as_posix()
    roots = [Path(root) for root in sys.path if root and path.is_relative_to(root)]
    return path.relative_to(max(roots, key=lambda root: len(root.parts))).as_posix() if roots else path.name


def _place(problem: BaseException) -> str:
    """The innermost place in tallyveil where the error was raised or passed."""
    own = [frame for frame in _frames(problem.__traceback__) if frame.startswith("  tallyveil/")]
    return own[-1].strip().rpartition(",")[0] if own else "an unknown place"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
