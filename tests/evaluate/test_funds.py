"""Formulas over counts (what they compute, and that nothing else is run), and the funds they divide, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil import Histogram, Schema, Spine
from tallyveil.errors import InputError
from tallyveil.evaluate import funds, funds_by_group, homogeneity
from tallyveil.evaluate.formula import parse_formula

SPINE = Spine.from_columns({"county": ["1", "1", "2"], "tract": ["1a", "1b", "2a"]}, root="state")
SCHEMA = Schema(
    attributes={"age": ["child", "adult"], "race": ["white", "black", "two or more"], "origin": ["black", "here"]}
)
SHAPE = (3, 2, 3, 2)
RNG = np.random.default_rng(1)
TRUE = RNG.poisson(4, SHAPE)
TRUE[2] = 0
TRUE[2, 0, 0, 0] = 5


def histogram(table) -> Histogram:
    flat = np.asarray(table).reshape(3, -1)
    unit, cell = np.nonzero(flat)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=flat[unit, cell])


def value(text: str) -> list[float]:
    people = histogram(TRUE)
    found = parse_formula(text, SCHEMA).value(lambda query: people.answer(query, level="tract").dense(), 3)
    return found.tolist()


CHILD, ADULT, TOTAL = TRUE[:, 0].sum(axis=(1, 2)), TRUE[:, 1].sum(axis=(1, 2)), TRUE.sum(axis=(1, 2, 3))
BLACK, SEVERAL = TRUE[:, :, 1].sum(axis=(1, 2)), TRUE[:, :, 2].sum(axis=(1, 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("total", TOTAL),
        ("[total] - [age:adult]", CHILD),
        ("child + 2*adult - -1", CHILD + 2 * ADULT + 1),
        ("max(0, child - adult, 1.5)", np.maximum(np.maximum(0, CHILD - ADULT), 1.5)),
        ("min(10, total) / 4", np.minimum(10, TOTAL) / 4),
        ("[ race : two or more ] + [race:black]", SEVERAL + BLACK),
        ("[age * race:child*black]", TRUE[:, 0, 1].sum(axis=1)),
        ("2 + 3 * (total - 1) / 2", 2 + 3 * (TOTAL - 1) / 2),
        ("7", [7, 7, 7]),
        ("+child", CHILD),
    ],
)
def test_a_formula_is_what_numpy_computes(text, expected):
    assert value(text) == pytest.approx(np.asarray(expected, dtype=float).tolist())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("__import__('os').system('true')", "contains \"__import__('os').system('true')\". Use only numbers"),
        ("().__class__", "contains '().__class__'"),
        ("total ** 9", "contains 'total ** 9'"),
        ("total // 2", "contains 'total // 2'"),
        ("max(total, key=total)", "contains 'max(total, key=total)'"),
        ("max()", "contains 'max()'"),
        ("min(*total)", "contains '*total'"),
        ("abs(total)", "contains 'abs(total)'"),
        ("lambda: 1", "contains 'lambda: 1'"),
        ("total if total else 1", "contains 'total if total else 1'"),
        ("'a'", "contains \"'a'\""),
        ("True", "contains 'True'"),
        ("2j", "contains '2j'"),
        ("(x := 1)", "contains '(x := 1)'"),
        ("total +", "cannot be read. Use numbers"),
        ("", "cannot be read"),
        ("total; total", "cannot be read"),
        ("(" * 199 + "1" + ")" * 199, ""),
        ("-" * 390 + "1", ""),
        ("1" * 401, "has 401 characters. Give one of at most 400"),
        ("a" + ".a" * 190, "formula"),
        ("1()", "contains '1()'"),
        ("kids", "there is no count called 'kids'. Use total, or counts such as [age:child]"),
        ("black", "'black' is a label of race and origin. Write [race:black]"),
        ("[race:green]", "'green' is not a group of 'race'. Its groups are white, black, two or more"),
        ("[race]", "write [race] as [QUERY:GROUP]"),
        ("[rice:black]", "rice"),
        ("total\x00", "cannot be read"),
        ("count_in_brackets_0", "there is no count called 'count_in_brackets_0'"),
    ],
)
def test_anything_else_is_refused_with_one_line(text, line):
    if not line:
        assert value(text) in ([1, 1, 1], [-1, -1, -1])
        return
    with pytest.raises(InputError) as problem:
        parse_formula(text, SCHEMA)
    assert line in str(problem.value)
    assert "\n" not in str(problem.value)


@given(st.text(alphabet="total1()+-*/.,[]:minax _'\"=", max_size=30))
def test_any_text_is_a_formula_or_refused(text):
    try:
        found = parse_formula(text, SCHEMA)
    except InputError:
        return
    assert found.value(lambda query: np.ones((3, SCHEMA.query(query).size)), 3).shape == (3,)


def test_funds_are_divided_in_proportion_and_gains_sum_to_zero():
    released = TRUE.copy()
    released[0, 0, 0, 0] += 6
    table = funds(
        histogram(TRUE), [histogram(released), histogram(TRUE)], "child + adult / 2", level="tract", amount=900
    )
    needs = CHILD + ADULT / 2
    after = needs + np.array([6, 0, 0])
    gain = 900 * after / after.sum() - 900 * needs / needs.sum()
    assert table.true.tolist() == pytest.approx((900 * needs / needs.sum()).tolist())
    assert table.gain.tolist() == pytest.approx((gain / 2).tolist())  # one of two replicates is exact
    assert table.moe90.tolist() == pytest.approx((1.645 * np.abs(gain) / 2**0.5).tolist())
    assert table["size"].tolist() == TOTAL.tolist()
    assert table.gain.sum() == pytest.approx(0)
    one = funds(histogram(TRUE), histogram(released), "child + adult / 2", level="tract", amount=900)
    assert one.moe90.isna().all()


def test_who_gains_and_loses_is_counted_by_size_and_homogeneity():
    released = TRUE.copy()
    released[2, 0, 0, 0] += 3
    table = funds(histogram(TRUE), histogram(released), "total", level="tract", amount=100)
    groups = funds_by_group(table, histogram(TRUE), of="race")
    (whole,) = groups[groups.by == "all"].itertuples()
    small = groups[(groups.by == "size") & (groups.group == "1 - 9")].iloc[0]
    assert (whole.n, whole.gaining, whole.losing) == (3, 1, 2)
    assert whole.gain == pytest.approx(0)
    assert whole.moved == pytest.approx(table.gain[2])
    assert (small.n, small.gaining, small.losing) == (1, 1, 0)
    assert small.relative == pytest.approx(table.gain[2] / table.true[2])
    index = homogeneity(histogram(TRUE), level="tract", query="race")
    mixed = groups[groups.by == "homogeneity"]
    assert dict(zip(mixed.group, mixed.n, strict=True)) == {str(i): int((index == i).sum()) for i in np.unique(index)}
    assert mixed.gain.sum() == pytest.approx(0)


def test_what_one_release_moves_is_not_averaged_away_by_the_next():
    up, down = TRUE.copy(), TRUE.copy()
    up[0, 0, 0, 0] += 3
    down[1, 0, 0, 0] += 3
    people = histogram(TRUE)
    tables = [funds(people, releases, "total", level="tract") for releases in map(histogram, (up, down))]
    both = funds(people, [histogram(up), histogram(down)], "total", level="tract")
    *single, pooled = (funds_by_group(table, people).moved for table in (*tables, both))
    assert pooled.tolist() == pytest.approx(((single[0] + single[1]) / 2).tolist())


def test_a_unit_whose_formula_divides_by_zero_gets_nothing_and_is_counted():
    table = funds(histogram(TRUE), histogram(TRUE), "total / adult", level="tract")
    assert table.undefined.tolist() == [0, 0, 2]  # in the truth and in the release
    assert table.true[2] == 0


@pytest.mark.parametrize("text", ["min(9, total / adult)", "max(1, total / adult)", "1 / (total / adult)"])
def test_a_division_by_zero_is_not_hidden_by_what_is_around_it(text):
    table = funds(histogram(TRUE), histogram(TRUE), text, level="tract")
    assert table.undefined.tolist() == [0, 0, 2]
    assert table.true[2] == 0


@pytest.mark.parametrize(
    ("text", "amount", "line"),
    [
        ("1e308 * total", 1, "gives numbers that are too large"),
        ("adult - child", 1, r"gives -5 for tract 2a by its true counts, .* Use max\(0, \.\.\.\)"),
        ("0 * total", 1, "gives 0 for every tract by true counts"),
        ("total", 0, "the amount to divide must be a number above 0. Got 0 instead"),
        ("total", float("nan"), "the amount to divide must be a number above 0"),
    ],
)
def test_funds_that_cannot_be_divided_are_refused(text, amount, line):
    table = TRUE.copy()
    table[:2, 1] += 100
    with pytest.raises(InputError, match=line):
        funds(histogram(table), histogram(table), text, level="tract", amount=amount)
