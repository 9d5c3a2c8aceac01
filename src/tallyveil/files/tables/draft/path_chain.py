"""Levels whose codes begin again under each parent: a unit is known by its path, which no column alone determines.

Such codes are recognised by their values: under each parent they are the first ones (01, 02, ...), and how many there
are differs from parent to parent, whereas labels of people occur in nearly every unit. Where parents have nearly the
same codes, a column of names tells them from labels: each path has a name of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Integers
from tallyveil.files.tables.draft.nesting import count_paths, follows_from, nest, paths
from tallyveil.files.tables.draft.view import Column, View
from tallyveil.files.tables.draft.words import is_code_name, is_place

_MOST_BEGUN = 8  # columns that are tried as the coarsest level
_HOLES = 0.1  # share of codes that may be left out under their parents
_MISSING = 0.05  # share of rows without a code or name, as rows of totals
_CROSSED = 0.8  # share of combinations of parents and codes above which codes are labels that every unit has
_CROSSED_PLACES = 0.95  # the same if the column's name is a word for places
_DIFFER = 0.5  # share of parents whose units differ in how many codes are below them
_TOLD_APART = 0.9  # share of paths whose names differ from those of the same parent
_NAMED = 0.5  # share of paths that differ in their names: some units of different parents share one


def path_chain(
    view: View, candidates: Sequence[Column], levels: Sequence[Column], *, loose: bool = False
) -> list[Column]:
    """The levels by their paths, coarse to fine, if codes begin again under parents and the paths explain ``levels``.

    Otherwise ``levels``, which were found by what each column determines on its own. Columns are tried as they stand
    in the table, from left to right and from right to left. ``loose`` also takes numbers 1, 2 and so on for codes that
    no column names, as labels of people may be.
    """
    known = paths(levels) if levels else None
    numbered = [c for c in candidates if is_numbered(c) and (known is None or not follows_from(known, c))]
    codes = [column for column in candidates if _is_code_like(column) or column in numbered]
    if all(column in levels for column in codes):
        return list(levels)
    worded = [column for column in candidates if column in levels or column in codes or _may_be_coarse(column)]
    ordered = sorted(worded, key=lambda column: view.position(column.name))
    begun = [columns[i:] for columns in (ordered, ordered[::-1]) for i in range(min(len(columns) - 1, _MOST_BEGUN))]
    found = [chain for columns in begun if (chain := _numbered_chain(view, columns, loose=loose))]
    best = max(found, key=lambda chain: (_stands_together(chain[0]), _units(paths(chain)), len(chain)), default=[])
    if not best or (levels and not all(follows_from(paths(best), level) for level in levels)):
        return list(levels)
    return best


def looks_reversed(view: View, levels: Sequence[Column]) -> bool:
    """Whether levels lie in each other from the last to the first, and not from the first to the last."""
    pairs = list(pairwise(levels))
    if all(nest(fine, coarse).holds for coarse, fine in pairs):
        return False
    if any(nest(fine, coarse).holds for coarse, fine in pairs if coarse.size < fine.size):
        return False
    backwards = list(levels[::-1])
    nested = any(coarse.size > fine.size and nest(coarse, fine).holds for coarse, fine in pairs)
    return nested or (_numbered_chain(view, backwards) == backwards and _numbered_chain(view, levels) != list(levels))


def _numbered_chain(view: View, ordered: Sequence[Column], *, loose: bool = False) -> list[Column]:
    """A chain of columns in this order, some with codes that begin again; empty if none does.

    Codes that every parent has are held open: they are levels if those below them are numbered within them.
    """
    chain: list[Column] = []
    open_ones: list[Column] = []
    begins_again = False
    for column in ordered:
        path = paths(chain) if chain else np.zeros(len(column.of_row), dtype=np.int64)
        longer = paths([*chain, column])
        if chain and _units(longer) == _units(path):  # names of the units, or their codes
            if _is_code_of(column, chain):
                begins_again |= len(chain) > 1 and not nest(column, as_column(paths(chain[:-1]))).holds
                chain[-1] = column
        elif not chain or nest(column, as_column(path)).holds:
            chain, open_ones = [*chain, column], []
        elif _may_begin_again(view, column, path, longer, loose=loose) and _first_ones(path, column, longer):
            if _says_levels(view, chain[-1], path, column, longer):
                chain = [*(c for c in chain if c not in open_ones or _divides(c, chain, column)), column]
                open_ones, begins_again = [], True
            else:
                chain, open_ones = [*chain, column], [*open_ones, column]
    return [column for column in chain if column not in open_ones] if begins_again else []


def _is_code_of(column: Column, chain: Sequence[Column]) -> bool:
    """Whether a column has codes of the units that the last one of a chain names, within the same parents."""
    *above, names = chain
    coded = _is_code_like(column) and (not _is_code_like(names) or (column.is_number and not names.is_number))
    return coded and count_paths([*above, column]) == count_paths(chain)


def _divides(level: Column, chain: Sequence[Column], below: Column) -> bool:
    """Whether codes below a level differ in number from unit to unit of one parent, as those of labels hardly do."""
    others = [column for column in chain if column is not level]
    if not others:
        return True
    path, parents = paths(chain), paths(others)
    _, first = np.unique(paths([*chain, below]), return_index=True)
    many = np.bincount(path[first])
    parent = np.zeros(len(many), dtype=np.int64)
    parent[path] = parents
    least, most = np.full(_units(parents), len(first)), np.zeros(_units(parents), dtype=np.int64)
    np.minimum.at(least, parent, many)
    np.maximum.at(most, parent, many)
    return bool(np.mean(least < most) > _DIFFER)


def _may_be_coarse(column: Column) -> bool:
    """Whether a column has texts, or numbers whose rows stand together, so that these may be codes of large units."""
    return not column.is_number or (column.is_whole and _stands_together(column))


def _stands_together(column: Column) -> bool:
    """Whether the rows of each value stand together, as those of large units do in a table in order."""
    return bool(np.count_nonzero(np.diff(column.of_row)) == column.size - 1)


def is_numbered(column: Column) -> bool:
    """Whether the values are the numbers 1, 2 and so on, however often each occurs."""
    numbers = np.sort(column.numbers[column.present])
    return column.is_whole and column.size > 1 and bool((numbers == np.arange(1, len(numbers) + 1)).all())


def _may_begin_again(view: View, column: Column, above: Integers, path: Integers, *, loose: bool) -> bool:
    """Whether a column has codes, or numbers that are codes since another column names the paths that end in them."""
    return _is_code_like(column) or (is_numbered(column) and (loose or _have_names(view, column, above, path)))


def _is_code_like(column: Column) -> bool:
    return column.is_code or is_code_name(column.name) or (column.is_number and is_place(column.name))


def _first_ones(path: Integers, column: Column, longer: Integers) -> bool:
    """Whether each parent has the first ones of a column's codes, but for a few that are left out."""
    if column.missing > _MISSING * len(column.of_row):
        return False
    numbered = [label for label in column.labels if label.strip("0")]  # 00 is often the code of a total
    place = {label: i + 1 for i, label in enumerate(numbered)}
    rank = np.array([place.get(text, 0) for text in column.texts.to_pylist()], dtype=np.int64)[column.of_row]
    _, first = np.unique(longer, return_index=True)
    first = first[rank[first] > 0]
    many = np.bincount(path[first], minlength=_units(path))
    last = np.zeros(len(many), dtype=np.int64)
    np.maximum.at(last, path[first], rank[first])
    return int((last - many).sum()) <= _HOLES * len(first)


