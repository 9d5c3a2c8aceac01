"""Codes of places in fixed-width files: from numbers to a spine, and from a spine to digits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.errors import DataError
from tallyveil.files.formats.lines import Bytes
from tallyveil.nouns.spine import Spine


def spine_from_numbers(codes: Integers, lengths: Mapping[str, int]) -> Spine:
    """The spine of leaves whose codes are given as numbers; leading zeros are restored.

    >>> spine_from_numbers(np.array([10001]), {"state": 2, "county": 5}).labels("state")
    ['10']
    """
    width = list(lengths.values())[-1]
    digits = np.empty((len(codes), width), np.uint8)
    for place in range(width):
        digits[:, place] = codes // 10 ** (width - 1 - place) % 10 + ord("0")
    return Spine.from_codes(digits.view(f"S{width}").ravel(), lengths=lengths, root="us")


def leaf_digits(spine: Spine, lengths: Mapping[str, int]) -> Bytes:
    """The leaf codes as a table of digits; each level must be the leading digits of its leaves, of the given length."""
    if spine.levels != ("us", *lengths):
        raise DataError(
            f"the file holds the levels us, {', '.join(lengths)}, but the spine has {', '.join(spine.levels)}. "
            f"Use counts on those levels."
        )
    leaves = spine.codes[-1]
    for level, width in lengths.items():
        codes = np.repeat(spine.codes[spine.depth(level)], np.diff(spine.leaves_under(level)))
        text = codes.astype(f"S{codes.dtype.itemsize}").view(np.uint8).reshape(len(codes), -1)
        wrong = (text.shape[1] != width) | ((text < ord("0")) | (text > ord("9"))).any(axis=1)
        wrong = wrong | (leaves.astype(f"S{width}") != codes)
        if wrong.any():
            code = bytes(codes[int(np.argmax(wrong))]).decode()
            raise DataError(
                f"{level} {code!r} is not the first {width} digits of its {spine.leaf} codes. "
                f"Write codes in full, with leading zeros."
            )
    return leaves.view(np.uint8).reshape(len(leaves), -1)
