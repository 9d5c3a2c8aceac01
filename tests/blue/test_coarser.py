"""Queries that are measured at different depths, and schemas that are too fine for what is asked."""

from itertools import pairwise

import numpy as np
import pytest

import tallyveil as tv
from tallyveil.blue import decomposition, pose
from tallyveil.errors import InputError
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import FacilityBounds, RunKey

BLOCKS = ["1a0", "1a1", "1b0", "2a0", "2a1", "2a2", "2b0"]


def people_on(schema: tv.Schema) -> tv.Histogram:
    columns = {"county": [b[0] for b in BLOCKS], "tract": [b[:2] for b in BLOCKS], "block": BLOCKS}
    spine = tv.Spine.from_columns(columns, root="us")
    counts = np.random.default_rng(3).poisson(9.0, (len(BLOCKS), schema.cells)) * schema.possible
    unit, cell = np.nonzero(counts)
    return tv.Histogram.from_entries(spine, schema, unit=unit, cell=cell, count=counts[unit, cell])


def noisy_answers(people: tv.Histogram, queries, **more) -> tv.Measurements:
    levels, schema = people.spine.levels, people.schema
    plan = tv.Strategy(
        mechanism="gaussian",
        budget="1/2",
        levels=dict.fromkeys(levels, f"1/{len(levels)}"),
        queries={level: dict.fromkeys(queries[level], f"1/{len(queries[level])}") for level in levels},
        attributes=tuple(schema.attributes),
        groupings={name: grouping.of for name, grouping in schema.groupings.items()},
        **more,
    )
    return measure(people, plan, RunKey.from_seed(8))


def least_squares(noisy: tv.Measurements, columns: np.ndarray, wanted, names=None):
    """Estimates and standard deviations by plain least squares: unknowns are leaves x columns (cells x columns).

    Rows of a measured query are first summed to rows that the columns can express. The total of the root is exact.
    """
    spine, schema = noisy.spine, noisy.schema
    leaves, size = spine.size(spine.leaf), columns.shape[1]
    A, y = [], []
    for level in spine.levels:
        bounds = spine.leaves_under(level)
        for name in noisy.strategy.queries[level]:
            if names is not None and name not in names:
                continue
            query = schema.query(name)
            cells = (query.row_of_cell == np.arange(query.size)[:, None]) @ columns.astype(int)  # rows x columns
            target = np.where(cells.sum(axis=1) > 0, cells.argmax(axis=1), -1)
            if (np.count_nonzero(cells, axis=1) > 1).any():  # coarser than the columns
                groups = [(np.array([row]), cells[row] > 0) for row in range(query.size)]
            else:
                groups = [(np.flatnonzero(target == c), np.arange(size) == c) for c in range(size)]
            values = {(p["unit"], p["cell"]): p for t in noisy.pieces(name, level) for p in t.to_pylist()}
            for unit, code in enumerate(spine.labels(level)):
                for rows, pattern in groups:
                    some = [values[code, query.labels()[row]] for row in rows]
                    weight = np.sqrt(sum(one["variance"] for one in some))
                    place = np.zeros((leaves, size))
                    place[bounds[unit] : bounds[unit + 1]] = pattern
                    A.append(place.reshape(-1) / weight)
                    y.append(sum(one["value"] for one in some) / weight)
    A, y = np.array(A), np.array(y)
    total = noisy.exact["total", "us"].dense()[0, 0]
    ones = np.ones(A.shape[1])
    basis = np.linalg.svd(ones[None])[2][1:].T  # directions that keep the total
    start = ones * total / len(ones)
    U, s, Vt = np.linalg.svd(A @ basis, full_matrices=False)
    seen = s > 1e-9 * s.max()
    x = start + basis @ (Vt[seen].T @ ((U[:, seen].T @ (y - A @ start)) / s[seen]))
    root = basis @ (Vt[seen].T / s[seen])
    return wanted @ x, np.sqrt(((wanted @ root) ** 2).sum(axis=1))


def wanted_rows(places, query_columns: np.ndarray) -> np.ndarray:
    """One row for each place (a set of leaves) and each row of columns."""
    return np.concatenate([np.kron(np.asarray(inside, float), query_columns) for inside in places])


def leaves_of(spine: tv.Spine, level: str):
    bounds = spine.leaves_under(level)
    return [(np.arange(bounds[-1]) >= a) & (np.arange(bounds[-1]) < b) for a, b in pairwise(bounds)]


