"""``tallyveil demo``: what tallyveil does, on one screen."""

from __future__ import annotations

import typer


def demo() -> None:
    """Show what the 2020 redistricting budget guarantees, the noise it puts on every count, and a few exact draws.

    [bold]Example[/bold]

      tallyveil demo
    """
    from time import perf_counter

    import numpy as np
    from rich.console import Console

    from tallyveil.cli.account import print_account
    from tallyveil.cli.presets import print_noise
    from tallyveil.privacy import RunKey, Strategy, account_of, draw

    say = Console().print
    strategy = Strategy.preset("pl94-2020-us-persons")
    say("[bold]The 2020 redistricting file, persons: what its budget guarantees[/bold]")
    print_account(account_of(strategy))
    say()
    print_noise(strategy)
    say()
    noise = strategy.noise("block", "detailed")
    stream = RunKey.from_seed(2020).stream([b"demo"])
    places = np.arange(2_000_000)
    draw(noise, stream, places[:1000])  # compile first
    start = perf_counter()
    draws = draw(noise, stream, places)
    seconds = perf_counter() - start
    say("[bold]Exact noise for a block's detailed counts[/bold] (discrete Gaussian; seeded, so not for use)")
    say("  " + " ".join(f"{value:+d}" for value in draws[:24]))
    drawn, expected = draws.var(), noise.actual_variance()
    say(f"  {len(draws):,} draws in {seconds:.2f} s; their variance is {drawn:.3f}, the distribution's {expected:.3f}")
    typer.echo("\nNext: tallyveil presets list | tallyveil account --help | tallyveil --help")
