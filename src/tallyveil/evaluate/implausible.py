"""Units that cannot be, or hardly: children without adults, occupied homes without people, people without homes.

Post-processing keeps counts whole, non-negative and consistent, not plausible. Some such units are real (a
boarding school), so the truth's are counted beside the release's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.residuals import Source, aligned, people_of
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population

CHILDREN = ("child", "children", "minor", "minors", "under_18", "under 18", "<18", "0-17")
HOUSEHOLD = "household"
AGES = ("votingage", "age")


def implausible(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    housing: Histogram | Facilities | None = None,
    children: tuple[str, str] | None = None,
    levels: Iterable[str] | None = None,
) -> pd.DataFrame:
    """How many units are implausible, in the truth and in the release.

    Parameters
    ----------
    truth, released
        The precise counts and what was released; of several releases the mean.
    housing
        Occupied homes by leaf: housing units (``occupied`` and ``vacant``), or facilities with a type ``household``.
        Without it, and without facilities in the truth, homes are not looked at.
    children
        The attribute and label that mean a child; found by name where an attribute ``age`` or ``votingage`` has a label
        such as ``child`` or ``minor``.
    levels
        Which; all by default.

    Returns
    -------
    DataFrame
        ``level``, ``kind``, ``units`` (of the level), ``true``, ``released`` (how many are implausible).

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
    sources = list(released) if isinstance(released, Sequence) else [released]
    if not sources or any(isinstance(source, Estimates | Sample) for source in sources):
        raise InputError("implausible units are counted in whole counts of people. Give a Histogram or a Release.")
    protected = [aligned(people_of(source), people) for source in sources]  # type: ignore[arg-type]
    homes = _homes(truth, housing)
    child = _child_cells(people, children)
    rows = []
    for level in people.spine.levels if levels is None else levels:
        tables = [people.at(level), *(one.at(level) for one in protected)]
        kinds = []
        if child is not None:
            kinds.append(("children without adults", [_lonely_children(table, child) for table in tables]))
        if homes is not None:
            occupied = np.add.reduceat(homes, people.spine.leaves_under(level)[:-1])
            inside = _household_cells(people)
            here = [_people(table, inside) for table in tables]
            kinds.append(("occupied homes without people", [(occupied > 0) & (one == 0) for one in here]))
            kinds.append(("people without homes", [(occupied == 0) & (one > 0) for one in here]))
        for kind, (true, *found) in kinds:
            each = [int(one.sum()) for one in found]
            counts = {"units": people.spine.size(level), "true": int(true.sum())}
            released_ = each[0] if len(each) == 1 else sum(each) / len(each)
            rows.append({"level": level, "kind": kind} | counts | {"released": released_})
    return pd.DataFrame(rows, columns=["level", "kind", "units", "true", "released"])


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
    """Which cells are of children."""
    if children is None:
        pairs = ((name, label) for name in AGES if name in people.schema.attributes for label in CHILDREN)
        children = next(((n, label) for n, label in pairs if label in people.schema.attributes[n]), None)
        if children is None:
            return None
    name, label = children
    if name not in people.schema.attributes or label not in people.schema.attributes[name]:
        raise InputError(
            f"children are {name}={label}, but there is no such attribute and label. Name them as the data do."
        )
    query = people.schema.query(name)
    return np.asarray(query.row_of_cell == query.labels().index(label))


def _household_cells(people: Histogram) -> Bools:
    """Which cells are of people in homes: those of type household where types are known, else all."""
    if HOUSEHOLD in people.schema.attributes.get("hhgq", ()):
        query = people.schema.query("hhgq")
        return np.asarray(query.row_of_cell == query.labels().index(HOUSEHOLD))
    return np.ones(people.schema.cells, dtype=np.bool_)


def _people(table: Counts, inside: Bools) -> Integers:
    """How many people of some cells each unit has."""
    row = np.where(inside, 0, 1).astype(np.int32)
    return table.merged(np.arange(table.units + 1), row, 2).dense()[:, 0]


def _lonely_children(table: Counts, child: Bools) -> Bools:
    minors, adults = _people(table, child), _people(table, ~child)
    return np.asarray((minors > 0) & (adults == 0))
