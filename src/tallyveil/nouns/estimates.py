"""Answers that are not a histogram: the output of simple mechanisms, and samples of people.

The counts of a release are whole, non-negative and consistent. Unprocessed noisy counts, raked counts and scaled-up
samples need not be, so they have their own types, which answer queries as a histogram does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import DataError, InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Query, Schema
from tallyveil.nouns.spine import Spine

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Table = NDArray[Any]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Answers to one query that need be neither whole, nor non-negative, nor consistent between levels.

    Attributes
    ----------
    query
        The name of the query in the schema.
    tables
        The answers at some levels, replicates x units x rows. Any other level is summed from the next finer one.

    Examples
    --------
    >>> spine = Spine.from_columns({"county": ["1", "1", "3"], "tract": ["1a", "1b", "3a"]}, root="state")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> noisy = Estimates(
    ...     spine=spine, schema=schema, query="age", tables={"tract": np.array([[[3, 9], [-1, 4], [0, 7]]])}
    ... )
    >>> noisy
    Estimates('detailed' at tract, 1 replicate)
    >>> noisy.answer("total", level="county").tolist()
    [[[15], [7]]]
    """

    spine: Spine
    schema: Schema
    query: str
    tables: Mapping[str, Table]

    def __post_init__(self) -> None:
        asked = self.schema.query(self.query)
        if not self.tables:
            raise DataError("estimates need the table of at least one level. Give the table of the leaves.")
        tables = {}
        for level in sorted(self.tables, key=self.spine.depth):
            tables[level] = _checked(self.tables[level], level, self.spine.size(level), asked)
        if len({len(table) for table in tables.values()}) > 1:
            sizes = ", ".join(f"{level} {len(table):,}" for level, table in tables.items())
            raise DataError(f"levels differ in their number of replicates ({sizes}). Give the same number for each.")
        object.__setattr__(self, "query", asked.name)
        object.__setattr__(self, "tables", Frozen(tables))

    def __repr__(self) -> str:
        some = f"{self.replicates:,} replicate{'' if self.replicates == 1 else 's'}"
        return f"Estimates({self.query!r} at {', '.join(self.tables)}, {some})"

    @property
    def replicates(self) -> int:
        """The number of runs of the mechanism."""
        return len(next(iter(self.tables.values())))

    def answer(self, query: str, *, level: str) -> Table:
        """Return the answers to the query, or to a coarser one, at a level: replicates x units x rows."""
        table = self._level(level)
        asked = self.schema.query(query)
        if asked.name == self.query:
            return table
        if not self.answers(query):
            raise InputError(
                f"query {asked.name!r} cannot be answered from estimates of {self.query!r}: it is not coarser. "
                f"Run the mechanism with query={asked.name!r} or a finer query."
            )
        row = self._rows_in(asked)
        order = np.argsort(row, kind="stable")
        return _read_only(_sum_runs(table[:, :, order], np.searchsorted(row[order], np.arange(asked.size + 1)), axis=2))

    def answers(self, query: str) -> bool:
        """Whether a query can be answered: it is that of the estimates, or coarser."""
        asked = self.schema.query(query)
        row_of_cell = self.schema.query(self.query).row_of_cell
        return bool((self._rows_in(asked)[row_of_cell] == asked.row_of_cell).all())

    def to_arrow(self) -> pa.Table:
        """Every estimate, one row each: ``level``, ``query``, ``replicate`` (from 0), ``unit``, ``cell``, ``estimate``.

        The levels are those that were given.
        """
        from tallyveil.nouns.tables import answers_table, stacked

        labels = self.schema.query(self.query).labels()
        parts = []
        for level, table in self.tables.items():
            units = np.arange(self.spine.size(level))
            for replicate, numbers in enumerate(table):
                answers = answers_table(self.spine, level, units, labels, {"estimate": numbers.reshape(-1)})
                numbered = answers.add_column(0, "replicate", [np.full(answers.num_rows, replicate)])
                parts.append(({"level": level, "query": self.query}, numbered))
        return stacked(parts)

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas frame; codes and labels are categoricals."""
        return self.to_arrow().to_pandas()

    def _rows_in(self, asked: Query) -> Integers:
        """For each of my rows, its row in a coarser query."""
        mine = self.schema.query(self.query)
        row = np.full(mine.size, asked.size, dtype=np.int64)
        row[mine.row_of_cell] = asked.row_of_cell
        return row

    def _level(self, level: str) -> Table:
        """Return the table of a level, summed from the next finer level if the level has none."""
        depth = self.spine.depth(level)
        if level in self.tables:
            return self.tables[level]
        for below in self.tables:  # coarse to fine
            if (deep := self.spine.depth(below)) > depth:
                bounds = np.arange(self.spine.size(level) + 1, dtype=np.int64)
                for first_child in self.spine.first_child[depth:deep]:
                    bounds = first_child[bounds]
                return _read_only(_sum_runs(self.tables[below], bounds, axis=1))
        raise InputError(
            f"level {level!r} is finer than these estimates ({', '.join(self.tables)}). Run the mechanism at it."
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A sample of people. Its counts are whole; its answers are scaled up by 1/fraction.

    Examples
    --------
    >>> spine = Spine.from_columns({"tract": ["1", "2"]}, root="state")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[0, 1], count=[3, 1])
    >>> Sample(people=people, fraction=Fraction(1, 2)).answer("total", level="tract").tolist()
    [[6], [2]]
    """

    people: Histogram
    fraction: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", Fraction(self.fraction))
        if not 0 < self.fraction <= 1:
            raise InputError(f"the fraction of a sample must be above 0 and at most 1. Got {self.fraction} instead.")

    def __repr__(self) -> str:
        return f"Sample({self.fraction} of the people; {self.people!r})"

    @property
    def spine(self) -> Spine:
        """The spine of the sampled people."""
        return self.people.spine

    @property
    def schema(self) -> Schema:
        """The schema of the sampled people."""
        return self.people.schema

    def answer(self, query: str, *, level: str) -> Table:
        """Return the scaled-up answer to a query, units x rows."""
        return self.scaled(self.people.answer(query, level=level).dense())

    def scaled(self, counts: Integers) -> Table:
        """Scale up counts of the sample. The result is whole if 1/fraction is."""
        times, over = self.fraction.denominator, self.fraction.numerator
        if int(counts.max(initial=1)) * times >= 1 << 53:
            return np.asarray(counts / float(self.fraction))
        return np.asarray(counts * times if over == 1 else counts * times / over)


