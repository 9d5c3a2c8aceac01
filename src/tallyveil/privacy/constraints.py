"""Constraints that a release must satisfy, declared as data with their source.

The source says whether a constraint uses the confidential counts: ``constant`` (known before any data are seen),
``facilities`` (public counts of households and group quarters) or ``truth`` (an invariant, which is kept exactly and is
outside the privacy guarantee).

Each kind has ``words`` (its description in the certificate), ``as_toml``, and ``check``, which refuses a spine or
schema that lacks what the constraint names. Bounds have their own module, :mod:`tallyveil.privacy.bounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from tallyveil._frozen import Frozen
from tallyveil._typed import Name, typed
from tallyveil.errors import StrategyError
from tallyveil.nouns.schema import Schema, as_labels
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.bounds import ALL, UNLIMITED, Bound, pinning, whole_numbers

__all__ = [
    "ALL",
    "UNLIMITED",
    "Bound",
    "Constraint",
    "FacilityBounds",
    "Invariant",
    "StructuralZero",
    "constraint_from_toml",
    "pinning",
]


@final
@dataclass(frozen=True, kw_only=True)
class Invariant:
    """The answer to a query is kept exactly for every unit of a level."""

    query: str
    level: str
    source: ClassVar[str] = "truth"

    def words(self) -> str:
        """Describe the constraint for the certificate."""
        return f"{self.query} is exact for every {self.level}"

    def as_toml(self) -> dict[str, Any]:
        """Return the constraint as a TOML table."""
        return {"invariant": self.query, "level": self.level}

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine that lacks the level, or a schema that lacks the query."""
        spine.depth(self.level)
        schema.query(self.query)


@final
@dataclass(frozen=True, kw_only=True)
class FacilityBounds:
    """In every unit of a level, the people of a type number ``least`` to ``most`` times the facilities of that type.

    A type without facilities therefore has no people. Both ``least`` and ``most`` map types to persons per facility.
    ``"*"`` means all types that are not named; a single number means all types.

    If the facilities of type "household" are occupied housing units (the 1940 rule), ``least`` 1 for that type says
    that every household has a person. If they include vacant units (the 2020 rule), it must be 0.

    Facilities that were counted in the people's own file (``from_people``) are invariants: they are published exactly.
    """

    attribute: str
    level: str
    least: Mapping[str, int]
    most: Mapping[str, int]
    from_people: bool = False

    def __post_init__(self) -> None:
        for name in ("least", "most"):
            object.__setattr__(self, name, Frozen(whole_numbers("facility bounds", name, getattr(self, name))))

    @property
    def source(self) -> str:
        """Where its values come from."""
        return "truth" if self.from_people else "facilities"

    @property
    def pins(self) -> bool:
        """Whether it fixes the number of people of a type, because ``least`` and ``most`` are equal.

        >>> FacilityBounds(attribute="hhgq", level="block", least={"prison": 8}, most={"prison": 8, "*": 99}).pins
        True
        """
        types = dict.fromkeys([*self.least, *self.most, ALL])
        limits = [(self.least.get(t, self.least.get(ALL, 0)), self.most.get(t, self.most.get(ALL))) for t in types]
        return any(least == most and least > 0 for least, most in limits)

    def words(self) -> str:
        """Describe the constraint for the certificate."""
        least, most = (_per_type(table) for table in (self.least, self.most))
        return (
            f"persons by {self.attribute} in every {self.level}: per facility at least ({least}) and at most ({most}); "
            f"nobody where there is no facility"
            f"{'; the facilities are counted in the file of the people, and exact' if self.from_people else ''}"
        )

    def as_toml(self) -> dict[str, Any]:
        """Return the constraint as a TOML table."""
        return {
            "facilities": self.attribute,
            "level": self.level,
            "least": dict(self.least),
            "most": dict(self.most),
            **({"from_people": True} if self.from_people else {}),
        }

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine that lacks the level, or a schema that lacks the attribute or a type."""
        spine.depth(self.level)
        types = dict.fromkeys([*self.least, *self.most])
        _refuse_unknown_labels(schema, self.attribute, [label for label in types if label != ALL])


@final
@dataclass(frozen=True, kw_only=True)
class StructuralZero:
    """A combination of labels that nobody has, in any unit."""

    cells: Mapping[str, tuple[str, ...]]
    source: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        cells = {name: as_labels(name, labels) for name, labels in self.cells.items()}
        if not cells:
            raise StrategyError("a structural zero names no attribute, so nobody could exist. Name labels, or drop it.")
        object.__setattr__(self, "cells", Frozen(cells))

    def words(self) -> str:
        """Describe the constraint for the certificate."""
        together = " and ".join(f"{name} {' or '.join(labels)}" for name, labels in self.cells.items())
        return f"nobody has {together}"

    def as_toml(self) -> dict[str, Any]:
        """Return the constraint as a TOML table."""
        return {"zero": {name: list(labels) for name, labels in self.cells.items()}}

    def check(self, spine: Spine, schema: Schema) -> None:  # noqa: ARG002 (it holds on every spine)
        """Refuse a schema that lacks the attributes or labels."""
        for name, labels in self.cells.items():
            _refuse_unknown_labels(schema, name, labels)


Constraint = Invariant | FacilityBounds | StructuralZero | Bound


_FIELDS: dict[str, Any] = {
    "invariant": Name, "facilities": Name, "bound": Name, "level": Name, "least": Any, "most": Any, "units": Any,
    "zero": Mapping[str, tuple[str, ...]], "from_people": bool,
}  # fmt: skip


def constraint_from_toml(table: Mapping[str, Any]) -> Constraint:
    """Build the constraint that a TOML table declares."""
    keys = set(table)
    if keys <= set(_FIELDS):
        place = "constraint: "
        table = {name: typed(_FIELDS[name], value, place + name, error=StrategyError) for name, value in table.items()}
    if keys == {"invariant", "level"}:
        return Invariant(query=table["invariant"], level=table["level"])
    if keys - {"from_people"} == {"facilities", "level", "least", "most"}:
        return FacilityBounds(**{"attribute" if name == "facilities" else name: of for name, of in table.items()})
    if keys == {"zero"}:
        return StructuralZero(cells=table["zero"])
    if {"bound", "level"} <= keys <= {"bound", "level", "least", "most", "units"}:
        limits = {name: table[name] for name in ("least", "most", "units") if name in table}
        return Bound(query=table["bound"], level=table["level"], **limits)
    raise StrategyError(
        f"constraint with {', '.join(sorted(keys)) or 'no fields'}: not understood. Write one of: invariant + level; "
        f"facilities + level + least + most; zero; bound + level + least or most (+ units)."
    )


def _per_type(table: Mapping[str, int]) -> str:
    """Describe numbers by type; "*" is every type, or every other type."""
    others = "every other type" if len(table) > 1 else "every type"
    return ", ".join(f"{others if name == ALL else name} {number}" for name, number in table.items())


def _refuse_unknown_labels(schema: Schema, attribute: str, labels: Iterable[str]) -> None:
    if attribute not in schema.attributes:
        raise StrategyError(f"unknown attribute {attribute!r}. Known are {', '.join(schema.attributes)}.")
    for label in labels:
        if label not in schema.attributes[attribute]:
            raise StrategyError(
                f"{label!r} is not a label of {attribute!r} ({', '.join(schema.attributes[attribute])})."
            )
