"""The methods of ``tallyveil baseline``: which options each takes, what it computes, and what it guarantees."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tallyveil.nouns.estimates import Estimates
    from tallyveil.nouns.histogram import Histogram


class Method(StrEnum):
    """The simple mechanisms of the papers, and older methods."""

    geometric = "geometric"
    raked = "raked"
    averaged = "averaged"
    reconciled = "reconciled"
    sample = "sample"
    swap = "swap"
    suppress = "suppress"


class Differences(StrEnum):
    """What the reconciliation of a total and its strata minimises."""

    squares = "squares"
    absolute = "absolute"


class NeighbourRelation(StrEnum):
    """The neighbours for which epsilon holds."""

    replace_one = "replace-one"
    add_or_remove = "add-or-remove"


NOISE = ("query", "epsilon", "neighbours", "seed")
ALLOWED = {
    Method.geometric: NOISE,
    Method.raked: NOISE,
    Method.averaged: (*NOISE, "parts"),
    Method.reconciled: (*NOISE, "total_share", "total_weight", "differences", "level"),
    Method.sample: ("query", "fraction", "seed"),
    Method.swap: ("rate", "match", "within", "seed"),
    Method.suppress: ("query", "level", "below"),
}
KEPT = ("query", "epsilon", "keep", "seed")  # of reconciled, where true totals are kept
NEEDED = {
    **dict.fromkeys([Method.geometric, Method.raked, Method.averaged, Method.reconciled], ("epsilon",)),
    Method.sample: ("fraction",),
    Method.swap: ("rate", "match", "within"),
    Method.suppress: ("below",),
}
NO_GUARANTEE = {
    Method.reconciled: "true totals are kept without noise",
    Method.sample: "a person who is sampled is published as they are",
    Method.swap: "most people are published where they live",
    Method.suppress: "cells that are not hidden show true counts",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """What a method gave: tables of estimates by level, counts of people, and a description for ``baseline.json``."""

    described: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    people: Histogram | None = None


def checked_options(method: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, after refusing those that are missing or would be ignored."""
    allowed = KEPT if method is Method.reconciled and "keep" in given else ALLOWED[method]
    for name in given:
        if name not in allowed:
            with_keep = " with --keep" if "keep" in allowed else ""
            raise InputError(f"{_option(name)} is not an option of --method {method}{with_keep}. Leave it out.")
    missing = [_option(name) for name in NEEDED[method] if name not in given]
    if missing:
        raise InputError(f"--method {method} needs {' and '.join(missing)} too.")
    return dict(given)


def run_method(people: Histogram, method: Method, given: Mapping[str, Any]) -> Baseline:
    """Run a method with options that were checked."""
    settings, seed = {name: value for name, value in given.items() if name != "seed"}, given.get("seed")
    if method is Method.sample:
        return _sample(people, settings, seed)
    if method is Method.swap:
        return _swap(people, settings, seed)
    if method is Method.suppress:
        return _suppress(people, settings)
    estimates, neighbours = _noisy(people, method, settings, seed)
    finest = max(map(people.spine.depth, estimates.tables))
    tables = {level: _table(estimates, level) for level in people.spine.levels[: finest + 1]}
    return Baseline(described=_described(people, method, settings, seed, neighbours), tables=tables)


def _noisy(
    people: Histogram, method: Method, settings: Mapping[str, Any], seed: int | None
) -> tuple[Estimates, str | None]:
    """The estimates of a mechanism with noise, and the neighbours for which epsilon holds, if it holds for any."""
    from tallyveil import mechanisms

    if method is Method.reconciled:
        return _reconciled(people, settings, seed)
    chosen = {"neighbours": "add-or-remove"} | dict(settings)
    run: Any = {
        Method.geometric: mechanisms.geometric,
        Method.raked: mechanisms.raked,
        Method.averaged: mechanisms.averaged,
    }[method]
    return run(people, seed=seed, **chosen), chosen["neighbours"]


