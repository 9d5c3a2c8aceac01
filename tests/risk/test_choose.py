"""Budgets that keep a bound: against dense grids of independent sums, and back through the measures themselves."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tallyveil import Strategy
from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric, Invariant, account_of
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.budget.allocation import allocate, bounded_units
from tallyveil.risk.budget.choose import choose
from tallyveil.risk.budget.curve import curve, mean_abs
from tallyveil.risk.budget.decision_budgets import _searched, budgets_by_decision
from tallyveil.risk.budget.empirical import ASSUMPTIONS, empirical_epsilon
from tallyveil.risk.budget.exposures import exposures, unit_noises
from tallyveil.risk.budget.intervals import at_budget
from tallyveil.risk.budget.posterior_budgets import inverse_posterior
from tallyveil.risk.budget.searches import largest_by_decision, largest_by_posterior
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.intruder import Exposure, Intruder

PL94 = Strategy.preset("pl94-2020-us-persons")
SMALL = Strategy(
    mechanism="gaussian",
    budget=2,
    levels={"county": "1/2", "tract": "3/10", "block": "1/5"},
    queries={level: {"total": "1/4", "sex * age": "1/4", "detailed": "1/2"} for level in ("county", "tract", "block")},
    only_child=True,
    name="small",
)
priors = st.sampled_from(
    [Fraction(1, 2), Fraction(2, 5), Fraction(1, 5), Fraction(1, 50), Fraction(3, 5), Fraction(9, 10)]
)
bounds = st.fractions("1/20", "19/20", max_denominator=40)


def right_of_gaussian(rho, prior):
    """P[claimed] of one discrete Gaussian count: every noise looked at by itself."""
    eta = np.arange(-400, 401)
    weight = np.exp(-rho * eta**2.0)
    claimed = -rho * eta**2.0 + rho * (eta + 1.0) ** 2 > math.log((1 - prior) / prior)
    return (weight * claimed).sum() / weight.sum()


def right_of_geometric(z, prior):
    """P[claimed] of some geometric counts, every pattern by itself."""
    total = 0.0
    for signs in product((1, -1), repeat=len(z)):
        chance = math.prod(1 / (1 + math.exp(-sign * one)) for sign, one in zip(signs, z, strict=True))
        ratio = sum(sign * one for sign, one in zip(signs, z, strict=True))
        total += chance * (ratio > math.log((1 - prior) / prior) + 1e-12)
    return total


def right_of_gaussians(budget, variances, prior):
    """P[claimed] of two discrete Gaussian counts, every pair of noises by itself, up to 8 standard deviations."""
    reach = max(60, math.ceil(8 * math.sqrt(max(variances) / budget)))
    eta = np.arange(-reach, reach + 1)
    one, two = (np.exp(-budget * eta**2 / (2.0 * s)) for s in variances)
    ratio = budget * ((2 * eta[:, None] + 1) / (2 * variances[0]) + (2 * eta + 1) / (2 * variances[1]))
    claimed = ratio > math.log((1 - prior) / prior) + 1e-12
    return (np.outer(one, two) * claimed).sum() / (one.sum() * two.sum())


def risk_of_gaussian(rho, prior):
    """R of one discrete Gaussian count, by Bayes' theorem for every noise."""
    eta = np.arange(-60, 61)
    weight, ratio = np.exp(-rho * eta**2.0), np.exp(np.minimum(-rho * (2 * eta + 1.0), 700))
    return (weight / (prior + (1 - prior) * ratio)).sum() / weight.sum()


def within(budget, intervals):
    return any(low <= budget <= high for low, high in intervals)


def near_an_end(budget, intervals):
    return any(abs(budget / end - 1) < 1e-6 for interval in intervals for end in interval if end)


def test_one_fifth_with_029_gives_a_third_of_log_4_and_one_window_above():
    found = choose("right_decision", "0.29", priors=["1/5"])
    assert found.value <= math.log(4) / 3
    assert float(found.value) == pytest.approx(math.log(4) / 3, rel=1e-11)
    [(low, high)] = found.windows
    assert right_of_gaussian(float(low), 0.2) == pytest.approx(0.29, abs=1e-9)
    assert (float(low), float(high)) == pytest.approx((0.5541, 1.3863), abs=1e-4)
    assert high <= math.log(4)
    assert (found.checked, found.parameter, found.binding_prior) == ("exact", "rho", Fraction(1, 5))
    told = found.as_json()
    assert Fraction(repr(told["rho"])) == found.value
    for budget, keeps in (
        (found.value, True),
        (found.value * (1 + Fraction(1, 10**9)), False),
        (low, True),
        (high, True),
    ):
        exposed = Intruder(prior="1/5").against(DiscreteGaussian(variance=1 / (2 * budget)))
        assert (exposed.right_decision <= 0.29) == keeps


