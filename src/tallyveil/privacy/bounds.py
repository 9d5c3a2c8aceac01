"""Bounds on the rows of a query that are known before any data are seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar, final

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import StrategyError, UnknownUnitError
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema, factors_of, row_label
from tallyveil.nouns.spine import Spine

ALL = "*"  # every type or row that is not named
UNLIMITED = 1 << 60  # an upper bound that never binds


@final
@dataclass(frozen=True, kw_only=True)
class Bound:
    """Bounds on rows of a query's answer: whole numbers known before any data are seen. Equal bounds fix a row.

    Attributes
    ----------
    query, level
        The query that is bounded, and the level of the units for which it is.
    least, most
        The bound of each row. A row is written as its labels, in the order in which the query names the factors:
        ``"adult*hispanic"``. ``"*"`` means all rows that are not named; a single number means all rows.
    units
        Codes of the units for which it holds. An empty tuple means all units of the level.

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
            table = whole_numbers(what, name, getattr(self, name))
            rows = {row.replace(" * ", "*"): value for row, value in table.items()}
            if len(rows) != len(table):
                raise StrategyError(f"{what}: {name} names a row twice ({', '.join(table)}). Name each row once.")
            object.__setattr__(self, name, Frozen(rows))
        if not self.least and not self.most:
            raise StrategyError(f"{what} has neither least nor most. Give one of them.")
        for row in self._rows():
            least, most = self._limits_of(row)
            if least > most:
                raise StrategyError(f"{what}: row {row!r} has least {least}, above most {most}. Correct one of them.")
        if not isinstance(self.units, list | tuple) or not all(isinstance(code, str) for code in self.units):
            raise StrategyError(
                f'{what}: units must be a list of codes as text, such as ["44001"]. Got {self.units!r}.'
            )
        object.__setattr__(self, "units", tuple(dict.fromkeys(self.units)))

    @property
    def pins(self) -> bool:
        """Whether it fixes the value of a row. If so, it is equivalent to an invariant and is declared as one.

        A row that is zero in every unit of the level is an exception, because that is equivalent to a structural zero.
        A row that is zero only in some units is pinned.

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
        """Describe the constraint for the certificate."""
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
        """Return the constraint as a TOML table."""
        table: dict[str, Any] = {"bound": self.query, "level": self.level}
        table |= {name: dict(rows) for name, rows in (("least", self.least), ("most", self.most)) if rows}
        return table | ({"units": list(self.units)} if self.units else {})

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine that lacks the level or a unit, or a schema that lacks the query or a row."""
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
        """Return the least and most of each row, in the order of the query's rows; no most means ``UNLIMITED``."""
        asked = schema.query(self.query)
        written = asked.factors if self.query.strip() == DETAILED else factors_of(self.query)
        by_factor = (dict(zip(asked.factors, row, strict=True)) for row in product(*asked.row_labels))
        rows = [row_label([labels[factor] for factor in written]) if written else TOTAL for labels in by_factor]
        for row in self._rows():
            if row != ALL and row not in rows:
                some = ", ".join(rows[:4]) + (", ..." if len(rows) > 4 else "")
                raise StrategyError(f"{row!r} is not a row of {self.query!r} ({some}). Correct it.")
        least, most = np.array([self._limits_of(row) for row in rows], dtype=np.int64).T
        return least, most

    def _rows(self) -> list[str]:
        """Return the rows that are named, with "*" last if it is one of them."""
        return sorted(dict.fromkeys([*self.least, *self.most]), key=lambda row: row == ALL)

    def _limits_of(self, row: str) -> tuple[int, int]:
        return self.least.get(row, self.least.get(ALL, 0)), self.most.get(row, self.most.get(ALL, UNLIMITED))


def pinning(constraints: Iterable[object], schema: Schema) -> tuple[Bound, ...]:
    """Return the bounds that fix a value, alone (``Bound.pins``) or with another bound on the other side.

    >>> five = [Bound(query="total", level="county", least=5), Bound(query="total", level="county", most=5)]
    >>> [bound.pins for bound in five], len(pinning(five, Schema(attributes={"age": ["child", "adult"]})))
    ([False, False], 2)
    """
    bounds = [constraint for constraint in constraints if isinstance(constraint, Bound)]
    return tuple(bound for bound in bounds if bound.pins or any(_pin_together(bound, b, schema) for b in bounds))


def _pin_together(one: Bound, other: Bound, schema: Schema) -> bool:
    same = one.level == other.level and schema.query(one.query).name == schema.query(other.query).name
    if not same or (one.units and other.units and not set(one.units) & set(other.units)):
        return False
    (a, b), (c, d) = one.limits(schema), other.limits(schema)
    least, most = np.maximum(a, c), np.minimum(b, d)
    return bool(((least >= most) & (most > 0)).any())  # a zero needs only one bound


def whole_numbers(what: str, name: str, numbers: Any) -> dict[str, int]:
    """Return bounds by type or row. A single number is the bound of all of them."""
    table = dict(numbers) if isinstance(numbers, Mapping) else {ALL: numbers}
    for value in table.values():
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < UNLIMITED:
            raise StrategyError(f"{what}: {name} must be whole numbers, 0 or more and below 2^60. Got {table}.")
    return table
