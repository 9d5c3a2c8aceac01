"""Small countries for the tests of the mechanisms, and a chi-square test for whole numbers."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from tallyveil import Grouping, Histogram, Schema, Spine
from tallyveil.privacy.noise import Geometric

# Some twenty chi-square tests accept a right law above this: together they fail by chance once in 500. What they must
# reject, a law 10% off, lies far below it.
PLAUSIBLE = 1e-4

SCHEMA = Schema(
    attributes={"age": ["child", "adult"], "race": ["a", "b", "c"]},
    groupings={"either": Grouping(of="race", groups={"ab": ["a", "b"], "c": ["c"]})},
)


def country(counts, families=((2, 1), (3,)), schema=SCHEMA):
    """People on state, county and block: ``families[s][c]`` blocks in county c of state s; counts blocks x cells."""
    columns = {"state": [], "county": [], "block": []}
    for s, sizes in enumerate(families):
        for c, blocks in enumerate(sizes):
            for b in range(blocks):
                columns["state"].append(f"{s:03}")
                columns["county"].append(f"{s:03}{c:03}")
                columns["block"].append(f"{s:03}{c:03}{b:03}")
    table = np.asarray(counts)
    unit, cell = np.nonzero(table)
    spine = Spine.from_columns(columns, root="us")
    return Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=table[unit, cell])


@st.composite
def countries(draw, most=12):
    """Random small countries."""
    families = draw(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3))
    blocks = sum(map(sum, families))
    sizes = st.integers(0, most) | st.just(0)
    row = st.lists(sizes, min_size=SCHEMA.cells, max_size=SCHEMA.cells)
    return country(draw(st.lists(row, min_size=blocks, max_size=blocks)), families)


def p_value(found, pmf: Mapping):
    """Chi-square of outcomes against their probabilities; the rare ones are put together."""
    tally, n = Counter(found), len(found)
    common = [outcome for outcome, p in pmf.items() if n * p >= 10]
    seen = np.array([tally[outcome] for outcome in common] + [n - sum(tally[o] for o in common)])
    expected = n * np.array([pmf[outcome] for outcome in common] + [1 - sum(pmf[o] for o in common)])
    keep = expected > 1e-6
    assert seen[~keep].sum() == 0, "an impossible outcome was seen"
    return stats.chisquare(seen[keep], expected[keep] * seen.sum() / expected[keep].sum()).pvalue


def geometric_pmf(z, parts=1, reach=400):
    """Probabilities of a sum of ``parts`` independent G(z), by convolution."""
    one = Geometric(z=z).pmf(np.arange(-reach, reach + 1))
    total = one
    for _ in range(parts - 1):
        total = np.convolve(total, one, mode="same")
    return dict(zip(range(-reach, reach + 1), total.tolist(), strict=True))
