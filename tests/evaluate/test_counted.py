"""Residuals counted by value, piece by piece, are those that are held one by one."""

import numpy as np
import pandas as pd
import pytest

from tallyveil import Histogram, Schema, Spine
from tallyveil.evaluate import counted as module
from tallyveil.evaluate import error
from tallyveil.evaluate.counted import counted_residuals
from tallyveil.evaluate.error import error_of
from tallyveil.evaluate.residuals import residuals
from tallyveil.evaluate.value_counts import value_counts
from tallyveil.nouns.estimates import Sample

SPINE = Spine.from_columns(
    {"county": [f"{i // 8}" for i in range(40)], "block": [f"{i // 8}{i % 8}" for i in range(40)]}, root="state"
)
SCHEMA = Schema(
    attributes={"age": ["child", "adult"], "home": ["house", "flat", "ship"]},
    zeros=[{"age": ["child"], "home": ["ship"]}],
)


def people(seed: int, share: float = 0.3) -> Histogram:
    rng = np.random.default_rng(seed)
    dense = rng.poisson(4, size=(40, 6)) * (rng.random((40, 6)) < share) * SCHEMA.possible
    unit, cell = np.nonzero(dense)
    return Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=dense[unit, cell])


@pytest.mark.parametrize("over", ["nonempty", "all"])
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_counted_residuals_are_those_held_one_by_one(monkeypatch, over, piece):
    monkeypatch.setattr(module, "PIECE", piece)
    truth, sources = people(1), [people(2), people(3, share=0.0), Sample(people=people(4), fraction=0.25)]
    pairs = {(level, query) for level in SPINE.levels for query in ("total", "home", "detailed")}
    counted = counted_residuals(truth, sources, pairs, over=over)
    assert counted.keys() == pairs
    for (level, query), found in counted.items():
        held = residuals(truth, sources, level=level, query=query, over=over)
        for number, (mine, zeros) in enumerate(zip(found, held.zeros_by_replicate, strict=True)):
            right = value_counts(held.value[held.replicate == number], zeros=int(zeros))
            assert np.array_equal(mine.value, right.value)
            assert np.array_equal(mine.count, right.count)


def test_error_is_the_error_of_residuals_in_the_order_asked():
    truth, sources = people(1), [people(2), people(5)]
    asked = [(level, query) for level in ("block", "state") for query in ("home", "total")]
    table = error(truth, sources, levels=["block", "state"], queries=["home", "total"], quantiles=[0.9])
    parts = [error_of(residuals(truth, sources, level=a, query=q), quantiles=[0.9]) for a, q in asked]
    pd.testing.assert_frame_equal(table, pd.concat(parts, ignore_index=True))
