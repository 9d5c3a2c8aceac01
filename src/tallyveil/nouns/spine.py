"""The geographic tree: levels from coarse to fine, every unit with one parent.

A unit is known by its code, which is text (leading zeros count) and appears once in its level. Units stand in the
order of their path from the root, so the children of a unit are neighbours and a level is summed to the one above by
adding up runs. The list of units is a public input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import DataError, InputError, UnknownUnitError

if TYPE_CHECKING:
    from tallyveil.nouns.areas import Areas
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.optimised_spine import OptimisedSpine

Codes = NDArray[np.bytes_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spine:
    """A tree of units.

    Attributes
    ----------
    levels
        Names of the levels, coarse to fine. The first has one unit, the root.
    codes
        For each level the codes of its units, as UTF-8 bytes.
    first_child
        For each level but the last: unit ``u`` has the children ``first_child[u]`` to ``first_child[u + 1]``
        of the next level.

    Examples
    --------
    >>> spine = Spine.from_columns({"state": ["44", "44", "09"], "county": ["44007", "44001", "09001"]}, root="us")
    >>> spine
    Spine(us 1, state 2, county 3)
    >>> spine.labels("county")
    ['09001', '44001', '44007']
    """

    levels: tuple[str, ...]
    codes: tuple[Codes, ...]
    first_child: tuple[Integers, ...]

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise DataError(f"levels {', '.join(self.levels)}: a name is used twice. Give each level its own name.")
        if len(self.codes[0]) != 1:
            raise DataError(
                f"level {self.levels[0]!r} has {len(self.codes[0]):,} units, but a tree has one root. "
                f'Name a level above it (root = "us").'
            )
        for array in (*self.codes, *self.first_child):
            array.flags.writeable = False

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, ArrayLike], *, root: str | None = None, in_order: bool = False
    ) -> Spine:
        """Build the tree from one row per leaf unit and one column of codes per level, coarse to fine.

        ``root`` names a level above the first column; it is needed when the first column has several units. Rows are
        put in the order of their paths; with ``in_order`` they stay as they are, the children of a unit together.
        """
        names = list(columns)
        if not names or root == "":
            raise DataError("no geographic columns given, or a root without a name. Name at least one level.")
        paths = [_as_codes(name, column) for name, column in columns.items()]
        if len({len(path) for path in paths}) != 1:
            sizes = ", ".join(f"{name} {len(path):,}" for name, path in zip(names, paths, strict=True))
            raise DataError(f"geographic columns differ in length ({sizes}). Give one row per leaf unit.")
        if len(paths[0]) == 0:
            raise DataError(f"level {names[-1]!r} has no units. List the units, the empty ones too.")
        if root is not None:
            names.insert(0, root)
            paths.insert(0, np.full(len(paths[0]), root.encode(), dtype=f"S{len(root.encode())}"))
        order = np.arange(len(paths[0])) if in_order else _path_order(paths)
        paths = [path[order] for path in paths]
        _refuse_repeated_rows(names, paths, order)
        starts = _starts_by_level(paths)
        codes = tuple(path[start] for path, start in zip(paths, starts, strict=True))
        ends = [np.append(start, len(order)) for start in starts]
        first_child = tuple(np.searchsorted(starts[i + 1], ends[i]).astype(np.int64) for i in range(len(names) - 1))
        spine = cls(levels=tuple(names), codes=codes, first_child=first_child)
        _refuse_codes_in_two_places(spine)
        _refuse_codes_outside_their_parent(spine, named_root=root is not None)
        return spine

    @classmethod
    def from_codes(cls, codes: ArrayLike, *, lengths: Mapping[str, int], root: str | None = None) -> Spine:
        """Build the tree from leaf codes alone: each level's code is the first so many characters.

        >>> Spine.from_codes(["44001", "44007"], lengths={"state": 2, "county": 5})
        Spine(state 1, county 2)
        """
        if not lengths:
            raise DataError("no lengths given. Say how many characters of a code name each level, coarse to fine.")
        if (sizes := list(lengths.values())) != sorted(set(sizes)) or sizes[0] < 1:
            raise DataError(
                f"lengths {dict(lengths)} do not rise. Give them coarse to fine, each longer than the last."
            )
        leaf = list(lengths)[-1]
        whole: NDArray[Any] = _as_codes(leaf, codes)
        if _beyond_ascii(whole).any():
            whole = np.char.decode(whole, "utf-8")
        actual = np.char.str_len(whole)
        wrong = np.flatnonzero(actual != lengths[leaf])
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"row {row + 1:,}: code {_text(whole[row])!r} has {actual[row]} characters, not the {lengths[leaf]} "
                f"of a {leaf}. Correct the code or the lengths."
            )
        cut = {name: whole.astype(f"{whole.dtype.kind}{size}") for name, size in lengths.items()}
        return cls.from_columns(cut, root=root)

    def __repr__(self) -> str:
        return f"Spine({', '.join(f'{level} {len(codes):,}' for level, codes in self.items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spine):
            return NotImplemented
        if self.levels != other.levels:
            return False
        parts = zip(self.codes + self.first_child, other.codes + other.first_child, strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in parts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def leaf(self) -> str:
        """The name of the finest level."""
        return self.levels[-1]

    def canonical_bytes(self) -> Iterator[bytes]:
        """Levels, codes and tree as bytes that depend on nothing else, in pieces."""
        for level, codes in self.items():
            yield level.encode()
            yield np.char.str_len(codes).astype("<i4").tobytes()
            yield b"".join(codes.tolist())
        for first_child in self.first_child:
            yield first_child.astype("<i8").tobytes()

    def items(self) -> Iterator[tuple[str, Codes]]:
        """Levels with their codes, coarse to fine."""
        return zip(self.levels, self.codes, strict=True)

    def depth(self, level: str) -> int:
        """Position of a level, the root's being 0."""
        if level not in self.levels:
            raise InputError(f"unknown level {level!r}. The levels are {', '.join(self.levels)}.")
        return self.levels.index(level)

    def size(self, level: str) -> int:
        """How many units a level has."""
        return len(self.codes[self.depth(level)])

    def labels(self, level: str) -> list[str]:
        """The codes of a level as text."""
        return [_text(code) for code in self.codes[self.depth(level)]]

    def locate(self, level: str, codes: ArrayLike) -> Integers:
        """Positions of units in their level; an unknown code is an error that names it."""
        known, wanted = self.codes[self.depth(level)], _as_codes(level, codes)
        in_order = bool((known[1:] > known[:-1]).all())  # as they are where codes begin with their parent's
        order = np.arange(len(known)) if in_order else np.argsort(known, kind="stable")
        place = np.searchsorted(known, wanted, sorter=None if in_order else order)
        found = order[np.minimum(place, len(known) - 1)]
        wrong = np.flatnonzero(known[found] != wanted)
        if len(wrong):
            row = int(wrong[0])
            raise UnknownUnitError(
                f"row {row + 1:,}: {level} {_text(wanted[row])!r} is not among the {len(known):,} units of that level. "
                f"Add it to the list of units, or correct the code.",
                row=row,
                code=_text(wanted[row]),
            )
        return found.astype(np.int64)

    def leaves_under(self, level: str) -> Integers:
        """Offsets into the leaf level: unit ``u`` holds the leaves from item ``u`` to item ``u + 1``."""
        depth = self.depth(level)
        offsets = np.arange(self.size(level) + 1, dtype=np.int64)
        for first_child in self.first_child[depth:]:
            offsets = first_child[offsets]
        return offsets

    def parents(self, level: str) -> Integers:
        """For each unit of a level, the position of its parent in the level above."""
        depth = self.depth(level)
        if depth == 0:
            raise InputError(f"level {level!r} is the root and has no parents. Ask for a level below it.")
        first_child = self.first_child[depth - 1]
        return np.repeat(np.arange(len(first_child) - 1, dtype=np.int64), np.diff(first_child))

    def only_children(self, level: str) -> Bools:
        """Which units of a level have no siblings. The root counts as having none above it: False."""
        depth = self.depth(level)
        if depth == 0:
            return np.zeros(1, dtype=np.bool_)
        sizes = np.diff(self.first_child[depth - 1])
        return np.repeat(sizes == 1, sizes)

    def optimised(
        self, *, tribal: Areas | None = None, place: Areas | None = None, facilities: Facilities | None = None
    ) -> OptimisedSpine:
        """The 2020 spine made from this one and public geography (see :mod:`tallyveil.nouns.optimised_spine`)."""
        from tallyveil.nouns.optimised_spine import optimise_spine

        return optimise_spine(self, tribal=tribal, place=place, facilities=facilities)


