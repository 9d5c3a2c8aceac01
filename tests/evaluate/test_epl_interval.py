"""The interval for the largest log ratio: how often it covers, how its width falls, and what the bootstrap does."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import beta

from tallyveil.evaluate.epl.interval import interval
from tallyveil.evaluate.epl.loss import epl

Z = 0.125
SIZES = (2663, 26_630, 2_663_000)
VALUES = np.arange(-300, 301)
CHANCE = np.exp(-Z * np.abs(VALUES)) / np.exp(-Z * np.abs(VALUES)).sum()


def drawn(n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts of n draws of G(Z) by value, drawn as a multinomial."""
    return rng.multinomial(n, CHANCE)


def reach_of(counts: np.ndarray) -> int:
    """The search range of percentile 95 (here whole)."""
    ends = np.cumsum(counts) / counts.sum()
    return int(max(abs(VALUES[np.searchsorted(ends, 0.05)]), abs(VALUES[np.searchsorted(ends, 0.95)])))


def intervals(n: int, trials: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(trials):
        counts = drawn(n, rng)
        b = reach_of(counts)
        found.append(interval(counts[300 - b : 301 + b], first=-b, confidence=0.95)[:2])
    return np.array(found)


def bootstrap(n: int, trials: int, seed: int = 2) -> float:
    """How often the naive interval covers: the 2.5th to 97.5th percentile of the maxima of resampled residuals."""
    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(trials):
        counts = drawn(n, rng)
        again = rng.multinomial(n, counts / n, size=200)
        b = reach_of(counts)
        width = 0.1 * np.sqrt(counts @ VALUES**2 / n)
        points = np.arange(-b, b - 1) + 0.5
        log_p = np.log(again @ np.exp(-(((points - VALUES[:, None]) / width) ** 2) / 2))
        low, high = np.quantile(np.abs(np.diff(log_p)).max(axis=1), [0.025, 0.975])
        covered += low <= Z <= high
    return covered / trials


def check(trials: int) -> None:
    found = {n: intervals(n, trials) for n in SIZES}
    for ends in found.values():
        assert np.isfinite(ends).all()
        assert ((ends[:, 0] <= Z) & (ends[:, 1] >= Z)).mean() >= 0.93
        assert (ends[:, 0] > 0).all()
    middle, large = (float(np.mean(found[n][:, 1] - found[n][:, 0])) for n in SIZES[1:])
    assert 8 <= middle / large <= 12


def test_the_interval_covers_z_and_its_width_falls_with_the_root_of_the_residuals():
    check(60)


@pytest.mark.slow
def test_the_interval_covers_z_in_93_of_100_of_500_trials_at_each_size():
    check(500)


def test_the_naive_bootstrap_of_the_maximum_does_not_cover_z():
    assert bootstrap(2663, 40) <= 0.05
    assert bootstrap(26_630, 40) <= 0.2


def test_the_lower_end_is_not_needlessly_low_nor_the_upper_end_needlessly_high():
    """At 2.66 million: within 2 % of z below; above, what the noisiest pair of the range allows."""
    found = intervals(2_663_000, 20)
    assert (found[:, 0] > 0.98 * Z).all()
    last = 2_663_000 * CHANCE[300 + 18]
    assert (found[:, 1] < Z + 6 * np.sqrt(2 / last)).all()


def test_a_distribution_a_tenth_steeper_is_told_apart():
    rng = np.random.default_rng(3)
    steeper = np.exp(-1.1 * Z * np.abs(VALUES))
    for _ in range(20):
        counts = rng.multinomial(266_300, steeper / steeper.sum())
        assert interval(counts[284:317], first=-16, confidence=0.95).low > Z


def test_where_one_pair_stands_out_the_interval_is_about_that_pair():
    counts = np.full(33, 100_000)
    counts[20] = 200_000
    found = interval(counts, first=-16, confidence=0.95)
    assert found.low == pytest.approx(np.log(2), abs=0.03)
    assert found.high == pytest.approx(np.log(2), abs=0.02)


def test_the_upper_end_is_the_largest_exact_bound_of_all_pairs():
    counts = np.array([3, 9, 20, 11, 4])
    exact = []
    for x, y in itertools.pairwise(counts):
        for more, less in ((x, y), (y, x)):
            p = beta.ppf(0.975, more + 1, less)
            exact.append(np.log(p / (1 - p)))
    assert interval(counts, first=-2, confidence=0.95).high == pytest.approx(max(exact), rel=1e-12)


def test_the_lower_end_is_the_best_exact_bound_over_blocks_shifts_and_directions():
    counts = np.array([2, 90, 400, 95, 4, 1])
    best = 0.0
    for length, shifts in ((1, (1, 2, 4)), (2, (1, 2))):
        starts = range(0, 6 - length + 1, length)
        pairs = [
            (a, a + shift * length, shift * length) for shift in shifts for a in starts if a + shift * length in starts
        ]
        level = 0.025 / 2 / (2 * len(pairs))
        for a, b, m in pairs:
            for more, less in ((a, b), (b, a)):
                in_a, in_b = counts[more : more + length].sum(), counts[less : less + length].sum()
                p = beta.ppf(level, in_a, in_b + 1)
                best = max(best, np.log(p / (1 - p)) / m)
    assert interval(counts, first=-2, confidence=0.95).low == pytest.approx(best, rel=1e-9)


def test_a_value_without_residuals_has_no_upper_bound_and_is_named():
    found = interval(np.array([5, 0, 9]), first=-1, confidence=0.95)
    assert (found.high, found.empty) == (None, 0)
    loss = epl([-3, -2, -1, 1, 2, 3, 3])
    assert loss.epl_high is None
    assert "no upper bound: no residual is 0, which lies in the search range" in loss.note


def test_more_confidence_means_a_wider_interval():
    counts = drawn(26_630, np.random.default_rng(4))[282:319]
    narrow, wide = (interval(counts, first=-18, confidence=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_copies_in_a_cluster_count_once():
    """Four copies of every residual as clusters of four: nearly the interval of the residuals without copies."""
    rng = np.random.default_rng(5)
    places = rng.choice(33, 8000, p=CHANCE[284:317] / CHANCE[284:317].sum())
    once = np.bincount(places, minlength=33)
    table = csr_matrix((np.full(8000, 4.0), (np.arange(8000), places)), shape=(8000, 33))
    copied = interval(4 * once, first=-16, confidence=0.95, clustered=table)
    plain, careless = (interval(counts, first=-16, confidence=0.95) for counts in (once, 4 * once))
    assert copied.low == pytest.approx(plain.low, abs=0.002)
    assert copied.high == pytest.approx(plain.high, abs=0.01)
    assert careless.high < plain.high - 0.05


def test_independent_residuals_in_clusters_have_nearly_the_same_interval():
    residuals = np.repeat(VALUES, drawn(50_000, np.random.default_rng(6)))
    np.random.default_rng(7).shuffle(residuals)
    free, grouped = epl(residuals), epl(residuals, clusters=np.arange(50_000) // 10)
    assert grouped.epl_low == pytest.approx(free.epl_low, rel=0.02)
    assert grouped.epl_high == pytest.approx(free.epl_high, rel=0.15)
    assert grouped.epl_high >= free.epl_high


def test_few_clusters_widen_the_interval():
    residuals = np.repeat(VALUES, drawn(20_000, np.random.default_rng(8)))
    np.random.default_rng(9).shuffle(residuals)
    many, few = (epl(residuals, clusters=np.arange(20_000) % clusters) for clusters in (2000, 4))
    assert few.epl_low < many.epl_low
    assert few.epl_high > many.epl_high + 0.1


@pytest.mark.parametrize(
    ("sizes", "share", "trials"),
    [
        pytest.param("lognormal", 0.6, 80, id="very unequal"),
        pytest.param("lognormal", 0.6, 600, id="very unequal, often", marks=pytest.mark.slow),
        pytest.param("lognormal", 0.3, 600, id="copies of 30 %", marks=pytest.mark.slow),
        pytest.param("geometric", 0.6, 600, id="unequal", marks=pytest.mark.slow),
    ],
)
def test_a_few_large_clusters_do_not_lift_the_lower_end_above_z(sizes, share, trials):
    """A share of each cluster copies one value: counting all 400 clusters as alike, 5 to 18 of 100 missed."""
    rng = np.random.default_rng(10)
    above = 0
    chance = np.exp(-0.3 * np.abs(VALUES)) / np.exp(-0.3 * np.abs(VALUES)).sum()
    for _ in range(trials):
        size = np.ceil(rng.lognormal(2, 1.2, 400)).astype(int) if sizes == "lognormal" else rng.geometric(0.1, 400)
        of = np.repeat(np.arange(400), size)
        own, other = rng.choice(VALUES, 400, p=chance), rng.choice(VALUES, len(of), p=chance)
        residuals = np.where(rng.random(len(of)) < share, own[of], other)
        b = int(np.abs(np.percentile(residuals, [5, 95])).max())
        within = np.abs(residuals) <= b
        place = (of[within], residuals[within] + b)
        table = csr_matrix((np.ones(within.sum()), place), shape=(400, 2 * b + 1))
        count = np.asarray(table.sum(axis=0)).ravel().astype(np.int64)
        above += interval(count, first=-b, confidence=0.95, clustered=table).low > 0.3
    assert above <= 0.04 * trials


def test_clusters_that_are_not_in_the_pair_do_not_count_as_many():
    """One cluster has most of a value: the interval is that of few clusters, however many others there are."""
    rng = np.random.default_rng(11)
    alike = rng.poisson(20.0, size=(200, 3))
    lumped = alike.copy()
    lumped[:, 2] = 0
    lumped[:3, 2] = alike[:, 2].sum() // 3
    spread, few = (
        interval(table.sum(axis=0), first=-1, confidence=0.95, clustered=csr_matrix(table)) for table in (alike, lumped)
    )
    assert spread.high < 0.1
    assert few.high > 1
