"""Scans: every person one by one, by hand, on small trees; and a whole simulated release against the prediction."""

import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tallyveil as tv
from tallyveil import Facilities, Histogram, Schema, Spine, Strategy
from tallyveil.errors import InputError
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey
from tallyveil.privacy.constraints import FacilityBounds, Invariant
from tallyveil.risk import Attack, Intruder, noises_of
from tallyveil.risk.scan.groups import grouped
from tallyveil.risk.scan.scan import scan

SCHEMA = Schema(attributes={"home": ["house", "prison"], "age": ["child", "adult"]})
SPINE = Spine.from_columns(
    {"county": ["A", "B", "B", "C", "C"], "block": ["A1", "B1", "B2", "C1", "C2"]}, root="state"
)  # county A has one block
PEOPLE = Histogram.from_entries(
    SPINE, SCHEMA, unit=[0, 0, 1, 1, 2, 3, 4, 4], cell=[0, 1, 1, 3, 3, 2, 0, 1], count=[3, 1, 5, 1, 2, 1, 7, 1]
)
QUERIES = {"total": "1/8", "home": "1/8", "detailed": "3/4"}


def plan(mechanism="gaussian", constraints=(), only_child=True):
    levels = {"state": "1/2", "county": "1/4", "block": "1/4"}
    return Strategy(
        mechanism=mechanism,
        budget=2,
        levels=levels,
        queries=dict.fromkeys(levels, QUERIES),
        only_child=only_child,
        attributes=("home", "age"),
        constraints=constraints,
    )


def test_groups_say_where_people_are_measured_and_with_what_share():
    found = grouped(PEOPLE, plan(), "block")
    own = (("block", Fraction(1, 4)),)
    assert [found.groups[i].measured for i in found.of_unit] == [(("county", Fraction(1, 2)),), *[own] * 4]
    assert found.where["block"].tolist() == [0, 1, 2, 3, 4]
    assert found.where["county"][0] == 0
    counties = grouped(PEOPLE, plan(), "county")
    shares = [dict(counties.groups[i].measured) for i in counties.of_unit]
    assert shares == [{"county": Fraction(1, 2)}, *[{"county": Fraction(1, 4)}] * 2]


def test_without_the_only_child_rule_the_same_people_are_measured_twice():
    for level in ("block", "county"):
        plain = grouped(PEOPLE, plan(only_child=False), level)
        twice = (("block", Fraction(1, 4)), ("county", Fraction(1, 4)))
        assert [plain.groups[i].measured for i in plain.of_unit][:2] == [twice, (twice[level == "county"],)]
    strategy = plan(only_child=False)
    found = scan(PEOPLE, strategy, levels=["block"], attack=Attack(queries=["detailed"])).groups
    noise = strategy.noise("block", "detailed")
    both = Intruder(prior="1/2").against(noise, noise)
    row = found[found.measured_at == "block, county"].iloc[0]
    assert (row.people, row.right_decision) == (4, pytest.approx(both.right_decision, rel=1e-12))


def test_siblings_without_facilities_leave_the_parents_people_to_one_unit():
    bounds = FacilityBounds(attribute="home", level="block", least={"*": 0}, most={"*": 99})
    where = {"attribute": "home", "types": ["house", "prison"]}
    built = Facilities.from_entries(SPINE, **where, unit=[0, 1, 1, 3, 4], kind=[0, 0, 1, 1, 0], count=[1] * 5)
    people = Histogram.from_entries(SPINE, SCHEMA, unit=[0, 1, 3, 4], cell=[0, 3, 2, 0], count=[3, 1, 1, 7])
    found = grouped(people, plan(constraints=(bounds,)), "block", built)
    assert [dict(found.groups[i].measured).keys() for i in found.of_unit] == [
        {"county"},
        {"block", "county"},  # B2 has no facilities
        {"block"},
        {"block"},
        {"block"},
    ]
    kept = plan(constraints=(bounds, Invariant(query="total", level="block")))
    settled = [grouped(people, kept, "block", built).groups[i].settled for i in found.of_unit]
    assert {frozenset(one) for one in settled[3:]} == {frozenset({"total", "home"})}  # one type only, and there


