"""Releases over the product of features, two by two: every figure of every public page is compared with a brute force.

The brute force (oracle.py, exact.py) reads the public files of a folder and shares no code with the package. The
options are combined in combinations.py; what is read out of the pages is in reading.py. The first combinations run in
`make test`, all of them in `make test-all`.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import combinations
import numpy as np
import pandas as pd
import pytest
from comparing import Finding, findings
from dp_accounting.pld import privacy_loss_distribution as pld
from exact import Facts, variance
from making import Pages, pages_of
from oracle import Folder, chance_beyond, counts_of, delta_at, epsilon_at, from_rho
from reading import claims_of
from statements import statements
from truths import Truths

from command_line import run

CASES = [*combinations.plain(), *combinations.covering()]
QUICK = 5
KEPT: dict[int, tuple[Pages, list[Finding]]] = {}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The pages of a combination and what is false on them, computed once."""

    def of(number: int) -> tuple[Pages, list[Finding]]:
        if number not in KEPT:
            pages = pages_of(CASES[number], tmp_path_factory.mktemp(f"case{number}"))
            KEPT[number] = pages, findings(pages)
        return KEPT[number]

    return of


def _numbers() -> list:
    return [
        pytest.param(number, marks=() if number < QUICK else pytest.mark.slow, id=str(number))
        for number in range(len(CASES))
    ]


@pytest.mark.parametrize("number", _numbers())
def test_every_claim_of_a_combination_is_true(number, compared):
    pages, found = compared(number)
    assert pages.refused is None, pages.refused
    assert not found, "\n".join([combinations.name_of(pages.case), *map(str, found)])


def test_every_allowed_pair_of_values_is_in_a_combination():
    seen = {pair for case in CASES for pair in combinations.pairs_of(case)}
    assert combinations.all_pairs() <= seen
    assert all(combinations.allowed(case) for case in CASES)


@pytest.mark.parametrize("rule", [rule for rule in combinations.RULES if rule.refused])
def test_a_combination_that_cannot_be_is_refused_in_one_line(rule, tmp_path):
    for choice in itertools.product(*(combinations.OPTIONS[name] for name in sorted(rule.needs))):
        part = dict(zip(sorted(rule.needs), choice, strict=True))
        if "person" in part:
            part["layout"] = "persons"
        if not rule.holds(part):
            continue
        folder = tmp_path / "-".join(choice)
        folder.mkdir()
        refused = pages_of({**CASES[0], "neighbours": "replace-one", "invariant": "none", **part}, folder).refused
        assert refused is not None, part
        assert (refused.returncode, refused.stdout) == (2, "")
        assert len(refused.stderr.strip().splitlines()) == 1
        assert rule.refused in refused.stderr
        assert not list(folder.glob("release*"))


@pytest.mark.parametrize("number", range(QUICK))
def test_the_noise_of_the_brute_force_is_that_of_the_published_measurements(number, compared):
    pages, _ = compared(number)
    for folder, measured in zip(pages.folders, Truths(pages).measured, strict=True):
        for level, query in set(measured.where):
            file = folder / "measurements" / level / f"{query}.parquet"
            published = sorted(pd.read_parquet(file)["variance"])
            mine = sorted(
                variance(float(p), pure=measured.folder.pure)
                for p, at in zip(measured.parameter, measured.where, strict=True)
                if at == (level, query)
            )
            np.testing.assert_allclose(published, mine, rtol=1e-9)


def test_a_loss_that_is_stated_two_percent_too_small_is_found(compared):
    pages, _ = compared(0)
    record = pages.json["certificate 1"]["declared"]["guarantee"]
    truth = Truths(pages)
    exact = truth.of((0,)).loss(truth.pairs((0,), "record"))
    less = {"epsilon": 0.98 * exact, "per_attribute": {"age": 0.98 * exact}}
    altered = replace(pages, page={}, json={"certificate 1": _with_guarantee(pages, {**record, **less})})
    assert {finding.claim.scope for finding in findings(altered)} >= {"record", "attribute age"}
    altered = replace(
        pages,
        page={
            "report": "<html><p>Replace the record of any one person by any other record. Whatever is published here "
            f"would then have been at most {math.exp(0.98 * exact):.4f} times more or less likely.</p>"
        },
        json={},
    )
    assert [finding.claim.kind for finding in findings(altered)] == ["factor"]


