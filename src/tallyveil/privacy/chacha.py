"""The ChaCha20 stream of RFC 8439 with random access to its 64-byte blocks.

The cryptography library produces long runs of this stream, but noise for selected cells needs millions of scattered
blocks, and one call per block costs two hundred times as much as the block itself. This module therefore implements the
block function, for sixteen blocks at a time so that vector instructions apply. It is tested against RFC 8439 and
against the library. ChaCha20 only adds, rotates and xors, so its running time does not depend on the key.
"""

import numpy as np
from numba import uint32

from tallyveil._compiled import compiled, fused

_SIDE = 16  # blocks that are computed at the same time
_SIGMA = np.frombuffer(b"expand 32-byte k", dtype="<u4")


@fused
def _rotated(x, by):  # type: ignore[no-untyped-def]
    return uint32(uint32(uint32(x) << uint32(by)) | uint32(uint32(x) >> uint32(32 - by)))


@fused
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    """RFC 8439, section 2.1."""
    a = uint32(a + b)
    d = _rotated(d ^ a, 16)
    c = uint32(c + d)
    b = _rotated(b ^ c, 12)
    a = uint32(a + b)
    d = _rotated(d ^ a, 8)
    c = uint32(c + d)
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@fused
def _double_round(s):  # type: ignore[no-untyped-def]
    """RFC 8439, section 2.3: four columns, then four diagonals, for all blocks at the same time."""
    for i in range(_SIDE):
        a0, a1, a2, a3 = s[0, i], s[1, i], s[2, i], s[3, i]
        b0, b1, b2, b3 = s[4, i], s[5, i], s[6, i], s[7, i]
        c0, c1, c2, c3 = s[8, i], s[9, i], s[10, i], s[11, i]
        d0, d1, d2, d3 = s[12, i], s[13, i], s[14, i], s[15, i]
        a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
        a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
        a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
        a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
        a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
        s[0, i], s[1, i], s[2, i], s[3, i] = a0, a1, a2, a3
        s[4, i], s[5, i], s[6, i], s[7, i] = b0, b1, b2, b3
        s[8, i], s[9, i], s[10, i], s[11, i] = c0, c1, c2, c3
        s[12, i], s[13, i], s[14, i], s[15, i] = d0, d1, d2, d3


@compiled
def keystream(key, counter, nonce0, nonce1, nonce2, out):  # type: ignore[no-untyped-def]
    """Write block ``i`` of the stream, sixteen 32-bit words, to ``out[i]``.

    ``key`` holds eight words. ``counter`` and the first two nonce words are given per block, the third once.
    """
    first = np.empty((16, _SIDE), np.uint32)
    state = np.empty((16, _SIDE), np.uint32)
    for i in range(_SIDE):
        for j in range(4):
            first[j, i] = _SIGMA[j]
        for j in range(8):
            first[4 + j, i] = key[j]
        first[15, i] = nonce2
    blocks = len(counter)
    for base in range(0, blocks, _SIDE):
        many = min(_SIDE, blocks - base)
        for i in range(many):
            first[12, i] = counter[base + i]
            first[13, i] = nonce0[base + i]
            first[14, i] = nonce1[base + i]
        for j in range(16):
            for i in range(_SIDE):
                state[j, i] = first[j, i]
        for _ in range(10):
            _double_round(state)
        for i in range(many):
            for j in range(16):
                out[base + i, j] = uint32(state[j, i] + first[j, i])
