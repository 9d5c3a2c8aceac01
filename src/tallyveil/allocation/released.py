"""What post-processing does to predicted errors, found by simulation on counts that are declared public or synthetic.

Counts are made non-negative and whole, so released errors of small counts are far smaller than predicted ones, and they
respond less to the noise. Near a budget, released mean squared error is taken to follow the predicted one by a power
law. Its two parameters come from releases at the strategy's budget and at another one, with the same shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tallyveil.allocation.model import Model
from tallyveil.allocation.objective import PowerLaw
from tallyveil.allocation.precision import Pair
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect

APART = Fraction(3, 2)  # the ratio of the two budgets
LEAST_POWER, MOST_POWER = 0.05, 1.5


def released_squares(
    people: Histogram,
    strategy: Strategy,
    pairs: Sequence[Pair],
    *,
    facilities: Facilities | None = None,
    replicates: int,
    seed: int,
) -> dict[Pair, float]:
    """The mean squared errors of released counts over all units, cells and replicates."""
    truth = {(level, query): people.answer(query, level=level) for level, query in pairs}
    sums = dict.fromkeys(pairs, 0.0)
    for number in range(replicates):
        release = protect(people, strategy, facilities=facilities, seed=seed + number)
        for (level, query), counts in truth.items():
            apart = release.histogram.answer(query, level=level).dense() - counts.dense()
            sums[level, query] += float(np.mean(apart.astype(np.float64) ** 2))
    return {pair: total / replicates for pair, total in sums.items()}


def power_laws(
    people: Histogram,
    model: Model,
    *,
    facilities: Facilities | None = None,
    replicates: int,
    seed: int,
) -> dict[Pair, PowerLaw]:
    """How released errors follow predicted ones, for every level and query of a model of the same counts."""
    strategy, laws = model.strategy, {}
    wider = strategy.with_budget(**{strategy.unit: strategy.budget / APART})
    near, far = (
        released_squares(people, plan, list(model.places), facilities=facilities, replicates=replicates, seed=seed)
        for plan in (strategy, wider)
    )
    predicted = [model.mean_squares(model.predict(budget=float(plan.budget))) for plan in (strategy, wider)]
    for pair in model.places:
        some = near[pair], far[pair], predicted[0][pair], predicted[1][pair]
        if min(some) <= 0:  # exact, or never wrong
            continue
        power = float(np.log(some[1] / some[0]) / np.log(some[3] / some[2]))
        power = min(max(power, LEAST_POWER), MOST_POWER)
        laws[pair] = PowerLaw(factor=some[0] / some[2] ** power, power=power)
    return laws
