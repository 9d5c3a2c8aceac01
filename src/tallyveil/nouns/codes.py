"""The codes of geographic units: text stored as UTF-8 bytes, and the paths of codes from which a tree is built.

A path is one row of codes, from the coarsest level to the leaf. The functions take the paths as one array per level.
Where codes repeat under different parents, a unit is known by its path, written ``county/tract``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import DataError

Codes = NDArray[np.bytes_]
SEPARATOR = b"/"  # between the codes of a path
INVISIBLE = "\xad\u200b\u2060\ufeff\U000e0000-\U000e007f"
CONTROLS = re.compile(
    f"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069{INVISIBLE}]"
)  # also what reverses text
_LETTERS = 1 << 22  # that are looked at together


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


def refuse_controls(place: str, texts: Iterable[str]) -> None:
    """Refuse a text with a control character, which could forge a line of a page, or hide one on a terminal."""
    for text in texts:
        if isinstance(text, str) and CONTROLS.search(text):
            raise DataError(f"{place}: {text!a} has a control character, such as a line break or an escape. Remove it.")


def refuse_control_codes(level: str, codes: Codes) -> None:
    """Refuse a code with a control character."""
    width = codes.dtype.itemsize
    step = max(1, _LETTERS // width)
    for first in range(0, len(codes), step):
        piece = np.ascontiguousarray(codes[first : first + step])
        letters = piece.view(np.uint8).reshape(len(piece), width)
        if letters.min() >= ord(" ") and letters.max() <= ord("~"):
            continue
        odd = (letters - np.uint8(1) < ord(" ") - 1) | (letters > ord("~"))  # zeros are padding, unless letters follow
        odd[:, :-1] |= (letters[:, :-1] == 0) & (letters[:, 1:] != 0)
        refuse_controls(f"codes of level {level!r}", map(code_text, piece[odd.any(axis=1)]))


def letters_of(codes: Codes, lengths: Integers) -> bytes:
    """Return all codes as one text, without anything between them.

    >>> letters_of(np.array([b"1", b"23"]), np.array([1, 2]))
    b'123'
    """
    width = codes.dtype.itemsize
    if (lengths == width).all():
        return codes.tobytes()
    letters = np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), width)
    return letters[np.arange(width) < lengths[:, None]].tobytes()


def beyond_ascii(codes: Codes) -> Bools:
    """Return for each code whether it has a character outside ASCII."""
    letters = np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), codes.dtype.itemsize)
    return np.asarray((letters > 127).any(axis=1))


def has_named_root(levels: Sequence[str], codes: Sequence[Codes]) -> bool:
    """Whether the root is only a name above the first column of codes."""
    return len(levels) > 1 and code_text(codes[0][0]) == levels[0]


def joined_paths(paths: Sequence[Codes]) -> Codes:
    """Return each path as one text, its codes joined by ``/``.

    >>> joined_paths([np.array([b"1", b"11"]), np.array([b"12", b"2"])]).tolist()
    [b'1/12', b'11/2']
    """
    whole = paths[0]
    for path in paths[1:]:
        whole = np.char.add(np.char.add(whole, SEPARATOR), path)
    return whole


def rising(codes: Codes) -> bool:
    """Whether each code comes after the one before it, as it does where codes begin with the parent's code."""
    return bool((codes[1:] > codes[:-1]).all())


def positions(known: Codes, wanted: Codes, *, in_order: bool | None = None) -> Integers:
    """Return the position of each wanted code among the known ones, or -1; ``in_order`` if these are known to rise."""
    in_order = rising(known) if in_order is None else in_order
    order = np.arange(len(known)) if in_order else np.argsort(known, kind="stable")
    place = np.searchsorted(known, wanted, sorter=None if in_order else order)
    position = order[np.minimum(place, len(known) - 1)]
    return np.where(known[position] == wanted, position, -1).astype(np.int64)


