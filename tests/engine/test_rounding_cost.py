"""What rounding costs on real counts when most of the budget is on totals.

The noise of a total must not be smaller than rounding itself (1/12), or any whole number costs more than 15%.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tallyveil as tv
from tallyveil.engine import level as engine

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "ri_2010_block.parquet"


def squared_errors(people, strategy, monkeypatch):
    """Summed squared error of the children's totals before and after rounding, by level."""
    truth = {level: people.answer("total", level=level).dense()[:, 0] for level in people.spine.levels}
    found, at = {}, []
    estimated, rounded = engine._estimated, engine.round_nests

    def estimate(nests, level, measurements, limits):
        at[:] = [level]
        return estimated(nests, level, measurements, limits)

    def round_(x, nests, *rest):
        result = rounded(x, nests, *rest)
        sizes = np.repeat(np.diff(nests.cell_start), np.diff(nests.child_start))
        of_child = np.repeat(np.arange(len(nests.child)), sizes)
        true = truth[at[0]][nests.child]
        sums = found.setdefault(at[0], np.zeros(2))
        for i, values in enumerate((x, result.counts)):
            sums[i] += np.sum((np.bincount(of_child, values, len(nests.child)) - true) ** 2)
        return result

    monkeypatch.setattr(engine, "_estimated", estimate)
    monkeypatch.setattr(engine, "round_nests", round_)
    tv.protect(people, strategy, seed=1, threads=1)
    monkeypatch.undo()
    return found


@pytest.mark.skipif(not DATA.exists(), reason="the real counts (../shared/data) are not there")
def test_rounding_margins_adds_at_most_15_percent_to_the_squared_error_of_totals_and_cells_alone_add_more(monkeypatch):
    people = tv.files.read_counts(DATA, ROOT / "examples" / "ri_2010_block.toml")
    plan = tv.Strategy.default(people.spine, people.schema, rho=5)
    by_level = {
        level: {query: 20 if query == "total" else 1 for query in queries} for level, queries in plan.queries.items()
    }
    plan = tv.Strategy.proportional(
        mechanism="gaussian", budget=5, levels=plan.levels, queries=by_level, attributes=plan.attributes
    )
    margins = squared_errors(people, plan, monkeypatch)
    cells = squared_errors(people, replace(plan, rounding="cells"), monkeypatch)
    below = ("tract", "block_group", "block")
    assert all(margins[level][1] <= 1.15 * margins[level][0] for level in below)
    assert all(cells[level][1] > 1.25 * cells[level][0] for level in below)  # or the test would show nothing
