"""The loss between neighbours from its definition: every pair of records, every noisy number, one by one.

Nothing here uses the accounting of the library. The noise is taken from the draws themselves: ``measure`` is asked for
every row of every query of every unit, with a ``draw`` that notes the noise it was asked for and returns zeros. A
record is a leaf of the published spine and a cell. Two datasets that differ in one record differ by one in every count
that holds the one record and not the other; each such count costs z (geometric) or 1 / (2 s2) (discrete Gaussian).
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from unittest import mock

import numpy as np
from hypothesis import assume
from hypothesis import strategies as some
from scipy.signal import fftconvolve

from tallyveil import Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Grouping
from tallyveil.privacy import Geometric, Invariant, RunKey, Strategy, StructuralZero

measuring = importlib.import_module("tallyveil.mechanisms.measure")
answering = importlib.import_module("tallyveil.mechanisms.unit_answers")
KEY = RunKey.from_seed(14)


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything public about a measurement: the published spine, the schema, the strategy and where it is measured."""

    spine: Spine
    schema: Schema
    strategy: Strategy
    optimised: OptimisedSpine | None = None

    @property
    def measured(self) -> Spine:
        """The spine whose units are asked about."""
        return self.spine if self.optimised is None else self.optimised.spine

    def people(self, *records: tuple[int, int]) -> Histogram:
        """The dataset with these records."""
        unit, cell = zip(*records, strict=True) if records else ((), ())
        return Histogram.from_entries(self.spine, self.schema, unit=unit, cell=cell, count=[1] * len(records))


def asked(world: World, people: Histogram) -> Iterator[tuple[str, str, int, list, list]]:
    """Ask for everything: level, query, unit, the unit's answers without noise and the noise that goes on each row."""
    calls: list = []

    def draw(noise, stream, index, *, level, query, replicate):  # noqa: ARG001
        calls.append((noise, np.asarray(index)))
        return np.zeros(len(index), dtype=np.int64)

    with mock.patch.object(answering, "draw", draw):
        noisy = measuring.measure(people, world.strategy, KEY, optimised=world.optimised)
        for level in world.strategy.levels:
            for query in noisy.strategy.queries[level]:
                rows = world.schema.query(query).size
                for unit in range(world.measured.size(level)):
                    calls.clear()
                    index = np.arange(unit * rows, (unit + 1) * rows)
                    try:
                        answers = noisy.ask(level, query, index)
                    except InputError as problem:
                        if "not measured" not in str(problem):
                            raise
                        continue
                    noise = {int(place): one for one, places in calls for place in places}
                    assert sum(len(places) for _, places in calls) == rows
                    assert sorted(noise) == index.tolist()  # each answer has one noise, drawn at its own place
                    yield level, query, unit, answers.tolist(), [noise[int(place)] for place in index]


def price(noise) -> Fraction:
    """What it costs that a count with this noise differs by one: z, or rho = 1 / (2 s2)."""
    return noise.z if isinstance(noise, Geometric) else 1 / (2 * noise.variance)


