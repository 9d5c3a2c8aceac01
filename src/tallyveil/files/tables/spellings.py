"""Spellings of a text, and units that are spelled in two ways: taken from the data, they would be published as two."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable
from functools import cache

import numpy as np

from tallyveil.nouns.codes import Codes, code_text
from tallyveil.nouns.spine import Spine

_WHOLE_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "\u0131": "i", "ß": "ss", "æ": "ae", "œ": "oe"})
_MOST_UNITS = 200_000  # of a level that is looked at


@cache
def plain(text: str) -> str:
    """A text in lower case and without accents.

    >>> plain("Établissement"), plain("Ogółem")
    ('etablissement', 'ogolem')
    """
    decomposed = unicodedata.normalize("NFKD", text.strip().lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).translate(_WHOLE_LETTERS)


def second_spellings(texts: Iterable[str], groups: Iterable[Hashable]) -> list[tuple[str, str]]:
    """Texts that differ from an earlier one of their group only in capitals, accents or spaces, with the earlier one.

    >>> second_spellings(["Gem", "GEM", "Yala", "Gem "], [0, 0, 0, 1])
    [('Gem', 'GEM')]
    """
    first: dict[tuple[Hashable, str], str] = {}
    pairs = []
    for group, text in zip(groups, texts, strict=True):
        earlier = first.setdefault((group, " ".join(plain(text).split())), text)
        if earlier != text:
            pairs.append((earlier, text))
    return pairs


def in_words(pairs: list[tuple[str, str]]) -> str:
    """What to do about units that are spelled in two ways."""
    one, two = pairs[0]
    more = f" (and {len(pairs) - 1:,} more pairs)" if len(pairs) > 2 else " (and another pair)" * (len(pairs) - 1)
    return (
        f"{one!r} and {two!r}{more} differ only in capitals, accents or spaces, and are read as different units. "
        f"If they are the same, correct the table"
    )


def units_spelled_twice(spine: Spine) -> str | None:
    """A warning about the coarsest level in which units of one parent are spelled in two ways, if there is any."""
    for level in spine.column_levels:
        codes = spine.own_codes(level)
        if not _may_be_spelled_twice(codes):
            continue
        parents = spine.parents(level).tolist() if spine.depth(level) else [0] * len(codes)
        if pairs := second_spellings(map(code_text, codes), parents):
            return f"{level} {in_words(pairs)}"
    return None


def _may_be_spelled_twice(codes: Codes) -> bool:
    """Whether codes have small letters, letters beyond ASCII or spaces: digits and capitals are spelled in one way."""
    if not 1 < len(codes) <= _MOST_UNITS:
        return False
    characters = np.ascontiguousarray(codes).view(np.uint8)
    return bool(((characters == ord(" ")) | (characters >= ord("a"))).any())
