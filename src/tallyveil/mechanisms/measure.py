"""Measure: noisy answers to a strategy's queries (step one of TopDown).

Noise is a pure function of its place, so an answer is drawn only when it is queried: for the cells that are not empty
in the parent's released estimate, or for all cells where measurements are published. The values are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tallyveil._arrays import Integers
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import TOTAL
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.ledger import Ledger
from tallyveil.privacy.sampling import draw, sampler
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.stream_words import check_place
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
    numbers = strategy.query_numbers()
    _refuse_undrawable(strategy, histogram.spine, replicate)
    truth = dict(histogram.by_level())
    queries = {query: histogram.schema.query(query) for query in numbers}

    def ask(level: str, query: str, index: Integers) -> Integers:
        rows = queries[query]
        answers = truth[level].looked_up(index, rows.row_of_cell, rows.size)
        spans = noisy.shares[level].spans[index // rows.size]
        for span in np.unique(spans):
            places = np.flatnonzero(spans == span)
            answers[places] += draw(
                noisy.noise(level, query, int(span)),
                stream,
                index[places],
                level=histogram.spine.depth(level),
                query=numbers[query],
                replicate=replicate,
            )
        return answers

    noisy = Measurements(
        spine=histogram.spine,
        schema=histogram.schema,
        strategy=strategy,
        ask=ask,
        exact=exact_answers(people, strategy) if exact is None else exact,
        optimised=optimised,
        stamps=stamps_of_run(people, strategy, seeded=key.seeded),
        identifier=stream.identifier(replicate),
    )
    return noisy


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