def test_a_chain_of_only_children_is_measured_at_its_top():
    spine = Spine.from_columns({"county": ["A"], "tract": ["A1"], "block": ["A11"]}, root="state")
    people = Histogram.from_entries(spine, SCHEMA, unit=[0], cell=[1], count=[4])
    levels = {"state": "1/2", "county": "1/4", "tract": "1/8", "block": "1/8"}
    chain = Strategy(
        mechanism="gaussian", budget=1, levels=levels, queries=dict.fromkeys(levels, QUERIES), only_child=True
    )
    found = grouped(people, chain, "block")
    assert found.groups[0].measured == (("state", Fraction(1)),)
    assert found.groups[0].settled == {"total"}  # everybody is known exactly under replace-one neighbours


@pytest.mark.parametrize("mechanism", ["gaussian", "geometric"])
@pytest.mark.parametrize("queries", [None, ["detailed"]])
def test_expected_figures_are_those_of_every_person_one_by_one(mechanism, queries):
    strategy = plan(mechanism)
    found = scan(PEOPLE, strategy, priors=["1/2", "1/5"], attack=Attack(queries=queries))
    asked = QUERIES if queries is None else queries
    for level in SPINE.levels:
        truth = PEOPLE.at(level).dense()
        for prior in ("1/2", "1/5"):
            right = posterior = 0.0
            for unit, cells in enumerate(truth):
                at, share = level, strategy.levels[level]
                if level != "state" and SPINE.codes[SPINE.depth(level)][unit].startswith(b"A"):
                    at, share = "county", Fraction(1, 2)
                for count in cells:
                    used = [query for query in asked if not (at == "state" and query == "total")]
                    exposed = Intruder(prior=prior).against(*(strategy.noise(at, q, level_share=share) for q in used))
                    right += count * exposed.right_decision
                    posterior += count * exposed.marginal_posterior
            row = found.levels[(found.levels.level == level) & (found.levels.prior == prior)].iloc[0]
            assert row.people == truth.sum()
            assert row["unique"] == (truth == 1).sum()
            assert row.right_decision == pytest.approx(right / truth.sum(), rel=1e-12)
            assert row.posterior == pytest.approx(posterior / truth.sum(), rel=1e-12)
            assert row.risk == pytest.approx(row.posterior / float(Fraction(prior)), rel=1e-12)


@pytest.mark.parametrize("mechanism", ["gaussian", "geometric"])
def test_figures_after_release_are_bayes_theorem_for_every_person(mechanism):
    strategy = plan(mechanism)
    noisy = measure(PEOPLE, strategy, RunKey.from_seed(5))
    found = scan(PEOPLE, strategy, priors=["1/3"], measurements=noisy, levels=["block", "county"], most=99)
    for level in ("block", "county"):
        truth = PEOPLE.at(level).dense()
        posteriors = np.zeros(truth.shape)
        for unit, cell in np.argwhere(truth):
            at, share = level, strategy.levels[level]
            if SPINE.codes[SPINE.depth(level)][unit].startswith(b"A"):
                at, share = "county", Fraction(1, 2)
            noises, released, known = [], [], []
            for query in QUERIES:
                rows = SCHEMA.query(query)
                row = rows.row_of_cell[cell]
                noises.append(strategy.noise(at, query, level_share=share))
                released.append(int(noisy.ask(at, query, np.array([unit * rows.size + row]))[0]))
                known.append(int(truth[unit][rows.row_of_cell == row].sum()) - 1)
            exposed = Intruder(prior="1/3").against(*noises, known=known)
            posteriors[unit, cell] = exposed.posterior(released)
        row = found.levels[found.levels.level == level].iloc[0]
        assert row.posterior == pytest.approx((posteriors * truth).sum() / truth.sum(), rel=1e-12)
        assert row.right_decision == pytest.approx(truth[posteriors > 0.5].sum() / truth.sum(), rel=1e-12)
        named = found.exposed[found.exposed.level == level]
        assert named.posterior.to_numpy() == pytest.approx(np.sort(posteriors.max(axis=1))[::-1], rel=1e-12)
        spread = found.posteriors[found.posteriors.level == level]
        wanted = np.histogram(posteriors[truth > 0], np.linspace(0, 1, 21), weights=truth[truth > 0])[0]
        assert spread.people.to_numpy() == pytest.approx(wanted)


