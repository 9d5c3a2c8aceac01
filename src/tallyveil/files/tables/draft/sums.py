"""Rows that only repeat people of other rows: totals by their name, labels and codes by what they sum to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
import pyarrow.compute as pc

from tallyveil._arrays import Bools, Floats
from tallyveil.files.tables.draft.row_sums import find_sums, not_numbers
from tallyveil.files.tables.draft.view import Column, View, natural
from tallyveil.files.tables.draft.words import SUM_WORDS, is_code_name, is_count, is_place, is_total, says_total

Marks = dict[str, tuple[str, ...]]
_MOST_TIMES = 6  # totals of totals: how often people may be repeated
_MOST_NUMBERS = 5  # columns of numbers that are tried as counts
_MOST_CALLED = 5  # columns with words for totals
_NEARLY = 0.99  # share of sums that must be equal; the others are mistakes, or were rounded
_COVERED = 0.9  # share of codes that must begin with codes of coarser units
_MOST_ROWS = 5_000  # of a table that is written for readers, with sums between its rows
_FEW_SUMS = 3  # fewer equal sums than these say little, unless they are of many people
_FEW, _SOME, _MANY = 10, 1_000, 100_000
_MANY_VALUES = 10_000  # of a column; words for totals are looked for in a quicker way
_STARTS = {word[:3].translate(str.maketrans("", "", "\u05f4")) for word in SUM_WORDS} | {
    "og",
    "all",
    "_t",
    "bot",
    "tod",
}
_CLOSE = 0.005  # how far a sum may be off, relatively


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Values that mark rows of totals, and those that may do so: their numbers agree, but perhaps by chance."""

    marks: Marks
    doubts: Marks = field(default_factory=dict)


def find_totals(view: View) -> Totals:
    """By column, the values of rows that repeat people of others. Numbers must confirm what names suggest."""
    texts = [column for column in view.columns.values() if _may_have_totals(column)]
    whole = [column for column in view.columns.values() if column.is_whole and not _is_key(column)]
    whole = [column for column in whole if column.size > 1 and not (column.is_year or column.is_serial)]
    whole.sort(key=lambda column: not (is_count(column.name) or is_total(column.name)))
    numbers = [number for number in map(_numbers, whole) if number.any()]
    marks, doubts, numbers = _by_name(texts, numbers), Marks(), numbers[:_MOST_NUMBERS]
    kept = ~marked_rows(view, marks)

    def left_out(column: Column, values: Sequence[str]) -> None:
        marks[column.name] = (*marks.get(column.name, ()), *values)
        kept[_rows_with(column, values)] = False

    for column in texts:
        if codes := next((found for number in numbers if (found := _by_prefix(column, number, kept))), ()):
            left_out(column, codes)
    for column in texts:
        codes, proven = _by_order(column, numbers, kept)
        if codes and proven:
            left_out(column, codes)
        elif codes:
            doubts[column.name] = codes
    while sums := find_sums(texts, numbers, kept):
        if not all(one.is_proven for one in sums):
            doubts |= {one.column.name: (*doubts.get(one.column.name, ()), one.value) for one in sums}
            break
        for one in sums:
            left_out(one.column, (one.value,))
    if not marks and (marks := _by_name(texts, numbers, fewer=True)):
        kept = ~marked_rows(view, marks)
    for column in texts:
        if any(_repeats(number, kept & column.empty[column.of_row], kept & ~column.empty[column.of_row], close=0.0)
               for number in numbers):  # fmt: skip
            doubts[column.name] = (*doubts.get(column.name, ()), "")
    return Totals(marks=marks, doubts=doubts)


def marked_rows(view: View, marks: Mapping[str, Sequence[str]]) -> Bools:
    """The rows that a value marks as repetitions."""
    return _any([_rows_with(view.columns[name], values) for name, values in marks.items()], view.rows)


def cuts_of(column: Column, marks: Sequence[str]) -> tuple[int, ...]:
    """The lengths at which codes are cut into levels, if marks are codes of coarser units, and the length of a leaf."""
    leaves = [label for label in column.labels if label not in set(marks)]
    sizes = {len(leaf) for leaf in leaves}
    shorter = {leaf[:size] for leaf in leaves for size in {len(mark) for mark in marks}}
    found = {len(mark) for mark in marks if mark in shorter}
    return (*sorted(found), sizes.pop()) if found and len(sizes) == 1 and max(found) < min(sizes) else ()


