"""The certificate of a release: what was declared before any data were seen, and what was observed while solving.

``declared`` follows from public inputs alone (:mod:`tallyveil.release.declare`). ``observed`` is computed from the
measurements alone, so post-processing of saved measurements gives the same figures. Fields have the names of the keys
in ``certificate.json``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from tallyveil.errors import FolderError
from tallyveil.release.declaration import Declared
from tallyveil.release.solved import Solved
from tallyveil.release.typed_json import json_ready, read_typed

FIELDS = ("declared", "measurement", "observed")
SUMMED = (
    "parents",
    "copied",
    "empty",
    "fast",
    "general",
    "informed",
    "flows",
    "programs",
)  # counts of parents, by path
BOUNDS = ("gap", "distance", "violation")  # infinite where they could not be certified, which JSON writes as null


@final
@dataclass(frozen=True, kw_only=True)
class Observed:
    """How each level was solved.

    >>> observed = Observed(levels=(Solved(level="us", fast=1, gap=1e-9), Solved(level="state", fast=2)))
    >>> observed.totals["fast"], observed.worst["gap"]
    (3, 1e-09)
    """

    levels: tuple[Solved, ...]

    @property
    def totals(self) -> Mapping[str, int]:
        """Sums over the levels: parents by path, relaxed parents, and by how many persons their counts changed."""
        relaxed = [parent for level in self.levels for parent in level.relaxed]
        return {
            **{name: sum(int(getattr(level, name)) for level in self.levels) for name in SUMMED},
            "relaxed": len(relaxed),
            "relaxed_persons": sum(int(parent.amount) for parent in relaxed),
        }

    @property
    def worst(self) -> Mapping[str, float]:
        """The largest value of each bound over the levels."""
        return {name: max((float(getattr(level, name)) for level in self.levels), default=0.0) for name in BOUNDS}

    def to_json(self) -> dict[str, Any]:
        """The observed part under its JSON keys; a bound that could not be certified is null."""
        table: dict[str, Any] = json_ready({**asdict(self), "totals": self.totals, "worst": self.worst})
        for row in (*table["levels"], table["worst"]):
            row |= {name: None for name in BOUNDS if not math.isfinite(row[name])}
        return table

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Observed:
        """The observed part from JSON; totals and worst bounds are computed from the levels."""
        levels = table["levels"]
        if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels):
            raise FolderError("certificate, observed levels: not a list of tables. Copy the folder again.")
        finite = [{**level, **{name: math.inf for name in BOUNDS if level.get(name, 0) is None}} for level in levels]
        return cls(levels=read_typed(tuple[Solved, ...], finite, "observed levels"))


@final
@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was declared before any data were seen, and what was observed while solving.

    ``release.certificate.declared.guarantee.epsilon`` is the guarantee of a release. ``measurement`` identifies the
    measurement that the release was made from: releases that share it cost their budget once.
    """

    declared: Declared
    observed: Observed
    measurement: str | None = None

    def __post_init__(self) -> None:
        check_identifier(self.measurement)

    def to_json(self) -> dict[str, Any]:
        """The certificate under its JSON keys, without the list of files that a folder adds."""
        return {
            "declared": self.declared.to_json(),
            "measurement": self.measurement,
            "observed": self.observed.to_json(),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Certificate:
        """A certificate from JSON; a field that is missing, unknown or has the wrong type is refused."""
        for name in ("declared", "observed"):
            if not isinstance(table.get(name), Mapping):
                raise FolderError(f"the certificate has no {name} part. Copy the folder again.")
        unknown = [name for name in table if name not in FIELDS]
        if unknown:
            raise FolderError(f"the certificate has the unknown field {unknown[0]!r}. Known are {', '.join(FIELDS)}.")
        if "levels" not in table["observed"]:
            raise FolderError("certificate, observed: no levels. Copy the folder again.")
        return cls(
            declared=read_typed(Declared, table["declared"], "declared"),
            observed=Observed.from_json(table["observed"]),
            measurement=read_typed(str | None, table.get("measurement"), "measurement"),
        )


def check_identifier(value: Any) -> None:
    """Refuse what cannot be the identifier of a measurement, or None for an unknown one."""
    if value is not None and not (isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value)):
        raise FolderError(
            f"certificate, measurement: {str(value)[:60]!r} is not an identifier (32 hexadecimal digits). "
            f"Copy the folder again."
        )
