"""Levels above: against enumeration, and the exact values of erratum 8."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric
from tallyveil.privacy.sums import sum_of_noise
from tallyveil.risk.above.decision import NearestLevel
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.above.released import reach
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.priors import AtMost, NegativeBinomial, Poisson

RHO_1 = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)
RHO_2 = Fraction("2.56") * Fraction(1256, 4099) * Fraction(1288, 4099)
OWN, COUNTY = DiscreteGaussian(variance=1 / (2 * RHO_1)), DiscreteGaussian(variance=1 / (2 * RHO_2))
EVEN = Intruder(prior="1/2")
TABLE_5 = (2, [(1, -1)])  # x1*, then x2* and y1*


def two_levels(*, intruder=EVEN, own=OWN, **changed) -> Hierarchy:
    return Hierarchy(intruder=intruder, noise=own, above=[Above(**{"noise": COUNTY, "siblings": [OWN] * 27} | changed)])


def test_the_posterior_for_the_data_of_table_5_is_that_of_erratum_8():
    for approximate in (True, False):
        two = two_levels(approximate=approximate)
        assert two.posterior(*TABLE_5) == pytest.approx(0.5033, abs=5e-5)
        exact = (12.94, 38.66, 29.79, 13.92, 3.94, 0.68, 0.07)
        assert 100 * two.above_posterior(*TABLE_5)[:7] == pytest.approx(exact, abs=6e-3)
    assert float(two.intruder.against(OWN).posterior(2)) == pytest.approx(0.5739, abs=5e-5)  # without the hierarchy


def test_right_decisions_gains_and_losses_are_those_of_erratum_8():
    found = two_levels(approximate=True).decision([1])
    assert (found.right_decision, found.alone) == pytest.approx((0.318, 0.5889), abs=5e-4)
    assert (found.gain, found.loss) == pytest.approx((0.0021, 0.273), abs=5e-4)
    assert found.truncation < 1e-11
    assert (found.draws, found.right_decision_se) == (None, None)
    assert 0.589 < two_levels(approximate=True).decision([7]).right_decision < 0.590
    sharp = two_levels(approximate=True, noise=DiscreteGaussian(variance=Fraction(1, 200))).decision([1])  # rho_2 = 100
    assert sharp.right_decision == pytest.approx(0.5868, abs=5e-5)
    assert sharp.right_decision + sharp.tie == pytest.approx(0.5927, abs=5e-5)


small = st.fractions("1/4", 2, max_denominator=8)
noises = st.one_of(small.map(lambda s: DiscreteGaussian(variance=s)), small.map(lambda z: Geometric(z=1 + z)))
log_priors = st.sampled_from([None, Poisson(mean=0.3), Poisson(mean=2.5), NegativeBinomial(mean=1, variance=3)])
one_level = st.tuples(noises, st.lists(noises, min_size=1, max_size=3), log_priors)
released_above = st.tuples(st.integers(-2, 6), st.integers(-3, 4))
intruders = st.builds(
    Intruder,
    prior=st.fractions("1/10", "9/10", max_denominator=20),
    known=st.integers(0, 2),
    false_accusation=st.fractions("1/3", 3, max_denominator=5),
    miss=st.fractions("1/3", 3, max_denominator=5),
)


def sum_by_hand(siblings, reach=240):
    """Probabilities of the siblings' noise from -reach on, convolved one after another."""
    total = np.ones(1)
    for one in siblings:
        total = np.convolve(total, one.pmf(np.arange(-reach, reach + 1)))
    middle = len(total) // 2
    return total[middle - reach : middle + reach + 1]


def joint_by_hand(intruder, own, levels, released, pairs, size):
    """Posterior of x1 and of the siblings' counts at every level, each up to size, as one array."""
    k, p, reach = intruder.known, float(intruder.prior), 240
    y = np.arange(size)
    grids = np.meshgrid(np.array([k, k + 1]), *[y] * len(levels), indexing="ij")
    count = grids[0]
    joint = np.where(count == k, 1 - p, p) * own.pmf(released - count)
    for (noise, siblings, log_prior), grid, (x, rest) in zip(levels, grids[1:], pairs, strict=True):
        count = count + grid
        joint = joint * noise.pmf(x - count) * sum_by_hand(siblings)[reach + rest - y][grid]
        joint = joint * (1 if log_prior is None else np.exp(log_prior(y))[grid])
    return joint / joint.sum(), grids