@settings(max_examples=40, deadline=None)
@given(priors, bounds)
@example(Fraction(1, 5), Fraction(29, 100))
@example(Fraction(3, 5), Fraction(9, 10))
def test_every_budget_of_a_fine_grid_is_kept_where_an_independent_sum_says_so(prior, bound):
    intervals, how = budgets_by_decision(unit_noises("gaussian"), [Intruder(prior=prior)], bound)
    assert how == "exact"
    for rho in np.geomspace(0.004, 12, 250):
        if not near_an_end(rho, intervals):
            assert within(rho, intervals) == (right_of_gaussian(rho, float(prior)) <= bound), rho


@settings(max_examples=30, deadline=None)
@given(st.lists(st.fractions("1/4", 1, max_denominator=6), min_size=1, max_size=3), priors, bounds)
@example([Fraction(1), Fraction(1)], Fraction(1, 2), Fraction(3, 10))  # ties: rightly claimed less than half the time
def test_geometric_counts_are_kept_where_all_their_patterns_say_so(z, prior, bound):
    intervals, how = budgets_by_decision(tuple(Geometric(z=one) for one in z), [Intruder(prior=prior)], bound)
    assert how == "exact"
    for budget in np.geomspace(0.01, 40, 120):
        if not near_an_end(budget, intervals):
            right = right_of_geometric([budget * float(one) for one in z], float(prior))
            assert within(budget, intervals) == (right <= bound), budget


@pytest.mark.parametrize(("prior", "bound"), [("1/5", "0.29"), ("2/5", "0.4"), ("1/2", "0.7"), ("3/5", "0.8")])
def test_several_gaussian_counts_are_checked_on_a_grid_that_misses_nothing_of_a_finer_one(prior, bound):
    noises = (DiscreteGaussian(variance=1), DiscreteGaussian(variance=4))
    intervals, how = budgets_by_decision(noises, [Intruder(prior=prior)], Fraction(bound))
    assert how.startswith("checked on ")
    for budget in np.geomspace(0.05, 20, 150):
        if any(abs(budget / end - 1) < 1e-5 for interval in intervals for end in interval if end):
            continue
        right = right_of_gaussians(budget, (1, 4), float(Fraction(prior)))
        assert within(budget, intervals) == (right <= float(Fraction(bound))), budget


@pytest.mark.parametrize(
    ("variances", "bound", "prior", "broken"),
    [
        (("1/2", "4"), "0.1847", "1/20", (1.2401, 1.2438)),
        (("1/2", "4"), "0.1847", "1/20", (1.1217, 1.1220)),
        (("1/2", "25/2"), "0.305", "1/5", (1.0194, 1.0204)),
    ],
)
def test_a_narrow_break_below_is_not_missed(variances, bound, prior, broken):
    numbers = [float(Fraction(s)) for s in variances]
    for budget in broken:
        assert right_of_gaussians(budget, numbers, float(Fraction(prior))) > float(bound)
    noises = tuple(DiscreteGaussian(variance=s) for s in variances)
    found = largest_by_decision(noises, [Intruder(prior=prior)], Fraction(bound), "rho", None)
    assert found.value < broken[0]
    for budget in float(found.value) * np.geomspace(0.1, 1, 800):
        assert right_of_gaussians(budget, numbers, float(Fraction(prior))) <= float(bound) + 1e-12
    assert right_of_gaussians(float(found.value) * (1 + 1e-8), numbers, float(Fraction(prior))) > float(bound)


variances = st.fractions("1/3", 12, max_denominator=4)


@settings(max_examples=15, deadline=None)
@given(st.tuples(variances, variances), st.fractions("1/50", "9/10", max_denominator=50), bounds)
def test_two_gaussian_counts_are_kept_where_a_very_fine_grid_says_so(pair, prior, bound):
    intervals, _ = budgets_by_decision(
        tuple(DiscreteGaussian(variance=s) for s in pair), [Intruder(prior=prior)], bound
    )
    numbers, unit = [float(s) for s in pair], 1 / sum(1 / float(s) for s in pair)
    first = intervals[0][1] if intervals and intervals[0][0] == 0 else 0
    around = first * np.array([0.9, 0.99, 0.999, 0.9999, 1 - 1e-5, 1 + 3e-6]) if first else []
    for budget in [*np.geomspace(0.2 * unit, 20 * unit, 150), *around]:
        # Above the first break, cells narrower than a thousandth are not looked into.
        near = any(abs(budget / end - 1) < 2e-3 for interval in intervals for end in interval if end > first)
        if budget != first and not near and abs(budget / (first or -1) - 1) > 2e-6:
            right = right_of_gaussians(budget, numbers, float(prior))
            assert within(budget, intervals) == (right <= float(bound) + 1e-12), budget


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=3), st.floats(0.03, 3), st.floats(1.001, 1.5))
def test_a_tail_of_several_gaussian_counts_moves_one_way_with_the_budget(weights, budget, more):
    """What cells rely on: P[u or more] falls for u > 0, the noises weighing as their precisions."""
    eta = np.arange(-12, 13)
    grids = np.meshgrid(*[eta] * len(weights), indexing="ij")
    total, square = (sum(w * g**k for w, g in zip(weights, grids, strict=True)).ravel() for k in (1, 2))
    assume(budget * min(weights) * 12**2 / 2 > 20)  # what is cut off is negligible
    tails = []
    for b in (budget, budget * more):
        chance = np.exp(-b * square / 2.0)
        by_total = np.bincount(total - total.min(), chance / chance.sum())
        tails.append(np.cumsum(by_total[::-1])[::-1][1 - total.min() :])
    assert (tails[1] <= tails[0] + 1e-9).all()


