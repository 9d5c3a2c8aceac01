"""Random small trees with random constraints, and what holds of them, worked out without the engine."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from tallyveil import Areas, Facilities, Histogram, Schema, Spine, Strategy
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.spine_optimiser import optimise_spine
from tallyveil.privacy import Bound, FacilityBounds, Invariant, StructuralZero

FREE = 1 << 60
NAMES = ("us", "state", "tract", "block")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """People, what must hold of their release, and perhaps other units to measure on."""

    people: Histogram
    strategy: Strategy
    facilities: Facilities | None
    optimised: OptimisedSpine | None


def random_case(rng: np.random.Generator, *, crowded: bool = False) -> Case:
    """Any tree of two to four levels, any schema of up to three attributes, any mix of constraints.

    A crowded case has more of them, further down and with more noise: conflicts that come from noise are frequent.
    """
    spine = random_spine(rng, int(rng.integers(2, 5)))
    other_units = len(spine.levels) == 4 and rng.random() < 0.6
    levels = (
        [level for level in spine.levels if level != "tract"] if other_units and rng.random() < 0.8 else spine.levels
    )
    schema = Schema(
        attributes={f"a{i}": [f"{i}{c}" for c in range(rng.integers(2, 4))] for i in range(rng.integers(1, 4))}
    )
    leaves = spine.size(spine.leaf)
    table = rng.poisson(rng.choice([0.1, 0.6, 2.0, 300.0]), (leaves, schema.cells))
    constraints = []
    if rng.random() < 0.3 and len(schema.attributes) > 1:
        zero = {name: (schema.attributes[name][0],) for name in ("a0", "a1")}
        constraints.append(StructuralZero(cells=zero))
        table[:, ~Schema(attributes=schema.attributes, zeros=[zero]).possible] = 0
    people = Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(table))
    true = rng.random() < 0.5  # bounds that the people keep, to be checked; else any bounds, unchecked
    facilities = None
    queries = list(rng.permutation(queries_of(schema))[: rng.integers(1, 4)])
    for _ in range(rng.integers(3, 6) if crowded else rng.integers(1, 5)):
        level, query = (
            str(rng.choice(levels[-2:] if crowded else levels)),
            str(rng.choice([*queries, "total"])),
        )
        kind = rng.random()
        if kind < 0.3 and (query == "total" or not crowded):
            constraints.append(Invariant(query=query, level=level))
        elif kind < 0.45 and facilities is None:
            facilities, bound = random_facilities(rng, people, level, true=true)
            constraints.append(bound)
        else:
            constraints.append(random_bound(rng, people, query, level, true=true))
    invariant = any(isinstance(one, Invariant) or (isinstance(one, Bound) and one.pins) for one in constraints)
    names = dict.fromkeys(schema.query(name).name for name in ("total", *schema.attributes, "detailed"))
    strategy = Strategy.proportional(  # also for what is exact, unlike the default
        mechanism=str(rng.choice(["geometric", "gaussian"])),
        budget=str(rng.choice(["1/1000", "1/20", "1", "100000000"][: 2 if crowded else 4])),
        levels=dict.fromkeys(spine.levels, 1),
        queries={level: dict.fromkeys(names, 1) for level in spine.levels},
        attributes=tuple(schema.attributes),
        groupings={name: grouping.of for name, grouping in schema.groupings.items()},
        constraints=tuple(constraints),
        check_constraints=true,
        only_child=bool(rng.random() < 0.3),
        rounding=str(rng.choice(["margins", "cells"])),
        passes={spine.leaf: [["total"], ["*"]]} if rng.random() < 0.2 else {},
        neighbours="add-or-remove" if not invariant and rng.random() < 0.2 else "replace-one",
    )
    return Case(
        people=people,
        strategy=strategy,
        facilities=facilities,
        optimised=random_units(rng, spine, facilities) if other_units else None,
    )


def with_tree(case: Case, rng: np.random.Generator) -> Case:
    """The same case with the tree estimator, and information from any level."""
    levels = list(case.strategy.levels)
    start = str(rng.choice(levels)) if rng.random() < 0.3 else levels[-1]
    passes = {level: [["total"], ["*"]] for level in levels[1:] if rng.random() < 0.3}
    strategy = replace(case.strategy, estimator="tree", information_from=start, passes=passes)
    return replace(case, strategy=strategy)


def random_spine(rng: np.random.Generator, levels: int) -> Spine:
    paths = [("",)]
    for _ in range(levels - 1):
        paths = [(*path, f"{path[-1]}{i}") for path in paths for i in range(rng.choice([1, 1, 2, 3]))]
    columns = list(zip(*(path[1:] for path in paths), strict=True))
    return Spine.from_columns(dict(zip(NAMES[1:levels], map(list, columns), strict=True)), root="us")


def queries_of(schema: Schema) -> list[str]:
    names = list(schema.attributes)
    pairs = [f"{one} * {other}" for i, one in enumerate(names) for other in names[i + 1 :]]
    return [*names, *names, *pairs, "detailed"]


def random_bound(rng: np.random.Generator, people: Histogram, query: str, level: str, *, true: bool) -> Bound:
    asked = people.schema.query(query)
    answers = people.answer(query, level=level).dense()
    units = np.flatnonzero(rng.random(len(answers)) < 0.5) if rng.random() < 0.4 else np.arange(len(answers))
    units = units if len(units) else np.arange(len(answers))
    around = answers[units] if true else np.maximum(answers[units] + rng.integers(-1, 2, answers[units].shape), 0)
    low, high = around.min(axis=0), around.max(axis=0)
    if not true:
        low, high = np.minimum(low, high), np.maximum(low, high)
    rows = asked.labels()
    least = {row: int(low[i]) for i, row in enumerate(rows) if rng.random() < 0.6 and low[i] > 0}
    most = {row: int(high[i] + rng.integers(0, 2)) for i, row in enumerate(rows) if rng.random() < 0.7}
    codes = [people.spine.labels(level)[unit] for unit in units] if len(units) < len(answers) else []
    if not least and not most:
        most = {rows[0]: int(high[0])}
    return Bound(query=asked.name, level=level, least=least, most=most, units=codes)


def random_facilities(
    rng: np.random.Generator, people: Histogram, level: str, *, true: bool
) -> tuple[Facilities, FacilityBounds]:
    spine, types = people.spine, tuple(people.schema.attributes["a0"])
    homes = people.answer("a0", level=spine.leaf).dense()
    built = (homes > 0) * rng.integers(1, 3, homes.shape) if true else rng.integers(0, 2, homes.shape)
    facilities = Facilities(spine=spine, attribute="a0", types=types, leaves=Counts.from_dense(built))
    most = int(homes.max()) if true else int(rng.integers(1, 4))
    return facilities, FacilityBounds(attribute="a0", level=level, least=0, most=max(1, most))


def random_units(rng: np.random.Generator, spine: Spine, facilities: Facilities | None) -> OptimisedSpine:
    """An optimised spine of any shape."""
    leaves = spine.labels(spine.leaf)

    def areas(share: float) -> Areas:
        some = [leaf for leaf in leaves if rng.random() < share] or leaves[:1]
        return Areas.from_codes(spine, leaf=some, area=[f"area{int(rng.integers(2))}" for _ in some])

    return optimise_spine(
        spine,
        tribal=areas(0.4) if rng.random() < 0.7 else None,
        place=areas(0.5) if rng.random() < 0.5 else None,
        facilities=facilities if rng.random() < 0.5 else None,
        household="00",
    )


def rules_of(case: Case) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """Level, query, least and most (units by rows) of all that must hold, on the people's own spine."""
    spine, schema, rules = case.people.spine, case.people.schema, []
    for one in case.strategy.constraints:
        if isinstance(one, Invariant):
            answers = case.people.answer(one.query, level=one.level).dense()
            rules.append((one.level, one.query, answers, answers))
        elif isinstance(one, Bound):
            here = np.isin(spine.labels(one.level), one.units or spine.labels(one.level))[:, None]
            least, most = one.limits(schema)
            rules.append((one.level, one.query, np.where(here, least, 0), np.where(here, most, FREE)))
        elif isinstance(one, FacilityBounds):
            assert case.facilities is not None
            built = case.facilities.at(one.level).dense()
            rules.append((one.level, one.attribute, built * one.least["*"], built * one.most["*"]))
    if case.strategy.neighbours == "replace-one":
        everybody = np.array([[case.people.total()]])
        rules.append((spine.levels[0], "total", everybody, everybody))
    return rules


