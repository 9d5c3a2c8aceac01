"""The noise stream of a measurement: the same for the same people and strategy, independent for any other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.entropy import RunKey, Stream
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy


def measurement_stream(
    key: RunKey, people: Histogram, strategy: Strategy, *, optimised: OptimisedSpine | None = None
) -> Stream:
    """The stream for measuring these people with this strategy, on an optimised spine if one is given.

    Its key depends on the canonical counts and their filter, the spine, the schema, the mechanism, the measured queries
    with their numbers and shares, and the parameter of every noise; not on constraints, post-processing or what is
    published.
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
    """The parameter of the noise of every query, for the units of a level that pay for so many levels."""
    numbers = strategy.query_numbers()
    for level, unit_share in unit_shares(strategy, spine).items():
        for span in np.unique(unit_share.spans[unit_share.spans > 0]).tolist():
            for query, number in numbers.items():
                if query in strategy.queries[level]:
                    noise = strategy.noise(level, query, level_share=unit_share.shares[span])
                    yield f"{level} {span} {number} {noise.parameter}".encode()
