"""Which columns of a table are levels, if the user does not say."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from tallyveil.files.tables.draft.nesting import count_paths, longest_chain, nest, same_units
from tallyveil.files.tables.draft.path_chain import path_chain
from tallyveil.files.tables.draft.view import Column, View
from tallyveil.files.tables.draft.words import (
    LEVELS,
    is_age,
    is_attribute,
    is_code_name,
    is_count,
    is_identifier,
    is_only_attribute,
    is_place,
    is_total,
    is_unit_name,
    names_the_same,
)
from tallyveil.files.tables.spellings import plain

_FEW_ROWS = 10
_MOST_CODES = 12  # different numbers, without zero, that may be codes rather than counts
_MOST_FLAGS = 3  # different numbers, zero among them, that may be answers such as no, yes and unknown
_LEAST_SHARE = 0.2
_ENOUGH_UNITS = 10  # of a column that nothing but its number of values distinguishes


def infer_levels(view: View, labels: Sequence[Column] = ()) -> list[Column]:
    """The levels, coarse to fine: by which column determines which, by words for places where codes repeat.

    ``labels`` are columns that the user calls attributes.
    """
    possible = [column for column in view.columns.values() if _may_be_level(view, column)]
    candidates = _without_names(view, [c for c in possible if not is_unit_name(c.name)] or possible)
    chain = longest_chain(view, candidates, _weight, may_lie=lambda fine, coarse: _is_evidence(view, fine, coarse))
    if len(chain) == 1 and not _is_plausible(chain[0]):
        chain = []
    levels = _with_repeated_codes(view, chain, candidates, labels)
    levels = path_chain(view, [c for c in possible if not is_unit_name(c.name)], levels)
    return [*_units_at_the_top(view, levels), *levels]


def _may_be_level(view: View, column: Column) -> bool:
    name = column.name
    if column.size < 2 or column.is_date or column.is_free_text:
        return False
    if is_place(name):  # values that are missing are left to the reader, which names them
        return (column.is_whole or not column.is_number) and column.missing < 0.5 * view.rows
    if column.missing > 0.05 * view.rows:
        return False
    if is_attribute(name) or is_count(name) or is_total(name):
        return False
    serial = column.numbers_rows or (column.is_serial and not is_code_name(name))
    if is_identifier(name) or (column.is_unique and not _has_a_row_per_unit(view, column)) or serial:
        return False
    if _is_plain_number(column):
        return column.is_whole and not column.has_zero and column.size <= view.rows / 2
    return column.is_code or not _has_counts(view, column) or view.position(name) <= _first_number(view)


def _has_a_row_per_unit(view: View, key: Column) -> bool:
    """Whether a column with another value in each row may be of units: there are counts, and no ages as people have."""
    ages = any(is_age(column.name) and column.is_number for column in view.columns.values())
    return not ages and _has_counts(view, key)


def _has_counts(view: View, key: Column) -> bool:
    """Whether a table has a column of counts beside a column with another value in each row."""
    for column in view.columns.values():
        named = is_count(column.name) or is_total(column.name)
        counts = (
            named or column.thousands is not None or column.size > (_MOST_FLAGS if column.has_zero else _MOST_CODES)
        )
        if column is key or not counts or is_only_attribute(column.name):
            continue
        if _is_plain_number(column) and column.is_whole:
            return True
    return False


def _is_plain_number(column: Column) -> bool:
    """Whether a column holds numbers, and neither its values nor its name say that they are codes or serial numbers."""
    coded = column.is_code or is_place(column.name) or is_code_name(column.name) or column.is_serial
    return column.is_number and not coded


def _first_number(view: View) -> int:
    """The place of the first column of numbers."""
    return next((i for i, column in enumerate(view.columns.values()) if _is_plain_number(column)), len(view.columns))


def _is_evidence(view: View, fine: Column, coarse: Column) -> bool:
    """Whether it says anything that one column determines another: plain numbers must do so in many rows."""
    plain_numbers = _is_plain_number(coarse) or _is_plain_number(fine)
    return not plain_numbers or view.rows >= 2 * fine.size


def _weight(column: Column) -> float:
    if plain(column.name) in LEVELS:
        return 3
    if is_place(column.name):
        return 2
    return 0.5 if _is_plain_number(column) else 1.25 if column.is_code else 1


def _is_plausible(column: Column) -> bool:
    """Whether one column alone may be the geography."""
    if is_place(column.name) or column.is_code or is_code_name(column.name):
        return True
    return (column.is_unique or column.size >= _ENOUGH_UNITS) and not _is_plain_number(column)


def _without_names(view: View, candidates: Sequence[Column]) -> list[Column]:
    """The candidates without columns that name the units of another one."""
    ranked = sorted(candidates, key=_code_rank)
    kept: list[Column] = []
    for column in ranked:
        if not any(_names_units_of(column, code) for code in kept if _may_have_names(view, code, column)):
            kept.append(column)
    return [column for column in candidates if column in kept]


def _may_have_names(view: View, code: Column, names: Column) -> bool:
    """Whether a column may hold codes of what another names: plain numbers do so only beside the names."""
    return not _is_plain_number(code) or abs(view.position(code.name) - view.position(names.name)) == 1


def _code_rank(column: Column) -> tuple[int, int]:
    """Codes before names."""
    worded = is_unit_name(column.name) or not (column.is_code or column.is_number or is_code_name(column.name))
    return int(is_unit_name(column.name)), int(worded)


def _names_units_of(names: Column, code: Column) -> bool:
    """Whether a column names the units of another: they say the same, but for a few units with two names."""
    if not 0.9 <= names.size / code.size <= 1.1:
        return False
    if same_units(names, code):
        return True
    wordy = _code_rank(names) > _code_rank(code)
    return wordy and nest(names, code).holds and nest(code, names).astray <= 0.1 * code.size


def _with_repeated_codes(
    view: View, chain: list[Column], candidates: Sequence[Column], labels: Sequence[Column]
) -> list[Column]:
    """The chain with the columns whose codes repeat under parents, which no column determines."""
    missing = [
        column
        for column in candidates
        if column not in chain
        and (is_place(column.name) or _has_more_names(view, column))
        and not (chain and nest(chain[-1], column).holds)
    ]
    levels = _without_crossed(_ordered(view, chain, missing), missing)
    return _ordered(view, levels, _key(view, levels, labels))


def _without_crossed(levels: Sequence[Column], repeated: Sequence[Column]) -> list[Column]:
    """The levels without those below a column of repeated codes that divide its parents in another way, if coarser.

    Villages and clinics may both divide wards, but clinics are not below villages if people of a village go to several.
    """
    for depth, column in enumerate(levels):
        below = [lower for lower in levels[depth + 1 :] if lower not in repeated]
        if column not in repeated or depth == 0 or not below:
            continue
        here, there = count_paths(levels[: depth + 1]), count_paths([*levels[:depth], *below])
        if count_paths([*levels[: depth + 1], *below]) > here >= there:
            return _without_crossed([level for level in levels if level not in below], repeated)
    return list(levels)


def _has_more_names(view: View, code: Column) -> bool:
    """Whether a column of names goes with a column of codes and has more values: the codes repeat under parents."""
    return any(names_the_same(c.name, code.name) and c.size > code.size for c in view.columns.values())


def _ordered(view: View, chain: list[Column], more: Sequence[Column]) -> list[Column]:
    """Columns in the order of well-known levels, or as they stand in the table; a chain keeps its order."""
    ranks = [LEVELS.index(plain(c.name)) if plain(c.name) in LEVELS else None for c in (*chain, *more)]
    if more and None not in ranks:
        return [column for _, column in sorted(zip(ranks, (*chain, *more), strict=True), key=lambda pair: pair[0] or 0)]
    places = [view.position(column.name) for column in chain]
    backwards = len(chain) > 1 and places == sorted(places, reverse=True)
    levels = list(chain)
    for column in sorted(more, key=lambda c: view.position(c.name), reverse=backwards):
        before = [
            i for i, level in enumerate(levels) if (view.position(level.name) < view.position(column.name)) != backwards
        ]
        levels.insert(max(before, default=-1) + 1, column)
    return levels


def _is_wide(view: View) -> bool:
    """Whether a table has several columns of counts."""
    return sum(_is_plain_number(column) and column.is_whole for column in view.columns.values()) > 2


def _key(view: View, levels: Sequence[Column], labels: Sequence[Column]) -> list[Column]:
    """The leading columns of a wide table that identify its rows together with the levels, if they are codes."""
    if not _is_wide(view) or view.rows < _FEW_ROWS or (levels and count_paths([*levels, *labels]) >= 0.98 * view.rows):
        return []
    added: list[Column] = []
    for column in view.columns.values():
        if column in levels or column.size < 2 or is_identifier(column.name) or column.numbers_rows:
            continue
        if not (column.is_whole or column.is_code) or is_attribute(column.name) or is_count(column.name):
            return []
        if not levels and not added and np.count_nonzero(np.diff(column.of_row)) != column.size - 1:
            return []  # rows of a unit do not stand together, so it may be a count as well
        above, below = count_paths([*levels, *added]), count_paths([*levels, *added, column])
        share = below / max(1, above * column.size)  # of the codes, those that the average parent has
        coded = is_code_name(column.name) and not is_only_attribute(column.name)
        if (levels and share == 1 and not coded) or (share < _LEAST_SHARE and column.size <= _MOST_CODES):
            return []  # labels, which every unit has; or answers of people
        added.append(column)
        if below >= 0.98 * view.rows:
            others = [c for c in view.columns.values() if _is_plain_number(c) and c not in added]
            return added if len(added) + len(levels) > 1 and _are_counts(others) else []
    return []


def _are_counts(columns: Sequence[Column]) -> bool:
    """Whether columns of numbers are counts: none has a few numbers without zero, as codes of answers do."""
    answers = any(not column.has_nobody and 1 < column.size <= _MOST_CODES for column in columns)
    return not answers and any(c.has_nobody or is_total(c.name) or is_count(c.name) for c in columns)


def _units_at_the_top(view: View, levels: Sequence[Column]) -> list[Column]:
    """Columns with one value only that are levels: by their name, or because the value looks like the other codes."""
    shapes = {_shape(level.occurring[0].as_py()) for level in levels if level.is_code}
    top: list[Column] = []
    for column in view.columns.values():
        if column.size != 1 or column.missing or is_unit_name(column.name) or column.is_date:
            continue
        known = plain(column.name) in LEVELS
        alike = column.is_code and not column.is_number and _shape(column.labels[0]) in shapes
        left = bool(levels) and view.position(column.name) < view.position(levels[0].name)
        alike |= left and _begins(levels[0], column.labels[0])
        if (known or alike or (is_place(column.name) and not top)) and levels:
            top.append(column)
    if not levels:
        top = [c for c in view.columns.values() if c.size == 1 and plain(c.name) in LEVELS and not c.missing]
    return sorted(top, key=_rank)


def _begins(level: Column, code: str) -> bool:
    """Whether all codes of a level begin with a code, and go on."""
    longer = pc.all(pc.greater(pc.utf8_length(level.occurring), len(code))).as_py()
    return bool(longer and level.is_whole and pc.all(pc.starts_with(level.occurring, code)).as_py())


def _rank(column: Column) -> int:
    return LEVELS.index(plain(column.name)) if plain(column.name) in LEVELS else -1


def _shape(code: str) -> str:
    """The kind of each character of a code.

    >>> _shape("E92000001"), _shape("ab-1")
    ('A99999999', 'AA-9')
    """
    return re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", code))