@dataclass(frozen=True)
class Losses:
    """The losses between all pairs of records of a world.

    ``records`` are (leaf, cell). ``between[i, j]`` is the loss when record i is replaced by record j, and ``of[i]``
    when it is removed, both in units of 1 / ``scale``, which makes them whole.
    """

    world: World
    records: list[tuple[int, int]]
    between: np.ndarray
    of: np.ndarray
    scale: int
    places: np.ndarray  # records x (level, query): which noisy number counts the record
    noises: list  # the noise of each noisy number, None where there is none

    def worst(self, *, narrowed: bool = False) -> dict[str, Fraction | None]:
        """The worst loss of each declared figure, None where there is no such pair of neighbours.

        ``narrowed``: only over records that can exist and pairs that agree on all invariants.
        """
        allowed = self._allowed() if narrowed else np.ones(self.between.shape, dtype=bool)
        leaf, cell = np.array(self.records).T
        labels = np.array(np.unravel_index(cell, self.world.schema.shape))
        same_leaf, same_cell = leaf[:, None] == leaf, cell[:, None] == cell
        other = ~(same_leaf & same_cell)
        found = {}
        if self.world.strategy.neighbours == "replace-one":
            found["in all"] = self._most(allowed & other)
        else:
            possible = np.diag(allowed)
            found["in all"] = Fraction(int(max(self.of[possible])), self.scale) if possible.any() else None
        for axis, name in enumerate(self.world.schema.attributes):
            elsewhere = np.delete(labels, axis, axis=0)
            alike = (elsewhere[:, :, None] == elsewhere[:, None, :]).all(axis=0)
            found[f"attribute {name}"] = self._most(allowed & same_leaf & alike & ~same_cell)
        for level in self.world.spine.levels[:-1]:
            unit = owner(self.world.spine, level)[leaf]
            found[f"within {level}"] = self._most(allowed & same_cell & (unit[:, None] == unit) & ~same_leaf)
        return found

    def signatures(self, *, most: int) -> list[Counter]:
        """The noises that differ between neighbours, for the pairs of greatest loss, different ones only."""
        pairs: list[tuple[int, ...]] = [(i,) for i in range(len(self.records))]
        losses = list(self.of)
        if self.world.strategy.neighbours == "replace-one":
            i, j = np.triu_indices(len(self.records), k=1)
            pairs, losses = list(zip(i.tolist(), j.tolist(), strict=True)), list(self.between[i, j])
        allowed, seen = self._allowed(), []
        for at in sorted(range(len(pairs)), key=lambda at: -losses[at])[:2000]:
            if not allowed[pairs[at][0], pairs[at][-1]]:
                continue
            rows = self.places[list(pairs[at])]
            numbers = rows[:, (rows != rows[0]).any(axis=0)] if len(rows) == 2 else rows
            noises = Counter(self.noises[n].variance for n in numbers.ravel() if self.noises[n] is not None)
            if noises not in seen and not any(noises <= one for one in seen):
                seen.append(noises)
            if len(seen) == most:
                break
        return seen

    def _most(self, pairs: np.ndarray) -> Fraction | None:
        return Fraction(int(max(self.between[pairs])), self.scale) if pairs.any() else None

    def _allowed(self) -> np.ndarray:
        schema, strategy = self.world.schema, self.world.strategy
        leaf, cell = np.array(self.records).T
        possible = schema.possible.copy()
        pairs = np.ones((len(leaf), len(leaf)), dtype=bool)
        for constraint in strategy.constraints:
            if isinstance(constraint, StructuralZero):
                possible &= Schema(attributes=schema.attributes, zeros=[constraint.cells]).possible
            if isinstance(constraint, Invariant):
                unit = owner(self.world.spine, constraint.level)[leaf]
                row = schema.query(constraint.query).row_of_cell[cell]
                pairs &= (unit[:, None] == unit) & (row[:, None] == row)
        return pairs & possible[cell] & possible[cell][:, None]


def losses_of(world: World, records: list[tuple[int, int]] | None = None) -> Losses:
    """The losses between all records of a world, or between some."""
    if records is None:
        records = list(product(range(world.spine.size(world.spine.leaf)), range(world.schema.cells)))
    first = int(np.flatnonzero(world.schema.possible)[0])
    tables: dict[tuple[str, str], list[list]] = {}
    for level, query, unit, _, noise in asked(world, world.people((0, first))):
        rows = tables.setdefault((level, query), [])
        rows += [[None] * len(noise)] * (unit - len(rows)) + [noise]
    leaf, cell = np.array(records).T
    places, noises = [], []
    for (level, query), rows in tables.items():
        size = world.schema.query(query).size
        rows = rows + [[None] * size] * (world.measured.size(level) - len(rows))
        unit = owner(world.measured, level)[position(world)[leaf]]
        places.append(len(noises) + unit * size + world.schema.query(query).row_of_cell[cell])
        noises += [one for row in rows for one in row]
    costs = [Fraction(0) if noise is None else price(noise) for noise in noises]
    scale = math.lcm(*(cost.denominator for cost in set(costs)))
    whole = np.array([int(cost * scale) for cost in costs], dtype=object)  # exact at any size
    if 2 * len(places) * int(max(whole)) < 1 << 62:
        whole = whole.astype(np.int64)
    place = np.array(places).T
    between = np.zeros((len(records), len(records)), dtype=whole.dtype)
    for column in place.T:
        cost = whole[column]
        between = between + np.where(column[:, None] != column, cost[:, None] + cost, 0)
    return Losses(world, records, between, whole[place].sum(axis=1), scale, place, noises)


def owner(spine: Spine, level: str) -> np.ndarray:
    """For each leaf of a spine, its unit of a level, found by walking up."""
    unit = np.arange(spine.size(spine.leaf))
    for first_child in spine.first_child[spine.depth(level) :][::-1]:
        unit = np.array([max(p for p in range(len(first_child) - 1) if first_child[p] <= u) for u in unit])
    return unit


def position(world: World) -> np.ndarray:
    """Where each leaf of the published spine is on the spine that is measured; leaves keep their codes there."""
    codes = world.measured.labels(world.spine.leaf)
    return np.array([codes.index(code) for code in world.spine.labels(world.spine.leaf)])