@pytest.mark.parametrize("z", [[1, 1, 1, 1], [1, "1/2", "1/3"], [2, 1, 1]])
@pytest.mark.parametrize(
    ("prior", "bound"), [("1/2", "0.35"), ("1/2", "0.7"), ("1/5", "0.3"), ("2/3", "0.9"), ("1/2", "0.1")]
)
def test_cells_and_patterns_of_geometric_counts_agree(z, prior, bound, monkeypatch):
    noises, intruders = tuple(Geometric(z=one) for one in z), [Intruder(prior=prior)]
    exactly, how = budgets_by_decision(noises, intruders, Fraction(bound))
    monkeypatch.setattr("tallyveil.risk.budget.decision_budgets.PATTERNS", 0)
    cells, checked = budgets_by_decision(noises, intruders, Fraction(bound))
    assert (how, checked[:7]) == ("exact", "checked")
    assert np.array(cells) == pytest.approx(np.array(exactly), rel=1e-8)


def test_many_geometric_counts_at_even_odds_have_ties_and_a_budget_below_one_half():
    def right(epsilon, count):  # more not lowered than lowered
        p = 1 / (1 + math.exp(-epsilon))
        return sum(math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count // 2 + 1, count + 1))

    for count in (12, 14):
        noises = (Geometric(z=1),) * count
        found = largest_by_decision(noises, [Intruder(prior="1/2")], Fraction("0.45"), "epsilon", None)
        assert right(float(found.value), count) == pytest.approx(0.45, abs=1e-8)
        assert right(float(found.value), count) <= 0.45 + 1e-12
    none = largest_by_decision(noises, [Intruder(prior="1/2")], Fraction("0.39"), "epsilon", None)
    assert right(1e-9, 14) > 0.39
    assert none.value is None
    assert "however small epsilon is" in none.reason


def test_even_odds_take_few_budgets_however_near_the_bound_is_to_one_half():
    tried = []
    noises = (DiscreteGaussian(variance=1), DiscreteGaussian(variance=3))
    for bound in ("0.7", "0.55", "0.502"):
        tried.clear()
        found = largest_by_decision(noises, [Intruder(prior="1/2")], Fraction(bound), "rho", tried.append)
        assert tried == list(range(1, len(tried) + 1))
        assert found.checked == f"checked on {len(tried)} budgets"
        assert len(tried) <= 12
        exposed = Intruder(prior="1/2").against(*at_budget(noises, found.value))
        assert 0 <= float(bound) - exposed.right_decision < 1e-9


@pytest.mark.parametrize(("bound", "is_kept"), [("0.501", True), ("0.3", False)])
def test_next_to_even_odds_the_smallest_budget_that_is_looked_at_must_keep_the_bound(bound, is_kept):
    noises = (DiscreteGaussian(variance=1), DiscreteGaussian(variance=3))
    prior = Fraction(49999999, 100000000)
    found = largest_by_decision(noises, [Intruder(prior=prior)], Fraction(bound), "rho", None)
    if is_kept:
        exposed = Intruder(prior=prior).against(*at_budget(noises, found.value))
        assert exposed.right_decision <= float(bound)
    else:
        assert found.value is None
        assert "next to even odds: only a rho too small to be of use keeps it" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["0.55", "0.51", "0.502"])
def test_all_queries_of_a_block_take_few_budgets_too(bound):
    found = choose("right_decision", bound, priors=["1/2"], strategy=PL94)
    assert int(found.checked.split()[2]) <= 12
    # Normal noise is right with Phi(sqrt(V) / 2), V being the sum of the precisions.
    v = float(found.value * PL94.levels["block"])
    assert 0.5 + math.erf(math.sqrt(v) / 2 / math.sqrt(2)) / 2 == pytest.approx(float(bound), abs=2e-5)


def test_counts_of_two_kinds_of_noise_are_refused_and_so_is_none():
    invariant = (Invariant(query="detailed", level="block"),)
    exact = replace(SMALL, attributes=("sex", "age"), constraints=invariant)
    with pytest.raises(InputError, match="invariants answer every query of this level"):
        choose("risk", "1.1", priors=["1/5"], strategy=exact)
    with pytest.raises(InputError, match="counts of one kind of noise"):
        budgets_by_decision((Geometric(z=1), DiscreteGaussian(variance=1)), [Intruder(prior="1/5")], Fraction(1, 2))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.fractions("1/8", 6, max_denominator=8), min_size=1, max_size=3),
    st.booleans(),
    st.fractions("1/40", "39/40", max_denominator=40),
    st.fractions("1/20", "19/20", max_denominator=20),
)
def test_outside_the_range_that_is_searched_a_bound_is_surely_kept_or_broken(numbers, geometric, prior, bound):
    noises = tuple(Geometric(z=one) if geometric else DiscreteGaussian(variance=one) for one in numbers)
    v = sum(2 * float(n) * math.tanh(float(n) / 2) if geometric else 1 / float(n) for n in numbers)
    intruder = Intruder(prior=prior)
    range_ = _searched(math.log(intruder.odds_needed), float(bound))
    right = intruder.against(*noises).right_decision
    if range_ is None:
        assume(not (geometric and intruder.odds_needed == 1))  # ties of geometric counts are summed, not searched
        assert right > bound
    elif v < range_[0]:
        assert (right <= bound) == (intruder.odds_needed >= 1)
    elif v > range_[1]:
        assert right > bound


