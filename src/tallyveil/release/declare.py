"""Compute the declared part of a certificate from public inputs alone (strategy, spine, schema, versions).

It is equal, byte for byte, for neighbouring inputs, and holds no time (only the day that the run was given or
began on), host or path, and no hash or size of the input.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from importlib.metadata import version

import numpy as np

from tallyveil.nouns.histogram import Filter, Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import rounded_up, text, up_to_digits
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.guarantee import Account, account_of
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.about import About
from tallyveil.release.declaration import (
    Budget,
    Declared,
    DeclaredConstraint,
    DeclaredFilter,
    DeclaredSchema,
    ExactQuery,
    Guarantee,
    LevelBudget,
    MeasuredOn,
    OnlyChild,
    OnlyChildUnits,
    PostProcessing,
    QueryBudget,
)
from tallyveil.release.expected_error import expected_errors
from tallyveil.release.guarantee_words import (
    NEIGHBOURS,
    agreement,
    constraints_in_words,
    holds_for,
    invariants_in_words,
    source_of,
    zeros_in_words,
)

SEEDED = "seeded: not for publication"
FILTERED = "filtered: the exact number of people who pass the filter is not covered by the guarantee"
PROTECTION = "computational, through the stream cipher"
PACKAGES = ("tallyveil", "numpy", "numba", "scipy")

_SAME_PEOPLE = "The number of people in all is the same for neighbours and is kept exactly."
_SOURCES = {
    "constant": "constant: known before any data",
    "facilities": "facilities: public counts of facilities, published beside the release",
    "truth": "truth: an invariant, kept exactly and outside the guarantee",
}
_CHECKED = "the data are checked against it, so the guarantee covers neighbours that satisfy it"
_UNCHECKED = "enforced on the release only; the data are not compared with it"
_ESTIMATOR = {
    "topdown": "each level from its own measurements and the level above",
    "tree": "each level from its own measurements, the level above, and what the levels below say about it",
}
_ROUNDING = {
    "margins": "totals first, then margins in the order of the attributes, then cells; each is held for the next",
    "cells": "cells alone, with the least total change",
}
_ONLY_CHILD = (
    "A unit with exactly one child takes over the child's share of the budget; the child is not measured and copies it."
)


def declared_of(
    strategy: Strategy,
    spine: Spine,
    schema: Schema,
    *,
    facilities: bool,
    stamps: Sequence[str],
    optimised: OptimisedSpine | None = None,
    filter: Filter | None = None,  # noqa: A002 (the noun's name)
    about: About | None = None,
) -> Declared:
    """The declared part of a certificate.

    ``facilities`` says whether public counts of facilities were used, for bounds or to shape a spine. ``stamps`` are
    the stamps of the release. ``optimised`` is the spine that was measured, if it is not the published one, and
    ``filter`` says which rows were counted, if not all. ``about`` has the words of the one who makes the release.
    """
    strategy.check(spine, schema)
    measured = spine if optimised is None else optimised.spine
    budget = _budget(strategy, strategy.exactness(spine, schema, optimised=optimised))
    return Declared(
        **asdict(about or About()),
        strategy=strategy.name or "unnamed",
        stamps=tuple(dict.fromkeys(stamps)),
        guarantee=_guarantee(strategy, spine, schema, optimised, filter),
        budget=budget,
        expected_error=expected_errors(strategy, measured, schema, budget.exact),
        only_child=_only_child(strategy, measured),
        constraints=_constraints(strategy, schema),
        facilities=facilities,
        filter=None if filter is None else DeclaredFilter(words=filter.words(), public=filter.public),
        post_processing=PostProcessing(
            estimator=strategy.estimator,
            estimator_in_words=_ESTIMATOR[strategy.estimator],
            information_from=strategy.information_level,
            rounding=strategy.rounding,
            rounding_in_words=_ROUNDING[strategy.rounding],
            passes=strategy.passes,
        ),
        spine={level: spine.size(level) for level in spine.levels},
        measured_on=None if optimised is None else measured_on(optimised),
        schema=DeclaredSchema(
            attributes={name: len(labels) for name, labels in schema.attributes.items()},
            cells=schema.cells,
            possible=int(schema.possible.sum()),
        ),
        versions=versions(),
    )


def stamps_of_run(people: Histogram, strategy: Strategy, *, seeded: bool) -> tuple[str, ...]:
    """The stamps that a release of these people must have.

    With replace-one neighbours the number of people is published exactly. That is safe for a whole population, but not
    for those who pass a filter, unless membership is public.
    """
    filtered = people.filter is not None and not people.filter.public and strategy.neighbours == "replace-one"
    stamps = [*([SEEDED] if seeded else []), *people.stamps, *([FILTERED] if filtered else [])]
    return tuple(dict.fromkeys(stamps))


def measured_on(optimised: OptimisedSpine) -> MeasuredOn:
    """The optimised spine that is measured, as a certificate declares it."""
    spine = optimised.spine
    return MeasuredOn(
        units={level: spine.size(level) for level in spine.levels},
        shaped_by=optimised.shaped_by,
        words="Measured on an optimised spine, which was made without noise; published on the standard one.",
    )


def versions() -> dict[str, str]:
    """The versions and the platform that determine every bit of a release."""
    from llvmlite.binding import get_host_cpu_name

    machine = f"{platform.system()} {platform.machine()} {get_host_cpu_name()}"
    packages = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **packages, "platform": machine}


def noise_name(noise: Geometric | DiscreteGaussian) -> str:
    """The usual name of the distribution."""
    return "two-sided geometric" if isinstance(noise, Geometric) else "discrete Gaussian"


def _guarantee(
    strategy: Strategy, spine: Spine, schema: Schema, optimised: OptimisedSpine | None, kept_by: Filter | None
) -> Guarantee:
    account = account_of(strategy, spine=spine, schema=schema, optimised=optimised)
    return Guarantee(
        **account.as_json(),
        words=f"{_guarantee_in_words(strategy, account)}, {agreement(strategy, schema)}",
        holds_for=holds_for(strategy, schema, kept_by),
        neighbours=strategy.neighbours,
        neighbours_in_words=NEIGHBOURS[strategy.neighbours],
        total=_SAME_PEOPLE if strategy.neighbours == "replace-one" else None,
        invariants=len(invariants_in_words(strategy, schema)),
        constraints=len(constraints_in_words(strategy, schema)),
        protection=PROTECTION,
    )


def _guarantee_in_words(strategy: Strategy, figures: Account) -> str:
    """The guarantee in words, with the loss instead of the budget if no neighbours on this spine reach the budget."""
    if strategy.mechanism == "geometric":
        whole = figures.epsilon == rounded_up(strategy.budget)
        return f"{text(strategy.budget) if whole else up_to_digits(figures.epsilon, 6)}-differential privacy (pure)"
    whole = figures.rho == rounded_up(strategy.budget)
    rho = text(strategy.budget) if whole or figures.rho is None else up_to_digits(figures.rho, 6)
    if figures.accountant == "pld":
        return (
            f"({up_to_digits(figures.epsilon, 10)}, {figures.delta:g})-differential privacy by privacy loss "
            f"distribution (rho = {rho} as zero-concentrated differential privacy)"
        )
    return f"zero-concentrated differential privacy with rho = {rho}"


def _budget(strategy: Strategy, exact: Exactness) -> Budget:
    def amount(share: Fraction) -> dict[str, float]:
        return {strategy.unit: rounded_up(strategy.budget * share)}

    return Budget(
        unit=strategy.unit,
        total=text(strategy.budget),
        mechanism=strategy.mechanism,
        levels=tuple(
            LevelBudget(level=level, share=text(share), **amount(share)) for level, share in strategy.levels.items()
        ),
        queries=tuple(
            QueryBudget(
                level=spend.level,
                query=spend.query,
                share=text(spend.share),
                noise=noise_name(spend.noise),
                parameter=text(spend.noise.parameter),
                sd=math.sqrt(spend.noise.actual_variance()),
                **amount(spend.share),
            )
            for spend in strategy.spends()
        ),
        exact=tuple(ExactQuery(level=level, query=query) for query, level in strategy.exact_pairs(exact)),
    )


def _only_child(strategy: Strategy, spine: Spine) -> OnlyChild | None:
    """The only-child rule, and for each level how many units hold the budget of how many levels."""
    if not strategy.only_child:
        return None
    table = [
        OnlyChildUnits(level=level, levels_paid=span, share=text(shares.shares[span]), units=int(units))
        for level, shares in unit_shares(strategy, spine).items()
        for span, units in enumerate(np.bincount(shares.spans, minlength=len(shares.shares)))
        if units
    ]
    return OnlyChild(words=_ONLY_CHILD, units=tuple(table))


def _constraints(strategy: Strategy, schema: Schema) -> tuple[DeclaredConstraint, ...]:
    """Every constraint once, in words: the strategy's, then the structural zeros of the schema."""
    table: dict[str, tuple[str, str]] = {}
    for constraint in strategy.constraints:
        source = source_of(strategy, constraint, schema)
        checked = "" if source == "truth" else f"; {_CHECKED if strategy.check_constraints else _UNCHECKED}"
        table[constraint.words()] = (source, f"{_SOURCES[source]}{checked}")
    for words in zeros_in_words(schema):
        table.setdefault(words, ("constant", f"{_SOURCES['constant']}; {_CHECKED}"))
    return tuple(
        DeclaredConstraint(words=words, source=source, source_in_words=source_in_words)
        for words, (source, source_in_words) in table.items()
    )
