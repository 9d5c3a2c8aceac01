"""A preset on other levels and attributes, by a table of names.

Each level of the data takes the share of one level of the preset, and each query of the preset is asked about the
attributes that stand for the preset's. What has no counterpart is left out:

- a level of the preset that the data lack;
- an attribute of the preset that the data lack, in every query that names it; queries that become equal are added up,
  and a query that names nothing else is dropped;
- a query that the invariants make exact (``Exactness``);
- a constraint about a level, attribute or label that the data lack.

All that is left is rescaled by one factor, so it keeps its proportions. A level of the data without a counterpart is
refused, because the preset does not say how much it should get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import final

from tallyveil._typed import parse_toml, toml_file, typed
from tallyveil.errors import InputError, StrategyError
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import Bound, Constraint, FacilityBounds, Invariant, StructuralZero
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.strategy import Strategy

Names = Mapping[str, str]


@final
@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A mapped preset, and what was left out, in sentences."""

    strategy: Strategy
    notes: tuple[str, ...]


def read_names(source: str, preset: Strategy) -> tuple[Names, Names]:
    """Names of levels and of attributes, from a TOML file or from pairs such as ``"county=lad, cenrace=ethnicity"``.

    >>> read_names("county=lad, race=ethnicity", Strategy.preset("e2e-2018", epsilon=1))
    ({'county': 'lad'}, {'race': 'ethnicity'})
    """
    if Path(source).is_file():
        return _names_in_file(Path(source))
    levels: dict[str, str] = {}
    attributes: dict[str, str] = {}
    factors = [*preset.attributes, *preset.groupings]
    for pair in source.split(","):
        theirs, equals, own = (part.strip() for part in pair.partition("="))
        if not (theirs and equals and own):
            raise InputError(
                f"--map {source!r}: {pair.strip()!r} is neither a file nor PRESET_NAME=YOUR_NAME. Write it like "
                f'"county=lad, cenrace=ethnicity", or name a TOML file with [levels] and [attributes].'
            )
        if theirs not in preset.levels and theirs not in factors:
            raise InputError(
                f"--map: {theirs!r} is no name of the preset. Its levels are {', '.join(preset.levels)}; its "
                f"attributes are {', '.join(factors)}."
            )
        (levels if theirs in preset.levels else attributes)[theirs] = own
    return levels, attributes


def mapped_preset(
    preset: Strategy,
    spine: Spine,
    schema: Schema,
    *,
    levels: Names,
    attributes: Names,
    invariants: Iterable[Invariant] = (),
) -> Mapped:
    """Return a preset on the levels of a spine and the attributes of a schema. Equal names need no mapping."""
    level_of = _counterparts("level", levels, tuple(preset.levels), spine.levels)
    factor_of = _counterparts(
        "attribute", attributes, (*preset.attributes, *preset.groupings), (*schema.attributes, *schema.groupings)
    )
    _check_levels(preset, spine, level_of)
    kept, dropped = _mapped_constraints(preset, spine, schema, level_of, factor_of)
    constraints = (*kept, *(one for one in invariants if one not in kept))
    declared = tuple(one for one in constraints if isinstance(one, Invariant))
    exact = Exactness(spine=spine, schema=schema, invariants=declared, same_people=preset.neighbours == "replace-one")
    amounts = {own: _amounts(preset, level, schema, factor_of) for level, own in level_of.items()}
    spent = {
        level: {query: amount for query, amount in table.items() if not exact.holds(query, level)}
        for level, table in amounts.items()
    }
    _check_left(spent, exact)
    fields = {
        "mechanism": preset.mechanism, "budget": preset.budget, "accounting": preset.accounting,
        "epsilon": preset.epsilon, "delta": preset.delta, "rounding": preset.rounding,
        "neighbours": preset.neighbours, "only_child": preset.only_child, "name": f"{preset.name}, mapped",
    }  # fmt: skip
    strategy = Strategy.proportional(
        levels={level: sum(table.values(), Fraction(0)) for level, table in spent.items()},
        queries=spent,
        passes=_passes(preset, schema, level_of, factor_of, spent),
        constraints=constraints,
        attributes=tuple(schema.attributes),
        groupings={name: grouping.of for name, grouping in schema.groupings.items()},
        **fields,
    )
    saved = [f"{query}@{level}" for level, table in amounts.items() for query in table if query not in spent[level]]
    return Mapped(strategy=strategy, notes=_notes(preset, schema, level_of, factor_of, saved, dropped))


