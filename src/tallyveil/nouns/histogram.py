"""Counts of people on a spine and a schema: both the confidential input and the release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import ArrayLike

from tallyveil._frozen import Frozen
from tallyveil.errors import DataError, InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.schema import Query, Schema
from tallyveil.nouns.spine import Spine

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The rows of a table that were counted: those in which each named column has the given value.

    Attributes
    ----------
    where
        The value that each column must have.
    public
        Whether it is public who passes the filter, so that the number of these people may be published exactly.
    others
        What else was left out, each in a clause.
    """

    where: Mapping[str, str]
    public: bool = False
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", Frozen({str(name): str(value) for name, value in self.where.items()}))
        object.__setattr__(self, "others", tuple(self.others))

    def words(self) -> str:
        """Describe the filter in a clause for the certificate.

        >>> Filter(where={"level": "block"}).words()
        "only rows with level = 'block' are counted"
        """
        kept = " and ".join(f"{name} = {value!r}" for name, value in self.where.items())
        return "; ".join([*([f"only rows with {kept} are counted"] if kept else []), *self.others])


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Answer(Counts):
    """The answer to a query for every unit of a level: a table of counts that knows its units and cells.

    Examples
    --------
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 0], count=[40, 7])
    >>> people.answer("age", level="block").to_pandas()
      unit   cell  count
    0    1  child      0
    1    1  adult     40
    2    2  child      7
    3    2  adult      0
    """

    spine: Spine
    level: str
    query: Query

    def to_arrow(self) -> pa.Table:
        """One row per unit and cell, empty ones too: ``unit``, ``cell`` (labels joined by ``*``), ``count``."""
        from tallyveil.nouns.tables import answers_table

        count = self.dense().reshape(-1)
        return answers_table(self.spine, self.level, np.arange(self.units), self.query.labels(), {"count": count})

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas frame; codes and labels are categoricals."""
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """Whole counts at the leaves of a spine, by the cells of a schema. Other levels are sums of the leaves.

    Examples
    --------
    >>> spine = Spine.from_columns({"county": ["001", "001", "003"], "tract": ["001a", "001b", "003a"]}, root="state")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 0, 2], cell=[0, 1, 1], count=[10, 20, 5])
    >>> people
    Histogram(state 1, county 2, tract 3; age 2)
    >>> people.answer("total", level="county").dense().tolist()
    [[30], [5]]
    >>> people.at("state").dense().tolist()
    [[10, 25]]
    """

    spine: Spine
    schema: Schema
    leaves: Counts
    stamps: tuple[str, ...] = ()  # notices that every release of these counts must carry
    filter: Filter | None = None  # the rows of the table that were counted, if not all
    rows_per_person: int | None = None  # how many records a person has at most; None if it was not checked

    def __post_init__(self) -> None:
        size = self.spine.size(self.spine.leaf)
        if (self.leaves.units, self.leaves.cells) != (size, self.schema.cells):
            raise DataError(
                f"the counts are {self.leaves.units:,} units x {self.leaves.cells:,} cells, but the spine has {size:,} "
                f"leaves and the schema {self.schema.cells:,} cells. Build the counts on this spine and schema."
            )
        wrong = self.leaves.first_in(~self.schema.possible) if self.schema.zeros else None
        if wrong is not None:
            unit, cell = wrong[0], self.schema.query("detailed").labels()[wrong[1]]
            raise DataError(
                f"{self.spine.leaf} {bytes(self.spine.codes[-1][unit]).decode()!r} counts people in the impossible "
                f"cell {cell!r} (a structural zero). Correct the data or the schema."
            )

    @classmethod
    def from_entries(
        cls, spine: Spine, schema: Schema, *, unit: ArrayLike, cell: ArrayLike, count: ArrayLike
    ) -> Histogram:
        """Build the histogram from entries in any order: the leaf position, cell number and count of each."""
        leaves = Counts.from_entries(unit, cell, count, units=spine.size(spine.leaf), cells=schema.cells)
        return cls(spine=spine, schema=schema, leaves=leaves)

    def __eq__(self, other: object) -> bool:
        """Whether the spine, the schema and all counts are equal."""
        if not isinstance(other, Histogram):
            return NotImplemented
        return self.spine == other.spine and self.schema == other.schema and self.leaves == other.leaves

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        levels = ", ".join(f"{level} {len(codes):,}" for level, codes in self.spine.items())
        attributes = ", ".join(f"{name} {len(labels)}" for name, labels in self.schema.attributes.items())
        return f"Histogram({levels}; {attributes or 'total'})"

    def total(self) -> int:
        """Return the number of people."""
        return self.leaves.total()

    def at(self, level: str) -> Counts:
        """Return the counts of every unit of a level, in all cells."""
        return self.leaves if level == self.spine.leaf else self.leaves.summed(self.spine.leaves_under(level))

    def by_level(self) -> Iterator[tuple[str, Counts]]:
        """Yield all levels from the leaves up, each summed from the level below it."""
        counts = self.leaves
        yield self.spine.leaf, counts
        for depth in range(len(self.spine.levels) - 2, -1, -1):
            counts = counts.summed(self.spine.first_child[depth])
            yield self.spine.levels[depth], counts

    def answer(self, query: str | Query, *, level: str) -> Answer:
        """Return the answer to a query for every unit of a level; it has ``dense()`` and ``to_pandas()``."""
        asked = self.schema.query(query) if isinstance(query, str) else query
        if asked.schema != self.schema.canonical():
            raise InputError(f"query {asked.name!r} belongs to another schema. Ask by name, or use schema.query(...).")
        counts = self.leaves.merged(self.spine.leaves_under(level), asked.row_of_cell, asked.size)
        return Answer(**vars(counts), spine=self.spine, level=level, query=asked)

    def to_arrow(self) -> pa.Table:
        """The non-zero counts, one row each: a column per geographic level, one per attribute, and ``count``."""
        from tallyveil.nouns.tables import counts_table

        return counts_table(self)

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas frame; codes and labels are categoricals."""
        return self.to_arrow().to_pandas()

    def canonical_bytes(self) -> Iterator[bytes]:
        """Yield the spine, the schema and the counts as bytes that depend on nothing else."""
        yield from self.spine.canonical_bytes()
        yield self.schema.canonical().encode()
        yield from self.leaves.canonical_bytes()

    def identifying_bytes(self) -> Iterator[bytes]:
        """Yield bytes that identify the counted people: a run's key is bound to them, and its noise depends on them.

        The filter is included. Otherwise a filter that everybody passes would give the same noise as no filter, and a
        comparison of the two releases would reveal that everybody passes it.
        """
        yield from self.canonical_bytes()
        if self.filter is not None and self.filter.where:
            yield f"filter {sorted(self.filter.where.items())}".encode()
