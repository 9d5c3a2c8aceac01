"""The epsilon of a Gaussian strategy from its privacy loss distribution, which is tighter than the one from rho.

Between neighbouring datasets the counts along two paths of the spine differ by one each (one path for add-or-remove
neighbours). Each count is a discrete Gaussian mechanism with sensitivity 1, and the distributions of their losses are
composed (dp-accounting, pessimistic estimate). Paths differ if the only-child rule moved a share, so every pair of
kinds of paths is composed and the largest epsilon is reported.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import combinations_with_replacement
from typing import Any

from tallyveil.privacy.conversions import epsilon_from_rho, implied_epsilon
from tallyveil.privacy.loss import AnyNoise, Loss

LARGEST_RHO = 1000  # far beyond any use; the distribution grows with rho and does not fit into memory at 10^9
LARGEST_SCALE = 10**5  # of the noise; the distribution has a dozen points per unit of scale
SMALLEST_DELTA = 1e-12  # below it the rounding errors of the convolutions matter
MOST_PAIRS = 300  # of kinds of paths; each takes some hundredths of a second


def pld_epsilon(loss: Loss, delta: Fraction) -> tuple[float | None, str | None]:
    """Return epsilon at a delta, at most the one that rho implies; or None and why it cannot be computed.

    >>> from tallyveil.privacy.strategy import Strategy
    >>> plan = Strategy(mechanism="gaussian", budget=1, levels={"us": 1}, queries={"us": {"detailed": 1}})
    >>> round(pld_epsilon(Loss(strategy=plan), Fraction(1, 10**6))[0], 2)
    7.0
    """
    rho, kinds = loss.in_all(), [kind for kind in loss.paths() if kind]
    twice = loss.strategy.neighbours == "replace-one"
    pairs = list(combinations_with_replacement(range(len(kinds)), 2)) if twice else [(i,) for i in range(len(kinds))]
    widest = max((math.sqrt(noise.parameter) for kind in kinds for noise in kind), default=0.0)
    if not kinds:
        return 0.0, None
    if rho > LARGEST_RHO:
        return None, f"rho is above {LARGEST_RHO:,}"
    if widest > LARGEST_SCALE:
        return None, f"noise with a standard deviation of {widest:,.0f} is too wide (the limit is {LARGEST_SCALE:,})"
    if delta < SMALLEST_DELTA:
        return None, f"delta {float(delta):g} is below {SMALLEST_DELTA:g}, where rounding errors count"
    if len(pairs) > MOST_PAIRS:
        return None, f"the only-child rule makes {len(kinds)} kinds of paths, too many to compose in pairs"
    return min(_worst(tuple(kinds), tuple(pairs), rho, delta), epsilon_from_rho(rho, delta)), None


@lru_cache(maxsize=16)  # replicates of a run need the same value
def _worst(
    kinds: tuple[tuple[AnyNoise, ...], ...], pairs: tuple[tuple[int, ...], ...], rho: Fraction, delta: Fraction
) -> float:
    """Return the largest epsilon over pairs of kinds of paths."""
    step = min(1e-3, implied_epsilon(rho) / 2000)  # of the loss; a coarser step errs upwards
    of_one_count = _distributions(step)
    composed = [_composed(kind, of_one_count) for kind in kinds]
    whole = (reduce(lambda one, other: one.compose(other), (composed[i] for i in pair)) for pair in pairs)
    return max(float(distribution.get_epsilon_for_delta(float(delta))) for distribution in whole)


def _distributions(step: float) -> Callable[[Fraction], Any]:
    """Return a function from the variance of a count's noise to its privacy loss distribution, which it caches."""
    from dp_accounting.pld import privacy_loss_distribution

    made: dict[Fraction, Any] = {}

    def of(variance: Fraction) -> Any:
        if variance not in made:
            scale = math.nextafter(math.sqrt(variance), 0.0)
            made[variance] = privacy_loss_distribution.from_discrete_gaussian_mechanism(
                scale, value_discretization_interval=step, use_connect_dots=True
            )
        return made[variance]

    return of


def _composed(noises: Iterable[AnyNoise], of: Callable[[Fraction], Any]) -> Any:
    """Compose the distributions of all counts of a path, narrow ones first because they compose faster."""
    times = Counter(noise.parameter for noise in noises)
    parts = (of(variance).self_compose(times[variance]) for variance in sorted(times, reverse=True))
    return reduce(lambda one, other: one.compose(other), parts)
