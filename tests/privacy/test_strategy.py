import pickle
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import BudgetError, InputError, LedgerError, StrategyError
from tallyveil.nouns.schema import Grouping, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy import (
    Bound,
    DiscreteGaussian,
    FacilityBounds,
    Geometric,
    Invariant,
    Ledger,
    Strategy,
    StructuralZero,
    unit_shares,
)
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml

TWO_LEVELS = {"us": "1/2", "state": "1/2"}
QUERIES = {"us": {"detailed": 1}, "state": {"total": "1/4", "age * race": "3/4"}}


def plan(**fields) -> Strategy:
    given_ = {"mechanism": "gaussian", "budget": 1, "levels": TWO_LEVELS, "queries": QUERIES}
    return Strategy(**(given_ | fields))


def test_gaussian_noise_has_variance_one_over_rho_of_the_query_and_half_that_for_add_or_remove():
    share = Fraction(1, 8)
    assert plan(budget="2").noise("state", "total") == DiscreteGaussian(variance=1 / (2 * share))
    assert plan(budget="2", neighbours="add-or-remove").noise("state", "total") == DiscreteGaussian(
        variance=1 / (4 * share)
    )


def test_geometric_noise_has_half_the_querys_epsilon_and_all_of_it_for_add_or_remove():
    geometric = plan(mechanism="geometric", budget="2")
    assert geometric.noise("state", "total") == Geometric(z="1/8")
    assert plan(mechanism="geometric", budget="2", neighbours="add-or-remove").noise("state", "total") == Geometric(
        z="1/4"
    )


def test_shares_that_do_not_sum_to_one_are_refused_with_the_total():
    with pytest.raises(BudgetError, match=r"levels sum to 3/4, not 1 \(us=1/2, state=1/4\)\. Rescale them"):
        plan(levels={"us": "1/2", "state": "1/4"})
    with pytest.raises(BudgetError, match=r"queries of level 'state' sum to 1/2, not 1"):
        plan(queries={"us": {"detailed": 1}, "state": {"total": "1/4", "age": "1/4"}})


def test_float_shares_are_the_decimals_people_wrote():
    tenths = {f"l{i}": 0.1 for i in range(10)}
    assert sum(plan(levels=tenths, queries={level: {"total": 1} for level in tenths}).levels.values()) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"budget": -1}, r"rho must be greater than 0\. Got -1"),
        ({"budget": float("nan")}, r"rho must be a finite number\. Got nan"),
        ({"budget": 0}, r"rho must be greater than 0"),
        ({"budget": "one"}, r"rho must be a number such as .* Got 'one'"),
        ({"budget": None}, r"rho must be a number\. Got None"),
        ({"mechanism": "geometric", "budget": -2}, r"epsilon must be greater than 0"),
        ({"delta": 0}, r"delta must be greater than 0"),
        ({"delta": "1"}, r"delta must be less than 1 .* Got 1"),
        ({"mechanism": "laplace"}, r'mechanism must be "geometric" or "gaussian"\. Got \'laplace\''),
        ({"neighbours": "any"}, r'neighbours must be "replace-one" or "add-or-remove"'),
        ({"rounding": "up"}, r'rounding must be "margins" or "cells"'),
        ({"levels": {"us": "3/2", "state": "-1/2"}}, r"share of 'state' in levels must be 0 or more\. Got -1/2"),
        ({"queries": {"us": {"total": 1}}}, r"level 'state' has no queries"),
        ({"queries": QUERIES | {"tract": {"total": 1}}}, r"unknown level 'tract'\. The levels are us, state"),
        (
            {"queries": {"us": {"total": 1}, "state": {"a * b": "1/2", "b*a": "1/2"}}},
            r"queries of level 'state': one is named twice",
        ),
        ({"queries": {"us": {"total * a": 1}, "state": {"total": 1}}}, r"'total' and 'detailed' cannot be part"),
        ({"passes": {"state": [["race"], ["*"]]}}, r"query 'race' is not measured there \(total, age \* race\)"),
        ({"passes": {"tract": [["*"]]}}, r"passes of unknown level 'tract'"),
        ({"constraints": [Invariant(query="total", level="tract")]}, r"unknown level 'tract'"),
    ],
)
def test_a_wrong_field_is_refused_with_its_value_and_a_remedy(fields, message):
    with pytest.raises(InputError, match=message):
        plan(**fields)


