import json
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from small_release import small_facilities, small_people, small_release, small_strategy
from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import BudgetError, InputError
from tallyveil.files import read_release, write_release
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.histogram import Filter
from tallyveil.privacy import Bound, Invariant, RunKey, account_of
from tallyveil.privacy.shares import unit_shares
from tallyveil.protection.protect import protect
from tallyveil.release.about import About
from tallyveil.release.canonical import canonical_bytes
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
    about = About(
        title="Counts", organisation="Office", population="All", reference="1", approver="B", date="2026-01-02"
    )
    one, two = (protect(truth, plan, threads=1, about=about).certificate for truth in (people, neighbour))
    assert canonical_bytes(one.declared.to_json()) == canonical_bytes(two.declared.to_json())
    assert one.declared.title == "Counts"
    assert one.measurement != two.measurement  # not declared: it depends on the key and the people


def test_a_measurement_is_identified_by_key_people_strategy_and_replicate_and_by_nothing_else():
    people, other = small_people(), small_people()
    plan = replace(small_strategy(people, rho="1/100"), constraints=())
    key = RunKey(bytes(range(32)))
    same = [
        measure(people, plan, key).identifier,
        measure(other, replace(plan, constraints=(Invariant(query="total", level="county"),)), key).identifier,
        measure(people, replace(plan, delta="1e-6"), key).identifier,
    ]
    assert len(set(same)) == 1
    assert re.fullmatch("[0-9a-f]{32}", same[0])
    moved = Histogram.from_entries(people.spine, people.schema, unit=[1], cell=[0], count=[37])
    others = [
        measure(people, plan, key, replicate=1).identifier,
        measure(people, plan, RunKey(bytes(range(1, 33)))).identifier,
        measure(people, plan.with_budget(rho="1/50"), key).identifier,
        measure(moved, plan, key).identifier,
    ]
    assert len({same[0], *others}) == 5


def test_the_identifier_survives_post_processing_of_saved_measurements(tmp_path):
    release = protect(small_people(), small_strategy(small_people()), facilities=small_facilities(small_people()),
                      seed=1, measurements=None)  # fmt: skip
    write_release(release, tmp_path / "r", measurements=measured_pairs(release.strategy))
    read = read_release(tmp_path / "r")
    assert read.measurements.identifier == read.certificate.measurement == release.certificate.measurement
    other = replace(read.measurements, identifier="0" * 32)
    with pytest.raises(InputError, match="the measurements are of another"):
        write_release(release, tmp_path / "s", noisy=other)


def dense_variances(strategy: Strategy, people: Histogram) -> dict[str, float]:
    """The mean variance of totals by level, from least squares with a dense matrix: children given their parent."""
    above, table = None, {}
    for depth, level in enumerate(people.spine.levels):
        own = []
        for span in (int(s) for s in unit_shares(strategy, people.spine)[level].spans):
            share = unit_shares(strategy, people.spine)[level].shares[span]
            rows, weights = [], []
            for query in strategy.queries[level] if span else ():
                asked = people.schema.query(query)
                rows.append(np.eye(asked.size)[asked.row_of_cell].T)
                noise = strategy.noise(level, query, level_share=share)
                weights += [1 / noise.actual_variance()] * asked.size
            design = np.vstack(rows) if rows else np.zeros((0, people.schema.cells))
            information = design.T * weights @ design
            ones = np.ones(people.schema.cells)
            own.append(ones @ np.linalg.pinv(information) @ ones if rows else np.inf)
        if depth == 0:
            above = np.zeros(1)  # the number of people is exact
        else:
            new = []
            for parent, (first, last) in enumerate(pairwise(people.spine.first_child[depth - 1])):
                n = last - first
                # unknown: children's totals; their noise, then the parent's error, is carried by x = P y + q X
                noise = np.diag(own[first:last]) if n > 1 else np.ones((1, 1))
                gain = noise @ np.ones((n, 1)) / noise.sum()
                project = np.eye(n) - gain @ np.ones((1, n))
                new += np.diag(project @ noise @ project.T + above[parent] * gain @ gain.T).tolist()
            above = np.array(new)
        table[level] = float(above.mean())
    return table


