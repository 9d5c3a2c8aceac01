"""Draws: what each word must give (ties included), the compiled path, the distribution, and the order of drawing."""

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rational import (
    Interval,
    cumulatives,
    exp_minus,
    gaussian_weights,
    gaussian_whole,
    geometric_cumulative,
    geometric_weights,
    geometric_whole,
    within,
)
from scipy import stats

from tallyveil.errors import InputError
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.sampling import draw, draw_one, sampler, settle
from tallyveil.privacy.stream_words import Stream

SIGN = 2**63
STREAM = RunKey.from_seed(20_200_401).stream([b"tests of sampling"])
NARROW = [Geometric(z=2), DiscreteGaussian(variance="0.3")]
MIDDLE = [Geometric(z="0.05"), DiscreteGaussian(variance=100)]
HUGE = [Geometric(z="1e-8"), DiscreteGaussian(variance=10**16)]
WIDE = [*HUGE, DiscreteGaussian(variance=10**10), Geometric(z="1/1000")]  # in two parts
EVERY = [*NARROW, *MIDDLE, *WIDE]


# -- references --------------------------------------------------------------------------------------------------------


def exact_cumulatives(noise, size):
    """P[|X| <= m] for m < size, as intervals of fractions."""
    if isinstance(noise, Geometric):
        weights, whole = geometric_weights(noise.z), geometric_whole(noise.z, 2)
    else:
        weights, whole = gaussian_weights(noise.variance), gaussian_whole(noise.variance, 2)
    return list(islice(cumulatives(weights, whole, 2), size))


def outcome(how, words):
    """What the words give, by both paths, which must agree; all words must be used, and no more."""
    exactly = iter(words)
    by_definition = draw_one(how, exactly)
    assert list(exactly) == [], "words were left over"
    first = np.array(words[:1], dtype=np.uint64)
    further = None
    if how.shift:
        further = np.array([(words[1:] + [0] * 8)[:8]], dtype=np.uint64)
    assert settle(how, first, further, lambda _: iter(words)).tolist() == [by_definition]
    return by_definition


def signed(word, negative):
    return word | SIGN if negative else word


# -- (a) ties ----------------------------------------------------------------------------------------------------------

TABLED = [Geometric(z=2), Geometric(z="1/3"), DiscreteGaussian(variance="0.3"), DiscreteGaussian(variance=10)]
both_signs = pytest.mark.parametrize("negative", [False, True])


@both_signs
@pytest.mark.parametrize("noise", TABLED, ids=repr)
def test_words_beside_a_threshold_are_settled_by_the_first_word_alone(noise, negative):
    sign = -1 if negative else 1
    for m, c in enumerate(exact_cumulatives(noise, 5)):
        threshold = c.floor_at(63)
        assert outcome(sampler(noise), [signed(threshold - 1, negative)]) == sign * m
        assert outcome(sampler(noise), [signed(threshold + 1, negative)]) == sign * (m + 1)


@both_signs
@pytest.mark.parametrize("noise", TABLED, ids=repr)
def test_a_word_on_a_threshold_is_settled_by_the_next_64_bits(noise, negative):
    sign = -1 if negative else 1
    for m, c in enumerate(exact_cumulatives(noise, 5)):
        first, second = signed(c.floor_at(63), negative), c.floor_at(127) % 2**64
        for following, magnitude in ((0, m), (second - 1, m), (second + 1, m + 1), (2**64 - 1, m + 1)):
            assert outcome(sampler(noise), [first, following]) == sign * magnitude


@both_signs
@pytest.mark.parametrize("noise", TABLED, ids=repr)
def test_a_tie_may_take_any_number_of_words(noise, negative):
    sign = -1 if negative else 1
    for m, c in enumerate(exact_cumulatives(noise, 3)):
        bits = [c.floor_at(63)] + [c.floor_at(63 + 64 * n) % 2**64 for n in (1, 2, 3)]
        bits[0] = signed(bits[0], negative)
        for ties in (2, 3):
            assert outcome(sampler(noise), [*bits[:ties], bits[ties] - 1]) == sign * m
            assert outcome(sampler(noise), [*bits[:ties], bits[ties] + 1]) == sign * (m + 1)


