import json
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import pytest

from small_release import small_people, small_release, small_strategy
from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import BudgetError, InputError
from tallyveil.nouns.histogram import Filter
from tallyveil.privacy import Bound, Invariant, account_of
from tallyveil.protection.protect import protect
from tallyveil.release.certificate import Certificate, Observed
from tallyveil.release.certificate_page import certificate_html
from tallyveil.release.declare import FILTERED, SEEDED, declared_of, stamps_of_run
from tallyveil.release.solved import Relaxed, Solved


def declared(people: Histogram, plan: Strategy, **options) -> dict:
    given = {"facilities": True, "stamps": ()} | options
    return declared_of(plan, people.spine, people.schema, **given).to_json()


def test_declared_is_the_same_bytes_for_neighbouring_inputs():
    people = small_people()
    plan = replace(small_strategy(people, rho="1/100"), constraints=(Invariant(query="total", level="county"),))
    entries = people.leaves
    unit, cell, count = entries.unit(), entries.cell.copy(), entries.count.copy()
    count[1] -= 1  # one adult of tract 011 is a child instead
    count[0] += 1
    neighbour = Histogram.from_entries(people.spine, people.schema, unit=unit, cell=cell, count=count)
    assert neighbour != people
    one, two = (
        json.dumps(protect(truth, plan, threads=1).certificate.declared.to_json()) for truth in (people, neighbour)
    )
    assert one == two


def test_declared_lists_the_budget_by_level_and_query_in_exact_fractions():
    people = small_people()
    plan = small_strategy(people, rho="1/2")
    budget = declared(people, plan)["budget"]
    assert (budget["unit"], budget["total"]) == ("rho", "1/2")
    assert sum(Fraction(one["share"]) for one in budget["levels"]) == 1
    assert sum(Fraction(one["share"]) for one in budget["queries"]) == 1
    assert sum(one["rho"] for one in budget["queries"]) == pytest.approx(0.5)
    county = next(one for one in budget["queries"] if (one["level"], one["query"]) == ("county", "total"))
    assert (county["share"], county["noise"], county["parameter"]) == ("1/12", "discrete Gaussian", "24")
    assert county["sd"] == pytest.approx(24**0.5)


def test_declared_gives_both_conversions_and_the_losses_by_attribute_and_level():
    people = small_people()
    plan = small_strategy(people, rho=1)
    figures = account_of(plan, spine=people.spine, schema=people.schema)
    guarantee = declared(people, plan)["guarantee"]
    for name in ("epsilon", "rho", "delta", "implied_epsilon", "pld_epsilon", "per_attribute", "within_level"):
        assert guarantee[name] == getattr(figures, name)
    assert guarantee["pld_epsilon"] < guarantee["epsilon"]


def test_declared_of_a_pure_strategy_has_no_rho():
    people = small_people()
    guarantee = declared(people, small_strategy(people, epsilon="1/3"))["guarantee"]
    assert [guarantee[name] for name in ("rho", "delta", "implied_epsilon", "pld_epsilon")] == [None] * 4
    assert guarantee["accountant"] == "pure"
    assert guarantee["words"] == (
        "1/3-differential privacy (pure), "
        "for neighbours that agree on all invariants and satisfy all listed constraints"
    )


def test_declared_says_in_words_what_is_kept_and_why():
    people = small_people()
    listed = declared(people, small_strategy(people))["constraints"]
    assert [(one["words"].split(" in every")[0], one["source"]) for one in listed] == [
        ("total is exact for every county", "truth"),
        ("persons by home", "facilities"),
        ("nobody has age child and home prison", "constant"),
        ("age", "constant"),
    ]


def test_a_structural_zero_of_the_codebook_is_listed_once():
    people = small_people()
    schema = replace(
        people.schema, zeros=[{"age": ["child"], "home": ["prison"]}, {"age": ["child"], "home": ["dorm"]}]
    )
    made = declared_of(small_strategy(people), people.spine, schema, facilities=True, stamps=()).to_json()
    words = [one["words"] for one in made["constraints"] if one["words"].startswith("nobody has")]
    assert words == ["nobody has age child and home prison", "nobody has age child and home dorm"]
    assert made["schema"] == {"attributes": {"age": 2, "home": 3}, "cells": 6, "possible": 4}


def test_declared_says_how_neighbours_differ_and_that_their_number_is_kept():
    people = small_people()
    guarantee = declared(people, small_strategy(people))["guarantee"]
    assert guarantee["neighbours"] == "replace-one"
    assert guarantee["total"] == "The number of people in all is the same for neighbours and is kept exactly."
    assert guarantee["protection"] == "computational, through the stream cipher"
    free = replace(small_strategy(people), constraints=(), neighbours="add-or-remove")
    other = declared(people, free)["guarantee"]
    assert (other["total"], other["invariants"]) == (None, 0)
    assert other["neighbours_in_words"] == "two datasets of which one has one person's record more"
    assert other["words"].endswith("differential privacy with rho = 1, for all neighbours")


