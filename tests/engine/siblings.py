"""What rounding adds to siblings of a parent, by their position among them and by their size."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

import tallyveil as tv
from tallyveil.engine import level as engine
from tallyveil.engine.topdown import topdown
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.counts import Counts

SCHEMAS = {"totals": {}, "one attribute": {"sex": list("fm")}, "16 cells": {"a": list("wxyz"), "b": list("wxyz")}}


def siblings(parents, sizes, schema, seed):
    """Parents with a child of each mean size, which stand in a random order under each parent; and these sizes."""
    rng, number = np.random.default_rng(seed), len(sizes)
    codes = [(f"{p:06d}", f"{p:06d}{c:03d}") for p in range(parents) for c in range(number)]
    spine = tv.Spine.from_columns(dict(zip(("parent", "child"), zip(*codes, strict=True), strict=True)), root="us")
    size = rng.permuted(np.tile(np.array(sizes, float), (parents, 1)), axis=1).reshape(-1)
    schema = tv.Schema(attributes=SCHEMAS[schema])
    table = rng.poisson(size[:, None] / schema.cells, (len(size), schema.cells))
    return tv.Histogram(spine=spine, schema=schema, leaves=Counts.from_dense(table)), size


def strategy_for(people, *, only_totals=False, estimator="topdown", **fields):
    """The default strategy, or one that measures nothing but totals below the root."""
    if not only_totals:
        plan = tv.Strategy.default(people.spine, people.schema, epsilon=4).with_estimator(estimator)
        return replace(plan, **fields)
    queries = {level: {"total": Fraction(1)} for level in people.spine.levels[1:]}
    return tv.Strategy(
        mechanism="geometric",
        budget=Fraction(4),
        levels={level: Fraction(1, 3) for level in people.spine.levels},
        queries={people.spine.levels[0]: {"detailed": Fraction(1)}, **queries},
        attributes=tuple(people.schema.attributes),
        estimator=estimator,
        **fields,
    )


def changes(monkeypatch, people, plan, seed=1):
    """What rounding adds to each cell of each child, and the error of the child's released total."""
    real, at = engine.round_nests, []

    def rounded(x, nests, *rest):
        result = real(x, nests, *rest)
        cells, children = np.diff(nests.cell_start), np.diff(nests.child_start)
        size = np.repeat(cells, children)  # of each child's row
        column = np.arange(len(x)) - np.repeat(np.cumsum(size) - size, size)
        cell = nests.cell[column + np.repeat(np.repeat(nests.cell_start[:-1], children), size)]
        at.append((np.repeat(nests.child, size), cell, result.counts - x))
        return result

    with monkeypatch.context() as patch:
        patch.setattr(engine, "round_nests", rounded)
        release, _ = topdown(measure(people, plan, tv.privacy.RunKey.from_seed(seed)))
    found = np.zeros((people.spine.size("child"), people.schema.cells))
    for child, cell, added in at[2:]:  # after the root and the parents
        found[child, cell] = added
    return found, release.leaves.dense().sum(axis=1) - people.leaves.dense().sum(axis=1)


def standard_scores(values):
    """By column, how many standard errors the mean is away from 0."""
    return values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(values)))
