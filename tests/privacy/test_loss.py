"""What is declared, against a brute force over neighbours with the noise that is really drawn (see ``brute_loss``)."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from brute_loss import World, asked, default_worlds, least_epsilon, losses_of, optimised_worlds, price, worlds
from hypothesis import given, settings
from hypothesis import strategies as some

from tallyveil import Schema, Spine, Strategy
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.census_schemas import PERSONS_2020
from tallyveil.nouns.schema import Grouping
from tallyveil.privacy import account_of, epsilon_from_rho

ROUNDING = 1e-11  # relative: declared figures are pushed outwards by less


def account_on(world: World, *, pld: bool = False):
    """The account of a world's strategy where it is measured."""
    return account_of(world.strategy, spine=world.spine, schema=world.schema, optimised=world.optimised, pld=pld)


def declared_figures(account) -> dict[str, float]:
    """The declared epsilons under the names that the brute force uses."""
    return {
        "in all": account.epsilon,
        **{f"attribute {name}": epsilon for name, epsilon in account.per_attribute.items()},
        **{f"within {level}": epsilon for level, epsilon in account.within_level.items()},
    }


def epsilon_of(loss: Fraction, strategy: Strategy) -> float | Fraction:
    """The epsilon of a loss: itself, or what that rho gives at the strategy's delta."""
    if strategy.mechanism == "geometric" or loss == 0:
        return loss
    return epsilon_from_rho(loss, strategy.delta)


def check_account(world: World, account) -> None:
    """Every declared figure is the worst loss; where constraints narrow the neighbours it may be more, up to all's."""
    losses = losses_of(world)
    least, most = losses.worst(narrowed=True), losses.worst()
    declared = declared_figures(account)
    assert set(declared) == set(least)
    for name, figure in declared.items():
        if least[name] is not None:
            loss = epsilon_of(least[name], world.strategy)
            if world.strategy.mechanism == "geometric":
                assert Fraction(figure) >= loss, f"{name}: declared {figure}, a pair of neighbours loses {float(loss)}"
            assert figure >= loss * (1 - ROUNDING), f"{name}: declared {figure}, a pair loses {float(loss)}"
        if most[name] is not None:
            loss = epsilon_of(most[name], world.strategy)
            assert figure <= loss * (1 + ROUNDING), f"{name}: declared {figure}, but no pair loses over {float(loss)}"
    if world.strategy.mechanism == "gaussian":
        if least["in all"] is not None:
            assert Fraction(account.rho) >= least["in all"]
        if most["in all"] is not None:
            assert account.rho <= most["in all"] * (1 + Fraction(ROUNDING))
    else:
        assert account.rho is None


@settings(max_examples=300)
@given(worlds())
def test_every_declared_figure_is_the_worst_over_all_neighbours_of_the_noise_that_is_drawn(world):
    check_account(world, account_on(world))


@settings(max_examples=150)
@given(optimised_worlds())
def test_every_declared_figure_is_the_worst_over_all_neighbours_on_optimised_spines_too(world):
    check_account(world, account_on(world))


@settings(max_examples=50)
@given(default_worlds())
def test_every_declared_figure_is_the_worst_over_all_neighbours_where_the_default_leaves_out_what_is_exact(world):
    check_account(world, account_on(world))


@pytest.mark.slow
@settings(max_examples=3000)
@given(worlds() | optimised_worlds() | default_worlds())
def test_every_declared_figure_is_the_worst_over_all_neighbours_in_thousands_of_worlds(world):
    check_account(world, account_on(world))


@settings(max_examples=12)
@given(worlds(mechanisms=("gaussian",)) | optimised_worlds(mechanisms=("gaussian",)))
def test_the_epsilon_by_privacy_loss_distribution_covers_every_pair_and_is_never_above_zcdp(world):
    check_distribution(world)


@pytest.mark.slow
@settings(max_examples=300)
@given(worlds(mechanisms=("gaussian",)) | optimised_worlds(mechanisms=("gaussian",)))
def test_the_epsilon_by_privacy_loss_distribution_covers_every_pair_in_hundreds_of_worlds(world):
    check_distribution(world)