def test_the_predicted_rate_is_that_of_simulated_releases():
    # 40 releases of a synthetic town; a prediction 10 % off in rate - 1/2 would be many standard errors away.
    rng = np.random.default_rng(3)
    codes = [f"{i:03d}" for i in range(900)]
    spine = Spine.from_columns({"county": [code[0] for code in codes], "block": codes}, root="state")
    some = rng.negative_binomial(0.4, 0.05, (900, 4))
    unit, cell = np.nonzero(some)
    people = Histogram.from_entries(spine, SCHEMA, unit=unit, cell=cell, count=some[unit, cell])
    strategy = Strategy.default(people.spine, people.schema, rho=4)
    leaf = people.spine.leaf
    expected = scan(people, strategy, priors=["1/2", "2/5"], levels=[leaf]).levels
    rates = np.array(
        [
            scan(
                people,
                strategy,
                priors=["1/2", "2/5"],
                levels=[leaf],
                measurements=measure(people, strategy, RunKey.from_seed(11), replicate=replicate),
            ).levels[["right_decision", "posterior", "tie"]]
            for replicate in range(40)
        ]
    )
    error = rates.std(axis=0, ddof=1) / np.sqrt(len(rates))
    wanted = expected[["right_decision", "posterior", "tie"]].to_numpy()
    assert (np.abs(rates.mean(axis=0) - wanted) <= 4 * error + 1e-12).all()
    assert error[0, 0] < 0.02 * abs(wanted[0, 0] - 0.5)


def test_blocks_under_the_2020_strategy_detail_alone():
    above = {level: ["0", "0"] for level in ("state", "county", "tract", "block_group")}
    spine = Spine.from_columns({**above, "block": ["0", "1"]}, root="us")
    preset = Strategy.preset("pl94-2020-us-persons")
    people = Histogram.from_entries(spine, tv.schemas.PERSONS_2020, unit=[0, 1, 1], cell=[0, 0, 9], count=[20, 1, 5])
    found = scan(people, preset, levels=["block"], attack=Attack(queries=["detailed"]))
    assert found.levels.right_decision[0] == pytest.approx(0.5628, abs=5e-5)  # erratum 9
    every = scan(people, preset, levels=["block"])
    assert every.levels.right_decision[0] == pytest.approx(0.5637, abs=5e-5)


def test_exact_counts_settle_what_they_say():
    kept = plan(constraints=(Invariant(query="home", level="block"),))
    group = grouped(PEOPLE, kept, "block").groups[-1]
    assert group.settled == {"home", "total"}
    assert {query for _, query in group.informative_counts(kept)} == {"detailed"}
    assert scan(PEOPLE, kept, attack=Attack(kind="responded"), levels=["block"]).levels.right_decision[0] == 1
    alone = scan(PEOPLE, kept, attack=Attack(kind="attribute", attribute="home"), levels=["block"]).levels
    assert alone.certain[0] == PEOPLE.total()
    assert alone.risk[0] == 2
    age = scan(PEOPLE, kept, attack=Attack(kind="attribute", attribute="age"), levels=["block"]).groups
    strategy_noise = kept.noise("block", "detailed")
    two = Intruder(prior="1/2").against(strategy_noise, strategy_noise)
    assert age[age.measured_at == "block"].right_decision.iloc[0] == pytest.approx(two.right_decision, rel=1e-12)
    assert age[age.measured_at == "block"].tie.iloc[0] == pytest.approx(two.tie, rel=1e-12) != 0


