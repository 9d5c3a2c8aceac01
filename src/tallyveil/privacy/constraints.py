"""What a release must satisfy besides the noise: declared as data, by attribute name, each with its source.

The source says whether a constraint uses the truth: ``constant`` (known before any data), ``facilities`` (public counts
of households and group quarters) or ``truth`` (an invariant: kept exactly, and outside the privacy guarantee).

Each kind has ``words`` (a sentence for the certificate), ``as_toml``, and ``check``, which refuses a spine or schema
that lacks what the constraint names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar, final

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import StrategyError, UnknownUnitError
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema, as_labels, factors_of
from tallyveil.nouns.spine import Spine

ALL = "*"  # every type or row not named
UNLIMITED = 1 << 60  # an upper bound that never binds


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

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine without the level, or a schema without the query."""
        spine.depth(self.level)
        schema.query(self.query)


@final
@dataclass(frozen=True, kw_only=True)
class FacilityBounds:
    """People of a type lie between ``least`` and ``most`` times the facilities of that type, in every unit of a level.

    So a type without facilities has nobody. Both map types to persons per facility; ``"*"`` stands for all others, and
    one number for all types.

    Persons >= occupied households: where the facilities of type "household" are occupied housing units, ``least`` 1 for
    that type says so (the 1940 rule). Where they include vacant ones (the 2020 rule), it must be 0.
    """

    attribute: str
    level: str
    least: Mapping[str, int]
    most: Mapping[str, int]
    source: ClassVar[str] = "facilities"

    def __post_init__(self) -> None:
        for name in ("least", "most"):
            object.__setattr__(self, name, Frozen(_whole_numbers("facility bounds", name, getattr(self, name))))

    @property
    def pins(self) -> bool:
        """Whether it fixes how many people of a type there are: as many for each facility as there may be.

        >>> FacilityBounds(attribute="hhgq", level="block", least={"prison": 8}, most={"prison": 8, "*": 99}).pins
        True
        """
        types = dict.fromkeys([*self.least, *self.most, ALL])
        limits = [(self.least.get(t, self.least.get(ALL, 0)), self.most.get(t, self.most.get(ALL))) for t in types]
        return any(least == most and least > 0 for least, most in limits)

    def words(self) -> str:
        """The constraint as a sentence for the certificate."""
        least, most = (_per_type(table) for table in (self.least, self.most))
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

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine without the level, or a schema without the attribute or a type."""
        spine.depth(self.level)
        types = dict.fromkeys([*self.least, *self.most])
        _refuse_unknown_labels(schema, self.attribute, [label for label in types if label != ALL])


@final
@dataclass(frozen=True, kw_only=True)
class StructuralZero:
    """Nobody has these labels together, anywhere."""

    cells: Mapping[str, tuple[str, ...]]
    source: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        cells = {name: as_labels(name, labels) for name, labels in self.cells.items()}
        if not cells:
            raise StrategyError("a structural zero names no attribute, so nobody could exist. Name labels, or drop it.")
        object.__setattr__(self, "cells", Frozen(cells))

    def words(self) -> str:
        """The constraint as a sentence for the certificate."""
        together = " and ".join(f"{name} {' or '.join(labels)}" for name, labels in self.cells.items())
        return f"nobody has {together}"

    def as_toml(self) -> dict[str, Any]:
        """The constraint as a TOML table."""
        return {"zero": {name: list(labels) for name, labels in self.cells.items()}}

    def check(self, spine: Spine, schema: Schema) -> None:  # noqa: ARG002 (it holds on any spine)
        """Refuse a schema without the attributes or labels."""
        for name, labels in self.cells.items():
            _refuse_unknown_labels(schema, name, labels)


@final
@dataclass(frozen=True, kw_only=True)
class Bound:
    """Rows of a query's answer lie between whole numbers that are known before any data; equal ones fix the row.

    Attributes
    ----------
    query, level
        What is bounded, and for the units of which level.
    least, most
        For each row its bound. A row is written as its labels, in the order in which the query names the factors:
        ``"adult*hispanic"``; ``"*"`` stands for all rows not named, and one number for all rows.
    units
        Codes of the units it holds for; none means all of the level.

    Examples
    --------
    >>> bound = Bound(query="age", level="county", least={"adult": 5, "child": 2}, most={"adult": 5}, units=["44001"])
    >>> bound.words()
    'age in county 44001: adult exactly 5, child at least 2'
    >>> bound.limits(Schema(attributes={"age": ["child", "adult"]}))[0].tolist()
    [2, 5]
    """

    query: str
    level: str
    least: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    source: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        what = f"bound on {self.query!r} at level {self.level!r}"
        for name in ("least", "most"):
            table = _whole_numbers(what, name, getattr(self, name))
            rows = {row.replace(" * ", "*"): value for row, value in table.items()}
            if len(rows) != len(table):
                raise StrategyError(f"{what}: {name} names a row twice ({', '.join(table)}). Name each once.")
            object.__setattr__(self, name, Frozen(rows))
        if not self.least and not self.most:
            raise StrategyError(f"{what} has neither least nor most. Give one of them.")
        for row in self._rows():
            least, most = self._limits_of(row)
            if least > most:
                raise StrategyError(f"{what}: row {row!r} has least {least}, above most {most}. Correct one of them.")
        if isinstance(self.units, str) or not all(isinstance(code, str) for code in self.units):
            raise StrategyError(
                f'{what}: units must be a list of codes as text, such as ["44001"]. Got {self.units!r}.'
            )
        object.__setattr__(self, "units", tuple(dict.fromkeys(self.units)))

    @property
    def pins(self) -> bool:
        """Whether it fixes the value of a row: then it is as good as an invariant, and is declared as one.

        A row that is zero in every unit of the level is excepted: that says nothing about any unit, like a structural
        zero. A row that is zero in some units only is pinned.

        >>> Bound(query="age", level="county", least={"adult": 5}, most={"adult": 5}).pins
        True
        >>> Bound(query="age", level="county", most={"adult": 0}).pins
        False
        >>> Bound(query="age", level="county", most={"adult": 0}, units=["44001"]).pins
        True
        """
        limits = [self._limits_of(row) for row in self._rows()]
        return any(least == most and (most > 0 or len(self.units) > 0) for least, most in limits)

    def words(self) -> str:
        """The constraint as a sentence for the certificate."""
        where = f"{self.level} {', '.join(self.units)}" if self.units else f"every {self.level}"
        others = "every other row" if len(self._rows()) > 1 else "every row"
        bounds = []
        for row in self._rows():
            least, most = self._limits_of(row)
            above, below = f"at least {least}" if least else "", f"at most {most}" if most < UNLIMITED else ""
            bound = f"exactly {least}" if least == most else " and ".join(filter(None, (above, below))) or "any number"
            bounds.append(bound if self.query == TOTAL else f"{others if row == ALL else row} {bound}")
        return f"{self.query} in {where}: {', '.join(bounds)}"

    def as_toml(self) -> dict[str, Any]:
        """The constraint as a TOML table."""
        table: dict[str, Any] = {"bound": self.query, "level": self.level}
        table |= {name: dict(rows) for name, rows in (("least", self.least), ("most", self.most)) if rows}
        return table | ({"units": list(self.units)} if self.units else {})

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine without the level or a unit, or a schema without the query or a row."""
        spine.depth(self.level)
        self.limits(schema)
        try:
            spine.locate(self.level, self.units)
        except UnknownUnitError as problem:
            raise StrategyError(
                f"{self.level} {problem.code!r} is not among the {spine.size(self.level):,} units of that level. "
                f"Correct the code."
            ) from None

    def limits(self, schema: Schema) -> tuple[Integers, Integers]:
        """Least and most for each row of the query, in the query's own order; ``UNLIMITED`` where there is no most."""
        asked = schema.query(self.query)
        written = asked.factors if self.query.strip() == DETAILED else factors_of(self.query)
        by_factor = (dict(zip(asked.factors, row, strict=True)) for row in product(*asked.row_labels))
        rows = ["*".join(labels[factor] for factor in written) or TOTAL for labels in by_factor]
        for row in self._rows():
            if row != ALL and row not in rows:
                some = ", ".join(rows[:4]) + (", ..." if len(rows) > 4 else "")
                raise StrategyError(f"{row!r} is not a row of {self.query!r} ({some}). Correct it.")
        least, most = np.array([self._limits_of(row) for row in rows], dtype=np.int64).T
        return least, most

    def _rows(self) -> list[str]:
        """Rows that are named, and "*" last if it is."""
        return sorted(dict.fromkeys([*self.least, *self.most]), key=lambda row: row == ALL)

    def _limits_of(self, row: str) -> tuple[int, int]:
        return self.least.get(row, self.least.get(ALL, 0)), self.most.get(row, self.most.get(ALL, UNLIMITED))


