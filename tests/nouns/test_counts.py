"""The sparse table of counts, against dictionaries."""

from collections import Counter

import numpy as np
import pytest
from brute_force import patient, refused
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.nouns.counts import Counts


@st.composite
def entries(draw):
    """How many units and cells, and entries (unit, cell, count) with repeats and zeros."""
    units, cells = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    entry = st.tuples(
        st.integers(0, units - 1), st.integers(0, cells - 1), st.sampled_from([0, 1, 2, 1000, 2**31 - 1, 2**40])
    )
    return units, cells, draw(st.lists(entry, max_size=25))


def build(units, cells, listed):
    unit, cell, count = zip(*listed, strict=True) if listed else ((), (), ())
    return Counts.from_entries(unit, cell, count, units=units, cells=cells)


def add_up(units, cells, listed):
    sums = Counter()
    for unit, cell, count in listed:
        sums[unit, cell] += count
    return [[sums[u, c] for c in range(cells)] for u in range(units)]


def joined(table):
    return b"".join(table.canonical_bytes())


def assert_well_formed(table):
    """Entries of a unit rise by cell, none is zero, and the offsets span them."""
    assert table.start[0] == 0
    assert table.start[-1] == len(table.cell) == len(table.count) == table.entries
    assert (table.count > 0).all()
    for u in range(table.units):
        assert (np.diff(table.cell[table.start[u] : table.start[u + 1]].astype(np.int64)) > 0).all()


# ---- against brute force


@patient
@given(entries())
def test_entries_add_up_by_unit_and_cell(given_entries):
    units, cells, listed = given_entries
    table = build(*given_entries)
    expected = add_up(*given_entries)
    assert table.dense().tolist() == expected
    assert (table.units, table.cells) == (units, cells)
    assert table.total() == sum(count for _, _, count in listed)
    assert table.entries == sum(count > 0 for row in expected for count in row)
    assert_well_formed(table)