def hierarchy(intruder, own, levels) -> Hierarchy:
    above = [Above(noise=noise, siblings=siblings, prior=log_prior) for noise, siblings, log_prior in levels]
    return Hierarchy(intruder=intruder, noise=own, above=above)


@pytest.mark.parametrize(("levels", "size"), [(1, 120), (2, 100), (3, 40)])
def test_the_posterior_equals_enumeration_of_everybodys_counts(levels, size):
    @settings(max_examples=25)
    @given(
        intruders,
        noises,
        st.lists(one_level, min_size=levels, max_size=levels),
        st.integers(-2, 5),
        st.lists(released_above, min_size=levels, max_size=levels),
    )
    def check(intruder, own, given_levels, released, pairs):
        found = hierarchy(intruder, own, given_levels)
        joint, grids = joint_by_hand(intruder, own, given_levels, released, pairs, size)
        assert found.posterior(released, pairs) == pytest.approx(joint[1].sum(), abs=1e-12)
        next_above = np.bincount((grids[0] + grids[1]).ravel(), weights=joint.ravel())
        shares = found.above_posterior(released, pairs)
        assert shares.sum() == pytest.approx(1, abs=1e-12)
        both = min(len(shares), len(next_above))
        assert shares[:both] == pytest.approx(next_above[:both], abs=1e-12)

    check()


def test_noise_so_wide_that_discrete_gaussians_add_up_equals_its_convolution_in_the_tails_too():
    siblings = [DiscreteGaussian(variance=s) for s in (4, 5, "13/2")]
    added, convolved = Above(noise=OWN, siblings=siblings).together, sum_of_noise(siblings, cut=1e-150)
    k = np.arange(0, 90)  # to 23 standard deviations
    assert isinstance(added, DiscreteGaussian)
    assert added.log_pmf(k) == pytest.approx(convolved.log_pmf(k), abs=1e-12)


