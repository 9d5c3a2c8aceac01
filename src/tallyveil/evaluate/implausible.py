"""Implausible units: children without adults, occupied homes without people, people without homes.

Post-processing makes counts whole, non-negative and consistent, but not plausible. Some implausible units are real (a
boarding school), so they are counted in the truth as well as in the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.sources import Source, aligned, people_of, sources_of
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population

CHILDREN = ("child", "children", "minor", "minors", "under_18", "under 18", "<18", "0-17")
HOUSEHOLD = "household"
AGES = ("votingage", "age")
COLUMNS = ("level", "kind", "units", "true", "released")


def implausible(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    housing: Histogram | Facilities | None = None,
    children: tuple[str, str] | None = None,
    levels: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Number of implausible units in the truth and in the release.

    Parameters
    ----------
    truth, released
        The true counts and the release. For several releases, the mean of their numbers is reported.
    housing
        Occupied homes by leaf: housing units (``occupied`` and ``vacant``), or facilities with a type ``household``.
        Without it, and without facilities in the truth, kinds that concern homes are left out.
    children
        Attribute and label of children. By default, a label such as ``child`` or ``minor`` of an attribute ``age`` or
        ``votingage``.
    levels
        Levels to examine (default: all).

    Returns
    -------
    DataFrame
        ``level``, ``kind``, ``units`` (of the level), and the implausible ones in ``true`` and ``released``.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[0, 1], count=[9, 48])
    >>> implausible(truth, released, levels=["block"])
       level                     kind  units  true  released
    0  block  children without adults      2     0         1
    """
    people = people_of(truth)
    sources = sources_of(released)
    if any(isinstance(source, Estimates | Sample) for source in sources):
        raise InputError("implausible units are counted in whole counts of people. Give a Histogram or a Release.")
    histograms = [people, *(aligned(people_of(source), people) for source in sources)]  # type: ignore[arg-type]
    homes = _homes(truth, housing)
    child = _child_cells(people, children)
    rows = []
    for level in people.spine.levels if levels is None else levels:
        tables = [histogram.at(level) for histogram in histograms]
        occupied = None if homes is None else np.add.reduceat(homes, people.spine.leaves_under(level)[:-1])
        for kind, (true, *in_releases) in _kinds(tables, child, occupied, _household_cells(people)):
            counts = {"units": people.spine.size(level), "true": true}
            mean = in_releases[0] if len(in_releases) == 1 else sum(in_releases) / len(in_releases)
            rows.append({"level": level, "kind": kind} | counts | {"released": mean})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _kinds(
    tables: list[Counts], child: Bools | None, occupied: Integers | None, household: Bools
) -> Iterator[tuple[str, list[int]]]:
    """Each kind of implausible unit, and how many there are in each table."""
    if child is not None:
        yield "children without adults", [_children_alone(table, child) for table in tables]
    if occupied is not None:
        people = [_people(table, household) for table in tables]
        yield "occupied homes without people", [_number((occupied > 0) & (count == 0)) for count in people]
        yield "people without homes", [_number((occupied == 0) & (count > 0)) for count in people]


def _homes(truth: Histogram | Population, housing: Histogram | Facilities | None) -> Integers | None:
    """Occupied homes by leaf."""
    known = housing
    if known is None and isinstance(truth, Population):
        known = truth.housing if truth.housing is not None else truth.facilities
    if isinstance(known, Facilities):
        if HOUSEHOLD not in known.types:
            return None
        return known.leaves.dense()[:, known.types.index(HOUSEHOLD)]
    return None if known is None else known.leaves.dense()[:, known.schema.cell(h1="occupied")]


def _child_cells(people: Histogram, children: tuple[str, str] | None) -> Bools | None:
    """Whether each cell counts children; None if no label says so."""
    if children is None:
        attributes = people.schema.attributes
        pairs = ((name, label) for name in AGES for label in CHILDREN if label in attributes.get(name, ()))
        children = next(pairs, None)
        if children is None:
            return None
    name, label = children
    if name not in people.schema.attributes or label not in people.schema.attributes[name]:
        raise InputError(
            f"children are {name}={label}, but there is no such attribute and label. Use names that occur in the data."
        )
    query = people.schema.query(name)
    return np.asarray(query.row_of_cell == query.labels().index(label))


def _household_cells(people: Histogram) -> Bools:
    """Whether each cell counts people in homes: those of type household where types are known, otherwise all."""
    if HOUSEHOLD in people.schema.attributes.get("hhgq", ()):
        query = people.schema.query("hhgq")
        return np.asarray(query.row_of_cell == query.labels().index(HOUSEHOLD))
    return np.ones(people.schema.cells, dtype=np.bool_)


def _people(table: Counts, inside: Bools) -> Integers:
    """The number of people of each unit in some cells."""
    row = np.where(inside, 0, 1).astype(np.int32)
    return table.merged(np.arange(table.units + 1), row, 2).dense()[:, 0]


def _children_alone(table: Counts, child: Bools) -> int:
    """The number of units with children but no adults."""
    return _number((_people(table, child) > 0) & (_people(table, ~child) == 0))


def _number(units: Bools) -> int:
    return int(np.count_nonzero(units))
