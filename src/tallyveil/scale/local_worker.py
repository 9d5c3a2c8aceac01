"""Loaded by Dask into each worker process that runs on this machine for one run (a "preload").

Ctrl-C and a terminal that closes reach every process. The run's own process ends the others.
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(_worker: Any) -> None:
    """Let the run's own process decide when this one ends."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