@settings(max_examples=15)
@given(intruders, noises, one_level, st.integers(0, 2))
def test_the_decision_equals_enumeration_of_everything_that_may_be_released(intruder, own, level, others):
    two, k, reach, size = hierarchy(intruder, own, [level]), intruder.known, 240, 90
    noise, siblings, log_prior = level
    g = sum_by_hand(siblings)
    x2 = np.arange(-45, 46) + k + 1 + others
    rest = np.arange(-60, 61) + others
    y = np.arange(size)
    prior = np.ones(size) if log_prior is None else np.exp(log_prior(y))
    v = [noise.pmf(x2[:, None] - x - y) @ (prior[:, None] * g[reach + rest - y[:, None]]) for x in (k, k + 1)]
    p, cost, miss = (float(value) for value in (intruder.prior, intruder.false_accusation, intruder.miss))
    mass = noise.pmf(x2 - k - 1 - others)[:, None] * g[reach + rest - others]
    right = near = gain = 0.0
    for eta in range(-45, 46):
        against = cost * (1 - p) * own.pmf(eta + 1) * v[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            odds = miss * p * own.pmf(eta) * v[1] / against
        likely = own.pmf(eta) * mass
        likely[~np.isfinite(odds)] = 0
        right += likely[odds > 1 + 1e-9].sum()
        near += likely[np.abs(odds - 1) <= 1e-9].sum()
        alone = miss * p * own.pmf(eta) > cost * (1 - p) * own.pmf(eta + 1)
        gain += 0 if alone else likely[odds > 1 + 1e-9].sum()
    found = two.decision([k + 1 + others])
    assert (found.right_decision, found.tie, found.gain) == pytest.approx((right, near, gain), abs=1e-9)


def test_the_decision_with_three_levels_equals_enumeration_of_tiny_noise():
    intruder = Intruder(prior="2/5", known=1, false_accusation=2)
    quarter, half = DiscreteGaussian(variance="1/4"), DiscreteGaussian(variance="1/2")
    levels = [(half, [quarter, half], None), (quarter, [Geometric(z=4)], Poisson(mean=1))]
    found = hierarchy(intruder, half, levels).decision([3, 5])
    eta, y = np.arange(-8, 9), np.arange(30)
    truths = ((3, 1), (5, 2))
    seen, mass, v = [], np.ones(1), []
    for (noise, siblings, _), (count, rest) in zip(levels, truths, strict=True):
        g = sum_by_hand(siblings)[240 + eta]
        seen.append((count + eta, rest + eta))
        mass = np.multiply.outer(np.multiply.outer(mass, noise.pmf(eta)), g)
    for x in (1, 2):
        x2 = x + y
        f2, g1 = half.pmf(seen[0][0][:, None] - x2), sum_by_hand([quarter, half])[240 + seen[0][1][:, None] - y]
        f3 = quarter.pmf(seen[1][0][:, None, None] - x2[:, None] - y)
        g2 = Geometric(z=4).pmf(seen[1][1][:, None] - y) * stats.poisson.pmf(y, 1)
        v.append(np.einsum("ai,bi,cij,dj->abcd", f2, g1, f3, g2, optimize=True))
    right = 0.0
    for e in eta:
        claims = 0.4 * half.pmf(e) * v[1] > 2 * 0.6 * half.pmf(e + 1) * v[0]
        right += float(half.pmf(e) * mass[0][claims].sum())
    assert found.right_decision == pytest.approx(right, abs=1e-9)
    assert (found.draws, found.right_decision_se) == (None, None)
    assert found.truncation < 1e-11


def test_drawn_counts_agree_with_the_exact_sum_within_their_standard_error(monkeypatch):
    one = DiscreteGaussian(variance=1)
    three = hierarchy(Intruder(prior="1/2"), OWN, [(one, [one] * 2, None), (one, [one] * 2, None)])
    exact = three.decision([2, 4])
    monkeypatch.setattr("tallyveil.risk.above.decision.NearestLevel.seconds", lambda _, *sizes: 1 if sizes else 1e-3)
    for longest in (210, 1):  # the upper level drawn, then all of them
        monkeypatch.setattr("tallyveil.risk.above.decision._LONGEST", longest)
        drawn = three.decision([2, 4], draws=200, seed=3)
        assert drawn.draws == 200
        for name in ("right_decision", "gain", "loss", "tie"):
            assert getattr(exact, f"{name}_se") is None
            error = getattr(drawn, f"{name}_se")
            assert 0 < error < 0.03
            assert abs(getattr(drawn, name) - getattr(exact, name)) < 4 * error
        assert 0 < drawn.truncation < 1e-11


@settings(max_examples=15)
@given(intruders, noises, one_level, st.integers(0, 40), st.integers(1, 9))
def test_decisions_add_up_and_do_not_change_when_the_target_is_one_of_several(intruder, own, level, others, more):
    two, found = hierarchy(intruder, own, [level]), None
    found = two.decision([intruder.known + 1 + others])
    figures = (found.right_decision, found.alone, found.gain, found.loss, found.tie)
    assert min(figures) >= 0
    assert found.right_decision + found.tie <= 1 + 1e-12
    assert found.gain - found.loss == pytest.approx(found.right_decision - found.alone, abs=1e-11)
    known = intruder.known + more  # section 5.2
    shifted = Intruder(
        prior=intruder.prior, known=known, false_accusation=intruder.false_accusation, miss=intruder.miss
    )
    moved = hierarchy(shifted, own, [level])
    again = moved.decision([known + 1 + others])
    assert (again.right_decision, again.gain, again.tie) == pytest.approx(
        (found.right_decision, found.gain, found.tie), abs=1e-12
    )
    assert moved.posterior(3 + more, [(4 + more, 2)]) == pytest.approx(two.posterior(3, [(4, 2)]), abs=1e-12)


@settings(max_examples=30)
@given(intruders, noises, st.lists(one_level, min_size=1, max_size=2), released_above)
def test_the_threshold_is_where_the_odds_exceed_those_the_costs_ask_for(intruder, own, levels, pair):
    found, pairs = hierarchy(intruder, own, levels), [pair] * len(levels)
    prior_odds = intruder.prior / (1 - intruder.prior)
    needed = math.log(intruder.odds_needed * prior_odds)
    for released in range(-5, 7):
        odds = found.log_odds(released, pairs) - needed
        if abs(odds) > 1e-9:
            assert (released >= found.threshold(pairs)) == (odds > 0)


def test_dear_accusations_are_made_less_often_and_posteriors_do_not_change():
    cheap, dear = (two_levels(intruder=Intruder(prior="1/2", false_accusation=cost)) for cost in (1, 3))
    assert dear.decision([3]).right_decision < cheap.decision([3]).right_decision
    assert dear.posterior(*TABLE_5) == cheap.posterior(*TABLE_5)


@pytest.mark.parametrize("variance", ["1/10000", "1", "1000000"])
@pytest.mark.parametrize("pairs", [[(1, 0)], [(100, -300)], [(3, 1), (2, 0)], [(1000, -3000), (-5000, 7)]])
def test_any_variance_and_any_counts_have_a_posterior(variance, pairs):
    noise = DiscreteGaussian(variance=variance)
    found = hierarchy(Intruder(prior="1/3"), noise, [(noise, [noise] * 3, None)] * len(pairs))
    assert math.isfinite(found.log_odds(1, pairs))
    found = hierarchy(Intruder(prior="1/3"), noise, [(noise, [noise] * 3, Poisson(mean=2))] * len(pairs))
    assert math.isfinite(found.log_odds(1, pairs))


def test_the_standard_error_is_how_much_figures_differ_from_one_set_of_draws_to_another():
    wide = DiscreteGaussian(variance=50_000)  # rho 1/100000 at both levels
    two = two_levels(own=wide, noise=wide, siblings=[wide] * 27)
    again = [two.decision([1], draws=100, seed=seed) for seed in range(120)]
    found, said = {}, {}
    for name in ("right_decision", "loss", "gain", "tie"):
        found[name] = np.std([getattr(one, name) for one in again], ddof=1)  # known to about 6%
        said[name] = math.sqrt(np.mean([getattr(one, f"{name}_se") ** 2 for one in again]))
    for name in ("right_decision", "loss"):
        assert said[name] == pytest.approx(found[name], rel=0.2)
        assert said[name] != pytest.approx(found[name] / 1.5, rel=0.2)
    for name in ("gain", "tie"):  # seldom above 0: too large an error rather than none
        assert said[name] > 0.8 * found[name]
        assert said[name] > 0
    many = two.decision([1])
    assert (many.draws, many.right_decision_se) == (1000, pytest.approx(0.0047, abs=2e-4))


def test_draws_that_all_agree_do_not_claim_to_be_exact():
    wide = DiscreteGaussian(variance=50_000)
    found = two_levels(own=wide, noise=wide, siblings=[wide] * 27).decision([1], draws=100)
    assert found.tie == 0  # not seen in so many draws, which is not never
    assert found.tie_se == 1 / found.draws == 0.01


def test_noise_too_wide_to_sum_over_is_drawn():
    wide = DiscreteGaussian(variance=10**6)
    found = two_levels(own=wide, noise=wide, siblings=[wide]).decision([5], draws=200)
    assert 0.002 < found.right_decision_se < 0.03
    assert 0 <= found.right_decision < 0.5


def test_a_count_above_without_information_leaves_the_single_level_as_it_is():
    wide = DiscreteGaussian(variance=10**6)
    two = two_levels(noise=wide, siblings=[wide])
    alone = float(two.intruder.against(OWN).posterior(3))
    assert two.posterior(3, [(500, 400)]) == pytest.approx(alone, abs=2e-3)


def test_more_levels_say_more_where_the_target_is_alone_everywhere_and_the_prior_knows_it():
    rare = [(COUNTY, [OWN] * 5, Poisson(mean=0.05)), (COUNTY, [COUNTY] * 5, Poisson(mean=0.05))]
    one, both = (hierarchy(Intruder(prior="1/2"), OWN, rare[:n]).decision([1] * n).right_decision for n in (1, 2))
    assert 0.589 < one < both


def test_levels_that_cannot_be_are_refused():
    geometric = Geometric(z=1)
    for wrong, words in (
        (lambda: two_levels(siblings=[]).posterior(1, [(3, 2)]), "without siblings, give 0 for their sum. Got 2"),
        (
            lambda: two_levels(siblings=[]).decision([2]),
            "above must have 1 with the characteristics, like the only unit",
        ),
        (lambda: two_levels(prior=lambda y: np.full(len(y), -np.inf)).posterior(1, [(1, 1)]), "are too far apart"),
        (lambda: two_levels(prior=lambda y: np.full(len(y), -np.inf)).decision([3]), "far from their true count, 2"),
        (lambda: two_levels(siblings=[3]), "noise must be Geometric or DiscreteGaussian. Got a int"),
        (lambda: two_levels(siblings=[geometric], approximate=True), "the paper's approximation is for discrete"),
        (lambda: hierarchy(Intruder(prior="1/2"), OWN, []), "a hierarchy needs at least one level above"),
        (lambda: two_levels().decision([0]), "the unit above must have 1 or more with the characteristics"),
        (lambda: two_levels().decision([3, 4]), "a true count is needed at each of the 1 levels above"),
        (lambda: two_levels().posterior(1, []), "a count and the siblings' sum are needed at each of the 1 levels"),
        (lambda: two_levels().posterior(1, [(1.5, 0)]), "a released noisy count must be a whole number"),
    ):
        with pytest.raises(InputError, match=words):
            wrong()


def test_counts_that_the_prior_cannot_believe_are_refused_where_the_sum_would_be_too_long(monkeypatch):
    wide = DiscreteGaussian(variance=10_000)
    surprised = two_levels(noise=wide, siblings=[wide], prior=Poisson(mean=1))
    assert surprised.posterior(1, [(10**5, 10**5)]) > 0.5
    monkeypatch.setattr("tallyveil.risk.above.levels._WIDEST", 4000)
    with pytest.raises(InputError, match=r"released above, \[\(100000, 100000\)\], are too far apart for the noise"):
        surprised.posterior(1, [(10**5, 10**5)])


def capped() -> Hierarchy:
    five = DiscreteGaussian(variance=5)
    return hierarchy(EVEN, five, [(five, [DiscreteGaussian(variance=10)], AtMost(count=3))])


@pytest.mark.parametrize("pair", [(40, 38), (2, 1), (-9, 30), (400, -50)])
def test_a_prior_that_rules_counts_out_gives_the_posterior_of_the_counts_that_are_left(pair):
    y = np.arange(4)
    v = [-((pair[0] - x - y) ** 2) / 10 - (pair[1] - y) ** 2 / 20 for x in (0, 1)]
    assert capped().evidence([pair]) == pytest.approx(logsumexp(v[1]) - logsumexp(v[0]), rel=1e-9)
    if pair == (40, 38):
        assert capped().posterior(1, [pair]) == pytest.approx(0.999389, abs=1e-6)


@pytest.mark.parametrize("others", [0, 60])
def test_a_prior_that_rules_out_even_the_truth_decides_as_its_thresholds_do(others):
    found, total = capped(), 0.0
    five, ten = found.noise, found.above[0].together
    for above, rest in product(range(others - 12, others + 15), range(others - 17, others + 18)):
        mass = float(five.pmf(above - 1 - others) * ten.pmf(rest - others))
        total += mass * float(five.tail(found.threshold([(above, rest)]) - 1))
    assert found.decision([1 + others]).right_decision == pytest.approx(total, abs=1e-6)


def test_the_cap_of_a_level_further_up_counts_too():
    half = DiscreteGaussian(variance="1/2")
    given_levels = [(half, [half], None), (half, [half], AtMost(count=1, prior=Poisson(mean=2)))]
    pairs = [(4, 3), (9, 5)]
    joint, _ = joint_by_hand(EVEN, OWN, given_levels, 1, pairs, 40)
    assert hierarchy(EVEN, OWN, given_levels).posterior(1, pairs) == pytest.approx(joint[1].sum(), abs=1e-12)


def test_a_unit_above_that_has_no_other_below_it_counts_the_same_people_again():
    for own, noise in ((OWN, COUNTY), (Geometric(z=1), COUNTY), (OWN, Geometric(z="1/2"))):
        intruder = Intruder(prior="1/3", known=2)
        again, both = hierarchy(intruder, own, [(noise, [], None)]), intruder.against(own, noise)
        assert again.posterior(4, [(1, 0)]) == pytest.approx(float(both.posterior([4, 1])), abs=1e-12)
        shares = again.above_posterior(4, [(1, 0)])
        assert shares[2:] == pytest.approx([1 - again.posterior(4, [(1, 0)]), again.posterior(4, [(1, 0)])])
        found = again.decision([3])
        assert (found.right_decision, found.tie) == pytest.approx((both.right_decision, both.tie), abs=1e-10)


@pytest.mark.parametrize("empty_first", [True, False])
def test_a_level_without_siblings_may_stand_anywhere_in_the_chain(empty_first):
    a, b, siblings = DiscreteGaussian(variance=2), DiscreteGaussian(variance=3), [DiscreteGaussian(variance=1)] * 2
    levels = [(a, [], None), (b, siblings, None)] if empty_first else [(b, siblings, None), (a, [], None)]
    pairs = [(2, 0), (5, 1)] if empty_first else [(5, 1), (2, 0)]
    y, g = np.arange(60), sum_by_hand(siblings)
    v = []
    for x in (0, 1):
        same = a.pmf(2 - x) if empty_first else a.pmf(2 - x - y)
        v.append(float((same * b.pmf(5 - x - y) * g[240 + 1 - y]).sum()))
    found = hierarchy(EVEN, OWN, levels)
    assert found.evidence(pairs) == pytest.approx(math.log(v[1] / v[0]), abs=1e-12)
    assert found.decision([1, 3] if empty_first else [3, 3]).truncation < 1e-11


@pytest.mark.parametrize("released", [(25, 24), (10, 9), (12, 9), (60, 55)])
def test_a_prior_with_nearly_all_its_weight_on_nobody_gives_what_enumeration_gives(released):
    five, prior = DiscreteGaussian(variance=5), NegativeBinomial(mean=1, variance=1e8)  # shape 1e-8
    two = hierarchy(EVEN, OWN, [(five, [five], prior)])
    y = np.arange(200)
    v = [prior(y) + five.log_pmf(released[0] - x - y) + five.log_pmf(released[1] - y) for x in (0, 1)]
    expected = logsumexp(v[1]) - logsumexp(v[0])
    assert two.evidence([released]) == pytest.approx(expected, abs=1e-9)


def test_wide_geometric_sums_are_right_far_out_in_their_tails():
    k, j = np.array([0, 3, 400, 1500, 3000]), np.arange(12_000)  # the standard deviation is 147
    n, p = 27, -math.expm1(-1 / 20)  # a geometric is a difference of two, the sum one of negative binomials
    terms = stats.nbinom.logpmf(j, n, p) + stats.nbinom.logpmf(j + k[:, None], n, p)
    alike = Above(noise=OWN, siblings=[Geometric(z="1/20")] * n).together
    assert alike.log_pmf(k) == pytest.approx(logsumexp(terms, axis=1), abs=1e-9)
    siblings = [Geometric(z="1/20")] * 2 + [Geometric(z="1/30"), DiscreteGaussian(variance=9)]
    unlike, by_hand = Above(noise=OWN, siblings=siblings).together, sum_by_hand(siblings, reach=4000)
    k = np.arange(0, 1500)  # 26 standard deviations
    assert unlike.log_pmf(-k) == pytest.approx(np.log(by_hand[4000 + k]), abs=1e-9)
    assert float(unlike.tail(-5000)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "levels",
    [
        [(DiscreteGaussian(variance="1/4"), 1), (DiscreteGaussian(variance=500), 5)],
        [(DiscreteGaussian(variance="1/100"), 1), (DiscreteGaussian(variance=200), 10)],
    ],
)
def test_many_short_sums_are_seen_to_take_long_and_their_counts_are_drawn(levels, monkeypatch):
    calls, sums = [], NearestLevel.sums

    def counted(*arguments):
        calls.append(1)
        return sums(*arguments)

    monkeypatch.setattr(NearestLevel, "sums", counted)
    three = hierarchy(Intruder(prior="1/2"), OWN, [(noise, [noise] * n, None) for noise, n in levels])
    three.decision([1, 1], draws=20)
    assert len(calls) == 20


def test_a_sum_in_parts_or_with_less_of_the_tails_is_the_same_and_says_what_it_left_out(monkeypatch):
    two = two_levels(siblings=[OWN] * 3)
    whole = two.decision([3])
    monkeypatch.setattr("tallyveil.risk.above.decision._CELLS", 50)
    assert two.decision([3]).right_decision == pytest.approx(whole.right_decision, abs=1e-13)
    ways = [2 * reach(noise, 1e-12) + 1 for noise in (COUNTY, two.above[0].together)]
    seconds = NearestLevel(two, 2).seconds(*ways)
    monkeypatch.setattr("tallyveil.risk.above.decision._LONGEST", 0.999 * seconds)
    less = two.decision([3])
    assert (less.draws, less.right_decision_se) == (None, None)
    assert 1e-11 < less.truncation < 2.1e-9
    assert less.right_decision == pytest.approx(whole.right_decision, abs=less.truncation + 1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Geometric(z="1/20"), DiscreteGaussian(variance=10_000)], ids=str)