CLAIMS_THAT_ARE_FALSE = [  # a sentence that is true of some release, and a combination of which it is not
    (
        {"filter": "where", "neighbours": "replace-one"},
        "So someone who knew everything about everybody else, and considered two possibilities about this person "
        "equally likely, can become at most 99.9999% sure of one of them, but for a chance of 1 in 10,000.",
        "passes the filter",
    ),
    (
        {"invariant": "total@county", "neighbours": "replace-one", "key": "file"},
        "So someone who knew everything about everybody else, and considered two possibilities about this person "
        "equally likely, can become at most 99.9999% sure of one of them, but for a chance of 1 in 10,000.",
        "an invariant differs",
    ),
    (
        {"person": "3"},
        "The promise is for one record: it covers a person provided that each person has one.",
        "known is 3",
    ),
    ({"person": "none"}, "Each person has one record, which was checked by their identifiers.", "known is unknown"),
    (
        {"invariant": "none", "bounds": "none", "zeros": "none", "spine": "standard", "neighbours": "replace-one"},
        "Published without noise, and not protected: the number of people in all; total of every county.",
        "more than one possible value",
    ),
    ({"invariant": "total@county"}, "Nothing is known to be exact.", "a single possible value"),
    (
        {"invariant": "total@county"},
        "Published without noise, and not protected: the number of people in all.",
        "not all that is exact",
    ),
    ({"bounds": "query", "zeros": "none"}, "The counts also keep 4 public rules, listed below.", "there are 3"),
    (
        {"neighbours": "add-or-remove", "zeros": "none", "bounds": "none"},
        "It covers two datasets that agree on all invariants.",
        "differ in any",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "sentence", "why"), CLAIMS_THAT_ARE_FALSE)
def test_a_sentence_that_is_false_of_a_combination_is_found(part, sentence, why, compared):
    number = next(n for n, case in enumerate(CASES) if part.items() <= case.items())
    pages, _ = compared(number)
    altered = replace(pages, page={"certificate 1": f"<html><p>{sentence}</p>"}, json={})
    assert any(why in finding.truth for finding in findings(altered)), part


@pytest.mark.slow
def test_what_exact_counts_tell_is_found_where_a_row_says_that_it_is_protected_and_the_reverse(compared):
    number = next(n for n, case in enumerate(CASES) if case["invariant"] == "home@block")
    pages, _ = compared(number)
    page = pages.page["certificate 1"]
    assert "not protected: exact counts tell it" in page
    row = re.search(r"<tr><td>epsilon, age</td>.*?</tr>", page, re.S)[0]
    told = row.replace(re.search(r'class="n">([\d.]+)<', row)[1], "-")
    altered = replace(pages, page={"certificate 1": page.replace(row, told)}, json={})
    assert [finding.claim.kind for finding in findings(altered)] == ["told"]


def _with_guarantee(pages: Pages, guarantee: dict) -> dict:
    record = pages.json["certificate 1"]
    return {**record, "declared": {**record["declared"], "guarantee": guarantee}}


def test_a_new_sentence_about_the_guarantee_is_not_overlooked(compared):
    pages, _ = compared(0)
    altered = replace(pages, page={"report": "<html><p>Your privacy is safe: epsilon is very small.</p>"}, json={})
    assert [finding.claim.kind for finding in findings(altered)] == ["unread"]


@pytest.mark.parametrize(("parameter", "count"), [(2.5, 1), (40.0, 6), (300.0, 20)])
def test_the_distribution_of_the_loss_is_that_of_another_library(parameter, count):
    pair = ((Fraction(parameter), count),)
    other = pld.from_discrete_gaussian_mechanism(math.sqrt(parameter), value_discretization_interval=1e-4).self_compose(
        count
    )
    for delta in (1e-9, 1e-4):
        assert epsilon_at(pair, delta, pure=False) == pytest.approx(other.get_epsilon_for_delta(delta), rel=2e-3)
    pure = ((Fraction(1, 20), 8),)
    other = pld.from_discrete_laplace_mechanism(1 / 20, value_discretization_interval=1e-4).self_compose(8)
    assert delta_at(pure, 0.1, pure=True) == pytest.approx(other.get_delta_for_epsilon(0.1), rel=5e-3)