def _text(code: Any) -> str:
    return str(code) if isinstance(code, str) else bytes(code).decode()


def _as_codes(level: str, column: ArrayLike) -> Codes:
    array = column if isinstance(column, np.ndarray) else np.array(column, dtype=object if _mixed(column) else None)
    if array.ndim != 1:
        raise DataError(f"codes of level {level!r} have {array.ndim} dimensions. Give one column.")
    if array.dtype.kind == "O" and all(isinstance(code, str) for code in array):
        array = array.astype(np.str_)
    if array.size == 0:
        return np.empty(0, dtype="S1")
    if array.dtype.kind not in "SUT":
        raise DataError(
            f"codes of level {level!r} are {array.dtype}, not text. Read the column as text: leading zeros count."
        )
    if array.dtype.kind == "S":
        try:
            np.char.decode(array[_beyond_ascii(array)], "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"codes of level {level!r} are not UTF-8. Convert the column to UTF-8.") from None
    else:
        array = np.char.encode(array.astype(np.str_), "utf-8")
    empty = np.flatnonzero(array == b"")
    if len(empty):
        raise DataError(f"row {int(empty[0]) + 1:,}: the code of level {level!r} is empty. Give every unit a code.")
    return np.ascontiguousarray(array)


def _mixed(column: ArrayLike) -> bool:
    """Whether a plain sequence holds anything but text; NumPy would turn it all into text."""
    return isinstance(column, list | tuple) and not all(isinstance(code, str | bytes) for code in column)


def _beyond_ascii(codes: Codes) -> Bools:
    letters = np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), codes.dtype.itemsize)
    return np.asarray((letters > 127).any(axis=1))


