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
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # a dictionary
