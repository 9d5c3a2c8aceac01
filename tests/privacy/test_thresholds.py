"""Thresholds against intervals of fractions written for these tests alone: no floats, no ball arithmetic."""

import sys
import threading
from fractions import Fraction
from itertools import islice

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rational import (
    cumulatives,
    exp_minus,
    gaussian_cumulative,
    gaussian_weights,
    gaussian_whole,
    geometric_cumulative,
    geometric_weights,
    geometric_whole,
    thresholds,
    within,
)

from tallyveil.privacy.thresholds import BITS, GUIDE, HalfGaussian, HalfGeometric, exp_floor, table

LAST = 2**63 - 1
LAWS = [
    HalfGeometric(sides=2, z=Fraction(2)),
    HalfGeometric(sides=2, z=Fraction(1, 20)),
    HalfGeometric(sides=1, z=Fraction(1, 20)),
    HalfGeometric(sides=1, z=Fraction(1, 381)),
    HalfGaussian(sides=2, s=Fraction(3, 10)),
    HalfGaussian(sides=2, s=Fraction(100)),
    HalfGaussian(sides=2, s=Fraction(16_794_601, 1_666_560)),  # a census block's, an awkward fraction
    HalfGaussian(sides=1, s=Fraction(10**10, 2**16)),
]


def name(law):
    return f"{type(law).__name__}-{law.sides}-{law.z if isinstance(law, HalfGeometric) else law.s}"


def expected(law, size):
    if isinstance(law, HalfGeometric):
        return thresholds(geometric_weights(law.z), geometric_whole(law.z, law.sides), law.sides, size)
    return thresholds(gaussian_weights(law.s), gaussian_whole(law.s, law.sides), law.sides, size)


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_every_threshold_is_the_floor_of_the_exact_cumulative_probability(law):
    computed = table(law).thresholds.tolist()
    assert computed == expected(law, len(computed))


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_a_table_ends_at_the_first_threshold_that_cannot_be_told_from_one(law):
    computed = table(law).thresholds.tolist()
    assert computed[-1] == LAST
    assert computed == sorted(computed)
    assert LAST not in computed[:-1]


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_the_guide_holds_the_first_threshold_that_a_word_can_be_below(law):
    t = table(law)
    edges = [g << BITS - GUIDE for g in range((1 << GUIDE) + 1)]
    ordered = t.thresholds.tolist()
    assert len(t.guide) == (1 << GUIDE) + 1
    for g, first in enumerate(t.guide.tolist()[:-1]):
        assert first == sum(1 for x in ordered[: first + 1] if x < edges[g])  # all before it are below every such word
        assert ordered[first] >= edges[g]
    assert t.guide[-1] == len(ordered) - 1
    assert (np.diff(t.guide) >= 0).all()


@pytest.mark.parametrize("law", LAWS[:2], ids=name)
def test_a_table_cannot_be_changed(law):
    for array in (table(law).thresholds, table(law).guide):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@settings(max_examples=40, deadline=None)
@given(
    z=st.builds(Fraction, st.integers(10, 3000), st.integers(10, 1000)),
    sides=st.sampled_from([1, 2]),
    m=st.integers(0, 40),
    bits=st.sampled_from([1, 63, 64, 127, 191]),
)
def test_floors_of_a_geometric_law_to_any_number_of_bits(z, sides, m, bits):
    assert HalfGeometric(sides=sides, z=z).floor_of(m, bits) == geometric_cumulative(z, sides, m).floor_at(bits)


@settings(max_examples=20, deadline=None)
@given(
    s=st.builds(Fraction, st.integers(50, 5000), st.integers(100, 1000)),
    sides=st.sampled_from([1, 2]),
    m=st.integers(0, 12),
    bits=st.sampled_from([1, 63, 64, 127, 191]),
)
def test_floors_of_a_gaussian_law_to_any_number_of_bits(s, sides, m, bits):
    assert HalfGaussian(sides=sides, s=s).floor_of(m, bits) == gaussian_cumulative(s, sides, m).floor_at(bits)


@pytest.mark.parametrize("law", [LAWS[0], LAWS[4]], ids=name)
@pytest.mark.parametrize("bits", [63, 127, 255])
def test_more_bits_of_a_threshold_begin_with_the_fewer(law, bits):
    for m in range(12):
        assert law.floor_of(m, bits + 64) >> 64 == law.floor_of(m, bits)