@both_signs
@pytest.mark.parametrize("noise", TABLED, ids=repr)
def test_the_last_word_reaches_the_tail_beyond_the_table(noise, negative):
    size = len(sampler(noise).table.thresholds)
    later = exact_cumulatives(noise, size + 2)
    first, sign = signed(2**63 - 1, negative), -1 if negative else 1
    for m in range(size - 1, size + 2):  # the last in the table and two beyond
        exact = later[m].floor_at(191)
        second, third = exact >> 64 & 2**64 - 1, exact & 2**64 - 1
        assert exact >> 128 == 2**63 - 1
        assert outcome(sampler(noise), [first, second, third - 1]) == sign * m
        assert outcome(sampler(noise), [first, second, third + 1]) == sign * (m + 1)


@both_signs
def test_a_word_on_several_thresholds_at_once_finds_the_right_one_of_them(negative):
    # in a long tail single probabilities are below 2^-63, so that neighbouring thresholds are the same
    noise = Geometric(z="1/500")
    table = sampler(noise).table.thresholds
    m = int(np.flatnonzero(np.diff(table) == 0)[0])
    assert table[m] == table[m + 1] < 2**63 - 1
    sign = -1 if negative else 1
    run = int(np.searchsorted(table, table[m], side="right"))
    for magnitude in (m, m + 1, run - 1):
        exact = geometric_cumulative(noise.z, 2, magnitude).floor_at(127)
        assert exact >> 64 == int(table[m])
        first = signed(int(table[m]), negative)
        assert outcome(sampler(noise), [first, exact % 2**64 - 1]) == sign * magnitude
        assert outcome(sampler(noise), [first, exact % 2**64 + 1]) == sign * (magnitude + 1)


def two_part_gamma(noise, step, m, low):
    """log f(b m) - log f(b m + l): what the rejection step must use, from the distribution itself."""
    at, base = step * m + low, step * m
    if isinstance(noise, Geometric):
        return noise.z * (at - base)
    return Fraction(at * at - base * base) / (2 * noise.variance)


def high_part(noise, how):
    """P[H <= m] on the grid of steps, as intervals: the one-sided law that the docstring describes."""
    step = 1 << how.shift
    if isinstance(noise, Geometric):
        z = noise.z * step
        return cumulatives(geometric_weights(z), geometric_whole(z, 1), 1)
    s = noise.variance / step**2
    return cumulatives(gaussian_weights(s), gaussian_whole(s, 1), 1)


