"""What is minimised: a weighted sum, or a weighted geometric mean, of predicted mean squared errors.

For Gaussian noise, precisions are proportional to shares. Then the logarithm of a sum of variances is a convex function
of the shares (a variance is one over the least of linear functions of the information), and so are both objectives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

from tallyveil._arrays import Floats
from tallyveil.allocation.model import Model, Prediction
from tallyveil.allocation.precision import Pair
from tallyveil.errors import InputError

Kind = Literal["sum", "geometric"]


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """How the mean squared error of released counts follows the predicted one near a budget: factor * error^power."""

    factor: float = 1.0
    power: float = 1.0

    def __call__(self, square: float) -> float:
        """The error of released counts."""
        return float(self.factor * square**self.power)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """Weights by level and query, how they are combined, and corrections for what post-processing does."""

    weights: Mapping[Pair, float]
    kind: Kind
    corrections: Mapping[Pair, PowerLaw] = field(default_factory=dict)

    def value(self, model: Model, at: Prediction) -> tuple[float, dict[Pair, Floats]]:
        """The logarithm of the objective, and its gradient by the variances of nodes and rows."""
        squares = model.mean_squares(at)
        total = sum(self.weights.values())
        gradient: dict[Pair, Floats] = {}
        if self.kind == "geometric":
            value = 0.0
            for pair, weight in self.weights.items():
                law = self.corrections.get(pair, PowerLaw())
                value += weight / total * math.log(law(squares[pair]))
                gradient[pair] = model.mean_weights(pair) * (weight / total * law.power / squares[pair])
            return value, gradient
        terms = {pair: weight * self.corrections.get(pair, PowerLaw())(squares[pair])
                 for pair, weight in self.weights.items()}  # fmt: skip
        whole = sum(terms.values())
        for pair, term in terms.items():
            power = self.corrections.get(pair, PowerLaw()).power
            gradient[pair] = model.mean_weights(pair) * (term * power / squares[pair] / whole)
        return math.log(whole), gradient


def objective_of(model: Model, weights: Mapping[Pair, float] | None, kind: Kind | None) -> Objective:
    """The objective of some weights; by default, every query at every level counts the same, relative to its size.

    What is exact has no error to lower and is left out.
    """
    squares = model.mean_squares(model.predicted)
    if weights is None:
        wanted = dict.fromkeys(model.places, 1.0)
    else:
        wanted = dict(weights)
        for level, query in wanted:
            check_predicted(model, level, query)
        if any(not weight >= 0 or not math.isfinite(weight) for weight in wanted.values()):
            (level, query), weight = next((pair, w) for pair, w in wanted.items() if not w >= 0 or not math.isfinite(w))
            raise InputError(f"the weight of {query}@{level} must be 0 or more. Got {weight} instead.")
    known = {pair: weight for pair, weight in wanted.items() if weight > 0 and squares[pair] > 0}
    if not known:
        raise InputError(
            "no level and query with an error has a weight above 0, so any shares would do. Weigh at least one."
        )
    return Objective(weights=known, kind=kind or ("geometric" if weights is None else "sum"))


def check_predicted(model: Model, level: str, query: str) -> None:
    """Refuse a level and query that the measurements do not determine."""
    if (level, query) not in model.places:
        raise InputError(
            f"{query}@{level} is not determined by what the strategy measures, so its error cannot be predicted. "
            f"Measure {query} or detailed at level {level!r} or below, or name another query."
        )