def test_the_only_inmate_of_a_prison_is_given_away():
    bounds = FacilityBounds(attribute="home", level="block", least={"house": 0, "prison": 1}, most={"*": 99})
    built = Facilities.from_entries(
        SPINE,
        attribute="home",
        types=["house", "prison"],
        unit=[0, 1, 1, 2, 3, 4],
        kind=[0, 0, 1, 1, 1, 0],
        count=[3, 3, 1, 1, 1, 9],
    )
    kept = plan(constraints=(bounds,))
    found = scan(PEOPLE, kept, attack=Attack(kind="responded"), levels=["block"], facilities=built)
    assert found.levels.certain[0] == 2  # in B1 and C1; of the two in B2's prison neither
    asked = scan(PEOPLE, kept, levels=["block"], facilities=built).groups
    assert set(asked[asked.settled == "home, total"].queries) == {"detailed"}
    assert asked[asked.settled == "home, total"].people.sum() == 2
    assert set(asked[asked.settled == ""].queries) == {"total, home, detailed"}
    home = scan(
        PEOPLE, kept, attack=Attack(kind="attribute", attribute="home"), levels=["block"], facilities=built
    ).levels
    assert home.certain[0] == PEOPLE.total() - 5  # where there are facilities of one type; in B1 of the inmate only
    age = scan(
        PEOPLE, kept, attack=Attack(kind="attribute", attribute="age"), levels=["block"], facilities=built
    ).levels
    assert age.certain[0] == 0


def test_tables_add_up_and_name_the_most_exposed():
    found = scan(PEOPLE, plan(), priors=["1/2", "1/5"], most=2)
    for level in SPINE.levels:
        for frame in (found.groups, found.cells, found.sizes, found.posteriors):
            part = frame[(frame.level == level) & (frame.prior == "1/5")]
            assert part.people.sum() == pytest.approx(PEOPLE.total())
    blocks = found.exposed[found.exposed.level == "block"]
    assert blocks.unit.tolist()[0] == "A1"  # the most measured
    assert (blocks["count"].tolist()[0], blocks.people.tolist()[0], blocks["unique"].tolist()[0]) == (1, 4, 1)
    assert len(blocks) == 2
    assert found.sizes[(found.sizes.level == "block")]["size"].tolist()[:2] == ["1", "2 to 4"]
    assert found.when == "before"


def test_a_query_named_twice_is_used_once_and_priors_that_are_equal_are_one():
    once = scan(PEOPLE, plan(), attack=Attack(queries=["detailed"]), priors=["1/2"]).levels
    again = scan(
        PEOPLE, plan(), attack=Attack(queries=["detailed", "detailed"]), priors=["1/2", 0.5, Fraction(1, 2)]
    ).levels
    assert again.equals(once)


def test_two_cells_that_differ_in_everything_are_compared_in_every_query_but_the_total():
    strategy = plan()
    found = scan(PEOPLE, strategy, attack=Attack(kind="cell"), levels=["block"]).groups
    noises = [strategy.noise("block", query) for query in ("home", "home", "detailed", "detailed")]
    row = found[found.measured_at == "block"].iloc[0]
    assert row.right_decision == pytest.approx(Intruder(prior="1/2").against(*noises).right_decision, rel=1e-12)
    assert row.queries == "home, detailed"


def test_people_who_can_have_no_other_value_are_given_away():
    schema = Schema(attributes=SCHEMA.attributes, zeros=[{"home": ["prison"], "age": ["child"]}])
    people = Histogram.from_entries(SPINE, schema, unit=[0, 1, 1], cell=[0, 1, 3], count=[3, 5, 2])
    found = scan(people, plan(), attack=Attack(kind="attribute", attribute="age"), levels=["block"])
    assert found.levels.certain[0] == 2  # adults in prison
    assert (
        scan(people, plan(), attack=Attack(kind="attribute", attribute="home"), levels=["block"]).levels.certain[0] == 3
    )


def test_what_was_not_saved_is_expected():
    strategy = plan()
    noisy = measure(PEOPLE, strategy, RunKey.from_seed(5))

    def ask(level, query, index):
        if level != "block":
            raise InputError("not saved")
        return noisy.ask(level, query, index)

    some = replace(noisy, ask=ask)
    found = scan(PEOPLE, strategy, measurements=some, levels=["block"]).groups
    whole = scan(PEOPLE, strategy, measurements=noisy, levels=["block"]).groups
    before = scan(PEOPLE, strategy, levels=["block"]).groups
    figures = ["posterior", "right_decision", "tie"]
    for place, same in (("block", whole), ("county", before)):
        one, other = (frame[frame.measured_at == place][figures].to_numpy() for frame in (found, same))
        assert one == pytest.approx(other)
    spread = scan(PEOPLE, strategy, measurements=some, levels=["block"]).posteriors
    assert spread.people.sum() == pytest.approx(PEOPLE.total())
    assert found.drawn.tolist() == [place == "block" for place in found.measured_at]
    with pytest.raises(InputError, match="nothing of level 'county' was saved"):
        scan(PEOPLE, strategy, measurements=some, levels=["county"])