@patient
@given(entries(), st.randoms(use_true_random=False))
def test_shuffled_split_and_zero_entries_make_the_same_table(given_entries, dice):
    units, cells, listed = given_entries
    split = [(u, c, part) for u, c, n in listed for part in (n // 3, n - n // 3)] + [(units - 1, 0, 0)]
    dice.shuffle(split)
    one, two = build(*given_entries), build(units, cells, split)
    for mine, theirs in ((one.start, two.start), (one.cell, two.cell), (one.count, two.count)):
        assert mine.tolist() == theirs.tolist()
    assert joined(one) == joined(two)


@patient
@given(entries())
def test_a_dense_table_comes_back_as_it_was(given_entries):
    dense = np.array(add_up(*given_entries), dtype=np.int64)
    table = Counts.from_dense(dense)
    assert table.dense().tolist() == dense.tolist()
    assert joined(table) == joined(build(*given_entries))


@patient
@given(entries())
def test_the_unit_of_each_entry_is_the_one_it_was_given_for(given_entries):
    table = build(*given_entries)
    expected = add_up(*given_entries)
    listed = list(zip(table.unit().tolist(), table.cell.tolist(), table.count.tolist(), strict=True))
    assert listed == [(u, c, expected[u][c]) for u in range(table.units) for c in range(table.cells) if expected[u][c]]


@patient
@given(entries(), st.data())
def test_any_span_of_units_can_be_read(given_entries, data):
    table = build(*given_entries)
    first = data.draw(st.integers(0, table.units))
    last = data.draw(st.integers(first, table.units))
    assert table.dense(first, last).tolist() == add_up(*given_entries)[first:last]
    assert table.dense(first).tolist() == add_up(*given_entries)[first:]


@patient
@given(entries(), st.data())
def test_runs_of_units_and_groups_of_cells_add_up_together(given_entries, data):
    units, cells, _ = given_entries
    cuts = data.draw(st.lists(st.integers(0, units), max_size=4))
    groups = sorted([0, *cuts, units])  # repeated cuts make groups without units
    rows = data.draw(st.integers(1, 4))
    row_of_cell = data.draw(st.lists(st.integers(0, rows - 1), min_size=cells, max_size=cells))
    table = build(*given_entries)
    dense = add_up(*given_entries)
    merged = table.merged(np.array(groups, dtype=np.int64), np.array(row_of_cell, dtype=np.int32), rows)
    expected = [
        [
            sum(dense[u][c] for u in range(groups[g], groups[g + 1]) for c in range(cells) if row_of_cell[c] == r)
            for r in range(rows)
        ]
        for g in range(len(groups) - 1)
    ]
    assert merged.dense().tolist() == expected
    assert_well_formed(merged)
    summed = table.summed(np.array(groups, dtype=np.int64))
    assert summed.dense().tolist() == [
        [sum(dense[u][c] for u in range(groups[g], groups[g + 1])) for c in range(cells)]
        for g in range(len(groups) - 1)
    ]
    assert_well_formed(summed)


@pytest.mark.parametrize("distinct", [1, 47, 48, 49, 50, 400])
def test_rows_rise_whether_a_group_has_few_or_many_of_them(distinct):
    dice = np.random.default_rng(distinct)
    cell = dice.permutation(400)[:distinct]
    row_of_cell = dice.permutation(400).astype(np.int32)
    table = Counts.from_entries(np.arange(distinct) % 3, cell, np.ones(distinct, int), units=4, cells=400)
    merged = table.merged(np.array([0, 3, 4]), row_of_cell, 400)
    assert merged.cell.tolist() == sorted(row_of_cell[cell].tolist())
    assert merged.start.tolist() == [0, distinct, distinct]
    assert merged.count.tolist() == [1] * distinct


# ---- sizes


def test_empty_units_are_kept_at_both_ends():
    table = Counts.from_entries([2], [1], [7], units=5, cells=2)
    assert table.dense().tolist() == [[0, 0], [0, 0], [0, 7], [0, 0], [0, 0]]
    assert table.start.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_table_of_nobody_keeps_its_size_and_sums_to_nobody():
    table = Counts.from_entries([], [], [], units=3, cells=2)
    assert (table.units, table.cells, table.entries, table.total()) == (3, 2, 0, 0)
    assert table.summed(np.array([0, 1, 3])).dense().tolist() == [[0, 0], [0, 0]]
    assert repr(table) == "Counts(3 units x 2 cells)"


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_totals_around_two_to_the_31_do_not_wrap(over):
    half = 2**30
    table = Counts.from_entries([0, 0, 1], [0, 0, 0], [half, half - 1, over + 1], units=2, cells=1)
    assert table.dense().tolist() == [[2**31 - 1], [over + 1]]
    assert table.summed(np.array([0, 2])).dense().tolist() == [[2**31 + over]]


def test_the_world_in_one_cell_is_counted():
    world = Counts.from_entries(np.zeros(8000, int), np.zeros(8000, int), np.full(8000, 10**6), units=1, cells=1)
    assert world.total() == 8 * 10**9
    assert world.count.tolist() == [8 * 10**9]


@pytest.mark.parametrize("cells", [65_535, 65_536, 65_537, 200_000])
def test_cells_around_65536_do_not_wrap(cells):
    last = cells - 1
    table = Counts.from_entries([0, 1, 1], [last, last, 0], [1, 2, 4], units=2, cells=cells)
    assert table.cell.tolist() == [last, 0, last]
    summed = table.summed(np.array([0, 2]))
    assert (summed.cell.tolist(), summed.count.tolist()) == ([0, last], [4, 3])
    assert table.dense()[1, last] == 2


def test_few_cells_can_be_spread_over_more_than_65536_rows():
    table = Counts.from_entries([0, 0], [0, 1], [5, 6], units=1, cells=2)
    spread = table.merged(np.array([0, 1]), np.array([70_000, 4_464], dtype=np.int32), 70_001)
    assert (spread.cell.tolist(), spread.count.tolist()) == ([4_464, 70_000], [6, 5])


def test_a_hundred_thousand_random_entries_agree_with_numpy():
    dice = np.random.default_rng(5)
    unit, cell, count = (dice.integers(0, high, 100_000) for high in (3_000, 60, 9))
    expected = np.zeros((3_000, 60), dtype=np.int64)
    np.add.at(expected, (unit, cell), count)
    table = Counts.from_entries(unit, cell, count, units=3_000, cells=60)
    assert np.array_equal(table.dense(), expected)
    groups = np.arange(0, 3_001, 100)
    assert np.array_equal(table.summed(groups).dense(), np.add.reduceat(expected, groups[:-1], axis=0))


def test_memory_grows_with_what_is_there_not_with_what_could_be():
    table = Counts.from_entries([0, 999], [0, 1_999], [1, 1], units=1_000, cells=2_000)
    assert table.nbytes < 10_000


# ---- how it is held


@pytest.mark.parametrize("kind", ["<i8", "<f8", "u1", ">i4", "?"])
def test_the_type_in_which_entries_come_does_not_matter(kind):
    plain = Counts.from_entries([0, 1, 1], [1, 1, 0], [1, 1, 1], units=2, cells=2)
    held = Counts.from_entries(
        np.array([0, 1, 1], kind), np.array([1, 1, 0], kind), np.array([1, 1, 1], kind), units=2, cells=2
    )
    assert held.dense().tolist() == [[0, 1], [1, 1]]
    assert joined(held) == joined(plain)


def test_entries_in_every_second_place_or_read_only_are_read_right():
    unit, cell, count = np.array([0, 9, 1, 9]), np.array([1, 9, 0, 9]), np.array([4, 9, 5, 9])
    for array in (unit, cell, count):
        array.flags.writeable = False
    table = Counts.from_entries(unit[::2], cell[::2], count[::2], units=2, cells=2)
    assert table.dense().tolist() == [[0, 4], [5, 0]]


def test_arrays_of_a_table_cannot_be_written_to_and_the_callers_stay_writable():
    unit, cell, count = np.array([0]), np.array([0]), np.array([3])
    table = Counts.from_entries(unit, cell, count, units=1, cells=1)
    for built in (table, table.summed(np.array([0, 1]))):
        for array in (built.start, built.cell, built.count):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    count[0] = 9
    assert table.count.tolist() == [3]


def test_canonical_bytes_do_not_depend_on_the_types_held():
    def table(cell_type, count_type):
        start, cell, count = np.array([0, 1, 2]), np.array([1, 0], cell_type), np.array([3, 4], count_type)
        return Counts(start=start, cell=cell, count=count, cells=2)

    assert joined(table(np.uint16, np.int32)) == joined(table(np.uint32, np.int64)) == joined(table("i1", ">i8"))


@patient
@given(entries(), st.data())
def test_canonical_bytes_differ_by_one_person(given_entries, data):
    units, cells, listed = given_entries
    extra = (data.draw(st.integers(0, units - 1)), data.draw(st.integers(0, cells - 1)), 1)
    assert joined(build(*given_entries)) != joined(build(units, cells, [*listed, extra]))


@pytest.mark.parametrize("more", [1 << 8, 1 << 16, 1 << 32, 1 << 40])
def test_canonical_bytes_hold_counts_in_full_width(more):
    one, two = (Counts.from_entries([0], [0], [count], units=1, cells=1) for count in (5, 5 + more))
    assert joined(one) != joined(two)


@pytest.mark.parametrize(
    "other",
    [
        Counts.from_entries([1], [0], [2], units=2, cells=3),
        Counts.from_entries([0], [1], [2], units=2, cells=3),
        Counts.from_entries([0], [0], [2], units=3, cells=3),
        Counts.from_entries([0], [0], [2], units=2, cells=4),
    ],
    ids=["unit", "cell", "one more unit", "one more cell"],
)
def test_canonical_bytes_differ_when_a_person_moves_or_the_table_grows(other):
    assert joined(Counts.from_entries([0], [0], [2], units=2, cells=3)) != joined(other)


def test_canonical_bytes_come_in_pieces_and_hold_every_count():
    size = (1 << 20) + 5

    def table(last):
        count = np.ones(size, dtype=np.int64)
        count[-1] = last
        return Counts.from_entries(np.arange(size), np.zeros(size, int), count, units=size, cells=1)

    one, two = list(table(1).canonical_bytes()), list(table(2).canonical_bytes())
    assert max(len(piece) for piece in one) <= 8 << 20
    assert one != two


# ---- bad input


def test_a_negative_count_is_refused_with_its_row():
    with refused("row 2", "-3", "negative", "0 or more"):
        Counts.from_entries([0, 0], [0, 1], [1, -3], units=1, cells=2)


@pytest.mark.parametrize("count", [1.5, float("nan")])
def test_a_count_that_is_not_whole_is_refused_with_its_row(count):
    with refused("row 3", f"count {count}", "not whole", "whole numbers"):
        Counts.from_entries([0, 0, 0], [0, 1, 1], [1.0, 2.0, count], units=1, cells=2)


@pytest.mark.parametrize("count", [2.0**53 + 2, float("inf"), -float("inf")])
def test_a_float_too_large_to_be_exact_is_refused(count):
    with refused("row 1", "too large"):
        Counts.from_entries([0], [0], [count], units=1, cells=1)


@pytest.mark.parametrize(
    "counts", [np.array([2**64 - 1], dtype=np.uint64), [2**62, 2**62]], ids=["one count", "their sum"]
)
def test_counts_beyond_64_bits_are_refused_instead_of_wrapping(counts):
    places = [0] * len(counts)
    with refused("large"):
        Counts.from_entries(places, places, counts, units=1, cells=1)


@pytest.mark.parametrize("counts", [["1"], np.array([None]), np.array(["2020-01-01"], dtype="M8[D]")])
def test_counts_that_are_not_numbers_are_refused(counts):
    with refused("not numbers", "whole numbers"):
        Counts.from_entries([0], [0], counts, units=1, cells=1)


@pytest.mark.parametrize("unit", [-1, 3, 2**40])
def test_a_unit_out_of_range_is_refused_with_the_range(unit):
    with refused("row 2", f"unit {unit}", "0 and 2"):
        Counts.from_entries([0, unit], [0, 0], [1, 1], units=3, cells=2)


@pytest.mark.parametrize("cell", [-1, 2, 2**40])
def test_a_cell_out_of_range_is_refused_with_the_range(cell):
    with refused("row 1", f"cell {cell}", "0 and 1"):
        Counts.from_entries([0, 0], [cell, 0], [1, 1], units=3, cells=2)


@pytest.mark.parametrize(("unit", "cell", "named"), [(0.5, 0, "unit 0.5"), (0, float("nan"), "cell nan")])
def test_a_place_that_is_not_whole_is_called_by_its_name_and_not_a_count(unit, cell, named):
    with refused("row 1", named, "not whole"):
        Counts.from_entries([unit], [cell], [1], units=1, cells=1)


@pytest.mark.parametrize("sizes", [(3, 2, 2), (2, 3, 2), (2, 2, 3)])
def test_entries_of_different_length_are_refused_with_the_lengths(sizes):
    unit, cell, count = (np.zeros(size, dtype=np.int64) for size in sizes)
    with refused(f"{sizes[0]} units, {sizes[1]} cells and {sizes[2]} counts", "Give one of each per row"):
        Counts.from_entries(unit, cell, count, units=1, cells=1)


def test_a_dense_table_with_a_fraction_is_refused_with_the_row_of_the_table():
    with refused("row 2", "2.5", "not whole"):
        Counts.from_dense([[1, 2, 3], [4, 2.5, 6]])


def test_a_dense_table_with_a_negative_count_is_refused_with_the_row_of_the_table():
    with refused("row 3", "-1", "negative"):
        Counts.from_dense([[0, 0], [0, 0], [0, -1]])


@pytest.mark.parametrize("table", [[1, 2], [[[1]]], 3], ids=["list", "cube", "number"])
def test_a_dense_table_that_is_not_units_by_cells_is_refused(table):
    with refused("dimension"):
        Counts.from_dense(table)


def test_entries_in_a_table_instead_of_columns_are_refused():
    with refused("dimension"):
        Counts.from_entries([[0]], [[0]], [[1]], units=1, cells=1)