@both_signs
@pytest.mark.parametrize("noise", WIDE, ids=repr)
def test_a_wide_draw_is_kept_exactly_when_its_uniform_is_below_the_ratio_of_weights(noise, negative):
    how, sign = sampler(noise), -1 if negative else 1
    step = 1 << how.shift
    assert how.shift > 0
    cumulative = list(islice(high_part(noise, how), 401))
    for m, low in {(0, 1), (0, step - 1), (3, step // 3 + 1), (400, step - 1)}:
        word = signed(cumulative[m].floor_at(63) - 1, negative)
        ratio = exp_minus(two_part_gamma(noise, step, m, low))
        keep, tie = ratio.floor_at(64), ratio.floor_at(128) % 2**64
        value, again = sign * (step * m + low), [5, 3, 0]  # the next try: h = 0, l = 3 mod b, surely kept
        assert outcome(how, [word, low, keep - 1]) == value
        assert outcome(how, [word, low, keep + 1, *again]) == 3 % step
        assert outcome(how, [word, low, keep, tie - 1]) == value  # ties in the acceptance step
        assert outcome(how, [word, low, keep, tie + 1, *again]) == 3 % step
        third = ratio.floor_at(192) % 2**64
        assert outcome(how, [word, low, keep, tie, third - 1]) == value
        assert outcome(how, [word, low, keep, tie, third + 1, *again]) == 3 % step


@both_signs
@pytest.mark.parametrize("noise", [HUGE[0], *WIDE[2:]], ids=repr)
def test_ties_in_the_first_part_of_a_wide_draw_are_settled_by_the_next_64_bits(noise, negative):
    how, sign = sampler(noise), -1 if negative else 1
    step = 1 << how.shift
    for m, c in enumerate(islice(high_part(noise, how), 2)):
        first, second = signed(c.floor_at(63), negative), c.floor_at(127) % 2**64
        assert outcome(how, [first, second - 1, 1, 0]) == sign * (step * m + 1)
        assert outcome(how, [first, second + 1, 1, 0]) == sign * (step * (m + 1) + 1)
        third = c.floor_at(191) % 2**64
        assert outcome(how, [first, second, third - 1, 1, 0]) == sign * (step * m + 1)
        assert outcome(how, [first, second, third + 1, 1, 0]) == sign * (step * (m + 1) + 1)


@pytest.mark.parametrize("noise", WIDE, ids=repr)
def test_minus_zero_is_drawn_again_so_that_zero_does_not_count_twice(noise):
    how = sampler(noise)
    assert outcome(how, [SIGN, 0, 0, SIGN, 7 % 2**how.shift, 0]) == -(7 % 2**how.shift)
    assert outcome(how, [0, 0, 0]) == 0


@pytest.mark.parametrize("noise", WIDE, ids=repr)
def test_a_wide_draw_may_be_refused_any_number_of_times(noise):
    how = sampler(noise)
    for times in (1, 2, 3, 7):
        assert outcome(how, [SIGN, 0, 0] * times + [0, 1, 0]) == 1


# -- (b) the compiled path is the definition ---------------------------------------------------------------------------


@pytest.mark.parametrize("noise", EVERY, ids=repr)
def test_the_compiled_path_equals_the_definition_on_random_words(noise):
    index = np.arange(100) * 12_345_678_901
    compiled = draw(noise, STREAM, index, level=1, query=2, replicate=3)
    one_by_one = [draw_one(sampler(noise), STREAM.draw_words(int(i), level=1, query=2, replicate=3)) for i in index]
    assert compiled.tolist() == one_by_one


@settings(max_examples=100, deadline=None)
@given(
    noise=st.sampled_from([Geometric(z=2), DiscreteGaussian(variance=100), DiscreteGaussian(variance=10**10)]),
    words=st.lists(
        st.one_of(
            st.integers(0, 2**64 - 1),
            st.integers(0, 62).map(lambda k: 2**k - 1),
            st.integers(1, 63).map(lambda k: 2**64 - 2**k),
        ),
        min_size=9,
        max_size=9,
    ),
)
def test_the_compiled_path_equals_the_definition_on_words_at_the_edges(noise, words):
    how, more = sampler(noise), [12345, 1, 0] * 5
    further = np.array([words[1:]], dtype=np.uint64) if how.shift else None
    compiled = settle(how, np.array(words[:1], dtype=np.uint64), further, lambda _: iter(words + more))
    assert compiled.tolist() == [draw_one(how, iter(words + more))]


@pytest.mark.parametrize("noise", EVERY, ids=repr)
def test_nearly_no_random_word_needs_the_slow_path(noise):
    random, asked = np.random.default_rng(1), []
    words = random.integers(0, 2**64, 20_000, dtype=np.uint64)
    further = random.integers(0, 2**64, (20_000, 8), dtype=np.uint64) if sampler(noise).shift else None

    def all_words(i):
        asked.append(i)
        return iter([0, 1, 0])

    settle(sampler(noise), words, further, all_words)
    assert len(asked) <= 1


# -- (c) the distribution ----------------------------------------------------------------------------------------------


def p_value(draws, noise):
    """Chi-square of draws in about 60 bins of equal probability under the noise (fewer where values are few)."""
    k = np.unique(noise.quantile(np.linspace(0, 1, 61)[1:-1]))
    k = np.unique(np.concatenate([k, [k[0] - 1, k[-1] + 1]]))  # a bin further out on both sides
    probability = np.diff(np.concatenate([[0.0], noise.cdf(k), [1.0]]))
    observed = np.bincount(np.searchsorted(k, draws, side="left"), minlength=len(k) + 1)
    enough = probability * len(draws) > 10
    rest = max(probability[~enough].sum(), 1e-300)
    observed = np.append(observed[enough], observed[~enough].sum())
    expected = np.append(probability[enough], rest) * len(draws)
    if expected[-1] < 10:
        observed, expected = observed[:-1], expected[:-1]
    statistic = np.sum((observed - expected) ** 2 / expected)
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def rescaled(noise, factor):
    """The same kind of noise at ``factor`` times the scale."""
    if isinstance(noise, Geometric):
        return Geometric(z=noise.z / Fraction(factor))
    return DiscreteGaussian(variance=noise.variance * Fraction(factor) ** 2)


@pytest.mark.parametrize("noise", EVERY, ids=repr)
def test_draws_follow_the_right_scale_and_not_one_ten_percent_off(noise):
    draws = draw(noise, STREAM, np.arange(300_000), query=1)
    assert p_value(draws, noise) > 1e-3
    assert p_value(draws, rescaled(noise, "1.1")) < 1e-12
    assert p_value(draws, rescaled(noise, "0.9")) < 1e-12


@pytest.mark.parametrize("noise", EVERY, ids=repr)
def test_draws_are_as_often_above_zero_as_below(noise):
    draws = draw(noise, STREAM, np.arange(300_000), query=2)
    above, below = int((draws > 0).sum()), int((draws < 0).sum())
    assert stats.binomtest(above, above + below).pvalue > 1e-3
    assert stats.binomtest(int(1.02 * above), above + below).pvalue < 1e-3  # two percent more would be seen


@pytest.mark.parametrize("noise", HUGE, ids=repr)
def test_the_last_digits_of_huge_draws_are_uniform_and_a_lost_bit_would_be_seen(noise):
    draws = draw(noise, STREAM, np.arange(200_000), query=3)
    assert stats.chisquare(np.bincount(draws % 1024, minlength=1024)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(draws % 1000, minlength=1000)).pvalue > 1e-3
    assert stats.chisquare(np.bincount((draws & ~1) % 1024, minlength=1024)).pvalue < 1e-12


@pytest.mark.parametrize("noise", EVERY, ids=repr)
def test_the_variance_of_draws_is_the_variance_of_the_noise(noise):
    draws = draw(noise, STREAM, np.arange(300_000), query=4).astype(np.float64)
    squares = draws**2
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - noise.actual_variance()) < 4 * error
    assert abs(squares.mean() - 1.05 * noise.actual_variance()) > 4 * error


# -- (d) any subset, any order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [MIDDLE[1], HUGE[0]], ids=repr)
def test_the_same_draws_come_by_unit_by_chunk_reversed_permuted_and_on_two_threads(noise):
    units, cells = 400, 97  # more than two chunks
    index = np.arange(units * cells)
    all_at_once = draw(noise, STREAM, index, level=2, query=5, replicate=1)

    def again(places):
        return draw(noise, STREAM, places, level=2, query=5, replicate=1)

    by_unit = [again(unit * cells + np.arange(cells)) for unit in range(units)]
    assert np.array_equal(np.concatenate(by_unit), all_at_once)
    for size in (1000, 16_384, 16_385):
        chunks = [again(index[i : i + size]) for i in range(0, len(index), size)]
        assert np.array_equal(np.concatenate(chunks), all_at_once)
    assert np.array_equal(again(index[::-1]), all_at_once[::-1])
    order = np.random.default_rng(3).permutation(len(index))
    assert np.array_equal(again(order), all_at_once[order])
    assert np.array_equal(again(order[:1234].tolist()), all_at_once[order[:1234]])
    with ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(again, [index[::2], index[1::2]]))
    assert np.array_equal(halves[0], all_at_once[::2])
    assert np.array_equal(halves[1], all_at_once[1::2])


