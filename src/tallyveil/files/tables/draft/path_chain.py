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
from tallyveil.files.tables.draft.nesting import follows_from, nest, paths
from tallyveil.files.tables.draft.view import Column, View
from tallyveil.files.tables.draft.words import is_code_name, is_place

_MOST_BEGUN = 8  # columns that are tried as the coarsest level
_HOLES = 0.1  # share of codes that may be left out under their parents
_CROSSED = 0.8  # share of combinations of parents and codes above which codes are labels that every unit has
_CROSSED_PLACES = 0.95  # the same if the column's name is a word for places
_NAMED = 0.5  # share of paths that differ in their names: some units of different parents share one


def path_chain(view: View, candidates: Sequence[Column], levels: Sequence[Column]) -> list[Column]:
    """The levels by their paths, coarse to fine, if codes begin again under parents and the paths explain ``levels``.

    Otherwise ``levels``, which were found by what each column determines on its own. Columns are tried as they stand
    in the table, from left to right and from right to left.
    """
    if all(column in levels or not _is_code_like(column) for column in candidates):
        return list(levels)
    worded = [column for column in candidates if _is_code_like(column) or not column.is_number]
    ordered = sorted(worded, key=lambda column: view.position(column.name))
    begun = [columns[i:] for columns in (ordered, ordered[::-1]) for i in range(min(len(columns) - 1, _MOST_BEGUN))]
    found = [chain for columns in begun if (chain := _numbered_chain(view, columns))]
    best = max(found, key=lambda chain: (_units(paths(chain)), len(chain)), default=[])
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


def _numbered_chain(view: View, ordered: Sequence[Column]) -> list[Column]:
    """A chain of columns in this order, some with codes that begin again; empty if none does."""
    chain: list[Column] = []
    path = np.zeros(len(ordered[0].of_row), dtype=np.int64)
    begins_again = False
    for column in ordered:
        longer = paths([*chain, column])
        units, below = _units(path), _units(longer)
        if chain and below == units:  # names of the units, or their codes
            if _is_code_like(column) and not _is_code_like(chain[-1]) and _units(paths([*chain[:-1], column])) == units:
                begins_again |= len(chain) > 1 and not nest(column, _as_column(paths(chain[:-1]))).holds
                chain[-1] = column
        elif not chain or nest(column, _as_column(path)).holds:
            chain, path = [*chain, column], longer
        elif _is_code_like(column) and _is_numbered_within(view, chain[-1], path, column, longer):
            chain, path, begins_again = [*chain, column], longer, True
    return chain if begins_again else []


def _is_code_like(column: Column) -> bool:
    return column.is_code or is_code_name(column.name) or (column.is_number and is_place(column.name))


def _is_numbered_within(view: View, above: Column, path: Integers, column: Column, longer: Integers) -> bool:
    """Whether each parent has the first ones of a column's codes, and these are no labels that every unit has."""
    if column.missing:
        return False
    place = {label: i + 1 for i, label in enumerate(column.labels)}
    rank = np.array([place.get(text, 0) for text in column.texts.to_pylist()], dtype=np.int64)
    _, first = np.unique(longer, return_index=True)
    many = np.bincount(path[first])
    last = np.zeros(len(many), dtype=np.int64)
    np.maximum.at(last, path[first], rank[column.of_row[first]])
    holes = int((last - many).sum())
    crossed = _CROSSED_PLACES if is_place(column.name) else _CROSSED
    differ = len(first) <= crossed * len(many) * column.size
    named = _have_names(view, column, longer) and view.position(above.name) < view.position(column.name)
    return holes <= _HOLES * len(first) and (differ or named)  # names alone do not tell which of two is the parent


def _have_names(view: View, code: Column, path: Integers) -> bool:
    """Whether a column names the paths that end in a code: it follows from them in many rows, and not from the code."""
    units = _units(path)
    return view.rows >= 2 * units and any(
        not (other.missing or other.is_number or other.is_code)
        and code.size < other.size >= _NAMED * units
        and follows_from(path, other)
        for other in view.columns.values()
    )


def _units(path: Integers) -> int:
    return int(path.max(initial=-1)) + 1


def _as_column(path: Integers) -> Column:
    """Paths as a column of their numbers."""
    return Column(name="", values=pa.array(map(str, range(1, _units(path) + 1))), of_row=path, kind=pa.string())