def test_two_levels_of_wide_noise_are_summed(noise):
    two = two_levels(own=noise, noise=noise, siblings=[noise] * 27)
    for count in (1, 50):
        found = two.decision([count])
        assert (found.draws, found.right_decision_se) == (None, None)
        assert found.truncation < 2.1e-9
        rng, right = np.random.default_rng(5), []
        eta = np.arange(-4000, 4001)
        masses = [one.pmf(eta) / one.pmf(eta).sum() for one in (noise, two.above[0].together)]
        drawn = [rng.choice(eta, 2000, p=mass) for mass in masses]
        for above, rest in zip(*drawn, strict=True):
            right.append(float(noise.tail(two.threshold([(count + int(above), count - 1 + int(rest))]) - 1)))
        assert abs(np.mean(right) - found.right_decision) < 4 * np.std(right) / math.sqrt(2000)


def test_the_variance_of_a_discrete_gaussian_is_as_near_its_parameter_as_figure_7_says():
    for s in np.linspace(0.5, 3, 60):
        off = abs(DiscreteGaussian(variance=s).actual_variance() - s)
        assert off < (1e-6 if s > 1 else 0.002)
    assert abs(DiscreteGaussian(variance="1/4").actual_variance() - 0.25) > 0.002


def test_the_papers_sum_of_noise_is_near_for_its_rho_and_far_for_large_ones():
    def apart(rho: str, d: int) -> float:  # total variation; Figure 8
        one = DiscreteGaussian(variance=1 / (2 * Fraction(rho)))
        above = [Above(noise=one, siblings=[one] * d, approximate=approximate) for approximate in (True, False)]
        k = np.arange(-400, 401)
        return float(np.abs(above[0].together.pmf(k) - above[1].together.pmf(k)).sum() / 2)

    assert apart("0.0992", 27) < 1e-14
    assert [apart("1", 5), apart("1", 27)] == pytest.approx([0.00108, 0.00057], abs=1e-5)
    assert apart("5", 27) == pytest.approx(0.476, abs=1e-3)


def test_two_levels_with_all_pairs_close_by_decide_as_their_thresholds_do():
    two = two_levels(noise=DiscreteGaussian(variance="1/3"), siblings=[DiscreteGaussian(variance="1/2")] * 2)
    together, total = two.above[0].together, 0.0
    for x2, y in product(range(-6, 11), range(-9, 12)):
        mass = float(two.above[0].noise.pmf(x2 - 2) * together.pmf(y - 1))
        total += mass * float(OWN.tail(two.threshold([(x2, y)]) - 1))
    assert two.decision([2]).right_decision == pytest.approx(total, abs=1e-9)