def check_distribution(world):
    delta = Fraction(1, 10**5)  # far above what a convolution in floats loses
    world = replace(world, strategy=replace(world.strategy, delta=delta))
    account = account_on(world, pld=True)
    pairs = losses_of(world).signatures(most=4)
    if account.pld_epsilon is None:
        assert account.pld_reason
        return
    assert account.pld_epsilon <= account.epsilon * (1 + ROUNDING)
    for noises in pairs:
        epsilon = least_epsilon(noises, float(delta))
        assert account.pld_epsilon >= epsilon * (1 - 1e-6), f"declared {account.pld_epsilon}, a pair has {epsilon}"


@settings(max_examples=40)
@given(worlds())
def test_without_the_only_child_rule_the_figures_without_a_spine_cover_every_spine(world):
    world = replace(world, optimised=None, strategy=replace(world.strategy, only_child=False))
    account = account_of(world.strategy, pld=False)
    declared, least = declared_figures(account), losses_of(world).worst(narrowed=True)
    for name, loss in least.items():
        if loss is not None and name in declared:
            assert declared[name] >= epsilon_of(loss, world.strategy) * (1 - ROUNDING), name
    asked_about = {f"attribute {name}" for name in world.strategy.attributes}
    assert asked_about <= set(declared)


@settings(max_examples=40)
@given(worlds() | optimised_worlds())
def test_the_loss_in_all_is_never_above_the_budget(world):
    # Also with the only-child rule: the shares on every path from root to leaf sum to one.
    worst = losses_of(world).worst()["in all"]
    assert worst is None or worst <= world.strategy.budget


# --- the oracle itself


@settings(max_examples=25)
@given(worlds() | optimised_worlds(), some.data())
def test_the_loss_of_two_records_is_that_of_two_whole_datasets_asked_through_measure(world, data):
    possible = np.flatnonzero(world.schema.possible).tolist()
    record = some.tuples(some.integers(0, world.spine.size(world.spine.leaf) - 1), some.sampled_from(possible))
    others = data.draw(some.lists(record, max_size=5))
    one, two = data.draw(record), data.draw(record)
    mine, theirs = (list(asked(world, world.people(*others, who))) for who in (one, two))
    loss = Fraction(0)
    for (*place, answers, noises), (*same, changed, again) in zip(mine, theirs, strict=True):
        assert (place, noises) == (same, again)  # the noise does not depend on the people
        for answer, other, noise in zip(answers, changed, noises, strict=True):
            assert abs(answer - other) <= 1
            loss += abs(answer - other) * price(noise)
    losses = losses_of(world)
    found = losses.between[losses.records.index(one), losses.records.index(two)]
    assert Fraction(int(found), losses.scale) == loss


@pytest.mark.parametrize(
    ("noises", "delta"),
    [(Counter({Fraction(1): 2}), 1e-5), (Counter({Fraction(1, 4): 1, Fraction(3): 4, Fraction(7): 2}), 1e-6)],
)
def test_our_epsilon_of_discrete_gaussians_is_that_of_dp_accounting(noises, delta):
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity(value_discretization_interval=1e-4)
    for variance, times in noises.items():
        one = pld.from_discrete_gaussian_mechanism(float(variance) ** 0.5, value_discretization_interval=1e-4)
        total = total.compose(one.self_compose(times))
    theirs, ours = total.get_epsilon_for_delta(delta), least_epsilon(noises, delta)
    assert theirs - 2e-3 <= ours <= theirs * (1 + 1e-9)
    assert least_epsilon(Counter({v: n + 1 for v, n in noises.items()}), delta) > 1.01 * theirs


# --- the cases that hostile readers found


def spine_2020(*, states: int = 1, tracts: int = 2, groups: int = 2, blocks: int = 2) -> Spine:
    paths = [
        (f"{s}", f"{s}{c}", f"{s}{c}{t}", f"{s}{c}{t}{g}", f"{s}{c}{t}{g}{b}")
        for s in range(states)
        for c in range(2)
        for t in range(tracts)
        for g in range(groups)
        for b in range(blocks)
    ]
    names = ("state", "county", "tract", "block_group", "block")
    return Spine.from_columns({name: [path[i] for path in paths] for i, name in enumerate(names)}, root="us")


