"""risk curve, risk attribute, unknown people, priors on siblings, and samples and swapping, on the command line."""

import json
from fractions import Fraction

import pandas as pd
import pytest

from command_line import figures, run
from tallyveil.privacy import DiscreteGaussian
from tallyveil.risk import Above, Attribute, Hierarchy, Intruder, Several, priors

PL94 = "pl94-2020-us-persons"
PAPER = DiscreteGaussian(variance=1 / (2 * 0.0992))


@pytest.mark.parametrize(("attack", "counts"), [("characteristics", 1), ("responded", 1), ("truthful", 1), ("cell", 2)])
def test_a_curve_of_a_single_count_has_the_figures_of_each_attack(attack, counts):
    found = figures("risk", "curve", "--attack", attack, "--from", "0.1", "--to", "2", "--points", "3")
    assert found["budget"] == "rho"
    assert [row["budget"] for row in found["curve"]] == [0.1, 0.447214, 2.0]
    for row in found["curve"]:
        noises = [DiscreteGaussian(variance=1 / (2 * row["budget"]))] * counts
        expected = Intruder(prior="1/2").against(*noises)
        assert row["posterior"] == pytest.approx(expected.marginal_posterior, rel=1e-9)
        assert row["right_decision"] == pytest.approx(expected.right_decision, abs=1e-9)


