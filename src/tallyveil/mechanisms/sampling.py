"""Simple random sampling without replacement, drawn from counts: what a sample would have done (petti2020).

Nobody is drawn one by one. How many of each (leaf, cell) are in the sample is multivariate hypergeometric, and comes
in two exact steps: each person enters with the same probability (a binomial for each entry), which given its size is a
simple random sample; then the few persons too many leave at random, or the few missing enter. Unlike NumPy's
multivariate hypergeometric this has no limit of 10^9 persons.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import InputError
from tallyveil.mechanisms.noisy import People, people_of
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.estimates import Sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.budget import Number, exact


def sample(people: People, fraction: Number, *, seed: int, replicate: int = 0) -> Sample:
    """A simple random sample without replacement of ``round(fraction x persons)`` persons.

    Sampling is no differential privacy: who is alone in a cell and in the sample is shown as they are. The numbers come
    from NumPy's generator, for research.

    Parameters
    ----------
    people
        The counts, or a synthetic census.
    fraction
        Which share of the people: above 0, at most 1. An exact half is rounded to the even number.
    seed, replicate
        Integers numbers from 0. The same pair gives the same sample; any other an independent one.

    Examples
    --------
    >>> from tallyveil.populations import uniform_tree
    >>> half = sample(uniform_tree(persons=1000, mean=10, levels=2, seed=1), 0.5, seed=1)
    >>> half.people.total(), half.answer("total", level="top").tolist()
    (500, [[1000]])
    """
    truth = people_of(people)
    share = as_share(fraction, "fraction")
    if share == 0:
        raise InputError("fraction 0 takes nobody, which cannot be scaled up. Give one above 0 and at most 1.")
    drawn = draw_people(truth.leaves.count, round(share * truth.total()), generator("sample", seed, replicate))
    return Sample(people=with_counts(truth, drawn), fraction=share)


def as_share(value: Number, name: str) -> Fraction:
    """A share of the people, from 0 to 1, as the fraction it was written as."""
    share = exact(value, name, zero=True)
    if share > 1:
        raise InputError(f"{name} is from 0 to 1. Got {value}.")
    return share


def generator(purpose: str, seed: int, replicate: int) -> Generator:
    """Random numbers of their own for each purpose, seed and replicate."""
    for name, value in (("seed", seed), ("replicate", replicate)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise InputError(f"a {name} is a whole number, 0 or more. Got {value!r}.")
    return Generator(PCG64(SeedSequence(int(seed), spawn_key=(*purpose.encode(), int(replicate)))))


def draw_people(counts: NDArray[np.integer], persons: int, rng: Generator) -> Integers:
    """How many of each count are among ``persons`` drawn from all without replacement.

    >>> draw_people(np.array([3, 0, 2]), 5, generator("doctest", 1, 0)).tolist()
    [3, 0, 2]
    """
    there = counts.astype(np.int64)
    total = int(there.sum())
    if persons in (0, total):
        return there if persons else np.zeros_like(there)
    drawn: Integers = rng.binomial(there, persons / total)
    excess = int(drawn.sum()) - persons
    pool = drawn if excess > 0 else there - drawn  # who leaves again, or enters as well
    who = rng.choice(int(pool.sum()), abs(excess), replace=False, shuffle=False)
    entry = np.searchsorted(np.cumsum(pool), who, side="right")
    few: Integers = np.bincount(entry, minlength=len(drawn))
    return drawn - few if excess > 0 else drawn + few


def with_counts(people: Histogram, count: Integers) -> Histogram:
    """The same people with other counts at the non-empty entries of the leaves, some of them 0 perhaps."""
    some = count > 0
    start = np.concatenate([[0], np.cumsum(some)])[people.leaves.start].astype(np.int64)
    leaves = Counts(
        start=start,
        cell=people.leaves.cell[some],
        count=count[some].astype(people.leaves.count.dtype),
        cells=people.leaves.cells,
    )
    return replace(people, leaves=leaves)
