"""Progress on stderr: a bar on a terminal, a line now and then elsewhere; and times as people write them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LARGE = 1 << 28  # bytes from which reading shows progress
PATIENCE = 2.0  # seconds; small work that takes longer is being compiled
TELLING = 0.1  # of the steps, after which the time left is told


class LevelProgress:
    """Follows a run through its levels.

    ``work`` is the estimated share of each level in the whole. The remaining time is computed from what is done and how
    long it took, so it corrects itself as levels turn out faster or slower than estimated.
    """

    def __init__(self, work: Mapping[str, float], *, what: str = "parents", terminal: bool | None = None) -> None:
        self._work, self._what = dict(work), what
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._done: dict[str, float] = {}
        self._announced: set[str] = set()
        self._started = time.monotonic()

    def __enter__(self) -> LevelProgress:
        if self._terminal:
            self._bar = _bar()
            self._task = self._bar.add_task("starting", total=sum(self._work.values()))
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, level: str, done: int, of: int) -> None:
        """Record how many of a level's parents (or other pieces) are done."""
        self._done[level] = done / max(1, of)
        if self._bar is not None and self._task is not None:
            whole = sum(self._work.get(name, 0.0) * share for name, share in self._done.items())
            self._bar.update(self._task, completed=whole, description=f"{level}: {done:,} of {of:,} {self._what}")
        if done >= of and level not in self._announced:
            self._announced.add(level)
            seconds = time.monotonic() - self._started
            self.say(f"{level}: done after {seconds:.1f} s")

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False)
        else:
            typer.echo(line, err=True)


class Steps:
    """Follows work that consists of equal steps, some of which may have been done before.

    ``abreast`` steps are made at a time. The first ones include what is done once (processes start, kernels are
    loaded), so the time left is told from the steps after them, and until then as a bound.
    """

    def __init__(
        self,
        what: str,
        total: int,
        *,
        done: int = 0,
        abreast: int = 1,
        resumable: bool = False,
        terminal: bool | None = None,
    ) -> None:
        self._what, self._total, self._known, self._done = what, total, done, 0
        self._abreast = max(1, min(abreast, total - done))
        self._resumable, self._ended = resumable, False
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._started = self._reported = self._begun = time.monotonic()

    def __enter__(self) -> Steps:
        if self._known:
            typer.echo(f"{self._known:,} of {self._total:,} {self._what} were done before", err=True)
        if self._terminal:
            self._bar = _bar()
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is not None and self._resumable:
            typer.echo(f"stopped after {self._done:,} of {self._total:,} {self._what}; run it again to go on", err=True)

    def step(self, *_: object) -> None:
        """Record that one more step is done; where there is no terminal, print a line every five seconds."""
        self._done = min(self._done + 1, self._total)  # the number of steps may be an estimate
        now = time.monotonic()
        if self._done - self._known == self._abreast:
            self._begun = now
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, description=f"{self._done:,} of {self._total:,}")
        elif not self._ended and (now - self._reported > 5 or self._done == self._total):
            self._reported, self._ended = now, self._done == self._total
            typer.echo(f"{self._done:,} of {self._total:,} {self._what} done{self._left(now)}", err=True)

    def _left(self, now: float) -> str:
        """The time left in words; none if too few steps are done to tell."""
        new, left = self._done - self._known, self._total - self._done
        if new < max(1, TELLING * (self._total - self._known)) or not left:
            return ""
        if new <= self._abreast:
            return f", at most {human_seconds((now - self._started) / self._abreast * left)} left"
        return f", about {human_seconds((now - self._begun) / (new - self._abreast) * left)} left"


@contextmanager
def following_bytes(path: Path) -> Iterator[Callable[[int, int], None] | None]:
    """What a reader of a large file reports its progress to: bytes read, bytes in all. None for a small file."""
    if not path.is_file() or path.stat().st_size < LARGE:
        yield None
        return
    with LevelProgress({path.name: 1.0}, what="bytes") as progress:
        yield partial(progress.update, path.name)


@contextmanager
def compiling_aloud() -> Iterator[None]:
    """Announce on stderr that kernels are being compiled if the small work inside takes long."""
    timer = Timer(PATIENCE, typer.echo, ["compiling kernels (once; about half a minute)"], {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def human_seconds(seconds: float) -> str:
    """A time as people write it.

    >>> human_seconds(4.2), human_seconds(0.9), human_seconds(600), human_seconds(9000)
    ('4 seconds', '1 second', '10 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("about"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