def test_queries_that_are_measured_at_different_depths_are_best_estimates_of_their_level():
    schema = tv.Schema(attributes={"age": ["child", "adult"], "race": ["a", "b", "c"]})
    people = people_on(schema)
    queries = {
        "us": ["detailed"],
        "county": ["total", "detailed"],
        "tract": ["age", "race"],
        "block": ["total", "race"],
    }
    noisy = noisy_answers(people, queries)
    found = tv.estimate(noisy)
    assert "what was measured at block is used only for the queries that it determines" in found.information
    assert "not determined and left out: age of block" in found.information
    frame = found.to_pandas()
    spine, eye = noisy.spine, np.eye(schema.cells)
    for level, name in (("county", "total"), ("tract", "age"), ("tract", "race"), ("block", "race")):
        query = schema.query(name)
        rows = wanted_rows(leaves_of(spine, level), (query.row_of_cell == np.arange(query.size)[:, None]).astype(float))
        estimate, sd = least_squares(noisy, eye, rows)
        mine = frame[(frame.level == level) & (frame["query"] == name)]
        np.testing.assert_allclose(mine.estimate, estimate, rtol=1e-8)
        np.testing.assert_allclose(mine.sd, sd, rtol=1e-8)
    totals = frame[frame["query"] == "total"].groupby("level", observed=True).estimate.sum()
    assert totals.nunique() == 1 or np.ptp(totals) < 1e-6
    with pytest.raises(InputError, match="what was measured at level 'block' does not determine"):
        tv.estimate(noisy, levels=["block"], queries=["age"])
    areas = tv.Areas.from_codes(spine, leaf=["1a0", "2b0"], area=["x", "x"])
    joint = tv.estimate(noisy, levels=["tract"], queries=["race"], areas=areas, covariance=True)
    alone = tv.estimate(noisy, levels=["tract"], queries=["race"], areas=areas).to_pandas()
    np.testing.assert_allclose(np.sqrt(np.diag(joint.covariance)), alone.sd, rtol=1e-8)


def test_a_schema_that_is_too_large_is_made_coarser_and_queries_that_do_not_nest_are_named(monkeypatch):
    groups = {"young": ["1", "2"], "old": ["3", "4", "5"]}
    odd = {"odd": ["1", "3", "5"], "even": ["2", "4"]}
    schema = tv.Schema(
        attributes={"age": list("12345"), "sex": ["f", "m"]},
        groupings={
            "band": tv.Grouping(of="age", groups=groups),
            "parity": tv.Grouping(of="age", groups=odd),
        },
        zeros=[{"age": ["5"], "sex": ["m"]}],
    )
    people = people_on(schema)
    queries = {level: ["total", "band * sex", "parity", "detailed"] for level in people.spine.levels}
    noisy = noisy_answers(people, queries)
    full = tv.estimate(noisy, queries=["band * sex"])
    monkeypatch.setattr(decomposition, "LARGEST_DENSE", 8)
    found = tv.estimate(noisy, queries=["band * sex"])
    assert "on coarser labels of age, to which finer queries were summed" in found.information
    assert "parity left out, which does not nest with the requested queries" in found.information
    band = schema.query("band * sex").row_of_cell
    columns = ((band[:, None] == np.arange(4)) & schema.possible[:, None]).astype(float)
    estimate, sd = [], []
    for level in noisy.spine.levels:
        rows = wanted_rows(leaves_of(noisy.spine, level), np.eye(4))
        one, two = least_squares(noisy, columns, rows, names=("total", "band * sex", "detailed"))
        estimate.extend(one)
        sd.extend(two)
    frame = found.to_pandas()
    np.testing.assert_allclose(frame.estimate, estimate, rtol=1e-8)
    np.testing.assert_allclose(frame.sd, sd, rtol=1e-8, atol=1e-10)
    assert (frame.sd >= full.to_pandas().sd * (1 - 1e-9)).all()
    with pytest.raises(InputError, match="groupings and zeros tie age x sex together: 10 cells"):
        tv.estimate(noisy, queries=["detailed"])


@pytest.mark.parametrize("steps", [0, pose.MOST_STEPS])
def test_a_total_is_estimated_where_types_are_not_measured(steps, monkeypatch):
    """Facilities tell types apart, but blocks measure their total only.

    Trees that are too large for the square-root form take only the totals of other levels.
    """
    monkeypatch.setattr(pose, "MOST_STEPS", steps)
    schema = tv.Schema(attributes={"home": ["house", "dorm", "prison"]})
    people = people_on(schema)
    built = np.ones((len(BLOCKS), 3), int)
    facilities = tv.Facilities.from_entries(
        people.spine, attribute="home", types=schema.attributes["home"], unit=np.repeat(np.arange(7), 3),
        kind=np.tile(np.arange(3), 7), count=built.reshape(-1),
    )  # fmt: skip
    bounds = FacilityBounds(attribute="home", level="block", least={"*": 0}, most={"*": 999})
    queries = {"us": ["detailed"], "county": ["detailed"], "tract": ["total", "detailed"], "block": ["total"]}
    noisy = noisy_answers(people, queries, constraints=(bounds,))
    found = tv.estimate(noisy, queries=["total"], facilities=facilities)
    assert ("on coarser labels of home" in found.information) == (steps == 0)
    frame = found.to_pandas()
    columns, one = (np.ones((3, 1)), np.ones((1, 1))) if steps == 0 else (np.eye(3), np.ones((1, 3)))
    estimate, sd = least_squares(noisy, columns, np.kron(np.eye(len(BLOCKS)), one))
    blocks = frame[frame.level == "block"]
    np.testing.assert_allclose(blocks.estimate, estimate, rtol=1e-8)
    np.testing.assert_allclose(blocks.sd, sd, rtol=1e-8)