def _reconciled(people: Histogram, settings: Mapping[str, Any], seed: int | None) -> tuple[Estimates, str | None]:
    """A total and its strata (SA3 of petti2020-appendix), or strata with true totals of a level (SA4)."""
    from tallyveil import mechanisms
    from tallyveil.mechanisms.sampling import as_share
    from tallyveil.privacy.budget import exact

    query = settings.get("query", "detailed")
    if "keep" in settings:
        above = settings["keep"]
        kept = mechanisms.with_invariant(
            people, epsilon=settings["epsilon"], query=query, above=above, exact=True, seed=seed
        )
        return kept, None
    epsilon, share = exact(settings["epsilon"], "epsilon"), as_share(settings.get("total_share", "1/4"), "total-share")
    weight = settings.get("total_weight", 0.25)
    if not 0 < share < 1 or not 0 < weight < 1:
        raise InputError(
            f"--total-share and --total-weight must be between 0 and 1. Got {share} and {weight:g} instead."
        )
    absolute = settings.get("differences") == Differences.absolute
    run: Any = mechanisms.total_and_strata_absolute if absolute else mechanisms.total_and_strata
    neighbours = settings.get("neighbours", "replace-one")
    estimates = run(
        people,
        epsilon_total=share * epsilon,
        epsilon_strata=(1 - share) * epsilon,
        query=query,
        level=settings.get("level"),
        weights=(weight, 1 - weight),
        neighbours=neighbours,
        seed=seed,
    )
    return estimates, neighbours


def _sample(people: Histogram, settings: Mapping[str, Any], seed: int | None) -> Baseline:
    from tallyveil.mechanisms.sampling import sample
    from tallyveil.nouns.estimates import Estimates

    query = people.schema.query(settings.get("query", "total")).name
    drawn = sample(people, settings["fraction"], seed=_drawn(seed))
    leaf = people.spine.leaf
    scaled = Estimates(
        spine=people.spine, schema=people.schema, query=query, tables={leaf: drawn.answer(query, level=leaf)[None]}
    )
    described = _described(people, Method.sample, settings, seed, None)
    tables = {level: _table(scaled, level) for level in people.spine.levels}
    return Baseline(described=described, tables=tables, people=_stamped(drawn.people, described))


def _swap(people: Histogram, settings: Mapping[str, Any], seed: int | None) -> Baseline:
    from tallyveil.mechanisms.swapping import swap

    swapped = swap(people, rate=settings["rate"], match=settings["match"], level=settings["within"], seed=_drawn(seed))
    described = _described(people, Method.swap, settings, seed, None)
    return Baseline(described=described, people=_stamped(swapped.people, described))


def _suppress(people: Histogram, settings: Mapping[str, Any]) -> Baseline:
    """The counts of one level with hidden cells missing; sums of them are missing, so there is no other level."""
    import pyarrow as pa

    from tallyveil.mechanisms.suppression import suppress

    level = settings.get("level", people.spine.leaf)
    hidden = suppress(people, query=settings.get("query", "total"), level=level, below=settings["below"])
    table = _table(hidden.estimates, level)
    shown = pa.array(table.column("estimate").to_numpy(), mask=hidden.hidden.reshape(-1))
    table = table.set_column(table.column_names.index("estimate"), "estimate", shown)
    return Baseline(described=_described(people, Method.suppress, settings, None, None), tables={level: table})


def _drawn(seed: int | None) -> int:
    """The seed, or one that nobody knows."""
    return secrets.randbits(63) if seed is None else seed


def _stamped(people: Histogram, described: Mapping[str, Any]) -> Histogram:
    return replace(people, stamps=tuple(described["stamps"]))


def _table(estimates: Estimates, level: str) -> pa.Table:
    """The estimates at one level: ``level``, ``query``, ``unit``, ``cell``, ``estimate``."""
    import numpy as np

    from tallyveil.nouns.tables import answers_table, stacked

    (numbers,) = estimates.answer(estimates.query, level=level)
    labels = estimates.schema.query(estimates.query).labels()
    units = np.arange(estimates.spine.size(level))
    rows = answers_table(estimates.spine, level, units, labels, {"estimate": numbers.reshape(-1)})
    return stacked([({"level": level, "query": estimates.query}, rows)])


def _described(
    people: Histogram, method: Method, settings: Mapping[str, Any], seed: int | None, neighbours: str | None
) -> dict[str, Any]:
    """What ``baseline.json`` says: nothing in it depends on the counts."""
    from tallyveil.privacy.sentences import FILTERED, SEEDED, baseline

    filtered = people.filter is not None and not people.filter.public and neighbours == "replace-one"
    stamps = [*([SEEDED] if seed is not None else []), *people.stamps, *([FILTERED] if filtered else [])]
    why, rows = NO_GUARANTEE.get(method, ""), people.rows_per_person or 1
    return {
        "method": method.value,
        "settings": dict(settings) | ({} if neighbours is None else {"neighbours": neighbours}),
        "differentially_private": neighbours is not None,
        "guarantee": baseline(settings.get("epsilon"), neighbours, why, rows=rows, seeded=seed is not None),
        "stamps": list(dict.fromkeys(stamps)),
    }


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