# --- privacy loss distributions of discrete Gaussians, by convolution


def least_epsilon(noises: Counter, delta: float, *, grid: float = 1e-4) -> float:
    """The epsilon that this delta needs, when a count of each noise (by variance parameter) differs by one.

    Losses are exact for one variance. Sums over several are rounded down to a grid where they would be too many, so the
    result is never more than the true one, and less by at most ``grid`` for each variance.
    """
    loss, mass = np.zeros(1), np.ones(1)
    for variance, times in noises.items():
        one_loss, one_mass = _losses_of_gaussians(float(variance), times)
        if len(loss) * len(one_loss) <= 2_000_000:
            loss = np.add.outer(loss, one_loss).ravel()
            mass = np.multiply.outer(mass, one_mass).ravel()
            loss, mass = loss[mass > 1e-30], mass[mass > 1e-30]
        else:
            first, second = _on_grid(loss, mass, grid), _on_grid(one_loss, one_mass, grid)
            mass = np.maximum(fftconvolve(first[1], second[1]), 0.0)
            loss = (first[0] + second[0] + np.arange(len(mass))) * grid
    low, high = 0.0, float(loss.max())
    if _delta(loss, mass, 0.0) <= delta:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(loss, mass, middle) > delta else (low, middle)
    return low


def _losses_of_gaussians(variance: float, times: int) -> tuple[np.ndarray, np.ndarray]:
    """The loss of ``times`` discrete Gaussians, each shifted by one: (times - 2 sum) / (2 variance)."""
    reach = math.ceil(math.sqrt(2 * variance * 100)) + 2
    k = np.arange(-reach, reach + 1)
    one = np.exp(-(k**2) / (2 * variance))
    one /= one.sum()
    mass = np.ones(1)
    for _ in range(times):
        mass = np.convolve(mass, one)
    total = np.arange(len(mass)) - times * reach
    kept = mass > 1e-30
    return (times - 2 * total[kept]) / (2 * variance), mass[kept]


def _on_grid(loss: np.ndarray, mass: np.ndarray, grid: float) -> tuple[int, np.ndarray]:
    down = np.floor(loss / grid).astype(np.int64)
    return int(down.min()), np.bincount(down - down.min(), weights=mass)


def _delta(loss: np.ndarray, mass: np.ndarray, epsilon: float) -> float:
    """The hockey-stick divergence at exp(epsilon)."""
    above = loss > epsilon
    return float(np.sum(mass[above] * -np.expm1(epsilon - loss[above])))


# --- random worlds


@some.composite
def trees(draw, *, depths=(2, 3, 4, 3, 4, 1), most_leaves: int = 7) -> Spine:
    """Trees with only children, chains, single leaves and families of different sizes."""
    depth = draw(some.sampled_from(depths))
    paths: list[tuple[str, ...]] = [("r",)]
    for at in range(1, depth):
        grown: list[tuple[str, ...]] = []
        for i, path in enumerate(paths):
            room = most_leaves - len(grown) - (len(paths) - i - 1)
            children = min(room, draw(some.sampled_from([1, 2, 1, 3] if at < depth - 1 else [2, 1, 3, 4])))
            grown += [(*path, f"{path[-1]}{child}") for child in range(children)]
        paths = grown
    names = ("land", "state", "group", "block")[4 - depth :]
    return Spine.from_columns({name: [path[i] for path in paths] for i, name in enumerate(names)})


@some.composite
def optimised_spines(draw, spine: Spine) -> OptimisedSpine:
    """The spine optimised for random tribal areas and places."""
    leaves = spine.labels(spine.leaf)

    def areas(names):
        inside = {leaf: name for leaf in leaves if (name := draw(some.sampled_from([*names, ""])))}
        return Areas.from_codes(spine, leaf=list(inside), area=list(inside.values())) if inside else None

    return spine.optimised(tribal=areas(["Pueblo"]), place=areas(["Troy", "Rome"]))


