"""``tallyveil compile``: compile the kernels before the first run. Commands that need them do it by themselves."""

from __future__ import annotations

import typer


def compile_() -> None:
    """Compile the kernels of this installation, so that the first run need not wait for it.

    The machine code is kept beside the package (or in the user's cache folder), for this version on this processor.
    Commands that need it compile it by themselves if it is missing.

    [bold]Example[/bold]

      tallyveil compile
    """
    from tallyveil.engine.kernels import kernels_are_compiled

    if kernels_are_compiled():
        typer.echo("The kernels are compiled already.", err=True)
    else:
        compile_first()


def compile_first() -> None:
    """Compile the kernels unless that has been done, and show how far it is."""
    import time

    from tallyveil.engine.kernels import ABOUT, compile_kernels, kernels_are_compiled
    from tallyveil.runs.progress import Steps

    if kernels_are_compiled():
        return
    typer.echo("Compiling the kernels of this installation, once (about 20 seconds on two cores).", err=True)
    start = time.monotonic()
    with Steps("kernels", ABOUT) as steps:
        kept = compile_kernels(steps.step)
    where = "kept for later runs" if kept else "but they could not be kept for later runs"
    typer.echo(f"The kernels are compiled, after {time.monotonic() - start:.0f} seconds, {where}.", err=True)