def cells_that_differ_in(schema: Schema, attribute: str) -> list[int]:
    """One cell for each label of an attribute, the last label elsewhere."""
    others = {name: labels[-1] for name, labels in schema.attributes.items()}
    return [schema.cell(**(others | {attribute: label})) for label in schema.attributes[attribute]]


ONE_BLOCK_TRACTS = {"groups": 1, "blocks": 1}


@pytest.mark.parametrize(
    ("below", "attribute", "epsilon", "by_levels"),
    [
        (ONE_BLOCK_TRACTS, "cenrace", 13.99, 10.08),
        (ONE_BLOCK_TRACTS, "hispanic", 13.83, 10.04),
        (ONE_BLOCK_TRACTS, "hhgq", 9.91, 7.24),
        ({}, "hhgq", 11.21, 7.24),
        ({}, "votingage", 12.02, 7.57),
    ],
)
def test_what_2020_tells_about_an_attribute_where_the_nation_takes_over_the_share_of_its_one_state(
    below, attribute, epsilon, by_levels
):
    world = World(spine=spine_2020(**below), schema=PERSONS_2020, strategy=Strategy.preset("pl94-2020-us-persons"))
    losses = losses_of(world, [(0, cell) for cell in cells_that_differ_in(PERSONS_2020, attribute)])
    loss = losses.worst()[f"attribute {attribute}"]
    assert epsilon_of(loss, world.strategy) == pytest.approx(epsilon, abs=0.005)
    without = account_of(world.strategy, pld=False).per_attribute[attribute]  # of the levels' shares alone
    assert without == pytest.approx(by_levels, abs=0.005)
    declared = account_on(world).per_attribute[attribute]
    assert declared == pytest.approx(epsilon_of(loss, world.strategy), rel=ROUNDING)


def test_what_2020_tells_about_the_place_within_a_block_group_that_the_optimised_spine_cuts():
    spine = spine_2020(states=2, groups=1, blocks=4)
    leaves = spine.labels("block")
    place = Areas.from_codes(spine, leaf=leaves[::2], area=["Troy"] * len(leaves[::2]))
    strategy = Strategy.preset("pl94-2020-us-persons")
    world = World(spine=spine, schema=PERSONS_2020, strategy=strategy, optimised=spine.optimised(place=place))
    losses = losses_of(world, [(leaf, 0) for leaf in range(len(leaves))])
    declared = account_on(world).within_level
    for level in spine.levels[:-1]:
        assert declared[level] == pytest.approx(epsilon_of(losses.worst()[f"within {level}"], strategy), rel=ROUNDING)
    assert declared["block_group"] == pytest.approx(9.38, abs=0.005)
    standard = account_on(replace(world, optimised=None)).within_level
    assert standard["block_group"] == pytest.approx(2.93, abs=0.005)


def test_a_tribal_area_inside_a_block_group_cuts_everything_up_to_the_state():
    spine = spine_2020(tracts=1, groups=1, blocks=4)
    tribal = Areas.from_codes(spine, leaf=spine.labels("block")[:2], area=["Pueblo"] * 2)
    strategy = replace(Strategy.preset("pl94-2020-us-persons"), only_child=False)
    world = World(spine=spine, schema=PERSONS_2020, strategy=strategy, optimised=spine.optimised(tribal=tribal))
    all_but_the_nation = strategy.budget * (1 - strategy.levels["us"])
    declared = account_on(world).within_level["block_group"]
    assert declared == pytest.approx(epsilon_of(all_but_the_nation, strategy), rel=ROUNDING)


def two_counts(only_child: bool, **fields) -> World:
    """Two levels of equal share, and one leaf."""
    spine = Spine.from_columns({"town": ["t"], "block": ["t1"]})
    schema = Schema(attributes={"age": ["child", "adult"]})
    strategy = Strategy(
        levels={"town": "1/2", "block": "1/2"},
        queries={"town": {"detailed": 1}, "block": {"detailed": 1}},
        only_child=only_child,
        **({"mechanism": "gaussian", "budget": 10, "delta": "1e-5"} | fields),
    )
    return World(spine=spine, schema=schema, strategy=strategy)


