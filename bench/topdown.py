"""Benchmark of TopDown: our solver compared with PIQP and Clarabel, whole runs, and how time grows with size.

Solver times are compared on one thread, on parents sampled by size from a run on a synthetic 1940 census. All solvers
get the same support, and the general solvers only the variables that are not fixed at zero. Building their models is
not timed. Our solver proves a relative gap of 1e-6 and a distance of 0.05 persons; the others run with their default
settings.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import replace
from time import perf_counter, thread_time

import clarabel
import numpy as np
import piqp
import scipy.sparse as sp

import tallyveil as tv
from tallyveil.engine import level as engine
from tallyveil.engine.estimate.problem import DISTANCE, GAP, STEPS, Asked, _ordered, _solve_fast, estimate
from tallyveil.engine.nests import UNLIMITED, Limits, Nests
from tallyveil.engine.rounding.rounding import round_nests
from tallyveil.engine.ties import lots_of
from tallyveil.nouns.census_schemas import PERSONS_2020

SAMPLE = 24  # parents of each size class
CLASSES = 8


def recorded(population, strategy):
    """Return every batch of the lowest level that a run solves: nests, noisy answers and limits."""
    kept, solve, chunk = [], engine._estimated, engine.CHUNK

    def record(nests, level, answers, limits):
        if level == answers.measurements.spine.leaf:
            kept.append((nests, [one for asked in answers.passes(nests, level) for one in asked], limits))
        return solve(nests, level, answers, limits)

    engine._estimated, engine.CHUNK = record, 1 << 62  # all parents of a level in one batch
    try:
        tv.protect(population, strategy, seed=1)
    finally:
        engine._estimated, engine.CHUNK = solve, chunk
    return kept


def picked(starts, which):
    sizes = np.diff(starts)[which]
    ends = np.append(0, np.cumsum(sizes))
    return ends, np.arange(ends[-1]) + np.repeat(starts[:-1][which] - ends[:-1], sizes)


def some(nests, asked, limits, which):
    """Return the same problem for a few of the nests."""
    child_start, child = picked(nests.child_start, which)
    cell_start, cell = picked(nests.cell_start, which)
    blocks = np.append(0, np.cumsum(np.diff(child_start) * np.diff(cell_start)))
    few = Nests(
        child_start=child_start,
        child=nests.child[child],
        cell_start=cell_start,
        cell=nests.cell[cell],
        count=nests.count[cell],
        block_start=blocks,
    )
    fewer = []
    for one in asked:
        start, rows = picked(one.start, which)
        _, noisy = picked(np.append(0, np.cumsum(np.diff(nests.child_start) * np.diff(one.start))), which)
        fewer.append(replace(one, start=start, rows=one.rows[rows], noisy=one.noisy[noisy], weight=one.weight[child]))
    bounds = [
        replace(one, owner=np.arange(len(child)), least=one.least[one.owner[child]], most=one.most[one.owner[child]])
        for one in limits
    ]
    return few, fewer, bounds


def program(nests, asked, limits, p):
    """Formulate one nest for a general solver: rows of queries are extra variables, entries fixed at 0 are omitted."""
    n, m = nests.shape(p)
    span = slice(nests.child_start[p], nests.child_start[p + 1])
    cell = nests.cell[nests.cell_start[p] : nests.cell_start[p + 1]]
    count = nests.count[nests.cell_start[p] : nests.cell_start[p + 1]].astype(float)
    open_ = np.ones(n * m, bool)
    least = []
    for limit in limits:
        for c in range(n):
            for r in np.unique(limit.row_of_cell[cell]):
                low, high = limit.least[limit.owner[span][c], r], limit.most[limit.owner[span][c], r]
                inside = np.zeros((n, m), bool)
                inside[c, limit.row_of_cell[cell] == r] = True
                if high == 0:
                    open_ &= ~inside.reshape(-1)
                elif low > 0 or high < min(UNLIMITED, count[limit.row_of_cell[cell] == r].sum()):
                    least.append((inside.reshape(-1), low, high))
    queries, own = _ordered(nests, asked)
    scale = max(float(one.weight.max()) for one in asked)
    weights, targets, links = [np.repeat(own.weight[span] / scale, m)[open_]], [own.noisy_of(p)[open_]], []
    for query in queries:
        rows = query.rows[query.start[p] : query.start[p + 1]]
        member = sp.csr_matrix((np.ones(m), (np.searchsorted(rows, query.row_of_cell[cell]), np.arange(m))))
        links.append(sp.csr_matrix(sp.kron(sp.identity(n), member))[:, open_])
        weights.append(np.repeat(query.weight[span] / scale, len(rows)))
        targets.append(query.noisy_of(p))
    w, y = np.concatenate(weights), np.concatenate(targets)
    aux, entries = len(w) - int(open_.sum()), int(open_.sum())
    columns = sp.csr_matrix(sp.kron(np.ones((1, n)), sp.identity(m)))[:, open_]
    bounded = [sp.csr_matrix(inside[open_].astype(float)) for inside, _, _ in least]
    limited = sp.csr_matrix((0, len(w)))
    if bounded:
        limited = sp.hstack([sp.vstack(bounded), sp.csr_matrix((len(bounded), aux))])
    return {
        "P": sp.diags(w).tocsc(),
        "c": -w * y,
        "A": sp.vstack(
            [sp.hstack([sp.vstack(links), -sp.identity(aux)]), sp.hstack([columns, sp.csr_matrix((m, aux))])]
        ).tocsc(),
        "b": np.concatenate([np.zeros(aux), count]),
        "G": limited.tocsc(),
        "lower": np.array([float(low) for _, low, _ in least]),
        "upper": np.array([np.inf if high >= UNLIMITED else float(high) for _, _, high in least]),
        "low": np.concatenate([np.zeros(entries), np.full(aux, -np.inf)]),
    }


def with_piqp(one):
    solver = piqp.SparseSolver()
    start = thread_time()
    solver.setup(
        one["P"], one["c"], one["A"], one["b"], one["G"], one["lower"], one["upper"], one["low"],
        np.full(len(one["c"]), np.inf),
    )  # fmt: skip
    solver.solve()
    return thread_time() - start


def with_clarabel(one):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    bound = np.flatnonzero(np.isfinite(one["low"]))
    signs = sp.csr_matrix((-np.ones(len(bound)), (np.arange(len(bound)), bound)), shape=(len(bound), len(one["c"])))
    upper = np.isfinite(one["upper"])
    equal = sp.vstack([one["A"], signs, -one["G"], one["G"][upper]]).tocsc()
    b = np.concatenate([one["b"], np.zeros(len(bound)), -one["lower"], one["upper"][upper]])
    cones = [clarabel.ZeroConeT(len(one["b"])), clarabel.NonnegativeConeT(len(b) - len(one["b"]))]
    start = thread_time()
    clarabel.DefaultSolver(sp.triu(one["P"]).tocsc(), one["c"], equal, b, cones, settings).solve()
    return thread_time() - start


def beside(title, kept):
    """Print the times of the three solvers on parents sampled by size, and extrapolate them to the whole level."""
    size = np.concatenate([np.diff(nests.block_start) for nests, _, _ in kept])
    place = np.array([(b, p) for b, (nests, _, _) in enumerate(kept) for p in range(len(nests))])
    rng = np.random.default_rng(1)
    whole = np.zeros(3)
    print(f"\n{title}: {len(size):,} parents, {size.sum():,} entries")
    print(f"{'entries':>16} {'ours':>10} {'PIQP':>10} {'Clarabel':>10}   ms per parent")
    for some_of in np.array_split(np.argsort(size), CLASSES):
        spent = np.zeros(3)
        chosen = place[rng.choice(some_of, SAMPLE, replace=False)]
        for b in np.unique(chosen[:, 0]):
            few, asked, limits = some(*kept[b], np.sort(chosen[chosen[:, 0] == b, 1]))
            queries, own = _ordered(few, asked)
            scale = max(float(one.weight.max()) for one in asked)
            times = []
            while len(times) < 3 or sum(times) < 0.02:  # small parents: often enough to be measured
                start = thread_time()
                _solve_fast(few, queries, own, limits, scale, GAP, DISTANCE, STEPS)
                times.append(thread_time() - start)
            spent[0] += min(times)
            for p in range(len(few)):
                one = program(few, [Noisy(one, few) for one in asked], limits, p)
                spent[1] += with_piqp(one)
                spent[2] += with_clarabel(one)
        whole += spent * len(some_of) / SAMPLE
        ms = spent / SAMPLE * 1e3
        print(f"{size[some_of[0]]:>7,} to {size[some_of[-1]]:>6,} {ms[0]:>9.3f} {ms[1]:>10.2f} {ms[2]:>10.2f}")
    print(
        f"the whole level, one thread: ours {whole[0]:.1f} s, PIQP {whole[1]:.0f} s ({whole[1] / whole[0]:.1f}x), "
        f"Clarabel {whole[2]:.0f} s ({whole[2] / whole[0]:.1f}x)"
    )


class Noisy:
    """An ``Asked`` that returns the answers of one nest."""

    def __init__(self, one, nests):
        self._one = one
        self._start = np.append(0, np.cumsum(np.diff(nests.child_start) * np.diff(one.start)))

    def __getattr__(self, name):
        return getattr(self._one, name)

    def noisy_of(self, p):
        return self._one.noisy[self._start[p] : self._start[p + 1]]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def census_of_1940():
    population = tv.populations.census_1940(seed=1)
    bounds_on = tv.Strategy.preset("e2e-2018", epsilon=1)
    bounds_off = replace(bounds_on, constraints=tuple(c for c in bounds_on.constraints if c.source != "facilities"))
    tv.protect(tv.populations.census_1940(persons=50_000, seed=1), bounds_on, seed=1)  # compile
    print(f"1940: {population.people}, epsilon 1")
    for name, strategy in (("facility bounds off", bounds_off), ("facility bounds on", bounds_on)):
        start = perf_counter()
        tv.protect(population, strategy, seed=1)
        print(f"{name}: the whole run in {perf_counter() - start:.1f} s, peak {peak():.2f} GiB")
    for name, strategy in (("facility bounds off", bounds_off), ("facility bounds on", bounds_on)):
        beside(f"1940, {name}, county to districts", recorded(population, strategy))


def growth():
    """Print the time and memory of the 2020 run for 25,000 to 300,000 blocks."""
    strategy = tv.Strategy.preset("pl94-2020-us-persons")
    sizes, times = [], []
    print("\n2020, persons, all constraints, two passes")
    for persons in (1_025_000, 3_700_000, 12_300_000):
        population = tv.populations.census_2020(persons=persons, seed=1)
        blocks = population.people.spine.size("block")
        best = np.inf
        for _ in range(3):
            start = perf_counter()
            tv.protect(population, strategy, seed=1)
            best = min(best, perf_counter() - start)
        sizes.append(blocks)
        times.append(best)
        print(f"{blocks:>9,} blocks: {best:.1f} s, peak {peak():.2f} GiB including the population")
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"time grows with blocks to the power {exponent:.2f}")


def rounding():
    """Time the rounding of 51 states by 2,016 cells with exact totals."""
    rng = np.random.default_rng(1)
    cells, states = PERSONS_2020.cells, 51
    truth = rng.poisson(rng.gamma(0.2, 500, (states, cells)))
    truth[0] += truth.sum(axis=0) == 0
    noisy = np.maximum(0, truth + rng.normal(size=truth.shape))
    totals = truth.sum(axis=1)[:, None]
    everything = np.arange(cells)
    nests = Nests(
        child_start=np.array([0, states]),
        child=np.arange(states),
        cell_start=np.array([0, cells]),
        cell=everything,
        count=truth.sum(axis=0),
        block_start=np.array([0, truth.size]),
    )
    exact = Limits(
        name="total",
        row_of_cell=np.zeros(cells, np.int32),
        least=totals,
        most=totals,
        owner=np.arange(states),
    )
    detailed = Asked(
        row_of_cell=everything.astype(np.int32),
        start=nests.cell_start,
        rows=everything.astype(np.int32),
        noisy=noisy.reshape(-1),
        weight=np.ones(states),
    )
    real = estimate(nests, [detailed], [exact]).x
    for mode in ("cells", "margins"):
        best = np.inf
        for _ in range(3):
            start = perf_counter()
            round_nests(real, nests, [exact], PERSONS_2020, mode, lots_of(None, "state", nests.child))
            best = min(best, perf_counter() - start)
        print(f"rounding 51 states x 2,016 cells, exact totals, {mode}: {best:.3f} s (an LP took 473 s)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["rounding", "1940", "growth"])
    for part in parser.parse_args().parts:
        {"1940": census_of_1940, "growth": growth, "rounding": rounding}[part]()