def _says_levels(view: View, above: Column, path: Integers, column: Column, longer: Integers) -> bool:
    """Whether codes are no labels that every unit has: parents differ in them, or each path has a name of its own."""
    crossed = _CROSSED_PLACES if is_place(column.name) else _CROSSED
    if _units(longer) <= crossed * _units(path) * column.size:
        return True  # names alone do not tell which of two is the parent
    return _have_names(view, column, path, longer) and view.position(above.name) < view.position(column.name)


def _have_names(view: View, code: Column, above: Integers, path: Integers) -> bool:
    """Whether a column names the paths that end in a code: each has one name, and those of one parent differ.

    Names of the codes alone, which repeat with them, are labels.
    """
    units = _units(path)
    return view.rows >= 2 * units and any(
        not (other.missing > _MISSING * view.rows or other.is_number or (other.is_code and not code.is_number))
        and code.size < other.size >= _NAMED * units
        and follows_from(path, other)
        and len(np.unique(above * len(other.values) + other.of_row)) >= _TOLD_APART * units
        for other in view.columns.values()
    )


def _units(path: Integers) -> int:
    return int(path.max(initial=-1)) + 1


def as_column(path: Integers) -> Column:
    """Paths as a column of their numbers."""
    return Column(name="", values=pa.array(map(str, range(1, _units(path) + 1))), of_row=path, kind=pa.string())
