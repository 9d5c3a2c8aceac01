"""Writing microdata detail files (MDF): a compiled kernel renders rows in pieces, and both files appear together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil.files.formats.lines import Bytes, in_order, put_digits, written
from tallyveil.files.tables.stamps import STAMPS

Pieces = Iterator[bytes | memoryview]  # of a file
ROWS = 1 << 18  # rows written at a time


class Rows(NamedTuple):
    """Rows to be written: each is its head, a number, its cell's middle, another number, and its cell's tail.

    Negative numbers are left out.
    """

    heads: tuple[Bytes, Integers]  # a table of heads, and which of them each row has
    cell: Integers
    first_number: Integers
    second_number: Integers


def write_pair(
    folder: str | os.PathLike[str],
    persons: Iterable[bytes | memoryview],
    units: Iterable[bytes | memoryview],
    *,
    remarks: Sequence[str] = (),
) -> tuple[Path, Path]:
    """Write the pieces of ``MDF_PER.dat`` and ``MDF_UNIT.dat``, and ``STAMPS.txt`` with the remarks; all or none."""
    paths = Path(folder) / "MDF_PER.dat", Path(folder) / "MDF_UNIT.dat"
    with ExitStack() as files:
        for path, pieces in zip(paths, (persons, units), strict=True):
            out = files.enter_context(written(path))
            for piece in pieces:
                out.write(piece)
        if remarks:
            files.enter_context(written(Path(folder) / STAMPS)).write("".join(f"{line}\n" for line in remarks).encode())
    return paths


def rendered(
    rows: Callable[[int, int], Rows], total: int, *, start: bytes, middles: Sequence[bytes], tails: Sequence[bytes]
) -> Pieces:
    """A file in pieces: its start, then ``total`` rows with the middle and tail of their cells."""
    middle, tail = _texts(middles), _texts(tails)

    def render(span: tuple[int, int]) -> memoryview:
        (head, which), cell, first_number, second_number = rows(*span)
        room = len(which) * (head.shape[1] + middle[0].shape[1] + tail[0].shape[1] + 40)
        out = np.empty(room, np.uint8)
        return out[: _render_rows(head, which, cell, first_number, second_number, *middle, *tail, out)].data

    yield start
    spans = ((first, min(first + ROWS, total)) for first in range(0, total, ROWS))
    for _, piece in in_order(render, spans, 2):
        yield piece


def heads(prefix: bytes, places: Bytes, unit: Integers, cuts: Sequence[slice]) -> tuple[Bytes, Integers]:
    """The beginnings of the rows of units, which are in order: the prefix, and the parts of the code."""
    low, high = int(unit[0]), int(unit[-1]) + 1
    bar = np.full((high - low, 1), ord("|"), np.uint8)
    parts = [np.broadcast_to(np.frombuffer(prefix, np.uint8), (high - low, len(prefix)))]
    for cut in cuts:
        parts += [places[low:high, cut], bar]
    return np.ascontiguousarray(np.hstack(parts)), unit - low


def _texts(texts: Sequence[bytes]) -> tuple[Bytes, Integers]:
    """Texts as the rows of a table, with their lengths."""
    size = max(map(len, texts))
    table = np.frombuffer(b"".join(text.ljust(size) for text in texts), np.uint8)
    return table.reshape(len(texts), size), np.array([len(text) for text in texts], np.int64)


@compiled
def _render_rows(head, which, cell, one, two, middle, middle_size, tail, tail_size, out):  # type: ignore[no-untyped-def]
    """Write rows one after the other; returns the number of bytes."""
    at = 0
    for row in range(len(which)):
        for i in range(head.shape[1]):
            out[at + i] = head[which[row], i]
        at = _put_number(out, at + head.shape[1], one[row])
        c = cell[row]
        for i in range(middle_size[c]):
            out[at + i] = middle[c, i]
        at = _put_number(out, at + middle_size[c], two[row])
        for i in range(tail_size[c]):
            out[at + i] = tail[c, i]
        at += tail_size[c]
    return at


@compiled
def _put_number(out, at, value):  # type: ignore[no-untyped-def]
    """Write a number unless it is negative; returns where it ends."""
    size, rest = 0 if value < 0 else 1, value // 10
    while rest > 0:
        size, rest = size + 1, rest // 10
    put_digits(out, at, size, value)
    return at + size
