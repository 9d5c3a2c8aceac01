"""A first run compiles kernels, which takes longer than the run: say so, so that nobody thinks it hangs.

``python -m tallyveil.cli.compiling`` compiles them beforehand, as a part of setting up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import typer

PATIENCE = 2.0  # seconds; what takes longer is being compiled


@contextmanager
def compiling_aloud() -> Iterator[None]:
    """Do small work that takes long only if kernels must be compiled first; then say so on stderr."""
    timer = Timer(PATIENCE, typer.echo, ["compiling kernels (once; about a minute)"], {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def compile_kernels() -> None:
    """Protect and evaluate a hamlet, so that all kernels of a run are compiled and kept."""
    from tallyveil.evaluate import epl, error, residuals
    from tallyveil.populations import census_1940
    from tallyveil.privacy import Strategy
    from tallyveil.protection.protect import protect

    hamlet = census_1940(persons=5_000, seed=1)
    release = protect(hamlet, Strategy.preset("e2e-2018", epsilon=1), seed=1)
    error(hamlet, release)
    epl(residuals(hamlet, release, level="enumdist", query="race"))


if __name__ == "__main__":
    compile_kernels()
