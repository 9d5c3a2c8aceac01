"""The posterior given a tuple of released counts, learned from runs of two hypotheses.

There are many tuples and most are rare, so the frequencies of a tuple are smoothed towards a fit. In the fit, the log
odds are a sum over levels of a line (kazan2022, Eq. 11: Gaussian noise), a step (Eq. 12: geometric noise) and a term
for 0, where post-processing piles up counts. The strength of smoothing maximises the likelihood of the same runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import betaln, expit

from tallyveil._arrays import Floats, Integers

STRENGTHS = 4.0 ** np.arange(10)  # of smoothing, in runs


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """The probability of the target given a tuple at even prior odds, learned from runs of both hypotheses."""

    known: Integers
    scale: Floats
    weights: Floats
    seen: dict[tuple[int, ...], tuple[int, int]]
    strength: float

    @classmethod
    def from_runs(cls, has: Integers, not_: Integers, known: Integers) -> Learned:
        """Learn from runs with the target and equally many without; ``known`` others are in the cell at each level."""
        both, is_target = np.concatenate([has, not_]), np.repeat([1.0, 0.0], [len(has), len(not_)])
        tuples, place = np.unique(both, axis=0, return_inverse=True)
        counts = np.stack([np.bincount(place.ravel()[is_target == side], minlength=len(tuples)) for side in (1, 0)])
        scale = np.maximum(both.std(axis=0), 1.0)
        weights = logistic(_terms(both, known, scale), is_target)
        fit = _fitted(tuples, known, scale, weights)
        likely = [  # log likelihood of the tuples' frequencies around the fit (beta-binomial)
            float((betaln(counts[0] + s * fit, counts[1] + s * (1 - fit)) - betaln(s * fit, s * (1 - fit))).sum())
            for s in STRENGTHS
        ]
        return cls(
            known=known,
            scale=scale,
            weights=weights,
            seen={tuple(row): (n[0], n[1]) for row, n in zip(tuples.tolist(), counts.T.tolist(), strict=True)},
            strength=float(STRENGTHS[int(np.argmax(likely))]),
        )

    def posterior(self, tuples: Integers, prior: float) -> Floats:
        """The posterior for each row."""
        fit = _fitted(tuples, self.known, self.scale, self.weights)
        seen = np.array([self.seen.get(row, (0, 0)) for row in map(tuple, tuples.tolist())]).reshape(-1, 2)
        even = (seen[:, 0] + self.strength * fit) / (seen.sum(axis=1) + self.strength)
        return np.asarray(prior * even / (prior * even + (1 - prior) * (1 - even)))


def _terms(tuples: Integers, known: Integers, scale: Floats) -> Floats:
    """The terms of the fit: a constant, and for each level a line, a step and a term for 0."""
    more = tuples - known
    return np.column_stack([np.ones(len(tuples)), (more - 0.5) / scale, more > 0, tuples == 0])


def _fitted(tuples: Integers, known: Integers, scale: Floats, weights: Floats) -> Floats:
    return np.asarray(np.clip(expit(_terms(tuples, known, scale) @ weights), 1e-9, 1 - 1e-9))


def logistic(terms: Floats, is_target: Floats, strength: float = 1.0) -> Floats:
    """Weights of a logistic regression by Newton's method, with a prior of variance 1/strength on each."""
    weights, ridge = np.zeros(terms.shape[1]), strength * np.eye(terms.shape[1])
    for _ in range(50):
        fit = expit(terms @ weights)
        slope = terms.T @ (is_target - fit) - strength * weights
        step = np.linalg.solve((terms * (fit * (1 - fit))[:, None]).T @ terms + ridge, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights
