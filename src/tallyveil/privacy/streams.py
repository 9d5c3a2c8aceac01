"""The noise stream of a measurement: the same for the same people and strategy, and independent otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.stream_words import Stream


def measurement_stream(
    key: RunKey, people: Histogram, strategy: Strategy, *, optimised: OptimisedSpine | None = None
) -> Stream:
    """Return the stream for measuring these people with this strategy, on the optimised spine if there is one.

    Its key depends on the counts and their filter, the spine, the schema, the mechanism, the measured queries with
    their numbers and shares, and the parameters of the noise. It does not depend on constraints, post-processing or
    what is published.
    """
    spine = people.spine if optimised is None else optimised.spine
    return key.stream(
        chain(
            [key.people(people.identifying_bytes())],
            spine.canonical_bytes(),
            strategy.canonical_bytes(),
            _parameters(strategy, spine),
        )
    )


def _parameters(strategy: Strategy, spine: Spine) -> Iterator[bytes]:
    """Yield the parameter of the noise of every query, level and number of levels that a unit pays for."""
    numbers = strategy.query_numbers()
    for level, unit_share in unit_shares(strategy, spine).items():
        for span in np.unique(unit_share.spans[unit_share.spans > 0]).tolist():
            for query, number in numbers.items():
                if query in strategy.queries[level]:
                    noise = strategy.noise(level, query, level_share=unit_share.shares[span])
                    yield f"{level} {span} {number} {noise.parameter}".encode()
