"""tallyveil risk on the command line: the contract's keys, the paper's figures, one line for what is wrong."""

import pytest

from command_line import figures, run

PAPER = ("--rho", "0.0992", "--prior", "1/2")


def test_one_level_has_the_keys_of_the_contract_and_the_papers_figures():
    told = figures("risk", *PAPER, "--known", "0", "--released", "2")
    assert set(told) == {"posterior", "ratio", "marginal_posterior", "risk", "threshold", "right_decision", "tie"}
    assert told["posterior"] == pytest.approx(0.574, abs=5e-4)
    assert told["right_decision"] == pytest.approx(0.589, abs=5e-4)
    assert (told["threshold"], told["tie"]) == (1, 0)
    assert "posterior" not in figures("risk", *PAPER)


def test_rho_means_half_the_inverse_variance_and_geometric_noise_takes_epsilon():
    assert figures("risk", "--rho", "1/8", "--prior", "1/5") == figures("risk", "--variance", "4", "--prior", "1/5")
    told = figures("risk", "--mechanism", "geometric", "--epsilon", "2", "--prior", "1/5", "--known", "3")
    assert told["threshold"] == 4
    assert told["right_decision"] == pytest.approx(1 / (1 + 2.718281828**-2))


def test_two_levels_before_and_after_release():
    words = [*PAPER, "--upper-rho", "0.2465", "--siblings", "27"]
    told = figures("risk", *words, "--upper-count", "1")["hierarchy"]
    assert (told["right_decision"], told["gain"], told["loss"]) == pytest.approx((0.318, 0.0021, 0.273), abs=1e-3)
    after = figures("risk", *words, "--released", "2", "--upper-released", "1", "--siblings-released", "-1")[
        "hierarchy"
    ]
    assert after["posterior"] == pytest.approx(0.5033, abs=5e-4)
    assert after["upper_posterior"][:2] == pytest.approx([0.1294, 0.3866], abs=1e-3)
    shown = run("risk", *words, "--upper-count", "1").stdout
    assert "uses the siblings' sum only; flat prior" in shown


def test_figures_that_were_drawn_have_their_standard_error_and_sums_say_that_they_are_exact():
    wide = ["--rho", "1/100000", "--upper-rho", "1/100000", "--siblings", "27", "--prior", "1/2", "--upper-count", "1"]
    told = figures("risk", *wide)["hierarchy"]
    assert told["draws"] == 1000
    assert (told["right_decision"], told["right_decision_se"]) == pytest.approx((0.2394, 0.0047), abs=5e-5)
    assert all(0 < told[f"{name}_se"] < 0.01 for name in ("gain", "loss", "tie"))
    shown = run("risk", *wide).stdout
    assert "0.239 +- 0.005, drawn" in shown
    assert "drawn: from 1,000 sets of released counts; +- is one standard error" in shown
    summed = [*PAPER, "--upper-rho", "0.2465", "--siblings", "27", "--upper-count", "1"]
    told = figures("risk", *summed)["hierarchy"]
    assert [told[name] for name in ("draws", "right_decision_se", "gain_se", "loss_se", "tie_se")] == [None] * 5
    shown = run("risk", *summed).stdout
    assert "exact: summed over all released counts, apart from the truncation" in shown
    assert ", drawn" not in shown


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--prior", "1/2"], "Gaussian noise has one parameter"),
        (["--prior", "1/2", "--rho", "1", "--epsilon", "1"], "Gaussian noise has one parameter"),
        (["--prior", "1/2", "--mechanism", "geometric", "--rho", "1"], "geometric noise has one parameter"),
        (
            ["--prior", "2", "--rho", "1"],
            "a prior is a probability strictly between 0 and 1, such as 1/2 or 0.1. Got 2",
        ),
        ([*PAPER, "--siblings", "3"], "a unit above needs --upper-rho R and --siblings D"),
        ([*PAPER, "--upper-rho", "1", "--siblings", "0", "--upper-count", "1"], "--siblings must be from 1 to 100,000"),
        ([*PAPER, "--upper-rho", "1", "--siblings", "9" * 20, "--upper-count", "1"], "--siblings must be from 1 to"),
        ([*PAPER, "--upper-rho", "1", "--siblings", "2", "--upper-count", "9" * 20], "is beyond what can be summed"),
        ([*PAPER, "--upper-rho", "1e-30", "--siblings", "2", "--upper-count", "1"], "and a larger budget"),
        ([*PAPER, "--unknown", "9" * 20], "unknown others are too many to be summed over. Give 10,000 or fewer"),
        ([*PAPER, "--upper-rho", "1", "--siblings", "3"], "give the counts above"),
        (
            [*PAPER, "--upper-rho", "1", "--siblings", "3", "--upper-released", "1"],
            "all three released counts are needed",
        ),
        ([*PAPER, "--upper-rho", "1", "--siblings", "3", "--upper-count", "0"], "the unit above must have 1 or more"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_2(words, line):
    done = run("risk", *words)
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
