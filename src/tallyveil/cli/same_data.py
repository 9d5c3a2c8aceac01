"""Whether counts can be those that a release was made from: what a release keeps exactly must be the same in both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from tallyveil.nouns.counts import Counts
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.release.release import Release


def refuse_other_data(truth: Histogram, release: Release, *, file: Path, folder: Path) -> None:
    """Refuse counts that differ from a release where it is exact: its invariants, or the number of people.

    A release without a certificate was made elsewhere and declares nothing. Counts of other attributes or levels are
    left to the comparison, which says what differs.
    """
    from tallyveil.evaluate.sources import aligned
    from tallyveil.files.release_folder.layout import exact_pairs
    from tallyveil.files.tables.geography import unit_code

    people, schema = release.histogram, truth.schema
    alike = people.schema == schema and people.spine.levels == truth.spine.levels
    if release.certificate is None or release.strategy is None or not alike:
        return
    pairs = sorted(exact_pairs(release.strategy, schema), key=lambda pair: truth.spine.depth(pair[1]))
    published = aligned(people, truth, f"{folder}: ") if pairs else people
    for query, level in pairs:
        mine, theirs = (side.answer(query, level=level) for side in (truth, published))
        unit = _first_that_differs(mine, theirs)
        if unit is None:
            continue
        one, two = mine.dense(unit, unit + 1)[0], theirs.dense(unit, unit + 1)[0]
        row = int(np.argmax(one != two))
        label = schema.query(query).labels()[row]
        what = f"{level} {unit_code(truth.spine, level, unit)}" if truth.spine.size(level) > 1 else level
        raise InputError(
            f"{file}: these are not the counts that {folder} was made from: {label} of {what} is {one[row]:,}, and the "
            f"release keeps {two[row]:,} exactly. Give the data of this release."
        )


def _first_that_differs(one: Counts, two: Counts) -> int | None:
    """The first unit whose counts are not the same in two tables."""
    shared = min(one.entries, two.entries)
    units = one.unit(), two.unit()
    columns = (units, (one.cell, two.cell), (one.count, two.count))
    differ = np.any([mine[:shared] != theirs[:shared] for mine, theirs in columns], axis=0)
    if not differ.any() and one.entries == two.entries:
        return None
    first = int(np.argmax(differ)) if differ.any() else shared
    return min(int(unit[first]) for unit in units if first < len(unit))