def test_two_threads_that_make_their_tables_at_once_draw_what_one_thread_draws():
    noises = [DiscreteGaussian(variance=Fraction(n, 7)) for n in range(50, 58)]
    index = np.arange(500)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda noise: draw(noise, STREAM, index), noises))
    sampler.cache_clear()
    for noise, draws in zip(noises, together, strict=True):
        assert np.array_equal(draws, draw(noise, STREAM, index))


@pytest.mark.parametrize("noise", [NARROW[0], HUGE[1]], ids=repr)
@pytest.mark.parametrize("size", [1, 7, 9000, 20_000])  # several replicates in a chunk, one, and less than one
def test_a_range_of_replicates_is_the_replicates_one_by_one(noise, size):
    index, replicates = np.arange(size) * 3, range(5, 12, 2)
    together = draw(noise, STREAM, index, level=1, query=1, replicate=replicates)
    assert together.shape == (4, size)
    for row, replicate in zip(together, replicates, strict=True):
        assert np.array_equal(row, draw(noise, STREAM, index, level=1, query=1, replicate=replicate))


def test_no_places_give_no_draws():
    assert draw(NARROW[0], STREAM, []).shape == (0,)
    assert draw(HUGE[0], STREAM, [], replicate=range(3)).shape == (3, 0)
    assert draw(HUGE[0], STREAM, [1, 2], replicate=range(0)).shape == (0, 2)


