"""Levels above with unknown people in the target's unit: against enumeration of everything from the definition."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric
from tallyveil.risk import Above, Hierarchy, Intruder, Several, priors
from tallyveil.risk.target.several_counts import exposure_of

small = st.fractions("1/4", 2, max_denominator=8)
noises = st.one_of(small.map(lambda s: DiscreteGaussian(variance=s)), small.map(lambda z: Geometric(z=1 + z)))
log_priors = st.sampled_from(
    [None, priors.Poisson(mean=0.3), priors.NegativeBinomial(mean=1, variance=3), priors.AtMost(count=2),
     priors.Binomial(unknown=3, share="1/4", known=1)]
)  # fmt: skip
one_level = st.tuples(noises, st.lists(noises, min_size=0, max_size=2), log_priors)
probabilities = st.fractions("1/10", "9/10", max_denominator=10)
severals = st.builds(
    Several,
    intruder=st.builds(
        Intruder,
        prior=probabilities,
        known=st.integers(0, 2),
        false_accusation=st.fractions("1/3", 3, max_denominator=5),
    ),
    others=st.integers(0, 3),
    share=st.none() | probabilities,
)
OWN, COUNTY = DiscreteGaussian(variance="5.04"), DiscreteGaussian(variance="2.0284")
SIZE = 34  # of siblings' counts that are enumerated
ETA = np.arange(-24, 25)


def hierarchy(several, own, levels) -> Hierarchy:
    return Hierarchy(
        intruder=several,
        noise=own,
        above=[Above(noise=noise, siblings=siblings, prior=prior) for noise, siblings, prior in levels],
    )


def people(several):
    """P[B = b], by going through everybody."""
    q, chances = float(several.share), np.zeros(several.others + 1)
    for each in product((0, 1), repeat=several.others):
        chances[sum(each)] += math.prod(q if one else 1 - q for one in each)
    return chances


def noise_of_siblings(siblings, at):
    """Probabilities of the sum of the siblings' noise, convolved one after another."""
    wide, total = np.arange(-150, 151), np.ones(1)
    for one in siblings:
        total = np.convolve(total, one.pmf(wide))
    place = np.asarray(at) + len(total) // 2
    inside = (place >= 0) & (place < len(total))
    return np.where(inside, total[np.clip(place, 0, len(total) - 1)], 0.0)


def joint(several, own, levels, released, pairs):
    """P[T, B, the siblings' counts, and all that was released], with an axis for each of the first."""
    k, p, y = several.intruder.known, float(several.intruder.prior), np.arange(SIZE)
    grids = np.meshgrid([0, 1], np.arange(several.others + 1), *[y] * len(levels), indexing="ij")
    count = k + grids[0] + grids[1]
    mass = np.where(grids[0] == 1, p, 1 - p) * people(several)[grids[1]] * own.pmf(released - count)
    for (noise, siblings, prior), grid, (above, rest) in zip(levels, grids[2:], pairs, strict=True):
        count = count + grid
        weight = np.ones(SIZE) if prior is None else np.exp(prior(y))
        mass = mass * noise.pmf(above - count) * (weight * noise_of_siblings(siblings, rest - y))[grid]
    return mass, count


@pytest.mark.parametrize("levels", [1, 2])
def test_the_posterior_equals_enumeration_of_everybody(levels):
    @settings(max_examples=25)
    @given(
        severals,
        noises,
        st.lists(one_level, min_size=levels, max_size=levels),
        st.integers(-1, 6),
        st.lists(st.tuples(st.integers(-1, 6), st.integers(-2, 4)), min_size=levels, max_size=levels),
    )
    def check(several, own, given_levels, released, pairs):
        fits = [prior is None or siblings for _, siblings, prior in given_levels]
        given_levels = [one if fit else (one[0], [], None) for one, fit in zip(given_levels, fits, strict=True)]
        pairs = [(x, y if siblings else 0) for (x, y), (_, siblings, _) in zip(pairs, given_levels, strict=True)]
        found = hierarchy(several, own, given_levels)
        mass, _ = joint(several, own, given_levels, released, pairs)
        assert found.posterior(released, pairs) == pytest.approx(mass[1].sum() / mass.sum(), abs=1e-11)
        _, nearest = joint(several, own, given_levels[:1], released, pairs[:1])
        over_near = mass.reshape(*nearest.shape, -1).sum(axis=-1) / mass.sum()
        expected = np.bincount(nearest.ravel(), weights=over_near.ravel())
        shares = found.above_posterior(released, pairs)
        both = min(len(shares), len(expected))
        assert shares[:both] == pytest.approx(expected[:both], abs=1e-11)

    check()


