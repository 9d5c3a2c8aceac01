r"""The source of randomness: the key of a run, the streams derived from it, and the words of a stream.

A run has one key, from the operating system, a key file or, for research, a seed. Each measurement has its own stream,
whose key is derived (HKDF) from the key of the run and a keyed digest of what is measured. The same measurement
therefore always gets the same noise, and any other measurement gets independent noise.

A stream is an array of 64-bit words, one for each (level, query, replicate, index), and as many further words for each
of these draws as an exact draw may need. ``index`` is ``unit * cells + cell``. The words are taken from ChaCha20 blocks
(RFC 8439). The 128 bits that number a block are laid out so that no two words share a place:

    =========  =====================================  =====================================
    RFC word   first words (part 0)                   further words (part 1, 2, ...)
    =========  =====================================  =====================================
    counter    low 32 bits of index // 8              low 32 bits of index
    nonce 0    high 32 bits of index // 8             high 32 bits of index
    nonce 1    replicate (32 bits)                    the same
    nonce 2    level (8) | query (12) | part (12)     the same
    word       index mod 8, of the block's eight      word 8 (part - 1) + j is number j of the block
    =========  =====================================  =====================================

Security is that of ChaCha20: computational, not information-theoretic. Keys are never printed, stored or pickled.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numba import uint32, uint64
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError, SecretError
from tallyveil.privacy.chacha import keystream

Words = NDArray[np.uint64]
_LEVELS, _QUERIES, _PARTS = 1 << 8, 1 << 12, 1 << 12
LEAST_DISTINCT = 8  # distinct bytes of a key; a key with fewer was typed by hand, not generated


class _Secret:
    """A value that must not leave the process by accident."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: secret>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} is secret and cannot be pickled or copied. Derive it where it is used."
        )


@final
class RunKey(_Secret):
    """The key of a run. Anyone who has it can remove the noise.

    >>> RunKey.from_system()
    <RunKey: secret>
    """

    __slots__ = ("_bytes", "_file", "seeded")

    def __init__(self, key: bytes, *, seeded: bool = False, file: Path | None = None) -> None:
        if len(key) != 32:
            raise InputError(f"a run key must have 32 bytes. Got {len(key)} instead.")
        if len(set(key)) < LEAST_DISTINCT:  # of random keys, fewer than one in 10^24
            raise InputError(
                f"a run key with {len(set(key))} distinct bytes is not random. Name a new key file to create one."
            )
        self._bytes, self._file, self.seeded = key, file, seeded

    @property
    def repeatable(self) -> bool:
        """Whether the key can be used again, because it is in a file or comes from a seed."""
        return self.seeded or self._file is not None

    @classmethod
    def from_system(cls) -> RunKey:
        """Return a new key from the random generator of the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_seed(cls, seed: int) -> RunKey:
        """Derive a key from a seed, as anyone who knows the seed can: for research, never for publication."""
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"a seed is a whole number, 0 or more. Got {seed!r}.")
        return cls(_derived(str(seed).encode(), b"tallyveil seed"), seeded=True)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> RunKey:
        """Read the key from a file with mode 0600 (readable by its owner only). A missing file gets a new key."""
        file = Path(path)
        if not file.exists():
            _write_new(file, secrets.token_bytes(32).hex() + "\n")
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            raise InputError(f"{file}: others may read this key file (mode {mode:04o}). Run: chmod 600 {file}")
        try:
            key = bytes.fromhex(file.read_text().strip())
        except (ValueError, UnicodeDecodeError):
            key = b""
        if len(key) != 32:
            raise InputError(f"{file}: not a key file (64 hexadecimal digits). Name a new file to make one.")
        try:
            return cls(key, file=file)
        except InputError as problem:
            raise problem.located(file) from None

    def people(self, counted: Iterable[bytes]) -> bytes:
        """Return the keyed digest of the measured people. A key file is bound to the first people it is used on.

        The same people always get the same noise. A key used on two versions of a dataset would therefore reveal
        exactly whether any record changed: either all noise is the same, or none is. For this reason a key file belongs
        to one set of people. A digest of them, which reveals nothing without the key, is stored next to it
        (``<key file>.bound``), and any other people are refused.
        """
        digest = _digest(_derived(self._bytes, b"tallyveil digest"), counted)
        if self._file is not None:
            self._bind(self._file, hmac.digest(_derived(self._bytes, b"tallyveil bound"), digest, "sha256").hex())
        return digest

    def _bind(self, file: Path, bound: str) -> None:
        file = file.resolve()  # a key has one binding, whichever link names it
        beside = file.with_name(f"{file.name}.bound")
        if not beside.exists():
            _write_new(beside, f"{bound}\n")
        known = beside.read_text(errors="replace").strip()
        if not hmac.compare_digest(known.encode(), bound.encode()):
            raise InputError(
                f"{file}: this key was first used on other people or another list of units or filter (see "
                f"{beside.name}). Used on two versions of the data, it would reveal exactly whether a record changed. "
                f"Name a new key file: the release then costs its own budget."
            )

    def stream(self, measured: Iterable[bytes]) -> Stream:
        """Return the stream of a measurement, which is identified by pieces of bytes (see ``_digest``)."""
        digest = _digest(_derived(self._bytes, b"tallyveil digest"), measured)
        return Stream(_derived(self._bytes, b"tallyveil stream" + digest))


@final
class Stream(_Secret):
    """The random words of one measurement, by place."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise InputError(f"a stream key must have 32 bytes. Got {len(key)} instead.")
        self._key = np.frombuffer(key, dtype="<u4")

    def words(self, index: Integers, *, level: int, query: int, replicate: Integers) -> Words:
        """Return the first word of each draw. ``replicate`` has one item for each item of ``index``."""
        out = np.empty(len(index), dtype=np.uint64)
        _first_words(self._key, index, _replicates(replicate), _tag(level, query, 0), out)
        return out

    def further_words(self, index: Integers, *, level: int, query: int, replicate: Integers, part: int = 1) -> Words:
        """Return eight further words of each draw: words 8 (part - 1) + 1 to 8 part."""
        place = index.astype(np.uint64)
        low, high = place.astype(np.uint32), (place >> np.uint64(32)).astype(np.uint32)
        out = np.empty((len(index), 16), dtype=np.uint32)
        keystream(self._key, low, high, _replicates(replicate), _tag(level, query, part), out)
        return out.astype("<u4", copy=False).view("<u8").astype(np.uint64, copy=False)

    def draw_words(self, index: int, *, level: int, query: int, replicate: int) -> Iterator[int]:
        """Yield all words of one draw."""
        i, r = np.array([index], dtype=np.int64), np.array([replicate], dtype=np.int64)
        yield int(self.words(i, level=level, query=query, replicate=r)[0])
        for part in range(1, _PARTS):
            yield from map(int, self.further_words(i, level=level, query=query, replicate=r, part=part)[0])
        raise AssertionError("a draw used 32,760 words: the stream is broken")  # probability below 2^-1000