def test_places_far_out_have_draws_of_their_own():
    places = np.array([0, 1, 2**32, 2**35, 2**35 + 1, 2**40, 2**62])
    draws = draw(HUGE[1], STREAM, places)
    assert len(set(draws.tolist())) == len(places)


# -- (e) independence --------------------------------------------------------------------------------------------------


def correlation_in_errors(one, two):
    """The correlation, in multiples of its standard error."""
    return float(np.corrcoef(one, two)[0, 1] * np.sqrt(len(one)))


OTHER = RunKey.from_seed(20_200_401).stream([b"tests of sampling", b""])
ELSEWHERE = {
    "replicate": (STREAM, 0, {"replicate": 1}),
    "level": (STREAM, 0, {"level": 1}),
    "query": (STREAM, 0, {"query": 1}),
    "stream": (OTHER, 0, {}),
    "index": (STREAM, 8, {}),
}


@pytest.mark.parametrize("noise", [MIDDLE[1], HUGE[0]], ids=repr)
@pytest.mark.parametrize("what", ELSEWHERE)
def test_draws_elsewhere_are_not_correlated_and_one_shared_draw_in_thirty_would_be_seen(what, noise):
    index = np.arange(100_000)
    stream, shift, place = ELSEWHERE[what]
    here = draw(noise, STREAM, index).astype(np.float64)
    there = draw(noise, stream, index + shift, **place).astype(np.float64)
    for transform in (lambda x: x, np.abs, np.sign, lambda x: x % 2):
        assert abs(correlation_in_errors(transform(here), transform(there))) < 4.5
    leaky = np.where(index % 30 == 0, here, there)
    assert correlation_in_errors(here, leaky) > 4.5


def test_draws_next_to_each_other_are_not_correlated():
    draws = draw(MIDDLE[1], STREAM, np.arange(200_000), query=7).astype(np.float64)
    for lag in (1, 2, 7, 8, 16):
        assert abs(correlation_in_errors(draws[:-lag], draws[lag:])) < 4.5


# -- (f) exactness, exhaustively ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", TABLED, ids=repr)
def test_the_share_of_words_that_mean_m_is_its_probability_to_within_two_to_the_minus_62(noise):
    table = [0, *sampler(noise).table.thresholds.tolist()]
    right = [Interval(Fraction(0), Fraction(0)), *exact_cumulatives(noise, len(table) - 1)]
    bound = Fraction(1, 2**62)
    for m in range(len(table) - 1):
        share = Fraction(table[m + 1] - table[m], 2**63)
        assert share - bound < right[m + 1].low - right[m].high
        assert share + bound > right[m + 1].high - right[m].low


