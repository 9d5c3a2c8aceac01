"""The noise stream of a measurement: the same for the same people and strategy, independent for any other."""

from __future__ import annotations

from itertools import chain

from tallyveil.histogram import Histogram
from tallyveil.privacy.entropy import RunKey, Stream
from tallyveil.privacy.strategy import Strategy


def measurement_stream(key: RunKey, histogram: Histogram, strategy: Strategy) -> Stream:
    """The stream for measuring these people with this strategy.

    Its key depends on the canonical counts, the spine, the schema, the mechanism and the measured queries with their
    shares; not on constraints, post-processing or what is published.
    """
    return key.stream(chain(histogram.canonical_bytes(), strategy.canonical_bytes()))