@pytest.mark.parametrize("mechanism", ["gaussian", "geometric"])
@pytest.mark.parametrize(("measure", "bound"), [("risk", "1.2"), ("risk", "1.95"), ("posterior", "0.55")])
def test_the_chosen_budget_meets_a_bound_on_risk_and_one_percent_more_does_not(mechanism, measure, bound):
    found = choose(measure, bound, priors=["1/2", "1/5", "1/50"], mechanism=mechanism)
    figure = {"risk": "risk", "posterior": "marginal_posterior"}[measure]
    intruders = [Intruder(prior=prior) for prior in found.priors]

    def worst(budget):
        exposed = exposures(unit_noises(mechanism), intruders, budget)
        return max((getattr(one, figure), one.intruder.prior) for one in exposed)

    assert worst(found.value)[0] <= Fraction(bound)
    assert worst(found.value * Fraction(101, 100))[0] > Fraction(bound)
    assert worst(found.value)[1] == found.binding_prior
    assert (found.windows, found.checked) == ((), "monotone")


def test_a_small_priors_risk_falls_at_some_budgets_and_the_first_that_reaches_the_bound_counts():
    assert risk_of_gaussian(3.5, 1e-4) > 254 > 240 > 219 > risk_of_gaussian(4, 1e-4)
    found = choose("risk", "240", priors=["1/10000"])
    assert risk_of_gaussian(float(found.value), 1e-4) == pytest.approx(240, rel=1e-9)
    assert max(risk_of_gaussian(rho, 1e-4) for rho in float(found.value) * np.linspace(0.01, 1, 2000)) <= 240
    assert float(found.value) == pytest.approx(3.13, abs=5e-3)
    [window] = found.windows
    for end, outwards in zip(window, (-1e-6, 1e-6), strict=True):
        assert risk_of_gaussian(float(end), 1e-4) <= 240 < risk_of_gaussian(float(end) * (1 + outwards), 1e-4)
    assert found.checked.startswith("checked on ")
    assert "rises" not in found.reason
    both = choose("risk", "240", priors=["1/500", "1/10000", "1/3000"])
    assert (both.value, both.binding_prior) == (found.value, Fraction(1, 10000))
    with_one_that_rises = choose("posterior", "0.0254", priors=["1/40", "1/10000"])
    assert (with_one_that_rises.binding_prior, with_one_that_rises.windows) == (Fraction(1, 40), ())


@pytest.mark.parametrize("below", [1e-3, 1e-6])
def test_a_bound_just_below_a_peak_is_reached_there(below):
    peak = max(risk_of_gaussian(rho, 1e-4) for rho in np.linspace(3.3, 3.6, 30001))
    bound = Fraction(f"{peak * (1 - below):.10f}")
    found = choose("risk", bound, priors=["1/10000"])
    assert float(found.value) < 3.5
    assert found.windows[0][0] < 3.6
    above = choose("risk", Fraction(f"{peak * (1 + 1e-6):.10f}"), priors=["1/10000"])
    assert float(above.value) > 5
    assert above.windows == ()


def test_for_a_large_prior_the_first_budget_counts_too():
    def not_(rho):  # 1 - posterior on average
        eta = np.arange(-60, 61)
        weight, ratio = np.exp(-rho * eta**2.0), np.exp(np.minimum(rho * (2 * eta + 1.0), 700))
        return (weight * 1e-4 / (0.9999 * ratio + 1e-4)).sum() / weight.sum()

    bound = 1 - Fraction(f"{(not_(3.4) + not_(4.3)) / 2:.12g}")
    found = choose("posterior", bound, priors=["0.9999"])
    rhos = np.geomspace(0.3, 12, 4000)
    first = rhos[np.argmax([1 - not_(rho) > bound for rho in rhos])]
    assert first < 3.4
    assert float(found.value) == pytest.approx(first, rel=2e-3)


def test_of_several_counts_too_the_first_budget_counts():
    prior, noises = "1/1000000", (DiscreteGaussian(variance=1), DiscreteGaussian(variance=8))
    budgets = [Fraction(round(1000 * b), 1000) for b in np.geomspace(2, 16, 100)]
    risks = np.array([exposures(noises, [Intruder(prior=prior)], b)[0].risk for b in budgets])
    highest = np.maximum.accumulate(risks)
    drop = int(np.argmax(highest / risks))
    assert highest[drop] / risks[drop] > 1.02
    bound = Fraction(float(f"{(highest[drop] + risks[drop]) / 2:.6g}"))
    found = largest_by_posterior(noises, [Intruder(prior=prior)], "risk", bound, "rho", None)
    first = int(np.argmax(risks > bound))
    assert budgets[first - 1] <= found.value <= budgets[first]
    assert any(low <= budgets[drop] <= high for low, high in found.windows)


