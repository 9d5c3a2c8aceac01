"""Without attributes, the table nearest in least squares also has the smallest largest deviation (docs/topdown.md)."""

from dataclasses import replace

import numpy as np
import pytest

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.engine.topdown import topdown
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.counts import Counts
from tallyveil.privacy import RunKey


def tree(seed, attributes):
    rng = np.random.default_rng(seed)
    rows = [
        (f"{region:02d}", f"{region:02d}{town:02d}", f"{region:02d}{town:02d}{block:02d}")
        for region in range(8)
        for town in range(rng.integers(2, 12))
        for block in range(rng.integers(2, 12))
    ]
    names = ("region", "town", "block")
    spine = Spine.from_columns(dict(zip(names, zip(*rows, strict=True), strict=True)), root="us")
    schema = Schema(attributes=attributes)
    means = rng.gamma(0.3, 10 ** rng.uniform(0, 2), (spine.size("block"), 1))
    leaves = Counts.from_dense(rng.poisson(means, (spine.size("block"), schema.cells)))
    return Histogram(spine=spine, schema=schema, leaves=leaves)


def least_largest_deviation(noisy, count):
    """The smallest possible largest deviation from some answers of whole numbers of at least 0 with a given sum."""
    most = 0
    while most < -noisy.min() or not np.maximum(noisy - most, 0).sum() <= count <= (noisy + most).sum():
        most += 1
    return most


def deviations(people, plan, seed):
    """For each parent with people and several children: the largest deviation of their totals, and the least one."""
    noisy = measure(people, plan, RunKey.from_seed(seed))
    release, _ = topdown(noisy)
    spine = people.spine
    for above, level in zip(spine.levels, spine.levels[1:], strict=False):
        answers = noisy.ask(level, "total", np.arange(spine.size(level)))
        found, parents = release.answer("total", level=level).dense()[:, 0], release.at(above).dense().sum(axis=1)
        first_child = spine.first_child[spine.depth(level) - 1]
        for p in np.flatnonzero((parents > 0) & (np.diff(first_child) > 1)):
            children = slice(first_child[p], first_child[p + 1])
            least = least_largest_deviation(answers[children], parents[p])
            yield int(np.abs(found[children] - answers[children]).max()), least


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": "1/4"}])
@pytest.mark.parametrize("rounding", ["margins", "cells"])
def test_no_whole_table_has_a_smaller_largest_deviation_from_the_answers(budget, rounding):
    found = []
    for seed in range(6):
        people = tree(seed, {})
        plan = Strategy.default(people.spine, people.schema, **budget).with_estimator("topdown")
        found += deviations(people, replace(plan, rounding=rounding), seed)
    assert len(found) > 250
    assert all(largest == least for largest, least in found)


def test_with_an_attribute_other_tables_may_have_a_smaller_one():
    people = tree(1, {"sex": ["f", "m"]})
    plan = Strategy.default(people.spine, people.schema, epsilon=1).with_estimator("topdown")
    found = list(deviations(people, plan, 1))
    assert np.mean([largest > least for largest, least in found]) > 0.3


def test_the_largest_error_of_a_level_is_at_most_twice_the_largest_noise_of_each_level_down_to_it():
    """What follows from that, with the constant of 2 needed: half of it is exceeded."""
    share = []
    for seed in range(40):
        people = tree(seed, {})
        plan = Strategy.default(people.spine, people.schema, epsilon=1).with_estimator("topdown")
        noisy, bound = measure(people, plan, RunKey.from_seed(seed)), 0
        release, _ = topdown(noisy)
        for level in people.spine.levels[1:]:
            true = people.answer("total", level=level).dense()[:, 0]
            bound += 2 * np.abs(noisy.ask(level, "total", np.arange(len(true))) - true).max()
            share.append(np.abs(release.answer("total", level=level).dense()[:, 0] - true).max() / bound)
    assert max(share) <= 1
    assert max(share) > 0.5