def _path_order(paths: Sequence[Codes]) -> Integers:
    """Rows in the order of their paths, from the coarsest code to the finest."""
    return np.lexsort([_sortable(path) for path in reversed(paths)]).astype(np.int64)


def _sortable(codes: Codes) -> NDArray[Any]:
    """Numbers that sort as the codes do, where the codes are digits of one length (numbers sort faster)."""
    width = codes.dtype.itemsize
    if width <= 18:
        letters = codes.view(np.uint8).reshape(len(codes), width)
        if ((letters >= ord("0")) & (letters <= ord("9"))).all():
            return codes.astype(np.int64)
    return codes


def _starts_by_level(paths: Sequence[Codes]) -> list[Integers]:
    """Rows at which a new unit begins, for each level, the rows being in path order."""
    changed = np.zeros(len(paths[0]), dtype=np.bool_)
    changed[0] = True
    starts = []
    for path in paths:
        changed[1:] |= path[1:] != path[:-1]
        starts.append(np.flatnonzero(changed))
    return starts


def _refuse_repeated_rows(names: Sequence[str], paths: Sequence[Codes], order: Integers) -> None:
    same = np.logical_and.reduce([path[1:] == path[:-1] for path in paths])
    if same.any():
        at = int(np.flatnonzero(same)[0])
        first, second = sorted((int(order[at]) + 1, int(order[at + 1]) + 1))
        raise DataError(
            f"{names[-1]} {_text(paths[-1][at])!r} is listed twice (rows {first:,} and {second:,}). "
            f"List each unit once."
        )


def _refuse_codes_in_two_places(spine: Spine) -> None:
    for depth in range(1, len(spine.levels)):
        codes, level, above = spine.codes[depth], spine.levels[depth], spine.levels[depth - 1]
        order = np.argsort(_sortable(codes), kind="stable")
        again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        if len(again):
            parents = spine.parents(level)
            one, two = (spine.codes[depth - 1][parents[order[again[0] + i]]] for i in (0, 1))
            raise DataError(
                f"{level} {_text(codes[order[again[0]]])!r} lies in {above} {_text(one)!r} and in {above} "
                f"{_text(two)!r}. A code stands once in its level: correct the row, or write codes in full, "
                f"the {above}'s first."
            )


def _refuse_codes_outside_their_parent(spine: Spine, *, named_root: bool) -> None:
    """Where digits of one length mostly begin with the parent's code, one that does not is a slip."""
    for depth in range(1 + named_root, len(spine.levels)):
        codes, parents = spine.codes[depth], spine.codes[depth - 1][spine.parents(spine.levels[depth])]
        width = parents.dtype.itemsize
        if codes.dtype.itemsize <= width or any(_sortable(c).dtype.kind != "i" for c in (codes, parents)):
            continue
        inside = codes.astype(f"S{width}") == parents
        if inside.mean() > 0.5 and not inside.all():
            at = int(np.flatnonzero(~inside)[0])
            level, above = spine.levels[depth], spine.levels[depth - 1]
            raise DataError(
                f"{level} {_text(codes[at])!r} is not inside {above} {_text(parents[at])!r}, though most codes of "
                f"level {level!r} begin with their {above}'s code. Correct the row, or write all codes in full."
            )
