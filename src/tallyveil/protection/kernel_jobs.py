"""The jobs that compile kernels, each in a process of its own: ``python -m tallyveil.protection.kernel_jobs JOB``.

Whoever needs the kernels compiled calls ``engine.kernels``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

import numpy as np

from tallyveil.engine import kernels
from tallyveil.engine.nests import Limits, Nests


def _estimate() -> None:
    from tallyveil.blue.decomposition import Decomposition
    from tallyveil.engine.estimate.problem import Asked, estimate
    from tallyveil.engine.fitted_weights import fitted_weights
    from tallyveil.nouns.schema import Schema

    nests, limits = _small_nest()
    whole = np.zeros(2, np.int32)
    total = Asked(
        row_of_cell=whole, start=np.array([0, 1]), rows=whole[:1], noisy=np.array([1.0, 4.0]), weight=np.ones(2)
    )
    estimate(nests, [total], limits)
    sexes = Schema(attributes={"sex": ["female", "male"]})
    query = sexes.query("detailed")
    decomposition = Decomposition.of(sexes, measured=[query], asked=[query], zeros=set())
    fitted_weights(np.ones((1, 2, 1, 1)), [decomposition.marginal(query)])


def _round_and_measure() -> None:
    from tallyveil.engine.estimate.problem import places_of, rows_of
    from tallyveil.engine.quick_checks import broken_rows, greedily_filled
    from tallyveil.engine.rounding.rounding import round_nests
    from tallyveil.mechanisms.measure import measure
    from tallyveil.nouns.schema import Schema
    from tallyveil.populations import census_1940
    from tallyveil.privacy import RunKey, Strategy

    nests, limits = _small_nest()
    schema = Schema(attributes={"sex": ["female", "male"]})
    round_nests(np.array([0.5, 0.5, 1.5, 2.5]), nests, limits, schema, "margins", np.arange(2, dtype=np.uint64))
    broken_rows(nests, limits)
    greedily_filled(nests, limits, np.ones(1, np.bool_))
    people = census_1940(persons=500, seed=1).people
    measured = measure(people, Strategy.preset("e2e-2018", epsilon=1), RunKey.from_seed(1))
    start, rows = rows_of(nests, limits[0].row_of_cell, 1)
    measured.ask("us", "detailed", places_of(nests, start, rows, 1))


def _small_nest() -> tuple[Nests, list[Limits]]:
    """One parent with two children and two cells, and the exact total of each child."""
    ends = np.array([0, 2])
    nests = Nests(
        child_start=ends, child=np.arange(2), cell_start=ends, cell=np.arange(2), count=np.array([2, 3]),
        block_start=np.array([0, 4]),
    )  # fmt: skip
    totals = np.array([[1], [4]])
    limits = Limits(name="total", row_of_cell=np.zeros(2, np.int32), least=totals, most=totals, owner=np.arange(2))
    return nests, [limits]


_JOBS: dict[str, Callable[[], None]] = {"estimate": _estimate, "round-and-measure": _round_and_measure}


def _run_job(name: str) -> None:
    """Run one job, and print a line for each kernel that was compiled."""
    from numba.core import event

    class Compiled(event.Listener):
        def on_start(self, _: object) -> None:
            pass

        def on_end(self, _: object) -> None:
            os.write(1, b"compiled\n")

    kernels.compiles_here()
    event.register("numba:compile", Compiled())  # type: ignore[no-untyped-call]
    gc.disable()  # looking for garbage takes a sixth of the time, and the process ends soon
    _JOBS[name]()


if __name__ == "__main__":
    _run_job(sys.argv[1])
