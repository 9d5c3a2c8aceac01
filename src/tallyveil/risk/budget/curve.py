"""Risk and error side by side, along a curve of budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.errors import InputError
from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.conversions import epsilon_from_rho
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.strategy import REPORTING_DELTA, Mechanism, Strategy
from tallyveil.risk.budget.exposures import intruders_of, strategy_noises, unit_noises
from tallyveil.risk.budget.intervals import at_budget
from tallyveil.risk.target.attacks import Attack
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.several import Several
from tallyveil.risk.target.several_counts import exposure_of

NOISE = "noise_mean_abs"  # prefix of the columns with the error of noisy counts before post-processing


def curve(
    budgets: Iterable[Number],
    *,
    priors: Iterable[Number | Intruder],
    mechanism: Mechanism = "gaussian",
    strategy: Strategy | None = None,
    level: str | None = None,
    queries: Iterable[str] | None = None,
    attack: Attack | None = None,
    levels: Sequence[str] | None = None,
    unknown: int = 0,
    share: Number | None = None,
) -> pd.DataFrame:
    """A row for each budget and prior: what the intruder learns, and the expected absolute error of noisy counts.

    The columns are ``budget``, ``epsilon`` (for a Gaussian budget, at the strategy's delta or at 1e-10), ``prior``,
    ``posterior`` (Eq. 14), ``risk`` (Eq. 15) and ``right_decision`` (Eq. 18). They are followed by ``noise_mean_abs``
    for a single count. For a strategy, there is a column for the detailed and total counts of each level, such as
    ``noise_mean_abs:detailed@block``, as they are measured before post-processing.

    ``attack`` is what the intruder wants to know and the queries they use (``queries`` is short for it), and ``levels``
    are the levels whose counts they use together. ``unknown`` is the number of people besides the target whom they do
    not know, each of whom is counted like the target with probability ``share`` (the prior by default).

    >>> curve(["0.0992"], priors=["1/2"]).round(3).iloc[0].to_dict()  # doctest: +NORMALIZE_WHITESPACE
    {'budget': 0.099, 'epsilon': 2.87, 'prior': '1/2', 'posterior': 0.524, 'risk': 1.047, 'right_decision': 0.589,
     'noise_mean_abs': 1.761}
    """
    intruders = intruders_of(priors)
    if strategy is None:
        noises = unit_noises(mechanism) * (1 if attack is None else attack.rows)
    else:
        noises = strategy_noises(strategy, level, queries, attack=attack, levels=levels)
    if not noises:
        raise InputError("no measured query tells the hypotheses of this attack apart at these levels. Name others.")
    gaussian = (mechanism if strategy is None else strategy.mechanism) == "gaussian"
    delta = REPORTING_DELTA if strategy is None else strategy.delta
    rows = []
    for number in budgets:
        budget = exact(number, "budget")
        if strategy is None:
            errors = {NOISE: mean_abs(at_budget(noises, budget)[0])}
        else:
            errors = _errors(strategy.with_budget(**{strategy.unit: budget}))
        counts = at_budget(noises, budget)
        for intruder in intruders:
            exposed = exposure_of(Several(intruder=intruder, others=unknown, share=share), counts)
            rows.append(
                {
                    "budget": float(budget),
                    "epsilon": epsilon_from_rho(budget, delta) if gaussian else float(budget),
                    "prior": text(Fraction(intruder.prior)),
                    "posterior": exposed.marginal_posterior,
                    "risk": exposed.risk,
                    "right_decision": exposed.right_decision,
                    **errors,
                }
            )
    return pd.DataFrame(rows)


def mean_abs(noise: CountNoise) -> float:
    """The expected absolute value of the noise.

    >>> from tallyveil.privacy import DiscreteGaussian
    >>> round(mean_abs(Geometric(z=1)), 4), round(mean_abs(DiscreteGaussian(variance=1)), 4)
    (0.8509, 0.7276)
    """
    if isinstance(noise, Geometric):
        z = float(noise.z)
        return 1 / math.sinh(z) if z < 700 else 0.0
    s = float(noise.variance)
    if s > 1e4:  # Euler-Maclaurin: the sum of k exp(-k^2 / 2s) over k >= 1 is s - 1/12 - 1/(240 s) - ...
        return 2 * (s - 1 / 12 - 1 / (240 * s)) / math.sqrt(2 * math.pi * s)
    k = np.arange(1, 39 * math.ceil(math.sqrt(s)) + 2, dtype=np.float64)
    return float(2 * (k * noise.pmf(k)).sum())


def _errors(strategy: Strategy) -> dict[str, float]:
    return {
        f"{NOISE}:{query}@{level}": mean_abs(strategy.noise(level, query))
        for level, measured in strategy.queries.items()
        for query in (DETAILED, TOTAL)
        if query in measured
    }