def test_an_invariant_is_refused_with_add_or_remove_neighbours():
    with pytest.raises(BudgetError, match=r'"add-or-remove" with an invariant.*Drop the invariant'):
        plan(neighbours="add-or-remove", constraints=[Invariant(query="total", level="us")])


def test_a_strategy_is_frozen_and_survives_pickling():
    one = plan(constraints=[FacilityBounds(attribute="hhgq", level="state", least=1, most=99)])
    with pytest.raises(TypeError, match="frozen"):
        one.levels["us"] = Fraction(1)
    assert pickle.loads(pickle.dumps(one)) == one


def test_proportional_rescales_weights_exactly():
    weights = Strategy.proportional(
        mechanism="geometric",
        budget=1,
        levels={"a": 1, "b": 2},
        queries={"a": {"total": 3}, "b": {"total": 1, "x": 6}},
    )
    assert dict(weights.levels) == {"a": Fraction(1, 3), "b": Fraction(2, 3)}
    assert weights.share("b", "x") == Fraction(2, 3) * Fraction(6, 7)


def test_the_default_gives_equal_shares_and_nothing_to_the_roots_total():
    spine = Spine.from_columns({"a": ["1", "2"]}, root="us")
    schema = Schema(attributes={"age": ["c", "a"], "race": ["x", "y"]})
    default = Strategy.default(spine, schema, epsilon=1)
    assert dict(default.levels) == {"us": Fraction(1, 2), "a": Fraction(1, 2)}
    assert dict(default.queries["us"]) == {q: Fraction(1, 3) for q in ("age", "race", "detailed")}
    assert dict(default.queries["a"]) == {q: Fraction(1, 4) for q in ("total", "age", "race", "detailed")}
    assert default.mechanism == "geometric"
    assert Strategy.default(spine, schema, rho=1).mechanism == "gaussian"


def test_the_default_counts_a_query_named_twice_once():
    spine = Spine.from_columns({"a": ["1", "2"]}, root="us")
    default = Strategy.default(spine, Schema(attributes={"age": ["c", "a"]}), epsilon=1)
    assert list(default.queries["a"]) == ["total", "detailed"]
    assert dict(default.queries["us"]) == {"detailed": Fraction(1)}


@pytest.mark.parametrize("budget", [{}, {"epsilon": 1, "rho": 1}])
def test_the_default_needs_one_budget(budget):
    spine = Spine.from_columns({"a": ["1"]})
    with pytest.raises(BudgetError, match="give a budget"):
        Strategy.default(spine, Schema(attributes={"age": ["c", "a"]}), **budget)


def test_an_epsilon_for_a_gaussian_strategy_means_the_largest_rho_for_it():
    from tallyveil.privacy import epsilon_from_rho

    chosen = plan().with_budget(epsilon=2)
    assert epsilon_from_rho(chosen.budget, chosen.delta) <= 2
    assert epsilon_from_rho(chosen.budget * Fraction(1_000_001, 1_000_000), chosen.delta) > 2
    with pytest.raises(BudgetError, match="Give epsilon"):
        plan(mechanism="geometric").with_budget(rho=1)


fractions = st.fractions(min_value=Fraction(1, 1000), max_value=1000)
names = st.text("abcdefgh_", min_size=1, max_size=6)