def _may_have_totals(column: Column) -> bool:
    """Whether a column has names or codes, or a text among its numbers."""
    return column.size > 1 and not column.is_date and (_is_key(column) or bool(not_numbers(column).any()))


def _is_key(column: Column) -> bool:
    return not column.is_number or column.is_code or is_place(column.name) or is_code_name(column.name)


def _by_name(texts: Sequence[Column], numbers: Sequence[Floats], *, fewer: bool = False) -> Marks:
    """Values that are called totals, if their rows repeat all others once or several times.

    ``fewer`` also tries some of the columns that have such words, since remarks may have them too.
    """
    marks = {column.name: tuple(_called(column)) for column in texts}
    called = [column for column in texts if marks[column.name]]
    called = called[:_MOST_CALLED] if fewer else called
    for size in range(len(called), 0 if fewer else max(0, len(called) - 1), -1):
        for chosen in combinations(called, size):
            rows = {column.name: _rows_with(column, marks[column.name]) for column in chosen}
            if confirmed := _confirmed(rows, texts, numbers):
                return {name: marks[name] for name in confirmed}
    return {}


def _confirmed(rows: Mapping[str, Bools], texts: Sequence[Column], numbers: Sequence[Floats]) -> list[str]:
    """The columns whose rows of totals repeat all others, when the totals of other columns are left out."""
    size = len(next(iter(rows.values())))
    kept, found = ~_any(list(rows.values()), size), []
    for name, marked in rows.items():
        alone = marked & ~_any([others for other, others in rows.items() if other != name], size)
        if any(_repeats(number, alone, kept) or _repeats_once(number, texts, alone, kept) for number in numbers):
            found.append(name)
    return found


def _repeats_once(numbers: Floats, texts: Sequence[Column], totals: Bools, kept: Bools) -> bool:
    """Whether rows of totals repeat all people of the others once totals of no such name are left out too.

    A country by its name below the subtotals of its regions is an example.
    """
    people, others = float(numbers[totals].sum()), float(numbers[kept].sum())
    if people < _SOME or others < 2 * people or others % people:
        return False
    sums = find_sums(texts, [numbers], kept)
    rest = kept & ~_any([_rows_with(one.column, (one.value,)) for one in sums], len(kept))
    return bool(sums) and all(one.is_proven for one in sums) and float(numbers[rest].sum()) == people


def _called(column: Column) -> list[str]:
    """The values that may be words for totals; this is quick for columns with many values."""
    texts = column.occurring
    if len(texts) > _MANY_VALUES:
        bare = pc.utf8_lower(pc.replace_substring_regex(pc.utf8_normalize(texts, "NFKD"), r"\p{M}", ""))
        texts = texts.filter(pc.match_substring_regex(bare, "|".join(sorted(_STARTS))))
    return sorted(filter(says_total, set(texts.to_pylist())), key=natural)


def _by_prefix(column: Column, numbers: Floats, kept: Bools) -> tuple[str, ...]:
    """Codes that others begin with (FI, FI1, FI19), if the people of each are those of the longer codes."""
    codes = sorted(set(column.labels))
    above = [code for code, after in pairwise(codes) if after.startswith(code)]
    if not above:
        return ()
    sums = dict.fromkeys(codes, 0.0) | _sums(column, numbers, kept)
    sizes = {len(code) for code in above}
    of_leaves, inside = dict.fromkeys(above, 0.0), set[str]()
    leaves = set(codes) - set(above)
    for leaf in leaves:
        for start in {leaf[:size] for size in sizes if size < len(leaf)} & of_leaves.keys():
            of_leaves[start] += sums[leaf]
            inside.add(leaf)
    if len(inside) < _COVERED * len(leaves):
        return ()
    filled = [code for code in above if of_leaves[code]]
    equal = [_is_close(sums[code], of_leaves[code]) for code in above]
    chance = _may_be_chance(len(filled), sum(of_leaves.values()))
    return tuple(above) if np.mean(equal) >= _NEARLY and not chance else ()