@pytest.mark.parametrize("noise", [*TABLED, *MIDDLE], ids=repr)
def test_every_word_with_given_16_leading_bits_gives_the_value_its_probability_says(noise):
    # words are in the order of their magnitudes: if both ends of a block of words give m, all between do
    lead = np.arange(2**16, dtype=np.uint64) << np.uint64(48)

    def values(words):
        return settle(sampler(noise), words, None, lambda i: iter([int(words[i]), 0]))

    first, last = values(lead + np.uint64(1)), values(lead + np.uint64(2**48 - 2))
    right = exact_cumulatives(noise, 60)
    floors = [int(c.low * 2**15) for c in right]
    for sign, part in ((1, slice(None, 2**15)), (-1, slice(2**15, None))):
        start, end = sign * first[part], sign * last[part]
        assert (start <= end).all()
        for g in range(2**15):  # the block holds all u with floor(2^15 u) = g
            below, above = bisect_left(floors, g), bisect_left(floors, g + 1)
            if above < len(floors):
                assert below <= start[g] <= end[g] <= above
                assert below == above or (start[g] == below and end[g] == above)


def test_a_word_gives_minus_what_it_gives_with_the_other_sign():
    words = np.random.default_rng(2).integers(0, SIGN, 5000, dtype=np.uint64)
    for noise in [*NARROW, *MIDDLE]:
        plus, minus = (
            settle(sampler(noise), w, None, lambda i, w=w: iter([int(w[i]), 0]))
            for w in (words, words | np.uint64(SIGN))
        )
        assert np.array_equal(plus, -minus)


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [[-1], [3, 2, -(2**40)], [[0, 1]]])
def test_an_index_that_is_negative_or_not_a_list_is_refused(index):
    with pytest.raises(InputError, match=r"unit \* cells \+ cell, 0 or more, in one dimension"):
        draw(NARROW[0], STREAM, index)


def test_an_index_that_is_not_whole_is_refused_rather_than_cut_off():
    with pytest.raises((InputError, TypeError)):
        draw(NARROW[0], STREAM, [0.5, 1.5])


@pytest.mark.parametrize("place", [{"level": 256}, {"query": 4096}, {"replicate": 2**32}, {"replicate": -1}])
def test_a_place_outside_the_stream_is_refused(place):
    with pytest.raises(
        InputError, match=rf"Got -?{abs(next(iter(place.values())))}|Got {next(iter(place.values())):,}"
    ):
        draw(NARROW[0], STREAM, [0], **place)


@pytest.mark.parametrize("noise", [Geometric(z="1e-13"), DiscreteGaussian(variance=10**27)], ids=repr)
def test_a_noise_too_wide_to_draw_is_refused_with_the_remedy(noise):
    with pytest.raises(InputError, match=r"too wide to draw .*Use a larger budget"):
        draw(noise, STREAM, [0])


@pytest.mark.parametrize("noise", [Geometric(z="1e-12"), DiscreteGaussian(variance=10**24)], ids=repr)
def test_the_widest_noise_that_may_be_drawn_has_the_right_scale(noise):
    draws = draw(noise, STREAM, np.arange(50_000))
    assert p_value(draws, noise) > 1e-3
    assert p_value(draws, rescaled(noise, "1.1")) < 1e-9


@pytest.mark.parametrize("noise", [Geometric(z=1000), DiscreteGaussian(variance="1e-6")], ids=repr)
def test_a_noise_that_is_nearly_always_zero_can_be_drawn(noise):
    with within(1):
        assert not draw(noise, Stream(bytes(32)), np.arange(1000)).any()


@pytest.mark.parametrize("noise", [Geometric(z="1/744"), Geometric(z="1/745"), Geometric(z="1/746")], ids=repr)
def test_scales_on_both_sides_of_the_largest_table_are_drawn_alike(noise):
    draws = draw(noise, STREAM, np.arange(100_000), query=9)
    assert p_value(draws, noise) > 1e-3
    assert p_value(draws, rescaled(noise, "1.1")) < 1e-12
