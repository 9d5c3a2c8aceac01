"""Whether the children of a nest can keep all limits, and what is in conflict if they cannot.

A nest is feasible if some table of whole numbers keeps its limits and sums to the parent. With one kind of limits, this
is an interval check for each row of its query. With several kinds it is an integer program on few variables
(``integer_program``), which is solved only where a first, greedy attempt at such a table fails (``quick_checks``).

``relax`` resolves conflicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tallyveil.engine.integer_program import merged_limits, whole_solution
from tallyveil.engine.nests import Limits, Nests, only_nest
from tallyveil.engine.quick_checks import broken_rows, greedily_filled


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Limits that the children of a nest cannot keep together; ``row`` is set where one kind alone is impossible."""

    nest: int
    limits: tuple[str, ...]
    row: int | None
    words: str


def first_conflict(nests: Nests, limits: Sequence[Limits]) -> Conflict | None:
    """The conflict in the first nest that is not feasible; None if all are feasible."""
    return next(conflicts(nests, limits), None)


def conflicts(nests: Nests, limits: Sequence[Limits]) -> Iterator[Conflict]:
    """The conflicts in all nests that are not feasible, in order."""
    broken, binding = broken_rows(nests, limits)
    alone = (broken >= 0).any(axis=0)
    several = ~alone & (binding.sum(axis=0) >= 2)
    several &= ~greedily_filled(nests, limits, several)
    for p in np.flatnonzero(alone | several).tolist():
        if several[p]:
            conflict = _conflict_of_several(nests, limits, p)
            if conflict is not None:
                yield conflict
        else:
            k = int(np.argmax(broken[:, p] >= 0))
            nest, (limit,) = only_nest(nests, [limits[k]], p)
            row = int(broken[k, p])
            yield Conflict(nest=p, limits=(limit.name,), row=row, words=_words_of_row(nest, limit, row))


def _conflict_of_several(nests: Nests, limits: Sequence[Limits], p: int) -> Conflict | None:
    """The conflict between several kinds of limits in a nest where none is impossible alone."""
    nest, own = only_nest(nests, limits, p)
    if _fits(nest, own):
        return None
    names = _fewest_in_conflict(nest, own)
    return Conflict(nest=p, limits=names, row=None, words=_words_of_several(nest, names))


def _fits(nest: Nests, limits: Sequence[Limits]) -> bool:
    """Whether some whole numbers keep these limits and sum to the parent."""
    merged = merged_limits(limits, nest.cell)
    rows = [merged.rows]
    if len(nest.count) and nest.count[0] >= 0:
        parent = np.bincount(merged.group, nest.count, merged.groups).astype(np.float64)
        rows.append((merged.sums(), parent, parent))
    return whole_solution(np.zeros(merged.size), rows) is not None


def _fewest_in_conflict(nest: Nests, limits: Sequence[Limits]) -> tuple[str, ...]:
    """Names of the fewest kinds of limits that cannot be kept together; each alone can, and all together cannot."""
    subsets = (some for size in range(2, len(limits)) for some in combinations(limits, size))
    fewest = next((some for some in subsets if not _fits(nest, some)), limits)
    return tuple(limit.name for limit in fewest)


def _words_of_row(nest: Nests, limit: Limits, row: int) -> str:
    least, most = np.maximum(limit.least[:, row], 0), limit.most[:, row]
    if (least > most).any():
        o = int(np.argmax(least > most))
        return f"{limit.name}, row {row}: a child must have at least {least[o]:,} and at most {most[o]:,}"
    inside = limit.row_of_cell[nest.cell] == row
    if len(nest.count) and nest.count[0] < 0:
        return f"{limit.name}, row {row}: at least {least.sum():,} are asked for, but all its cells are impossible"
    whole = nest.count[inside].sum()
    if least.sum() > whole:
        return f"{limit.name}, row {row}: the parent has {whole:,}, but its children must have at least {least.sum():,}"
    return f"{limit.name}, row {row}: the parent has {whole:,}, but its children have room for {most.sum():,}"


def _words_of_several(nest: Nests, names: Sequence[str]) -> str:
    parent = " while summing to the parent" if len(nest.count) and nest.count[0] >= 0 else ""
    return f"{listed(names)}: the children can keep each, but not all together{parent}"


def listed(names: Sequence[str]) -> str:
    """Names as a list in words: "one, two and three"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
