"""Checks on saved measurements: every measured unit and cell once, in order, with the declared variance.

If all measurements are saved, running TopDown on them again shows that they are those of this release
(``tallyveil.protection.verify``). If only some are saved, this cannot be checked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.files.release_folder.certificate_file import stamps_of
from tallyveil.files.release_folder.findings import BrokenError, UncheckedError
from tallyveil.files.release_folder.layout import MEASURED, exact_pairs, measurement_name
from tallyveil.files.release_folder.measurement_files import empty_measurements, measured_pairs, measurement_sizes
from tallyveil.files.release_folder.read_folder import read_measurements
from tallyveil.files.release_folder.strict import ReadRelease
from tallyveil.files.release_folder.strict_tables import CheckedTable, checked_table
from tallyveil.nouns.counts import Counts
from tallyveil.release.measurements import HeldValues, Measurements, SavedAnswers

MOST_HELD = 1 << 28  # numbers that are held in memory to run TopDown again
CLOSE = 1e-9  # variances are floats, and platforms differ in their last digits


def check_measurements(release: ReadRelease) -> str:
    """Saved measurements have every measured unit and cell once, in order, with the declared variance."""
    pairs = measured_pairs(release.strategy)
    saved = [pair for pair in pairs if measurement_name(*pair) in release.folder.files]
    if saved and release.optimised is None and "measured_on" in release.declared:
        raise UncheckedError("the spine that was measured cannot be read")
    shape = empty_measurements(release.people, release.strategy, release.optimised)
    for query, level in saved:
        table = checked_table(release.folder, measurement_name(query, level), MEASURED)
        spans = shape.shares[level].spans
        measured = np.flatnonzero(spans)
        codes = shape.spine.codes[shape.spine.depth(level)][measured]
        variance = shape.variances(level, query)[spans[measured]]
        _check_frame(table, codes, release.schema.query(query).labels(), variance)
    return f"{len(saved)} of {len(pairs)} saved, complete and in order" if saved else "none saved"


def all_saved(release: ReadRelease) -> tuple[int, int]:
    """How many (query, level) pairs are saved, and how many there are."""
    pairs = measured_pairs(release.strategy)
    return sum(measurement_name(*pair) in release.folder.files for pair in pairs), len(pairs)


def saved_again(release: ReadRelease) -> Measurements:
    """The measurements of a folder in which all are saved, for running post-processing again.

    They are read from the files that were opened and compared. If they do not fit into memory, the files are opened
    again by their paths.
    """
    stamps, identifier = stamps_of(release.certificate), release.certificate.get("measurement")
    shape = empty_measurements(release.people, release.strategy, release.optimised)
    if measurement_sizes(shape).numbers > MOST_HELD:
        read = read_measurements(
            release.place, release.strategy, release.people, optimised=release.optimised, stamps=stamps
        )
        assert read is not None
        return replace(read, identifier=identifier)
    tables = {}
    for query, level in measured_pairs(release.strategy):
        table = checked_table(release.folder, measurement_name(query, level), MEASURED)
        values = [np.zeros(0, dtype=np.int64), *(piece.column("value").to_numpy() for _, piece in table.pieces())]
        places = shape.places(table.name, query, level)
        tables[query, level] = HeldValues(places=places, held=np.concatenate(values))
    exact = {
        (query, level): Counts.from_dense(saved_exact_answers(release, query, level))
        for query, level in exact_pairs(release.strategy, release.schema)
    }
    return replace(shape, ask=SavedAnswers(tables), exact=exact, stamps=stamps, identifier=identifier)


def saved_exact_answers(release: ReadRelease, query: str, level: str) -> Integers:
    """The saved exact answers of an invariant, units by rows."""
    labels, codes = release.schema.query(query).labels(), release.spine.codes[release.spine.depth(level)]
    table = checked_table(release.folder, measurement_name(query, level, exact=True), MEASURED)
    values = _check_frame(table, codes, labels, np.zeros(len(codes)), keep=True)
    return values.reshape(len(codes), len(labels))


def _check_frame(
    table: CheckedTable,
    codes: NDArray[np.bytes_],
    labels: list[str],
    variance: Floats,
    *,
    keep: bool = False,
) -> Integers:
    """Refuse a table with unexpected units, cells or variances; returns its values if ``keep``."""
    table.has(len(codes) * len(labels))
    known = {"unit": pa.array(codes.tolist(), pa.binary()).cast(pa.string()), "cell": pa.array(labels, pa.string())}
    kept = [np.zeros(0, dtype=np.int64)]
    for first, piece in table.pieces():
        rank, row = np.divmod(np.arange(first, first + piece.num_rows), len(labels))
        for column, right in (("unit", rank), ("cell", row)):
            differs = _places(piece.column(column), known[column]) != right
            if differs.any():
                place = int(np.argmax(differs))
                stated, expected = piece.column(column)[place].as_py(), known[column][int(right[place])].as_py()
                raise BrokenError(f"{table.name}: row {first + place + 1:,}, {column}: {stated}, not {expected}")
        stated, expected = piece.column("variance").to_numpy(), variance[rank]
        same = np.isclose(stated, expected, rtol=CLOSE, atol=0)
        if not same.all():
            place = int(np.argmin(same))
            raise BrokenError(
                f"{table.name}: row {first + place + 1:,}, variance: {stated[place]}, not {expected[place]}"
            )
        if keep:
            kept.append(piece.column("value").to_numpy())
    return np.concatenate(kept)


def _places(column: pa.ChunkedArray, known: pa.Array) -> Integers:
    """The positions of a column's values among the known ones, -1 for unknown values."""
    parts = [np.zeros(0, dtype=np.int64)]
    for chunk in column.chunks:
        among = pc.fill_null(pc.index_in(chunk.dictionary, value_set=known), -1).to_numpy(zero_copy_only=False)
        parts.append(among[chunk.indices.to_numpy(zero_copy_only=False)].astype(np.int64))
    return np.concatenate(parts)
