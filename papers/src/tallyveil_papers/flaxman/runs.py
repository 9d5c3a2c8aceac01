"""The mechanisms of flaxman2019 and their budgets in Figure 1, run on its population.

The author's run: a million persons, 100 in an area on average, three nested levels, so 21 children each and 9,261
areas (N and mu are in his notebook, not in the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.mechanisms import averaged, geometric, raked
from tallyveil.nouns.histogram import Histogram

LEAF = "level3"
PARTS = 4  # P, and J + 1
RUNS = 40  # of the less obvious estimate; the author has one
LESS_OBVIOUS: Mapping[str, Any] = {"bandwidth": 0.15, "multiplier": 2, "tails": "both", "grid": "integers"}
BUDGETS = {"geometric": 0.025, "averaged": 0.05, "raked": 0.1}  # Figure 1
NAMES = {"geometric": "GDPC", "averaged": "ADPC", "raked": "RDPC"}


def run(name: str, people: Histogram, epsilon: Any, *, seed: int, runs: range) -> Any:
    """Run one of the three mechanisms, looked up by name so that tests can replace it."""
    mechanism: Callable[..., Any] = {"geometric": geometric, "averaged": averaged, "raked": raked}[name]
    return mechanism(people, epsilon=epsilon, seed=seed, replicate=runs)


def noise_of(name: str, people: Histogram, epsilon: Any, *, seed: int, runs: int, leaf: str = LEAF) -> NDArray[Any]:
    """The residuals of all finest areas, one row for each run."""
    released = run(name, people, epsilon, seed=seed, runs=range(runs)).answer("total", level=leaf)[:, :, 0]
    return np.asarray(released - people.answer("total", level=leaf).dense()[:, 0])


def label(name: str) -> str:
    """A mechanism and its budget in Figure 1."""
    return f"{NAMES[name]}, budget {BUDGETS[name]:g}"