def decision_by_hand(several, own, level, others):
    """Right, tie, gain: claims are compared with the definition at every released count that may occur."""
    noise, siblings, prior = level
    n, chances, y = several.others, people(several), np.arange(SIZE + others)
    x1 = x2 = np.arange(ETA[0], ETA[-1] + n + 1)  # minus the count if nobody of the others has them
    rest = ETA + others if siblings else np.array([0])
    g = noise_of_siblings(siblings, rest[:, None] - y) * (1 if prior is None else np.exp(prior(y)))
    likely = [own.pmf(x1 - b) for b in range(-1, n + 1)]  # of the unit's count, at b + 1
    v = [noise.pmf((x2 + 1 + others)[:, None] - m - y) @ g.T for m in range(n + 2)]  # m = B + T
    has, has_not = (sum(c * np.multiply.outer(likely[b + t], v[b + t]) for b, c in enumerate(chances)) for t in (1, 0))
    needed = float(several.intruder.odds_needed)
    odds = np.divide(has, has_not, out=np.full_like(has, np.nan), where=has_not > 1e-250)
    claims, near = odds > needed * (1 + 1e-9), np.abs(odds / needed - 1) <= 1e-9
    alone = sum(c * likely[b + 1] for b, c in enumerate(chances)), sum(c * likely[b] for b, c in enumerate(chances))
    without = alone[0] > needed * alone[1] * (1 + 1e-12)
    truth = sum(
        c * likely[b + 1][:, None, None] * noise.pmf(x2 - b)[:, None] * noise_of_siblings(siblings, rest - others)
        for b, c in enumerate(chances)
    )
    return truth[claims].sum(), truth[near].sum(), (truth * ~without[:, None, None])[claims].sum()


@settings(max_examples=30)
@given(severals, noises, one_level, st.integers(0, 2))
def test_the_decision_equals_enumeration_of_everything_that_may_be_released(several, own, level, others):
    if not level[1]:
        level, others = (level[0], [], None), 0
    found = hierarchy(several, own, [level]).decision([several.intruder.known + 1 + others])
    expected = decision_by_hand(several, own, level, others)
    assert (found.right_decision, found.tie, found.gain) == pytest.approx(expected, abs=1e-8)
    assert found.gain - found.loss == pytest.approx(found.right_decision - found.alone, abs=1e-11)
    assert found.truncation < 1e-10


def test_a_decision_with_three_levels_equals_enumeration_and_drawn_counts_agree(monkeypatch):
    several = Several(intruder=Intruder(prior="2/5", false_accusation="3/2"), others=2, share="1/4")
    quarter, half = DiscreteGaussian(variance="1/4"), DiscreteGaussian(variance="1/2")
    levels = [(half, [quarter], None), (quarter, [Geometric(z=4)], priors.Poisson(mean=1))]
    three = hierarchy(several, half, levels)
    exact, eta, y = three.decision([2, 4]), np.arange(-7, 10), np.arange(30)
    f2 = [half.pmf((2 + eta)[:, None] - m - y) for m in range(4)]
    f3 = [quarter.pmf((4 + eta)[:, None, None] - m - y[:, None] - y) for m in range(4)]
    g1 = quarter.pmf((1 + eta)[:, None] - y)
    g2 = Geometric(z=4).pmf((2 + eta)[:, None] - y) * np.exp(priors.Poisson(mean=1)(y))
    v = [np.einsum("ai,bi,cij,dj->abcd", f2[m], g1, f3[m], g2, optimize=True) for m in range(4)]
    right, chances = 0.0, people(several)
    for x in range(-7, 12):
        has, has_not = (sum(c * half.pmf(x - b - t) * v[b + t] for b, c in enumerate(chances)) for t in (1, 0))
        claims = 0.4 * has > 1.5 * 0.6 * has_not
        for b, c in enumerate(chances):
            mass = np.einsum(
                "a,b,c,d->abcd", half.pmf(eta - b), quarter.pmf(eta), quarter.pmf(eta - b), Geometric(z=4).pmf(eta)
            )
            right += float(c * half.pmf(x - 1 - b) * mass[claims].sum())
    assert (exact.draws, exact.right_decision) == (None, pytest.approx(right, abs=1e-9))
    monkeypatch.setattr("tallyveil.risk.above.decision.NearestLevel.seconds", lambda _, *sizes: 1 if sizes else 1e-3)
    for longest in (70, 0.1):  # the upper level drawn, then both
        monkeypatch.setattr("tallyveil.risk.above.decision._LONGEST", longest)
        drawn = three.decision([2, 4], draws=70, seed=3)
        assert drawn.draws == 70
        for name in ("right_decision", "gain", "loss"):
            error = getattr(drawn, f"{name}_se")
            assert 0 < error < 0.06
            assert abs(getattr(drawn, name) - getattr(exact, name)) < 4 * error


