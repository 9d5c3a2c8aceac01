"""`--accounting pld` on the command line: plans, releases, certificates, verification and accounts."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from command_line import figures, run
from tallyveil import Histogram, Schema, Spine, protect
from tallyveil.files import read_release
from tallyveil.privacy import Invariant, RunKey, Strategy
from tallyveil.privacy.strategy_toml import read_strategy, strategy_to_toml

WANTED = ["--epsilon", "3", "--delta", "1e-6", "--accounting", "pld"]


def test_a_release_accounted_for_by_privacy_loss_distribution_verifies_and_repeats_from_its_strategy(town, tmp_path):
    key, first, again = (str(tmp_path / name) for name in ("key", "first", "again"))
    done = run("protect", *town, *WANTED, "--key-file", key, "--measurements", "all", "-o", first)
    assert done.returncode == 0, done.stderr
    guarantee = json.loads((tmp_path / "first" / "certificate.json").read_text())["declared"]["guarantee"]
    assert (guarantee["accountant"], guarantee["epsilon"], guarantee["delta"]) == ("pld", 3.0, 1e-6)
    assert guarantee["words"].startswith("(3, 1e-06)-differential privacy by privacy loss distribution (rho = ")
    assert guarantee["pld_epsilon"] <= 3 < guarantee["zcdp_epsilon"]
    assert figures("verify", first)["holds"]
    assert "by privacy loss distribution" in (tmp_path / "first" / "certificate.html").read_text()
    account = figures("account", "--release", first)
    assert (account["epsilon"], account["accountant"], account["rho"]) == (3.0, "pld", guarantee["rho"])
    # the calibrated rho is in the strategy, so the same measurement gets the same noise
    strategy = str(tmp_path / "first" / "strategy.toml")
    assert read_strategy(strategy).calibrated
    assert run("protect", *town, "--strategy", strategy, "--key-file", key, "-o", again).returncode == 0
    one, two = (pd.read_parquet(tmp_path / name / "release.parquet") for name in ("first", "again"))
    assert one.equals(two)
    together = figures("account", "--release", first, again)  # one measurement, which counts once
    assert together["rho"] == pytest.approx(guarantee["rho"])
    # a rho that was raised by hand is refused
    raised = read_strategy(strategy)
    object.__setattr__(raised, "budget", raised.budget * Fraction(11, 10))
    (tmp_path / "raised.toml").write_text(strategy_to_toml(raised))
    refused = run("protect", *town, "--strategy", str(tmp_path / "raised.toml"), "-o", str(tmp_path / "no"))
    assert refused.returncode == 2
    assert "only at delta" in refused.stderr
    assert not (tmp_path / "no").exists()


def test_a_plan_and_an_account_show_both_accountants(town):
    plan = figures("protect", *town, *WANTED, "--plan")["guarantee"]
    assert (plan["accountant"], plan["epsilon"]) == ("pld", 3.0)
    zcdp = figures("protect", *town, "--rho", "1", "--accounting", "zcdp", "--plan")["guarantee"]
    assert (zcdp["accountant"], zcdp["epsilon"]) == ("zcdp", zcdp["zcdp_epsilon"])
    by_rho = figures("protect", *town, "--rho", "1", "--accounting", "pld", "--plan")["guarantee"]
    assert by_rho["epsilon"] == pytest.approx(zcdp["epsilon"], abs=1e-6)
    assert by_rho["rho"] > 1
    said = run("account", "--strategy", "pl94-2020-us-persons", "--accounting", "pld").stdout
    assert "variances are 6.7% smaller" in " ".join(said.split())


def test_the_strategy_command_writes_what_is_wanted_and_not_the_calibrated_rho(town, tmp_path):
    out = tmp_path / "mine.toml"
    done = run("strategy", town[0], *town[1:], *WANTED[:2], "--accounting", "pld", "-o", str(out))
    assert done.returncode == 0, done.stderr
    written = read_strategy(out)
    assert (written.accounting, written.epsilon, written.calibrated) == ("pld", 3, False)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--epsilon", "1", "--accounting", "zcdp"], "this noise is geometric"),
        (["--strategy", "e2e-2018", "--epsilon", "1", "--accounting", "pld"], "this noise is geometric"),
        (["--epsilon", "9000", "--accounting", "pld"], 'Use "zcdp"'),
    ],
)
def test_what_cannot_be_accounted_for_is_refused_in_one_line(town, tmp_path, words, line):
    done = run("protect", *town, *words, "-o", str(tmp_path / "no"))
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "no").exists()


def state(only_child: bool) -> tuple[Histogram, Strategy]:
    """One state of two counties, of which one is a single block, and a strategy that is not calibrated."""
    columns = {"state": ["s"] * 5, "county": ["a", "b", "b", "b", "b"], "tract": ["a1", "b1", "b1", "b2", "b2"]}
    columns["block"] = [f"{tract}{i}" for i, tract in enumerate(columns["tract"])]
    spine = Spine.from_columns(columns, root="us")
    schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1, 2, 3, 4], cell=[0, 1, 2, 3, 0], count=[9, 8, 7, 6, 5])
    plan = Strategy.default(
        spine, schema, epsilon=4, accounting="pld", invariants=[Invariant(query="total", level="state")]
    )
    fields = {name: getattr(plan, name) for name in plan.__dataclass_fields__} | {"only_child": only_child}
    return people, Strategy(**fields)


@pytest.mark.parametrize("only_child", [False, True])
@pytest.mark.parametrize("optimise", [False, True])
def test_one_state_with_an_invariant_only_children_and_an_optimised_spine_keeps_its_promise(only_child, optimise):
    people, plan = state(only_child)
    optimised = people.spine.optimised() if optimise else None
    release = protect(people, plan, key=RunKey.from_system(), optimised=optimised, measurements=None)
    guarantee = release.certificate.to_json()["declared"]["guarantee"]
    assert (guarantee["accountant"], guarantee["epsilon"]) == ("pld", 4.0)
    assert 3.95 < guarantee["pld_epsilon"] <= 4
    assert release.strategy.calibrated
    assert release.strategy.budget > plan.budget
    assert release.measurements.strategy == release.strategy
    totals = np.asarray(release.histogram.answer("total", level="state").looked_up(np.arange(1), np.zeros(1, int), 1))
    assert totals.tolist() == [35]


def test_a_release_read_back_has_the_calibrated_strategy(town, tmp_path):
    assert run("protect", *town, *WANTED, "--seed", "1", "-o", str(tmp_path / "made")).returncode == 0
    strategy = read_release(tmp_path / "made").strategy
    assert strategy.calibrated
    assert strategy.epsilon == 3
