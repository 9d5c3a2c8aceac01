"""The certificate of a release: what was declared before any data was seen, and what was observed while solving.

``declared`` is a function of public inputs alone (strategy, spine, schema, versions), so it is the same, byte for byte,
for neighbouring inputs. ``observed`` is computed from the measurements alone, so running post-processing again from
saved measurements gives it again. Neither holds a time, a host, a path, or a hash or size of the input.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np

from tallyveil.privacy.account import account_of
from tallyveil.privacy.budget import rounded_up, text
from tallyveil.privacy.constraints import Invariant, StructuralZero
from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.release import Solved
from tallyveil.schema import Schema
from tallyveil.spine import Spine

SEEDED = "seeded: not for publication"
AGREE = "for neighbours that agree on all invariants"
PROTECTION = "computational, through the stream cipher"
PACKAGES = ("tallyveil", "numpy", "numba", "scipy")

_NEIGHBOURS = {
    "replace-one": "two sets of records in which one person's record, place and all, is replaced by another",
    "add-or-remove": "two sets of records of which one has one person more",
}
_SAME_PEOPLE = "The number of people in all is the same for neighbours and is kept exactly."
_SOURCES = {
    "constant": "constant: known before any data",
    "facilities": "facilities: public counts of facilities, published beside the release",
    "truth": "truth: an invariant, kept exactly and outside the guarantee",
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
    stamps: tuple[str, ...],
    seeded: bool,
    measured_on: Spine | None = None,
) -> dict[str, Any]:
    """The declared part, ready for JSON: from public inputs only.

    ``facilities`` says whether public counts of facilities were used; ``stamps`` is what the release must be stamped
    with, and ``seeded`` adds the stamp of a seeded run. ``measured_on`` is the optimised spine, if there was one.
    """
    strategy.check(spine, schema)
    invariants = [constraint for constraint in strategy.constraints if isinstance(constraint, Invariant)]
    return {
        "strategy": strategy.name or "unnamed",
        "stamps": list(dict.fromkeys([*([SEEDED] if seeded else []), *stamps])),
        "guarantee": {
            **account_of(strategy).as_json(),
            "words": _guarantee(strategy),
            "holds": AGREE,
            "neighbours": strategy.neighbours,
            "neighbours_in_words": _NEIGHBOURS[strategy.neighbours],
            "total": _SAME_PEOPLE if strategy.neighbours == "replace-one" else None,
            "invariants": len(invariants),
            "protection": PROTECTION,
        },
        "budget": _budget(strategy),
        "only_child": _only_child(strategy, measured_on or spine),
        "constraints": _constraints(strategy, schema),
        "facilities": facilities,
        "post_processing": {
            "rounding": strategy.rounding,
            "rounding_in_words": _ROUNDING[strategy.rounding],
            "passes": {level: [list(queries) for queries in passes] for level, passes in strategy.passes.items()},
        },
        "spine": {level: spine.size(level) for level in spine.levels},
        **({"measured_on": {level: measured_on.size(level) for level in spine.levels}} if measured_on else {}),
        "schema": {
            "attributes": {name: len(labels) for name, labels in schema.attributes.items()},
            "cells": schema.cells,
            "possible": int(schema.possible.sum()),
        },
        "versions": versions(),
    }


def observed_of(solved: Sequence[Solved]) -> dict[str, Any]:
    """The observed part, ready for JSON: how each level was solved, sums over the levels, and the worst bounds.

    A bound that could not be given is null.

    >>> observed_of([Solved(level="us", fast=1, gap=1e-9), Solved(level="state", fast=2)])["worst"]["gap"]
    1e-09
    """
    counted = ("parents", "copied", "empty", "fast", "general", "flows", "programs")
    relaxed = [one for level in solved for one in level.relaxed]
    return {
        "levels": [_json_ready(level.as_json()) for level in solved],
        "totals": {
            **{name: sum(int(getattr(level, name)) for level in solved) for name in counted},
            "relaxed": len(relaxed),
            "relaxed_persons": sum(int(one.amount) for one in relaxed),
        },
        "worst": {
            name: _json_ready(max((float(getattr(level, name)) for level in solved), default=0.0))
            for name in ("gap", "distance", "violation")
        },
    }


def versions() -> dict[str, str]:
    """The versions that a release depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def noise_name(noise: Geometric | DiscreteGaussian) -> str:
    """The distribution's name, as people write it."""
    return "two-sided geometric" if isinstance(noise, Geometric) else "discrete Gaussian"


def _guarantee(strategy: Strategy) -> str:
    budget = text(strategy.budget)
    if strategy.mechanism == "geometric":
        return f"{budget}-differential privacy (pure), {AGREE}"
    return f"zero-concentrated differential privacy with rho = {budget}, {AGREE}"


def _budget(strategy: Strategy) -> dict[str, Any]:
    unit = strategy.unit
    return {
        "unit": unit,
        "total": text(strategy.budget),
        "mechanism": strategy.mechanism,
        "levels": [
            {"level": level, "share": text(share), unit: rounded_up(strategy.budget * share)}
            for level, share in strategy.levels.items()
        ],
        "queries": [
            {
                "level": spend.level,
                "query": spend.query,
                "share": text(spend.share),
                unit: rounded_up(strategy.budget * spend.share),
                "noise": noise_name(spend.noise),
                "parameter": text(_parameter(spend.noise)),
                "sd": math.sqrt(spend.noise.actual_variance()),
            }
            for spend in strategy.spends()
        ],
    }


def _parameter(noise: Geometric | DiscreteGaussian) -> Fraction:
    return noise.z if isinstance(noise, Geometric) else noise.variance


def _only_child(strategy: Strategy, spine: Spine) -> dict[str, Any] | None:
    """The rule, and for each level how many units pay for how many levels: facts of the public spine."""
    if not strategy.only_child:
        return None
    table = []
    for level, shares in unit_shares(strategy, spine).items():
        for span, units in enumerate(np.bincount(shares.spans, minlength=len(shares.shares))):
            if units:
                share = text(shares.shares[span])
                table.append({"level": level, "levels_paid": span, "share": share, "units": int(units)})
    return {"words": _ONLY_CHILD, "units": table}


def _constraints(strategy: Strategy, schema: Schema) -> list[dict[str, str]]:
    """Every constraint once, in words: the strategy's, then the structural zeros of the schema."""
    table = {c.words(): {"source": c.source, "source_in_words": _SOURCES[c.source]} for c in strategy.constraints}
    for zero in schema.zeros:
        words = StructuralZero(cells={name: tuple(labels) for name, labels in zero.items()}).words()
        table.setdefault(words, {"source": "constant", "source_in_words": _SOURCES["constant"]})
    return [{"words": words, **source} for words, source in table.items()]


def _json_ready(value: Any) -> Any:
    """Tuples as lists, NumPy's numbers as Python's, and what is not finite as null."""
    if isinstance(value, Mapping):
        return {key: _json_ready(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json_ready(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
