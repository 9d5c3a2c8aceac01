"""Strata made to agree with totals: against every set of cells above zero in fractions, scipy, and the noise itself."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, nnls
from small_people import PLAUSIBLE, countries, country, geometric_pmf, p_value

from tallyveil import Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.mechanisms.absolute import total_and_strata_absolute
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.noisy import noise_stream, noisy_answers
from tallyveil.mechanisms.reconciled import agree, total_and_strata, with_invariant

LARGE = country(np.full((600, 6), 10_000), families=[[100] * 3] * 2)  # so large that noise reaches no zero
whole = st.integers(-20, 20)


def best_by_trying(strata, total, give):
    """The least value over all sets of cells that may be above zero, in fractions."""
    found = None
    for size in range(len(strata) + 1):
        for chosen in combinations(range(len(strata)), size):
            if size + give == 0:
                move = Fraction(0)
            else:
                move = (total - sum(Fraction(strata[i]) for i in chosen)) / (give + size)
            x = [strata[i] + move if i in chosen else Fraction(0) for i in range(len(strata))]
            if min(x) < 0 or (give == 0 and sum(x) != total):
                continue
            far = sum((a - b) ** 2 for a, b in zip(x, strata, strict=True))
            value = far if give == 0 else (sum(x) - total) ** 2 + give * far
            if found is None or value < found[0]:
                found = value, x
    return [float(one) for one in found[1]]


@given(st.lists(whole, min_size=1, max_size=5), whole, st.sampled_from([Fraction(3), Fraction(1, 100), Fraction(0)]))
def test_the_shift_is_the_best_of_all_sets_of_cells_above_zero(strata, total, give):
    total = abs(total) if give == 0 else total
    found = agree(np.array([strata]), np.array([[total]]), np.array([0, len(strata)]), give=float(give))
    assert found[0] == pytest.approx(best_by_trying(strata, total, give), abs=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.01, 10), st.floats(0.01, 10))
def test_scipy_finds_the_same_for_many_groups_and_runs_at_once(seed, of_total, of_strata):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 7, 5)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    strata, totals = rng.integers(-30, 60, (3, bounds[-1])), rng.integers(-20, 200, (3, 5))
    found = agree(strata, totals, bounds, give=of_strata / of_total)
    for run in range(3):
        for group, size in enumerate(sizes):
            cells = slice(bounds[group], bounds[group + 1])
            if size:
                weight = np.sqrt([of_total] + [of_strata] * size)
                rows = np.vstack([np.ones(size), np.eye(size)]) * weight[:, None]
                expected, _ = nnls(rows, np.append(totals[run, group], strata[run, cells]) * weight)
                assert found[run, cells] == pytest.approx(expected, abs=1e-7)


def test_a_large_group_meets_the_conditions_of_an_optimum():
    rng = np.random.default_rng(4)
    strata = (rng.laplace(scale=30, size=(1, 200_000)) + rng.geometric(0.05, size=(1, 200_000))).astype(np.int64)
    for give, total in ((0.01, 3_000_000), (0.0, 3_000_000), (0.01, 10), (0.0, 1)):
        x = agree(strata, np.array([[total]]), np.array([0, strata.size]), give=give)[0]
        pull = give * (x - strata[0]) + (x.sum() - total if give else 0.0)
        at_zero = x == 0
        assert (x >= 0).all()
        if give:
            assert np.abs(pull[~at_zero]).max() < 1e-5
            assert pull[at_zero].min() > -1e-5
        else:
            assert x.sum() == pytest.approx(total, rel=1e-12)
            assert np.ptp((x - strata[0])[~at_zero]) < 1e-8
            assert (x - strata[0])[at_zero].min() > (x - strata[0])[~at_zero].max() - 1e-8


def test_nobody_is_left_where_the_total_is_zero_and_kept_exactly():
    assert agree(np.array([[5, -3, 5]]), np.array([[0]]), np.array([0, 3]), give=0).tolist() == [[0, 0, 0]]


# -- total and strata (SA3)


def residuals(weights, **options):
    found = total_and_strata(LARGE, seed=1, weights=weights, **options)
    return found.answer("detailed", level="block") - 10_000


@pytest.mark.parametrize(("options", "z"), [({}, "0.375"), ({"neighbours": "add-or-remove"}, "0.75")])
def test_strata_have_their_noise_where_the_total_weighs_nothing(options, z):
    options |= {"epsilon_total": "0.25", "epsilon_strata": "0.75", "replicate": range(8)}
    found = np.rint(residuals((1e-12, 1.0), **options)).astype(int).reshape(-1).tolist()
    assert p_value(found, geometric_pmf(z)) > PLAUSIBLE
    assert p_value(found, geometric_pmf(Fraction(z) * 11 / 10)) < 1e-6


@pytest.mark.parametrize(("options", "z"), [({}, "0.125"), ({"neighbours": "add-or-remove"}, "0.25")])
def test_sums_have_the_noise_of_the_total_where_it_weighs_everything(options, z):
    options |= {"epsilon_total": "0.25", "epsilon_strata": "0.75", "replicate": range(40)}
    found = np.rint(residuals((1e9, 1.0), **options).sum(axis=2)).astype(int).reshape(-1).tolist()
    assert p_value(found, geometric_pmf(z)) > PLAUSIBLE
    assert p_value(found, geometric_pmf(Fraction(z) * 11 / 10)) < 1e-6


@settings(max_examples=15)
@given(countries(), st.sampled_from(["county", "block"]), st.sampled_from(["race", "detailed"]))
def test_each_unit_is_what_scipy_makes_of_its_noisy_total_and_strata(people, level, query):
    options = {"query": query, "level": level, "seed": 3, "replicate": range(1, 3)}
    found = total_and_strata(people, epsilon_total="1/4", epsilon_strata="3/4", **options)
    name = people.schema.query(query).name
    z = Fraction(1, 8), Fraction(3, 8)
    stream = noise_stream(people, "total and strata", *z, name, level, seed=3, key=None)
    place = {"level": level, "replicate": range(1, 3)}
    totals = noisy_answers(people, stream, z=z[0], query="total", **place)
    strata = noisy_answers(people, stream, z=z[1], query=query, number=1, **place)
    rows = np.vstack([0.5 * np.ones(strata.shape[2]), np.sqrt(0.75) * np.eye(strata.shape[2])])
    for run in range(2):
        for unit in range(strata.shape[1]):
            aim = np.append(0.5 * totals[run, unit], np.sqrt(0.75) * strata[run, unit])
            expected, _ = nnls(rows, aim)
            assert found.answer(query, level=level)[run, unit] == pytest.approx(expected, abs=1e-7)


def test_other_weights_meet_the_same_noise():
    options = {"epsilon_total": 1, "epsilon_strata": 1}
    even, odd = residuals((1.0, 1.0), **options), residuals((1.0, 3.0), **options)
    assert np.corrcoef(even.reshape(-1), odd.reshape(-1))[0, 1] > 0.9
    other = residuals((1.0, 1.0), epsilon_total=1, epsilon_strata="1.000001")
    assert abs(np.corrcoef(even.reshape(-1), other.reshape(-1))[0, 1]) < 0.1


# -- with an invariant (SA4)


@settings(max_examples=25)
@given(countries(), st.integers(0, 50))
def test_the_penalty_and_the_invariant_are_the_best_for_each_county_alone(people, seed):
    strata = geometric(people, epsilon="1/4", query="age", neighbours="replace-one", seed=seed).tables["block"][0]
    under, totals = people.spine.leaves_under("county"), people.answer("total", level="county").dense()[:, 0]
    pulled = with_invariant(people, epsilon="1/4", query="age", seed=seed).tables["block"][0]
    kept = with_invariant(people, epsilon="1/4", query="age", seed=seed, exact=True).tables["block"][0]
    for county in range(len(totals)):
        blocks = slice(under[county], under[county + 1])
        cells, total = strata[blocks].reshape(-1), int(totals[county])
        scale = 10.0
        rows, aim = np.vstack([np.eye(len(cells)), scale * np.ones(len(cells))]), np.append(cells, scale * total)
        assert pulled[blocks].reshape(-1) == pytest.approx(nnls(rows, aim)[0], abs=1e-6)
        assert kept[blocks].reshape(-1) == pytest.approx(best_by_trying(cells.tolist(), total, 0), abs=1e-9)


def test_the_invariant_holds_exactly_and_the_penalty_nearly():
    counts = LARGE.answer("total", level="county").dense()[None]
    kept = with_invariant(LARGE, epsilon="1/4", seed=1, exact=True, replicate=range(3))
    near = with_invariant(LARGE, epsilon="1/4", seed=1, replicate=range(3))
    assert kept.answer("total", level="county") == pytest.approx(np.repeat(counts, 3, axis=0), rel=1e-13)
    away = near.answer("total", level="county") - counts
    plain = geometric(LARGE, epsilon="1/4", query="detailed", neighbours="replace-one", seed=1, replicate=range(3))
    before = plain.answer("total", level="county") - counts
    assert away == pytest.approx(before / (1 + 100 * 600), rel=1e-4)  # 100 blocks of 6 cells in each county
    assert with_invariant(LARGE, epsilon="1/4", seed=1, above="us").replicates == 1


# -- absolute differences (the text of SA3)


def least_absolute(total, strata, weights):
    """The least weighted sum of absolute differences, by linear programming: cells, then a bound on each difference."""
    size = len(strata)
    cost = np.concatenate([np.zeros(size), [weights[0]], np.full(size, weights[1])])
    rows = np.vstack([np.ones(size), np.eye(size)])
    bounds = np.hstack([np.vstack([rows, -rows]), np.vstack([-np.eye(size + 1)] * 2)])
    aim = np.append(total, strata)
    return linprog(cost, A_ub=bounds, b_ub=np.concatenate([aim, -aim])).fun


@settings(max_examples=15)
@given(countries(), st.sampled_from([(0.25, 0.75), (0.5, 0.5), (0.75, 0.25)]), st.sampled_from(["race", "detailed"]))
def test_no_table_has_smaller_absolute_differences(people, weights, query):
    options = {"query": query, "level": "county", "seed": 3, "epsilon_total": "1/4", "epsilon_strata": "3/4"}
    found = total_and_strata_absolute(people, weights=weights, **options).answer(query, level="county")[0]
    z, name = (Fraction(1, 8), Fraction(3, 8)), people.schema.query(query).name
    stream = noise_stream(people, "total and strata", *z, name, "county", seed=3, key=None)
    totals = noisy_answers(people, stream, z=z[0], query="total", level="county", replicate=0)[0, :, 0]
    strata = noisy_answers(people, stream, z=z[1], query=query, level="county", replicate=0, number=1)[0]
    assert (found >= 0).all()
    for x, total, cells in zip(found, totals, strata, strict=True):
        value = weights[0] * abs(x.sum() - total) + weights[1] * np.abs(x - cells).sum()
        assert value == pytest.approx(least_absolute(total, cells, weights), abs=1e-7)


def test_with_the_authors_weights_absolute_differences_ignore_the_total():
    budget = {"epsilon_total": "1/4", "epsilon_strata": "3/4", "seed": 1}
    plain = total_and_strata_absolute(LARGE, **budget).answer("total", level="block")
    heavy = total_and_strata_absolute(LARGE, weights=(2, 1), **budget).answer("total", level="block")
    squares = total_and_strata(LARGE, weights=(1e9, 1), **budget).answer("total", level="block")
    assert heavy == pytest.approx(squares, rel=1e-6)
    assert np.abs(plain - heavy).max() > 1


# -- what is refused


def test_weights_that_are_not_positive_are_refused():
    with pytest.raises(InputError, match=r"weights of total and strata must be above 0\. Got \(0, 1\)"):
        total_and_strata(LARGE, epsilon_total=1, epsilon_strata=1, weights=(0, 1), seed=1)
    with pytest.raises(
        InputError, match=r"weight of an invariant must be above 0\. Got inf instead; exact=True keeps it"
    ):
        with_invariant(LARGE, epsilon=1, weight=np.inf, seed=1)
    with pytest.raises(InputError, match=r"epsilon_strata must be greater than 0\. Got -1"):
        total_and_strata(LARGE, epsilon_total=1, epsilon_strata=-1, seed=1)
    with pytest.raises(InputError, match="unknown level 'tract'"):
        with_invariant(LARGE, epsilon=1, above="tract", seed=1)


def test_cells_that_cannot_exist_stay_empty_in_every_mechanism():
    spine = Spine.from_columns({"county": ["1", "1"], "tract": ["1a", "1b"]}, root="state")
    schema = Schema(
        attributes={"age": ["child", "adult"], "home": ["house", "prison"]},
        zeros=[{"age": ["child"], "home": ["prison"]}],
    )
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[0, 3], count=[5, 5])
    made = [
        geometric(people, epsilon=1, query="detailed", seed=1, replicate=range(20)),
        total_and_strata(people, epsilon_total=1, epsilon_strata=1, seed=1, replicate=range(20)),
        total_and_strata_absolute(
            people, epsilon_total=1, epsilon_strata=1, weights=(2, 1), seed=1, replicate=range(20)
        ),
        with_invariant(people, epsilon=1, seed=1, replicate=range(20)),
    ]
    for one in made:
        table = one.answer("detailed", level="tract")
        assert (table[:, :, 1] == 0).all()
        assert (table[:, :, 0] != 5).any()
