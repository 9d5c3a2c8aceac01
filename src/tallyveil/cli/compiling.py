"""A first run compiles kernels, which takes longer than the run: say so, and let a second process do a part of it.

Kernels are compiled on first use and kept on disk. A process compiles them one after another; those of rounding are
needed last and take a third of the time, so a second process makes them meanwhile. Were it late, the first would make
them itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import typer

PATIENCE = 2.0  # seconds; what takes longer is being compiled
HELPER = (sys.executable, "-m", "tallyveil.cli.compiling")


@contextmanager
def compiling_aloud() -> Iterator[None]:
    """Do small work that takes long only if kernels must be compiled first; then say so on stderr, and get help."""
    helpers: list[subprocess.Popen[bytes]] = []

    def call_for_help() -> None:
        typer.echo("compiling kernels (once; up to a minute)", err=True)
        helpers.append(subprocess.Popen(HELPER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    timer = Timer(PATIENCE, call_for_help)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for helper in helpers:
            helper.terminate()
            helper.wait()


def compile_rounding() -> None:
    """Round a table of two children and two cells."""
    import numpy as np

    from tallyveil.schema import Schema
    from tallyveil.topdown.nests import Nests
    from tallyveil.topdown.rounding import round_nests

    starts = np.array([0, 2])
    nests = Nests(
        child_start=starts,
        child=np.arange(2),
        cell_start=starts,
        cell=np.arange(2),
        count=np.ones(2, np.int64),
        block_start=2 * starts,
    )
    round_nests(np.full(4, 0.5), nests, [], Schema(attributes={"sex": ["f", "m"]}), "margins")


if __name__ == "__main__":
    compile_rounding()
