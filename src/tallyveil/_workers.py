"""Threads for work that releases the interpreter lock: kernels, and the encoding of tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextmanager
def workers(threads: int | None = None) -> Iterator[Run]:
    """A ``map`` that runs on threads, all cores by default; waiting work is dropped when something goes wrong."""
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
