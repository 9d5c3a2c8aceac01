"""What several measurements of the same people cost together, with the arithmetic in words.

Costs of one kind add up: epsilon to epsilon, rho to rho. If both kinds occur, two bounds hold and the smaller is used:
either all count as zCDP (a pure epsilon is zCDP with rho = epsilon^2 / 2, Theorem 2 of kazan2022), or the pure epsilons
are added to the epsilon of the sum of rho (Theorem 3). Releases made from one measurement cost it once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

from tallyveil.errors import BudgetError
from tallyveil.privacy.budget import Number, exact_delta, rounded_up, text, up_to_digits
from tallyveil.privacy.conversions import epsilon_from_rho
from tallyveil.privacy.guarantee import Account, account_of_loss, account_of_rho
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.loss_distribution import Counts
from tallyveil.privacy.neighbour_pairs import noise_of_pairs


@final
@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a measurement costs every person in it.

    Attributes
    ----------
    name
        The release that it was measured for.
    accountant, loss
        ``"pure"`` and an epsilon, or ``"zcdp"`` and a rho: the largest loss between neighbouring datasets.
    neighbours
        The strategy's neighbours.
    delta
        The delta at which the release reports epsilon (zCDP).
    measurement
        The identifier of the measurement, if it is known.
    pairs
        The noise of the counts that differ by one, for each pair of neighbours that matters; None if it is unknown, or
        a person can have several records.
    """

    name: str
    accountant: Literal["pure", "zcdp"]
    loss: Fraction
    neighbours: str
    delta: Fraction | None = None
    measurement: str | None = None
    pairs: tuple[Counts, ...] | None = None

    def in_words(self) -> str:
        """The cost in the unit of its kind."""
        return f"{'epsilon' if self.accountant == 'pure' else 'rho'} {short(self.loss)}"

    def same_measurement(self, other: Cost) -> bool:
        """Whether both are one measurement: the identifiers are equal, and so are the guarantees."""
        if self.measurement is None or self.measurement != other.measurement:
            return False
        mine, theirs = ((c.accountant, c.loss, c.neighbours, c.pairs) for c in (self, other))
        return mine == theirs


@final
@dataclass(frozen=True, kw_only=True)
class Together:
    """The joint guarantee of several measurements, and how it was computed.

    ``epsilon`` is that of the account before it is rounded up to a float, which the sum of pure epsilons is not in
    general; ``how`` names the theorems; ``reason`` says for readers why; ``steps`` is the arithmetic, line by line.
    """

    account: Account
    epsilon: Fraction
    how: str
    reason: str
    steps: tuple[str, ...]
    counted: tuple[Cost, ...]


def cost_of(name: str, loss: Loss, measurement: str | None = None) -> Cost:
    """The cost of a measurement, from its strategy and the spine that was measured."""
    gaussian = loss.strategy.mechanism == "gaussian"
    return Cost(
        name=name,
        accountant="zcdp" if gaussian else "pure",
        loss=loss.in_all(),
        neighbours=loss.strategy.neighbours,
        delta=loss.strategy.delta if gaussian else None,
        measurement=measurement,
        pairs=noise_of_pairs(loss) if loss.rows_per_person == 1 else None,
    )


def account_together(losses: Sequence[Loss], *, delta: Number | None = None) -> tuple[Account, str]:
    """Return the joint guarantee of several measurements of the same people, and how it was computed.

    >>> from tallyveil.privacy.strategy import Strategy
    >>> plan = Strategy.preset("e2e-2018", epsilon=1)
    >>> account_together([Loss(strategy=plan), Loss(strategy=plan.with_budget(epsilon="1/2"))])[0].epsilon
    1.5
    """
    if len(losses) == 1:
        (loss,) = losses
        return account_of_loss(loss, delta=delta), "one release"
    together = compose([cost_of(str(i), loss) for i, loss in enumerate(losses)], delta=delta)
    return together.account, together.how


