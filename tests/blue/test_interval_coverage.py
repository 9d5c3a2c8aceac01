"""90% intervals cover 90%: units of every level, scattered areas, and ratios."""

import numpy as np
import pytest

import tallyveil as tv
from tallyveil.blue.joint import Joint
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey

DRAWS = 500


def small_state() -> tv.Histogram:
    rng = np.random.default_rng(5)
    blocks = [f"{c}{t}{b:02d}" for c in range(2) for t in range(3) for b in range(int(rng.integers(1, 8)))]
    columns = {"county": [b[:1] for b in blocks], "tract": [b[:2] for b in blocks], "block": blocks}
    spine = tv.Spine.from_columns(columns, root="state")
    schema = tv.Schema(attributes={"age": ["child", "adult"], "race": ["a", "b", "c"]})
    counts = rng.poisson(rng.gamma(1.0, 12.0, (len(blocks), schema.cells)))
    unit, cell = np.nonzero(counts)
    return tv.Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=counts[unit, cell])


def covered(people: tv.Histogram, strategy: tv.Strategy, draws: int) -> dict[str, list[float]]:
    """Which intervals hold the true figure, by level, for the area and for ratios; figures with sd of 2 or more."""
    spine = people.spine
    scattered = spine.labels("block")[::3]
    areas = tv.Areas.from_codes(spine, leaf=scattered, area=["here"] * len(scattered))
    names = ["total", "age", "race"]
    truth = {
        (level, name): people.answer(name, level=level).dense().reshape(-1) for level in spine.levels for name in names
    }
    of_area = {name: areas.tabulate(people.answer(name, level="block")).dense().reshape(-1) for name in names}
    held: dict[str, list[float]] = {}
    for draw in range(draws):
        noisy = measure(people, strategy, RunKey.from_seed(11), replicate=draw)
        frame = tv.estimate(noisy, queries=names).to_pandas()
        for (level, name), group in frame.groupby(["level", "query"], observed=True, sort=False):
            wide = group[group.sd >= 2]
            true = truth[level, name][group.sd.to_numpy() >= 2]
            held.setdefault(level, []).extend(((wide.low <= true) & (true <= wide.high)).tolist())
        found = tv.estimate(noisy, queries=names, areas=areas, covariance=True)
        for name, group in found.to_pandas().groupby("query", observed=True, sort=False):
            held.setdefault("area", []).extend(
                ((group.low <= of_area[name]) & (of_area[name] <= group.high)).to_numpy().tolist()
            )
        joint: Joint = found.joint()  # total, age child, age adult, race a, b, c
        if joint.estimate[0] > 10 * joint.sd[0]:
            share = joint.share([3], [0])
            true_share = of_area["race"][0] / of_area["total"][0]
            held.setdefault("ratio", []).append(share.low <= true_share <= share.high)
    return held


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"rho": "0.05"}, {"epsilon": "8"}], ids=["gaussian", "geometric"])
def test_intervals_cover_as_often_as_they_say(budget):
    people = small_state()
    strategy = tv.Strategy.default(people.spine, people.schema, **budget)
    held = covered(people, strategy, DRAWS)
    for level in ("state", "county", "tract", "block", "area"):
        assert 0.88 < np.mean(held[level]) < 0.92, (level, np.mean(held[level]))
    assert len(held["ratio"]) > 100
    assert 0.87 < np.mean(held["ratio"]) < 0.93
