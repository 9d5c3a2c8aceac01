r"""The random words of a stream, by place.

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
"""

from __future__ import annotations

from collections.abc import Iterator
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


class Secret:
    """A value that must not leave the process by accident."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: secret>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} is secret and cannot be pickled or copied. Derive it where it is used."
        )


@final
class Stream(Secret):
    """The random words of one measurement, by place."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise InputError(f"a stream key must have 32 bytes. Got {len(key)} instead.")
        self._key = np.frombuffer(key, dtype="<u4")

    def identifier(self, replicate: int) -> str:
        """Return the public name of the measurement, equal only for the same stream and replicate.

        It is derived from the stream's key by a one-way function (HKDF) under a label of its own. Without the key of
        the run it cannot be told from random digits, so it reveals nothing about the key, the noise or the people.
        """
        label = b"tallyveil measurement" + replicate.to_bytes(4, "little")
        return HKDF(algorithm=SHA256(), length=16, salt=None, info=label).derive(self._key.tobytes()).hex()

    def travelling_key(self) -> bytes:
        """Return the key, for work on this measurement in another process. Anyone who has it can remove its noise."""
        return self._key.tobytes()

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
        end = done
        while end < len(index) and end - done < 8 * room:
            block = index[end] >> 3
            if block != last or replicate[end] != nonce1[made - 1]:
                if made == room:
                    break
                counter[made] = uint32(block & 0xFFFFFFFF)
                nonce0[made] = uint32(block >> 32)
                nonce1[made] = replicate[end]
                made += 1
                last = block
            place[end - done] = made - 1
            end += 1
        keystream(key, counter[:made], nonce0[:made], nonce1[:made], tag, blocks)
        for i in range(done, end):
            j = 2 * (index[i] & 7)
            block = place[i - done]
            out[i] = uint64(blocks[block, j]) | (uint64(blocks[block, j + 1]) << uint64(32))
        done = end
