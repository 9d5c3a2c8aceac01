"""Standard deviations of every unit and query of a state shaped like 2020, beside dense inverses.

A state of 300,000 blocks with all queries of the 2020 redistricting file. The decomposition needs four matrices
of 16 x 16 for each unit; the general method inverts one of 2,016 x 2,016, which is timed on a few and scaled. CPU
seconds, because other programs may be running.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import numpy as np

import tallyveil as tv
from tallyveil.blue.accuracy import unmeasured
from tallyveil.blue.downward import whole_tree
from tallyveil.blue.problem import problem_of
from tallyveil.privacy import FacilityBounds, Invariant, Strategy


def country(blocks: int, states: int, rng: np.random.Generator) -> tuple[tv.Spine, tv.Facilities]:
    """Units with the fan-out of 2020 (34 blocks a block group, 3, 27), and facilities like those of 2020."""
    groups = np.sort(rng.integers(0, max(1, blocks // 34), blocks))
    tract, county = groups // 3, groups // 81
    code = {"state": digits(county * states // (county[-1] + 1), 2)}
    code["county"] = np.char.add(code["state"], digits(county, 4))
    code["tract"] = np.char.add(code["county"], digits(tract % 27, 2))
    code["block_group"] = np.char.add(code["tract"], digits(groups % 3, 1))
    code["block"] = np.char.add(code["block_group"], digits(np.arange(blocks), 7))
    spine = tv.Spine.from_columns(code, root="us")
    types = tv.schemas.PERSONS_2020.attributes["hhgq"]
    built = rng.random((blocks, len(types))) < np.array([0.75, 0.003, 0.002, 0.01, 0.003, 0.004, 0.001, 0.02])
    unit, kind = np.nonzero(built)
    facilities = tv.Facilities.from_entries(
        spine, attribute="hhgq", types=types, unit=unit, kind=kind, count=np.ones(len(unit), int)
    )
    return spine, facilities


def digits(numbers: np.ndarray, width: int) -> np.ndarray:
    """Numbers as text of a fixed width."""
    return np.char.zfill(numbers.astype(f"S{width}"), width)


def dense_seconds(schema: tv.Schema, plan: Strategy, times: int) -> float:
    """CPU seconds of one dense inverse of the information of a unit."""
    information = np.zeros((schema.cells, schema.cells))
    for name in plan.queries["tract"]:
        row = schema.query(name).row_of_cell
        information += (row[:, None] == row) / plan.noise("tract", name).actual_variance()
    before = time.process_time()
    for _ in range(times):
        np.linalg.inv(information)
    return (time.process_time() - before) / times


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=300_000)
    parser.add_argument("--states", type=int, default=1, help="51 with 8,100,000 blocks is the nation")
    parser.add_argument("--dense", type=int, default=2, help="number of dense inverses to time")
    args = parser.parse_args()
    schema = tv.schemas.PERSONS_2020
    bounds = FacilityBounds(attribute="hhgq", level="block", least={"*": 0}, most={"*": 99_999})
    plan = replace(
        Strategy.preset("pl94-2020-us-persons"), constraints=(Invariant(query="total", level="state"), bounds)
    )
    spine, facilities = country(args.blocks, args.states, np.random.default_rng(1))
    units = sum(spine.size(level) for level in spine.levels)
    print(f"{spine}, {len(plan.queries['block'])} queries", flush=True)
    before = time.process_time()
    queries = [schema.query(name) for name in plan.queries["block"]]
    problem = problem_of(unmeasured(spine, schema, plan), queries, facilities=facilities, noise=False)
    marginals = [problem.decomposition.marginal(query) for query in queries]
    figures = 0
    for found in whole_tree(problem):
        for marginal in marginals:
            figures += np.sqrt(marginal.variances(found.V)).shape[1] * len(found.units)
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    one = dense_seconds(schema, plan, args.dense)
    print(f"tallyveil  {seconds:8.1f} CPU s, peak {peak:.1f} GiB: sd of {figures:,} figures of {units:,} units")
    print(f"dense      {one * units:8.0f} CPU s: {one:.2f} s for one {schema.cells:,}-square inverse, for each unit")
    print(f"tallyveil is {one * units / seconds:,.0f} times faster.")


if __name__ == "__main__":
    main()
