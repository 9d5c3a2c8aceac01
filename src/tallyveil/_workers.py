"""Threads for work that releases the interpreter lock: kernels, and the encoding of tables."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from tallyveil._memory import near_limit, turn

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextmanager
def workers(threads: int | None = None) -> Iterator[Run]:
    """A ``map`` that runs on threads, all cores by default; waiting work is dropped when something goes wrong."""
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return pool.map(partial(_in_turn, function), items)

    try:
        yield run
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
            while len(waiting) > (0 if near_limit() else count):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield run
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_turn(function: Callable[[Any], Any], item: Any) -> Any:
    with turn():
        return function(item)