def _checked(table: Table, level: str, units: int, query: Query) -> Table:
    """Return the table as a read-only array of 64-bit numbers. A table of another shape is an error."""
    table = np.asarray(table)
    if table.dtype.kind not in "iuf":
        raise DataError(f"the table of level {level!r} holds {table.dtype}, not numbers. Give int64 or float64.")
    if table.ndim != 3 or table.shape[1:] != (units, query.size) or len(table) == 0:
        raise DataError(
            f"the table of level {level!r} is {' x '.join(map(str, table.shape))}. Give replicates x {units} units "
            f"x {query.size} rows of {query.name!r}."
        )
    if table.dtype.kind == "f" and not np.isfinite(table).all():
        position = np.argwhere(~np.isfinite(table))[0].tolist()
        raise DataError(
            f"the table of level {level!r} holds {table[tuple(position)]} at {position}. Give finite numbers."
        )
    return _read_only(table.astype(np.float64 if table.dtype.kind == "f" else np.int64, copy=False))


def _read_only(table: Table) -> Table:
    view = table.view()
    view.flags.writeable = False
    return view


def _sum_runs(table: Table, bounds: Integers, *, axis: int) -> Table:
    """Sum runs along an axis: run ``g`` holds the items from ``bounds[g]`` up to ``bounds[g + 1]``, possibly none."""
    shape = list(table.shape)
    shape[axis] = len(bounds) - 1
    sums = np.zeros(shape, dtype=table.dtype)
    some = np.flatnonzero(np.diff(bounds))
    if len(some):
        place: list[Any] = [slice(None)] * table.ndim
        place[axis] = slice(0, int(bounds[-1]))
        within = table[tuple(place)]
        place[axis] = some
        sums[tuple(place)] = np.add.reduceat(within, bounds[:-1][some], axis=axis)
    return sums
