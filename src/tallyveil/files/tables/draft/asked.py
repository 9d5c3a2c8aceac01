"""What the user says about a table beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user says about a table."""

    levels: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    count: str | None = None
    persons: bool = False  # one row is one person
    encoding: str | None = None  # of a text file
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # a dictionary
