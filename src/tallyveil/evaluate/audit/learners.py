"""A learned statistic: the score of a classifier that tells runs on D from runs on D'.

The log-odds of a classifier estimate the log ratio of the two likelihoods of a run, and if the estimate is right, the
events {score >= k} are the best of their size (Neyman & Pearson, 1933). Boosted trees find interactions of several
counts that sums and quadrants miss. They come from scikit-learn, which is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, final

import numpy as np
from threadpoolctl import threadpool_limits

from tallyveil.errors import InputError
from tallyveil.evaluate.audit.events import Values

Learner = Literal["linear", "trees"]
LEARNERS: tuple[Learner, ...] = ("linear", "trees")
ROUNDS, LEAVES, SMALLEST = 60, 15, 20  # trees; leaves of a tree; runs in a leaf


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TreeScore:
    """The log-odds of D against D' that boosted trees give a run."""

    model: Any

    def of(self, values: Values) -> Values:
        """The score of each run."""
        with threadpool_limits(1):
            return np.asarray(self.model.decision_function(values))

    def whole(self) -> bool:
        """False: hardly any score occurs twice."""
        return False

    def words(self, names: Sequence[str]) -> str:
        """The score in words, for these names of the views."""
        return f"the boosted trees' log-odds of D against D', from {', '.join(names)},"


def fit_trees(one: Values, two: Values) -> TreeScore:
    """Boosted trees that tell the runs ``one`` (on D) from the runs ``two`` (on D'), fitted on one thread."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=ROUNDS, max_leaf_nodes=LEAVES, min_samples_leaf=SMALLEST, early_stopping=False, random_state=0
    )
    with threadpool_limits(1):
        model.fit(np.concatenate([one, two]), np.repeat([1, 0], [len(one), len(two)]))
    return TreeScore(model=model)


def check_learner(learner: str) -> None:
    """Refuse a learner that is unknown or not installed."""
    if learner not in LEARNERS:
        raise InputError(f'learner must be "linear" or "trees". Got {learner!r} instead.')
    if learner == "trees" and find_spec("sklearn") is None:
        raise InputError(
            "the learner trees needs scikit-learn, which is not installed. Install it with "
            'pip install "tallyveil[learners]", or use the linear learner.'
        )
