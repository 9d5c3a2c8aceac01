"""What is published: protected counts, the strategy that made them, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tallyveil._frozen import Frozen
from tallyveil.errors import SecretError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements, SavedAnswers


@dataclass(frozen=True, kw_only=True)
class Relaxed:
    """A parent whose constraints could not all hold: its counts were changed by ``amount`` persons in all."""

    unit: str
    amount: int
    constraints: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Solved:
    """How a level was estimated and rounded: which paths were taken, and how near the optimum is.

    Attributes
    ----------
    level
        The level that was estimated (the children's).
    parents
        How many parents had their children estimated: the sum of ``fast`` and ``general``.
    copied, empty
        Parents whose only child copied them, and parents with nobody in them.
    fast, general
        Parents solved by the fast path, and by a general solver because the fast path could not certify them.
    flows, programs
        Parents rounded by a network flow, and by an integer program (all others by largest fractions).
    gap
        The largest certified bound on (objective - optimum) / max(1, optimum).
    distance
        The largest certified bound on the distance from the optimum, in persons.
    violation
        The largest violation of a constraint before rounding, in persons.
    relaxed
        Parents where a failsafe was needed.
    """

    level: str
    parents: int = 0
    copied: int = 0
    empty: int = 0
    fast: int = 0
    general: int = 0
    flows: int = 0
    programs: int = 0
    gap: float = 0.0
    distance: float = 0.0
    violation: float = 0.0
    relaxed: tuple[Relaxed, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """A protected histogram with its strategy and certificate; with its measurements, if they were kept.

    Attributes
    ----------
    histogram
        The protected counts.
    strategy
        The budget and how it was divided; None for counts made elsewhere without saying.
    certificate
        ``declared`` (public inputs only) and ``observed`` (computed from measurements alone).
    facilities
        The public counts of facilities, where bounds come from them.
    measurements
        The noisy answers that were kept: saved values, which cannot ask the truth.
    optimised
        The spine that was measured, where it is not the published one.
    """

    histogram: Histogram
    strategy: Strategy | None = None
    certificate: Mapping[str, Any] = field(default_factory=dict)
    facilities: Facilities | None = None
    measurements: Measurements | None = None
    optimised: OptimisedSpine | None = None

    def __post_init__(self) -> None:
        if self.measurements is not None and not isinstance(self.measurements.ask, SavedAnswers):
            raise SecretError(
                "these measurements can still ask the truth, and a release must not hold it. Keep saved values: "
                "measurements.saved([(query, level), ...])."
            )
        object.__setattr__(self, "certificate", Frozen(dict(self.certificate)))

    def __repr__(self) -> str:
        budget = f"{self.strategy.unit} {self.strategy.budget}" if self.strategy else "made elsewhere"
        return f"Release({self.histogram!r}, {budget})"
