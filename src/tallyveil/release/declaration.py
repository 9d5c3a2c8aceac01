"""The declared part of a certificate: what follows from public inputs, with the names of the keys in its JSON.

:func:`tallyveil.release.declare.declared_of` computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from tallyveil.privacy.guarantee import Account, ExactCounts
from tallyveil.release.typed_json import json_ready


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredGuarantee(Account):
    """What a certificate records of a guarantee: its figures, and which datasets it covers in words.

    Attributes
    ----------
    accountant
        ``"pure"``, ``"zcdp"`` or ``"pld"``.
    words
        The guarantee in one sentence.
    holds_for
        The neighbouring datasets that it covers, in full.
    neighbours, neighbours_in_words
        The strategy's neighbours.
    total
        A sentence that the number of people is exact, if neighbours have the same number.
    invariants, constraints
        How many invariants neighbours agree on, and how many constraints they satisfy.
    protection
        The assumption that the noise rests on.
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
    """A level's share of the budget as a fraction, and its amount in epsilon or rho."""

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
class ExactQuery:
    """A query that is exact for every unit of a level, because invariants fix it."""

    level: str
    query: str


@final
@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """The standard deviation that the errors of a query's answers are expected to have over the units of a level."""

    level: str
    query: str
    sd: float


@final
@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget, in epsilon or rho, how it was divided, and what is exact without it."""

    unit: str
    total: str
    mechanism: str
    levels: tuple[LevelBudget, ...]
    queries: tuple[QueryBudget, ...]
    exact: tuple[ExactQuery, ...]


@final
@dataclass(frozen=True, kw_only=True)
class OnlyChildUnits:
    """The number of units of a level that hold the budget of ``levels_paid`` levels."""

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
    """Which rows were counted, in words, and whether membership is public."""

    words: str
    public: bool


@final
@dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """What each level is estimated from, how it is rounded, and in which passes it is solved."""

    estimator: str = "topdown"
    estimator_in_words: str = ""
    information_from: str | None = None
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
    """The number of labels of each attribute, and the number of cells and of possible cells."""

    attributes: Mapping[str, int]
    cells: int
    possible: int


@final
@dataclass(frozen=True, kw_only=True)
class Declared:
    """What follows from public inputs. ``spine`` has the number of units of each level.

    ``seeded`` says whether the noise of this run comes from a seed. It is None in certificates that do not state it,
    which have only their stamps; a stamp can also come from the data. ``exact_values`` are the counts with a single
    possible value that ``budget.exact`` does not name. A count that is zero because a coarser one is zero is not listed
    again.
    The first six fields are the words of the one who made the release (:class:`tallyveil.release.about.About`).
    ``rows_per_person`` is how many records a person has at most, which was checked, and which all figures of the
    guarantee count; None if it is unknown, and the guarantee is for a person with one record.
    """

    title: str | None = None
    organisation: str | None = None
    population: str | None = None
    reference: str | None = None
    approver: str | None = None
    date: str | None = None
    strategy: str
    stamps: tuple[str, ...]
    seeded: bool | None = None
    guarantee: DeclaredGuarantee
    budget: Budget
    exact_values: tuple[ExactCounts, ...] | None = None
    expected_error: tuple[ExpectedError, ...]
    only_child: OnlyChild | None
    constraints: tuple[DeclaredConstraint, ...]
    facilities: bool
    filter: DeclaredFilter | None
    rows_per_person: int | None = None
    post_processing: PostProcessing
    spine: Mapping[str, int]
    measured_on: MeasuredOn | None = None
    schema: DeclaredSchema
    versions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The declared part under its JSON keys."""
        table: dict[str, Any] = json_ready(asdict(self))
        for name in ("measured_on", "seeded", "rows_per_person", "exact_values"):
            if table[name] is None:
                del table[name]
        other = "rho" if self.budget.unit == "epsilon" else "epsilon"
        for row in (*table["budget"]["levels"], *table["budget"]["queries"]):
            del row[other]
        return table
