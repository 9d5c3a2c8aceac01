"""Items of the papers: what is computed, by which public calls, beside what was published, and how they compare.

An item is computed anew every time; nothing of ours is read from a file. Each figure gets a verdict:

- ``agrees``: within the tolerance, and the item says why that tolerance;
- ``erratum``: differs from what is printed as the erratum says, and agrees with what follows from the definitions;
- ``stand-in``: computed on a synthetic population instead of the census itself; direction and factor are compared, and
  it never counts as agreement;
- ``differs``: anything else (a stand-in beyond a factor of two, too);
- ``shown``: there is no published number to compare with.

An item's verdict is its worst figure's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, final

import pandas as pd

SHOWN, AGREES, ERRATUM, STAND_IN, DIFFERS = "shown", "agrees", "erratum", "stand-in", "differs"
VERDICTS = (SHOWN, AGREES, ERRATUM, STAND_IN, DIFFERS)  # from best to worst
FACTOR = 2.0  # beyond which a stand-in differs


@final
@dataclass(frozen=True, kw_only=True)
class Setting:
    """With what items are computed.

    Attributes
    ----------
    persons
        Size of the synthetic census of 1940, where an item needs one.
    replicates
        Runs at each budget, pooled.
    seed
        Of populations and noise.
    ipums
        An extract of the real census of 1940, if there is one.
    map
        How pieces of work are done: ``map``, or that of a pool.
    """

    persons: int = 10_000_000
    replicates: int = 4
    seed: int = 1
    ipums: Path | None = None
    map: Callable[..., Iterable[Any]] = map


@final
@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number beside the published one.

    Attributes
    ----------
    name, at
        What it is, and for which parameters.
    ours
        Computed now, by the definitions.
    published
        As printed; None where the paper shows a picture and no number.
    tolerance
        How far ours may be from the published figure: half a unit of its last digit unless there is chance in it.
    as_printed
        What reproduces the published number where it does not follow from the definitions (with an erratum).
    stand_in
        Whether the population is a synthetic one.
    slack
        Of a stand-in: a difference this small is no difference, whatever its factor.
    """

    name: str
    at: str = ""
    ours: float
    published: float | None = None
    tolerance: float = 0.0
    as_printed: float | None = None
    stand_in: bool = False
    slack: float = 0.0

    @property
    def verdict(self) -> str:
        """How the two compare."""
        if self.published is None:
            return SHOWN
        if not math.isfinite(self.ours):
            return DIFFERS
        near = abs(self.ours - self.published) <= self.tolerance
        if self.stand_in:
            if near or abs(self.ours - self.published) <= self.slack:
                return STAND_IN
            same_sign = self.ours * self.published > 0
            return STAND_IN if same_sign and 1 / FACTOR <= self.ours / self.published <= FACTOR else DIFFERS
        if self.as_printed is not None:
            return ERRATUM if abs(self.as_printed - self.published) <= self.tolerance else DIFFERS
        return AGREES if near else DIFFERS


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What an item gave: its figures, charts by name (Altair), further tables by name, and notes in words."""

    figures: Sequence[Figure]
    charts: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """The worst figure's."""
        return max((figure.verdict for figure in self.figures), key=VERDICTS.index, default=SHOWN)

    def frame(self) -> pd.DataFrame:
        """The figures as a table: name, at, ours, published, tolerance, as_printed, verdict."""
        names = ("name", "at", "ours", "published", "tolerance", "as_printed", "verdict")
        return pd.DataFrame([{name: getattr(figure, name) for name in names} for figure in self.figures], columns=names)


@final
@dataclass(frozen=True, kw_only=True)
class Item:
    """A table, a figure or a claim of a paper.

    Attributes
    ----------
    key
        ``paper.item``, such as ``kazan2022.table3``.
    title, where
        What it is, and where it stands in the paper.
    what
        What is computed here, in a sentence or two.
    calls
        The public functions that compute it.
    tolerance
        Why the tolerance is what it is.
    erratum
        What is off in print, in fair words ("consistent with"), where something is.
    compute
        Computes it.
    """

    key: str
    title: str
    where: str
    what: str
    calls: tuple[str, ...]
    tolerance: str
    compute: Callable[[Setting], Outcome]
    erratum: str = ""

    @property
    def paper(self) -> str:
        """The paper's key."""
        return self.key.partition(".")[0]


def published(name: str) -> pd.DataFrame:
    """A table of published figures, as the project ships it (``published/``: facts, with their source)."""
    with files(__package__).joinpath("published", f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