def test_a_floor_that_lies_close_below_a_whole_number_is_not_rounded_up():
    # P[M <= 60] at z = 2 is 1 - 2e-53..., which needs more than 127 + 64 bits to tell from 1
    law = HalfGeometric(sides=2, z=Fraction(2))
    for m in (60, 90, 120):
        assert law.floor_of(m, 63) == LAST
        assert law.floor_of(m, 127) == geometric_cumulative(law.z, 2, m).floor_at(127)


@settings(max_examples=60, deadline=None)
@given(
    gamma=st.builds(Fraction, st.integers(1, 10**6), st.integers(1, 10**7)),
    bits=st.sampled_from([1, 53, 64, 128, 192]),
)
def test_the_floor_of_an_exponential_to_any_number_of_bits(gamma, bits):
    assert exp_floor(gamma, bits) == exp_minus(gamma).floor_at(bits)


@pytest.mark.parametrize("gamma", [Fraction(1, 10**30), Fraction(1, 2**200), Fraction(45), Fraction(200)])
def test_the_floor_of_an_exponential_near_one_and_near_zero(gamma):
    for bits in (1, 64, 128):
        assert exp_floor(gamma, bits) == exp_minus(gamma).floor_at(bits)


@pytest.mark.parametrize("bits", [1, 64, 192])
def test_the_exponential_of_zero_is_exactly_one(bits):
    assert exp_floor(Fraction(0), bits) == 1 << bits


@pytest.mark.parametrize(
    "law",
    [
        HalfGeometric(sides=2, z=Fraction(100)),
        HalfGeometric(sides=2, z=Fraction(140)),
        HalfGeometric(sides=2, z=Fraction(1000)),
        HalfGaussian(sides=2, s=Fraction(1, 100)),
        HalfGaussian(sides=2, s=Fraction(1, 300)),
        HalfGaussian(sides=2, s=Fraction(1, 10**6)),
    ],
    ids=name,
)
def test_a_noise_that_is_nearly_always_zero_has_a_table_of_one_threshold(law):
    with within(1):
        assert table(law).thresholds.tolist() == [LAST]


@pytest.mark.parametrize("precision", [12, 20, 40])
@pytest.mark.parametrize(
    "law",
    [HalfGeometric(sides=2, z=Fraction(1, 9)), HalfGaussian(sides=2, s=Fraction(900)), LAWS[4]],
    ids=name,
)
def test_a_ball_holds_the_exact_probability_even_at_a_low_precision(law, precision):
    if isinstance(law, HalfGeometric):
        exact = cumulatives(geometric_weights(law.z), geometric_whole(law.z, law.sides), law.sides)
    else:
        exact = cumulatives(gaussian_weights(law.s), gaussian_whole(law.s, law.sides), law.sides)
    before, flint.ctx.prec = flint.ctx.prec, precision
    try:
        for m, right in enumerate(islice(exact, 10)):
            ball = law.cumulative(m)
            flint.ctx.prec = 200  # so that the ends of the ball are not rounded
            assert as_fraction(ball.lower()) <= right.low <= right.high <= as_fraction(ball.upper())
            flint.ctx.prec = precision
    finally:
        flint.ctx.prec = before


def as_fraction(end):
    mantissa, exponent = map(int, end.man_exp())
    return mantissa * Fraction(2) ** exponent


def test_the_precision_of_others_is_left_as_it_was():
    before, flint.ctx.prec = flint.ctx.prec, 77
    try:
        HalfGeometric(sides=2, z=Fraction(5, 7)).floor_of(3, 500)
        assert flint.ctx.prec == 77
    finally:
        flint.ctx.prec = before


def test_two_threads_that_need_different_precision_spoil_neither_the_floors_nor_the_setting():
    law, wrong = HalfGeometric(sides=2, z=Fraction(3, 7)), []
    right = {bits: [geometric_cumulative(law.z, 2, m).floor_at(bits) for m in range(20)] for bits in (63, 255)}

    def work(bits):
        for _ in range(60):
            if [law.floor_of(m, bits) for m in range(20)] != right[bits]:
                wrong.append(bits)

    precision, interval = flint.ctx.prec, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # take turns as often as possible
    threads = [threading.Thread(target=work, args=(bits,)) for bits in (63, 255)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert wrong == []
    assert flint.ctx.prec == precision  # each put back what it found, not what the other had set
