"""Compute the declared part of a certificate from public inputs alone (strategy, spine, schema, versions).

It is equal, byte for byte, for neighbouring inputs, and holds no time (only the day that the run was given or
began on), host or path, and no hash or size of the input.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from importlib.metadata import version

import numpy as np

from tallyveil import __version__
from tallyveil.nouns.histogram import Filter, Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy import sentences
from tallyveil.privacy.budget import rounded_up, text
from tallyveil.privacy.constraints import UNLIMITED, Bound, Constraint, FacilityBounds, StructuralZero
from tallyveil.privacy.guarantee import ExactCounts, Guarantee, guarantee_of, source_of, zeros_in_words
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.sentences import CHECKED, FILTERED, SEEDED, SOURCES, UNCHECKED
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.about import About
from tallyveil.release.declaration import (
    Budget,
    Declared,
    DeclaredConstraint,
    DeclaredFilter,
    DeclaredGuarantee,
    DeclaredSchema,
    ExactQuery,
    LevelBudget,
    MeasuredOn,
    OnlyChild,
    OnlyChildUnits,
    PostProcessing,
    QueryBudget,
)
from tallyveil.release.expected_error import expected_errors

PACKAGES = ("numpy", "numba", "scipy")

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
    seeded: bool | None = None,
    optimised: OptimisedSpine | None = None,
    filter: Filter | None = None,  # noqa: A002 (the noun's name)
    rows_per_person: int | None = None,
    about: About | None = None,
    exact_values: Sequence[ExactCounts] = (),
) -> Declared:
    """The declared part of a certificate.

    ``facilities`` says whether public counts of facilities were used, for bounds or to shape a spine. ``stamps`` are
    the stamps of the release, and ``seeded`` says whether its noise comes from a seed (None: not stated).
    ``optimised`` is the spine that was measured, if it is not the published one, ``filter`` says which rows were
    counted, if not all, and ``rows_per_person`` how many of them a person has at most, if that was checked. ``about``
    has the words of the one who makes the release. ``exact_values`` are the counts that constraints fix
    (``engine.exact_values``).
    """
    strategy.check(spine, schema)
    measured = spine if optimised is None else optimised.spine
    loss = Loss(
        strategy=strategy, spine=spine, schema=schema, optimised=optimised, rows_per_person=rows_per_person or 1
    )
    promised = guarantee_of(
        loss,
        rows_per_person=rows_per_person,
        filter=filter,
        stamps=tuple(dict.fromkeys(stamps)),
        seeded=bool(seeded),
        exact_values=exact_values,
    )
    return Declared(
        **asdict(about or About()),
        strategy=strategy.name or "unnamed",
        stamps=tuple(promised.stamps),
        seeded=seeded,
        guarantee=_guarantee(promised),
        budget=_budget(strategy, promised.exact),
        exact_values=tuple(exact_values) or None,
        expected_error=tuple(
            replace(one, sd=0.0) if promised.fixes(one.query, one.level) else one
            for one in expected_errors(strategy, spine, schema, optimised=optimised)
        ),
        only_child=_only_child(strategy, measured),
        constraints=_constraints(strategy, spine, schema),
        facilities=facilities,
        filter=None if filter is None else DeclaredFilter(words=filter.words(), public=filter.public),
        rows_per_person=rows_per_person,
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
    packages = {"tallyveil": __version__, **{name: version(name) for name in PACKAGES}}
    return {"python": platform.python_version(), **packages, "platform": machine}


def noise_name(noise: Geometric | DiscreteGaussian) -> str:
    """The usual name of the distribution."""
    return "two-sided geometric" if isinstance(noise, Geometric) else "discrete Gaussian"


def _guarantee(promised: Guarantee) -> DeclaredGuarantee:
    return DeclaredGuarantee(
        **promised.account.as_json(),
        words=sentences.one_line(promised),
        holds_for=sentences.holds_for(promised),
        neighbours=promised.neighbours,
        neighbours_in_words=sentences.neighbours(promised),
        total=sentences.same_people(promised) if promised.neighbours == "replace-one" else None,
        invariants=len(promised.invariants),
        constraints=len(promised.constraints),
        protection=sentences.PROTECTION,
    )


def _budget(strategy: Strategy, exact: Sequence[tuple[str, str]]) -> Budget:
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
        exact=tuple(ExactQuery(level=level, query=query) for query, level in exact),
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


def _constraints(strategy: Strategy, spine: Spine, schema: Schema) -> tuple[DeclaredConstraint, ...]:
    """Every constraint once, in words: the strategy's, then the structural zeros of the schema."""
    table: dict[str, tuple[str, str]] = {}
    for constraint in strategy.constraints:
        source = source_of(strategy, constraint, schema)
        compared = strategy.check_constraints or _compared_anyway(strategy, constraint, spine, schema)
        checked = "" if source == "truth" else f"; {CHECKED if compared else UNCHECKED}"
        table[constraint.words()] = (source, f"{SOURCES[source]}{checked}")
    for words in zeros_in_words(schema):
        table.setdefault(words, ("constant", f"{SOURCES['constant']}; {CHECKED}"))
    return tuple(
        DeclaredConstraint(words=words, source=source, source_in_words=source_in_words)
        for words, (source, source_in_words) in table.items()
    )


def _compared_anyway(strategy: Strategy, constraint: Constraint, spine: Spine, schema: Schema) -> bool:
    """Whether the data are compared with a constraint that is not checked, because another one says as much.

    Those are the schema's zeros, for the cells that are said to be empty, and invariants: their answers are compared
    with every constraint on counts that they make exact.
    """
    query, level, said = "", spine.levels[0], np.zeros(schema.cells, np.bool_)  # cells that it says are empty
    if isinstance(constraint, StructuralZero):
        query, said = (
            " * ".join(constraint.cells),
            ~Schema(attributes=schema.attributes, zeros=[constraint.cells]).possible,
        )
    elif isinstance(constraint, FacilityBounds):
        query, level = constraint.attribute, constraint.level
    else:
        query, level = constraint.query, constraint.level
    if isinstance(constraint, Bound):
        least, most = constraint.limits(schema)
        if ((most == 0) | (least == 0) & (most == UNLIMITED)).all():
            said = (most == 0)[schema.query(query).row_of_cell]
    empty = bool(said.any()) and not (said & schema.possible).any()
    return empty or strategy.exactness(spine, schema).holds(query, level)
