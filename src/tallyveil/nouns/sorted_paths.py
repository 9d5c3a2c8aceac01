"""A tree from rows in the order of their paths, piece by piece, so that a large list is not in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.nouns.codes import Codes, in_path_order, unit_starts


def sorted_tree(pieces: Iterable[Sequence[Codes]]) -> tuple[list[Codes], list[Integers]] | None:
    """The codes of each level, and where the children of each unit start (see ``Spine``).

    A piece has the paths of some rows, one array per level. None if the rows are not in the order of their paths, or
    two of them are equal.
    """
    codes: list[list[Codes]] = []
    starts: list[list[Integers]] = []
    before: list[Codes] = []  # the last row
    rows = 0
    for piece in pieces:
        if not len(piece[0]):
            continue
        codes, starts = codes or [[] for _ in piece], starts or [[] for _ in piece]
        paths = [np.concatenate(both) for both in zip(before, piece, strict=True)] if before else list(piece)
        again = len(before) > 0  # the first row is that before
        if not in_path_order(paths):
            return None
        begins = [start[start >= again] for start in unit_starts(paths)]  # the first row of all begins every level
        for level, (path, begin) in enumerate(zip(paths, begins, strict=True)):
            codes[level].append(path[begin])
            starts[level].append(begin + rows - again)
        if len(begins[-1]) < len(piece[0]):
            return None
        before, rows = [path[-1:] for path in piece], rows + len(piece[0])
    begun = [np.concatenate(start) for start in starts]
    ends = [np.append(start, rows) for start in begun]
    children = [
        np.searchsorted(below, end).astype(np.int64) for end, (_, below) in zip(ends, pairwise(begun), strict=False)
    ]
    return [np.concatenate(code) for code in codes], children