@pytest.mark.parametrize(("only_child", "epsilon"), [(False, 29.534), (True, 29.744)])
def test_the_epsilon_by_privacy_loss_distribution_knows_the_only_child_rule(only_child, epsilon):
    world = two_counts(only_child)
    (noises,) = losses_of(world).signatures(most=4)
    assert noises == (Counter({Fraction(1, 10): 2}) if only_child else Counter({Fraction(1, 5): 4}))
    assert least_epsilon(noises, 1e-5) == pytest.approx(epsilon, abs=0.001)
    account = account_on(world, pld=True)
    assert account.pld_epsilon == pytest.approx(epsilon, abs=0.002)
    assert account.pld_epsilon >= least_epsilon(noises, 1e-5) * (1 - 1e-6)


def test_changing_an_attribute_or_a_place_changes_two_counts_for_add_or_remove_neighbours_too():
    spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    schema = Schema(attributes={"age": ["child", "adult"]})
    strategy = Strategy(
        mechanism="geometric",
        budget=1,
        levels={"town": "1/2", "block": "1/2"},
        queries={"town": {"detailed": 1}, "block": {"detailed": "9/10", "total": "1/10"}},
        neighbours="add-or-remove",
    )
    world = World(spine=spine, schema=schema, strategy=strategy)
    worst = losses_of(world).worst()
    assert worst == {"in all": 1, "attribute age": Fraction(19, 10), "within town": 1}
    account = account_on(world)
    assert account.epsilon == 1
    assert account.per_attribute == {"age": pytest.approx(1.9, rel=ROUNDING)}
    assert account.within_level == {"town": pytest.approx(1.0, rel=ROUNDING)}


@pytest.mark.parametrize("mechanism", ["geometric", "gaussian"])
def test_an_attribute_that_only_detailed_asks_about_is_not_left_out(mechanism):
    world = two_counts(False, mechanism=mechanism, budget=1)
    assert world.strategy.attributes == ()  # none is named by a query
    whole = epsilon_of(Fraction(1), world.strategy)
    assert account_on(world).per_attribute == {"age": pytest.approx(float(whole), rel=ROUNDING)}


def test_an_attribute_nobody_asks_about_costs_nothing():
    spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    for mechanism in ("geometric", "gaussian"):
        strategy = Strategy(
            mechanism=mechanism,
            budget=1,
            levels={"town": "1/2", "block": "1/2"},
            queries={"town": {"age": 1}, "block": {"age": 1}},
        )
        account = account_on(World(spine=spine, schema=schema, strategy=strategy))
        assert account.per_attribute["sex"] == 0.0
        assert set(account.per_attribute) == {"age", "sex"}


def test_a_grouping_of_one_group_tells_nothing_and_two_groupings_are_told_apart():
    spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    schema = Schema(
        attributes={"age": ["a", "b", "c"], "sex": ["f", "m"]},
        groupings={
            "all": Grouping(of="age", groups={"all": ["a", "b", "c"]}),
            "first": Grouping(of="age", groups={"a": ["a"], "bc": ["b", "c"]}),
            "last": Grouping(of="age", groups={"ab": ["a", "b"], "c": ["c"]}),
        },
    )
    strategy = Strategy(
        mechanism="geometric",
        budget=1,
        levels={"town": "1/2", "block": "1/2"},
        queries={"town": {"all": 1}, "block": {"first": "1/2", "last * sex": "1/2"}},
        attributes=("age", "sex"),
        groupings={"all": "age", "first": "age", "last": "age"},
    )
    world = World(spine=spine, schema=schema, strategy=strategy)
    assert losses_of(world).worst()["attribute age"] == Fraction(1, 2)  # a to c: both groupings tell
    assert account_on(world).per_attribute == pytest.approx({"age": 0.5, "sex": 0.25}, rel=ROUNDING)
    check_account(world, account_on(world))
