"""Random small trees where conditions meet: optimised spines, several invariants, zeros of all kinds, only children,
levels that measure little, and variances of very different size.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

import tallyveil as tv
from blue.random_trees import Case
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import Bound, FacilityBounds, Invariant, RunKey, StructuralZero


def draw_hard_case(seed: int) -> Case:
    """A tree with noisy answers; ``special`` says what it has."""
    rng = np.random.default_rng([seed, 77])
    spine = _spine(rng)
    schema = _schema(rng)
    people = _People(rng, spine, schema)
    for draw in (people.facilities_of_some, people.bounds_of_zero, people.structural_zero):
        draw()
    optimised = _optimised(rng, spine)
    if optimised is not None:
        people.special.append("optimised spine")
    invariants = _invariants(rng, spine, schema, optimised)
    people.special += ["invariant"] * len(invariants)
    constraints = list({str(one.as_toml()): one for one in [*people.constraints, *invariants]}.values())
    strategy, few = _strategy(rng, spine, schema, constraints)
    people.special += [*(["only children"] if strategy.only_child else []), *(["few measured"] if few else [])]
    noisy = measure(people.histogram(), strategy, RunKey.from_seed(seed), optimised=optimised)
    return Case(noisy, people.facilities, people.histogram(), (*people.special, strategy.mechanism))


class _People:
    """Counts on a spine, emptied where constraints say so."""

    def __init__(self, rng: np.random.Generator, spine: tv.Spine, schema: tv.Schema) -> None:
        self.rng, self.spine, self.schema = rng, spine, schema
        mean = float(rng.choice([1, 5, 1000]))
        self.counts = rng.poisson(mean, (spine.size(spine.leaf), schema.cells)) * schema.possible
        self.constraints: list = []
        self.special: list[str] = []
        self.facilities: tv.Facilities | None = None

    def facilities_of_some(self) -> None:
        rng, spine, labels = self.rng, self.spine, self.schema.attributes["a"]
        if rng.random() >= 0.35:
            return
        self.special.append("facilities")
        level = str(rng.choice(spine.levels))
        built = (rng.random((len(self.counts), len(labels))) < 0.6).astype(int)
        below = spine.leaves_under(level)
        there = np.add.reduceat(built, below[:-1], axis=0) > 0
        self.counts *= np.repeat(there, np.diff(below), axis=0)[:, self.schema.query("a").row_of_cell]
        unit, kind = np.nonzero(built)
        self.facilities = tv.Facilities.from_entries(
            spine, attribute="a", types=labels, unit=unit, kind=kind, count=np.ones(len(unit), int)
        )
        self.constraints.append(FacilityBounds(attribute="a", level=level, least={"*": 0}, most={"*": 10**9}))

    def bounds_of_zero(self) -> None:
        rng, spine = self.rng, self.spine
        for _ in range(int(rng.choice([0, 0, 1, 2]))):
            self.special.append("bound of zero")
            level, name = str(rng.choice(spine.levels)), str(rng.choice(list(self.schema.attributes)))
            if rng.random() < 0.3:
                name, label = "total", "total"
            else:
                label = self.schema.attributes[name][0]
            unit, bounds = int(rng.integers(spine.size(level))), spine.leaves_under(level)
            self.counts[bounds[unit] : bounds[unit + 1], self.schema.query(name).row_of_cell == 0] = 0
            units = [spine.labels(level)[unit]]
            self.constraints.append(Bound(query=name, level=level, most={label: 0}, units=units))

    def structural_zero(self) -> None:
        if self.rng.random() >= 0.25 or len(self.schema.attributes) < 2:
            return
        self.special.append("structural zero")
        cells = {name: (labels[-1],) for name, labels in list(self.schema.attributes.items())[:2]}
        self.counts *= tv.Schema(attributes=self.schema.attributes, zeros=[dict(cells)]).possible
        self.constraints.append(StructuralZero(cells=cells))

    def histogram(self) -> tv.Histogram:
        unit, cell = np.nonzero(self.counts)
        return tv.Histogram.from_entries(self.spine, self.schema, unit=unit, cell=cell, count=self.counts[unit, cell])


def _spine(rng: np.random.Generator) -> tv.Spine:
    depth = int(rng.choice([2, 3, 3, 4, 4]))
    paths = [("0",)]
    for _ in range(depth):
        paths = [(*path, f"{path[-1]}{i}") for path in paths for i in range(int(rng.choice([1, 1, 2, 2, 3, 4])))]
    names = ["state", "county", "tract", "block"]
    columns = {name: [path[i + 1] for path in paths[:14]] for i, name in enumerate(names[:depth])}
    return tv.Spine.from_columns(columns, root="us")


def _schema(rng: np.random.Generator) -> tv.Schema:
    sizes = rng.integers(1, 5, rng.integers(1, 4))
    while np.prod(sizes) > 12:
        sizes = sizes[:-1]
    attributes = {name: [f"{name}{i}" for i in range(size)] for name, size in zip("abc", sizes, strict=False)}
    groupings = {}
    for name, labels in attributes.items():
        if len(labels) > 2 and rng.random() < 0.4:
            groupings[f"{name}kind"] = tv.Grouping(of=name, groups={"one": labels[:1], "rest": labels[1:]})
    zeros = []
    if len(sizes) > 1 and min(sizes[:2]) > 1 and rng.random() < 0.2:
        zeros = [{"a": ["a0"], "b": ["b1"]}]
    return tv.Schema(attributes=attributes, groupings=groupings, zeros=zeros)


def _optimised(rng: np.random.Generator, spine: tv.Spine) -> tv.OptimisedSpine | None:
    if len(spine.levels) < 4 or rng.random() >= 0.75:
        return None
    leaves = np.array(spine.labels(spine.leaf))
    chosen = [leaves[rng.random(len(leaves)) < share] for share in (0.4, 0.5)]
    tribal, place = (
        tv.Areas.from_codes(spine, leaf=some, area=["x"] * len(some)) if len(some) and rng.random() < 0.7 else None
        for some in chosen
    )
    return None if tribal is None and place is None else spine.optimised(tribal=tribal, place=place)


def _invariants(
    rng: np.random.Generator, spine: tv.Spine, schema: tv.Schema, optimised: tv.OptimisedSpine | None
) -> list[Invariant]:
    """Up to two, at levels that an optimised spine keeps, or whose split units are parts of the root."""
    levels = [level for level in spine.levels if optimised is None or optimised.keeps(level) or spine.depth(level) == 1]
    queries = ["total", "total", "a", *schema.groupings]
    return [
        Invariant(query=str(rng.choice(queries)), level=str(rng.choice(levels)))
        for _ in range(int(rng.choice([0, 1, 1, 2])))
    ]


def _strategy(
    rng: np.random.Generator, spine: tv.Spine, schema: tv.Schema, constraints: list
) -> tuple[tv.Strategy, bool]:
    names = list(schema.attributes)
    every = [" * ".join(some) for size in range(1, len(names)) for some in itertools.combinations(names, size)]
    every += [*schema.groupings, "total", *(["akind * b"] if "akind" in schema.groupings and len(names) > 1 else [])]
    width, few = float(rng.choice([1, 2, 4])), bool(rng.random() < 0.25)
    queries = {}
    for level in spine.levels:
        some = [str(name) for name in rng.permutation(every)[: rng.integers(0, 4)]]
        some = list(dict.fromkeys(schema.query(name).name for name in some))
        if (not few or rng.random() < 0.6 or not some) and schema.query("detailed").name not in some:
            some.append("detailed")
        queries[level] = _shares(rng, some, width)
    exact = any(isinstance(one, Invariant) or getattr(one, "pins", False) for one in constraints)
    strategy = tv.Strategy(
        mechanism=str(rng.choice(["geometric", "gaussian"])),
        budget=Fraction(10 ** rng.uniform(-2, 2)).limit_denominator(10_000),
        levels=_shares(rng, spine.levels, width),
        queries=queries,
        only_child=bool(rng.random() < 0.5),
        constraints=tuple(constraints),
        attributes=tuple(names),
        neighbours="replace-one" if exact or rng.random() < 0.8 else "add-or-remove",
        groupings={name: grouping.of for name, grouping in schema.groupings.items()},
    )
    return strategy, few


def _shares(rng: np.random.Generator, names, width: float) -> dict[str, Fraction]:
    """Shares that differ by a factor of up to 10 ** width."""
    parts = [Fraction(10 ** rng.uniform(0, width)).limit_denominator(1000) for _ in names]
    return {name: part / sum(parts) for name, part in zip(names, parts, strict=True)}
