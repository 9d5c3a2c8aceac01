"""Items of the papers: what is computed, by which public calls, and what was published.

An item is always computed anew; none of our numbers is read from a file. What an item says in words is data: a TOML
file for each paper (:mod:`tallyveil_papers.reader`). An item's verdict is that of its worst figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, final

import pandas as pd

from tallyveil_papers.figure import Figure, worst


@final
@dataclass(frozen=True, kw_only=True)
class Setting:
    """The parameters of a computation.

    Attributes
    ----------
    persons
        Size of the synthetic census of 1940, where an item needs one.
    replicates
        Runs at each budget, pooled.
    seed
        Seed of populations and noise.
    ipums
        An extract of the real census of 1940, if there is one.
    mdf
        The Bureau's releases of the census of 1940, if they are there: a folder by budget and run.
    map
        How pieces of work are run: the built-in ``map``, or that of a pool.
    """

    persons: int = 10_000_000
    replicates: int = 4
    seed: int = 1
    ipums: Path | None = None
    mdf: Path | None = None
    map: Callable[..., Iterable[Any]] = map


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The result of an item: its figures, charts by name (Altair), further tables by name, and notes."""

    figures: Sequence[Figure]
    charts: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """The worst figure's."""
        return worst(figure.verdict for figure in self.figures)

    def frame(self) -> pd.DataFrame:
        """The figures as a table, a row each."""
        names = (
            *("name", "at", "ours", "relation", "published", "quote", "allowed", "as_printed", "again"),
            *("verdict", "apart", "left_out"),
        )
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
        What the item is, and where it is in the paper.
    what
        What is computed here, in a sentence or two.
    calls
        The public functions that compute it.
    tolerance
        Why the tolerance is what it is.
    erratum
        What is wrong in print, if anything, in fair words ("consistent with").
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