@some.composite
def schemas(draw, most_cells: int = 12) -> Schema:
    """One to three attributes, up to two groupings of each, sometimes cells that cannot exist."""
    sizes: list[int] = []
    for _ in range(draw(some.integers(1, 3))):
        sizes.append(min(draw(some.sampled_from([2, 3, 4, 1])), most_cells // math.prod(sizes)))
    attributes = {
        name: [f"{name}{i}" for i in range(size)] for name, size in zip(("age", "home", "sex"), sizes, strict=False)
    }
    groupings = {}
    for name, labels in attributes.items():
        for number in range(draw(some.sampled_from([0, 1, 2]))):
            group = [draw(some.integers(0, 2)) for _ in labels]
            groups = {f"{g}": [x for x, at in zip(labels, group, strict=True) if at == g] for g in sorted(set(group))}
            groupings[f"{name}_{number}"] = Grouping(of=name, groups=groups)
    zeros = []
    if draw(some.sampled_from([False, False, True])):
        names = draw(some.lists(some.sampled_from(list(attributes)), min_size=1, unique=True))
        zeros.append({name: [draw(some.sampled_from(attributes[name]))] for name in names})
    schema = Schema(attributes=attributes, groupings=groupings, zeros=zeros)
    assume(schema.possible.any())
    return schema


def queries_of(schema: Schema) -> list[str]:
    """Every query that can be asked, each once."""
    factors = [
        ["", name, *(g for g, grouping in schema.groupings.items() if grouping.of == name)]
        for name in schema.attributes
    ]
    texts = [" * ".join(filter(None, choice)) or "total" for choice in product(*factors)]
    return [schema.query(text).name for text in texts]


@some.composite
def strategies(draw, spine: Spine, schema: Schema, *, mechanisms=("geometric", "gaussian"), invariants=True):
    """A strategy with random queries and shares, both mechanisms, both neighbours, the only-child rule or not."""
    weights = some.integers(1, 5)
    known = queries_of(schema)
    levels = {level: draw(weights) for level in spine.levels}
    queries = {
        level: {query: draw(weights) for query in draw(some.lists(some.sampled_from(known), min_size=1, max_size=4))}
        for level in levels
    }
    used = {factor for table in queries.values() for query in table for factor in query.split(" * ")}
    groupings = {name: grouping.of for name, grouping in schema.groupings.items()}
    fields: dict = {"attributes": tuple(schema.attributes), "groupings": groupings}
    if draw(some.booleans()):  # attributes found from the queries
        fields = {"groupings": {name: of for name, of in groupings.items() if name in used}}
    neighbours = draw(some.sampled_from(["replace-one", "add-or-remove"]))
    constraints: tuple = ()
    if invariants and neighbours == "replace-one" and draw(some.sampled_from([False, True, False])):
        constraints = (Invariant(query=draw(some.sampled_from(known)), level=draw(some.sampled_from(spine.levels))),)
    return Strategy.proportional(
        mechanism=draw(some.sampled_from(mechanisms)),
        budget=draw(some.sampled_from([Fraction(1), Fraction(1, 3), Fraction(10)])),
        delta=draw(some.sampled_from(["1e-10", "1e-5"])),
        levels=levels,
        queries=queries,
        neighbours=neighbours,
        only_child=draw(some.sampled_from([True, False])),
        constraints=constraints,
        **fields,
    )


@some.composite
def default_worlds(draw) -> World:
    """The default with up to two invariants, with the only-child rule or not, sometimes on an optimised spine."""
    optimise = draw(some.booleans())
    spine = draw(trees(depths=(4,) if optimise else (2, 3, 4, 3)))
    schema = draw(schemas(most_cells=6))
    optimised = draw(optimised_spines(spine)) if optimise else None
    invariant = some.builds(
        lambda query, level: Invariant(query=query, level=level),
        some.sampled_from(queries_of(schema)),
        some.sampled_from(spine.levels),
    )
    budget, kept = draw(some.sampled_from([{"epsilon": 1}, {"rho": "1/3"}])), draw(some.lists(invariant, max_size=2))
    try:
        strategy = Strategy.default(spine, schema, **budget, invariants=kept, optimised=optimised)
    except InputError:
        assume(False)  # every count is exact
    strategy = replace(strategy, only_child=draw(some.booleans()))
    return World(spine=spine, schema=schema, strategy=strategy, optimised=optimised)


@some.composite
def worlds(draw, **kinds) -> World:
    """A random tree, schema and strategy."""
    spine, schema = draw(trees()), draw(schemas())
    return World(spine=spine, schema=schema, strategy=draw(strategies(spine, schema, **kinds)))


@some.composite
def optimised_worlds(draw, **kinds) -> World:
    """A random world that is measured on an optimised spine; invariants only where its units are the published ones."""
    spine, schema = draw(trees(depths=(4,))), draw(schemas(most_cells=6))
    strategy = draw(strategies(spine, schema, **kinds))
    kept = [c for c in strategy.constraints if c.level in (spine.levels[0], spine.leaf)]
    optimised = draw(optimised_spines(spine))
    return World(spine=spine, schema=schema, strategy=replace(strategy, constraints=kept), optimised=optimised)