def counted_once(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """The costs without those of measurements that are already among them."""
    counted: list[Cost] = []
    for cost in costs:
        if not any(cost.same_measurement(other) for other in counted):
            counted.append(cost)
    return tuple(counted)


def compose(costs: Sequence[Cost], *, delta: Number | None = None) -> Together:
    """Return what measurements of the same people guarantee together; each measurement counts once.

    >>> one, two = (Cost(name=name, accountant="pure", loss=Fraction(1, 2), neighbours="replace-one") for name in "ab")
    >>> compose([one, two]).steps
    ('epsilon 1/2 + 1/2 = 1 (pure)',)
    """
    counted = counted_once(costs)
    if not counted:
        raise BudgetError("no releases to add up. Give at least one.")
    refuse_mixed_neighbours(counted)
    pure = [cost.loss for cost in counted if cost.accountant == "pure"]
    rhos = [cost.loss for cost in counted if cost.accountant == "zcdp"]
    epsilon, rho = sum(pure, Fraction(0)), sum(rhos, Fraction(0))
    steps = [f"epsilon {_sum(pure)} (pure)"] if pure else []
    if not rho:
        how = f"the epsilons of {len(counted)} pure releases added" if len(counted) > 1 else "one release"
        reason = f"their epsilons add up, {_sum(pure)}"
        figures = Account(epsilon=rounded_up(epsilon))
        return Together(account=figures, epsilon=epsilon, how=how, reason=reason, steps=tuple(steps), counted=counted)
    delta_ = _common_delta(counted, delta)
    at = f"at delta {text(delta_)}"
    alone = epsilon_from_rho(rho, delta_)
    steps.append(f"rho {_sum(rhos)}: epsilon {up_to_digits(alone, 4)} {at} (Theorem 3)")
    if not pure:
        how = f"the rhos of {len(counted)} zCDP releases added" if len(counted) > 1 else "one release"
        reason = f"their rhos add up, {_sum(rhos)}, which gives this epsilon"
        figures = account_of_rho(rho, delta_)
        return _rounded(figures, how, reason, steps, counted)
    as_rho = rho + sum((one**2 / 2 for one in pure), Fraction(0))
    whole, separately = account_of_rho(as_rho, delta_), rounded_up(epsilon + Fraction(alone))
    squares = " + ".join(f"({short(one)})^2 / 2" for one in pure)
    steps.append(
        f"all as zCDP: rho {short(rho)} + {squares} = {short(as_rho)} (Theorem 2): epsilon "
        f"{up_to_digits(whole.epsilon, 4)} {at}"
    )
    steps.append(f"added: epsilon {short(epsilon)} + {up_to_digits(alone, 4)} = {up_to_digits(separately, 4)} {at}")
    if whole.epsilon <= separately:
        how = (
            "pure and zCDP releases mixed: each pure epsilon counted as rho = epsilon^2 / 2 (Theorem 2), rhos added "
            "and converted at delta (Theorem 3)"
        )
        reason = (
            f"a pure epsilon counts as rho = epsilon^2 / 2, and all rhos add up to {short(as_rho)}, which gives this "
            f"epsilon"
        )
        return _rounded(whole, how, reason, steps, counted)
    figures = Account(epsilon=separately, rho=whole.rho, delta=whole.delta, implied_epsilon=whole.implied_epsilon)
    how = (
        "pure and zCDP releases mixed: the pure epsilons added to the epsilon of the rhos' sum (Theorem 3; rho: all as "
        "zCDP, Theorem 2)"
    )
    reason = (
        f"epsilon {short(epsilon)} of the pure releases, and epsilon {up_to_digits(alone, 4)} of the others, whose "
        f"rhos add up to {short(rho)}"
    )
    return _rounded(figures, how, reason, steps, counted)


def refuse_mixed_neighbours(costs: Iterable[Cost]) -> None:
    """Refuse losses of different kinds, which can neither be added nor compared."""
    if len({cost.neighbours for cost in costs}) > 1:
        raise BudgetError(
            "some releases have replace-one neighbours and some add-or-remove: their losses are of different kinds and "
            "cannot be added. Account for each kind separately."
        )


def short(value: Fraction) -> str:
    """A fraction as it is, or as a decimal, rounded up, where it is long.

    >>> short(Fraction(3, 10)), short(Fraction(1000, 3333))
    ('3/10', '0.3001')
    """
    exactly = text(value)
    return exactly if len(exactly) <= 7 else up_to_digits(rounded_up(value), 4)


def kinds_of(losses: Iterable[Loss]) -> set[str]:
    """The mechanisms of several measurements: one kind, whose budgets add up, or two."""
    return {loss.strategy.mechanism for loss in losses}


def _rounded(figures: Account, how: str, reason: str, steps: Sequence[str], counted: tuple[Cost, ...]) -> Together:
    """A joint guarantee whose epsilon is a float to begin with."""
    exactly = Fraction(figures.epsilon) if math.isfinite(figures.epsilon) else Fraction(10) ** 400
    return Together(account=figures, epsilon=exactly, how=how, reason=reason, steps=tuple(steps), counted=counted)


def _common_delta(costs: Sequence[Cost], delta: Number | None) -> Fraction:
    if delta is not None:
        return exact_delta(delta)
    deltas = {cost.delta for cost in costs if cost.delta is not None}
    if len(deltas) != 1:
        listed = ", ".join(f"{float(value):g}" for value in sorted(deltas)) or "none is known"
        raise BudgetError(f"the releases report at different deltas ({listed}). Choose one: --delta 1e-10")
    return deltas.pop()


def _sum(parts: Sequence[Fraction]) -> str:
    """A sum as it is written by hand; equal parts are counted."""
    times = Counter(parts)
    written = " + ".join(
        f"{n} x {short(part)}" if n > 3 else " + ".join([short(part)] * n) for part, n in times.items()
    )
    return written if len(parts) == 1 else f"{written} = {short(sum(parts, Fraction(0)))}"