def check_place(*, level: int, query: int, replicate: int) -> None:
    """Refuse numbers for which a stream has no place."""
    _tag(level, query, 0)
    _replicates(np.array([replicate], dtype=np.int64))


def _digest(key: bytes, pieces: Iterable[bytes]) -> bytes:
    """Return the keyed digest of pieces of bytes. It depends on where a piece ends, not only on their concatenation."""
    digest = hmac.new(key, digestmod=sha256)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.digest()


def _write_new(path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all. An existing file is kept."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        with suppress(FileExistsError):
            _name(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _name(temporary: str, path: Path) -> None:
    """Give a finished file its name unless that is taken; rename it if the file system has no hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(temporary, path)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _replicates(replicate: Integers) -> NDArray[np.uint32]:
    """Return the second nonce word."""
    if len(replicate) and not (replicate.min() >= 0 and replicate.max() < 1 << 32):
        raise InputError(
            f"the number of a replicate must be 0 to {(1 << 32) - 1:,}. Got {replicate.min()} to {replicate.max()}."
        )
    return replicate.astype(np.uint32)


def _tag(level: int, query: int, part: int) -> np.uint32:
    """Return the third nonce word."""
    for name, value, limit in (("level", level, _LEVELS), ("query", query, _QUERIES), ("part", part, _PARTS)):
        if not 0 <= value < limit:
            raise InputError(f"the number of a {name} must be 0 to {limit - 1:,}. Got {value:,} instead.")
    return np.uint32(level << 24 | query << 12 | part)


@compiled
def _first_words(key, index, replicate, tag, out):  # type: ignore[no-untyped-def]
    """Gather the words of part 0, computing each block once for a run of draws that share it."""
    room = 256
    counter = np.empty(room, np.uint32)
    nonce0 = np.empty(room, np.uint32)
    nonce1 = np.empty(room, np.uint32)
    blocks = np.empty((room, 16), np.uint32)
    place = np.empty(8 * room, np.int64)
    done = 0
    while done < len(index):
        made = 0
        last = np.int64(-1)
        at = done
        while at < len(index) and at - done < 8 * room:
            block = index[at] >> 3
            if block != last or replicate[at] != nonce1[made - 1]:
                if made == room:
                    break
                counter[made] = uint32(block & 0xFFFFFFFF)
                nonce0[made] = uint32(block >> 32)
                nonce1[made] = replicate[at]
                made += 1
                last = block
            place[at - done] = made - 1
            at += 1
        keystream(key, counter[:made], nonce0[:made], nonce1[:made], tag, blocks)
        for i in range(done, at):
            j = 2 * (index[i] & 7)
            block = place[i - done]
            out[i] = uint64(blocks[block, j]) | (uint64(blocks[block, j + 1]) << uint64(32))
        done = at
