"""Which neighbouring datasets a guarantee covers, in words: what they agree on, and what they satisfy."""

from __future__ import annotations

from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import Schema
from tallyveil.privacy.constraints import Bound, Constraint, FacilityBounds, StructuralZero, pinning
from tallyveil.privacy.strategy import Strategy

NEIGHBOURS = {
    "replace-one": "two datasets in which one person's record, place and attributes, is replaced by any other record",
    "add-or-remove": "two datasets of which one has one person's record more",
}


def agreement(strategy: Strategy, schema: Schema | None = None) -> str:
    """The neighbours that the guarantee covers, in a few words.

    >>> agreement(Strategy.preset("e2e-2018", epsilon=1))
    'for neighbours that agree on all invariants and satisfy all listed constraints'
    """
    exact = (
        ["agree on all invariants"]
        if strategy.neighbours == "replace-one" or invariants_in_words(strategy, schema)
        else []
    )
    held = ["satisfy all listed constraints"] if constraints_in_words(strategy, schema) else []
    return f"for neighbours that {' and '.join([*exact, *held])}" if exact or held else "for all neighbours"


def neighbours_in_words(strategy: Strategy, rows: int | None) -> str:
    """Which two datasets are neighbours, if a person has at most so many records (None if unknown)."""
    several = f"; a person has up to {rows} records, and neighbours differ in all of them" if (rows or 1) > 1 else ""
    return f"{NEIGHBOURS[strategy.neighbours]}{several}"


def holds_for(strategy: Strategy, schema: Schema, kept_by: Filter | None, rows: int | None = None) -> str:
    """The neighbours that the guarantee covers, in full."""
    exact, held = invariants_in_words(strategy, schema), constraints_in_words(strategy, schema)
    if strategy.neighbours == "replace-one":
        exact.insert(0, "the number of people in all")
    parts = [neighbours_in_words(strategy, rows)]
    if kept_by is not None:
        parts.append(f"all records pass the filter ({kept_by.words()})")
    if exact:
        parts.append(f"both agree on all invariants ({'; '.join(exact)})")
    if held:
        parts.append(f"both satisfy all listed constraints ({'; '.join(held)})")
    return "; ".join(parts)


def invariants_in_words(strategy: Strategy, schema: Schema | None) -> list[str]:
    """What neighbours must agree on, in words: invariants, and bounds that fix a value the data are checked against."""
    return [c.words() for c in strategy.constraints if source_of(strategy, c, schema) == "truth"]


def constraints_in_words(strategy: Strategy, schema: Schema | None) -> list[str]:
    """What neighbours must satisfy, in words: bounds and zeros that the data are checked against."""
    bounds = [
        c for c in strategy.constraints if strategy.check_constraints and source_of(strategy, c, schema) != "truth"
    ]
    listed = [*(constraint.words() for constraint in bounds), *([] if schema is None else zeros_in_words(schema))]
    return list(dict.fromkeys(listed))


def source_of(strategy: Strategy, constraint: Constraint, schema: Schema | None) -> str:
    """The source of a constraint; a bound that fixes a value of the data counts as an invariant."""
    if not isinstance(constraint, Bound | FacilityBounds) or not strategy.check_constraints:
        return constraint.source
    together = () if schema is None else pinning(strategy.constraints, schema)
    return "truth" if constraint.pins or constraint in together else constraint.source


def zeros_in_words(schema: Schema) -> list[str]:
    """The structural zeros of a schema, in words."""
    return [
        StructuralZero(cells={name: tuple(labels) for name, labels in zero.items()}).words() for zero in schema.zeros
    ]
