"""The geographic tree: levels from coarse to fine, in which every unit has one parent.

A unit is identified by its code, which is text (leading zeros count) and appears once in its level. Where codes repeat
under different parents (county 001 in every state), a unit is identified by its path instead, such as ``44/001``. Units
are in the order of their paths from the root, so the children of a unit are adjacent, and a level is summed to the
level above by summing runs. The list of units is a public input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import DataError, InputError, UnknownUnitError
from tallyveil.nouns.codes import (
    Codes,
    as_codes,
    beyond_ascii,
    code_text,
    has_named_root,
    joined_paths,
    letters_of,
    path_order,
    positions,
    refuse_codes_in_two_parents,
    refuse_codes_outside_their_parent,
    refuse_control_codes,
    refuse_controls,
    refuse_repeated_rows,
    relative_keys,
    single_positions,
    unit_starts,
)
from tallyveil.nouns.sorted_paths import sorted_tree

if TYPE_CHECKING:
    from tallyveil.nouns.areas import Areas
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.optimised_spine import OptimisedSpine


@dataclass(frozen=True, kw_only=True)
class UnitNames:
    """The names of the units of a level, in the order of the units, and the column that they come from."""

    column: str
    of_unit: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spine:
    """A tree of geographic units.

    Attributes
    ----------
    levels
        Names of the levels, from coarse to fine. The first level has one unit, the root.
    codes
        For each level, the codes of its units as UTF-8 bytes; their paths where codes repeat under parents.
    first_child
        For each level but the last, where the children start in the next level: those of unit ``u`` are the units
        from ``first_child[u]`` up to ``first_child[u + 1]``.
    relative
        Whether the tree was built from codes that may repeat under different parents.
    own
        For each level whose codes do repeat, the units' own codes (see ``own_codes``).
    names
        Names of the units of some levels. They identify nothing: two spines that differ in names only are equal, and
        have the same noise.

    Examples
    --------
    >>> spine = Spine.from_columns({"state": ["44", "44", "09"], "county": ["44007", "44001", "09001"]}, root="us")
    >>> spine
    Spine(us 1, state 2, county 3)
    >>> spine.labels("county")
    ['09001', '44001', '44007']
    >>> spine = Spine.from_columns({"county": ["1", "11"], "tract": ["12", "12"]}, root="state", relative=True)
    >>> spine.labels("county"), spine.labels("tract")
    (['1', '11'], ['1/12', '11/12'])
    """

    levels: tuple[str, ...]
    codes: tuple[Codes, ...]
    first_child: tuple[Integers, ...]
    relative: bool = False
    own: Mapping[str, Codes] = field(default_factory=dict)
    names: Mapping[str, UnitNames] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise DataError(f"levels {', '.join(self.levels)}: a name is used twice. Give each level its own name.")
        if len(self.codes[0]) != 1:
            raise DataError(
                f"level {self.levels[0]!r} has {len(self.codes[0]):,} units, but a tree has one root. "
                f'Name a level above it (root = "us").'
            )
        for level, names in self.names.items():
            if len(names.of_unit) != self.size(level):
                raise DataError(
                    f"level {level!r} has {self.size(level):,} units, but {len(names.of_unit):,} names. Give one each."
                )
            refuse_controls(f"names of level {level!r}", (names.column, *names.of_unit))
        refuse_controls("levels", self.levels)
        for level, codes in self.items():
            refuse_control_codes(level, codes)
        object.__setattr__(self, "own", Frozen(self.own))
        object.__setattr__(self, "names", Frozen(self.names))
        for array in (*self.codes, *self.first_child, *self.own.values()):
            array.flags.writeable = False

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, ArrayLike],
        *,
        root: str | None = None,
        in_order: bool = False,
        relative: bool = False,
    ) -> Spine:
        """Build the tree from one row per leaf unit and one column of codes per level, from coarse to fine.

        ``root`` names a level above the first column, which is needed if the first column has several units. Rows are
        sorted by their paths. With ``in_order`` they keep their order, which must have the children of a unit together.
        With ``relative`` codes may repeat under different parents; a level in which they do has paths for codes.
        """
        names = list(columns)
        if not names or root == "":
            raise DataError("there are no geographic columns, or the root has no name. Name at least one level.")
        paths = [as_codes(name, column) for name, column in columns.items()]
        if len({len(path) for path in paths}) != 1:
            sizes = ", ".join(f"{name} {len(path):,}" for name, path in zip(names, paths, strict=True))
            raise DataError(f"geographic columns differ in length ({sizes}). Give one row per leaf unit.")
        if len(paths[0]) == 0:
            raise DataError(f"level {names[-1]!r} has no units. List all units, including the empty ones.")
        if root is not None:
            names.insert(0, root)
            paths.insert(0, np.full(len(paths[0]), root.encode(), dtype=f"S{len(root.encode())}"))
        order = np.arange(len(paths[0])) if in_order else path_order(paths)
        paths = [path[order] for path in paths]
        refuse_repeated_rows(names[-1], paths, order)
        starts = unit_starts(paths)
        codes = tuple(path[start] for path, start in zip(paths, starts, strict=True))
        ends = [np.append(start, len(order)) for start in starts]
        first_child = tuple(np.searchsorted(starts[i + 1], ends[i]).astype(np.int64) for i in range(len(names) - 1))
        if relative:
            keys = relative_keys(names, paths, starts)
            own = {level: code for level, code in zip(names, codes, strict=True) if level in keys}
            codes = tuple(keys.get(level, code) for level, code in zip(names, codes, strict=True))
            return cls(levels=tuple(names), codes=codes, first_child=first_child, relative=True, own=own)
        spine = cls(levels=tuple(names), codes=codes, first_child=first_child)
        spine._refuse_misplaced(named_root=root is not None)
        return spine

    @classmethod
    def from_sorted(cls, levels: Sequence[str], pieces: Iterable[Sequence[Codes]], *, root: str | None) -> Spine | None:
        """Build the tree from rows in the order of their paths, piece by piece (see ``sorted_paths``).

        None if they are in another order, or two rows are equal.
        """
        named = [] if root is None else [np.array([root.encode()])]
        tree = sorted_tree([*(np.repeat(name, len(piece[0])) for name in named), *piece] for piece in pieces)
        if tree is None or not tree[0]:
            return None
        names = (*([] if root is None else [root]), *levels)
        spine = cls(levels=names, codes=tuple(tree[0]), first_child=tuple(tree[1]))
        spine._refuse_misplaced(named_root=root is not None)
        return spine

    def _refuse_misplaced(self, *, named_root: bool) -> None:
        """Refuse a code that is there twice, or does not begin with its parent's code though most do."""
        names, codes = self.levels, self.codes
        parents = [np.repeat(code, np.diff(first)) for code, first in zip(codes, self.first_child, strict=False)]
        refuse_codes_in_two_parents(names, codes, parents)
        refuse_codes_outside_their_parent(names, codes, parents, named_root=named_root)

    @classmethod
    def from_codes(cls, codes: ArrayLike, *, lengths: Mapping[str, int], root: str | None = None) -> Spine:
        """Build the tree from leaf codes alone: the code of a level is a prefix of the leaf code, of given length.

        >>> Spine.from_codes(["44001", "44007"], lengths={"state": 2, "county": 5})
        Spine(state 1, county 2)
        """
        if not lengths:
            raise DataError("no lengths are given. Give the length of the code of each level, from coarse to fine.")
        if (sizes := list(lengths.values())) != sorted(set(sizes)) or sizes[0] < 1:
            raise DataError(
                f"lengths {dict(lengths)} do not increase. Give them from coarse to fine, each longer than the last."
            )
        leaf = list(lengths)[-1]
        whole: NDArray[Any] = as_codes(leaf, codes)
        if beyond_ascii(whole).any():
            whole = np.char.decode(whole, "utf-8")
        actual = np.char.str_len(whole)
        wrong = np.flatnonzero(actual != lengths[leaf])
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"row {row + 1:,}: code {code_text(whole[row])!r} has {actual[row]} characters, but a {leaf} "
                f"has {lengths[leaf]}. Correct the code or the lengths."
            )
        cut = {name: whole.astype(f"{whole.dtype.kind}{size}") for name, size in lengths.items()}
        return cls.from_columns(cut, root=root)

    def __repr__(self) -> str:
        return f"Spine({', '.join(f'{level} {len(codes):,}' for level, codes in self.items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spine):
            return NotImplemented
        if self is other:
            return True
        if self.levels != other.levels:
            return False
        parts = zip(self.codes + self.first_child, other.codes + other.first_child, strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in parts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def leaf(self) -> str:
        """The name of the finest level."""
        return self.levels[-1]

    @property
    def named_root(self) -> str | None:
        """The root, if it is only a name above the first column of codes."""
        return self.levels[0] if has_named_root(self.levels, self.codes) else None

    @property
    def column_levels(self) -> tuple[str, ...]:
        """The levels that have a column of codes: all but a root that is only a name."""
        return self.levels[self.named_root is not None :]

    def canonical_bytes(self) -> Iterator[bytes]:
        """Yield the levels, codes and tree as bytes that depend on nothing else."""
        for level, codes in self.items():
            yield level.encode()
            lengths = np.char.str_len(codes)
            yield lengths.astype("<i4").tobytes()
            yield letters_of(codes, lengths)
        for first_child in self.first_child:
            yield first_child.astype("<i8").tobytes()

    def items(self) -> Iterator[tuple[str, Codes]]:
        """Return pairs of a level and its codes, from coarse to fine."""
        return zip(self.levels, self.codes, strict=True)

    def depth(self, level: str) -> int:
        """Return the depth of a level; the root has depth 0."""
        if level not in self.levels:
            raise InputError(f"unknown level {level!r}. The levels are {', '.join(self.levels)}.")
        return self.levels.index(level)

    def size(self, level: str) -> int:
        """Return the number of units of a level."""
        return len(self.codes[self.depth(level)])

    def labels(self, level: str) -> list[str]:
        """Return the codes of a level as text."""
        return [code_text(code) for code in self.codes[self.depth(level)]]

    def own_codes(self, level: str) -> Codes:
        """Return the units' own codes, which may repeat under different parents."""
        codes = self.codes[self.depth(level)]
        return self.own.get(level, codes)

    def leaf_columns(self) -> dict[str, Codes]:
        """Return the paths of all leaves, one column of own codes for each level (see ``column_levels``)."""
        return {
            level: np.repeat(self.own_codes(level), np.diff(self.leaves_under(level))) for level in self.column_levels
        }

    def leaf_codes(self, columns: Mapping[str, ArrayLike]) -> Codes:
        """Return what identifies the leaves in columns of own codes: the leaf's column, or the path of all columns."""
        needed = self.column_levels if self.leaf in self.own else (self.leaf,)
        return joined_paths([as_codes(level, columns[level]) for level in needed])

    def locate(self, level: str, codes: ArrayLike) -> Integers:
        """Return the positions of units in their level. An unknown code is an error that names it.

        Where codes repeat under parents, a unit is found by its path, or by its own code if no other unit has it.
        """
        known, wanted = self.codes[self.depth(level)], as_codes(level, codes)
        position = positions(known, wanted)
        missing = np.flatnonzero(position < 0)
        if len(missing) and level in self.own:
            position[missing] = single_positions(self.own[level], wanted[missing])
            missing = np.flatnonzero(position < 0)
        if len(missing):
            raise self._unknown(level, int(missing[0]), wanted[missing[0]])
        return position

    def _unknown(self, level: str, row: int, wanted: bytes) -> UnknownUnitError:
        code, known = code_text(wanted), self.codes[self.depth(level)]
        alike = known[self.own_codes(level) == wanted]
        if len(alike):
            paths = " or ".join(repr(code_text(path)) for path in alike[:2])
            why = (
                f"is the code of {len(alike):,} units. Give the path of one, such as {paths}, or all columns of codes."
            )
        else:
            why = (
                f"is not among the {len(known):,} units of that level. Add it to the list of units, or correct the "
                f"code."
            )
        return UnknownUnitError(f"row {row + 1:,}: {level} {code!r} {why}", row=row, code=code)

    def leaves_under(self, level: str) -> Integers:
        """Return offsets into the leaf level: unit ``u`` holds the leaves from item ``u`` up to item ``u + 1``."""
        depth = self.depth(level)
        offsets = np.arange(self.size(level) + 1, dtype=np.int64)
        for first_child in self.first_child[depth:]:
            offsets = first_child[offsets]
        return offsets

    def parents(self, level: str) -> Integers:
        """Return, for each unit of a level, the position of its parent in the level above."""
        depth = self.depth(level)
        if depth == 0:
            raise InputError(f"level {level!r} is the root and has no parents. Ask for a level below it.")
        first_child = self.first_child[depth - 1]
        return np.repeat(np.arange(len(first_child) - 1, dtype=np.int64), np.diff(first_child))

    def optimised(
        self, *, tribal: Areas | None = None, place: Areas | None = None, facilities: Facilities | None = None
    ) -> OptimisedSpine:
        """Build the optimised spine of 2020 from this one (see :mod:`tallyveil.nouns.spine_optimiser`)."""
        from tallyveil.nouns.spine_optimiser import optimise_spine

        return optimise_spine(self, tribal=tribal, place=place, facilities=facilities)
