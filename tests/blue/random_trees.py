"""Random small trees with everything that least squares must cope with, and noisy answers about people on them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import tallyveil as tv
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import Bound, FacilityBounds, Invariant, RunKey, StructuralZero


@dataclass(frozen=True)
class Case:
    """Noisy answers, the facilities that bounds refer to, and what makes the case special."""

    noisy: tv.Measurements
    facilities: tv.Facilities | None
    people: tv.Histogram
    special: tuple[str, ...]


def draw_case(seed: int, *, mean: float = 3.0) -> Case:
    """Unequal fan-out, only children, groupings, zeros, facilities, invariants, split units, both mechanisms.

    A cell that may have people has ``mean`` of them on average.
    """
    rng = np.random.default_rng(seed)
    spine, schema = draw_spine(rng), draw_schema(rng)
    special: list[str] = []
    counts = rng.poisson(mean, (spine.size(spine.leaf), schema.cells)) * schema.possible
    facilities, constraints = None, []
    first = next(iter(schema.attributes))
    if rng.random() < 0.4:  # some units of some level lack some types
        special.append("facilities")
        labels, level = schema.attributes[first], str(rng.choice(spine.levels))
        built = (rng.random((len(counts), len(labels))) < 0.6).astype(int)
        below = spine.leaves_under(level)
        there = np.add.reduceat(built, below[:-1], axis=0) > 0
        counts *= np.repeat(there, np.diff(below), axis=0)[:, schema.query(first).row_of_cell]
        unit, kind = np.nonzero(built)
        facilities = tv.Facilities.from_entries(
            spine, attribute=first, types=labels, unit=unit, kind=kind, count=np.ones(len(unit), int)
        )
        constraints.append(FacilityBounds(attribute=first, level=level, least={"*": 0}, most={"*": 10**9}))
    if rng.random() < 0.25:  # a label that one unit of the second level does not have
        special.append("bound of zero")
        level, name = spine.levels[1], list(schema.attributes)[-1]
        unit, label = int(rng.integers(spine.size(level))), schema.attributes[name][0]
        bounds = spine.leaves_under(level)
        counts[bounds[unit] : bounds[unit + 1], schema.query(name).row_of_cell == 0] = 0
        constraints.append(Bound(query=name, level=level, most={label: 0}, units=[spine.labels(level)[unit]]))
    if rng.random() < 0.25 and len(schema.attributes) > 1:
        special.append("structural zero")
        cells = {name: (labels[-1],) for name, labels in list(schema.attributes.items())[:2]}
        zero = StructuralZero(cells=cells)
        counts *= tv.Schema(attributes=schema.attributes, zeros=[dict(cells)]).possible
        constraints.append(zero)
    optimised = None
    if len(spine.levels) >= 4 and rng.random() < 0.5:
        special.append("split units")
        leaves = np.array(spine.labels(spine.leaf))
        inside = leaves[rng.random(len(leaves)) < 0.4]
        if len(inside):
            tribal = tv.Areas.from_codes(spine, leaf=inside, area=["tribal"] * len(inside))
            optimised = spine.optimised(tribal=tribal)
            constraints = [c for c in constraints if not isinstance(c, Bound)]
    if rng.random() < 0.5:
        special.append("exact totals")
        depth = 1 if optimised is not None else int(rng.integers(len(spine.levels)))
        constraints.append(Invariant(query="total", level=spine.levels[depth]))
    if optimised is None and rng.random() < 0.25:
        special.append("exact query")
        constraints.append(Invariant(query=first, level=str(rng.choice(spine.levels))))
    unit, cell = np.nonzero(counts)
    people = tv.Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=counts[unit, cell])
    strategy = draw_strategy(rng, spine, schema, constraints)
    if strategy.only_child:
        special.append("only children")
    noisy = measure(people, strategy, RunKey.from_seed(seed), optimised=optimised)
    return Case(noisy, facilities, people, (*special, strategy.mechanism))


def draw_spine(rng: np.random.Generator) -> tv.Spine:
    """Three or four levels below or at the root, one to three children each."""
    paths = [("0",)]
    for _ in range(int(rng.integers(1, 4))):
        paths = [(*path, f"{path[-1]}{i}") for path in paths for i in range(int(rng.integers(1, 4)))]
    paths = paths[:12]
    names = ["state", "county", "tract", "block"]
    columns = {name: [path[i + 1] for path in paths] for i, name in enumerate(names[: len(paths[0]) - 1])}
    return tv.Spine.from_columns(columns, root="us")


def draw_schema(rng: np.random.Generator) -> tv.Schema:
    """One to three attributes of one to four labels, perhaps with groupings of one or two of them, and zeros."""
    sizes = rng.integers(1, 5, rng.integers(1, 4))
    while np.prod(sizes) > 24:
        sizes = sizes[:-1]
    attributes = {name: [f"{name}{i}" for i in range(size)] for name, size in zip("abc", sizes, strict=False)}
    groupings = {}
    for name, labels in attributes.items():
        if len(labels) > 2 and rng.random() < 0.4:
            groupings[f"{name}kind"] = tv.Grouping(of=name, groups={"one": labels[:1], "rest": labels[1:]})
    zeros = []
    if len(sizes) > 1 and min(sizes[:2]) > 1 and rng.random() < 0.3:
        zeros = [{"a": ["a0"], "b": ["b1"]}]
    return tv.Schema(attributes=attributes, groupings=groupings, zeros=zeros)


def draw_strategy(rng, spine: tv.Spine, schema: tv.Schema, constraints) -> tv.Strategy:
    """Detailed and some other queries at each level, with uneven shares."""
    names = list(schema.attributes)
    marginals = [" * ".join(some) for size in range(1, len(names)) for some in itertools.combinations(names, size)]
    every = [*marginals, *schema.groupings]
    if len(names) > 1 and "akind" in schema.groupings:
        every.append("akind * b")
    if names != ["a"] or len(schema.attributes["a"]) > 1:
        every.append("total")
    queries = {}
    for level in spine.levels:
        some = [str(name) for name in rng.permutation(every)[: rng.integers(0, 4)]]
        queries[level] = _shares(rng, [*some, "detailed"])
    return tv.Strategy(
        mechanism=str(rng.choice(["geometric", "gaussian"])),
        budget=Fraction(10 ** rng.uniform(-1, 1)).limit_denominator(1000),
        levels=_shares(rng, spine.levels),
        queries=queries,
        only_child=bool(rng.random() < 0.5),
        constraints=tuple(constraints),
        attributes=tuple(names),
        groupings={name: grouping.of for name, grouping in schema.groupings.items()},
    )


def _shares(rng: np.random.Generator, names) -> dict[str, Fraction]:
    parts = [int(part) for part in rng.integers(1, 30, len(names))]
    return {name: Fraction(part, sum(parts)) for name, part in zip(names, parts, strict=True)}
