"""Margins of published counts from the estimates beside them cover nine in ten true counts."""

import numpy as np
import pytest

import tallyveil as tv
from tallyveil.blue.published import AREA, published_margin, published_margins
from tallyveil.errors import InputError


def small_state() -> tv.Histogram:
    rng = np.random.default_rng(5)
    blocks = [f"{c}{t}{b}" for c in range(2) for t in range(3) for b in range(int(rng.integers(2, 6)))]
    columns = {"county": [b[:1] for b in blocks], "tract": [b[:2] for b in blocks], "block": blocks}
    spine = tv.Spine.from_columns(columns, root="state")
    schema = tv.Schema(attributes={"age": ["child", "adult"], "race": ["a", "b", "c"]})
    counts = rng.poisson(rng.gamma(1.0, 12.0, (len(blocks), schema.cells)))
    unit, cell = np.nonzero(counts)
    return tv.Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=counts[unit, cell])


def test_margins_cover_nine_in_ten_true_counts_and_those_of_half_the_noise_do_not():
    people = small_state()
    strategy = tv.Strategy.default(people.spine, people.schema, rho="0.05")
    held, held_by_half = {}, []
    for draw in range(40):
        release = tv.protect(people, strategy, seed=draw, measurements=None, threads=1)
        found = published_margins(release, queries=["total", "age", "race"])
        for (level, query), margin in found.classes.items():
            if (level, query) == ("state", "total"):
                assert (margin == 0).all()
                continue
            true, published = (one.answer(query, level=level).dense() for one in (people, release.histogram))
            held.setdefault(level, []).extend((np.abs(true - published) <= margin).reshape(-1))
        estimates = tv.estimate(release, levels=["tract"], queries=["age"]).to_pandas()
        true, published = (one.answer("age", level="tract").dense().reshape(-1) for one in (people, release.histogram))
        half = published_margin(published, estimates.estimate, estimates.sd / 2)
        held_by_half.extend(np.abs(true - published) <= half)
    for level in ("state", "county", "tract", "block"):
        assert 0.85 < np.mean(held[level]) < 0.97, (level, np.mean(held[level]))
    assert np.mean(held_by_half) < 0.7


def test_a_margin_is_the_smallest_whole_number_with_the_wanted_probability():
    rng = np.random.default_rng(2)
    published, estimate, sd = rng.integers(0, 60, 30), rng.normal(25, 20, 30), rng.uniform(0.2, 9, 30)
    margin = published_margin(published, estimate, sd)
    draws = np.rint(rng.normal(estimate, sd, (200_000, 30)))
    for place in range(30):
        possible = draws[draws[:, place] >= 0, place]
        if len(possible) < 20_000:
            continue
        apart = np.abs(possible - published[place])
        assert (apart <= margin[place]).mean() > 0.893
        assert margin[place] == 0 or (apart <= margin[place] - 1).mean() < 0.907
    assert published_margin([3, 5, 0], [3.0, 5.0, -900.0], [0.0, 0.01, 1.0]).tolist() == [0, 0, 0]


def test_areas_and_optimised_spines_have_margins_too():
    people = small_state()
    leaves = people.spine.labels("block")[::2]
    areas = tv.Areas.from_codes(
        people.spine, leaf=leaves, area=["a", "b"] * (len(leaves) // 2) + ["a"] * (len(leaves) % 2)
    )
    optimised = people.spine.optimised(place=areas)
    strategy = tv.Strategy.default(people.spine, people.schema, rho="0.05")
    release = tv.protect(people, strategy, seed=1, measurements=None, threads=1, optimised=optimised)
    found = published_margins(release, levels=["tract"], queries=["age"], areas=areas)
    assert [found.classes[level, "age"].shape for level in ("tract", AREA)] == [(6, 2), (2, 2)]
    estimates = tv.estimate(release, levels=["tract"], queries=["age"]).to_pandas()
    published = release.histogram.answer("age", level="tract").dense().reshape(-1)
    again = published_margin(published, estimates.estimate, estimates.sd)
    assert found.classes["tract", "age"].reshape(-1).tolist() == again.tolist()


def test_measurements_that_do_not_determine_the_counts_are_refused():
    people = small_state()
    strategy = tv.Strategy.default(people.spine, people.schema, rho="0.05")
    release = tv.protect(people, strategy, seed=1, measurements=[("age", "county")], threads=1)
    with pytest.raises(InputError, match="does not determine the requested queries"):
        published_margins(release, levels=["block"], queries=["age"])
