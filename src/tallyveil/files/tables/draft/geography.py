"""The geography of a table: its levels, coarse to fine, by well-known names and by which column determines which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil._arrays import Integers
from tallyveil.files.tables.draft.asked import Asked
from tallyveil.files.tables.draft.chain import infer_levels
from tallyveil.files.tables.draft.nesting import Nest, count_paths, follows_from, nest, paths
from tallyveil.files.tables.draft.notes import Note
from tallyveil.files.tables.draft.view import Column, View
from tallyveil.files.tables.draft.words import CODES, LEVELS, is_attribute, is_code_name, is_place, is_unit_name
from tallyveil.files.tables.geography import CUTS, lost_zeros
from tallyveil.files.tables.spellings import in_words, plain, second_spellings

GISJOIN_CUTS = {"state": 4, "county": 8, "tract": 14, "block_group": 15, "block": 18}
FEW_ROWS = 10  # fewer rows show nothing about what follows from what
_RENAMED = 0.05  # share of units that may have two names


@dataclass(frozen=True, kw_only=True, eq=False)
class Geography:
    """The geographic part of a draft, and the rows that it keeps."""

    view: View  # with the rows that are kept
    fields: Mapping[str, Any]  # of a codebook
    columns: tuple[str, ...]  # that hold codes or names of units, or select rows
    path: Integers  # the number of each row's unit
    notes: tuple[Note, ...] = ()

    @property
    def is_found(self) -> bool:
        """Whether there are levels."""
        return bool(self.fields["levels"])


def find_geography(view: View, asked: Asked, cuts: Mapping[str, Sequence[int]] | None = None) -> Geography:
    """The geography of a table; columns that the user names for something else are not taken for it.

    ``cuts`` has columns with codes of several levels, and the lengths at which these are cut.
    """
    by_name = {plain(name): name for name in view.columns}
    code = next((by_name[name] for name in CODES if name in by_name), None)
    if not asked.levels and code is not None and not any(level in by_name for level in LEVELS):
        cut = _cut_code(view, view.columns[code])
        if cut is not None:
            return cut
    others = {*asked.attributes, *asked.words, asked.count}
    whole = next((name for name in cuts or {} if name not in others), None)
    if not asked.levels and whole is not None and cuts:
        *above, longest = cuts[whole]
        return _by_lengths(view, view.columns[whole], {f"{whole}_{size}": size for size in above} | {whole: longest})
    rest = replace(view, columns={name: column for name, column in view.columns.items() if name not in others})
    labels = [view.columns[name] for name in asked.attributes if name in view.columns]
    levels = [view.columns[name] for name in asked.levels] or infer_levels(rest, labels)
    if not levels:
        return Geography(view=view, fields={"levels": ()}, columns=(), path=np.zeros(view.rows, dtype=np.int64))
    return _by_columns(rest, levels, view)


def _by_columns(rest: View, levels: Sequence[Column], view: View) -> Geography:
    nests = [(above, level, nest(level, above, exactly=True)) for above, level in pairwise(levels)]
    relative = any(not found.holds for _, _, found in nests)
    notes = [] if relative else [_slips(level, above, found) for above, level, found in nests if found.astray]
    if relative:
        repeated = next((level, found) for _, level, found in nests if not found.holds)
        notes.append(
            Note(
                field=("geography", "relative"),
                text=f"codes repeat under parents: {found_in(*repeated)}, so a unit is known by its path",
            )
        )
    notes += [*_taken_as_levels(levels), *_spelled_twice(levels)]
    names, name_notes = unit_names(rest, levels)
    fields: dict[str, Any] = {"levels": tuple(level.name for level in levels), "relative": relative, "names": names}
    fields["pad"] = {level.name: _digits(level, relative=relative) for level in levels if _needs_pad(level)}
    if levels[0].size > 1:
        american = plain(levels[0].name) == "state" and all(len(label) <= 2 for label in levels[0].labels)
        fields["root"] = "us" if american else "all"
    notes += [*name_notes, *_called_codes(names), *_other_levels(rest, levels, names)]
    used = (*fields["levels"], *names.values())
    return Geography(view=view, fields=fields, columns=used, path=paths(levels), notes=tuple(notes))


def _called_codes(names: Mapping[str, str]) -> list[Note]:
    """What to do about levels that are called codes, which readers of tables and reports would not understand."""
    text = "readers will see this name; for another one, rename the column in the file"
    return [Note(field=("geography", "levels"), item=level, text=text) for level in names if is_code_name(level)]


def found_in(level: Column, found: Nest) -> str:
    """How many codes of a level lie in several parents, in words."""
    return (
        f"{found.astray:,} of {found.units:,} codes of {level.name} (such as {found.example!r}) are in several parents"
    )


def unit_names(view: View, levels: Sequence[Column]) -> tuple[dict[str, str], list[Note]]:
    """The columns with names of units, by level: each unit has one name, and the units of a level differ in them."""
    taken = {level.name for level in levels}
    names: dict[str, str] = {}
    notes = []
    for column in view.columns.values():
        coded = column.is_code and not is_unit_name(column.name)
        if column.name in taken or column.is_number or column.is_date or is_attribute(column.name):
            continue
        few = view.rows < FEW_ROWS
        for depth, level in enumerate(levels):
            if coded and not _begins_again(levels[: depth + 1]):
                continue
            found, path = nest(level, column), paths(levels[: depth + 1])
            if found.astray > _RENAMED * found.units and (few or not follows_from(path, column)):
                continue
            differ = column.size > 1 and column.size >= 0.5 * (int(path.max(initial=-1)) + 1)
            says_so = is_unit_name(column.name) or (is_place(column.name) and (differ if not few else column.size > 1))
            alike = not few and (differ or _are_told_apart(view, levels[: depth + 1], column))
            if level.name not in names and column.size and (says_so or alike):
                names[level.name] = column.name
                if 0 < found.astray <= _RENAMED * found.units:
                    words = f"{found.astray:,} of {found.units:,} units have two names; the first is kept"
                    notes.append(Note(field=("geography", "names"), text=f"{column.name}: {words}"))
            break
    return names, notes


def _begins_again(levels: Sequence[Column]) -> bool:
    """Whether the last level has numbers that begin again in each parent, so that other codes may stand for names."""
    *above, level = levels
    return bool(above) and level.is_number and not nest(level, above[-1]).holds


def _are_told_apart(view: View, levels: Sequence[Column], names: Column) -> bool:
    """Whether a column beside a level's codes names its units within each parent, and repeats in other parents."""
    *above, level = levels
    if not above or abs(view.position(level.name) - view.position(names.name)) != 1 or nest(names, above[-1]).holds:
        return False
    return count_paths([*above, names]) >= (1 - _RENAMED) * count_paths(levels)