@pytest.mark.parametrize("budget", [{"rho": "1/10"}, {"epsilon": "1/2"}])
@pytest.mark.parametrize("only_child", [False, True])
def test_expected_errors_are_those_of_least_squares(budget, only_child):
    people = small_people()
    plan = Strategy.default(people.spine, people.schema, **budget).with_estimator("topdown")
    plan = replace(plan, only_child=only_child)
    made = {one["level"]: one["sd"] ** 2 for one in declared(people, plan)["expected_error"]}
    assert made == pytest.approx(dense_variances(plan, people), rel=1e-9)
    exact = replace(plan, constraints=(Invariant(query="total", level="county"),))
    assert [one["sd"] for one in declared(people, exact)["expected_error"]][:2] == [0, 0]


def test_a_level_that_is_neither_measured_nor_exact_is_refused_by_its_name():
    """The shares are those of replace-one neighbours, whose number of people is exact."""
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["all"]})
    people = Histogram.from_entries(spine, schema, unit=[0], cell=[0], count=[3])
    plan = replace(Strategy.default(spine, schema, epsilon=1), neighbours="add-or-remove")
    assert plan.levels["town"] == 0
    with pytest.raises(InputError, match="the share 0 for level 'town', but no invariant makes all its counts exact"):
        protect(people, plan)


@pytest.mark.parametrize("estimator", ["topdown", "tree"])
def test_errors_of_a_release_of_large_counts_are_as_large_as_expected(estimator):
    spine = Spine.from_columns({"county": list("112233"), "block": list("abcdef")}, root="us")
    schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    people = Histogram.from_entries(
        spine, schema, unit=np.repeat(np.arange(6), 4), cell=np.tile(np.arange(4), 6), count=[10_000] * 24
    )
    plan = Strategy.default(spine, schema, rho="1/100")
    assert plan.informed_levels == ("county",)
    plan = plan.with_estimator(estimator)
    expected = {one["level"]: one["sd"] for one in declared(people, plan)["expected_error"]}
    errors = {"county": [], "block": []}
    for replicate in range(40):
        made = protect(people, plan, seed=3, replicate=replicate, threads=1).histogram
        for level, found in errors.items():
            found += (made.answer("total", level=level).dense() - people.answer("total", level=level).dense()).tolist()
    for level, found in errors.items():
        ratio = np.sqrt(np.mean(np.square(found))) / expected[level]
        assert 0.85 < ratio < 1.18, (level, ratio)  # 120 errors and more: 2.5 standard errors


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
        "informed": 0,
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
        "the number of people in all; total of every county",
        "How large errors are",
        "What is not promised",
    ):
        assert words in text, words


def test_the_page_of_a_release_without_stamps_or_constraints_shows_none():
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 0], count=[40, 7])
    text = page(protect(people, Strategy.default(spine, schema, epsilon=1)))
    assert '<div class="stamp"' not in text
    assert "What is kept" not in text
    assert "Published without noise, and not protected: the number of people in all." in text
    assert "Counts of people by age, down to every block" in text
    assert "at most 73.2% sure" in text
    assert "No constraint had to be relaxed." in text
    assert "at most 2.72 times more or less" in text


def test_the_page_with_add_or_remove_neighbours_says_what_can_be_learned_about_those_who_are_in():
    """Two places of a person are two records apart, so the promise of one epsilon is about being in the data only."""
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 0], count=[40, 7])
    plan = replace(Strategy.default(spine, schema, epsilon=1), neighbours="add-or-remove")
    text = " ".join(page(protect(people, plan)).split())
    assert "This is 1-differential privacy (pure), for all neighbours." in text
    assert "equally likely that this person is in the data or not, can become at most 73.2% sure of it" in text
    assert "of two possibilities about a person known to be in the data, at most 88.1%" in text
    assert "considered two possibilities" not in text


def test_the_page_of_a_stamped_release_does_not_promise_what_the_stamp_takes_away():
    spine, schema = Spine.from_columns({"block": ["1", "2"]}, root="town"), Schema(attributes={"age": ["c", "a"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 0], count=[40, 7])
    plan, units = Strategy.default(spine, schema, epsilon=1), "units from data: not covered by the guarantee"
    nothing = "Nothing, because this release is seeded"
    stamped = page(protect(replace(people, stamps=(units,)), plan))
    assert "What the red box names is not covered." in stamped
    assert "it can show that somebody was counted there" in stamped
    assert nothing not in stamped
    assert nothing in page(protect(people, plan, seed=1))


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
    titled = replace(release.certificate.declared, title="A <b> & c", approver="<i>", population="<u>")
    text = page(replace(release, certificate=replace(release.certificate, declared=titled)))
    assert "<h1>A &lt;b&gt; &amp; c</h1>" in text
    assert not re.search("<[iu]>", text)
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
