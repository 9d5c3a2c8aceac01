"""Random strategies on random small trees: any queries, shares, passes, budgets and mechanisms."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

import tallyveil as tv
from tallyveil.engine.topdown import topdown
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import RunKey


def draw_people(rng: np.random.Generator) -> tv.Histogram:
    """Up to 300 million people in up to 12 blocks and 64 cells, from even to almost empty."""
    blocks = rng.integers(1, 5, rng.integers(1, 4))
    county = [f"{i:02d}" for i, size in enumerate(blocks) for _ in range(size)]
    block = [f"{i:02d}{j:02d}" for i, size in enumerate(blocks) for j in range(size)]
    spine = tv.Spine.from_columns({"county": county, "block": block}, root="us")
    sizes = rng.integers(2, 5, rng.integers(1, 4))
    labels = {name: [f"{name}{i}" for i in range(size)] for name, size in zip("abc", sizes, strict=False)}
    cells = int(np.prod(sizes))
    chances = rng.dirichlet(np.full(len(block) * cells, 10 ** rng.uniform(-1.5, 0.5)))
    counts = rng.multinomial(int(10 ** rng.uniform(0.5, 8.5)), chances / chances.sum())
    entry = np.flatnonzero(counts)
    return tv.Histogram.from_entries(
        spine, tv.Schema(attributes=labels), unit=entry // cells, cell=entry % cells, count=counts[entry]
    )


def draw_strategy(rng: np.random.Generator, people: tv.Histogram) -> tv.Strategy:
    """Any subset of the queries at each level, shares that differ up to 100,000-fold, budgets from 1e-6 to 1e9."""
    names = list(people.schema.attributes)
    marginals = [" * ".join(some) for size in range(1, len(names)) for some in itertools.combinations(names, size)]
    every = ["total", "detailed", *marginals]
    queries, passes = {}, {}
    for level in people.spine.levels:
        size = int(rng.integers(1, min(len(every), 5) + 1))
        chosen = [every[i] for i in rng.choice(len(every), size, replace=False)]
        queries[level] = _shares(rng, chosen)
        if size > 1 and rng.random() < 0.25:
            passes[level] = (tuple(chosen[: rng.integers(1, size)]), ("*",))
    return tv.Strategy(
        mechanism=str(rng.choice(["geometric", "gaussian"])),
        budget=Fraction(10 ** rng.uniform(-6, 9)).limit_denominator(10**9),
        levels=_shares(rng, people.spine.levels),
        queries=queries,
        passes=passes,
        only_child=bool(rng.random() < 0.5),
    )


def _shares(rng: np.random.Generator, names) -> dict[str, Fraction]:
    parts = [int(part) for part in rng.integers(1, 10 ** int(rng.integers(1, 6)), len(names))]
    return {name: Fraction(part, sum(parts)) for name, part in zip(names, parts, strict=True)}


def solve(people: tv.Histogram, strategy: tv.Strategy, seed: int):
    """How each level was solved."""
    return topdown(measure(people, strategy, RunKey.from_seed(seed)))[1]