def _by_order(column: Column, numbers: Sequence[Floats], kept: Bools) -> tuple[tuple[str, ...], bool]:
    """Units above or below the rows that they sum, if each has one row, and whether this can hardly be by chance.

    Regions with their districts under them are an example.
    """
    if not numbers or not _is_key(column) or column.taken(kept).size != kept.sum() or column.size > _MOST_ROWS:
        return (), False
    columns = [number for number in numbers if _is_summed(number[kept])]
    table = np.stack(columns, axis=1)[kept] if columns else np.zeros((0, 1))
    texts = np.array(column.texts.to_pylist())[column.of_row[kept]]
    for found in (_sums_of_next(table), _sums_of_next(table[::-1])[::-1]):
        people = float(table[~found, 0].sum()) if len(table) else 0.0
        if found.any() and people >= _FEW:
            return tuple(texts[found].tolist()), not _may_be_chance(int(found.sum()) * len(columns), people)
    return (), False


def _is_summed(numbers: Floats) -> bool:
    """Whether a column of numbers has sums of the rows below them, or above."""
    return bool(_sums_of_next(numbers[:, None]).any() or _sums_of_next(numbers[::-1, None]).any())


def _sums_of_next(table: Floats) -> Bools:
    """The rows that are sums of two or more rows after them, when sums among those are left out.

    There are none unless nearly all other rows belong to a sum: a few sums are equal by chance.
    """
    found, inside = np.zeros(len(table), dtype=np.bool_), np.zeros(len(table), dtype=np.bool_)
    while True:
        rows = np.flatnonzero(~found)
        sums = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(table[rows], axis=0)])
        new = []
        for i, row in enumerate(rows[:-2]):
            last = int(np.searchsorted(sums[:, 0], sums[i + 1, 0] + table[row, 0], side="left"))
            if i + 3 <= last < len(sums) and (sums[last] - sums[i + 1] == table[row]).all() and table[row].any():
                new.append((row, rows[i + 1 : last].tolist()))
        totals = {row for row, _ in new}
        lowest = [(row, parts) for row, parts in new if totals.isdisjoint(parts)]
        for row, parts in lowest:
            found[row] = inside[parts] = True
        if not lowest:
            covered = inside[~found].mean() >= _COVERED if len(table) else False
            return found if covered else np.zeros_like(found)


def _may_be_chance(equal: int, people: float) -> bool:
    """Whether so few sums of so few people may be equal by chance."""
    return people < _MANY if equal < _FEW_SUMS else people < _SOME


def _sums(column: Column, numbers: Floats, kept: Bools) -> dict[str, float]:
    """The people of each value in rows that are kept."""
    weights = np.bincount(column.of_row[kept], weights=numbers[kept], minlength=len(column.values))
    rows = np.bincount(column.of_row[kept], minlength=len(column.values))
    return {text: float(w) for text, w, n in zip(column.texts.to_pylist(), weights, rows, strict=True) if n}


def _repeats(numbers: Floats, totals: Bools, kept: Bools, *, close: float = _CLOSE) -> bool:
    """Whether rows of totals repeat all people of the others, once or several times, but for a few mistakes."""
    people = float(numbers[kept].sum())
    times = float(numbers[totals].sum()) / people if people else 0.0
    return 1 <= round(times) <= _MOST_TIMES and abs(times - round(times)) <= close


def _is_close(one: float, two: float) -> bool:
    return abs(one - two) <= _CLOSE * max(one, two)


def _rows_with(column: Column, values: Sequence[str]) -> Bools:
    """The rows that have one of these values."""
    marked: Bools = np.isin(np.array(column.texts.to_pylist()), values)[column.of_row]
    return marked


def _any(masks: Sequence[Bools], rows: int) -> Bools:
    """The rows that any of some masks has."""
    found: Bools = np.any([np.zeros(rows, dtype=np.bool_), *masks], axis=0)
    return found


def _numbers(column: Column) -> Floats:
    return np.nan_to_num(column.numbers)[column.of_row]
