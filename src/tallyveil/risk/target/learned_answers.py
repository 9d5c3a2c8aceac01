"""The posterior given many released answers, learned from runs of two hypotheses.

The log odds are taken to be a sum of lines, one for each answer. That is what they are for Gaussian measurements (Eq.
11 of kazan2022), and an approximation after post-processing. Answers are many and correlated, so the weights are shrunk
towards 0, as far as it helps to predict runs that they were not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, logit

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.risk.target.learned import logistic

STRENGTHS = 4.0 ** np.arange(-1, 8)  # of shrinking
FOLDS = 4


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedAnswers:
    """Log odds as a sum of lines, learned from runs of both hypotheses."""

    centre: Floats
    scale: Floats
    weights: Floats
    strength: float

    @classmethod
    def from_runs(cls, has: Integers, has_not: Integers) -> LearnedAnswers:
        """Learn from runs with the target and equally many without."""
        both, is_target = np.concatenate([has, has_not]), np.repeat([1.0, 0.0], [len(has), len(has_not)])
        centre, scale = (has.mean(axis=0) + has_not.mean(axis=0)) / 2, both.std(axis=0)
        scale[scale == 0] = 1.0  # an answer that never changes has no weight
        terms = (both - centre) / scale
        fold = np.concatenate([np.arange(len(has)), np.arange(len(has_not))]) % FOLDS
        scores = [sum(_score(terms, is_target, fold == i, strength) for i in range(FOLDS)) for strength in STRENGTHS]
        best = float(STRENGTHS[int(np.argmax(scores))])
        return cls(centre=centre, scale=scale, weights=logistic(terms, is_target, best), strength=best)

    def posterior(self, rows: Integers, prior: float) -> Floats:
        """The posterior for each row of answers."""
        result: Floats = expit(((rows - self.centre) / self.scale) @ self.weights + logit(prior))
        return result


def _score(terms: Floats, is_target: Floats, held_out: Bools, strength: float) -> float:
    """Log likelihood of the runs that are held out, with weights learned from the others."""
    weights = logistic(terms[~held_out], is_target[~held_out], strength)
    odds = terms[held_out] @ weights
    return float(-np.logaddexp(0.0, np.where(is_target[held_out] == 1, -odds, odds)).sum())
