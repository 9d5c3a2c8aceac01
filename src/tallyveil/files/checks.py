"""The checks of a release's folder, once its counts and its strategy are read: each says what holds, or raises."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from tallyveil.certificate import SEEDED, declared_of
from tallyveil.facilities import Facilities
from tallyveil.files.columns import batches
from tallyveil.files.measured import misplaced, read_exact, safe_name
from tallyveil.files.release_folder import MARGIN, exact_pairs, level_part, level_queries, saved_pairs, stamps_of
from tallyveil.histogram import Histogram
from tallyveil.measurements import Index, Measurements
from tallyveil.privacy.constraints import ALL, UNLIMITED, Bound, FacilityBounds, Invariant, StructuralZero
from tallyveil.privacy.strategy import Strategy
from tallyveil.schema import Schema
from tallyveil.spine import Spine


@dataclass(frozen=True)
class ReadRelease:
    """A folder, read."""

    place: Path
    strategy: Strategy
    people: Histogram
    certificate: Mapping[str, Any]
    facilities: Facilities | None

    @property
    def spine(self) -> Spine:
        """The public tree of units."""
        return self.people.spine

    @property
    def schema(self) -> Schema:
        """The attributes and their labels."""
        return self.people.schema


class BrokenError(Exception):
    """Something does not hold; the text says what and where."""


class UncheckedError(Exception):
    """Something cannot be checked; the text says why."""


def _check_levels(release: ReadRelease) -> str:
    """Tables by level are the sums of the release."""
    for level in release.spine.levels:
        queries = level_queries(release.strategy, release.schema, level)
        counts, done = release.people.at(level), 0
        for found in _pieces(release, level):
            if done + found.num_rows > counts.units:
                done += found.num_rows
                continue
            expected = level_part(release.people, counts, level, queries, np.arange(done, done + found.num_rows))
            _compare(level, found, expected)
            done += found.num_rows
        if done != counts.units:
            raise BrokenError(
                f"levels/{safe_name(level)}.parquet: {done:,} rows, but {level} has {counts.units:,} units"
            )
    return "every table is the sum of release.parquet"


def _check_children(release: ReadRelease) -> str:
    """Children sum to parents, table against table."""
    levels = release.spine.levels
    for depth in range(len(levels) - 1):
        above, below = (_level_file(release, levels[depth + i]) for i in (0, 1))
        shared = set(_number_columns(above)) & set(_number_columns(below))
        for column in sorted(shared):
            parents, children = (_column(path, column) for path in (above, below))
            first = release.spine.first_child[depth]
            if len(children) != first[-1] or len(parents) != len(first) - 1:
                raise BrokenError(f"{levels[depth + 1]}: rows are missing, so they cannot be added up")
            sums = np.add.reduceat(children, first[:-1])
            if (sums != parents).any():
                at = int(np.argmax(sums != parents))
                raise BrokenError(
                    f"{levels[depth]} {_code(release.spine, levels[depth], at)}, {column}: {parents[at]:,}, but its "
                    f"{levels[depth + 1]} rows sum to {sums[at]:,}"
                )
    return "children sum to parents in every column"


def _check_zeros(release: ReadRelease) -> str:
    """Nobody in cells that the strategy or the codebook calls impossible."""
    cells = [dict(c.cells) for c in release.strategy.constraints if isinstance(c, StructuralZero)]
    schema = Schema(attributes=release.schema.attributes, zeros=[*cells, *release.schema.zeros])
    leaves = release.people.leaves
    wrong = np.flatnonzero(~schema.possible[leaves.cell])
    if len(wrong):
        unit, cell = int(leaves.unit()[wrong[0]]), int(leaves.cell[wrong[0]])
        label = schema.query("detailed").labels()[cell]
        where = f"{release.spine.leaf} {_code(release.spine, release.spine.leaf, unit)}"
        raise BrokenError(f"{where} has {leaves.count[wrong[0]]:,} persons in the impossible cell {label}")
    return f"nobody in {int((~schema.possible).sum()):,} impossible cells"


def _check_bounds(release: ReadRelease) -> str:
    """Bounds hold at their level; above it they hold for the sums, since both sides add up."""
    bounds = [c for c in release.strategy.constraints if isinstance(c, FacilityBounds | Bound)]
    for bound in bounds:
        query = bound.attribute if isinstance(bound, FacilityBounds) else bound.query
        for units, answers in _answers(release.people, query, bound.level):
            least, most = _limits(release, bound, units)
            wrong = (answers < least) | (answers > most)
            if wrong.any():
                at, row = (int(place[0]) for place in np.nonzero(wrong))
                label = release.schema.query(query).labels()[row]
                raise BrokenError(
                    f"{bound.level} {_code(release.spine, bound.level, int(units[at]))}, {query} {label}: "
                    f"{answers[at, row]:,} persons, not between {least[at, row]:,} and {most[at, row]:,}"
                )
    return f"{len(bounds)} kept" if bounds else "none declared"


def _limits(
    release: ReadRelease, bound: FacilityBounds | Bound, units: Index
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Least and most for some units of the bound's level, by rows of its query."""
    if isinstance(bound, Bound):
        least, most = bound.limits(release.schema)
        named = release.spine.locate(bound.level, list(bound.units)) if bound.units else units
        held = np.isin(units, named)[:, None]
        return np.where(held, least, 0), np.where(held, most, UNLIMITED)
    if release.facilities is None:
        raise UncheckedError("there are no facilities to check bounds with")
    there = release.facilities.at(bound.level).dense(int(units[0]), int(units[-1]) + 1)
    least, most = (
        np.array([table.get(label, table.get(ALL, default)) for label in release.facilities.types], dtype=np.int64)
        for table, default in ((bound.least, 0), (bound.most, UNLIMITED))
    )
    return there * least, np.where(most < UNLIMITED, there * most, UNLIMITED * (there > 0))