def _names_in_file(path: Path) -> tuple[Names, Names]:
    known, what = ("levels", "attributes"), "a table of names"
    try:
        table = parse_toml(toml_file(path, what, error=InputError), what, error=InputError)
        if set(table) - set(known):
            raise InputError(f"unknown section [{next(name for name in table if name not in known)}].")
        levels, attributes = (
            typed(Mapping[str, str], table.get(name, {}), f"[{name}]", error=InputError) for name in known
        )
    except (FileNotFoundError, InputError) as problem:
        reason = "no such file." if isinstance(problem, FileNotFoundError) else problem
        raise InputError(
            f'{path}: {reason} Give the tables [levels] and [attributes], with lines such as county = "lad" (the name '
            f"of the preset, then yours), and nothing else."
        ) from None
    return levels, attributes


def _counterparts(what: str, given: Names, theirs: Sequence[str], own: Sequence[str]) -> dict[str, str]:
    """Return the name in the data of each name of the preset: the given one, or else the same name if it is free."""
    for name, target in given.items():
        if name not in theirs:
            raise InputError(f"--map: {name!r} is no {what} of the preset. It has {', '.join(theirs)}.")
        if target not in own:
            raise InputError(f"--map: {target!r}, for {name}, is no {what} of the codebook. It has {', '.join(own)}.")
    targets = list(given.values())
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        names = " and ".join(name for name, target in given.items() if target == twice)
        raise InputError(f"--map: {names} both stand for {twice!r}. Map one of them.")
    same = [name for name in theirs if name in own and name not in given and name not in targets]
    return {name: given.get(name, name) for name in theirs if name in given or name in same}


def _check_levels(preset: Strategy, spine: Spine, level_of: Names) -> None:
    """Refuse levels of the data without a counterpart, and counterparts in another order."""
    missing = [level for level in spine.levels if level not in level_of.values()]
    free = [level for level in preset.levels if level not in level_of]
    if len(missing) > len(free):
        raise StrategyError(
            f"the preset does not say which share to give to {', '.join(missing)}: it has {len(preset.levels)} levels "
            f"({', '.join(preset.levels)}). Use a codebook with fewer levels, or a strategy without a preset."
        )
    if missing:
        raise StrategyError(
            f"the preset does not say which share to give to {', '.join(missing)}. Map each to a level of the preset "
            f'that is not used yet ({", ".join(free)}), for example --map "{free[0]}={missing[0]}".'
        )
    if tuple(level_of.values()) != spine.levels:
        pairs = ", ".join(f"{level}={own}" for level, own in level_of.items())
        raise StrategyError(
            f"the levels are mapped in another order ({pairs}) than {', '.join(spine.levels)}. Map coarse to coarse "
            f"and fine to fine."
        )


def _mapped_query(query: str, schema: Schema, factor_of: Names) -> str | None:
    """Return a query about the attributes that stand for the preset's; None if none of those it names is left."""
    if query in (TOTAL, DETAILED):
        return schema.query(query).name
    factors = [factor_of[factor] for factor in factors_of(query) if factor in factor_of]
    return schema.query(" * ".join(factors)).name if factors else None


def _amounts(preset: Strategy, level: str, schema: Schema, factor_of: Names) -> dict[str, Fraction]:
    """Return the share of the whole budget of each query at a level of the preset, under its new name."""
    table: dict[str, Fraction] = {}
    for query in preset.queries[level]:
        own = _mapped_query(query, schema, factor_of)
        if own is not None:
            table[own] = table.get(own, Fraction(0)) + preset.share(level, query)
    return table


