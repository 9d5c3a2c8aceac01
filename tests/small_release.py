"""A small release with every kind of constraint, made by hand: the released counts are the true ones."""

from dataclasses import replace

from tallyveil import Facilities, Histogram, Schema, Spine, Strategy
from tallyveil.engine.exact_values import exact_values
from tallyveil.engine.run_limits import run_limits
from tallyveil.engine.topdown import topdown
from tallyveil.mechanisms.measure import exact_answers, measure
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.privacy import Bound, FacilityBounds, Invariant, RunKey, StructuralZero
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.declaration import Declared, ExactCounts
from tallyveil.release.declare import SEEDED, declared_of
from tallyveil.release.measurements import Measurements
from tallyveil.release.release import Release
from tallyveil.release.solved import Relaxed, Solved

CODES = {
    "county": ["01", "01", "01", "02", "03", "03"],
    "tract": ["011", "012", "013", "021", "031", "032"],
}
SCHEMA = Schema(attributes={"age": ["child", "adult"], "home": ["house", "prison", "dorm"]})
# the codebook of the table that the people were read from
SOURCE = """
[geography]
root = "us"
levels = ["county", "tract"]
[attributes]
age = ["child", "adult"]
home = ["house", "prison", "dorm"]
[table]
layout = "persons"
ignore = ["income"]
"""
CONSTRAINTS = (
    Invariant(query="total", level="county"),
    FacilityBounds(attribute="home", level="tract", least={"house": 0, "*": 1}, most={"*": 20}),
    StructuralZero(cells={"age": ("child",), "home": ("prison",)}),
    Bound(query="age", level="county", least={"adult": 3}),
)


def small_people() -> Histogram:
    """Six tracts; 013 is empty."""
    spine = Spine.from_columns(CODES, root="us")
    unit, cell, count = [0, 0, 0, 1, 3, 3, 4, 5], [0, 3, 4, 3, 0, 5, 3, 3], [4, 9, 2, 5, 1, 6, 7, 3]
    return Histogram.from_entries(spine, SCHEMA, unit=unit, cell=cell, count=count)


def small_facilities(people: Histogram) -> Facilities:
    unit, kind, count = [0, 0, 1, 2, 3, 3, 4, 5], [0, 1, 0, 0, 0, 2, 0, 0], [5, 1, 3, 1, 1, 1, 3, 2]
    types = people.schema.attributes["home"]
    return Facilities.from_entries(people.spine, attribute="home", types=types, unit=unit, kind=kind, count=count)


def small_strategy(people: Histogram, **budget) -> Strategy:
    plan = Strategy.default(people.spine, people.schema, **(budget or {"rho": 1}))
    return replace(plan, constraints=CONSTRAINTS, only_child=True)


def small_noisy(seed: int = 7, **budget) -> Measurements:
    """What was measured; it can still ask the truth."""
    people = small_people()
    return measure(people, small_strategy(people, **budget), RunKey.from_seed(seed))


def small_release(**budget) -> Release:
    """A release by hand: the counts are not what TopDown would give, and every path of solving is said to be taken."""
    people = small_people()
    plan = small_strategy(people, **budget)
    solved = [
        Solved(level="us", parents=1, fast=1, gap=1e-9),
        Solved(level="county", parents=1, general=1, distance=0.25),
        Solved(level="tract", copied=1, relaxed=(Relaxed(unit="01", amount=2, constraints=("a", "b")),)),
    ]
    return Release(
        histogram=replace(people, stamps=(SEEDED,)),
        strategy=plan,
        certificate=Certificate(declared=small_declared(people, plan), observed=Observed(levels=tuple(solved))),
        facilities=small_facilities(people),
    )


def small_declared(people: Histogram, plan: Strategy) -> Declared:
    values = small_exact_values(people, plan, small_facilities(people))
    return declared_of(plan, people.spine, people.schema, facilities=True, stamps=(SEEDED,), exact_values=values)


def small_exact_values(
    people: Histogram, plan: Strategy, built: Facilities | None = None, optimised: OptimisedSpine | None = None
) -> tuple[ExactCounts, ...]:
    """The counts that the constraints fix, as a certificate must list them."""
    exact = exact_answers(people, plan)
    limits = run_limits(people.spine, people.schema, plan, exact=exact, facilities=built, optimised=optimised)
    return exact_values(limits, plan)


def solved_release(noisy: Measurements) -> Release:
    """The release that TopDown makes of measurements."""
    people, built = small_people(), small_facilities(small_people())
    counts, solved = topdown(noisy, facilities=built)
    certificate = Certificate(declared=small_declared(people, noisy.strategy), observed=Observed(levels=tuple(solved)))
    return Release(histogram=counts, strategy=noisy.strategy, certificate=certificate, facilities=built)
