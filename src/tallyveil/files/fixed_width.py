"""Large text files of digits: read in pieces and counted on threads, written whole or not at all.

A census of persons does not fit in memory, its counts do. A file is cut into pieces at the start of a record, a
compiled kernel counts each piece on a thread of its own, and what they found is added up in the order of the file, so
that the first wrong line is named whatever the number of threads. Memory grows with the number of distinct (unit,
cell) pairs, not with the file.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.files.atomic import replacing
from tallyveil.spine import Spine

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
J = TypeVar("J")
R = TypeVar("R")
Progress = Callable[[int, int], None]  # bytes read so far, bytes in the file

PIECE = 8 << 20
LONGEST = 1 << 28  # bytes in which a new record must begin
_WAITING = 1 << 21  # entries that may wait before they are added up


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Counts by key; ``added`` makes the keys rise, each standing once."""

    key: Integers
    count: Integers


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """The first wrong record of a piece: where it lies in the piece, and what is wrong in the kernel's numbers."""

    kind: int
    field: int
    first: int
    last: int
    note: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What a kernel found in a piece."""

    tally: Tally
    lines: int
    wrong: Wrong | None
    rows: tuple[Integers, Integers] | None = None


class Source:
    """A file opened for reading, plain or gzip, whose failures are InputErrors."""

    def __init__(self, path: Path, raw: BufferedReader, stream: BufferedReader | gzip.GzipFile) -> None:
        self.path, self.name, self._raw, self._stream = path, path.name, raw, stream
        self.size = os.fstat(raw.fileno()).st_size
        self._back = b""

    def fill(self, room: memoryview) -> int:
        """Read into some room; the number of bytes, none at the end."""
        if self._back:
            size = min(len(room), len(self._back))
            room[:size], self._back = self._back[:size], self._back[size:]
            return size
        return self._attempt(lambda: self._stream.readinto(room))

    def peek(self) -> bytes:
        """The next bytes, which stay to be read."""
        return self._attempt(lambda: self._stream.peek(4096))

    def readline(self) -> bytes:
        """One line with its end."""
        return self._attempt(lambda: self._stream.readline(1 << 20))

    def put_back(self, line: bytes) -> None:
        """Read this again first."""
        self._back = line

    def position(self) -> int:
        """Bytes of the file that were read, as they lie on the disk."""
        return self._raw.tell()

    def _attempt(self, read: Callable[[], R]) -> R:
        try:
            return read()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self.path}: the gzip file is damaged ({error}). Fetch it again.") from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or error}). Check the disk.") from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a file, plain or gzip (known by its first bytes)."""
    where = Path(path)
    try:
        raw = open(where, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise InputError(f"{where}: no such file. Check the name and the folder.") from None
    except OSError as error:
        raise InputError(f"{where}: cannot be opened ({error.strerror}). Name a file you may read.") from None
    with raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(raw) if packed else raw as stream:
            source = Source(where, raw, stream)
            _refuse_unlike_text(where, source.peek())
            yield source


def counted(
    source: Source,
    count: Callable[[Bytes], Found],
    *,
    explain: Callable[[bytes, int, Wrong], InputError],
    starts: bytes,
    piece: int = PIECE,
    threads: int = 2,
    progress: Progress | None = None,
    lines: int = 0,
) -> Iterator[Found]:
    """Count the rest of a file in pieces; each begins after a line end that ``starts`` ends with or follows.

    ``lines`` were read before. The first wrong record, in the order of the file, is raised as ``explain`` words it.
    """
    for data, found in in_order(count, _pieces(source, starts, piece, ahead=threads + 2), threads):
        lines += found.lines
        if found.wrong is not None:
            raise explain(data[found.wrong.first : found.wrong.last].tobytes(), lines, found.wrong)
        yield found
        if progress is not None:
            progress(source.position(), source.size)


def in_order(work: Callable[[J], R], jobs: Iterable[J], threads: int) -> Iterator[tuple[J, R]]:
    """Work on jobs on threads, a few ahead, and give back each job with its result in the order of the jobs."""
    if threads < 1:
        raise InputError(f"threads must be at least 1. Got {threads} instead.")
    waiting: deque[tuple[J, Future[R]]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for job in jobs:
            waiting.append((job, pool.submit(work, job)))
            if len(waiting) > threads:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def added(tallies: Iterable[Tally]) -> Tally:
    """Add up tallies as they come, holding little more than their sum.

    >>> one = Tally(key=np.array([7, 3]), count=np.array([1, 2]))
    >>> added([one, one]).key.tolist(), added([one, one]).count.tolist()
    ([3, 7], [4, 2])
    """
    whole = Tally(key=np.empty(0, np.int64), count=np.empty(0, np.int64))
    waiting: list[Tally] = []
    size = 0
    for tally in tallies:
        waiting.append(tally)
        size += len(tally.key)
        if size > max(_WAITING, len(whole.key) // 2):
            whole, waiting, size = _merged([whole, *waiting]), [], 0
    return _merged([whole, *waiting])


def spine_of(codes: Integers, lengths: Mapping[str, int]) -> Spine:
    """The tree of leaves whose codes, as numbers, are given; leading zeros are put back.

    >>> spine_of(np.array([10001]), {"state": 2, "county": 5}).labels("state")
    ['10']
    """
    width = list(lengths.values())[-1]
    tens = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    digits = np.empty((len(codes), width), np.uint8)
    for place, ten in enumerate(tens):
        digits[:, place] = codes // ten % 10 + ord("0")
    return Spine.from_codes(digits.view(f"S{width}").ravel(), lengths=lengths, root="us")


def leaf_digits(spine: Spine, lengths: Mapping[str, int]) -> Bytes:
    """The leaf codes as a table of digits, refused unless each level is so many digits of the one below."""
    if spine.levels != ("us", *lengths):
        raise InputError(
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
            raise InputError(
                f"{level} {code!r} is not {width} digits with which its {spine.leaf} codes begin. "
                f"Write codes in full, with leading zeros."
            )
    return leaves.view(np.uint8).reshape(len(leaves), -1)


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which appears whole or not at all; a name that ends in ``.gz`` is compressed."""
    with replacing(path) as temporary, open(temporary, "wb") as raw:
        if Path(path).suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield raw


def shown(value: bytes) -> str:
    """Bytes of a file as they stand in a message."""
    return ascii(value.decode("latin-1"))


@compiled
def digits(data, first, last):  # type: ignore[no-untyped-def]
    """The number that some bytes write, -1 where one is not a digit."""
    value = np.int64(0)
    for i in range(first, last):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


def _pieces(source: Source, starts: bytes, size: int, ahead: int) -> Iterator[Bytes]:
    """The rest of a file, cut so that each piece begins with ``starts`` less its line end.

    Memory is used again: a piece is gone when ``ahead`` further ones were asked for.
    """
    rooms = deque(bytearray(size) for _ in range(ahead))
    room, filled = rooms.popleft(), 0
    while got := source.fill(memoryview(room)[filled:]):
        filled += got
        cut = room.rfind(starts, 0, filled) + 1
        if cut > 0:
            rest = memoryview(room)[cut:filled]
            following = rooms.popleft()
            if len(following) <= len(rest):
                following = bytearray(2 * len(rest))
            following[: len(rest)] = rest
            yield np.frombuffer(room, np.uint8, cut)
            rooms.append(room)
            room, filled = following, len(rest)
        elif filled > max(LONGEST, size):
            raise InputError(
                f"{source.name}: no new record begins in {filled:,} bytes. This is not a file of records: check that "
                f"it is the right one."
            )
        elif filled == len(room):
            room = room + bytes(filled)
    if filled:
        yield np.frombuffer(room, np.uint8, filled)


def _merged(tallies: list[Tally]) -> Tally:
    key = np.concatenate([tally.key for tally in tallies])
    count = np.concatenate([tally.count for tally in tallies])
    if len(key) == 0:
        return Tally(key=key, count=count)
    order = np.argsort(key, kind="stable")  # nearly sorted as a rule, where this is fast
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return Tally(key=key[first], count=np.add.reduceat(count[order], first))


def _refuse_unlike_text(path: Path, start: bytes) -> None:
    if not start:
        raise InputError(f"{path}: the file is empty. Fetch it again, or name another.")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path}: the file is UTF-16, not plain text. Save it as ASCII or UTF-8.")
    if b"\0" in start:
        raise InputError(f"{path}: the file is binary, not text. Name the text file, plain or gzip.")
