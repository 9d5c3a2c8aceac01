"""Protect, from counts to release: real censuses, presets on synthetic ones, the certificate, the same bytes again."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from levels_seen import levels_seen
from tallyveil import Facilities, Histogram, Schema, Spine, Strategy, populations, protect, verify_release
from tallyveil.engine import level as engine
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.files import read_codebook, read_counts, read_release, write_release
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.population import Population
from tallyveil.privacy import Invariant, RunKey
from tallyveil.release.certificate import Observed

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the real census counts are not beside the project")
US = pytest.param("us_2000_block_groups", marks=pytest.mark.slow)
REAL = ["ny_rockland_2010_block", "ri_2010_block", US]
STATE_TOTALS = (Invariant(query="total", level="state"),)


@cache
def real(name: str) -> Histogram:
    return read_counts(DATA / f"{name}.parquet", read_codebook(ROOT / "examples" / f"{name}.toml"))


def default(people: Histogram, **budget) -> Strategy:
    return Strategy.default(people.spine, people.schema, **budget)


def as_bytes(histogram: Histogram) -> bytes:
    return b"".join(histogram.canonical_bytes())


def dense(histogram: Histogram, query: str, level: str) -> np.ndarray:
    return histogram.answer(query, level=level).dense()


@pytest.fixture
def seen(monkeypatch) -> dict[str, Counts]:
    """The counts of each level above the leaves, as TopDown released them on its way down."""
    return levels_seen(monkeypatch)


def check_whole_and_consistent(people: Histogram, release: Histogram, seen: dict[str, Counts]) -> None:
    assert np.issubdtype(release.leaves.count.dtype, np.integer)
    assert release.leaves.count.min() > 0  # entries are the non-zero cells
    assert release.total() == people.total()
    sums = dict(release.by_level())
    assert list(seen) == list(people.spine.levels[:-1])
    assert [level for level in seen if seen[level] != sums[level]] == []


@needs_data
@pytest.mark.parametrize("constraints", [(), STATE_TOTALS], ids=["plain", "state totals"])
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 1}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("name", REAL)
def test_real_counts_come_out_whole_and_consistent_with_exact_state_totals(name, budget, constraints, seen):
    people = real(name)
    release = protect(people, replace(default(people, **budget), constraints=constraints), seed=1)
    check_whole_and_consistent(people, release.histogram, seen)
    assert release.histogram != people
    states_agree = np.array_equal(dense(release.histogram, "total", "state"), dense(people, "total", "state"))
    assert states_agree == (bool(constraints) or people.spine.size("state") == 1)


@needs_data
@pytest.mark.parametrize("budget", [{"epsilon": 10**9}, {"rho": 10**9}], ids=["epsilon", "rho"])
@pytest.mark.parametrize("name", REAL)
def test_with_a_budget_of_a_billion_the_release_is_the_truth(name, budget):
    people = real(name)
    assert protect(people, default(people, **budget), seed=1).histogram == people


@needs_data
def test_true_zeros_of_real_blocks_are_positive_in_a_release_and_noise_is_not_on_non_zeros_only():
    people = real("ny_rockland_2010_block")
    release = protect(people, default(people, epsilon=1), seed=1).histogram.leaves.dense()
    truth = people.leaves.dense()
    assert ((truth == 0) & (release > 0)).sum() > 1000
    assert ((truth > 0) & (release == 0)).sum() > 1000


# The same people again


@pytest.fixture(scope="module")
def town() -> Histogram:
    """Two counties, six tracts, 39 blocks."""
    rows = [(f"{t // 3}", f"{t // 3}{t}", f"{t // 3}{t}{b}") for t in range(6) for b in range(4 + t)]
    columns = dict(zip(("county", "tract", "block"), zip(*rows, strict=True), strict=True))
    schema = Schema(attributes={"age": ["minor", "adult"], "race": ["a", "b", "c"]})
    counts = np.random.default_rng(8).poisson(3, (len(rows), 6)) * (
        np.random.default_rng(9).random((len(rows), 6)) < 0.6
    )
    return Histogram(spine=Spine.from_columns(columns, root="state"), schema=schema, leaves=Counts.from_dense(counts))


@pytest.fixture(scope="module")
def plan(town) -> Strategy:
    return default(town, epsilon=2)


def check_threads_change_nothing(people: Histogram, strategy: Strategy) -> None:
    one, two = (protect(people, strategy, seed=4, threads=threads) for threads in (1, 2))
    assert as_bytes(one.histogram) == as_bytes(two.histogram)
    assert json.dumps(one.certificate.to_json()) == json.dumps(two.certificate.to_json())


def test_threads_do_not_change_a_byte(town, plan, monkeypatch):
    monkeypatch.setattr(engine, "CHUNK", 50)  # several pieces a level
    check_threads_change_nothing(town, plan)


@needs_data
def test_threads_do_not_change_a_byte_of_a_real_release():
    people = real("ri_2010_block")
    check_threads_change_nothing(people, replace(default(people, rho=1), constraints=STATE_TOTALS))


@pytest.mark.parametrize("when", [("county", 1), ("block", 3)])
def test_an_interrupted_run_starts_again_with_the_same_bytes(town, plan, monkeypatch, when):
    whole = protect(town, plan, seed=1)
    monkeypatch.setattr(engine, "CHUNK", 50)
    reached = []

    def interrupt(level, done, _):
        reached.append((level, done))
        if level == when[0] and done >= when[1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect(town, plan, seed=1, progress=interrupt, threads=2)
    assert reached[-1][0] == when[0]
    assert ("block", 6) not in reached  # it did not finish
    assert as_bytes(protect(town, plan, seed=1).histogram) == as_bytes(whole.histogram)


def test_another_seed_replicate_or_key_gives_another_release_and_the_same_key_file_the_same(town, plan, tmp_path):
    key = RunKey.from_file(tmp_path / "key")
    made = [
        protect(town, plan, seed=1),
        protect(town, plan, seed=2),
        protect(town, plan, seed=1, replicate=1),
        protect(town, plan, key=key),
        protect(town, plan, key=RunKey.from_file(tmp_path / "other")),
        protect(town, plan),
        protect(town, plan),
    ]
    assert len({as_bytes(one.histogram) for one in made}) == len(made)
    again = protect(town, plan, key=RunKey.from_file(tmp_path / "key"))
    assert as_bytes(again.histogram) == as_bytes(made[3].histogram)


def test_only_a_seeded_release_is_stamped(town, plan, tmp_path):
    stamp = "seeded: not for publication"
    seeded, keyed = protect(town, plan, seed=0), protect(town, plan, key=RunKey.from_file(tmp_path / "key"))
    assert stamp in seeded.certificate.declared.stamps
    assert stamp in seeded.histogram.stamps
    assert stamp not in keyed.certificate.declared.stamps
    assert stamp not in keyed.histogram.stamps


def test_a_seed_and_a_key_together_are_refused(town, plan, tmp_path):
    with pytest.raises(InputError, match=r"a seed and a key are both given\. Give one\."):
        protect(town, plan, seed=1, key=RunKey.from_file(tmp_path / "key"))


def test_other_post_processing_of_the_same_measurement_hears_the_same_noise(town, plan):
    """Constraints, rounding and passes are not measured, so they must not cost a second sample."""
    other = replace(plan, rounding="cells", passes={"tract": [["total"], ["*"]]})
    places = np.arange(town.spine.size("block"))

    def heard(strategy):
        kept = protect(town, strategy, seed=1, measurements=[("total", "block")]).measurements
        return kept.ask("block", "total", places).tolist()

    assert heard(plan) == heard(other)
    assert heard(replace(plan, budget=3)) != heard(plan)


# The number of people


def test_replace_one_keeps_the_number_of_people_and_add_or_remove_does_not(town, plan, seen):
    other = replace(plan, neighbours="add-or-remove")
    totals = []
    for replicate in range(8):
        assert protect(town, plan, seed=1, replicate=replicate).histogram.total() == town.total()
        seen.clear()
        release = protect(town, other, seed=1, replicate=replicate).histogram
        totals.append(release.total())
        sums = dict(release.by_level())
        assert all(seen[level] == sums[level] for level in ("state", "county", "tract"))
        assert release.leaves.count.min() > 0
    assert len(set(totals)) > 3


# The certificate


def moved(people: Histogram, *, unit: int, cell: int, to_unit: int, to_cell: int) -> Histogram:
    """A neighbour: one person is replaced by another elsewhere."""
    table = people.leaves.dense()
    assert table[unit, cell] > 0
    table[unit, cell] -= 1
    table[to_unit, to_cell] += 1
    return replace(people, leaves=Counts.from_dense(table))


@pytest.mark.parametrize("to", [(0, 5), (38, 3)])
def test_what_is_declared_is_byte_equal_for_neighbours(town, plan, to):
    unit, cell = int(town.leaves.unit()[0]), int(town.leaves.cell[0])
    other = moved(town, unit=unit, cell=cell, to_unit=to[0], to_cell=to[1])
    assert other != town
    for some in (plan, replace(plan, only_child=True, constraints=(Invariant(query="total", level="state"),))):
        declared = [json.dumps(protect(one, some, seed=1).certificate.declared.to_json()) for one in (town, other)]
        assert declared[0] == declared[1]


def test_what_is_declared_is_byte_equal_for_neighbours_with_facilities():
    census = districts()
    table = dense(census.people, "hhgq", "enumdist")
    unit = int(np.argmax(table[:, 0]))
    cell = int(np.flatnonzero(census.people.leaves.dense()[unit])[0])
    other = replace(census, people=moved(census.people, unit=unit, cell=cell, to_unit=unit, to_cell=(cell + 1) % 24))
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    declared = [json.dumps(protect(one, strategy, seed=1).certificate.declared.to_json()) for one in (census, other)]
    assert declared[0] == declared[1]


def test_what_is_observed_and_released_comes_out_again_from_saved_measurements(town, tmp_path):
    census = districts()
    made = {
        "default": protect(town, default(town, epsilon=2), seed=1, measurements=None),
        "gaussian, only child, passes": protect(
            town,
            replace(default(town, rho="1/5"), only_child=True, passes={"tract": [["total"], ["*"]]}),
            seed=1,
            measurements=None,
        ),
        "1940 rules": protect(census, Strategy.preset("e2e-2018", epsilon=1), seed=1, measurements=None),
    }
    for name, release in made.items():
        write_release(release, tmp_path / name, measurements=measured_pairs(release.strategy))
        saved = read_release(tmp_path / name)
        assert saved.histogram == release.histogram
        again, solved = topdown(saved.measurements, facilities=saved.facilities)
        assert as_bytes(again) == as_bytes(release.histogram), name
        assert Observed(levels=tuple(solved)).to_json() == release.certificate.observed.to_json(), name
        assert {finding.name for finding in verify_release(tmp_path / name) if not finding.holds} == {"signature"}, name


# The presets on synthetic censuses


def regrouped(census: Population, levels: tuple[str, ...], shape) -> Population:
    """The same leaves under other units, so that a small census has several states: ``shape`` cuts each level."""
    leaves = census.people.leaves.units
    columns, code = {}, np.full(leaves, "", dtype=object)
    for level, pieces in zip(levels[1:], shape, strict=True):
        width = len(str(pieces))
        number = np.arange(leaves) * pieces // leaves
        code = code + np.array([f"x{i:0{width}d}" for i in number], dtype=object)
        columns[level] = code.astype(str)
    spine = Spine.from_columns(columns, root=levels[0])
    people = replace(census.people, spine=spine)
    return replace(
        census,
        people=people,
        facilities=replace(census.facilities, spine=spine),
        housing=census.housing and replace(census.housing, spine=spine),
        areas={},
    )


@cache
def districts() -> Population:
    """50,000 persons of 1940 in 3 states, 7 counties and 51 districts."""
    census = populations.census_1940(persons=50_000, seed=7)
    return regrouped(census, census.people.spine.levels, (3, 7, census.people.leaves.units))


@cache
def blocks() -> Population:
    """150,000 persons of 2020 in 3 states, 10 counties and 3,666 blocks, some of them only children."""
    census = populations.census_2020(persons=150_000, seed=7)
    leaves = census.people.leaves.units
    return regrouped(census, census.people.spine.levels, (3, 10, 12, leaves // 9, leaves))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_rules_of_1940_hold_in_every_district_and_above(seed, seen):
    census = districts()
    release = protect(census, Strategy.preset("e2e-2018", epsilon="1/4"), seed=seed).histogram
    check_whole_and_consistent(census.people, release, seen)
    caps = np.array([99] + [99999] * 7)
    for level in ("enumdist", "county", "state", "us"):
        units = census.facilities.at(level).dense()
        hhgq = dense(release, "hhgq", level)
        assert (hhgq >= units).all()
        assert (hhgq <= units * caps).all()
    assert np.array_equal(dense(release, "total", "state"), dense(census.people, "total", "state"))
    assert not np.array_equal(dense(release, "total", "county"), dense(census.people, "total", "county"))


def test_the_rules_of_1940_bind_at_that_noise():
    census = districts()
    strategy = Strategy.preset("e2e-2018", epsilon="1/4")
    free = protect(census.people, replace(strategy, constraints=STATE_TOTALS), seed=1).histogram
    hhgq, units = dense(free, "hhgq", "enumdist"), census.facilities.leaves.dense()
    assert (hhgq[units == 0] > 0).any()
    assert (hhgq < units).any()


def test_the_rules_of_2020_hold_in_every_block_and_only_children_copy(seen):
    census = blocks()
    strategy = Strategy.preset("pl94-2020-us-persons", rho="1/10")
    release = protect(census, strategy, seed=1).histogram
    check_whole_and_consistent(census.people, release, seen)
    units = census.facilities.leaves.dense()
    hhgq = dense(release, "hhgq", "block")
    assert (hhgq[:, 1:] >= units[:, 1:]).all()
    assert (hhgq <= units * 99999).all()
    assert (units == 0).any()
    assert (hhgq[:, 0] < units[:, 0]).any()  # houses may stand empty
    column = release.schema.query("votingage * hhgq").labels().index("nursing*minor")
    assert not dense(release, "votingage * hhgq", "block")[:, column].any()
    assert hhgq[:, 3].any()  # there are nursing homes
    assert np.array_equal(dense(release, "total", "state"), dense(census.people, "total", "state"))
    assert not np.array_equal(dense(release, "total", "county"), dense(census.people, "total", "county"))
    counts = dict(release.by_level())
    spine, copied = release.spine, 0
    for above, level in zip(spine.levels, spine.levels[1:], strict=False):
        for parent in np.flatnonzero(np.diff(spine.first_child[spine.depth(above)]) == 1):
            child = int(spine.first_child[spine.depth(above)][parent])
            copied += 1
            assert np.array_equal(seen[above].dense(parent, parent + 1), counts[level].dense(child, child + 1))
    assert copied > 5


def test_housing_units_of_blocks_are_exact_and_occupancy_is_noised(seen):
    housing = blocks().housing
    release = protect(housing, Strategy.preset("pl94-2020-us-units"), seed=1).histogram
    check_whole_and_consistent(housing, release, seen)
    for level in housing.spine.levels:
        assert np.array_equal(dense(release, "total", level), dense(housing, "total", level))
    differ = (dense(release, "detailed", "block") != dense(housing, "detailed", "block")).any(axis=1)
    assert differ.mean() > 0.3


def test_facilities_of_a_population_are_used_only_where_the_strategy_bounds_by_them():
    census = districts()
    bounded = protect(census, Strategy.preset("e2e-2018", epsilon=1), seed=1)
    assert bounded.facilities is census.facilities
    assert bounded.certificate.declared.facilities is True
    free = protect(census, replace(Strategy.preset("e2e-2018", epsilon=1), constraints=STATE_TOTALS), seed=1)
    assert free.facilities is None
    assert free.certificate.declared.facilities is False


def test_facilities_given_go_before_those_of_the_population():
    census = districts()
    none = Facilities.from_entries(
        census.people.spine, attribute="hhgq", types=census.facilities.types, unit=[], kind=[], count=[]
    )
    with pytest.raises(InputError, match=r"cannot hold: state '.*' would have at least .* and at most 0 in 'total'"):
        protect(census, Strategy.preset("e2e-2018", epsilon=1), facilities=none, seed=1)
