"""What public pages say an observer can learn, against the noise itself: enumerated, or from a normal distribution."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from html import unescape

import numpy as np
import pytest
from scipy import stats

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.histogram import Filter
from tallyveil.privacy import Bound, Invariant, StructuralZero, sentences
from tallyveil.privacy.conversions import epsilon_but_for_chance, epsilon_from_rho
from tallyveil.privacy.guarantee import guarantee_of
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.shares import unit_shares
from tallyveil.protection.protect import protect
from tallyveil.release.certificate_page import certificate_html
from tallyveil.release.declare import SEEDED, declared_of
from tallyveil.report.learned_exhibit import learned_table
from tallyveil.report.page import report_html

CODES = {"state": ["1", "1", "2"], "tract": ["1a", "1b", "2a"]}
SCHEMA = Schema(attributes={"age": ["child", "adult"], "hiv": ["no", "yes"]})


def people_of(spine: Spine, schema: Schema = SCHEMA, each: int = 9) -> Histogram:
    leaves = spine.size(spine.leaf)
    unit, cell = np.repeat(np.arange(leaves), schema.cells), np.tile(np.arange(schema.cells), leaves)
    keep = schema.possible[cell]
    return Histogram.from_entries(spine, schema, unit=unit[keep], cell=cell[keep], count=[each] * int(keep.sum()))


@pytest.fixture(scope="module")
def people() -> Histogram:
    return people_of(Spine.from_columns(CODES, root="us"))


def plan_of(people: Histogram, *, neighbours: str = "replace-one", **changes) -> Strategy:
    plan = Strategy.default(people.spine, people.schema, **(changes.pop("budget", None) or {"epsilon": 1}))
    return replace(plan, neighbours=neighbours, **changes) if changes or neighbours != plan.neighbours else plan


def text_of(page: str) -> str:
    """The words of a page on one line."""
    page = re.sub(r"<(style|script)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def pages(people: Histogram, plan: Strategy, *, seeded: bool = False, **options) -> tuple[str, str]:
    """The certificate and the report of a release, drawn with a seed, whose stamp is taken off unless asked for."""
    release = protect(people, plan, seed=5, threads=1, **options)
    declared = release.certificate.declared
    if not seeded:
        stamps = tuple(stamp for stamp in declared.stamps if stamp != SEEDED)
        release = replace(release, certificate=replace(release.certificate, declared=replace(declared, stamps=stamps)))
    page = certificate_html(release.certificate.to_json(), release.strategy)
    return text_of(page), text_of(report_html(release))


def test_add_or_remove_bounds_two_records_by_twice_epsilon(people):
    spine, schema = people.spine, people.schema
    plan = Strategy(
        mechanism="geometric", budget=1, levels={"us": 1}, queries={"us": {"detailed": 1}}, neighbours="add-or-remove"
    )
    one_level = Spine.from_columns({"us": ["1"]})
    promised = guarantee_of(Loss(strategy=plan, spine=one_level, schema=schema))
    exact = sum(noise.loss for noise in [plan.noise("us", "detailed")] * 2)  # two cells differ by one each
    assert promised.between_records >= exact > promised.certain
    said = sentences.sureness(promised)
    assert "at most 73.2% sure of it" in said
    assert f"known to be in the data, at most {sentences.most_certain(float(exact))}" in said
    certificate, report = pages(people, plan_of(people, neighbours="add-or-remove"))
    for page in (certificate, report):
        assert "73.2% sure of one" not in page
        assert "known to be in the data, at most 88.1%" in page
    assert spine.levels[0] == "us"


@pytest.mark.parametrize("rho", ["1/2", "1/100", "1/1000"])
def test_the_epsilon_of_sentences_holds_but_for_a_chance_of_delta_and_that_of_the_budget_does_not(rho):
    """The loss of a Gaussian with rho is normal with mean rho and variance 2 rho: an equation of its own."""
    delta = 1e-10
    value = float(Fraction(rho))
    exceeds = [stats.norm.sf((epsilon - value) / math.sqrt(2 * value)) for epsilon in (
        epsilon_but_for_chance(rho, delta), epsilon_from_rho(rho, delta))]  # fmt: skip
    assert exceeds[0] <= delta < exceeds[1]


@pytest.mark.parametrize("accounting", ["zcdp", "pld"])
def test_chances_are_told_with_the_epsilon_that_holds_but_for_them(people, accounting):
    plan = Strategy.default(people.spine, people.schema, rho="1/100")
    plan = plan.with_accounting("pld").with_budget(epsilon="1/2") if accounting == "pld" else plan
    certificate, report = pages(people, plan)
    release = protect(people, plan, seed=5, threads=1)
    rho = Fraction(release.certificate.declared.guarantee.rho)
    epsilon = epsilon_but_for_chance(rho, 1e-10)
    (said,) = set(re.findall(r"can become at most ([0-9.]+%) sure of one of them", f"{certificate} {report}"))
    assert said == sentences.most_certain(epsilon)
    told = math.log(float(said[:-1]) / (100 - float(said[:-1])))  # the loss that the sentence allows
    assert stats.norm.sf((told - float(rho)) / math.sqrt(2 * float(rho))) <= 1e-10
    assert stats.norm.sf((release.certificate.declared.guarantee.epsilon - rho) / math.sqrt(2 * rho)) > 1e-10


def test_what_is_exact_is_said_to_be_unprotected(people):
    plan = plan_of(people, constraints=(Invariant(query="hiv", level="tract"),))
    certificate, report = pages(people, plan)
    for page in (certificate, report):
        assert "both of which agree with all exact counts" in page
        assert "What is exact: someone who knows everybody else can subtract them" in page
    assert re.search(r"epsilon, hiv - not protected: exact counts tell it", certificate)
    assert re.search(r"epsilon, age 0\.\d+ what is revealed", certificate)
    assert "they tell the place, to someone who knows everybody else, down to the tract" in certificate
    table = learned_table(
        guarantee_of(Loss(strategy=plan, spine=people.spine, schema=people.schema)),
        protect(people, plan, seed=1, threads=1),
    )
    bare = table.set_index("about")
    assert math.isinf(bare.epsilon["hiv"])
    assert math.isinf(bare.epsilon["the place within the us"])
    assert bare.epsilon["age"] < 1


@pytest.mark.parametrize(
    "constraints",
    [
        (StructuralZero(cells={"age": ("child",), "hiv": ("yes",)}),),
        (Bound(query="age", level="state", most={"child": 60}),),
        (),
    ],
)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove"])
def test_no_page_says_that_every_count_has_noise(constraints, neighbours):
    schema = Schema(attributes=SCHEMA.attributes, zeros=[{"age": ["child"], "hiv": ["yes"]}] if constraints else [])
    people = people_of(Spine.from_columns(CODES, root="us"), schema)
    certificate, report = pages(people, plan_of(people, neighbours=neighbours, constraints=constraints))
    for page in (certificate, report):
        assert "very count has noise" not in page
        assert "Nothing else is known to be exact" in page or "Nothing is known to be exact" in page


def test_one_record_a_person_is_a_condition_and_not_a_fact(people):
    certificate, report = pages(people, plan_of(people))
    for page in (certificate, report):
        assert "counted once" not in page
        assert "it covers a person provided that each person has one" in page


def test_seeded_and_filtered_releases_promise_no_more_than_they_keep(people):
    _, report = pages(people, plan_of(people), seeded=True)
    assert "What is promised? Nothing: this is a trial with a known seed" in report
    filtered = replace(people, filter=Filter(where={"level": "block"}))
    certificate, report = pages(filtered, plan_of(people))
    for page in (certificate, report):
        assert "both of which pass the filter" in page
        assert "How many people pass the filter: their number is exact" in page


def test_the_average_is_that_of_the_noise_on_the_path_with_the_least(people):
    """With the only-child rule, tract 2a copies state 2, which has the budget of both and so less noise."""
    plan, without = (plan_of(people, budget={"epsilon": 8}, only_child=rule) for rule in (True, False))
    release, other = (protect(people, one, seed=1, threads=1) for one in (plan, without))
    promised = guarantee_of(Loss(strategy=plan, spine=people.spine, schema=people.schema))
    average = learned_table(promised, release).set_index("about").typical["hiv"]
    assert average > learned_table(promised, other).set_index("about").typical["hiv"] + 0.01
    # the average posterior from even odds, by enumeration: state 2 has the share of both levels
    noises = []
    for level, span in (("us", 0), ("state", 1)):
        share = unit_shares(plan, people.spine)[level].of(span)
        noises += [plan.noise(level, query, level_share=share) for query in plan.queries[level]
                   if query in ("hiv", "detailed") for _ in range(2)]  # fmt: skip
    losses = {0: 1.0}
    for z in (float(noise.z) for noise in noises):  # each count has the loss +z or -z
        step = round(z * 10**9)
        up = 1 / (1 + math.exp(-z))
        nearer = {}
        for loss, p in losses.items():
            for change, share in ((step, up), (-step, 1 - up)):
                nearer[loss + change] = nearer.get(loss + change, 0.0) + p * share
        losses = nearer
    exact = sum(p / (1 + math.exp(-loss / 10**9)) for loss, p in losses.items())
    assert average == pytest.approx(exact, abs=1e-9)


def expected_by_covariances(plan: Strategy, schema: Schema, optimised) -> dict[str, float]:
    """The variance of totals of published units: the whole covariance of TopDown on the measured spine, densely."""
    spine, standard = optimised.spine, optimised.standard
    shares = unit_shares(plan, spine)
    above = np.zeros((1, 1))
    for depth, level in enumerate(spine.levels[1:], start=1):
        own = []
        for share in (shares[level].of(u) for u in range(spine.size(level))):
            precision = sum(
                1 / (schema.query(q).size * plan.noise(level, q, level_share=share).actual_variance())
                for q in plan.queries[level]
            )
            own.append(1 / precision)
        n, parents = spine.size(level), len(above)
        parent = np.repeat(np.arange(parents), np.diff(spine.first_child[depth - 1]))
        gain = np.zeros((n, parents))
        together = np.bincount(parent, own)
        gain[np.arange(n), parent] = np.array(own) / together[parent]
        member = np.zeros((n, parents))
        member[np.arange(n), parent] = 1
        project = np.eye(n) - gain @ member.T
        above = project @ np.diag(own) @ project.T + gain @ above @ gain.T
    back = np.empty(len(optimised.leaf), dtype=int)
    back[optimised.leaf] = np.arange(len(back))
    leaves = above[np.ix_(back, back)]
    table = {}
    for level in standard.levels:
        bounds = standard.leaves_under(level)
        sums = np.repeat(np.eye(len(bounds) - 1), np.diff(bounds), axis=1)
        table[level] = float(np.diag(sums @ leaves @ sums.T).mean())
    return table


def test_errors_on_an_optimised_spine_are_those_of_published_units():
    blocks = {
        "state": ["1"] * 6 + ["2"] * 4,
        "tract": ["1a"] * 3 + ["1b"] * 3 + ["2a"] * 2 + ["2b"] * 2,
        "group": ["1a1", "1a1", "1a2", "1b1", "1b2", "1b2", "2a1", "2a2", "2b1", "2b1"],
        "block": [f"b{i}" for i in range(10)],
    }
    spine = Spine.from_columns(blocks, root="us")
    tribal = Areas.from_codes(spine, leaf=["b0", "b4", "b7"], area=["T", "T", "U"])
    places = Areas.from_codes(spine, leaf=["b1", "b2", "b5", "b8"], area=["P", "P", "P", "Q"])
    optimised = spine.optimised(place=places, tribal=tribal)
    plan = replace(Strategy.default(optimised.spine, SCHEMA, rho="1/100"), estimator="topdown", information_from=None)
    made = declared_of(plan, spine, SCHEMA, facilities=False, stamps=(), optimised=optimised)
    found = {one.level: one.sd**2 for one in made.expected_error}
    assert found == pytest.approx(expected_by_covariances(plan, SCHEMA, optimised), rel=1e-9)
    exact = replace(plan, constraints=(Invariant(query="total", level="state"),))
    made = declared_of(exact, spine, SCHEMA, facilities=False, stamps=(), optimised=optimised)
    assert [one.sd for one in made.expected_error][:2] == [0, 0]
    assert ("total", "state") in [(one.query, one.level) for one in made.budget.exact]
