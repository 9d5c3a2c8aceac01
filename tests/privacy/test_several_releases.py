from dataclasses import replace
from fractions import Fraction

import pytest

from tallyveil import Schema, Spine, Strategy
from tallyveil.errors import BudgetError
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.conversions import epsilon_from_rho
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.pld import pld_epsilon
from tallyveil.privacy.pld_of_several import pld_epsilon_together
from tallyveil.privacy.sentences import composed
from tallyveil.privacy.several_releases import Cost, compose, cost_of, counted_once

DELTA = Fraction(1, 10**10)


def cost(name: str, kind: str, loss: str, **given) -> Cost:
    given = {"neighbours": "replace-one", "delta": DELTA if kind == "zcdp" else None} | given
    return Cost(name=name, accountant=kind, loss=Fraction(loss), **given)


# Ten releases. a and b are one measurement; c has its identifier but another guarantee; i and j have none.
TEN = [
    cost("a", "pure", "1/2", measurement="1"),
    cost("b", "pure", "1/2", measurement="1"),
    cost("c", "pure", "3/4", measurement="1"),
    cost("d", "pure", "1/4", measurement="2"),
    cost("e", "pure", "1/4", measurement="3"),
    cost("f", "zcdp", "1/10", measurement="4"),
    cost("g", "zcdp", "1/10", measurement="4"),
    cost("h", "zcdp", "1/5", measurement="5"),
    cost("i", "zcdp", "1/20"),
    cost("j", "zcdp", "1/20"),
]


def test_ten_releases_of_mixed_kinds_are_added_up_as_by_hand():
    together = compose(TEN)
    assert [one.name for one in together.counted] == list("acdefhij")
    epsilon = Fraction(1, 2) + Fraction(3, 4) + Fraction(1, 4) + Fraction(1, 4)  # 7/4
    rho = Fraction(1, 10) + Fraction(1, 5) + 2 * Fraction(1, 20)  # 2/5
    squares = (Fraction(1, 4) + Fraction(9, 16) + 2 * Fraction(1, 16)) / 2  # 15/32
    added = float(epsilon) + epsilon_from_rho(rho, DELTA)
    as_zcdp = epsilon_from_rho(rho + squares, DELTA)
    assert (epsilon, rho + squares) == (Fraction(7, 4), Fraction(139, 160))
    assert added < as_zcdp
    assert together.account.epsilon == pytest.approx(added, rel=1e-12)
    assert together.account.epsilon >= added
    _, reason, steps = composed(together)
    assert steps[0] == "epsilon 1/2 + 3/4 + 1/4 + 1/4 = 7/4 (pure)"
    assert steps[1].startswith("rho 1/10 + 1/5 + 1/20 + 1/20 = 2/5: epsilon")
    assert "= 139/160 (Theorem 2)" in steps[2]
    assert "epsilon 7/4 of the pure releases" in reason


def test_small_pure_releases_are_cheaper_as_zcdp():
    many = [cost(str(i), "pure", "1/20") for i in range(10)]
    together = compose([*many, cost("z", "zcdp", "2")])
    assert together.account.epsilon == pytest.approx(epsilon_from_rho(2 + 10 * Fraction(1, 800), DELTA))
    assert composed(together)[2][0] == "epsilon 10 x 1/20 = 1/2 (pure)"
    assert compose(many).account.epsilon == 0.5
    assert compose(many).account.delta is None


def test_measurements_count_once_only_if_their_guarantees_agree_too():
    one = TEN[0]
    for other in (
        replace(one, loss=Fraction(1)),
        replace(one, neighbours="add-or-remove"),
        replace(one, pairs=()),
        replace(one, measurement=None),
    ):
        assert len(counted_once([one, other])) == 2
    assert counted_once([one, replace(one, name="again", delta=DELTA)]) == (one,)
    unknown = replace(one, measurement=None)
    assert len(counted_once([unknown, unknown])) == 2


def test_losses_of_different_neighbours_or_deltas_are_not_added():
    with pytest.raises(BudgetError, match="some add-or-remove"):
        compose([TEN[0], replace(TEN[3], neighbours="add-or-remove")])
    with pytest.raises(BudgetError, match=r"different deltas \(1e-10, 1e-06\)"):
        compose([TEN[5], replace(TEN[7], delta=Fraction(1, 10**6))])
    with pytest.raises(BudgetError, match="no releases"):
        compose([])


def real_cost(only_child: bool = False, **budget) -> tuple[Cost, Loss]:
    county = ["1", "1", "2"] if only_child else ["1", "1", "2", "2"]
    block = ["1a", "1b", "2a", "2b"][: len(county)]
    spine = Spine.from_columns({"county": county, "block": block}, root="us")
    schema = Schema(attributes={"age": ["child", "adult"]})
    plan = replace(Strategy.default(spine, schema, **budget), only_child=only_child)
    loss = Loss(strategy=plan, spine=spine, schema=schema)
    return cost_of("x", loss), loss


def test_the_distribution_of_one_gaussian_release_gives_its_own_epsilon():
    for only_child in (False, True):
        one, loss = real_cost(only_child, rho="1/10")
        ours, reason = pld_epsilon_together([one], DELTA)
        assert reason is None
        assert ours == pytest.approx(pld_epsilon(loss, DELTA)[0], rel=2e-2)


def test_a_release_calibrated_by_its_distribution_costs_no_more_than_it_says():
    """Otherwise a ledger with a limit of just that epsilon would refuse it."""
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    plan = replace(Strategy.default(spine, schema, rho=1), accounting="pld", epsilon=Fraction(1))
    plan = calibrated(plan, spine=spine, schema=schema)
    measured = cost_of("a", Loss(strategy=plan, spine=spine, schema=schema))
    epsilon, _ = pld_epsilon_together([measured], plan.delta)
    assert 0.9999 < epsilon <= 1


def test_distributions_of_several_releases_are_tighter_than_adding_and_never_too_small():
    pure, zcdp = real_cost(epsilon="1/10")[0], real_cost(rho="1/20")[0]
    many = [pure] * 8
    tight = pld_epsilon_together(many, DELTA)[0]
    assert tight < 0.8  # the sum of eight epsilons of 1/10
    twice = pld_epsilon_together([zcdp, zcdp], DELTA)[0]
    joint = real_cost(rho="1/10")[0]  # the noise of two measurements costs as much as that of one of twice the budget
    assert twice == pytest.approx(pld_epsilon_together([joint], DELTA)[0], rel=3e-2)
    mixed = pld_epsilon_together([pure, zcdp], DELTA)[0]
    assert max(0.1, pld_epsilon_together([zcdp], DELTA)[0]) <= mixed <= compose([pure, zcdp]).account.epsilon + 0.01


def test_why_no_distribution_can_be_composed():
    pure = real_cost(epsilon="1/10")[0]
    assert "the noise of a is not known" in pld_epsilon_together([TEN[0]], DELTA)[1]
    assert "below" in pld_epsilon_together([pure], Fraction(1, 10**14))[1]
    assert "more than 1,000" in pld_epsilon_together([replace(pure, loss=Fraction(2000))], DELTA)[1]
    kinds = tuple(((Fraction(1, 10 + i), 1),) for i in range(30))
    assert "too many combinations" in pld_epsilon_together([replace(pure, pairs=kinds)] * 2, DELTA)[1]