def test_siblings_who_are_all_known_make_the_count_above_a_second_count_of_the_unit():
    several = Several(intruder=Intruder(prior="1/3"), others=6, share="1/5")
    nobody = priors.Binomial(unknown=0, share="1/2", known=4)
    found = hierarchy(several, OWN, [(COUNTY, [OWN] * 3, nobody)]).decision([5])
    both = exposure_of(several, [OWN, COUNTY])
    assert (found.right_decision, found.tie) == pytest.approx((both.right_decision, both.tie), abs=1e-9)
    assert found.alone == pytest.approx(several.against(OWN).right_decision, abs=1e-12)


def test_a_count_above_that_fixes_the_number_leaves_the_share_of_the_unknown_people_and_a_tie():
    # Without noise above, B + T is known, and the unit's own count adds nothing: the posterior is (B + T) / 4.
    sharp = DiscreteGaussian(variance="1/10000")
    two = hierarchy(Several(intruder=Intruder(prior="1/2"), others=3), OWN, [(sharp, [sharp], None)])
    assert [two.posterior(x, [(m + 5, 5)]) for m in range(5) for x in (0, 3)] == pytest.approx(
        [m / 4 for m in range(5) for _ in (0, 3)], abs=1e-9
    )
    found = two.decision([6])  # T = 1, so B + T is 1 to 4: claimed from 3 on, a tie at 2
    assert (found.right_decision, found.tie) == pytest.approx((1 / 2, 3 / 8), abs=1e-9)


def test_many_unknown_people_are_drawn_and_lower_what_the_hierarchy_adds(monkeypatch):
    monkeypatch.setattr("tallyveil.risk.above.decision._LONGEST", 0.2)
    rare = priors.Poisson(mean=0.1)
    figures = [
        hierarchy(Several(intruder=Intruder(prior="1/2"), others=n, share="1/20"), OWN, [(COUNTY, [OWN] * 27, rare)])
        for n in (0, 10, 100)
    ]
    known, ten, many = (one.decision([1], draws=50) for one in figures)
    assert known.gain - known.loss > 0.05 > ten.gain - ten.loss
    assert (known.draws, ten.draws, many.draws) == (None, None, 50)
    assert abs(many.right_decision - many.alone) < 4 * many.right_decision_se


def test_what_cannot_be_told_apart_is_refused():
    two = hierarchy(Several(intruder=Intruder(prior="1/2"), others=2), OWN, [(COUNTY, [OWN], None)])
    with pytest.raises(InputError, match=r"depends on the count of the unit\. Use log_odds"):
        two.evidence([(1, 1)])
    with pytest.raises(InputError, match="a released noisy count must be a whole number"):
        two.posterior(1.5, [(1, 1)])
    for changed, words in (
        ({"unknown": -1}, "the number of unknown people in the siblings must be 0 or more. Got -1"),
        ({"known": -2}, "the number of known people in the siblings must be 0 or more. Got -2"),
        ({"share": 1}, "a share must be strictly between 0 and 1. Got 1. Count people who are certain in known"),
    ):
        with pytest.raises(InputError, match=words):
            priors.Binomial(**{"unknown": 2, "share": "1/2"} | changed)
