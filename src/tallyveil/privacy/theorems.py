"""Which theorem of kazan2022 each conversion of a budget uses (section 2.1).

Theorem 2 takes pure epsilon-differential privacy to zero-concentrated differential privacy, with rho = epsilon^2 / 2.
Theorem 3 takes rho, at a delta, to (epsilon, delta)-differential privacy. They do not undo each other: epsilon 1 gives
rho 0.5 by Theorem 2, and rho 0.5 gives epsilon 6.839 at delta 1e-10 by Theorem 3. So each budget is shown with both,
and with a sentence that says which one applies to it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from tallyveil.errors import BudgetError
from tallyveil.privacy.budget import Number, exact, exact_delta, rounded_up
from tallyveil.privacy.conversions import rho_from_epsilon, rho_of_pure
from tallyveil.privacy.guarantee import Account
from tallyveil.privacy.strategy import REPORTING_DELTA

LARGEST = 1e150  # epsilon whose square is still a float


@final
@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One conversion of a budget.

    Attributes
    ----------
    theorem
        The number of the theorem in kazan2022.
    epsilon, delta, rho
        The budgets on its two sides; delta is 0 for pure differential privacy.
    guarantee
        Whether the conversion proves something. An implied epsilon does not: Theorem 2 holds in one direction only.
    words
        What was converted, in words.
    """

    theorem: int
    epsilon: float
    delta: float
    rho: float
    guarantee: bool
    words: str

    def as_json(self) -> dict[str, Any]:
        """The conversion under its JSON keys."""
        return asdict(self)


def conversions_of(figures: Account, *, delta: Number = REPORTING_DELTA) -> list[Conversion]:
    """Theorem 3, then Theorem 2, for the figures of a rho or a strategy. Pure figures have no delta: it is given.

    >>> from tallyveil.privacy.guarantee import account_of_rho
    >>> [(one.theorem, round(one.epsilon, 3), one.guarantee) for one in conversions_of(account_of_rho("1/2"))]
    [(3, 6.839, True), (2, 1.0, False)]
    """
    if figures.rho is None or figures.delta is None or figures.implied_epsilon is None:
        return _of_pure(figures.epsilon, delta) if 0 < figures.epsilon < LARGEST else []
    return [
        Conversion(
            theorem=3,
            epsilon=figures.epsilon if figures.zcdp_epsilon is None else figures.zcdp_epsilon,
            delta=figures.delta,
            rho=figures.rho,
            guarantee=True,
            words="epsilon is the smallest that rho gives at delta (Eq. 7)",
        ),
        Conversion(
            theorem=2,
            epsilon=figures.implied_epsilon,
            delta=0.0,
            rho=figures.rho,
            guarantee=False,
            words="implied epsilon: the pure epsilon that would give rho; rho does not give it back",
        ),
    ]


def conversions_from_epsilon(figures: Account, epsilon: Number) -> list[Conversion]:
    """Both readings of an epsilon: at a delta (Theorem 3, inverted), and pure, with delta 0 (Theorem 2).

    >>> from tallyveil.privacy.guarantee import account_of_epsilon
    >>> [(one.theorem, round(one.rho, 4)) for one in conversions_from_epsilon(account_of_epsilon(1, "1e-10"), 1)]
    [(3, 0.0132), (2, 0.5)]
    """
    assert figures.rho is not None  # since account_of_epsilon
    assert figures.delta is not None
    return [_at_delta(figures.epsilon, figures.delta, figures.rho, guarantee=True), _pure(epsilon)]


def _of_pure(epsilon: float, delta: Number) -> list[Conversion]:
    """The conversions of a pure epsilon, which Theorem 3 does not apply to; it is left out where rho is too large."""
    try:
        rho = rho_from_epsilon(epsilon, delta)
    except BudgetError:
        return [_pure(epsilon)]
    return [_at_delta(epsilon, float(exact_delta(delta)), rho, guarantee=False), _pure(epsilon)]


def _at_delta(epsilon: float, delta: float, rho: float, *, guarantee: bool) -> Conversion:
    return Conversion(
        theorem=3,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        guarantee=guarantee,
        words="rho is the largest that gives epsilon at delta (Eq. 7, inverted)"
        + ("" if guarantee else "; it is not the rho of this budget, whose epsilon is pure"),
    )


def _pure(epsilon: Number) -> Conversion:
    return Conversion(
        theorem=2,
        epsilon=rounded_up(exact(epsilon, "epsilon")),
        delta=0.0,
        rho=rho_of_pure(epsilon),
        guarantee=True,
        words="rho is the one that a pure epsilon gives, epsilon^2 / 2",
    )
