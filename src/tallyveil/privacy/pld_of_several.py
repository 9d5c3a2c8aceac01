"""The joint epsilon of several measurements from their privacy loss distributions, which is tighter than adding.

Neighbouring datasets differ by one in some counts of each measurement (``neighbour_pairs``). The loss of each such
count has a distribution, and these are composed: as for one release if all noise is Gaussian, otherwise by
dp-accounting (pessimistic estimate). It is unknown which pairs of two measurements belong together, so every
combination is composed and the largest epsilon is reported.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import add
from typing import Any

from tallyveil.privacy.loss_distribution import Counts
from tallyveil.privacy.pld import pld_epsilon_of_counts
from tallyveil.privacy.several_releases import Cost

LARGEST_LOSS = 1000  # of all measurements together; distributions beyond it do not fit into memory
LARGEST_SCALE = 10**5  # of the noise
SMALLEST_DELTA = 1e-12  # below it the rounding errors of the convolutions matter
MOST_COMBINATIONS = 300  # each takes some hundredths of a second
STEP = 1e-3  # of the loss; a coarser step errs upwards


def pld_epsilon_together(costs: Sequence[Cost], delta: Fraction) -> tuple[float | None, str | None]:
    """Return the joint epsilon at a delta; or None and why it cannot be computed. Every cost counts.

    >>> pairs = (((Fraction(1, 2), 2),),)                 # two counts differ
    >>> one = Cost(name="a", accountant="pure", loss=Fraction(1), neighbours="replace-one", pairs=pairs)
    >>> pld_epsilon_together([one] * 2, Fraction(1, 10**10))[0] <= 2.001
    True
    """
    unknown = next((cost.name for cost in costs if cost.pairs is None), None)
    if unknown is not None:
        return None, f"the noise of {unknown} is not known, or a person has several records in it"
    costs = [cost for cost in costs if cost.pairs]  # the others tell no neighbours apart
    pairs = [cost.pairs or () for cost in costs]
    scales = [
        math.sqrt(p) if c.accountant == "zcdp" else 1 / float(p) for c in costs for k in c.pairs or () for p, _ in k
    ]
    if max(scales, default=0.0) > LARGEST_SCALE:
        return None, f"noise with a scale of {max(scales):,.0f} is too wide (the limit is {LARGEST_SCALE:,})"
    if sum((cost.loss for cost in costs), Fraction(0)) > LARGEST_LOSS:
        return None, f"the losses add up to more than {LARGEST_LOSS:,}"
    if delta < SMALLEST_DELTA:
        return None, f"delta {float(delta)} is below {SMALLEST_DELTA:g}, where rounding errors count"
    if math.prod(len(one) for one in pairs) > MOST_COMBINATIONS:
        return None, "the only-child rule makes too many combinations of pairs to compose"
    if not costs:
        return 0.0, None
    if all(cost.accountant == "zcdp" for cost in costs):  # as one release is accounted for, so limits can be reached
        together = tuple(dict.fromkeys(map(_merged, product(*pairs))))
        return pld_epsilon_of_counts(together, sum((cost.loss for cost in costs), Fraction(0)), delta), None
    made: dict[tuple[str, Fraction], Any] = {}
    composed = [
        [_composed(cost.accountant, pair, made) for pair in one] for cost, one in zip(costs, pairs, strict=True)
    ]
    whole = (reduce(lambda a, b: a.compose(b), parts) for parts in product(*composed))
    return max(float(one.get_epsilon_for_delta(float(delta))) for one in whole), None


def _merged(parts: tuple[Counts, ...]) -> Counts:
    """The counts of several measurements that differ."""
    return tuple(sorted(reduce(add, (Counter(dict(part)) for part in parts)).items()))


def _composed(accountant: str, pair: Counts, made: dict[tuple[str, Fraction], Any]) -> Any:
    for parameter, _ in pair:
        if (accountant, parameter) not in made:
            made[accountant, parameter] = _of_one_count(accountant, parameter)
    parts = (made[accountant, parameter].self_compose(times) for parameter, times in sorted(pair))
    return reduce(lambda a, b: a.compose(b), parts)


def _of_one_count(accountant: str, parameter: Fraction) -> Any:
    """The privacy loss distribution of one count that differs by one; parameters are rounded towards more loss."""
    from dp_accounting.pld import privacy_loss_distribution as distribution

    if accountant == "pure":
        z = math.nextafter(float(parameter), math.inf)
        return distribution.from_discrete_laplace_mechanism(
            z, value_discretization_interval=STEP, use_connect_dots=True
        )
    scale = math.nextafter(math.sqrt(parameter), 0.0)
    return distribution.from_discrete_gaussian_mechanism(
        scale, value_discretization_interval=STEP, use_connect_dots=True
    )
