"""How kernels are compiled: to machine code on first use, kept on disk, and free of the interpreter lock.

A kernel that Python calls is ``compiled`` (or ``summing``); a kernel that only kernels call is a ``part`` (or a
``summing_part``): it gets no wrapper for Python and no cache file of its own, which saves a tenth of the compiling. A
``leaf`` (or ``summing_leaf``) is a part that allocates nothing and counts no references to arrays, which would take
most of the time of a small kernel that reads them from a named tuple.
"""

from collections.abc import Callable
from typing import Any

import numba

Kernel = Callable[..., Any]

_SUMS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "nnan"}, "error_model": "numpy"}
_PART: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_LEAF: dict[str, Any] = {**_PART, "_nrt": False}  # numba's own name: no reference counts


def compiled(kernel: Kernel) -> Kernel:
    """Compile a kernel. It takes and returns arrays and numbers, and may run on any thread."""
    result: Kernel = numba.njit(nogil=True, cache=True)(kernel)
    return result


def summing(kernel: Kernel) -> Kernel:
    """Compile a kernel that meets no NaN and whose sums may be added in any order: it uses vector instructions."""
    result: Kernel = numba.njit(nogil=True, cache=True, **_SUMS)(kernel)
    return result


def part(kernel: Kernel) -> Kernel:
    """Compile a part of other kernels."""
    result: Kernel = numba.njit(nogil=True, **_PART)(kernel)
    return result


def leaf(kernel: Kernel) -> Kernel:
    """Compile a part of other kernels that allocates nothing."""
    result: Kernel = numba.njit(nogil=True, **_LEAF)(kernel)
    return result


def exact_part(kernel: Kernel) -> Kernel:
    """Compile a part whose sums are added as written. Parts take after their callers, which may be ``summing``."""
    result: Kernel = numba.njit(nogil=True, fastmath=False, **_PART)(kernel)
    return result


def summing_part(kernel: Kernel) -> Kernel:
    """Compile a part of other kernels whose sums may be added in any order."""
    result: Kernel = numba.njit(nogil=True, **_SUMS, **_PART)(kernel)
    return result


def summing_leaf(kernel: Kernel) -> Kernel:
    """Compile a part of other kernels whose sums may be added in any order and that allocates nothing."""
    result: Kernel = numba.njit(nogil=True, **_SUMS, **_LEAF)(kernel)
    return result


def inlined(kernel: Kernel) -> Kernel:
    """Compile a small piece that becomes part of the kernels calling it."""
    result: Kernel = numba.njit(inline="always")(kernel)
    return result


def fused(kernel: Kernel) -> Kernel:
    """Compile a small leaf once, and make it part of the machine code of every kernel that calls it."""
    result: Kernel = numba.njit(nogil=True, forceinline=True, **_LEAF)(kernel)
    return result
