"""What a certificate declares of counts that constraints fix, and what verify makes of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from folders import edit_certificate, failing, holds, reseal
from tallyveil import Histogram, Schema, Spine, Strategy, verify_release
from tallyveil.files.release_folder.read_folder import read_release
from tallyveil.privacy import Bound, Invariant, StructuralZero
from tallyveil.protection.protect import protect_to_folder
from tallyveil.release.canonical import parse_json
from tallyveil.release.declare import declared_of

AGES = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
LAND = Spine.from_columns({"county": ["a", "b", "c"]}, root="state")
PEOPLE = Histogram.from_entries(LAND, AGES, unit=[0, 0, 1, 2], cell=[0, 3, 2, 1], count=[30, 29, 12, 5])
FIXING = (
    Bound(query="total", level="county", most=59, units=["a"]),
    Bound(query="age", level="county", least={"child": 30, "adult": 29}, units=["a"]),
)


def strategy_with(*constraints, schema: Schema = AGES, **fields) -> Strategy:
    return replace(Strategy.default(LAND, schema, epsilon=1), constraints=constraints, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    protect_to_folder(PEOPLE, strategy_with(*FIXING), tmp_path / "r", seed=1)
    return tmp_path / "r"


def test_counts_that_bounds_fix_together_are_declared_shown_and_verified(folder):
    declared = parse_json((folder / "certificate.json").read_bytes())["declared"]
    fixed = {"level": "county", "units": 1, "counts": "all", "source": "follows", "true": True}
    assert declared["exact_values"] == [{"query": query, **fixed} for query in ("total", "age")]
    page = (folder / "certificate.html").read_text()
    assert "total of 1 of 3 units of county; counts by age of 1 of 3 units of county" in page
    assert holds(folder)
    assert read_release(folder).certificate.to_json()["declared"] == declared


@pytest.mark.parametrize("change", [lambda listed: listed.pop(), lambda listed: listed[0].update(true=False)])
def test_a_certificate_that_lists_other_exact_counts_does_not_verify(folder, change):
    reseal(folder, lambda certificate: change(certificate["declared"]["exact_values"]), render=True)
    assert "exact_values" in failing(folder)["declared"]


def test_a_folder_of_a_version_without_exact_values_verifies_and_the_gap_is_said(folder):
    def older(certificate):
        del certificate["declared"]["exact_values"]

    reseal(folder, older, render=True)
    assert "exact_values" in failing(folder)["declared"]
    edit_certificate(folder, lambda certificate: certificate["declared"]["versions"].update(tallyveil="0.0.1"))
    reseal(folder)
    findings = {finding.name: finding for finding in verify_release(folder)}
    assert findings["declared"].holds
    assert "sentences and expected errors apart" in findings["declared"].words


def test_nothing_is_declared_where_the_list_of_exact_queries_says_it_all(tmp_path):
    invariant = strategy_with(Invariant(query="age", level="county"))
    release = protect_to_folder(PEOPLE, invariant, tmp_path / "r", seed=1)
    assert "exact_values" not in release.certificate.declared.to_json()
    assert read_release(tmp_path / "r").certificate.declared.exact_values is None


# -- a constraint that is declared twice -------------------------------------------------------------------------------

CHILDREN = {"age": ("child",), "sex": ("m",)}


def said(schema: Schema, *constraints) -> dict[str, bool]:
    """Whether each constraint, unchecked, is said to be compared with the data."""
    made = declared_of(
        strategy_with(*constraints, schema=schema, check_constraints=False), LAND, schema, facilities=False, stamps=()
    )
    words = {one.words: one.source_in_words for one in made.constraints}
    for one in words.values():
        assert ("the data are checked" in one) + ("are not compared" in one) + one.startswith("truth") == 1
    return {name: "are not compared" not in one for name, one in words.items()}


@pytest.mark.parametrize(
    ("zero", "compared"),
    [
        (StructuralZero(cells=CHILDREN), True),
        (StructuralZero(cells=dict(reversed(CHILDREN.items()))), True),  # spelled otherwise
        (StructuralZero(cells={"age": ("child",)}), False),  # more than the codebook says
        (Bound(query="age * sex", level="county", most={"child*m": 0}), True),
        (Bound(query="age * sex", level="county", most={"child*m": 0, "child*f": 9}), False),
        (Bound(query="age * sex", level="county", most={"child*f": 0}), False),
    ],
)
def test_a_zero_of_the_codebook_and_of_the_strategy_is_compared_with_the_data(zero, compared):
    schema = Schema(attributes=AGES.attributes, zeros=[{"age": ["child"], "sex": ["m"]}])
    assert said(schema, zero)[zero.words()] is compared
    assert said(AGES, zero)[zero.words()] is False


@pytest.mark.parametrize(
    ("level", "query", "compared"),
    [("county", "total", True), ("state", "total", True), ("county", "age", False), ("state", "sex", False)],
)
def test_a_bound_on_what_an_invariant_makes_exact_is_compared_with_the_data(level, query, compared):
    bound = Bound(query=query, level=level, most=80)
    assert said(AGES, Invariant(query="total", level="county"), bound)[bound.words()] is compared


def test_a_zero_of_labels_whose_counts_are_invariant_is_compared_with_the_data():
    zero = StructuralZero(cells={"age": ("child",)})
    assert said(AGES, Invariant(query="age", level="county"), zero)[zero.words()] is True
    assert said(AGES, Invariant(query="total", level="county"), zero)[zero.words()] is False
