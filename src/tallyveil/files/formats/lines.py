"""Large text files: read in pieces that begin with a record, processed on threads, and written atomically."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallyveil._compiled import inlined
from tallyveil.errors import DataError, InputError
from tallyveil.files.atomic import replacing

Bytes = NDArray[np.uint8]
J = TypeVar("J")
R = TypeVar("R")

PIECE_BYTES = 8 << 20
LONGEST_RECORD = 1 << 28  # bytes in which a new record must begin


class TextFile:
    """A text file opened for reading, plain or gzip; a failure raises a DataError."""

    def __init__(self, path: Path, raw: BufferedReader, stream: BufferedReader | gzip.GzipFile) -> None:
        self.path, self.name, self._raw, self._stream = path, path.name, raw, stream
        self.size = os.fstat(raw.fileno()).st_size

    def fill(self, room: memoryview) -> int:
        """Fill a buffer; returns the number of bytes, 0 at the end of the file."""
        return self._attempt(lambda: self._stream.readinto(room))

    def peek(self) -> bytes:
        """The next bytes, without consuming them."""
        return self._attempt(lambda: self._stream.peek(4096))

    def readline(self) -> bytes:
        """One line, including its line end."""
        return self._attempt(lambda: self._stream.readline(1 << 20))

    def position(self) -> int:
        """How many bytes of the file on disk were read."""
        return self._raw.tell()

    def _attempt(self, read: Callable[[], R]) -> R:
        try:
            return read()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{self.path}: the gzip file is damaged ({error}). Fetch it again.") from None
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror or error}). Check the disk.") from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[TextFile]:
    """Open a text file; gzip is recognised by its first bytes."""
    where = Path(path)
    try:
        raw = open(where, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise DataError(f"{where}: no such file. Check the name and the folder.") from None
    except OSError as error:
        raise DataError(f"{where}: cannot be opened ({error.strerror}). Name a file you may read.") from None
    with raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(raw) if packed else raw as stream:
            source = TextFile(where, raw, stream)
            _refuse_unlike_text(where, source.peek())
            yield source


def pieces(source: TextFile, starts: bytes, *, size: int, ahead: int, begun: bytes = b"") -> Iterator[Bytes]:
    """The bytes ``begun`` and the rest of a file, in pieces that begin with a record.

    A record begins after the line end in ``starts``, with whatever follows it there. Buffers are reused: a piece is
    overwritten once ``ahead`` further pieces were requested.
    """
    size = max(min(size, source.size), len(begun)) + 1  # a small file needs little room
    rooms = deque(bytearray(size) for _ in range(ahead))
    room, filled = rooms.popleft(), len(begun)
    room[:filled] = begun
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
        elif filled > max(LONGEST_RECORD, size):
            raise DataError(
                f"{source.name}: no new record begins in {filled:,} bytes. This is not a file of records: check that "
                f"it is the right one."
            )
        elif filled == len(room):
            room = room + bytes(filled)
    if filled:
        yield np.frombuffer(room, np.uint8, filled)


def in_order(work: Callable[[J], R], jobs: Iterable[J], threads: int) -> Iterator[tuple[J, R]]:
    """Run jobs on threads, a few ahead, and yield each job with its result, in the order of the jobs."""
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


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which appears complete or not at all; compressed if its name ends in ``.gz``."""
    with replacing(path) as temporary, open(temporary, "wb") as raw:
        if Path(path).suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield raw


def quoted(value: bytes) -> str:
    """Bytes of a file as text for a message."""
    return ascii(value.decode("latin-1"))


@inlined
def put_digits(out, at, size, value):  # type: ignore[no-untyped-def]
    """Write a number with ``size`` digits."""
    for i in range(at + size - 1, at - 1, -1):
        out[i] = 48 + value % 10
        value //= 10


def _refuse_unlike_text(path: Path, start: bytes) -> None:
    if not start:
        raise DataError(f"{path}: the file is empty. Fetch it again, or name another.")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path}: the file is UTF-16, not plain text. Save it as ASCII or UTF-8.")
    if b"\0" in start:
        raise DataError(f"{path}: the file is binary, not text. Name the text file, plain or gzip.")
