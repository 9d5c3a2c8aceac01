"""A first run compiles kernels, which takes longer than the run: say so, so that nobody thinks it hangs."""

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
