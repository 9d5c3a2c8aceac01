"""Threads for work that releases the interpreter lock: kernels, and the encoding of tables."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


@contextmanager
def workers_ahead(threads: int | None = None) -> Iterator[Run]:
    """A ``map`` like that of ``workers`` that takes items only a few ahead of the results, so that few are held."""
    count = threads or os.cpu_count() or 1
    pool = ThreadPoolExecutor(count)

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield run
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