def test_pieces_and_threads_do_not_change_anything(monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    whole = scan(PEOPLE, plan(), measurements=measure(PEOPLE, plan(), RunKey.from_seed(1)))
    monkeypatch.setattr(sys.modules["tallyveil.risk.scan.pieces"], "PIECE", 2)  # risk.scan is the function, too
    told = []
    with ThreadPoolExecutor(2) as pool:
        pieced = scan(
            PEOPLE,
            plan(),
            measurements=measure(PEOPLE, plan(), RunKey.from_seed(1)),
            run=pool.map,
            progress=lambda *where: told.append(where),
        )
    for name, frame in whole.frames().items():
        other = pieced.frames()[name]
        for column in frame:
            mine, theirs = frame[column].to_list(), other[column].to_list()
            assert mine == (pytest.approx(theirs, rel=1e-12) if frame[column].dtype.kind == "f" else theirs)
    assert told[-1][1] == told[-1][2] > 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"priors": []}, "no prior is given"),
        ({"attack": {"kind": "guess"}}, "unknown attack 'guess'"),
        ({"attack": {"kind": "attribute"}}, "needs the unknown attribute"),
        ({"attack": {"kind": "attribute", "attribute": "shoe"}}, "unknown attribute 'shoe'"),
        ({"levels": ["street"]}, "unknown level 'street'"),
        ({"attack": {"queries": ["shoe"]}}, "shoe"),
        ({"attack": {"queries": []}}, "no query or no level is left"),
        ({"levels": []}, "no query or no level is left"),
        ({"levels": ["block"], "attack": {"queries": ["age"]}}, "query 'age' is not measured at level 'block'"),
    ],
)
def test_scans_that_cannot_be_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        scan(PEOPLE, plan(), **{**given, "attack": Attack(**given.get("attack", {}))})
    noisy = measure(PEOPLE, plan(), RunKey.from_seed(1))
    with pytest.raises(InputError, match="Scan before the release"):
        scan(PEOPLE, plan(), measurements=noisy, attack=Attack(kind="attribute", attribute="age"))


@pytest.mark.parametrize("kind", ["characteristics", "truthful", "cell"])
@pytest.mark.parametrize("constraints", [(), (Invariant(query="home", level="block"),)])
def test_a_strategy_that_declares_no_attributes_exposes_people_as_one_that_does(kind, constraints):
    declared = replace(plan(constraints=constraints), queries={key: {"detailed": 1} for key in plan().levels})
    attack = Attack(kind=kind)
    with_names = scan(PEOPLE, declared, levels=["block"], attack=attack).levels
    without = scan(PEOPLE, replace(declared, attributes=()), levels=["block"], attack=attack).levels
    assert with_names.certain.tolist() == [0]
    assert without.equals(with_names)


@pytest.mark.parametrize("kind", ["characteristics", "cell"])
def test_the_detailed_counts_of_a_strategy_that_declares_no_attributes_are_evidence(kind):
    declared = replace(plan(), queries={key: {"total": "1/4", "detailed": "3/4"} for key in plan().levels})
    for level in declared.levels:
        found = noises_of(replace(declared, attributes=()), level, attack=kind)
        assert found == noises_of(declared, level, attack=kind) != ()


def test_a_table_of_totals_gives_nobody_away_below_the_root():
    spine = Spine.from_columns({"county": ["1", "1", "2"], "block": ["11", "12", "21"]}, root="us")
    schema = Schema(attributes={})
    people = Histogram.from_entries(spine, schema, unit=[0, 1, 2], cell=[0, 0, 0], count=[100, 5, 70])
    found = scan(people, Strategy.default(spine, schema, epsilon=1)).levels.set_index("level")
    assert found.certain.to_dict() == {"us": 175, "county": 0, "block": 0}  # the number of all people is exact
    assert 0.5 < found.posterior["block"] < 0.6