@st.composite
def any_strategy(draw):
    levels = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    attributes = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    queries = st.sampled_from(["total", "detailed", *attributes, " * ".join(attributes)])
    weights = st.dictionaries(queries, fractions, min_size=1)
    return Strategy.proportional(
        mechanism=draw(st.sampled_from(["geometric", "gaussian"])),
        budget=draw(fractions),
        delta=draw(st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1, 2))),
        levels={level: draw(fractions) for level in levels},
        queries={level: draw(weights) for level in levels},
        only_child=draw(st.booleans()),
        attributes=attributes,
        constraints=draw(
            st.lists(
                st.sampled_from(
                    [
                        Invariant(query="total", level=levels[0]),
                        StructuralZero(cells={"a": ("x", "y")}),
                        FacilityBounds(attribute="h", level=levels[-1], least={"x": 0, "*": 1}, most=99),
                        Bound(query="total", level=levels[0], most=9),
                        Bound(query="a", level=levels[-1], least={"x": 2, "*": 1}, most={"x": 2}, units=["1", "2"]),
                    ]
                )
            )
        ),
    )


@given(any_strategy())
def test_a_strategy_written_as_toml_reads_back_the_same(strategy):
    assert strategy_from_toml(strategy_to_toml(strategy)) == strategy


@given(any_strategy())
def test_the_spends_of_a_strategy_add_up_to_its_budget(strategy):
    ledger = Ledger(strategy)
    for spend in strategy.spends():
        ledger.spend(spend.level, spend.query, spend.share * strategy.budget)
    ledger.close()
    assert ledger.total() == strategy.budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mechanism = ", "not TOML"),
        ('mechanism = "geometric"\nepsilon = "1"\n', "fields 'levels', 'queries' are missing"),
        ('mechanism = "geometric"\nbudget = 1\nlevels = {a = "1"}\nqueries = {total = "1"}', "unknown field 'budget'"),
        ('mechanism = "geometric"\nrho = "1"\nlevels = {a = "1"}\nqueries = {total = "1"}', "takes epsilon, not rho"),
        ('mechanism = "geometric"\nlevels = {a = "1"}\nqueries = {total = "1"}', "no budget. Give epsilon"),
        (
            'mechanism = "geometric"\nepsilon = 1\nlevels = {a = "1"}\nqueries = {total = "1", b = {total = "1"}}',
            "unknown level 'b'",
        ),
        (
            'mechanism = "geometric"\nepsilon = 1\nlevels = {a = "1"}\nqueries = {total = "1"}\n'
            '[[constraints]]\ninvariants = "total"',
            "constraint with invariants: not understood",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        Strategy.read(file)
    assert str(file) in str(caught.value)


def test_a_levels_own_queries_replace_those_for_every_level():
    strategy = strategy_from_toml(
        'mechanism = "geometric"\nepsilon = "1"\nlevels = {us = "1/2", state = "1/2"}\n'
        '[queries]\ntotal = "1"\n[queries.us]\ndetailed = "1"\n'
    )
    assert dict(strategy.queries["us"]) == {"detailed": 1}
    assert dict(strategy.queries["state"]) == {"total": 1}


def test_a_strategy_for_other_levels_or_attributes_is_an_error_that_lists_both():
    spine = Spine.from_columns({"state": ["1"], "county": ["11"]}, root="us")
    schema = Schema(attributes={"age": ["c", "a"], "race": ["x", "y"]})
    with pytest.raises(InputError, match=r"levels us, state; the data has us, state, county"):
        plan().check(spine, schema)
    spine = Spine.from_columns({"state": ["1"]}, root="us")
    plan().check(spine, schema)
    with pytest.raises(InputError, match=r"attributes age, race; the data has age\."):
        plan().check(spine, Schema(attributes={"age": ["c", "a"]}))


def test_an_only_childs_share_goes_to_its_parent_and_every_path_sums_to_one():
    rows = [("1", "1a", "1a1"), ("2", "2a", "2a1"), ("2", "2b", "2b1"), ("2", "2b", "2b2")]
    columns = dict(zip(("state", "county", "tract"), map(list, zip(*rows, strict=True)), strict=True))
    spine = Spine.from_columns(columns, root="us")
    levels = {"us": "1/10", "state": "2/10", "county": "3/10", "tract": "4/10"}
    queries = {level: {"detailed": 1} for level in levels}
    rule = unit_shares(plan(levels=levels, queries=queries, only_child=True), spine)
    tenths = {level: [rule[level].of(u) * 10 for u in range(spine.size(level))] for level in spine.levels}
    assert tenths == {"us": [1], "state": [9, 2], "county": [0, 7, 3], "tract": [0, 0, 4, 4]}
    plain = unit_shares(plan(levels=levels, queries=queries), spine)
    assert [plain["county"].of(u) for u in range(3)] == [Fraction(3, 10)] * 3
    for leaf in range(spine.size("tract")):
        path, unit = Fraction(0), leaf
        for level in reversed(spine.levels):
            path += rule[level].of(unit)
            unit = int(spine.parents(level)[unit]) if level != "us" else unit
        assert path == 1


def test_the_ledger_refuses_what_the_strategy_does_not_allow():
    ledger = Ledger(plan())
    with pytest.raises(LedgerError, match=r"us race: 1 rho spent, but the strategy does not measure it"):
        ledger.spend("us", "race", Fraction(1))
    with pytest.raises(LedgerError, match=r"us detailed: 1 rho spent, but the strategy allows 1/2"):
        ledger.spend("us", "detailed", Fraction(1))
    ledger.spend("us", "detailed", Fraction(1, 2))
    with pytest.raises(LedgerError, match="a second time"):
        ledger.spend("us", "detailed", Fraction(1, 2))
    with pytest.raises(LedgerError, match=r"1/2 of 1 rho is spent; not spent: state total \(1/8\), state age \* race"):
        ledger.close()


def test_a_grouping_depends_on_its_attribute():
    strategy = plan(queries={"us": {"kind": 1}, "state": {"age": 1}}, groupings={"kind": "home"})
    assert strategy.known_attributes == ("home", "age")
    assert strategy.depends_on("kind") == {"home"}
    assert strategy.depends_on("detailed") == {"home", "age"}
    assert strategy.depends_on("total") == set()
    schema = Schema(
        attributes={"home": ["h", "g"], "age": ["c", "a"]},
        groupings={"kind": Grouping(of="home", groups={"h": ["h"], "g": ["g"]})},
    )
    strategy.check(Spine.from_columns({"state": ["1"]}, root="us"), schema)


def test_a_misspelt_query_is_refused_where_the_attributes_are_known():
    with pytest.raises(InputError, match=r"unknown factor 'rase' in 'rase'\. Known are race"):
        plan(queries={"us": {"detailed": 1}, "state": {"rase": 1}}, attributes=("race",))


def test_a_truth_value_written_as_text_is_refused():
    with pytest.raises(InputError, match=r"only_child must be true or false\. Got 'no'"):
        plan(only_child="no")


def test_noise_is_found_whatever_the_order_of_factors_and_unknown_names_are_refused():
    assert plan().noise("state", "race*age") == plan().noise("state", "age * race")
    with pytest.raises(InputError, match=r"unknown level 'stat'\. The levels are us, state"):
        plan().noise("stat", "total")
    with pytest.raises(InputError, match=r"query 'totl' is not measured at level 'state' \(total, age \* race\)"):
        plan().noise("state", "totl")


def test_a_measured_query_has_one_spelling_from_construction_on():
    wanted = {"total": "1/4", "age * race": "3/4"}
    for spelling in ("age*race", "race * age", " race*age "):
        made = plan(
            queries={"us": {"detailed": 1}, "state": {"total": "1/4", spelling: "3/4"}},
            attributes=("age", "race"),
            passes={"state": [["total"], [spelling]]},
            constraints=(Invariant(query=spelling, level="state"),),
        )
        assert list(made.queries["state"]) == list(wanted)
        assert made.passes["state"] == (("total",), ("age * race",))
        assert made.constraints[0].query == "age * race"
        assert made.written("state", spelling) == "age * race"
        assert list(made.canonical_bytes()) == list(plan(attributes=("age", "race")).canonical_bytes())
        assert made.query_numbers() == plan(attributes=("age", "race")).query_numbers()


def test_one_query_in_two_spellings_is_named_twice():
    with pytest.raises(BudgetError, match=r"queries of level 'us': one is named twice \(age\*race, race \* age\)"):
        plan(levels={"us": 1}, queries={"us": {"age*race": "1/2", "race * age": "1/2"}})


def test_levels_that_spell_a_query_differently_share_its_number():
    made = plan(queries={"us": {"age*race": 1}, "state": {"race * age": 1}})
    assert len(made.query_numbers()) == 1


def test_numbers_of_queries_and_shares_are_part_of_what_is_measured():
    base = list(plan().canonical_bytes())
    more = list(plan(queries=QUERIES | {"us": {"detailed": "1/2", "age": "1/2"}}).canonical_bytes())
    assert set(base) - set(more), "a further query changes the numbers of others, and so the bytes"


def test_a_grouping_that_the_schema_gives_another_attribute_is_refused():
    schema = Schema(
        attributes={"age": ["c", "a"], "home": ["h", "p"]},
        groupings={"kind": Grouping(of="home", groups={"x": ["h"], "y": ["p"]})},
    )
    spine = Spine.from_columns({"state": ["1", "2"]}, root="us")
    wrong = plan(
        queries={"us": {"kind": 1}, "state": {"detailed": 1}}, attributes=("age", "home"), groupings={"kind": "age"}
    )
    with pytest.raises(InputError, match=r"says that grouping 'kind' groups 'age'; in the data it groups 'home'"):
        wrong.check(spine, schema)


def test_unchecked_constraints_go_through_toml():
    made = plan(check_constraints=False)
    assert strategy_from_toml(strategy_to_toml(made)) == made
    with pytest.raises(InputError, match=r"check_constraints must be true or false. Got 1"):
        plan(check_constraints=1)


def test_an_estimator_is_written_and_read_back_and_not_part_of_the_noise():
    plan = Strategy(
        mechanism="geometric", budget=1, levels={"us": "1/3", "county": "1/3", "block": "1/3"},
        queries={level: {"detailed": 1} for level in ("us", "county", "block")},
    )  # fmt: skip
    tree = replace(plan, estimator="tree", information_from="block")
    assert strategy_from_toml(strategy_to_toml(tree)) == tree
    assert "estimator" not in strategy_to_toml(plan)
    assert list(tree.canonical_bytes()) == list(plan.canonical_bytes())
    assert (tree.informed_levels, plan.with_estimator("tree").informed_levels, plan.informed_levels) == (
        ("county",),
        (),
        (),
    )
    assert plan.with_estimator("tree").information_level == "county"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"estimator": "blue"}, r'estimator must be "topdown" or "tree". Got \'blue\' instead.'),
        (
            {"estimator": "tree", "information_from": "tract"},
            "information_from: unknown level 'tract'. The levels are us",
        ),
        ({"information_from": "us"}, r'information_from = "us" is for estimator = "tree"'),
    ],
)
def test_an_estimator_that_does_not_exist_or_fit_is_refused(fields, words):
    with pytest.raises(StrategyError, match=words):
        Strategy(mechanism="geometric", budget=1, levels={"us": 1}, queries={"us": {"total": 1}}, **fields)


def test_the_default_strategy_is_informed_by_its_leaves_unless_they_have_too_many_answers(monkeypatch):
    spine = Spine.from_columns({"county": ["1", "1", "2"], "block": ["1a", "1b", "2a"]}, root="us")
    schema = Schema(attributes={"age": ["child", "adult"]})
    assert Strategy.default(spine, schema, epsilon=1).informed_levels == ("county",)
    monkeypatch.setattr("tallyveil.privacy.strategy.MOST_LEAF_ANSWERS", 8)  # it has 9
    plan = Strategy.default(spine, schema, epsilon=1)
    assert (plan.estimator, plan.information_from, plan.informed_levels) == ("tree", None, ())