def test_a_curve_of_a_strategy_and_an_attribute_is_written_and_concluded(tmp_path):
    folder = tmp_path / "curve"
    words = ["risk", "curve", "--strategy", PL94, "--attack", "attribute", "--attribute", "hispanic", "--points", "2"]
    done = run(*words, "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2].startswith("At rho 10, an intruder with prior 1/2 has an average posterior of")
    written = json.loads((folder / "curve.json").read_text())
    assert written == figures(*words)
    assert len(pd.read_parquet(folder / "curve.parquet")) == len(written["curve"]) == 2


def test_a_curve_of_all_levels_is_above_that_of_the_leaf_and_unknown_people_lower_it():
    words = [
        "risk",
        "curve",
        "--strategy",
        PL94,
        "--query",
        "detailed",
        "--from",
        "1",
        "--to",
        "2.5562",
        "--points",
        "2",
    ]
    leaf, every, few = (
        figures(*words, *more)["curve"][-1]["risk"]
        for more in ([], ["--all-levels"], ["--all-levels", "--unknown", "5"])
    )
    assert leaf == pytest.approx(1.024, abs=5e-4)
    assert 1 < few < every
    assert leaf < every


def test_a_strategy_of_a_curve_is_refused_for_its_own_mistake_and_not_for_its_budget(tmp_path):
    (tmp_path / "plan.toml").write_text('mechanism = "gaussian"\nrho = 1\nepsilom = 2\n')
    done = run("risk", "curve", "--strategy", str(tmp_path / "plan.toml"))
    assert (done.returncode, "unknown field 'epsilom'" in done.stderr) == (2, True)
    (tmp_path / "plan.toml").write_text('mechanism = "geometric"\nrho = 1\nlevels = {us = 1}\nqueries = {total = 1}\n')
    done = run("risk", "curve", "--strategy", str(tmp_path / "plan.toml"))
    assert (done.returncode, "takes epsilon, not rho" in done.stderr) == (2, True)


def test_a_curve_of_a_preset_without_a_budget_sets_it():
    assert figures("risk", "curve", "--strategy", "e2e-2018", "--points", "2")["budget"] == "epsilon"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--from", "2", "--to", "1"], "--from must be below --to. Got 2 and 1 instead."),
        (["--points", "1"], "--points must be from 2 to 1,000"),
        (["--level", "block"], "--level, --all-levels, --query and --attribute are for a strategy"),
        (["--strategy", PL94, "--mechanism", "gaussian"], "a strategy has its mechanism"),
        (["--strategy", PL94, "--level", "block", "--all-levels"], "--level and --all-levels are both given"),
        (["--strategy", PL94, "--level", "street"], "unknown level 'street'"),
        (["--strategy", PL94, "--attack", "attribute"], "the attack 'attribute' needs the unknown attribute"),
        (["--strategy", "nowhere"], "nowhere: neither a file nor a preset"),
        (["--unknown", "-1"], "others is the number of further unknown people"),
    ],
)
def test_a_curve_that_cannot_be_computed_is_refused_in_one_line(words, line):
    done = run("risk", "curve", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr


def test_unknown_people_of_a_single_count_are_those_of_the_library():
    found = figures("risk", "--variance", "5.04", "--prior", "1/2", "--unknown", "9", "--released", "6")
    exact = Several(intruder=Intruder(prior="1/2"), others=9).against(DiscreteGaussian(variance="5.04"))
    assert (found["threshold"], found["unknown"], found["share"]) == (6, 9, "1/2")
    assert found["tie"] == pytest.approx(exact.tie)
    assert found["posterior"] == pytest.approx(float(exact.posterior(6)))
    shown = run("risk", "--variance", "5.04", "--prior", "1/2", "--unknown", "9").stdout
    assert "prior 1/2, 0 known, 9 unknown besides the target" in shown


def test_a_prior_on_the_siblings_gives_the_figures_of_the_docs():
    above = [
        "risk",
        "--rho",
        "0.0992",
        "--prior",
        "1/2",
        "--upper-rho",
        "0.2465",
        "--siblings",
        "27",
        "--upper-count",
        "1",
    ]
    flat, rare = (figures(*above, "--siblings-prior", prior)["hierarchy"] for prior in ("flat", "poisson:0.1"))
    assert (round(flat["right_decision"], 3), round(rare["right_decision"], 3)) == (0.318, 0.653)
    for prior in ("negative-binomial:0.1:0.2", "at-most:3", "binomial:5:1/50:0"):
        assert 0 < figures(*above, "--siblings-prior", prior)["hierarchy"]["right_decision"] < 1
    assert "poisson:0.1 prior on their count" in run(*above, "--siblings-prior", "poisson:0.1").stdout


def test_unknown_people_and_a_unit_above_have_the_figures_of_the_library():
    words = ["risk", "--rho", "0.0992", "--prior", "1/3", "--unknown", "4", "--share", "1/5", "--known", "1"]
    above = ["--upper-rho", "0.2465", "--siblings", "3", "--upper-count", "4", "--siblings-prior", "binomial:6:1/10:1"]
    found = figures(*words, *above, "--released", "3", "--upper-released", "6", "--siblings-released", "2")
    two = Hierarchy(
        intruder=Several(intruder=Intruder(prior="1/3", known=1), others=4, share="1/5"),
        noise=DiscreteGaussian(variance=1 / (2 * Fraction("0.0992"))),
        above=[
            Above(
                noise=DiscreteGaussian(variance=1 / (2 * Fraction("0.2465"))),
                siblings=[DiscreteGaussian(variance=1 / (2 * Fraction("0.0992")))] * 3,
                prior=priors.Binomial(unknown=6, share="1/10", known=1),
            )
        ],
    )
    assert found["hierarchy"]["right_decision"] == pytest.approx(two.decision([4]).right_decision, rel=1e-12)
    assert found["hierarchy"]["posterior"] == pytest.approx(two.posterior(3, [(6, 2)]), rel=1e-12)
    assert found["unknown"] == 4


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--share", "1/2"], "--share is that of unknown people"),
        (["--siblings-prior", "poisson:1"], "--siblings-prior is for a unit above"),
        *(
            (
                ["--upper-rho", "1", "--siblings", "2", "--upper-count", "1", "--siblings-prior", bad],
                "write flat, poisson",
            )
            for bad in ("poisson", "poisson:x", "at-most:1.5", "uniform:3", "flat:1")
        ),
        (
            ["--upper-rho", "1", "--siblings", "2", "--upper-count", "1", "--siblings-prior", "poisson:-1"],
            "-1",
        ),
    ],
)
def test_options_of_one_target_that_do_not_fit_are_refused(words, line):
    done = run("risk", "--rho", "1", "--prior", "1/2", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr


def test_an_unknown_attribute_of_one_target_is_that_of_the_library():
    words = ["risk", "attribute", "--value", "hispanic=1/5", "--value", "other=4/5", "--rho", "0.0992"]
    found = figures(*words, "--released", "hispanic=2", "--released", "other=0")
    exact = Attribute(priors={"hispanic": "1/5", "other": "4/5"}, noises=PAPER)
    assert found["posterior"]["hispanic"] == pytest.approx(0.271, abs=5e-4)
    assert [row["risk"] for row in found["values"]] == pytest.approx([exact.risk("hispanic"), exact.risk("other")])
    shifted = figures(*words, "--known", "hispanic=3", "--released", "hispanic=5", "--released", "other=0")
    assert shifted["posterior"] == pytest.approx(found["posterior"])
    assert run(*words).stdout.endswith("The value at most risk is hispanic: 1.25 times its prior on average.\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--value", "a"], "--value 'a': write it as NAME=NUMBER."),
        (["--value", "a=1/2", "--value", "a=1/2"], "'a' is given twice"),
        (["--value", "a=1/2", "--value", "b=1/4"], "1"),
        (["--value", "a=1/2", "--value", "b=1/2", "--known", "c=1"], "'c' is none of the values a, b."),
        (["--value", "a=1/2", "--value", "b=1/2", "--known", "a=-1"], "--known is the number of others"),
        (["--value", "a=1/2", "--value", "b=1/2", "--released", "a=1"], "--released is missing for 'b'"),
        (["--value", "a=1/2", "--value", "b=1/2", "--released", "a=x"], "--released a=x: give a whole number."),
    ],
)
def test_an_attribute_that_does_not_fit_is_refused_in_one_line(words, line):
    done = run("risk", "attribute", "--rho", "1", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr


CHILD = ["--unit", "11", "--cell", "child", "--prior", "1/2", "--runs", "200", "--workers", "1"]


def test_a_whole_sample_and_swapping_at_rate_0_give_the_target_away(town):
    for words in (["sample", "--fraction", "1"], ["swap", "--rate", "0", "--match", "age", "--within", "county"]):
        found = figures("risk", "simulate", *town, *CHILD, "--mechanism", *words)
        assert found["marginal_posterior"] > 0.95
        assert found["bound"] is None


def test_a_smaller_sample_reveals_less(town):
    small, large = (
        figures("risk", "simulate", *town, *CHILD, "--mechanism", "sample", "--fraction", share)
        for share in ("0.1", "0.8")
    )
    error = small["marginal_posterior_se"] + large["marginal_posterior_se"]
    assert small["marginal_posterior"] + 2 * error < large["marginal_posterior"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--mechanism", "sample"], "a sample needs --fraction F"),
        (["--mechanism", "sample", "--fraction", "2"], "fraction must be from 0 to 1"),
        (["--mechanism", "sample", "--fraction", "0"], "--fraction must be above 0"),
        (["--mechanism", "sample", "--fraction", "1/2", "--rho", "1"], "has no privacy-loss budget"),
        (["--mechanism", "swap", "--rate", "0.1"], "swapping needs --rate R, --match QUERY and --within LEVEL"),
        (["--mechanism", "swap", "--rate", "0.1", "--match", "age", "--within", "block"], "the finest level"),
        (["--mechanism", "swap", "--rate", "0.1", "--match", "sex", "--within", "county"], "sex"),
        (["--rho", "1", "--rate", "0.1"], "--rate is for --mechanism swap"),
        (["--rho", "1", "--fraction", "0.1"], "--fraction is for --mechanism sample"),
    ],
)
def test_other_mechanisms_need_their_own_options(words, line, town):
    done = run("risk", "simulate", *town, *CHILD, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr


def test_a_scan_with_unknown_people_is_shown_with_the_hierarchy_too(town):
    words = ["risk", "scan", *town, "--rho", "1", "--level", "block", "--above"]
    everybody, few = (figures(*words, *more) for more in ([], ["--unknown", "3", "--share", "1/5"]))
    assert 1 < few["levels"][0]["risk"] < everybody["levels"][0]["risk"]
    assert everybody["above"][0]["right_decision"] != few["above"][0]["right_decision"]
    shown = run(*words, "--unknown", "3", "--share", "1/5").stdout
    assert "each the target of an intruder who knows all others in the unit but 3\n" in shown
