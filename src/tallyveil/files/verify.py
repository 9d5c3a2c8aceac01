"""Check a release's folder again: sums, bounds, invariants, budget, certificate. Needs nothing but the folder.

Each check ends in a finding. What a check cannot see, because the folder does not hold it, is said to be unchecked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.files.checks import CHECKS, BrokenError, ReadRelease, UncheckedError
from tallyveil.files.codebook import read_codebook
from tallyveil.files.columns import batches
from tallyveil.files.geography import read_units
from tallyveil.files.release_folder import read_certificate, read_folder_facilities
from tallyveil.files.tables import read_counts
from tallyveil.histogram import Histogram
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import read_strategy
from tallyveil.spine import Spine

State = Literal["holds", "fails", "unchecked"]
FILES = ("release.parquet", "spine.parquet", "codebook.toml", "strategy.toml", "certificate.json", "levels")
OPTIONAL = ("certificate.html", "facilities.parquet", "measurements")  # besides them, nothing belongs to a release
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found."""

    check: str
    state: State
    detail: str

    def as_json(self) -> dict[str, str]:
        """The finding under its JSON keys."""
        return asdict(self)


def verify_release(folder: str | PathLike[str]) -> list[Finding]:
    """Check a release's folder; where its counts or its strategy cannot be read, what needs them is not checked."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place}: no such folder. Give the folder of a release.")
    findings = _Findings(place)
    findings.check("files", lambda: (_check_files(place), None))
    strategy = findings.check("shares", lambda: _read_strategy(place))
    spine = findings.check("spine", lambda: _read_spine(place))
    people = findings.check("counts", lambda: _read_people(place, spine))
    certificate = findings.check("certificate", lambda: ("can be read", read_certificate(place)))
    if strategy is None or people is None:
        return findings.found
    if findings.check("strategy", lambda: _check_strategy(strategy, people)) is None:
        return findings.found
    facilities = findings.check("facilities", lambda: _read_facilities(place, strategy, people))
    release = ReadRelease(place, strategy, people, certificate or {}, facilities)
    for name, work in CHECKS.items():
        findings.check(name, lambda work=work: (work(release), None))  # type: ignore[misc]
    return findings.found


class _Findings:
    """Findings so far."""

    def __init__(self, place: Path) -> None:
        self.found: list[Finding] = []
        self._place = place

    def check(self, name: str, work: Callable[[], tuple[str, T]]) -> T | None:
        """Make a check, which gives a word on what holds and what it read."""
        result, state = None, "holds"
        try:
            detail, result = work()
        except UncheckedError as reason:
            state, detail = "unchecked", str(reason)
        except (BrokenError, InputError) as problem:
            state, detail = "fails", str(problem).replace(f"{self._place}/", "")
        self.found.append(Finding(check=name, state=state, detail=detail))  # type: ignore[arg-type]
        return result


def _check_files(place: Path) -> str:
    missing = [name for name in FILES if not (place / name).exists()]
    if missing:
        raise BrokenError(f"missing: {', '.join(missing)}")
    known = {*FILES, *OPTIONAL}
    others = sorted(path.name for path in place.iterdir() if path.name not in known)
    return f"all there; not of a release: {', '.join(others)}" if others else "all there"


def _read_strategy(place: Path) -> tuple[str, Strategy]:
    strategy = read_strategy(place / "strategy.toml")  # shares that do not sum to one are refused
    return f"of {len(strategy.levels)} levels and of their queries sum to 1", strategy


def _read_spine(place: Path) -> tuple[str, Spine]:
    spine = read_units(place / "spine.parquet", read_codebook(place / "codebook.toml"))
    return ", ".join(f"{level} {spine.size(level):,}" for level in spine.levels), spine


def _read_people(place: Path, spine: Spine | None) -> tuple[str, Histogram]:
    """Counts that are negative, not whole, of unknown units or labels, or in impossible cells are refused."""
    if spine is None:
        raise UncheckedError("the spine cannot be read")
    path = place / "release.parquet"
    people = read_counts(path, read_codebook(place / "codebook.toml"), units=spine)
    for batch in batches(path):
        empty = np.flatnonzero(batch.counts("count") == 0)
        if len(empty):
            raise BrokenError(f"{batch.place(int(empty[0]), 'count')}: 0, but a release has non-zero rows only")
    return f"{people.leaves.entries:,} counts, whole and above 0, {people.total():,} persons", people


def _check_strategy(strategy: Strategy, people: Histogram) -> tuple[str, bool]:
    strategy.check(people.spine, people.schema)
    return "fits the levels and attributes of the release", True


def _read_facilities(place: Path, strategy: Strategy, people: Histogram) -> tuple[str, Facilities | None]:
    bounds = [c for c in strategy.constraints if isinstance(c, FacilityBounds)]
    facilities = read_folder_facilities(place, strategy, people.spine, people.schema)
    if facilities is None:
        if bounds:
            raise BrokenError("facilities.parquet is missing, though the strategy has bounds from facilities")
        return "none needed", None
    return f"{facilities.leaves.total():,} facilities", facilities
