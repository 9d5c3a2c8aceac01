"""A section of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from tallyveil.report.exhibit import Exhibit


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A heading, words, and exhibits."""

    key: str
    title: str
    words: Sequence[str] = ()
    exhibits: Sequence[Exhibit] = ()
