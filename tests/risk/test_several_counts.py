"""All but n people with several counts: against the exact figures of one count, and against a brute force of two."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import InputError
from tallyveil.privacy import DiscreteGaussian, Geometric, Invariant
from tallyveil.risk import Attack, Intruder, Several, curve, scan
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.several_counts import SeveralCounts, exposure_of

ONE, TWO = DiscreteGaussian(variance="5.04"), DiscreteGaussian(variance=2)


@pytest.mark.parametrize(
    ("others", "share", "prior"), [(1, None, "1/2"), (9, None, "1/2"), (10, None, "1/2"), (5, "1/5", "1/3")]
)
def test_one_count_gives_the_exact_figures_ties_included(others, share, prior):
    several = Several(intruder=Intruder(prior=prior), others=others, share=share)
    exact, found = several.against(ONE), SeveralCounts(several=several, evidence=Evidence(noises=(ONE,)))
    assert found.marginal_posterior == pytest.approx(exact.marginal_posterior, abs=1e-7)
    assert found.right_decision == pytest.approx(exact.right_decision, abs=1e-12)
    assert found.tie == pytest.approx(exact.tie, abs=1e-12)


@pytest.mark.parametrize(("others", "share", "prior"), [(1, "1/4", "1/3"), (3, "1/2", "1/2"), (4, "1/10", "2/3")])
def test_two_counts_agree_with_the_sum_over_everything_released(others, share, prior):
    several = Several(intruder=Intruder(prior=prior), others=others, share=share)
    found = exposure_of(several, [ONE, TWO])
    p, q = float(several.intruder.prior), float(several.share)
    chance = [math.comb(others, b) * q**b * (1 - q) ** (others - b) for b in range(others + 1)]
    x = np.arange(-40, 50)
    likely = {m: np.outer(ONE.pmf(x - m), TWO.pmf(x - m)) for m in range(others + 2)}
    has, has_not = (sum(c * likely[b + t] for b, c in enumerate(chance)) for t in (1, 0))
    whole = p * has + (1 - p) * has_not
    given = np.divide(p * has, whole, out=np.zeros_like(whole), where=whole > 0)
    posterior = (has * given).sum()
    right, tie = has[given > 0.5 + 1e-10].sum(), has[abs(given - 0.5) < 1e-10].sum()
    assert found.marginal_posterior == pytest.approx(posterior, abs=1e-7)
    assert found.right_decision == pytest.approx(right, abs=1e-9)
    assert found.tie == pytest.approx(tie, abs=1e-9)


def test_the_posteriors_are_a_distribution_that_more_unknown_people_pull_towards_the_prior():
    risks = []
    for others in (0, 1, 5, 25):
        found = exposure_of(Several(intruder=Intruder(prior="1/5"), others=others), [ONE, TWO])
        risks.append(found.risk)
        if others:
            posteriors, chances = found.posteriors()
            assert chances.sum() == pytest.approx(1)
            assert ((posteriors > 0) & (posteriors < 1)).all()
    assert risks == sorted(risks, reverse=True)
    assert risks[-1] > 1


def test_geometric_counts_and_crowds_are_refused():
    with pytest.raises(InputError, match="several geometric counts with unknown others"):
        exposure_of(Several(intruder=Intruder(prior="1/2"), others=2), [Geometric(z=1), Geometric(z=1)])
    with pytest.raises(InputError, match="5,000 unknown others are too many"):
        exposure_of(Several(intruder=Intruder(prior="1/2"), others=5000), [ONE])


SPINE = Spine.from_columns({"county": ["1", "1", "2", "2"], "block": ["11", "12", "21", "22"]}, root="us")
SCHEMA = Schema(attributes={"age": ["child", "adult"]})
PEOPLE = Histogram.from_entries(SPINE, SCHEMA, unit=[0, 0, 1, 2, 3], cell=[0, 1, 1, 0, 1], count=[1, 8, 9, 4, 2])
PLAN = Strategy.default(SPINE, SCHEMA, rho=2)
GEOMETRIC = Strategy.default(SPINE, SCHEMA, epsilon=2)


@pytest.mark.parametrize("attack", [Attack(), Attack(queries=["detailed"]), Attack(kind="cell")])
def test_a_scan_with_unknown_people_has_the_figures_of_its_counts(attack):
    found = scan(PEOPLE, PLAN, levels=["block"], attack=attack, unknown=4, priors=["1/2", "1/10"])
    noises = [n for q in (["detailed"] if attack.queries else PLAN.queries["block"]) if attack.depends_on(PLAN, q)
              for n in [PLAN.noise("block", q)] * attack.rows]  # fmt: skip
    for row in found.levels.itertuples():
        expected = exposure_of(Several(intruder=Intruder(prior=row.prior), others=4), noises)
        assert row.risk == pytest.approx(expected.risk, abs=1e-6)
        assert row.right_decision == pytest.approx(expected.right_decision, abs=1e-6)
    people = found.posteriors.groupby("prior").people.sum()
    assert people.tolist() == pytest.approx([PEOPLE.total()] * 2)


def test_a_scan_of_one_geometric_count_has_the_exact_figures_and_spread():
    found = scan(PEOPLE, GEOMETRIC, levels=["block"], attack=Attack(queries=["detailed"]), unknown=3, priors=["1/3"])
    exact = Several(intruder=Intruder(prior="1/3"), others=3).against(GEOMETRIC.noise("block", "detailed"))
    (row,) = found.levels.itertuples()
    assert (row.risk, row.right_decision) == pytest.approx((exact.risk, exact.right_decision), abs=1e-12)
    counts = np.arange(-600, 601)  # all that may be released, with 0 to 3 others
    mass = sum(c * exact.noise.pmf(counts - 1 - b) for b, c in enumerate((8 / 27, 12 / 27, 6 / 27, 1 / 27)))
    spread, _ = np.histogram(exact.posterior(counts), np.linspace(0, 1, 21), weights=mass)
    assert found.posteriors.people.to_numpy() == pytest.approx(PEOPLE.total() * spread, abs=1e-9)


@pytest.mark.parametrize(
    ("plan", "settings", "words"),
    [
        (PLAN, {"unknown": 2, "levels": ["us"]}, "counts of level 'us' are published exactly"),
        (PLAN, {"share": "1/2"}, "a share is that of unknown others"),
        (PLAN, {"unknown": -1}, "others is the number of further unknown people"),
        (PLAN, {"unknown": 2, "share": "3/2"}, "a share must be strictly between 0 and 1"),
        (GEOMETRIC, {"unknown": 2, "levels": ["block"]}, "several geometric counts with unknown others"),
    ],
)
def test_a_scan_refuses_unknown_people_where_it_cannot_tell(plan, settings, words):
    with pytest.raises(InputError, match=words):
        scan(PEOPLE, plan, **settings)


def test_a_scan_refuses_unknown_people_beside_an_invariant():
    exact = replace(PLAN, constraints=(Invariant(query="total", level="block"),))
    with pytest.raises(InputError, match="this is not modelled"):
        scan(PEOPLE, exact, levels=["block"], unknown=1)


def test_a_curve_of_several_levels_adds_their_evidence():
    one, both = (
        curve([2], priors=["1/2"], strategy=PLAN, levels=levels) for levels in (["block"], ["county", "block"])
    )
    noises = [PLAN.noise(level, q) for level, q in itertools.product(("county", "block"), PLAN.queries["block"])]
    assert both.risk[0] == pytest.approx(Intruder(prior="1/2").against(*noises).risk)
    assert both.risk[0] > one.risk[0] > 1


def test_a_curve_of_an_attack_that_no_query_answers_is_refused():
    plan = Strategy(
        mechanism="gaussian", budget=1, levels={"us": 1}, queries={"us": {"age": 1}}, attributes=("age", "sex")
    )
    with pytest.raises(InputError, match="no measured query tells the hypotheses of this attack apart"):
        curve([1], priors=["1/2"], strategy=plan, attack=Attack(kind="attribute", attribute="sex"))
