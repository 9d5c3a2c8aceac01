"""The certificate of a release: what was declared before any data were seen, and what was observed while solving.

``declared`` is made from public inputs alone (:mod:`tallyveil.release.declared`). ``observed`` is computed from the
measurements alone, so running post-processing again from saved measurements gives the same figures. The fields bear
the names of the keys in ``certificate.json``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, final, get_args, get_origin, get_type_hints

import numpy as np

from tallyveil._frozen import Frozen
from tallyveil.errors import FolderError
from tallyveil.privacy.guarantee import Account
from tallyveil.release.solved import Solved

SUMMED = ("parents", "copied", "empty", "fast", "general", "flows", "programs")  # counts of parents, by path
BOUNDS = ("gap", "distance", "violation")  # infinite where they could not be certified, which JSON writes as null


@final
@dataclass(frozen=True, kw_only=True)
class Guarantee(Account):
    """The figures of a guarantee, and whom it holds for.

    Attributes
    ----------
    accountant
        ``"pure"`` or ``"zcdp"``.
    words
        The guarantee in one sentence.
    holds_for
        The neighbouring datasets that it covers, in full.
    neighbours, neighbours_in_words
        The strategy's neighbours.
    total
        That the number of people is exact, where neighbours have equally many.
    invariants, constraints
        How many invariants neighbours agree on, and how many constraints they satisfy.
    protection
        What the noise rests on.
    """

    accountant: str
    words: str
    holds_for: str
    neighbours: str
    neighbours_in_words: str
    total: str | None
    invariants: int
    constraints: int
    protection: str


@final
@dataclass(frozen=True, kw_only=True)
class LevelBudget:
    """A level's share of the budget as a fraction, and what it amounts to in epsilon or rho."""

    level: str
    share: str
    epsilon: float | None = None
    rho: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class QueryBudget:
    """A measurement's share of the budget, and its noise: distribution, parameter and standard deviation."""

    level: str
    query: str
    share: str
    epsilon: float | None = None
    rho: float | None = None
    noise: str
    parameter: str
    sd: float


@final
@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget, in epsilon or rho, and how it was divided."""

    unit: str
    total: str
    mechanism: str
    levels: tuple[LevelBudget, ...]
    queries: tuple[QueryBudget, ...]


@final
@dataclass(frozen=True, kw_only=True)
class OnlyChildUnits:
    """How many units of a level pay for so many levels."""

    level: str
    levels_paid: int
    share: str
    units: int


@final
@dataclass(frozen=True, kw_only=True)
class OnlyChild:
    """The only-child rule in words, and the units it applies to."""

    words: str
    units: tuple[OnlyChildUnits, ...]


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredConstraint:
    """A constraint in words, and where its values come from."""

    words: str
    source: str
    source_in_words: str


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredFilter:
    """Which rows were counted, in words, and whether it is public who passes the filter."""

    words: str
    public: bool


@final
@dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """How TopDown rounds, and in which passes it solves each level."""

    rounding: str
    rounding_in_words: str
    passes: Mapping[str, tuple[tuple[str, ...], ...]]


@final
@dataclass(frozen=True, kw_only=True)
class MeasuredOn:
    """The optimised spine that was measured: its sizes, and what its units depend on."""

    units: Mapping[str, int]
    shaped_by: tuple[str, ...]
    words: str


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredSchema:
    """How many labels each attribute has, and how many cells there are, and are possible."""

    attributes: Mapping[str, int]
    cells: int
    possible: int


@final
@dataclass(frozen=True, kw_only=True)
class Declared:
    """What follows from public inputs. ``spine`` has the size of each level."""

    strategy: str
    stamps: tuple[str, ...]
    guarantee: Guarantee
    budget: Budget
    only_child: OnlyChild | None
    constraints: tuple[DeclaredConstraint, ...]
    facilities: bool
    filter: DeclaredFilter | None
    post_processing: PostProcessing
    spine: Mapping[str, int]
    measured_on: MeasuredOn | None = None
    schema: DeclaredSchema
    versions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The declared part under its JSON keys."""
        table: dict[str, Any] = _json_ready(asdict(self))
        if self.measured_on is None:
            del table["measured_on"]
        other = "rho" if self.budget.unit == "epsilon" else "epsilon"
        for row in (*table["budget"]["levels"], *table["budget"]["queries"]):
            del row[other]
        return table


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
        """Sums over the levels: parents by path, relaxed parents, and the persons that were moved for them."""
        relaxed = [parent for level in self.levels for parent in level.relaxed]
        return {
            **{name: sum(int(getattr(level, name)) for level in self.levels) for name in SUMMED},
            "relaxed": len(relaxed),
            "relaxed_persons": sum(int(parent.amount) for parent in relaxed),
        }

    @property
    def worst(self) -> Mapping[str, float]:
        """The largest of each bound over the levels."""
        return {name: max((float(getattr(level, name)) for level in self.levels), default=0.0) for name in BOUNDS}

    def to_json(self) -> dict[str, Any]:
        """The observed part under its JSON keys; a bound that could not be certified is null."""
        table: dict[str, Any] = _json_ready({**asdict(self), "totals": self.totals, "worst": self.worst})
        for row in (*table["levels"], table["worst"]):
            row |= {name: None for name in BOUNDS if not math.isfinite(row[name])}
        return table

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Observed:
        """The observed part from JSON; totals and worst bounds follow from the levels."""
        levels = table["levels"]
        if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels):
            raise FolderError("certificate, observed levels: not a list of tables. Copy the folder again.")
        finite = [{**level, **{name: math.inf for name in BOUNDS if level.get(name, 0) is None}} for level in levels]
        return cls(levels=_read(tuple[Solved, ...], finite, "observed levels"))