def single_positions(known: Codes, wanted: Codes) -> Integers:
    """Return the position of each wanted code among those that are known once, or -1."""
    codes, first, times = np.unique(known, return_index=True, return_counts=True)
    single = times == 1
    if not single.any():
        return np.full(len(wanted), -1, dtype=np.int64)
    place = positions(codes[single], wanted)
    return np.where(place >= 0, first[single][place], -1).astype(np.int64)


def repeated(codes: Codes) -> tuple[int, int] | None:
    """Return the positions of two equal codes, if there are any."""
    if rising(codes):
        return None
    order = np.argsort(_sort_key(codes), kind="stable")
    again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    return (int(order[again[0]]), int(order[again[0] + 1])) if len(again) else None


def in_path_order(paths: Sequence[Codes]) -> bool:
    """Whether rows are in the order of their paths."""
    tied = np.ones(max(0, len(paths[0]) - 1), dtype=np.bool_)
    for path in paths:
        if (tied & (path[1:] < path[:-1])).any():
            return False
        tied &= path[1:] == path[:-1]
    return True


def path_order(paths: Sequence[Codes]) -> Integers:
    """Return the order that sorts the rows by their paths, from the coarsest code to the finest."""
    if in_path_order(paths):  # as most lists of units are
        return np.arange(len(paths[0]), dtype=np.int64)
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
        if pair := repeated(unit_codes):
            first, second = pair
            raise DataError(
                f"{level} {code_text(unit_codes[first])!r} lies in {above} {code_text(parent_codes[first])!r} and in "
                f"{above} {code_text(parent_codes[second])!r}. Each code may appear only once in its level: correct "
                f"the row, reverse the order of levels if they are not listed coarse to fine or, if codes repeat under "
                f"different parents, set relative = true in [geography] of the codebook."
            )


def relative_keys(levels: Sequence[str], paths: Sequence[Codes], starts: Sequence[Integers]) -> dict[str, Codes]:
    """Return the paths of the units of each level whose codes repeat under parents, joined by ``/``.

    ``starts`` are the rows at which the units begin. Two different paths that would be the same text are refused.
    """
    first = int(has_named_root(levels, paths))
    keys = {}
    for depth in range(first, len(levels)):
        if repeated(paths[depth][starts[depth]]) is None:
            continue
        own = [path[starts[depth]] for path in paths[first : depth + 1]]
        key = joined_paths(own)
        if pair := repeated(key):
            ways = " and ".join(repr(tuple(code_text(codes[unit]) for codes in own)) for unit in pair)
            raise DataError(
                f"{levels[depth]}: the paths {ways} would both be written {code_text(key[pair[0]])!r}. Replace the / "
                f"in these codes by another character."
            )
        keys[levels[depth]] = key
    return keys


def refuse_codes_outside_their_parent(
    levels: Sequence[str], codes: Sequence[Codes], parents: Sequence[Codes], *, named_root: bool
) -> None:
    """Refuse a code of digits that does not begin with its parent's code, if most codes of its level do.

    With ``named_root`` the first level has a name instead of a code, and is skipped.
    """
    for depth in range(1 + named_root, len(levels)):
        unit_codes, parent_codes = codes[depth], parents[depth - 1]
        width = parent_codes.dtype.itemsize
        if unit_codes.dtype.itemsize <= width or not (_all_digits(unit_codes) and _all_digits(parent_codes)):
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
    return codes.astype(np.int64) if _all_digits(codes) else codes


def _all_digits(codes: Codes) -> bool:
    """Whether the codes are digits of one length, few enough for a whole number."""
    width = codes.dtype.itemsize
    if width > 18:
        return False
    letters = codes.view(np.uint8)
    pieces = (letters[first : first + _LETTERS] for first in range(0, len(letters), _LETTERS))
    return all(bool(((piece >= ord("0")) & (piece <= ord("9"))).all()) for piece in pieces)