def test_equal_priors_with_other_costs_are_one_for_risk_and_end():
    both = [Intruder(prior="1/2"), Intruder(prior="1/2", false_accusation=2)]
    found = choose("risk", "1.0000015", priors=both)
    assert found.value == choose("risk", "1.0000015", priors=["1/2"]).value
    assert found.value is not None
    assert found.priors == (Fraction(1, 2), Fraction(1, 2))


def test_geometric_counts_rise_for_every_prior():
    budgets = [Fraction(b, 4) for b in range(1, 80)]
    for noises in ((Geometric(z=1),), (Geometric(z=1), Geometric(z="1/3"), Geometric(z=1))):
        for prior in ("1/1000000", "1/1000", "999/1000"):
            figures = [exposures(noises, [Intruder(prior=prior)], b)[0].marginal_posterior for b in budgets]
            assert (np.diff(figures) >= -1e-13 * np.array(figures[1:])).all()
            assert figures[-1] > figures[0]
    assert choose("risk", "240", priors=["1/10000"], mechanism="geometric").checked == "monotone"


def test_the_marginal_posterior_rises_with_rho_over_all_variances():
    intruders = [Intruder(prior=prior) for prior in ("1/2", "1/5", "1/50", "9/10", "1/500", "499/500")]
    variances = np.concatenate([np.geomspace(1e-4, 0.02, 40), np.geomspace(0.021, 20, 250), np.geomspace(21, 1e6, 15)])
    figures = np.array(
        [
            [one.marginal_posterior for one in exposures((DiscreteGaussian(variance=1),), intruders, 1 / Fraction(s))]
            for s in variances[::-1].tolist()
        ]
    )
    assert (np.diff(figures, axis=0) >= -1e-13).all()
    assert figures[0] == pytest.approx([float(one.prior) for one in intruders], abs=1e-6)
    assert figures[-1] == pytest.approx(1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.fractions("1/4", 4, max_denominator=4), min_size=2, max_size=3), st.booleans(), priors)
def test_the_marginal_posterior_of_several_counts_rises_too(numbers, geometric, prior):
    noises = tuple(Geometric(z=one) if geometric else DiscreteGaussian(variance=one) for one in numbers)
    rising = [exposures(noises, [Intruder(prior=prior)], Fraction(b, 8))[0].marginal_posterior for b in range(2, 17, 2)]
    assert (np.diff(rising) > 0).all()


@pytest.mark.parametrize(
    ("measure", "bound", "prior", "reason"),
    [
        ("right_decision", "0.4", "1/2", "is at even odds, and right more often than 2/5 however small rho is"),
        ("right_decision", "0.5", "1/2", "is at even odds"),
        ("right_decision", "0.5000001", "1/2", "next to even odds: only a rho too small to be of use"),
        ("right_decision", "0.95", "3/4", "claims a target before seeing anything"),
        ("risk", "1", "1/2", "R is above 1 at every rho"),
        ("posterior", "0.5", "3/5", "the average posterior is above the prior 3/5 at every rho"),
        ("risk", "1.0000001", "1/2", "too small to be of use"),
    ],
)
def test_where_no_budget_qualifies_there_is_none_and_a_reason(measure, bound, prior, reason):
    found = choose(measure, bound, priors=["1/50", prior] if measure == "right_decision" else [prior])
    assert found.value is None
    assert found.binding_prior == Fraction(prior)
    assert reason in found.reason
    assert found.as_json()["rho"] is None
    if prior == "3/4":
        assert all(high > low > 0 for low, high in found.windows)
        assert found.windows


def test_even_odds_qualify_above_one_half_and_the_worst_prior_of_a_set_binds():
    found = choose("right_decision", "0.59", priors=["1/50", "1/2", "1/5"])
    assert found.binding_prior == Fraction(1, 2)
    assert right_of_gaussian(float(found.value), 0.5) == pytest.approx(0.59, abs=1e-10)
    both = choose("right_decision", "0.29", priors=["1/5", "1/10"])
    alone = [choose("right_decision", "0.29", priors=[prior]) for prior in ("1/5", "1/10")]
    assert both.value == min(one.value for one in alone)
    for low, high in both.windows:
        for one in alone:
            assert any(a <= low and high <= b for a, b in [(0, one.value), *one.windows])


def test_costs_of_the_intruder_move_the_bound():
    careful = choose("right_decision", "0.29", priors=[Intruder(prior="1/2", false_accusation=4)])
    assert careful.value == choose("right_decision", "0.29", priors=["1/5"]).value
    assert (
        choose("risk", "1.1", priors=[Intruder(prior="1/2", miss=4)]).value
        == choose("risk", "1.1", priors=["1/2"]).value
    )