@final
@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was declared before any data were seen, and what was observed while solving.

    ``release.certificate.declared.guarantee.epsilon`` is the guarantee of a release.
    """

    declared: Declared
    observed: Observed

    def to_json(self) -> dict[str, Any]:
        """The certificate under its JSON keys, without the list of files that a folder adds."""
        return {"declared": self.declared.to_json(), "observed": self.observed.to_json()}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Certificate:
        """A certificate from JSON; a field that is missing, unknown or of another type is refused."""
        for name in ("declared", "observed"):
            if not isinstance(table.get(name), Mapping):
                raise FolderError(f"the certificate has no {name} part. Copy the folder again.")
        unknown = [name for name in table if name not in ("declared", "observed")]
        if unknown:
            raise FolderError(f"the certificate has the unknown field {unknown[0]!r}. Known are declared, observed.")
        if "levels" not in table["observed"]:
            raise FolderError("certificate, observed: no levels. Copy the folder again.")
        return cls(
            declared=_read(Declared, table["declared"], "declared"), observed=Observed.from_json(table["observed"])
        )


def _json_ready(value: Any) -> Any:
    """Tuples as lists, and NumPy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {key: _json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_ready(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _read(kind: Any, value: Any, place: str) -> Any:
    """A value of JSON as the type that a field has."""
    if isinstance(kind, UnionType):  # a type or None
        return None if value is None else _read(next(k for k in get_args(kind) if k is not NoneType), value, place)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(inner[0], item, f"{place} {i + 1}") for i, item in enumerate(value))
    if isinstance(value, dict) and origin in (Mapping, dict):
        return Frozen({str(name): _read(inner[1], item, f"{place} {name}") for name, item in value.items()})
    if isinstance(value, dict) and is_dataclass(kind):
        return _read_fields(kind, value, place)
    if origin is None and (isinstance(value, kind) or (kind is float and type(value) is int)):
        return value
    raise FolderError(f"certificate, {place}: {str(value)[:60]!r} is of another type. Copy the folder again.")


def _read_fields(kind: Any, table: Mapping[str, Any], place: str) -> Any:
    types = get_type_hints(kind)
    required = {field.name for field in fields(kind) if field.default is not None}
    wrong = sorted((required - set(table)) | (set(table) - set(types)))
    if wrong:
        problem = "missing" if wrong[0] in required else "unknown"
        raise FolderError(f"certificate, {place}: {wrong[0]} is {problem}. Copy the folder again.")
    return kind(**{name: _read(types[name], value, f"{place} {name}") for name, value in table.items()})
