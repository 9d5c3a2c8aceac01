"""Counts in pages answer like the same counts in memory, whatever the pages and however few are kept."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InputError
from tallyveil.nouns import counts as counts_module
from tallyveil.nouns import paged_counts
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.paged_counts import PagedCounts

CELLS = 5


def in_pages(table: Counts, cuts: list[int]) -> PagedCounts:
    first_unit = np.array([0, *sorted(set(cuts)), table.units])
    pages = [table.part(first, last) for first, last in pairwise(first_unit.tolist())]
    return PagedCounts(start=table.start.copy(), first_unit=first_unit, fetch=pages.__getitem__, cells=CELLS)


@st.composite
def tables(draw):
    units = draw(st.integers(1, 12))
    dense = draw(
        st.lists(
            st.lists(st.sampled_from([0, 0, 1, 7]), min_size=CELLS, max_size=CELLS), min_size=units, max_size=units
        )
    )
    return Counts.from_dense(np.array(dense)), draw(
        st.lists(st.integers(1, units - 1), max_size=4) if units > 1 else st.just([])
    )


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(paged_counts, "KEPT", 1)  # one page
    monkeypatch.setattr(paged_counts, "TOGETHER", 4)
    monkeypatch.setattr(paged_counts, "PIECE", 3)
    monkeypatch.setattr(counts_module, "PIECE", 3)


@given(tables(), st.data())
@settings(max_examples=300)
def test_every_answer_is_that_of_the_same_counts_in_memory(made, data):
    table, cuts = made
    paged, units = in_pages(table, cuts), table.units
    first = data.draw(st.integers(0, units))
    last = data.draw(st.integers(first, units))
    groups = np.array([0, *sorted(data.draw(st.lists(st.integers(0, units), max_size=4))), units])
    rows = np.array(data.draw(st.lists(st.integers(0, 2), min_size=CELLS, max_size=CELLS)), np.int32)
    some = np.array(data.draw(st.lists(st.integers(0, units - 1), max_size=5)), np.int64)
    places = np.array(data.draw(st.lists(st.integers(0, 3 * units - 1), max_size=6)), np.int64)
    closed = np.array(data.draw(st.lists(st.booleans(), min_size=CELLS, max_size=CELLS)))
    coarser = groups[[0, *sorted(data.draw(st.lists(st.integers(0, len(groups) - 1), max_size=2))), -1]]
    assert (paged.units, paged.entries, paged.total()) == (units, table.entries, table.total())
    assert paged.part(first, last) == table.part(first, last)
    assert np.array_equal(paged.dense(first, last), table.dense(first, last))
    assert paged.merged(groups, rows, 3) == table.merged(groups, rows, 3)
    assert paged.summed(groups) == table.summed(groups)
    assert paged.merged(coarser, rows, 3) == table.merged(coarser, rows, 3)  # now from the sums that are kept
    assert paged.taken(some) == table.taken(some)
    assert np.array_equal(paged.looked_up(places, rows, 3), table.looked_up(places, rows, 3))
    assert paged.first_in(closed) == table.first_in(closed)
    assert list(paged.canonical_bytes()) == list(table.canonical_bytes())
    assert paged == table


def test_counts_that_differ_in_the_last_page_are_not_equal():
    table = Counts.from_dense(np.ones((4, CELLS)))
    other = Counts.from_dense(np.ones((4, CELLS)) + np.eye(4, CELLS, 1)[::-1])
    assert in_pages(table, [2]) != in_pages(other, [2])


def test_what_needs_all_cells_at_once_is_refused_with_the_remedy():
    with pytest.raises(InputError, match=r"read from disk in parts.*Allow more \(--memory\)"):
        (
            in_pages(Counts.from_dense(np.ones((2, CELLS))), [1]).unit(),
            in_pages(Counts.from_dense(np.ones((2, CELLS))), [1]).cell,
        )


def test_no_more_pages_are_held_than_allowed(monkeypatch):
    table = Counts.from_dense(np.ones((50, CELLS)))
    fetched = []
    first_unit = np.arange(51)
    paged = PagedCounts(
        start=table.start.copy(), first_unit=first_unit, cells=CELLS,
        fetch=lambda page: fetched.append(page) or table.part(page, page + 1),
    )  # fmt: skip
    assert paged.total() == 250
    assert len(paged._pages) == 1
    monkeypatch.setattr(paged_counts, "KEPT", 1 << 20)
    assert paged.dense().sum() == 250
    assert len(paged._pages) == 50
    before = len(fetched)
    paged.dense()
    assert len(fetched) == before