def test_neighbours_are_said_in_full_with_what_they_agree_on_and_satisfy():
    people = small_people()
    plan = small_strategy(people)
    words = declared(people, plan)["guarantee"]["holds_for"]
    assert words.startswith(
        "two datasets in which one person's record, place and attributes, is replaced by any other record; both agree "
        "on all invariants (the number of people in all; total is exact for every county"
    )
    assert "; both satisfy all listed constraints (persons by home in every tract" in words
    unchecked = declared(people, replace(plan, check_constraints=False))
    assert "satisfy" not in unchecked["guarantee"]["holds_for"]
    assert unchecked["guarantee"]["words"].endswith("for neighbours that agree on all invariants")
    how = {one["source"]: one["source_in_words"] for one in unchecked["constraints"]}
    assert how["facilities"].endswith("enforced on the release only; the data are not compared with it")


def test_a_bound_that_fixes_a_value_is_declared_as_an_invariant():
    people = small_people()
    code = people.spine.labels("county")[0]
    exactly = Bound(query="total", level="county", least=60, most=60, units=[code])
    apart = (Bound(query="total", level="county", least=60), Bound(query="total", level="county", most=60))
    for bounds in ((exactly,), apart):
        made = declared(people, replace(small_strategy(people), constraints=bounds))
        assert [one["source"] for one in made["constraints"]] == ["truth"] * len(bounds)
        assert made["guarantee"]["invariants"] == len(bounds)
        free = declared(people, replace(small_strategy(people), constraints=bounds, check_constraints=False))
        assert {one["source"] for one in free["constraints"]} == {"constant"}
    with pytest.raises(BudgetError, match="with an invariant"):
        replace(small_strategy(people), constraints=(apart[0], replace(exactly, units=())), neighbours="add-or-remove")


def test_a_filter_is_declared_and_stamped_unless_it_is_public_or_the_number_of_people_is_protected():
    people, plan = small_people(), small_strategy(small_people())
    free = replace(plan, constraints=(), neighbours="add-or-remove")
    secret, public = (replace(people, filter=Filter(where={"hiv": "yes"}, public=known)) for known in (False, True))
    assert declared(people, plan, filter=secret.filter)["filter"] == {
        "words": "only rows with hiv = 'yes' are counted",
        "public": False,
    }
    assert stamps_of_run(secret, plan, seeded=False) == (FILTERED,)
    assert stamps_of_run(public, plan, seeded=False) == stamps_of_run(secret, free, seeded=False) == ()
    assert declared(people, plan)["filter"] is None


def test_the_only_child_rule_is_listed_with_how_many_units_pay_for_what():
    people = small_people()
    plan = small_strategy(people)
    table = declared(people, plan)["only_child"]["units"]
    assert [(one["level"], one["levels_paid"], one["share"], one["units"]) for one in table] == [
        ("us", 1, "1/3", 1),
        ("county", 1, "1/3", 2),
        ("county", 2, "2/3", 1),
        ("tract", 0, "0", 1),
        ("tract", 1, "1/3", 5),
    ]
    assert declared(people, replace(plan, only_child=False))["only_child"] is None


def test_stamps_are_listed_once_and_a_seed_is_one_of_them():
    people = small_people()
    plan, stamped = small_strategy(people), replace(people, stamps=("x", SEEDED))
    assert stamps_of_run(stamped, plan, seeded=True) == (SEEDED, "x")
    assert declared(people, plan, stamps=(SEEDED, "x", SEEDED))["stamps"] == [SEEDED, "x"]
    assert declared(people, plan)["stamps"] == []


def test_declared_names_versions_and_no_time_host_or_path():
    people = small_people()
    made = declared(people, small_strategy(people))
    assert list(made["versions"]) == ["python", "tallyveil", "numpy", "numba", "scipy", "platform"]
    words = set(re.findall(r"\w+", json.dumps(made)))
    assert words.isdisjoint({"time", "host", "user", "path", "work", "hash", "digest", "seconds"})
    assert made["spine"] == {"us": 1, "county": 3, "tract": 6}


def test_a_strategy_for_other_levels_is_refused():
    people = small_people()
    with pytest.raises(InputError, match="is for the levels us, state, county, enumdist"):
        declared(people, Strategy.preset("e2e-2018", epsilon=1))


