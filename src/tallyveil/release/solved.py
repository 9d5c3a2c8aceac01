"""How TopDown solved each level: what the observed part of a certificate reports."""

from __future__ import annotations

from dataclasses import dataclass


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
    informed
        Parents whose children were estimated from what the levels below say, too (``estimator = "tree"``).
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
    informed: int = 0
    flows: int = 0
    programs: int = 0
    gap: float = 0.0
    distance: float = 0.0
    violation: float = 0.0
    relaxed: tuple[Relaxed, ...] = ()