def open_cells(case: Case) -> np.ndarray:
    zeros = [dict(one.cells) for one in case.strategy.constraints if isinstance(one, StructuralZero)]
    return Schema(attributes=case.people.schema.attributes, zeros=zeros).possible


def what_breaks(case: Case, release: Histogram) -> list[str]:
    """Everything declared that a release does not keep."""
    found = [
        f"{query} at {level}"
        for level, query, least, most in rules_of(case)
        if ((answers := release.answer(query, level=level).dense()) < least).any() or (answers > most).any()
    ]
    return found + (["a structural zero"] if release.leaves.dense()[:, ~open_cells(case)].any() else [])


def can_hold(case: Case) -> bool:
    """Whether some whole counts on the people's own spine keep everything: one program over all leaves and cells."""
    spine, schema = case.people.spine, case.people.schema
    leaves, cells = spine.size(spine.leaf), schema.cells
    parts = []
    for level, query, least, most in rules_of(case):
        starts, rows = spine.leaves_under(level), schema.query(query)
        unit = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        slot = (unit[:, None] * rows.size + rows.row_of_cell).reshape(-1)
        shape = (least.size, leaves * cells)
        matrix = sp.csr_matrix((np.ones(leaves * cells), (slot, np.arange(leaves * cells))), shape=shape)
        parts.append(LinearConstraint(matrix, least.reshape(-1), np.where(most >= FREE, np.inf, most).reshape(-1)))
    highest = np.where(np.tile(open_cells(case), leaves), np.inf, 0)
    size = leaves * cells
    answer = milp(np.zeros(size), integrality=np.ones(size), bounds=Bounds(0, highest), constraints=parts)
    assert answer.status in (0, 2), answer.message
    return answer.status == 0
