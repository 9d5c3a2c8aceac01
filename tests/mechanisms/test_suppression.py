"""Suppression: cell by cell against a plain loop, and what may be found out from a unit's total."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_people import SCHEMA, countries, country

from tallyveil import Schema
from tallyveil.errors import InputError
from tallyveil.mechanisms.suppression import suppress


def hidden_by_loop(row, below, complementary):
    """The hidden cells of one unit."""
    hidden = {i for i, count in enumerate(row) if 0 < count < below}
    if complementary and len(hidden) == 1 and len(row) > 1:
        others = [i for i in range(len(row)) if i not in hidden]
        hidden.add(min(others, key=lambda i: (row[i] == 0, row[i], i)))
    return hidden


@settings(max_examples=40)
@given(
    countries(most=9),
    st.integers(1, 8),
    st.sampled_from(["total", "age", "either", "detailed"]),
    st.sampled_from(["us", "county", "block"]),
    st.booleans(),
)
def test_hidden_cells_are_those_of_a_plain_loop(people, below, query, level, complementary):
    truth = people.answer(query, level=level).dense()
    expected = [hidden_by_loop(row, below, complementary) for row in truth.tolist()]
    found = suppress(people, query=query, level=level, below=below, complementary=complementary)
    assert [set(np.flatnonzero(row)) for row in found.hidden] == expected
    primary = sum(0 < count < below for count in truth.reshape(-1).tolist())
    assert (found.primary, found.complementary) == (primary, sum(map(len, expected)) - primary)
    zero = found.estimates.answer(query, level=level)
    half = suppress(people, query=query, level=level, below=below, fill="half", complementary=complementary)
    middle = half.estimates.answer(query, level=level)
    assert (zero.dtype, middle.dtype) == (np.int64, np.float64)
    assert (zero[0] == np.where(found.hidden, 0, truth)).all()
    assert (middle[0] == np.where(found.hidden, below / 2, truth)).all()


@settings(max_examples=25)
@given(countries(most=9), st.integers(2, 8))
def test_no_small_cell_is_the_only_one_hidden_in_its_unit(people, below):
    found = suppress(people, query="age * race", level="block", below=below)
    assert 1 not in found.hidden.sum(axis=1)


def test_the_smallest_other_cell_is_hidden_too_and_an_empty_one_only_where_there_is_no_other():
    people = country([[1, 9, 7, 7, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0]], families=[[2, 1]])
    found = suppress(people, query="detailed", level="block", below=4)
    assert [np.flatnonzero(row).tolist() for row in found.hidden] == [[0, 2], [0, 2], []]
    assert (found.primary, found.complementary) == (2, 2)


def test_a_cell_that_cannot_exist_hides_nobody():
    schema = Schema(attributes=dict(SCHEMA.attributes), zeros=[{"age": ["child"]}])
    people = country([[0, 0, 0, 0, 2, 0]], families=[[1]], schema=schema)
    assert np.flatnonzero(suppress(people, query="detailed", level="block", below=3).hidden[0]).tolist() == [3, 4]
    alone = suppress(people, query="age", level="block", below=3)  # all know that there are no children
    assert (alone.primary, alone.complementary) == (1, 0)


def test_what_is_hidden_cannot_be_changed():
    found = suppress(country(np.ones((6, 6), dtype=int)), query="age", level="block", below=2)
    with pytest.raises(ValueError, match="read-only"):
        found.hidden[0, 0] = True


def test_wrong_options_are_refused():
    people = country(np.ones((6, 6), dtype=int))
    for below in (0, -3, 2.5, True):
        with pytest.raises(InputError, match=rf"below, .* must be a whole number from 1\. Got {below}"):
            suppress(people, query="age", level="block", below=below)
    with pytest.raises(InputError, match=r'fill must be "zero" or "half"\. Got \'mean\''):
        suppress(people, query="age", level="block", below=3, fill="mean")
