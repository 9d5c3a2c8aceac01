"""Items of the papers: what is computed, by which public calls, beside what was published, and how they compare.

An item is computed anew every time; nothing of ours is read from a file. Each figure gets a verdict:

- ``agrees``: within the tolerance, and the item says why that tolerance;
- ``erratum``: differs from what is printed, as the erratum says: another computation gives that, or the paper's words
  are too strong;
- ``stand-in``: computed on a synthetic population instead of the census itself; direction and factor are compared, and
  it never counts as agreement;
- ``differs``: anything else (a stand-in beyond a factor of two, too);
- ``not compared``: there is a published number, and it would not be fair to compare ours with it (the reason stands
  beside it);
- ``shown``: there is no published number to compare with.

What nothing published can confirm is computed a second way (``again``): where the two are apart, it differs, too. An
item's verdict is its worst figure's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, final

import pandas as pd

SHOWN, AGREES, ERRATUM, STAND_IN, DIFFERS = "shown", "agrees", "erratum", "stand-in", "differs"
NOT_COMPARED = "not compared"
VERDICTS = (SHOWN, AGREES, ERRATUM, NOT_COMPARED, STAND_IN, DIFFERS)  # from best to worst
FACTOR = 2.0  # beyond which a stand-in differs
_SAME = 1e-6  # relative: two computations of one number


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
    quote
        The paper's words, where it has words and no number ("visually consistent").
    relation
        "=", or "<" or ">" where the paper gives a bound ("over 99%").
    tolerance
        How far ours may be from the published figure: half a unit of its last digit unless there is chance in it.
    as_printed
        What reproduces the published number where it does not follow from the definitions (with an erratum).
    overstated
        That the paper's words say more than holds, as the errata have it; ``again`` must confirm ours then.
    again, again_within
        Ours by other means (a sum written out, a value that the errata give), and how far apart the two may be.
    stand_in
        Whether the population is a synthetic one.
    slack
        Of a stand-in: a difference this small is no difference, whatever its factor.
    factor
        Of a stand-in: the factor beyond which it differs; infinite where direction alone can be compared.
    left_out
        Why it is not compared.
    """

    name: str
    at: str = ""
    ours: float
    published: float | None = None
    quote: str = ""
    relation: Literal["=", "<", ">"] = "="
    tolerance: float = 0.0
    as_printed: float | None = None
    overstated: bool = False
    again: float | None = None
    again_within: float = 0.0
    stand_in: bool = False
    slack: float = 0.0
    factor: float = FACTOR
    left_out: str = ""

    @property
    def verdict(self) -> str:
        """How the two compare."""
        if self.left_out:
            return NOT_COMPARED
        if not math.isfinite(self.ours) or not self._is_confirmed():
            return DIFFERS
        if self.published is None:
            return SHOWN
        if self._fits(self.ours):
            return STAND_IN if self.stand_in else AGREES
        if self.stand_in:
            return STAND_IN if self._is_like(self.published) else DIFFERS
        explained = self._fits(self.as_printed) if self.as_printed is not None else self.overstated and bool(self.quote)
        return ERRATUM if explained else DIFFERS

    @property
    def allowed(self) -> str:
        """How far ours may be from the published number, in words."""
        if self.published is None or self.left_out:
            return ""
        if not self.stand_in:
            return f"{self.tolerance:.3g}" if self.tolerance else "exact" if self.relation == "=" else ""
        rule = f"factor {self.factor:g}" if math.isfinite(self.factor) else "direction"
        near = max(self.tolerance, self.slack)
        return f"{rule}, or {near:.3g}" if near else rule

    @property
    def apart(self) -> str:
        """Of a figure that differs: by how much."""
        if self.verdict != DIFFERS:
            return ""
        if not self._is_confirmed():
            return "not computed again" if self.again is None else f"computed again: {self.again:.6g}"
        if self.published is None or not math.isfinite(self.ours):
            return "not a number"
        times = f", {self.ours / self.published:.2f} times" if self.ours * self.published > 0 else ""
        return f"by {self.ours - self.published:+.3g}{times}"

    def _is_confirmed(self) -> bool:
        if self.again is None:
            return not self.overstated
        return math.isclose(self.ours, self.again, rel_tol=_SAME, abs_tol=self.again_within)

    def _fits(self, value: float) -> bool:
        """Whether a value is as the paper has it."""
        over = value - (math.nan if self.published is None else self.published)
        return {"=": abs(over) <= self.tolerance, "<": over < self.tolerance, ">": over > -self.tolerance}[
            self.relation
        ]

    def _is_like(self, published: float) -> bool:
        """Whether a stand-in has the direction and the size."""
        if abs(self.ours - published) <= self.slack:
            return True
        return self.ours * published > 0 and 1 / self.factor <= self.ours / published <= self.factor


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts.

    >>> worst(["agrees", "stand-in", "shown"])
    'stand-in'
    """
    return max(verdicts, key=VERDICTS.index, default=SHOWN)


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
