"""Check the estimates of a folder: columns, and the numbers where all measurements are saved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tallyveil.blue.estimate import estimate_pieces, queries_by_level
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import ESTIMATED, estimate_name
from tallyveil.files.release_folder.measurement_checks import all_saved, saved_again
from tallyveil.files.release_folder.measurement_files import empty_measurements
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.release_folder.strict_tables import CheckedTable, checked_table, refuse_differing
from tallyveil.files.tables.columns import decoded

CLOSE = 1e-6  # estimates are floats, and platforms differ in their last digits


def check_estimates(release: ReadRelease) -> str:
    """Estimates have a row for every unit, query and cell, and are those that the saved measurements give."""
    levels = list(release.spine.levels)
    if not any(estimate_name(level) in release.folder.files for level in levels):
        return "not in the folder"
    shape = empty_measurements(release.people, release.strategy, release.optimised)
    for level, names in queries_by_level(shape, levels, None).items():
        rows = release.spine.size(level) * sum(release.schema.query(name).size for name in names)
        checked_table(release.folder, estimate_name(level), ESTIMATED).has(rows)
    saved, wanted = all_saved(release)
    if saved < wanted:
        raise UncheckedError(f"{saved} of {wanted} measured queries are saved: the estimates need all of them")
    readers = {level: _Rows(checked_table(release.folder, estimate_name(level), ESTIMATED)) for level in levels}
    for level, right in estimate_pieces(saved_again(release), facilities=release.facilities):
        reader = readers[level]
        first, stated = reader.read, reader.next(right.num_rows)
        name = estimate_name(level)
        for column in ("level", "unit", "query", "cell"):
            refuse_differing(name, stated.column(column), right.column(column), column=column, first=first)
        for column in ("estimate", "sd"):
            found, expected = (table.column(column).to_numpy() for table in (stated, right))
            far = np.flatnonzero(~np.isclose(found, expected, rtol=CLOSE, atol=CLOSE))
            if len(far):
                row = int(far[0])
                raise BrokenError(
                    f"{name}, row {first + row + 1:,}, {column}: {found[row]}, but the measurements give "
                    f"{expected[row]}"
                )
    return "those that the saved measurements give"


class _Rows:
    """The rows of a table, some at a time."""

    def __init__(self, table: CheckedTable) -> None:
        self.read = 0
        self._pieces: Iterator[pa.Table] = (piece for _, piece in table.pieces())
        self._held: pa.Table = ESTIMATED.empty_table()

    def next(self, rows: int) -> pa.Table:
        """The next rows; fewer at the end of the table."""
        parts, there = [self._held], self._held.num_rows
        while there < rows and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            there += piece.num_rows
        whole = pa.table({name: _joined(parts, name) for name in ESTIMATED.names})
        self._held, self.read = whole.slice(rows), self.read + rows
        return whole.slice(0, rows)


def _joined(parts: list[pa.Table], name: str) -> pa.ChunkedArray:
    """A column of several tables, whose dictionaries may differ."""
    return pa.chunked_array([chunk for part in parts for chunk in decoded(part.column(name)).chunks])
