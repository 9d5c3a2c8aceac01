"""The presets against what was published: the certificate's epsilons, the noise table, kazan2022's Table 1."""

from fractions import Fraction

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from tallyveil.errors import BudgetError, InputError
from tallyveil.privacy import Strategy, account_of
from tallyveil.privacy.presets import PRESETS

PERSONS = Strategy.preset("pl94-2020-us-persons")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_spends_exactly_its_budget(name):
    strategy = Strategy.preset(name, epsilon=1)
    assert sum(spend.share for spend in strategy.spends()) == 1
    assert strategy.name == name


def test_the_2020_rho_is_the_square_of_the_published_scale():
    assert Fraction(542, 339) ** 2 == PERSONS.budget
    assert Strategy.preset("pl94-2020-us-units").budget == Fraction(3379, 12343) ** 2


@pytest.mark.parametrize(
    ("name", "epsilon"),  # the Bureau's certificates, to the digits given there
    [("us-persons", 17.1436), ("pr-persons", 17.1436), ("us-units", 2.4747), ("pr-units", 2.4747)],
)
def test_the_2020_epsilons_are_those_of_the_certificates(name, epsilon):
    assert account_of(Strategy.preset(f"pl94-2020-{name}"), pld=False).epsilon == pytest.approx(epsilon, abs=5e-5)


@pytest.mark.parametrize(
    ("query", "level", "sd"),  # standard deviations recomputed from the Bureau's code (two decimals)
    [
        ("total", "state", 1.10),
        ("total", "county", 2.17),
        ("total", "tract", 2.47),
        ("total", "block_group", 1.75),
        ("total", "block", 89.2),
        ("hispanic * cenrace", "tract", 2.23),
        ("hispanic * cenrace", "block_group", 2.23),
        ("hispanic * cenrace", "block", 43.5),
        ("detailed", "us", 4.43),
        ("detailed", "state", 4.45),
        ("detailed", "county", 4.42),
        ("detailed", "tract", 4.46),
        ("detailed", "block_group", 2.02),
        ("detailed", "block", 3.18),
    ],
)
def test_the_2020_noise_is_the_bureaus(query, level, sd):
    assert PERSONS.noise(level, query).actual_variance() ** 0.5 == pytest.approx(sd, rel=3e-3)


def test_the_paper_s_block_and_block_group_budgets_follow_from_table_1():
    paper = PERSONS.with_budget(rho="2.56")
    assert float(paper.budget * paper.share("block", "detailed")) == pytest.approx(0.0992, abs=5e-5)
    assert float(paper.budget * paper.share("block_group", "detailed")) == pytest.approx(0.2465, abs=5e-5)
    assert PERSONS.noise("block", "detailed").actual_variance() == pytest.approx(10.09, abs=0.01)  # erratum 9


def test_the_2018_noise_is_that_of_the_1940_run():
    run = Strategy.preset("e2e-2018", epsilon="0.2499")
    for query, sd in (("detailed", 452.7), ("hhgq", 201.2), ("votingage * hispanic * race", 67.1)):
        for level in run.levels:
            assert run.noise(level, query).actual_variance() ** 0.5 == pytest.approx(sd, abs=0.05)


def test_the_2018_preset_needs_an_epsilon():
    with pytest.raises(BudgetError, match=r"preset 'e2e-2018': no budget\. Give epsilon"):
        Strategy.preset("e2e-2018")
    with pytest.raises(InputError, match=r"unknown preset 'e2e'\. Known are e2e-2018, pl94"):
        Strategy.preset("e2e")


def test_losses_per_attribute_and_within_levels_add_up_shares_by_hand():
    account = account_of(Strategy.preset("e2e-2018", epsilon=2), pld=False)
    assert account.per_attribute == pytest.approx({"hhgq": 0.65, "votingage": 1.55, "hispanic": 1.55, "race": 1.55})
    assert account.within_level == {"us": 1.5, "state": 1.0, "county": 0.5}
    assert (account.rho, account.delta, account.implied_epsilon, account.pld_epsilon) == (None,) * 4


def test_a_grouping_counts_for_its_attribute_in_2020():
    # hhgq: its own query, hhinstlevels and detailed
    shares = sum(s.share for s in PERSONS.spends() if s.query in ("hhgq", "hhinstlevels", "detailed"))
    alone = Strategy(
        mechanism="gaussian", budget=PERSONS.budget * shares, levels={"us": 1}, queries={"us": {"total": 1}}
    )
    figures = account_of(PERSONS, pld=False)
    assert figures.per_attribute["hhgq"] == pytest.approx(account_of(alone, pld=False).epsilon, rel=1e-12)
    assert list(figures.within_level) == ["us", "state", "county", "tract", "block_group"]


@pytest.mark.parametrize("name", ["pl94-2020-us-persons", "pl94-2020-us-units"])
def test_the_privacy_loss_distribution_gives_the_gaussian_mechanisms_epsilon_and_never_less(name):
    # Second opinion: wide discrete Gaussians compose to one Gaussian mechanism with mu = sqrt(2 rho), whose delta is
    # known in closed form (Balle & Wang 2018, Theorem 8).
    strategy = Strategy.preset(name)
    mu = float(2 * strategy.budget) ** 0.5

    def excess(epsilon):
        import math

        return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) - 1e-10

    closed = brentq(excess, 1e-3, 100)
    account = account_of(strategy, delta="1e-10")
    assert closed - 1e-6 <= account.pld_epsilon <= closed * 1.001
    assert account.pld_epsilon < account.epsilon


def test_budgets_beyond_any_use_have_no_privacy_loss_distribution():
    strategy = Strategy.preset("pl94-2020-us-units")
    assert account_of(strategy.with_budget(rho=1000)).pld_epsilon is not None
    beyond = account_of(strategy.with_budget(rho="1e9"))
    assert beyond.pld_epsilon is None
    assert beyond.epsilon > 1e9