def _check_invariants(release: ReadRelease) -> str:
    """Invariants are those saved beside the release."""
    declared = {
        (release.schema.query(c.query).name, c.level) for c in release.strategy.constraints if isinstance(c, Invariant)
    }
    saved = exact_pairs(release.place, release.strategy, release.schema)
    for (query, level), path in saved.items():
        exact = read_exact(path, release.schema, release.spine, query=query, level=level)
        for units, answers in _answers(release.people, query, level):
            right = exact.dense(int(units[0]), int(units[-1]) + 1)
            if (answers != right).any():
                at, row = (int(place[0]) for place in np.nonzero(answers != right))
                raise BrokenError(
                    f"{level} {_code(release.spine, level, int(units[at]))}, "
                    f"{query} {release.schema.query(query).labels()[row]}: {answers[at, row]:,}, but the invariant is "
                    f"{right[at, row]:,}"
                )
    open_ = sorted(f"{query}@{level}" for query, level in declared - set(saved))
    if open_:
        raise UncheckedError(f"no exact answers in the folder for {', '.join(open_)}")
    return f"{', '.join(f'{query}@{level}' for query, level in saved)} exact" if saved else "none declared"


def _check_measurements(release: ReadRelease) -> str:
    """Saved measurements have every measured unit and cell once, in order, with the variance that was declared."""
    saved = saved_pairs(release.place, release.strategy)

    def nothing(_level: str, _query: str, index: Index) -> NDArray[np.int64]:
        return np.zeros(len(index), dtype=np.int64)

    shape = Measurements(spine=release.spine, schema=release.schema, strategy=release.strategy, ask=nothing)
    for (query, level), path in saved.items():
        wrong = misplaced(path, shape, query=query, level=level)
        if wrong is not None:
            raise BrokenError(f"{path}: {wrong}")
    return f"{len(saved)} of {sum(map(len, release.strategy.queries.values()))} saved, complete and in order"


def _check_declared(release: ReadRelease) -> str:
    """The declared part is what the strategy, the spine and the schema give, versions aside."""
    stated = release.certificate.get("declared")
    if not isinstance(stated, Mapping):
        raise BrokenError("certificate.json has no declared part")
    stamps = stamps_of(release.certificate)
    right = declared_of(
        release.strategy,
        release.spine,
        release.schema,
        facilities=release.facilities is not None,
        stamps=stamps,
        seeded=SEEDED in stamps,
    )
    # what was measured on another spine cannot be worked out from this folder
    elsewhere = ("measured_on", "only_child") if "measured_on" in stated else ()
    place = next(_differences(stated, right, skip=("versions", *elsewhere)), None)
    if place is not None:
        raise BrokenError(f"certificate.json, {place}")
    return "what strategy, spine and schema give"


def _check_observed(release: ReadRelease) -> str:
    """The observed part adds up."""
    observed = release.certificate.get("observed")
    if not isinstance(observed, Mapping):
        raise BrokenError("certificate.json has no observed part")
    levels, totals = observed.get("levels", []), observed.get("totals", {})
    for name in ("parents", "copied", "empty", "fast", "general", "flows", "programs"):
        summed = sum(level.get(name, 0) for level in levels)
        if totals.get(name) != summed:
            raise BrokenError(
                f"certificate.json, observed totals {name}: {totals.get(name)}, but the levels' is {summed}"
            )
    return "the figures of the levels add up"


def _check_stamps(release: ReadRelease) -> str:
    stamps, page = stamps_of(release.certificate), release.place / "certificate.html"
    if page.exists():
        shown = page.read_text(encoding="utf-8", errors="replace")
        hidden = [stamp for stamp in stamps if html.escape(stamp) not in shown]
        if hidden:
            raise BrokenError(f"certificate.html does not show the stamp: {hidden[0]}")
    return "; ".join(stamps) or "none"


