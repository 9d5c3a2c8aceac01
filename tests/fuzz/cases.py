"""All kinds of fuzz cases, and which of them a number is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import kinds
import run_kinds
from outcomes import Refused

KINDS: dict[str, Callable[[Random, Path], None]] = {
    "readers": kinds.readers, "toml": kinds.toml, "numbers": kinds.numbers, "engine": kinds.engine,
    "folders": kinds.folders, "resumed": run_kinds.resumed, "estimates": run_kinds.estimates,
    "ledgers": run_kinds.ledgers, "keys": run_kinds.keys, "drafts": run_kinds.drafts, "flags": run_kinds.flags,
}  # fmt: skip
SHARES = {
    "readers": 8, "toml": 5, "numbers": 2, "engine": 3, "folders": 2, "resumed": 2, "estimates": 1, "ledgers": 1,
    "keys": 1, "drafts": 3, "flags": 2,
}  # fmt: skip


def kind_of(number: int) -> str:
    """The kind of the case with a number; kinds take turns by their shares."""
    turns = [name for name, share in SHARES.items() for _ in range(share)]
    return turns[number % len(turns)]


def run(number: int, folder: Path, kind: str | None = None) -> bool:
    """Run a case. True if the input was accepted, False if it was refused; anything else is an exception."""
    with contextlib.suppress(Refused):
        KINDS[kind or kind_of(number)](Random(number), folder)
        return True
    return False
