"""How much an intruder learned: a posterior learned on one half of the runs is judged on the other (``simulated``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tallyveil._arrays import Floats, Integers

_CLAIMED = 0.5 + 1e-9  # posterior above which the target is claimed, strictly (Eq. 18)


class Posterior(Protocol):
    """What was learned from runs: the posterior of each row of released counts."""

    def posterior(self, rows: Integers, prior: float, /) -> Floats:
        """The posterior for each row."""


Learn = Callable[[Integers, Integers], Posterior]


def judged(has: Integers, has_not: Integers, learn: Learn, prior: float) -> dict[str, float]:
    """The figures and their standard errors: learned on each half of the runs and judged on the other."""
    runs, p = len(has), prior
    half = runs // 2
    squared, claimed, right = np.empty(runs), np.empty(runs), np.empty(runs)
    for taught, judge in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        learned = learn(has[taught], has_not[taught])
        q, q_not = (learned.posterior(side[judge], p) for side in (has, has_not))
        squared[judge] = 2 * q - q**2 - (1 - p) / p * q_not**2
        claimed[judge] = q > _CLAIMED
        right[judge] = p * claimed[judge] + (1 - p) * (q_not <= _CLAIMED)
    swing = abs(claimed[:half].mean() - claimed[half:].mean()) / 2
    return {
        "marginal_posterior": float(squared.mean()),
        "marginal_posterior_se": _standard_error(squared),
        "right_decision": float(claimed.mean()),
        "right_decision_se": max(_standard_error(claimed), float(swing)),
        "accuracy": float(right.mean()),
        "accuracy_se": _standard_error(right),
    }


def _standard_error(values: Floats) -> float:
    if np.ptp(values) == 0:  # an outcome that was not seen in n runs may still have a probability of about 1/n
        return 1 / len(values)
    return float(values.std(ddof=1) / np.sqrt(len(values)))
