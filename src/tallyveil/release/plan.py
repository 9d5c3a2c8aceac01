"""What a run will cost before any budget is spent: noise, usable counts, time, memory and disk.

The estimates of effort need only the numbers of units, cells and persons. Most cells are empty: a unit of ``m`` persons
has about ``m ** 0.6`` non-empty cells (a block of 40 has 9, a county of 100,000 has 1,000), and each non-empty cell of
a parent is a variable for each of its children.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.exactness import Pair
from tallyveil.privacy.strategy import Strategy

FILLED = 0.6  # persons to this power is about how many cells of a unit are non-empty
SECONDS = 2.0  # for start-up and compilation
SECONDS_PER_VARIABLE = 2e-6  # measuring, estimating and rounding one cell of one child, on one thread
SECONDS_PER_NUMBER = 1e-7  # writing one number of a table
BASE_BYTES = 400 << 20  # Python and its libraries
BYTES_PER_ENTRY = 40  # in memory: truth, estimates and the current level
BYTES_PER_VARIABLE = 160  # in memory, for the largest parent with its children
FILE_BYTES_PER_ENTRY = 3.0  # release.parquet
FILE_BYTES_PER_NUMBER = 1.0  # levels/*.parquet: mostly small numbers and zeros
FILE_BYTES_PER_UNIT = 5.5  # codes, in spine.parquet and in levels/*.parquet
PERSONS_PER_LEAF = 40  # about as many as in a census block
USABLE = 10  # a count of this many standard deviations has a coefficient of variation of 10%


@dataclass(frozen=True, kw_only=True)
class PlannedNoise:
    """The noise of a query at a level, and the smallest count that it leaves with a coefficient of variation of 10%.

    A query that is exact at a level has neither, even if a share is spent on it there.
    """

    level: str
    query: str
    sd: float | None
    usable: int | None

    @property
    def exact(self) -> bool:
        """Whether every count is released as it is."""
        return self.sd is None

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        return {**asdict(self), "exact": self.exact}


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Estimated time, memory and disk of a run. ``work`` is each level's share of the time."""

    seconds: float
    memory_bytes: int
    release_bytes: int
    levels_bytes: int
    work: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        return {name: value for name, value in asdict(self).items() if name != "work"}


def planned_noise(strategy: Strategy, exact: Collection[Pair] = ()) -> list[PlannedNoise]:
    """The noise of every query at every level, before post-processing; ``exact`` queries have none.

    >>> plan = planned_noise(Strategy.preset("e2e-2018", epsilon=1))
    >>> plan[0].query, round(plan[0].sd, 1), plan[0].usable
    ('hhgq', 50.3, 503)
    """
    table = []
    for level, queries in strategy.queries.items():
        for query in dict.fromkeys([*(name for name, place in exact if place == level), *queries]):
            if (query, level) in exact:
                table.append(PlannedNoise(level=level, query=query, sd=None, usable=None))
                continue
            sd = math.sqrt(strategy.noise(level, query).actual_variance())
            table.append(PlannedNoise(level=level, query=query, sd=sd, usable=math.ceil(USABLE * sd - 1e-9)))
    return table


def planned_effort(
    units: Mapping[str, int], *, cells: int, persons: int, numbers: Mapping[str, int] | None = None, threads: int = 1
) -> Effort:
    """Estimate how long a run takes, and how much memory and disk it needs.

    ``units`` are the sizes of the levels, coarse to fine; ``numbers`` is how many numbers a unit has in its level's
    table.

    >>> small = planned_effort({"us": 1, "county": 50}, cells=192, persons=10_000)
    >>> large = planned_effort({"us": 1, "county": 3_000}, cells=192, persons=100_000_000)
    >>> small.seconds < large.seconds
    True
    """
    levels = list(units)
    above = [1, *(units[level] for level in levels[:-1])]
    variables = {
        level: units[level] * filled(persons / parents, cells) for level, parents in zip(levels, above, strict=True)
    }
    whole = sum(variables.values()) or 1  # with nobody to count, there is nothing to solve
    entries = units[levels[-1]] * filled(persons / units[levels[-1]], cells)
    table_numbers = sum(units[level] * (numbers or {}).get(level, 1) for level in levels)
    largest = max(variables[level] / parents for level, parents in zip(levels, above, strict=True))
    solving = whole * SECONDS_PER_VARIABLE / max(1, threads)
    return Effort(
        seconds=SECONDS + solving + (entries + table_numbers) * SECONDS_PER_NUMBER,
        memory_bytes=round(BASE_BYTES + entries * BYTES_PER_ENTRY + largest * BYTES_PER_VARIABLE * max(1, threads)),
        release_bytes=round(10_000 + entries * FILE_BYTES_PER_ENTRY + units[levels[-1]] * FILE_BYTES_PER_UNIT),
        levels_bytes=round(
            5_000 * len(levels) + table_numbers * FILE_BYTES_PER_NUMBER + sum(units.values()) * FILE_BYTES_PER_UNIT
        ),
        work={level: count / whole for level, count in variables.items()},
    )


def public_persons(people: Histogram, strategy: Strategy) -> int:
    """The number of persons that a plan may use: the true number, or a typical one if that is not public.

    Replace-one neighbours have the same number of people, and it is published. With add-or-remove neighbours it is
    protected, so a plan assumes 40 persons per leaf.
    """
    if strategy.neighbours == "replace-one":
        return people.total()
    return PERSONS_PER_LEAF * people.spine.size(people.spine.leaf)


def effort_of(strategy: Strategy, spine: Spine, schema: Schema, *, persons: int, threads: int = 1) -> Effort:
    """The effort of protecting this many persons with a strategy."""
    published = {
        level: sum(schema.query(query).size for query in level_queries(strategy, schema, level))
        for level in strategy.levels
    }
    units = {level: spine.size(level) for level in spine.levels}
    return planned_effort(units, cells=int(schema.possible.sum()), persons=persons, numbers=published, threads=threads)


def level_queries(strategy: Strategy, schema: Schema, level: str) -> list[str]:
    """The queries in a level's table: the total, each attribute, those measured there, and those kept exactly.

    A query that invariants make exact at a level is often measured at other levels only. The detailed query is left
    out, unless there is only one attribute: then it is that attribute.
    """
    fixed = [schema.query(one.query) for one in strategy.constraints if isinstance(one, Invariant)]
    elsewhere = [
        query
        for query in dict.fromkeys(name for queries in strategy.queries.values() for name in queries)
        if any(schema.sums_up(schema.query(query), known) for known in fixed)
    ]
    asked = (TOTAL, *schema.attributes, *strategy.queries[level], *elsewhere)
    names = dict.fromkeys(schema.query(query).name for query in asked)
    return [name for name in names if name != DETAILED or len(schema.attributes) == 1]


def filled(persons: float, cells: int) -> float:
    """The estimated number of non-empty cells of a unit with this many persons.

    >>> round(filled(40, 2016)), filled(10**9, 192)
    (9, 192)
    """
    return min(math.pow(persons, FILLED), cells)


def human_bytes(size: float) -> str:
    """A size as people write it.

    >>> human_bytes(1500), human_bytes(21e9)
    ('1.5 kB', '21 GB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
