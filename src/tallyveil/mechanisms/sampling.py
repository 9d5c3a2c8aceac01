"""Simple random sampling without replacement, drawn from counts: the error of a sample, for comparison (petti2020).

The number of sampled persons in each (leaf, cell) is multivariate hypergeometric. It is drawn in two exact steps, not
person by person: each person enters with the same probability (a binomial for each entry), which given its size is a
simple random sample; then the few excess persons leave at random, or the few missing ones enter. Unlike NumPy's
multivariate hypergeometric, this has no limit of 10^9 persons.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, histogram_of
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.budget import Number, exact


def sample(people: People, fraction: Number, *, seed: int, replicate: int = 0) -> Sample:
    """A simple random sample without replacement of ``round(fraction x persons)`` persons.

    Sampling is not differentially private: a person who is alone in a cell and in the sample is published as they are.
    The random numbers come from NumPy's generator, for research.

    Parameters
    ----------
    people
        The counts, or a synthetic census.
    fraction
        The share of the people to sample, above 0 and at most 1. Exact halves are rounded to even.
    seed, replicate
        Integers, 0 or more. The same pair gives the same sample, and any other pair an independent one.

    Examples
    --------
    >>> from tallyveil.populations import uniform_tree
    >>> half = sample(uniform_tree(persons=1000, mean=10, levels=2, seed=1), 0.5, seed=1)
    >>> half.people.total(), half.answer("total", level="top").tolist()
    (500, [[1000]])
    """
    truth = histogram_of(people)
    share = as_share(fraction, "fraction")
    if share == 0:
        raise InputError("fraction 0 takes nobody, which cannot be scaled up. Give one above 0 and at most 1.")
    drawn = draw_people(truth.leaves.count, round(share * truth.total()), generator("sample", seed, replicate))
    return Sample(people=with_counts(truth, drawn), fraction=share)


def as_share(value: Number, name: str) -> Fraction:
    """A share of the people, from 0 to 1, as an exact fraction."""
    share = exact(value, name, zero=True)
    if share > 1:
        raise InputError(f"{name} must be from 0 to 1. Got {value} instead.")
    return share


def generator(purpose: str, seed: int, replicate: int) -> Generator:
    """An independent random number generator for each purpose, seed and replicate."""
    for name, value in (("seed", seed), ("replicate", replicate)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise InputError(f"a {name} must be a whole number, 0 or more. Got {value!r} instead.")
    return Generator(PCG64(SeedSequence(int(seed), spawn_key=(*purpose.encode(), int(replicate)))))


def draw_people(counts: NDArray[np.integer], persons: int, rng: Generator) -> Integers:
    """How many persons of each count are among ``persons`` drawn from all without replacement.

    >>> draw_people(np.array([3, 0, 2]), 5, generator("doctest", 1, 0)).tolist()
    [3, 0, 2]
    """
    people = counts.astype(np.int64)
    total = int(people.sum())
    if persons in (0, total):
        return people if persons else np.zeros_like(people)
    drawn: Integers = rng.binomial(people, persons / total)
    excess = int(drawn.sum()) - persons
    pool = drawn if excess > 0 else people - drawn  # those who may leave again, or enter as well
    who = rng.choice(int(pool.sum()), abs(excess), replace=False, shuffle=False)
    entry = np.searchsorted(np.cumsum(pool), who, side="right")
    few: Integers = np.bincount(entry, minlength=len(drawn))
    return drawn - few if excess > 0 else drawn + few


def with_counts(people: Histogram, count: Integers) -> Histogram:
    """The same histogram with other counts, which may be 0, at the non-empty entries of the leaves."""
    positive = count > 0
    start = np.concatenate([[0], np.cumsum(positive)])[people.leaves.start].astype(np.int64)
    leaves = Counts(
        start=start,
        cell=people.leaves.cell[positive],
        count=count[positive].astype(people.leaves.count.dtype),
        cells=people.leaves.cells,
    )
    return replace(people, leaves=leaves)