def test_delta_is_not_the_chance_of_a_larger_loss():
    pair = ((Fraction(1000), 20),)  # rho 1/100
    for delta, times in ((1e-10, 5.0), (1e-4, 3.0)):
        epsilon = epsilon_at(pair, delta, pure=False)
        assert chance_beyond(pair, epsilon, pure=False) > times * delta
        assert chance_beyond(pair, from_rho(0.01, delta), pure=False) < delta * 20


def test_integer_programmes_find_what_all_tables_have_in_common():
    folder = _tiny(
        {"bound": "age", "level": "leaf", "least": {"old": 2}, "units": ["a"]},
        {"bound": "total", "level": "leaf", "most": {"total": 3}, "units": ["a"]},
    )
    truth = np.array([1, 2, 0, 4])  # a young, a old, b young, b old
    facts = Facts.of(replace(folder, zeros=({"age": ["young"]},)), truth * [0, 1, 0, 1], enforced=True)
    found = {(level, unit[-1], query, row) for level, unit, query, row, _ in facts.single}
    assert found == _by_enumeration(facts)
    assert ("top", "top", "age", ("old",)) in found
    facts = Facts.of(folder, truth, enforced=True)
    assert {(level, unit[-1], query, row) for level, unit, query, row, _ in facts.single} == _by_enumeration(facts)


def _by_enumeration(facts: Facts) -> set:
    tables = [np.array(t) for t in itertools.product(range(8), repeat=4) if not (np.array(t) * facts.zero).any()]
    fits = [t for t in tables if ((facts.rows @ t >= facts.least) & (facts.rows @ t <= facts.most)).all()]
    every = counts_of(facts.folder, ("total", "age", "detailed"))
    return {
        (level, unit[-1], query, row)
        for level, unit, query, row, inside in every
        if len({int(inside @ t) for t in fits}) == 1
    }


def _tiny(*bounds: dict) -> Folder:
    paths = (("top", "a"), ("top", "b"))
    plan = {"mechanism": "geometric", "neighbours": "replace-one", "constraints": list(bounds)}
    return Folder(("top", "leaf"), paths, {path: path for path in paths}, plan, {"age": ("young", "old")}, ())


@pytest.mark.parametrize("name", ["e2e-2018", "pl94-2020-us-persons", "pl94-2020-us-units"])
def test_the_noise_that_presets_show_is_that_of_their_shares(name, tmp_path):
    budget = ["--epsilon", "1"] if name == "e2e-2018" else []
    assert run("presets", "write", name, "-o", str(tmp_path / "p.toml"), *budget).returncode == 0
    plan = tomllib.loads((tmp_path / "p.toml").read_text())
    page = statements("presets", run("presets", "show", name).stdout)
    shown = [claim for claim in claims_of(page) if claim.kind == "noise"]
    assert len(shown) >= 6
    for claim in shown:
        query, level = claim.scope.split("@")
        parts = plan["queries"].get(level, plan["queries"])
        loss = Fraction(plan.get("rho", plan.get("epsilon"))) * Fraction(plan["levels"][level]) * Fraction(parts[query])
        parameter = float(loss / 2 if plan["mechanism"] == "geometric" else 1 / loss)
        truth = math.sqrt(variance(parameter, pure=plan["mechanism"] == "geometric"))
        assert claim.value == pytest.approx(truth, abs=0.51 * claim.digits), claim


def test_the_key_of_a_combination_is_never_published(compared):
    pages, _ = compared(next(number for number, case in enumerate(CASES) if case["key"] == "file"))
    key = (Path(pages.folders[0]).parent / "key").read_bytes()
    assert not any(key in file.read_bytes() for folder in pages.folders for file in folder.rglob("*") if file.is_file())
