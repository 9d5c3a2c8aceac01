"""Measure: noisy answers to a strategy's queries (step one of TopDown).

Noise is a pure function of its place, so an answer is drawn only when it is queried: for the cells that are not empty
in the parent's released estimate, or for all cells where measurements are published. The values are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tallyveil.mechanisms.unit_answers import NoisyAnswers, UnitAnswers
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import TOTAL
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.ledger import Ledger
from tallyveil.privacy.sampling import sampler
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.stream_words import Stream, check_place
from tallyveil.privacy.streams import measurement_stream
from tallyveil.release.declare import stamps_of_run
from tallyveil.release.measurements import Measurements, Pair


def measure(
    people: Histogram,
    strategy: Strategy,
    key: RunKey,
    *,
    replicate: int = 0,
    optimised: OptimisedSpine | None = None,
    exact: Mapping[Pair, Counts] | None = None,
) -> Measurements:
    """Noisy answers about these people, one sample for each replicate; the ledger checks what they cost.

    With ``optimised``, the answers are about the units of that spine; invariants stay those of the people's own spine.
    ``exact`` are the answers published without noise (``exact_answers``), if they have already been computed.

    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> people = Histogram.from_entries(
    ...     spine, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 1], cell=[1, 0], count=[40, 7]
    ... )
    >>> noisy = measure(people, Strategy.default(spine, people.schema, epsilon=10**6), RunKey.from_seed(1))
    >>> noisy.ask("block", "detailed", np.arange(4)).tolist()         # at such a budget there is no noise to speak of
    [0, 40, 7, 0]
    """
    strategy.check(people.spine, people.schema)
    strategy = calibrated(strategy, spine=people.spine, schema=people.schema, optimised=optimised)
    _spend(strategy)
    histogram = people if optimised is None else optimised.moved(people)
    stream = measurement_stream(key, people, strategy, optimised=optimised)
    _refuse_undrawable(strategy, histogram.spine, replicate)
    ask = _noisy_answers(histogram, strategy, stream, replicate)
    return Measurements(
        spine=histogram.spine,
        schema=histogram.schema,
        strategy=strategy,
        ask=ask,
        exact=exact_answers(people, strategy) if exact is None else exact,
        optimised=optimised,
        stamps=stamps_of_run(people, strategy, seeded=key.seeded),
        identifier=stream.identifier(replicate),
    )


def _noisy_answers(people: Histogram, strategy: Strategy, stream: Stream, replicate: int) -> NoisyAnswers:
    """The answers about the units of all levels of the spine that is measured."""
    numbers, shares = strategy.query_numbers(), unit_shares(strategy, people.spine)
    queries = {query: people.schema.query(query) for query in numbers}
    levels = {}
    for level, truth in people.by_level():
        measured, own = strategy.queries[level], shares[level]
        levels[level] = UnitAnswers(
            level=level,
            truth=truth,
            first=0,
            spans=own.spans,
            queries={query: queries[query] for query in measured},
            numbers={query: numbers[query] for query in measured},
            noises={
                query: (None, *(strategy.noise(level, query, level_share=share) for share in own.shares[1:]))
                for query in measured
            },
            depth=people.spine.depth(level),
            replicate=replicate,
            stream=stream,
        )
    return NoisyAnswers(levels)


def exact_answers(people: Histogram, strategy: Strategy) -> dict[Pair, Counts]:
    """The answers published without noise: invariants, and under replace-one neighbours the number of people."""
    wanted = [(c.query, c.level) for c in strategy.constraints if isinstance(c, Invariant)]
    if strategy.neighbours == "replace-one":
        wanted.append((TOTAL, people.spine.levels[0]))
    return {(people.schema.query(query).name, level): people.answer(query, level=level) for query, level in wanted}


def _refuse_undrawable(strategy: Strategy, spine: Spine, replicate: int) -> None:
    """Refuse noise that cannot be drawn: too wide, or with a number that does not fit into a stream."""
    check_place(level=len(spine.levels) - 1, query=len(strategy.query_numbers()) - 1, replicate=replicate)
    for level, shares in unit_shares(strategy, spine).items():
        for span in np.unique(shares.spans[shares.spans > 0]).tolist():
            for query in strategy.queries[level]:
                sampler(strategy.noise(level, query, level_share=shares.shares[span]))


def _spend(strategy: Strategy) -> None:
    """Enter the privacy loss of each noise into a ledger, which checks that the total is the strategy's budget."""
    ledger = Ledger(strategy)
    changed = 2 if strategy.neighbours == "replace-one" else 1  # counts that a neighbour changes, by 1 each
    for spend in strategy.spends():
        ledger.spend(spend.level, spend.query, changed * spend.noise.loss)
    ledger.close()