Constraint = Invariant | FacilityBounds | StructuralZero | Bound


def pinning(constraints: Iterable[Constraint], schema: Schema) -> tuple[Bound, ...]:
    """The bounds that pin a value, alone (``Bound.pins``) or two together, one from below and one from above.

    >>> five = [Bound(query="total", level="county", least=5), Bound(query="total", level="county", most=5)]
    >>> [bound.pins for bound in five], len(pinning(five, Schema(attributes={"age": ["child", "adult"]})))
    ([False, False], 2)
    """
    bounds = [one for one in constraints if isinstance(one, Bound)]
    return tuple(one for one in bounds if one.pins or any(_pin_together(one, other, schema) for other in bounds))


def _pin_together(one: Bound, other: Bound, schema: Schema) -> bool:
    same = one.level == other.level and schema.query(one.query).name == schema.query(other.query).name
    if not same or (one.units and other.units and not set(one.units) & set(other.units)):
        return False
    (a, b), (c, d) = one.limits(schema), other.limits(schema)
    least, most = np.maximum(a, c), np.minimum(b, d)
    return bool(((least >= most) & (most > 0)).any())  # zeros are pinned by one bound alone


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
    if {"bound", "level"} <= keys <= {"bound", "level", "least", "most", "units"}:
        given = {name: table[name] for name in ("least", "most", "units") if name in table}
        return Bound(query=table["bound"], level=table["level"], **given)
    raise StrategyError(
        f"constraint with {', '.join(sorted(keys)) or 'no fields'}: not understood. Write one of: invariant + level; "
        f"facilities + level + least + most; zero; bound + level + least or most (+ units)."
    )


def _per_type(table: Mapping[str, int]) -> str:
    """Numbers by type in words; "*" is every type, or every other."""
    others = "every other type" if len(table) > 1 else "every type"
    return ", ".join(f"{others if name == ALL else name} {number}" for name, number in table.items())


def _whole_numbers(what: str, name: str, given: Any) -> dict[str, int]:
    """Bounds by type or row; one number stands for all."""
    table = dict(given) if isinstance(given, Mapping) else {ALL: given}
    for value in table.values():
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < UNLIMITED:
            raise StrategyError(f"{what}: {name} must be whole numbers, 0 or more and below 2^60. Got {table}.")
    return table


def _refuse_unknown_labels(schema: Schema, attribute: str, labels: Iterable[str]) -> None:
    if attribute not in schema.attributes:
        raise StrategyError(f"unknown attribute {attribute!r}. Known are {', '.join(schema.attributes)}.")
    for label in labels:
        if label not in schema.attributes[attribute]:
            raise StrategyError(
                f"{label!r} is not a label of {attribute!r} ({', '.join(schema.attributes[attribute])})."
            )
