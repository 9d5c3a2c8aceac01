"""Measure: noisy answers to a strategy's queries (step one of TopDown).

Noise is a pure function of its place, so an answer is drawn when it is asked for: for the cells that the parent's
released estimate leaves open, or for all of them where measurements are published. The values are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tallyveil.certificate import SEEDED
from tallyveil.counts import Counts
from tallyveil.errors import InputError
from tallyveil.histogram import Histogram
from tallyveil.measurements import Index, Measurements
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.distributions import Geometric
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.ledger import Ledger
from tallyveil.privacy.sampling import draw
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.streams import measurement_stream
from tallyveil.schema import TOTAL
from tallyveil.spine import Spine


def measure(
    histogram: Histogram,
    strategy: Strategy,
    key: RunKey,
    *,
    replicate: int = 0,
    parts: Mapping[str, Index] | None = None,
) -> Measurements:
    """Noisy answers about these people, one sample of them for each replicate; the ledger says what they cost.

    ``parts`` gives the standard unit of each unit where the spine splits them (``OptimisedSpine.part_of``): invariants
    are then exact for the standard units.

    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> people = Histogram.from_entries(
    ...     spine, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 1], cell=[1, 0], count=[40, 7]
    ... )
    >>> noisy = measure(people, Strategy.default(spine, people.schema, epsilon=10**6), RunKey.from_seed(1))
    >>> noisy.ask("block", "detailed", np.arange(4)).tolist()         # at such a budget there is no noise to speak of
    [0, 40, 7, 0]
    """
    strategy.check(histogram.spine, histogram.schema)
    _spend(strategy)
    split = _split(histogram.spine, strategy, parts or {})
    stream = measurement_stream(key, histogram, strategy)
    numbers = strategy.query_numbers()
    truth = dict(histogram.by_level())
    queries = {query: histogram.schema.query(query) for query in numbers}

    def ask(level: str, query: str, index: Index) -> NDArray[np.int64]:
        rows = queries[query]
        answers = truth[level].looked_up(index, rows.row_of_cell, rows.size)
        spans = noisy.shares[level].spans[index // rows.size]
        for span in np.unique(spans):
            at = np.flatnonzero(spans == span)
            answers[at] += draw(
                noisy.noise(level, query, int(span)),
                stream,
                index[at],
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
        exact=_exact(histogram, strategy, split),
        parts=split,
        stamps=(*histogram.stamps, *((SEEDED,) if key.seeded else ())),
    )
    return noisy


def _split(spine: Spine, strategy: Strategy, parts: Mapping[str, Index]) -> dict[str, Index]:
    """The levels with an invariant whose units are parts of others; only siblings can be bounded together."""
    found = {}
    for constraint in strategy.constraints:
        if not isinstance(constraint, Invariant) or constraint.level not in parts:
            continue
        whole = parts[constraint.level]
        if len(np.unique(whole)) == len(whole):
            continue
        if spine.depth(constraint.level) != 1:
            raise InputError(
                f"constraint ({constraint.words()}): the spine splits units of level {constraint.level!r} between "
                f"parents, so their sums cannot be kept. Drop the constraint, or use the standard spine."
            )
        found[constraint.level] = whole
    return found


def _exact(histogram: Histogram, strategy: Strategy, split: Mapping[str, Index]) -> dict[tuple[str, str], Counts]:
    """What is published without noise: the invariants, and everybody, where neighbours are equally many."""
    wanted = [(c.query, c.level) for c in strategy.constraints if isinstance(c, Invariant)]
    if strategy.neighbours == "replace-one":
        wanted.append((TOTAL, histogram.spine.levels[0]))
    exact = {}
    for query, level in wanted:
        answer = histogram.answer(query, level=level)
        if level in split:
            unit = split[level][answer.unit()]
            answer = Counts.from_entries(
                unit, answer.cell, answer.count, units=int(split[level].max()) + 1, cells=answer.cells
            )
        exact[histogram.schema.query(query).name, level] = answer
    return exact


def _spend(strategy: Strategy) -> None:
    """Write down what each noise costs, worked out from the noise itself; it must be what the strategy allows."""
    ledger = Ledger(strategy)
    changed = 2 if strategy.neighbours == "replace-one" else 1  # counts that a neighbour changes, by 1 each
    for spend in strategy.spends():
        noise = spend.noise
        cost = changed * noise.z if isinstance(noise, Geometric) else changed / (2 * noise.variance)
        ledger.spend(spend.level, spend.query, cost)
    ledger.close()
