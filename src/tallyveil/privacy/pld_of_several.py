"""The joint epsilon of several measurements from their privacy loss distributions, which is tighter than adding.

Neighbouring datasets differ by one in the counts along two paths of each spine (one path for add-or-remove neighbours).
The loss of each such count has a distribution, and these are composed (dp-accounting, pessimistic estimate). Paths of a
spine can be of several kinds, and it is unknown which kinds of two spines belong together, so every combination is
composed and the largest epsilon is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, product
from typing import Any

from tallyveil.privacy.several_releases import Cost

LARGEST_LOSS = 1000  # of all measurements together; distributions beyond it do not fit into memory
LARGEST_SCALE = 10**5  # of the noise
SMALLEST_DELTA = 1e-12  # below it the rounding errors of the convolutions matter
MOST_COMBINATIONS = 300  # each takes some hundredths of a second
STEP = 1e-3  # of the loss; a coarser step errs upwards


def pld_epsilon_together(costs: Sequence[Cost], delta: Fraction) -> tuple[float | None, str | None]:
    """Return the joint epsilon at a delta; or None and why it cannot be computed. Every cost counts.

    >>> paths = (((Fraction(1, 2), 1),),)
    >>> one = Cost(name="a", accountant="pure", loss=Fraction(1), neighbours="replace-one", paths=paths)
    >>> pld_epsilon_together([one] * 2, Fraction(1, 10**10))[0] <= 2.001
    True
    """
    unknown = next((cost.name for cost in costs if cost.paths is None), None)
    if unknown is not None:
        return None, f"the noise of {unknown} is not known"
    pairs = [list(_pairs(cost)) for cost in costs]
    scales = [
        math.sqrt(p) if c.accountant == "zcdp" else 1 / float(p) for c in costs for k in c.paths or () for p, _ in k
    ]
    if max(scales, default=0.0) > LARGEST_SCALE:
        return None, f"noise with a scale of {max(scales):,.0f} is too wide (the limit is {LARGEST_SCALE:,})"
    if sum((cost.loss for cost in costs), Fraction(0)) > LARGEST_LOSS:
        return None, f"the losses add up to more than {LARGEST_LOSS:,}"
    if delta < SMALLEST_DELTA:
        return None, f"delta {float(delta):g} is below {SMALLEST_DELTA:g}, where rounding errors count"
    if math.prod(len(one) for one in pairs) > MOST_COMBINATIONS:
        return None, "the only-child rule makes too many combinations of paths to compose"
    made: dict[tuple[str, Fraction], Any] = {}
    composed = [
        [_composed(cost.accountant, pair, made) for pair in one] for cost, one in zip(costs, pairs, strict=True)
    ]
    whole = (reduce(lambda a, b: a.compose(b), parts) for parts in product(*composed))
    return max(float(one.get_epsilon_for_delta(float(delta))) for one in whole), None


def _pairs(cost: Cost) -> Iterator[dict[Fraction, int]]:
    """The counts that differ between neighbours, by the parameter of their noise, for every pair of kinds of paths."""
    for kinds in combinations_with_replacement(cost.paths or (), 2 if cost.neighbours == "replace-one" else 1):
        times: dict[Fraction, int] = {}
        for parameter, n in (item for kind in kinds for item in kind):
            times[parameter] = times.get(parameter, 0) + n
        yield times


def _composed(accountant: str, times: dict[Fraction, int], made: dict[tuple[str, Fraction], Any]) -> Any:
    for parameter in times:
        if (accountant, parameter) not in made:
            made[accountant, parameter] = _of_one_count(accountant, parameter)
    parts = (made[accountant, parameter].self_compose(times[parameter]) for parameter in sorted(times))
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