def _check_left(spent: Mapping[str, Mapping[str, Fraction]], exact: Exactness) -> None:
    for level, table in spent.items():
        if not table and not exact.fixes(level):
            raise StrategyError(
                f"nothing is left to measure at level {level!r}: the preset asks there only about attributes that are "
                f"not mapped. Map more attributes."
            )
    if not any(spent.values()):
        raise StrategyError("every count is exact, so there is nothing to measure. Drop an invariant.")


def _passes(
    preset: Strategy, schema: Schema, level_of: Names, factor_of: Names, spent: Mapping[str, Mapping[str, Fraction]]
) -> dict[str, list[list[str]]]:
    """Return the passes with only the queries that are measured; levels left with one pass need none."""
    table = {}
    for level, stages in preset.passes.items():
        if level in level_of:
            own = level_of[level]
            names = [[q if q == "*" else _mapped_query(q, schema, factor_of) for q in stage] for stage in stages]
            kept = [[q for q in stage if q is not None and (q == "*" or q in spent[own])] for stage in names]
            if len(left := [stage for stage in kept if stage]) > 1:
                table[own] = left
    return table


def _mapped_constraints(
    preset: Strategy, spine: Spine, schema: Schema, level_of: Names, factor_of: Names
) -> tuple[list[Constraint], list[Constraint]]:
    """Return the constraints under their new names, and those that say nothing about these data."""
    kept, dropped = [], []
    for constraint in preset.constraints:
        try:
            own = _renamed(constraint, schema, level_of, factor_of)
            own.check(spine, schema)
            kept.append(own)
        except (KeyError, InputError):  # a name without a counterpart, or an unknown label
            dropped.append(constraint)
    return kept, dropped


def _renamed(constraint: Constraint, schema: Schema, level_of: Names, factor_of: Names) -> Constraint:
    if isinstance(constraint, StructuralZero):
        return StructuralZero(cells={factor_of[name]: labels for name, labels in constraint.cells.items()})
    level = level_of[constraint.level]
    if isinstance(constraint, FacilityBounds):
        return replace(constraint, attribute=factor_of[constraint.attribute], level=level)
    factors = () if constraint.query == DETAILED else factors_of(constraint.query)
    query = " * ".join(factor_of[factor] for factor in factors) or constraint.query
    if isinstance(constraint, Bound):
        return replace(constraint, query=query, level=level)
    return Invariant(query=schema.query(query).name, level=level)


def _notes(
    preset: Strategy,
    schema: Schema,
    level_of: Names,
    factor_of: Names,
    exact: Sequence[str],
    dropped: Sequence[Constraint],
) -> tuple[str, ...]:
    renamed = [f"{theirs} is {own}" for theirs, own in (dict(level_of) | dict(factor_of)).items() if theirs != own]
    lost_levels = [level for level in preset.levels if level not in level_of]
    lost = [name for name in (*preset.attributes, *preset.groupings) if name not in factor_of]
    groups = {name: grouping.of for name, grouping in schema.groupings.items()}
    asked = {groups.get(name, name) for name in factor_of.values()}
    alone = [name for name in schema.attributes if name not in asked]
    notes = [
        f"It is preset {preset.name}{' with other names: ' + ', '.join(renamed) if renamed else ''}.",
        *([f"Levels of the preset left out: {', '.join(lost_levels)}."] if lost_levels else []),
        *([f"Attributes of the preset left out of its queries: {', '.join(lost)}."] if lost else []),
        *([f"Exact, so its share went to the others: {', '.join(exact)}."] if exact else []),
        *(f"Constraint of the preset left out: {constraint.words()}." for constraint in dropped),
        *(
            [f"Measured only as part of detailed: {', '.join(alone)}. Add queries for them if they matter."]
            if alone
            else []
        ),
    ]
    if len(notes) > 1:
        notes.append("All shares that are left were rescaled by one factor, so they keep their proportions.")
    return tuple(notes)