def _other_levels(view: View, levels: Sequence[Column], names: Mapping[str, str]) -> list[Note]:
    """Columns that nest in the geography as well, but not in this order of levels."""
    used = {*(level.name for level in levels), *names.values()}
    others = [
        column.name
        for column in view.columns.values()
        if column.name not in used
        and 1 < column.size < levels[-1].size
        and (is_place(column.name) or (column.is_code and not column.is_unique))
        and nest(levels[-1], column).holds
    ]
    return [Note(field=("geography", "levels"), text=f"could also be a level: {', '.join(others)}")] if others else []


def _slips(level: Column, above: Column, found: Nest) -> Note:
    words = f"{found_in(level, found)}: correct these rows, since a unit of {level.name} lies in one {above.name}"
    return Note(field=("geography", "levels"), text=words)


def _taken_as_levels(levels: Sequence[Column]) -> list[Note]:
    """Levels that are so by their nesting alone, beside others whose names are words for places."""
    if not any(is_place(level.name) for level in levels):
        return []
    return [
        Note(field=("geography", "levels"), item=above.name, text=f"taken as a level: each {level.name} lies in one")
        for above, level in pairwise(levels)
        if not is_place(above.name) and not above.is_code and not is_code_name(above.name)
    ]


def _spelled_twice(levels: Sequence[Column]) -> list[Note]:
    """Levels some of whose codes may be spellings of others."""
    found = {level.name: second_spellings(level.labels, [0] * len(level.labels)) for level in levels}
    return [
        Note(field=("geography", "levels"), item=name, text=in_words(pairs)) for name, pairs in found.items() if pairs
    ]


def _needs_pad(level: Column) -> bool:
    return bool(_is_typed_number(level)) or bool(lost_zeros(level.occurring, level.name))


def _is_typed_number(column: Column) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(column.kind) for is_kind in kinds)


def _digits(level: Column, *, relative: bool) -> int:
    """The digits of a code that is stored as a number: those of a census code, or as many as it has."""
    longest = pc.max(pc.utf8_length(level.occurring)).as_py()
    whole = CUTS.get(level.name, 0)
    return whole if not relative and longest in (whole - 1, whole) else 1


def _cut_code(view: View, column: Column) -> Geography | None:
    """One code that is cut into levels by its length. Rows of coarser levels are left out."""
    sizes = pc.utf8_length(column.texts).to_numpy(zero_copy_only=False)
    longest = int(sizes[column.present].max(initial=0))
    cuts = GISJOIN_CUTS if plain(column.name) == "gisjoin" else CUTS
    if longest not in cuts.values():
        return None
    lengths = {level: size for level, size in cuts.items() if size <= longest}
    leaves = sizes[column.of_row] == longest
    where = {} if leaves.all() else _mark(view, leaves, column)
    for name, value in where.items():
        view = view.where(name, value)
    return _by_lengths(view, view.columns[column.name], lengths, where=where, root="us")


def _by_lengths(
    view: View, column: Column, lengths: Mapping[str, int], *, where: Mapping[str, str] | None = None, root: str = "all"
) -> Geography:
    """The geography of a column whose codes are cut by length."""
    first = pc.utf8_slice_codeunits(column.occurring, 0, next(iter(lengths.values())))
    fields: dict[str, Any] = {"levels": tuple(lengths), "code": column.name, "lengths": lengths}
    if len(pc.unique(first)) > 1:
        fields["root"] = root
    names, notes = unit_names(view, [column])
    fields["names"] = {list(lengths)[-1]: name for name in names.values()}
    used = (column.name, *(where or {}), *names.values())
    return Geography(
        view=view, fields=fields | {"where": where or {}}, columns=used, path=paths([column]), notes=tuple(notes)
    )


def _mark(view: View, leaves: Any, code: Column) -> dict[str, str]:
    """A column whose value distinguishes the rows of leaves from the others."""
    for column in view.columns.values():
        if column.name != code.name and not column.is_number:
            inside, outside = set(column.of_row[leaves].tolist()), set(column.of_row[~leaves].tolist())
            if len(inside) == 1 and not inside & outside:
                return {column.name: column.texts[inside.pop()].as_py()}
    return {}
