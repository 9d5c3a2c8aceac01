"""The codes of geographic units: text stored as UTF-8 bytes, and the paths of codes from which a tree is built.

A path is one row of codes, from the coarsest level to the leaf. The functions take the paths as one array per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import DataError

Codes = NDArray[np.bytes_]


def as_codes(level: str, column: ArrayLike) -> Codes:
    """Convert a column of text to UTF-8 bytes, and refuse a column with numbers or empty codes."""
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
            np.char.decode(array[beyond_ascii(array)], "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"codes of level {level!r} are not UTF-8. Convert the column to UTF-8.") from None
    else:
        array = np.char.encode(array.astype(np.str_), "utf-8")
    empty = np.flatnonzero(array == b"")
    if len(empty):
        raise DataError(f"row {int(empty[0]) + 1:,}: the code of level {level!r} is empty. Give every unit a code.")
    return np.ascontiguousarray(array)


def code_text(code: Any) -> str:
    """Return one code as text."""
    return str(code) if isinstance(code, str) else bytes(code).decode()


def beyond_ascii(codes: Codes) -> Bools:
    """Return for each code whether it has a character outside ASCII."""
    letters = np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), codes.dtype.itemsize)
    return np.asarray((letters > 127).any(axis=1))


def path_order(paths: Sequence[Codes]) -> Integers:
    """Return the order that sorts the rows by their paths, from the coarsest code to the finest."""
    return np.lexsort([_sort_key(path) for path in reversed(paths)]).astype(np.int64)


def unit_starts(paths: Sequence[Codes]) -> list[Integers]:
    """Return, for each level, the rows at which a new unit begins. The rows must be in path order."""
    changed = np.zeros(len(paths[0]), dtype=np.bool_)
    changed[0] = True
    starts = []
    for path in paths:
        changed[1:] |= path[1:] != path[:-1]
        starts.append(np.flatnonzero(changed))
    return starts


def refuse_repeated_rows(leaf: str, paths: Sequence[Codes], order: Integers) -> None:
    """Refuse two equal rows. ``order`` gives the original row of each sorted one, for the error."""
    same = np.logical_and.reduce([path[1:] == path[:-1] for path in paths])
    if same.any():
        row = int(np.flatnonzero(same)[0])
        first, second = sorted((int(order[row]) + 1, int(order[row + 1]) + 1))
        raise DataError(
            f"{leaf} {code_text(paths[-1][row])!r} is listed twice (rows {first:,} and {second:,}). "
            f"List each unit once."
        )


def refuse_codes_in_two_parents(levels: Sequence[str], codes: Sequence[Codes], parents: Sequence[Codes]) -> None:
    """Refuse a code that appears twice in its level.

    ``parents[i]`` holds the code of the parent of each unit of level ``i + 1``.
    """
    for (above, level), unit_codes, parent_codes in zip(pairwise(levels), codes[1:], parents, strict=True):
        order = np.argsort(_sort_key(unit_codes), kind="stable")
        repeated = np.flatnonzero(unit_codes[order][1:] == unit_codes[order][:-1])
        if len(repeated):
            first, second = order[repeated[0] : repeated[0] + 2]
            raise DataError(
                f"{level} {code_text(unit_codes[first])!r} lies in {above} {code_text(parent_codes[first])!r} and in "
                f"{above} {code_text(parent_codes[second])!r}. Each code may appear only once in its level: correct "
                f"the row, or write codes in full, starting with the code of the {above}."
            )


def refuse_codes_outside_their_parent(
    levels: Sequence[str], codes: Sequence[Codes], parents: Sequence[Codes], *, named_root: bool
) -> None:
    """Refuse a code of digits that does not begin with its parent's code, if most codes of its level do.

    With ``named_root`` the first level has a name instead of a code, and is skipped.
    """
    for depth in range(1 + named_root, len(levels)):
        unit_codes, parent_codes = codes[depth], parents[depth - 1]
        width = parent_codes.dtype.itemsize
        numeric = all(_sort_key(column).dtype.kind == "i" for column in (unit_codes, parent_codes))
        if unit_codes.dtype.itemsize <= width or not numeric:
            continue
        inside = unit_codes.astype(f"S{width}") == parent_codes
        if inside.mean() > 0.5 and not inside.all():
            unit = int(np.flatnonzero(~inside)[0])
            level, above = levels[depth], levels[depth - 1]
            raise DataError(
                f"{level} {code_text(unit_codes[unit])!r} is not inside {above} {code_text(parent_codes[unit])!r}, "
                f"though most codes of level {level!r} begin with the code of their {above}. Correct the row, or write "
                f"all codes in full."
            )


def _mixed(column: ArrayLike) -> bool:
    """Whether a plain sequence holds anything other than text; NumPy would convert it all to text."""
    return isinstance(column, list | tuple) and not all(isinstance(code, str | bytes) for code in column)


def _sort_key(codes: Codes) -> NDArray[Any]:
    """Return numbers that sort as the codes do, if the codes are digits of one length (numbers sort faster)."""
    width = codes.dtype.itemsize
    if width <= 18:
        letters = codes.view(np.uint8).reshape(len(codes), width)
        if ((letters >= ord("0")) & (letters <= ord("9"))).all():
            return codes.astype(np.int64)
    return codes
