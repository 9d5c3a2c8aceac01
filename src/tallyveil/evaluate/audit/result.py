"""The result of an audit: a lower bound on epsilon, and how it compares with the proven epsilon."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, final

from tallyveil.evaluate.audit.search import Family
from tallyveil.privacy.budget import up

NOTE = (
    "A lower bound for these neighbours and the events searched, not an estimate of epsilon. Internal: it is computed "
    "from the true counts."
)


@final
@dataclass(frozen=True, kw_only=True)
class EventBound:
    """What one event says about epsilon, tested on runs that it was not chosen on.

    Attributes
    ----------
    epsilon_low
        Epsilon is at least this, with the audit's confidence.
    event, direction
        The event in words, and the neighbour on which it is likelier.
    p, q
        Frequencies of the event on the neighbour where it is likelier, and on the other.
    p_low, q_high
        Bounds on the probabilities that p and q estimate.
    """

    epsilon_low: float
    event: str
    direction: Literal["D over D'", "D' over D"]
    p: float
    p_low: float
    q: float
    q_high: float


@final
@dataclass(frozen=True, kw_only=True)
class Audit:
    """A lower bound on epsilon, and how it was obtained.

    Attributes
    ----------
    best
        Family of events that looked better on the runs for choosing; its bound is that of the audit.
    one_unit, joint, learned
        Bounds from events on one view, from events on several, and from the score of boosted trees if they were asked
        for. Each one holds with the stated confidence.
    neighbours
        The neighbours in words.
    proven
        The epsilon claimed for these neighbours at ``delta``, if given.
    runs
        Number of runs on each side, including both halves.
    """

    best: Family
    one_unit: EventBound | None
    joint: EventBound | None
    learned: EventBound | None = None
    neighbours: str
    proven: float | None
    runs: int
    confidence: float
    delta: float
    views: tuple[str, ...]

    @property
    def bound(self) -> EventBound:
        """The bound of the family that looked better on the runs for choosing."""
        bound = {"one-unit": self.one_unit, "joint": self.joint, "learned": self.learned}[self.best]
        assert bound is not None
        return bound

    @property
    def epsilon_low(self) -> float:
        """Epsilon is at least this, with the stated confidence."""
        return self.bound.epsilon_low

    @property
    def exceeds(self) -> bool:
        """Whether the bound is above what was proven."""
        return self.proven is not None and self.epsilon_low > self.proven

    @property
    def verdict(self) -> str:
        """How the bound compares with the proven epsilon, in words."""
        at_delta = f" at delta {self.delta}" if self.delta else ""
        if self.proven is None:
            return "no proven epsilon was given to compare with"
        if self.exceeds:
            return f"exceeds the proven epsilon {up(self.proven, digits=6)}{at_delta}: a bug or a wrong claim"
        return f"consistent with epsilon {up(self.proven, digits=6)}{at_delta}"

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        return {
            **asdict(self.bound),
            "proven": self.proven,
            "exceeds": self.exceeds,
            "verdict": self.verdict,
            "neighbours": self.neighbours,
            "runs": self.runs,
            "confidence": self.confidence,
            "delta": self.delta,
            "one_unit": None if self.one_unit is None else asdict(self.one_unit),
            "joint": None if self.joint is None else asdict(self.joint),
            "learned": None if self.learned is None else asdict(self.learned),
            "views": list(self.views),
            "note": NOTE,
        }
