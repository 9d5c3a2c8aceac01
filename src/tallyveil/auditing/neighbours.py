"""The neighbour that an audit compares with: named as ``UNIT:CELL``, or one person moved as far as possible."""

from __future__ import annotations

import re
from collections.abc import Callable

from tallyveil.errors import InputError
from tallyveil.evaluate.audit.views import neighbour
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED

SOURCES, TRIES = 20, 400  # persons and moves that are tried for the default neighbour


def choose_neighbour(
    people: Histogram, proven: Callable[[Histogram, Histogram], float], *, move: str | None, remove: str | None
) -> tuple[Histogram, float]:
    """The neighbour that was asked for (by default one person moved as far as possible) and its proven epsilon."""
    if move is not None and remove is not None:
        raise InputError("--move and --remove are both given. Give one: each is a comparison of its own.")
    if remove is not None:
        unit, cell = place_of(people, remove, "--remove")
        other = neighbour(people, unit=unit, cell=cell)
        return other, proven(people, other)
    if move is not None:
        before, arrow, after = move.partition("->")
        if not arrow:
            raise InputError(f'--move {move!r}: write it as UNIT:CELL->UNIT:CELL, such as "{_example(people)}".')
        (unit, cell), (to_unit, to_cell) = (place_of(people, part, "--move") for part in (before, after))
        if (unit, cell) == (to_unit, to_cell):
            raise InputError(f"--move {move!r}: the person stays where they are. Name two places.")
        other = neighbour(people, unit=unit, cell=cell, to_unit=to_unit, to_cell=to_cell)
        return other, proven(people, other)
    return _farthest(people, proven)


def place_of(people: Histogram, word: str, option: str) -> tuple[int, int]:
    """A leaf and a cell from ``UNIT:CELL``, the cell's labels joined by ``*``."""
    code, colon, labels = (part.strip() for part in word.partition(":"))
    if not colon or not code or not labels:
        raise InputError(f'{option} {word!r}: write a place as UNIT:CELL, such as "{_example(people).split("->")[0]}".')
    known = people.schema.query(DETAILED).labels()
    cell = labels if labels in known else "*".join(label.strip() for label in re.split(r"(?<!\\)\*", labels))
    if cell not in known:
        some = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        raise InputError(f"{option} {word!r}: {cell!r} is not a cell. Cells are {some}")
    try:
        return int(people.spine.locate(people.spine.leaf, [code])[0]), known.index(cell)
    except InputError:
        raise InputError(
            f"{option} {word!r}: {code!r} is not among the {people.leaves.units:,} units of level "
            f"{people.spine.leaf!r}. Name a leaf by its code."
        ) from None


def _farthest(people: Histogram, proven: Callable[[Histogram, Histogram], float]) -> tuple[Histogram, float]:
    """One of the first persons, moved to the last leaf that the constraints allow: it shows at most levels."""
    tries, problem = 0, "there is nobody, or one leaf only"
    units = people.leaves.unit()
    for entry in range(min(SOURCES, people.leaves.entries)):
        unit, cell = int(units[entry]), int(people.leaves.cell[entry])
        for to_unit in range(people.leaves.units - 1, -1, -1):
            if to_unit == unit or tries == TRIES:
                continue
            tries += 1
            other = neighbour(people, unit=unit, cell=cell, to_unit=to_unit)
            try:
                return other, proven(people, other)
            except InputError as refused:
                problem = str(refused)
    raise InputError(f"no person was found who may move to another leaf ({problem.rstrip('.')}). Name one with --move.")


def _example(people: Histogram) -> str:
    """A move of these people, as ``--move`` takes it."""
    cell, codes = people.schema.query(DETAILED).labels()[0], people.spine.codes[-1]
    return "->".join(f"{bytes(codes[unit]).decode()}:{cell}" for unit in (0, -1))