def test_a_strategys_budget_has_its_own_noise_and_shares():
    share = SMALL.share("block", "detailed")
    single = choose("right_decision", "0.29", priors=["1/5"])
    found = choose("right_decision", "0.29", priors=["1/5"], strategy=SMALL, queries=["detailed"])
    # replace-one: variance 1/(rho share), the paper's is 1/(2 rho)
    assert float(found.value) == pytest.approx(float(2 * single.value / share), rel=1e-10)
    every = choose("risk", "1.1", priors=["1/5"], strategy=SMALL)
    noises = noises_of(SMALL.with_budget(rho=every.value), "block")
    assert len(noises) == 3
    assert Intruder(prior="1/5").against(*noises).risk == pytest.approx(1.1, rel=1e-10)
    assert Intruder(prior="1/5").against(*noises).risk <= 1.1
    checked = choose("right_decision", "0.29", priors=["1/5"], strategy=SMALL, level="tract")
    at = noises_of(SMALL.with_budget(rho=checked.value), "tract")
    assert Intruder(prior="1/5").against(*at).right_decision <= 0.29
    above = noises_of(SMALL.with_budget(rho=checked.value * Fraction("1.00001")), "tract")
    assert Intruder(prior="1/5").against(*above).right_decision > 0.29


def test_a_pure_strategy_has_an_epsilon():
    plan = Strategy.preset("e2e-2018", epsilon=1)
    found = choose("right_decision", "0.6", priors=["1/2", "1/5"], strategy=plan)
    assert (found.parameter, found.checked) == ("epsilon", "exact")
    z = [float(noise.z) for noise in noises_of(plan.with_budget(epsilon=found.value), "enumdist")]
    assert max(right_of_geometric(z, p) for p in (0.5, 0.2)) == pytest.approx(0.6, abs=1e-10)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"measure": "regret"}, "unknown measure 'regret'. Known are risk, posterior, right_decision"),
        ({"bound": 1}, "a bound on a probability must be less than 1. Got 1"),
        ({"bound": 0}, "bound must be greater than 0"),
        ({"priors": []}, "no prior is given"),
        ({"level": "block"}, "a level and queries belong to a strategy"),
        ({"mechanism": "laplace"}, "unknown mechanism 'laplace'"),
        ({"measure": "risk", "bound": 3}, "a bound of 3 on R is never broken"),
        ({"strategy": SMALL, "level": "state"}, "unknown level 'state'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(asked, line):
    given = {"measure": "right_decision", "bound": "0.6", "priors": ["1/2"]} | asked
    with pytest.raises(InputError, match=line):
        choose(given.pop("measure"), given.pop("bound"), **given)


# --- curve ---


def test_a_curve_has_risk_and_error_side_by_side():
    table = curve(["1/2", 2], priors=["1/2", "1/5"], strategy=SMALL)
    assert len(table) == 4
    row = table[(table.budget == 2) & (table.prior == "1/5")].iloc[0]
    exposed = Intruder(prior="1/5").against(*noises_of(SMALL, "block"))
    assert (row.posterior, row.risk, row.right_decision) == pytest.approx(
        (exposed.marginal_posterior, exposed.risk, exposed.right_decision)
    )
    assert row.epsilon == account_of(SMALL, pld=False).epsilon
    assert row["noise_mean_abs:total@tract"] == pytest.approx(mean_abs(SMALL.noise("tract", "total")))
    assert [name for name in table if name.startswith("noise")] == [
        f"noise_mean_abs:{query}@{level}" for level in SMALL.levels for query in ("detailed", "total")
    ]
    assert list(curve([1], priors=["1/2"], mechanism="geometric").epsilon) == [1]


@pytest.mark.parametrize("s", ["1/20", "1", "9999", "10001", "1e6"])
def test_the_mean_absolute_noise_is_the_sum_of_its_tails(s):
    for noise in (DiscreteGaussian(variance=s), Geometric(z=max(1 / Fraction(s), Fraction(1, 1000)))):
        reach = 40 * math.sqrt(noise.actual_variance()) + 50
        assert mean_abs(noise) == pytest.approx(2 * noise.tail(np.arange(1, reach)).sum(), rel=1e-10)


# --- empirical epsilon ---


@pytest.mark.parametrize("prior", ["1/2", "1/50", "4/5"])
@pytest.mark.parametrize("budget", ["0.05", "0.7", "6"])
def test_a_single_count_gives_its_own_budget_back(prior, budget):
    intruder, number = Intruder(prior=prior), Fraction(budget)
    geometric = empirical_epsilon(intruder.against(Geometric(z=number)))
    assert geometric.geometric_epsilon == pytest.approx(float(number), rel=1e-9)
    gaussian = empirical_epsilon(intruder.against(DiscreteGaussian(variance=1 / (2 * number))))
    assert gaussian.gaussian_rho == pytest.approx(float(number), rel=1e-9)
    assert gaussian.implied_epsilon == pytest.approx(math.sqrt(2 * number), rel=1e-9)
    exposed = intruder.against(DiscreteGaussian(variance=1 / (2 * number)))
    assert empirical_epsilon(exposed.marginal_posterior, prior) == gaussian


def test_blocks_of_2020_expose_as_a_single_count_of_a_third_not_as_17():
    noises = noises_of(PL94, "block")
    found = empirical_epsilon(Intruder(prior="1/2").against(*noises))
    # All queries' precisions add up to rho of the level, so a single normal count with variance 1/rho says as much:
    # the paper's rho is half of it (erratum 9).
    level = float(PL94.budget * PL94.levels["block"])
    assert found.gaussian_rho == pytest.approx(level / 2, rel=1e-3)
    assert found.implied_epsilon == pytest.approx(0.321, abs=5e-4)
    assert found.geometric_epsilon == pytest.approx(0.319, abs=5e-4)
    paper = empirical_epsilon(Intruder(prior="1/2").against(DiscreteGaussian(variance="5.04")))
    assert paper.implied_epsilon == pytest.approx(0.45, abs=5e-3)  # "the implied epsilon at the Census block level"
    assert found.as_json()["assumptions"] == list(ASSUMPTIONS)
    assert any("no privacy guarantee" in words for words in found.assumptions)


def test_of_several_budgets_that_tell_as_much_the_empirical_epsilon_is_the_smallest():
    exposed = Intruder(prior="1/10000").against(DiscreteGaussian(variance=Fraction(1, 10)))  # rho = 5
    found = empirical_epsilon(exposed)
    assert found.gaussian_rho < 3.2
    assert risk_of_gaussian(found.gaussian_rho, 1e-4) == pytest.approx(risk_of_gaussian(5, 1e-4), rel=1e-9)


def test_an_empirical_epsilon_needs_a_prior_and_a_posterior_above_it():
    exposed = Intruder(prior="1/2").against(Geometric(z=1))
    with pytest.raises(InputError, match="an exposure has its prior"):
        empirical_epsilon(exposed, "1/2")
    with pytest.raises(InputError, match="needs the prior it belongs to"):
        empirical_epsilon(0.6)
    with pytest.raises(InputError, match=r"must lie between the prior 1/2 and 1\. Got 0\.4"):
        empirical_epsilon(0.4, "1/2")
    with pytest.raises(InputError, match="too close to the prior 1/2"):
        empirical_epsilon(0.5 + 1e-12, "1/2")


def test_the_inverse_posterior_inverts_several_counts():
    noises = (DiscreteGaussian(variance=2), DiscreteGaussian(variance=6))
    budget = inverse_posterior(noises, Intruder(prior="1/5"), 0.3)
    assert exposures(noises, [Intruder(prior="1/5")], budget)[0].marginal_posterior == pytest.approx(0.3, rel=1e-10)


# --- allocation ---


def test_an_allocation_caps_the_leaf_and_gives_the_rest_to_the_levels_above_in_proportion():
    moved = allocate(SMALL, "1.05", "risk", ["1/5", "1/2"])
    before, after = SMALL.levels, moved.after.levels
    assert sum(after.values()) == 1
    assert after["block"] == moved.largest_share < before["block"]
    assert after["county"] / after["tract"] == before["county"] / before["tract"]
    assert (moved.after.budget, moved.after.name) == (SMALL.budget, "small reallocated")
    assert moved.after.queries == SMALL.queries

    def risk(share):
        noises = noises_of(SMALL, "block", level_share=share)
        return max(Intruder(prior=prior).against(*noises).risk for prior in ("1/5", "1/2"))

    assert risk(after["block"]) <= 1.05 < risk(after["block"] * Fraction(101, 100))
    assert risk(before["block"]) > 1.05
    rows = moved.risk[(moved.risk.units == "block") & (moved.risk.allocation == "after")]
    assert rows.risk.max() == pytest.approx(risk(after["block"]))


def test_an_allocations_tables_say_what_it_costs_and_for_whom_it_holds():
    moved = allocate(SMALL, "1.05", "risk", ["1/5"])
    noise = moved.noise.set_index(["allocation", "level", "query"])
    assert len(noise) == 2 * 3 * 2
    assert noise.loc[("after", "block", "total"), "mean_abs"] > noise.loc[("before", "block", "total"), "mean_abs"]
    assert noise.loc[("after", "tract", "total"), "mean_abs"] < noise.loc[("before", "tract", "total"), "mean_abs"]
    detailed = moved.after.noise("tract", "detailed")
    assert noise.loc[("after", "tract", "detailed"), "variance"] == pytest.approx(detailed.actual_variance())
    assert "with siblings; one that is its tract's only child is measured with it" in moved.holds_for
    only = moved.risk[(moved.risk.units == "only block of a tract") & (moved.risk.allocation == "after")]
    share = moved.after.levels["tract"] + moved.after.levels["block"]
    exposed = Intruder(prior="1/5").against(*noises_of(moved.after, "tract", level_share=share))
    assert only.risk.item() == pytest.approx(exposed.risk)
    assert only.risk.item() > 1.05
    own, above = (moved.after.noise(level, "detailed") for level in ("block", "tract"))
    two = Hierarchy(intruder=Intruder(prior="1/5"), noise=own, above=[Above(noise=above, siblings=[own] * 27)])
    row = moved.hierarchy[(moved.hierarchy.allocation == "after") & (moved.hierarchy.others_above == 10)]
    assert row.right_decision.item() == pytest.approx(two.decision([11]).right_decision)


def test_an_only_child_of_the_root_has_its_row_and_is_measured_with_the_whole_budget():
    moved = allocate(SMALL, "1.05", "risk", ["1/5"])
    assert set(moved.risk.units) == {"block", "only block of a tract", "only block of a county"}
    row = moved.risk[(moved.risk.units == "only block of a county") & (moved.risk.allocation == "after")]
    exposed = Intruder(prior="1/5").against(*noises_of(SMALL, "county", level_share=Fraction(1)))
    assert row.risk.item() == pytest.approx(exposed.risk)


@pytest.mark.parametrize("only_child", [True, False])
def test_a_bound_at_the_root_or_between_says_for_whom_it_holds(only_child):
    plan = replace(SMALL, only_child=only_child)
    told = [bounded_units(plan, level) for level in plan.levels]
    if only_child:
        assert told[0].startswith("units of level 'county' with several children; an only child")
        assert told[2].startswith("units of level 'block' with siblings; one that is its tract's only child")
    else:
        assert told == [f"every unit of level {level!r}" for level in plan.levels]


def test_drawn_figures_of_the_hierarchy_have_their_standard_error(monkeypatch):
    exactly = allocate(SMALL, "1.05", "risk", ["1/5"]).hierarchy
    errors = ["draws", "right_decision_se", "gain_se", "loss_se"]
    assert exactly[errors].isna().all(axis=None)
    decision = Hierarchy.decision
    drawn = {"draws": 100, "right_decision_se": 0.0123, "gain_se": 0.01, "loss_se": 0.02}
    monkeypatch.setattr(Hierarchy, "decision", lambda *given: replace(decision(*given), **drawn))
    found = allocate(SMALL, "1.05", "risk", ["1/5"]).hierarchy
    assert (found[errors] == list(drawn.values())).all(axis=None)


def test_a_level_that_keeps_the_bound_stays_or_rises_when_asked():
    stays = allocate(SMALL, "0.65", "right_decision", ["1/2"], queries=["detailed"])
    assert stays.after is SMALL
    assert "kept already" in stays.note
    assert stays.largest_share > SMALL.levels["block"]
    rises = allocate(SMALL, "0.65", "right_decision", ["1/2"], queries=["detailed"], rise=True)
    assert rises.after.levels["block"] == stays.largest_share
    assert sum(rises.after.levels.values()) == 1
    assert rises.after.levels["tract"] < SMALL.levels["tract"]
    noises = noises_of(rises.after, "block", queries=["detailed"])
    assert 0.6499 < Intruder(prior="1/2").against(*noises).right_decision <= 0.65
    middle = allocate(SMALL, "1.05", "risk", ["1/5"], level="tract", queries=["detailed"])
    assert middle.after.levels["block"] == SMALL.levels["block"]
    assert middle.holds_for.startswith("units of level 'tract' with siblings and several children;")
    assert middle.after.levels["county"] > SMALL.levels["county"]


def test_an_allocation_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="no share of level 'block' keeps the bound: an intruder with prior 1/2 is at"):
        allocate(SMALL, "0.4", "right_decision", ["1/2"], queries=["detailed"])
    with pytest.raises(InputError, match="there is no level above 'county'"):
        allocate(SMALL, "0.6", "right_decision", ["1/2"], level="county")
    with pytest.raises(InputError, match="unknown level 'state'"):
        allocate(SMALL, "0.6", "right_decision", ["1/2"], level="state")
    with pytest.raises(InputError, match="There is no share to rise to"):
        allocate(SMALL, "0.999", "right_decision", ["1/2"], queries=["detailed"], rise=True)


def test_without_the_only_child_rule_the_bound_is_for_every_unit():
    moved = allocate(replace(SMALL, only_child=False), "1.05", "risk", ["1/5"], queries=["detailed"])
    assert moved.holds_for == "every unit of level 'block'"
    assert set(moved.risk.units) == {"block"}


def test_choosing_for_given_noise_is_the_same_as_for_a_strategy():
    noises = noises_of(SMALL.with_budget(rho=1), "block", queries=["detailed"])
    one = choose("posterior", "0.3", priors=["1/5"], strategy=SMALL, queries=["detailed"])
    same = largest_by_posterior(noises, [Intruder(prior="1/5")], "posterior", Fraction("0.3"), "rho", None)
    assert (one.value, one.reason, one.checked) == (same.value, same.reason, same.checked)
    evidence = Evidence(noises=noises_of(SMALL.with_budget(rho=one.value), "block", queries=["detailed"]))
    assert Exposure(intruder=Intruder(prior="1/5"), evidence=evidence).marginal_posterior <= 0.3
