"""What a release must satisfy besides the noise: declared as data, by attribute name, each with its source.

The source says whether a constraint uses the truth: ``constant`` (known before any data), ``facilities`` (public counts
of households and group quarters) or ``truth`` (an invariant: kept exactly, and outside the privacy guarantee).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from tallyveil._frozen import Frozen
from tallyveil.errors import InputError

ALL = "*"  # every type not named


@final
@dataclass(frozen=True, kw_only=True)
class Invariant:
    """A query's answer is kept exactly for every unit of a level."""

    query: str
    level: str
    source: ClassVar[str] = "truth"

    def words(self) -> str:
        """The constraint as a sentence for the certificate."""
        return f"{self.query} is exact for every {self.level}"

    def as_toml(self) -> dict[str, Any]:
        """The constraint as a TOML table."""
        return {"invariant": self.query, "level": self.level}


@final
@dataclass(frozen=True, kw_only=True)
class FacilityBounds:
    """People of a type lie between ``least`` and ``most`` times the facilities of that type, in every unit of a level.

    So a type without facilities has nobody. Both map types to persons per facility; ``"*"`` stands for all others.
    """

    attribute: str
    level: str
    least: Mapping[str, int]
    most: Mapping[str, int]
    source: ClassVar[str] = "facilities"

    def __post_init__(self) -> None:
        for name in ("least", "most"):
            given = getattr(self, name)
            table = {ALL: given} if isinstance(given, int) else dict(given)
            if any(not isinstance(value, int) or value < 0 for value in table.values()):
                raise InputError(f"facility bounds: {name} must be whole numbers, 0 or more. Got {table}.")
            object.__setattr__(self, name, Frozen(table))

    def words(self) -> str:
        """The constraint as a sentence for the certificate."""
        least, most = (", ".join(f"{k} {v}" for k, v in table.items()) for table in (self.least, self.most))
        return (
            f"persons by {self.attribute} in every {self.level}: per facility at least ({least}) and at most ({most}); "
            f"nobody where there is no facility"
        )

    def as_toml(self) -> dict[str, Any]:
        """The constraint as a TOML table."""
        return {
            "facilities": self.attribute,
            "level": self.level,
            "least": dict(self.least),
            "most": dict(self.most),
        }


@final
@dataclass(frozen=True, kw_only=True)
class StructuralZero:
    """Nobody has these labels together, anywhere."""

    cells: Mapping[str, tuple[str, ...]]
    source: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        cells = {name: tuple(labels) for name, labels in self.cells.items()}
        object.__setattr__(self, "cells", Frozen(cells))

    def words(self) -> str:
        """The constraint as a sentence for the certificate."""
        together = " and ".join(f"{name} {' or '.join(labels)}" for name, labels in self.cells.items())
        return f"nobody has {together}"

    def as_toml(self) -> dict[str, Any]:
        """The constraint as a TOML table."""
        return {"zero": {name: list(labels) for name, labels in self.cells.items()}}


Constraint = Invariant | FacilityBounds | StructuralZero


def constraint_from_toml(table: Mapping[str, Any]) -> Constraint:
    """The constraint that a TOML table declares."""
    keys = set(table)
    if keys == {"invariant", "level"}:
        return Invariant(query=table["invariant"], level=table["level"])
    if keys == {"facilities", "level", "least", "most"}:
        return FacilityBounds(
            attribute=table["facilities"], level=table["level"], least=table["least"], most=table["most"]
        )
    if keys == {"zero"}:
        return StructuralZero(cells=table["zero"])
    raise InputError(
        f"constraint with {', '.join(sorted(keys)) or 'no fields'}: not understood. Write one of: invariant + level; "
        f"facilities + level + least + most; zero."
    )