CHECKS: dict[str, Callable[[ReadRelease], str]] = {
    "levels": _check_levels,
    "children": _check_children,
    "structural zeros": _check_zeros,
    "bounds": _check_bounds,
    "invariants": _check_invariants,
    "measurements": _check_measurements,
    "declared": _check_declared,
    "observed": _check_observed,
    "stamps": _check_stamps,
}


def _answers(
    people: Histogram, query: str, level: str, size: int = 1 << 22
) -> Iterator[tuple[Index, NDArray[np.int64]]]:
    """A query's answers at a level, some units at a time."""
    answers = people.answer(query, level=level)
    step = max(1, size // answers.cells)
    for first in range(0, answers.units, step):
        last = min(first + step, answers.units)
        yield np.arange(first, last), answers.dense(first, last)


def _level_file(release: ReadRelease, level: str) -> Path:
    path = release.place / "levels" / f"{safe_name(level)}.parquet"
    if not path.exists():
        raise BrokenError(f"levels/{path.name} is missing")
    return path


def _pieces(release: ReadRelease, level: str) -> Iterator[pa.Table]:
    for batch in batches(_level_file(release, level), size=1 << 14):
        yield batch.table


def _number_columns(path: Path) -> list[str]:
    kinds = pyarrow.parquet.read_schema(path)
    return [f.name for f in kinds if pa.types.is_integer(f.type) and not _is_margin(f.name, kinds.names)]


def _is_margin(name: str, names: list[str]) -> bool:
    """Whether a column has the margins of error of another: its name is that column's with an ending."""
    return name.endswith(MARGIN) and name.removesuffix(MARGIN) in names


def _column(path: Path, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = pyarrow.parquet.read_table(path, columns=[name]).column(name).to_numpy()
    return values


def _compare(level: str, found: pa.Table, expected: pa.Table) -> None:
    """Refuse a table that lacks a column, or has another value in one; columns of margins of error may be added."""
    added = [name for name in found.column_names if name not in expected.column_names]
    margins = [name for name in added if _is_margin(name, expected.column_names)]
    there = [name for name in found.column_names if name not in margins]
    if there != expected.column_names:
        odd = sorted(set(there) ^ set(expected.column_names))
        raise BrokenError(f"levels/{safe_name(level)}.parquet: columns differ ({', '.join(odd) or 'in their order'})")
    for name in there:
        mine, right = (_spelled(table.column(name)) for table in (found, expected))
        same = mine.type == right.type and pc.fill_null(pc.equal(mine, right), False)
        if same is False:
            raise BrokenError(f"levels/{safe_name(level)}.parquet, {name}: holds {mine.type}, not {right.type}")
        if not pc.all(same).as_py():
            at = int(pc.index(same.combine_chunks(), False).as_py())
            unit = _spelled(expected.column(level))[at].as_py() if level in expected.column_names else level
            raise BrokenError(
                f"levels/{safe_name(level)}.parquet, {level} {unit}, {name}: {mine[at].as_py()}, "
                f"but release.parquet gives {right[at].as_py()}"
            )
    for name in margins:
        _check_margins(level, found.column(name), name)


def _check_margins(level: str, column: pa.ChunkedArray, name: str) -> None:
    """Margins of error are whole numbers, 0 or more."""
    if not pa.types.is_integer(column.type):
        raise BrokenError(f"levels/{safe_name(level)}.parquet, {name}: holds {column.type}, not whole numbers")
    right = pc.fill_null(pc.greater_equal(column, 0), False)
    if not pc.all(right).as_py():
        at = int(pc.index(right.combine_chunks(), False).as_py())
        raise BrokenError(
            f"levels/{safe_name(level)}.parquet, {name}: {column[at].as_py()}, but a margin of error is 0 or more"
        )


def _spelled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _differences(stated: Any, right: Any, *, skip: tuple[str, ...] = (), place: str = "declared") -> Iterator[str]:
    """Where two JSON values differ; floats may differ in their last digits, as they do between platforms."""
    if isinstance(stated, Mapping) and isinstance(right, Mapping):
        for key in [*right, *(key for key in stated if key not in right)]:
            if key not in skip:
                yield from _differences(stated.get(key), right.get(key), place=f"{place} {key}")
    elif isinstance(stated, list) and isinstance(right, list) and len(stated) == len(right):
        for i, (one, other) in enumerate(zip(stated, right, strict=True)):
            yield from _differences(one, other, place=f"{place} {i + 1}")
    elif isinstance(right, float) and isinstance(stated, float | int) and not isinstance(stated, bool):
        if not math.isclose(stated, right, rel_tol=1e-9):
            yield f"{place}: {stated}, but the strategy gives {right}"
    elif stated != right:
        yield f"{place}: {_short(stated)}, but the strategy gives {_short(right)}"


def _short(value: Any, size: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= size else f"{text[:size]}..."


def _code(spine: Spine, level: str, unit: int) -> str:
    return bytes(spine.codes[spine.depth(level)][unit]).decode()
