"""Strategies, facilities and QUERY@LEVEL pairs as they are named on the command line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tallyveil.errors import InputError
from tallyveil.privacy.budget import exact_delta
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.presets import PRESETS
from tallyveil.privacy.strategy import Accounting, Estimator, Strategy

if TYPE_CHECKING:
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine
    from tallyveil.nouns.schema import Schema
    from tallyveil.nouns.spine import Spine

Pair = tuple[str, str]


def find_strategy(name: str, *, epsilon: str | None = None, rho: str | None = None) -> Strategy:
    """The preset of this name, or the strategy in the file."""
    if name in PRESETS:
        return Strategy.preset(name, epsilon=epsilon, rho=rho)
    if not Path(name).exists():
        raise InputError(f"{name}: neither a file nor a preset. The presets are {', '.join(PRESETS)}.")
    return Strategy.read(name, epsilon=epsilon, rho=rho)


def choose_strategy(
    people: Histogram,
    name: str | None,
    *,
    epsilon: str | None,
    rho: str | None,
    delta: str | None = None,
    invariants: list[str],
    check_constraints: bool = True,
    optimised: OptimisedSpine | None = None,
    accounting: Accounting | None = None,
    estimator: Estimator | None = None,
    calibrate: bool = True,
) -> Strategy:
    """The named strategy, or the default one, with the budget, delta, invariants and checks of the options.

    ``optimised`` is the spine that is measured, if it is known: the default spends nothing on what is exact there.
    Noise accounted for by privacy loss distribution is calibrated, unless the spine is not known yet.
    """
    if epsilon is not None and rho is not None:
        raise InputError("--epsilon and --rho are both given. Give one.")
    declared = parse_invariants(invariants, people.spine, people.schema)
    if name is not None:
        chosen = find_strategy(name, epsilon=epsilon, rho=rho)
    elif epsilon is None and rho is None:
        raise InputError("protect needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
    else:
        spine, schema = people.spine, people.schema
        chosen = Strategy.default(
            spine,
            schema,
            epsilon=epsilon,
            rho=rho,
            invariants=declared,
            optimised=optimised,
            accounting=accounting or "zcdp",
        )
    if delta is not None:
        chosen = replace(chosen, delta=exact_delta(delta), calibrated=False).with_budget(epsilon=epsilon, rho=rho)
    chosen = accounted(chosen, accounting)
    if estimator is not None:
        chosen = chosen.with_estimator(estimator)
    if not check_constraints:
        chosen = replace(chosen, check_constraints=False)
    known = [(one.query, one.level) for one in chosen.constraints if isinstance(one, Invariant)]
    added = tuple(one for one in declared if (chosen.spelled(one.query), one.level) not in known)
    if added:
        chosen = replace(chosen, constraints=(*chosen.constraints, *added))
    chosen.check(people.spine, people.schema)
    if not calibrate:
        return chosen
    return calibrated(chosen, spine=people.spine, schema=people.schema, optimised=optimised)


def accounted(strategy: Strategy, accounting: Accounting | None) -> Strategy:
    """The strategy with the accountant that an option asks for."""
    if accounting is None:
        return strategy
    if strategy.mechanism == "geometric":
        raise InputError(
            f"--accounting {accounting} is for Gaussian noise, and this noise is geometric: its epsilon is pure and "
            f"needs no delta. Leave --accounting out, or choose Gaussian noise (--rho, or a strategy that has it)."
        )
    return strategy.with_accounting(accounting)


def parse_invariants(words: list[str], spine: Spine, schema: Schema) -> tuple[Invariant, ...]:
    """The invariants that are written as QUERY@LEVEL, each once."""
    found = {}
    for word in words:
        query, level = parse_pair(word)
        try:
            spine.depth(level)
            found[schema.query(query).name, level] = Invariant(query=query, level=level)
        except InputError as problem:
            raise InputError(f"--invariant {word}: {problem}") from None
    return tuple(found.values())


def warn_of_waste(strategy: Strategy, exact: Collection[Pair]) -> None:
    """Say in one line what a strategy spends on counts that invariants make exact anyway."""
    wasted = [spend for spend in strategy.spends() if (spend.query, spend.level) in exact]
    if wasted:
        share = float(sum(spend.share for spend in wasted))
        pairs = ", ".join(f"{spend.query}@{spend.level}" for spend in wasted)
        typer.echo(
            f"tallyveil: the strategy spends {share:.1%} of the budget on counts that are exact anyway ({pairs}). Move "
            f"these shares to other queries; tallyveil strategy writes one that spends nothing on them.",
            err=True,
        )


def find_facilities(
    file: Path | None, strategy: Strategy, people: Histogram, *, own: Facilities | None = None
) -> Facilities | None:
    """The facilities in the file: required if the strategy bounds people by facilities, refused otherwise.

    Without a file, those that came with the people (``own``) are used.
    """
    from tallyveil.files.release_folder.read_folder import facility_attribute
    from tallyveil.files.tables.side import read_facilities

    attribute = facility_attribute(strategy)
    if attribute is None:
        if file is not None:
            raise InputError(
                f"{file}: the strategy has no bounds from facilities. Leave --facilities out, or add them."
            )
        return None
    if file is None and own is not None and own.attribute == attribute:
        return own
    if file is None:
        raise InputError(
            f"the strategy bounds persons by {attribute} with counts of facilities. Give them: --facilities FILE "
            f"(columns {people.spine.leaf}, type, count)."
        )
    return read_facilities(file, people.spine, attribute=attribute, types=people.schema.attributes[attribute])


def parse_pairs(words: list[str]) -> list[Pair] | None:
    """The (query, level) pairs of an option; None for all."""
    return None if "all" in words else [parse_pair(word) for word in words]


def parse_pair(word: str) -> Pair:
    """A query and a level from ``QUERY@LEVEL``.

    >>> parse_pair("votingage * hispanic@county")
    ('votingage * hispanic', 'county')
    """
    query, at, level = word.rpartition("@")
    if not at or not query.strip() or not level.strip():
        raise InputError(f'{word!r}: write it as QUERY@LEVEL, such as "total@state".')
    return query.strip(), level.strip()
