import json
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import pytest

from small_release import small_people, small_release, small_strategy
from tallyveil import Histogram, Strategy
from tallyveil.certificate import declared_of, observed_of
from tallyveil.certificate_page import certificate_html
from tallyveil.errors import InputError
from tallyveil.populations import uniform_tree
from tallyveil.privacy import Invariant, account_of
from tallyveil.protection import protect
from tallyveil.release import Relaxed, Solved


def declared(people: Histogram, plan: Strategy, **options) -> dict:
    given = {"facilities": True, "stamps": (), "seeded": False} | options
    return declared_of(plan, people.spine, people.schema, **given)


def test_declared_is_the_same_bytes_for_neighbouring_inputs():
    people = small_people()
    plan = replace(small_strategy(people, rho="1/100"), constraints=(Invariant(query="total", level="county"),))
    entries = people.leaves
    unit, cell, count = entries.unit(), entries.cell.copy(), entries.count.copy()
    count[1] -= 1  # one adult of tract 011 is a child instead
    count[0] += 1
    neighbour = Histogram.from_entries(people.spine, people.schema, unit=unit, cell=cell, count=count)
    assert neighbour != people
    one, two = (json.dumps(protect(truth, plan, threads=1).certificate["declared"]) for truth in (people, neighbour))
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
    guarantee, figures = declared(people, plan)["guarantee"], account_of(plan)
    for name in ("epsilon", "rho", "delta", "implied_epsilon", "pld_epsilon", "per_attribute", "within_level"):
        assert guarantee[name] == getattr(figures, name)
    assert guarantee["pld_epsilon"] < guarantee["epsilon"]


def test_declared_of_a_pure_strategy_has_no_rho():
    people = small_people()
    guarantee = declared(people, small_strategy(people, epsilon="1/3"))["guarantee"]
    assert [guarantee[name] for name in ("rho", "delta", "implied_epsilon", "pld_epsilon")] == [None] * 4
    assert guarantee["words"] == "1/3-differential privacy (pure), for neighbours that agree on all invariants"


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
    made = declared_of(small_strategy(people), people.spine, schema, facilities=True, stamps=(), seeded=False)
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
    assert "one person more" in other["neighbours_in_words"]


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
    seeded = "seeded: not for publication"
    assert declared(people, small_strategy(people), seeded=True)["stamps"] == [seeded]
    assert declared(people, small_strategy(people), seeded=True, stamps=("x", seeded))["stamps"] == [seeded, "x"]
    assert declared(people, small_strategy(people))["stamps"] == []


def test_declared_names_versions_and_no_time_host_or_path():
    people = small_people()
    made = declared(people, small_strategy(people))
    assert list(made["versions"]) == ["python", "tallyveil", "numpy", "numba", "scipy"]
    words = set(re.findall(r"\w+", json.dumps(made)))
    assert words.isdisjoint({"time", "date", "host", "user", "path", "work", "hash", "digest", "seconds"})
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
    made = observed_of(
        [
            Solved(level="us", parents=1, fast=1, gap=1e-9, distance=0.5),
            Solved(level="county", parents=4, fast=1, general=3, flows=2, gap=1e-7, violation=1e-8, relaxed=relaxed),
        ]
    )
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
    made = observed_of([Solved(level="us", gap=float("inf")), Solved(level="county", gap=1e-9)])
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
    text = certificate_html(release.certificate, release.strategy)
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
    people = uniform_tree(persons=500, seed=1).people
    text = page(protect(people, Strategy.default(people.spine, people.schema, epsilon=1)))
    assert '<div class="stamp"' not in text
    assert "No constraint is declared." in text
    assert "No constraint had to be relaxed." in text
    assert "at most 2.72 times as likely" in text


def test_what_users_name_is_escaped_on_the_page():
    release = small_release()
    named = replace(release.strategy, name="<script>alert(1)</script>")
    certificate = dict(release.certificate)
    certificate["declared"] = certificate["declared"] | {"strategy": named.name, "stamps": ["A & B <c>"]}
    text = page(replace(release, strategy=named, certificate=certificate))
    assert "<script" not in text
    assert "A &amp; B &lt;c&gt;" in text