def test_a_budget_beyond_all_use_has_a_certificate_too():
    people = small_people()
    made = declared(people, small_strategy(people, rho="1e9"))
    assert (made["guarantee"]["rho"], made["guarantee"]["pld_epsilon"]) == (1e9, None)
    json.dumps(made, allow_nan=False)


def test_observed_adds_up_and_keeps_the_worst():
    relaxed = (Relaxed(unit="01", amount=2, constraints=("a",)), Relaxed(unit="02", amount=3, constraints=("b",)))
    made = Observed(
        levels=(
            Solved(level="us", parents=1, fast=1, gap=1e-9, distance=0.5),
            Solved(level="county", parents=4, fast=1, general=3, flows=2, gap=1e-7, violation=1e-8, relaxed=relaxed),
        )
    ).to_json()
    assert made["totals"] == {
        "parents": 5,
        "copied": 0,
        "empty": 0,
        "fast": 2,
        "general": 3,
        "flows": 2,
        "programs": 0,
        "relaxed": 2,
        "relaxed_persons": 5,
    }
    assert made["worst"] == {"gap": 1e-7, "distance": 0.5, "violation": 1e-8}
    assert [one["level"] for one in made["levels"]] == ["us", "county"]
    assert made == json.loads(json.dumps(made))


def test_a_bound_that_could_not_be_certified_is_null():
    made = Observed(levels=(Solved(level="us", gap=float("inf")), Solved(level="county", gap=1e-9))).to_json()
    assert made["worst"]["gap"] is None
    assert made["levels"][0]["gap"] is None


class _Page(HTMLParser):
    """Tags that are open, and everything a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe") or any(name in ("src", "href") for name, _ in attrs):
            self.loads.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(release) -> str:
    text = certificate_html(release.certificate.to_json(), release.strategy)
    parser = _Page()
    parser.feed(text)
    assert (parser.open, parser.loads) == ([], [])
    assert "url(" not in text
    assert "@import" not in text
    return text


def test_the_page_is_whole_loads_nothing_and_shows_guarantee_constraints_and_stamps():
    text = page(small_release())
    for words in (
        '<div class="stamp"',
        "seeded: not for publication",
        "for neighbours that agree on all invariants",
        "The number of people in all is the same for neighbours and is kept exactly.",
        "computational, through the stream cipher",
        "total is exact for every county",
        "nobody has age child and home prison",
        "tract 01",  # relaxed
        "takes over the child&#39;s share",
    ):
        assert words in text, words


def test_the_page_of_a_release_without_stamps_or_constraints_shows_none():
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 0], count=[40, 7])
    text = page(protect(people, Strategy.default(spine, schema, epsilon=1)))
    assert '<div class="stamp"' not in text
    assert "No constraint is declared." in text
    assert "No constraint had to be relaxed." in text
    assert "at most 2.72 times as likely" in text


def test_a_share_on_what_no_neighbours_differ_in_is_not_part_of_the_loss():
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"person": ["one"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[0, 0], count=[40, 7])
    queries = {"town": {"total": 1}, "block": {"total": 1}}
    plan = Strategy(mechanism="geometric", budget=1, levels={"town": "1/2", "block": "1/2"}, queries=queries)
    made = declared(people, plan)
    assert made["guarantee"]["epsilon"] == 0.5
    assert made["guarantee"]["words"].startswith("0.5-differential privacy")
    assert made["budget"]["total"] == "1"


def test_what_users_name_is_escaped_on_the_page():
    release = small_release()
    named = replace(release.strategy, name="<script>alert(1)</script>")
    declared = replace(release.certificate.declared, strategy=named.name, stamps=("A & B <c>",))
    certificate = replace(release.certificate, declared=declared)
    text = page(replace(release, strategy=named, certificate=certificate))
    assert "<script" not in text
    assert "A &amp; B &lt;c&gt;" in text


def test_a_certificate_is_read_back_from_its_json_and_its_fields_are_typed():
    certificate = small_release().certificate
    read = Certificate.from_json(json.loads(json.dumps(certificate.to_json())))
    assert read == certificate
    assert read.to_json() == certificate.to_json()
    assert read.declared.guarantee.epsilon == certificate.to_json()["declared"]["guarantee"]["epsilon"]
    assert read.declared.budget.levels[0].share == "1/3"
    assert read.observed.levels[2].relaxed == (Relaxed(unit="01", amount=2, constraints=("a", "b")),)


def test_a_bound_that_could_not_be_certified_is_infinite_when_read_back():
    observed = Observed(levels=(Solved(level="us", gap=float("inf")),))
    assert Observed.from_json(observed.to_json()) == observed
