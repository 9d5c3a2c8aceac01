"""What the papers' mechanisms have in common: exact geometric noise on a query at a level, replicate by replicate.

Noise is a function of its place in a stream, and the stream is a function of the key and of what is measured: the
people, the mechanism, its parameters z and its query. It does not depend on how the noisy answers are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.errors import BudgetError, InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.privacy.budget import Number, exact
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.sampling import draw
from tallyveil.privacy.strategy import Neighbours
from tallyveil.privacy.stream_words import Stream

People = Histogram | Population
Replicates = int | range


def noise_parameter(epsilon: Number, neighbours: Neighbours, *, name: str = "epsilon") -> Fraction:
    """The z at which G(z) on one query costs epsilon: neighbours differ by 1 in one count, or in two.

    >>> noise_parameter(1, "add-or-remove"), noise_parameter(1, "replace-one")
    (Fraction(1, 1), Fraction(1, 2))
    """
    if neighbours not in ("replace-one", "add-or-remove"):
        raise BudgetError(f'neighbours must be "replace-one" or "add-or-remove". Got {neighbours!r} instead.')
    return exact(epsilon, name) / (2 if neighbours == "replace-one" else 1)


def histogram_of(people: People) -> Histogram:
    """The persons of a synthetic census, or the histogram itself."""
    return people.people if isinstance(people, Population) else people


def run_key(seed: int | None, key: RunKey | None) -> RunKey:
    """The key of a run: the given one, or one from the seed, or a new one from the operating system."""
    if seed is not None and key is not None:
        raise InputError("a seed and a key are both given. Give one.")
    return key or (RunKey.from_system() if seed is None else RunKey.from_seed(seed))


def noise_stream(people: Histogram, *measured: object, seed: int | None, key: RunKey | None) -> Stream:
    """The noise stream of a mechanism on these people, identified by the mechanism's name and parameters."""
    secret = run_key(seed, key)
    return secret.stream(chain([secret.people(people.identifying_bytes())], _as_bytes(measured)))


def noisy_answers(
    people: Histogram, stream: Stream, *, z: Fraction, query: str, level: str, replicate: Replicates, number: int = 0
) -> Integers:
    """The answers to a query at a level plus G(z), replicates x units x rows; each ``number`` has noise of its own.

    Structural zeros stay 0: that they are empty is public.
    """
    if not isinstance(replicate, int | np.integer | range) or (isinstance(replicate, range) and len(replicate) == 0):
        raise InputError(f"replicate {replicate!r}: give a whole number, or a range of one or more.")
    truth = people.answer(query, level=level).dense()
    noise = draw(
        Geometric(z=z),
        stream,
        np.arange(truth.size, dtype=np.int64),
        level=people.spine.depth(level),
        query=number,
        replicate=replicate if isinstance(replicate, range) else range(int(replicate), int(replicate) + 1),
    ).reshape(-1, *truth.shape)
    noise[:, :, ~people.schema.possible_rows(people.schema.query(query))] = 0
    noise += truth
    return noise


def _as_bytes(measured: tuple[object, ...]) -> Iterator[bytes]:
    yield b"simple mechanism"
    for part in measured:
        yield str(part).encode()
