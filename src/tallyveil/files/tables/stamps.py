"""Stamps as plain text, for formats without a field for them: lines of a header, or of a file beside the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tallyveil.errors import DataError
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.sentences import FILTERED

STAMPS = "STAMPS.txt"
STAMPED = "Stamped: "


def all_stamps(*parts: Histogram) -> tuple[str, ...]:
    """The distinct stamps of all parts, and one for filters that are not public."""
    filtered = any(part.filter is not None and not part.filter.public for part in parts)
    return tuple(
        dict.fromkeys([*(stamp for part in parts for stamp in part.stamps), *([FILTERED] if filtered else [])])
    )


def stamp_lines(*parts: Histogram) -> list[str]:
    """A line for each stamp of the parts, and one for each filter: which rows were counted.

    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1"]}, root="town")
    >>> one = Histogram.from_entries(spine, Schema(attributes={"age": ["child"]}), unit=[0], cell=[0], count=[1])
    >>> stamp_lines(replace(one, stamps=("seeded: not for publication",)), one)
    ['Stamped: seeded: not for publication']
    """
    filters = dict.fromkeys(part.filter.words() for part in parts if part.filter is not None)
    lines = [*(f"{STAMPED}{stamp}" for stamp in all_stamps(*parts)), *(f"Filter: {words}" for words in filters)]
    return [" ".join(line.split()) for line in lines]  # a stamp is one line, even if its text has line breaks


def stamps_in(lines: Iterable[str]) -> tuple[str, ...]:
    """The stamps among lines of text."""
    stamps = (line.strip().removeprefix(STAMPED) for line in lines if line.strip().startswith(STAMPED))
    return tuple(dict.fromkeys(stamps))


def read_stamps(path: Path) -> tuple[str, ...]:
    """The stamps in a file beside the data; none if the file does not exist."""
    try:
        return stamps_in(path.read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read as text ({problem}). Correct it, or remove it.") from None


def stamped(part: Histogram, stamps: Iterable[str]) -> Histogram:
    """The same counts with further stamps."""
    return replace(part, stamps=tuple(dict.fromkeys([*part.stamps, *stamps])))
