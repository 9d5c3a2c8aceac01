"""Mechanisms as functions of people and run numbers, for audits and simulations, and the epsilon proven for each.

They can be sent to other processes. They stand above the engine, the mechanisms and the evaluations, which do not know
of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any, Literal, final

from tallyveil.engine.constraints import check_counts, declared_limits, possible_cells
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.mechanisms.averaged import averaged
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.measure import exact_answers, measure
from tallyveil.mechanisms.raked import raked
from tallyveil.mechanisms.sampling import sample
from tallyveil.mechanisms.swapping import swap
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL
from tallyveil.privacy import Invariant, RunKey, Strategy, account_of
from tallyveil.privacy.budget import Number, rounded_up
from tallyveil.privacy.strategy import Neighbours
from tallyveil.privacy.strategy_toml import strategy_to_toml

Simple = Literal["geometric", "raked", "averaged"]
SIMPLE: dict[str, Callable[..., Estimates]] = {"geometric": geometric, "raked": raked, "averaged": averaged}


@final
@dataclass(frozen=True, kw_only=True)
class TopDownRuns:
    """TopDown's two steps, ``measure`` and ``topdown``: what ``protect`` releases, without its certificate."""

    strategy: Strategy
    facilities: Facilities | None
    seed: int
    delta: float

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours that the strategy protects."""
        return self.strategy.neighbours

    def __call__(self, people: Histogram, runs: range) -> Iterator[Histogram]:
        """The releases of some runs, one by one."""
        key = RunKey.from_seed(self.seed)
        for run in runs:
            noisy = measure(people, self.strategy, key, replicate=run)
            yield topdown(noisy, facilities=self.facilities)[0]

    def proven(self, people: Histogram, other: Histogram) -> float:
        """The epsilon that is proven for these neighbours at ``delta``; an error where none is."""
        moved = people.total() == other.total()
        if not moved and self.strategy.neighbours == "replace-one":
            raise InputError(
                "the strategy is for replace-one neighbours: the number of people is exact, so removing one shows. "
                "Compare with a person moved (--move)."
            )
        self._refuse_different_invariants(people, other)
        if self.strategy.check_constraints:
            self.check(people, whose="the data")
            self.check(other, whose="the neighbour")
        budget = self.strategy.budget * (2 if moved and self.strategy.neighbours == "add-or-remove" else 1)
        scaled = self.strategy.with_budget(**{self.strategy.unit: budget})
        epsilon = account_of(scaled, delta=self.delta or None, pld=False).epsilon
        assert epsilon is not None
        return epsilon

    def check(self, people: Histogram, *, whose: str) -> None:
        """Refuse people whose counts break a constraint of the strategy; nothing is measured."""
        exact = exact_answers(people, self.strategy)
        limits = declared_limits(people.spine, people.schema, self.strategy, exact=exact, facilities=self.facilities)
        check_counts(people, limits, possible_cells(people.schema, self.strategy), whose=whose)

    def settings(self) -> dict[str, Any]:
        """What the runs depend on besides the data; the strategy's shares are public, and so is their digest."""
        shares = strategy_to_toml(self.strategy.with_budget(**{self.strategy.unit: 1}))
        return {
            "mechanism": "topdown",
            "budget": f"{self.strategy.unit} {self.strategy.budget}",
            "seed": self.seed,
            "strategy": sha256(shares.encode()).hexdigest()[:12],
        }

    def _refuse_different_invariants(self, people: Histogram, other: Histogram) -> None:
        for constraint in self.strategy.constraints:
            if isinstance(constraint, Invariant):
                one, two = (side.answer(constraint.query, level=constraint.level) for side in (people, other))
                if one != two:
                    raise InputError(
                        f"the neighbours differ in an invariant ({constraint.words()}); the guarantee is for "
                        f"neighbours that agree on all invariants. Move the person within one {constraint.level} "
                        f"(--move)."
                    )


@final
@dataclass(frozen=True, kw_only=True)
class SimpleRuns:
    """A mechanism of flaxman2019 whose epsilon holds for these ``neighbours``."""

    name: Simple
    epsilon: Fraction
    query: str
    neighbours: Neighbours
    seed: int
    delta: float = 0.0

    @property
    def facilities(self) -> None:
        """None: these mechanisms have no bounds."""

    def __call__(self, people: Histogram, runs: range) -> Estimates:
        """The noisy counts of some runs."""
        return SIMPLE[self.name](
            people,
            epsilon=self.epsilon,
            query=self.query,
            neighbours=self.neighbours,
            seed=self.seed,
            replicate=runs,
        )

    def proven(self, people: Histogram, other: Histogram) -> float:
        """The epsilon that is proven for these neighbours (erratum 10): moving a person changes two counts, not one."""
        moved = people.total() == other.total()
        z = self.epsilon / (2 if self.neighbours == "replace-one" else 1)
        if moved and self.name == "raked" and people.schema.query(self.query).name == TOTAL:
            levels = len(people.spine.levels)  # the root's total is the same
            return rounded_up(2 * z * Fraction(levels - 1, levels))
        return rounded_up(2 * z if moved else z)

    def settings(self) -> dict[str, Any]:
        """What the runs depend on besides the data."""
        budget = f"epsilon {self.epsilon}"
        return {"mechanism": self.name, "budget": budget, "seed": self.seed, "holds for": self.neighbours}


@final
@dataclass(frozen=True, kw_only=True)
class SampleRuns:
    """Simple random samples; the released counts are those of the sample. No epsilon is proven for them."""

    fraction: Number
    seed: int
    facilities: None = None

    def __call__(self, people: Histogram, runs: range) -> Iterator[Histogram]:
        """The sample of each run."""
        return (sample(people, self.fraction, seed=self.seed, replicate=run).people for run in runs)

    def settings(self) -> dict[str, Any]:
        """What the runs depend on besides the data."""
        return {"mechanism": "sample", "fraction": str(self.fraction), "seed": self.seed}


@final
@dataclass(frozen=True, kw_only=True)
class SwapRuns:
    """Swapping of similar people between leaves. No epsilon is proven for it."""

    rate: Number
    match: str
    level: str
    seed: int
    facilities: None = None

    def __call__(self, people: Histogram, runs: range) -> Iterator[Histogram]:
        """The counts after swapping, run by run."""
        for run in runs:
            yield swap(people, rate=self.rate, match=self.match, level=self.level, seed=self.seed, replicate=run).people

    def settings(self) -> dict[str, Any]:
        """What the runs depend on besides the data."""
        return {"mechanism": "swap", "rate": str(self.rate), "match": self.match, "level": self.level,
                "seed": self.seed}  # fmt: skip
