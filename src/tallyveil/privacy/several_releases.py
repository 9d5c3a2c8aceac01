"""What several measurements of the same people cost together.

Costs of one kind add up: epsilon to epsilon, rho to rho. If both kinds occur, two bounds hold and the smaller is used:
either all count as zCDP (a pure epsilon is zCDP with rho = epsilon^2 / 2, Theorem 2 of kazan2022), or the pure epsilons
are added to the epsilon of the sum of rho (Theorem 3). Releases made from one measurement cost it once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, final

from tallyveil._frozen import Frozen
from tallyveil.errors import BudgetError
from tallyveil.privacy.budget import Number, exact_delta, rounded_up
from tallyveil.privacy.conversions import epsilon_from_rho
from tallyveil.privacy.guarantee import Account, account_of_rho
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
    content
        Digests of what the releases of one measurement have in common, by what they are of; none if it is unknown.
    """

    name: str
    accountant: Literal["pure", "zcdp"]
    loss: Fraction
    neighbours: str
    delta: Fraction | None = None
    measurement: str | None = None
    pairs: tuple[Counts, ...] | None = None
    content: Mapping[str, str] = field(default_factory=Frozen)

    def contradicts(self, other: Cost) -> str | None:
        """What shows that two releases with one identifier are not of one measurement; None if nothing does."""
        if self.measurement is None or self.measurement != other.measurement:
            return None
        return next((of for of, digest in self.content.items() if other.content.get(of, digest) != digest), None)

    def same_measurement(self, other: Cost) -> bool:
        """Whether both are one measurement: identifiers and guarantees are equal, and the contents agree."""
        if self.measurement is None or self.measurement != other.measurement or self.contradicts(other):
            return False
        mine, theirs = ((c.accountant, c.loss, c.neighbours, c.pairs) for c in (self, other))
        return mine == theirs


@final
@dataclass(frozen=True, kw_only=True)
class Together:
    """The joint guarantee of several measurements; :func:`tallyveil.privacy.sentences.composed` shows the arithmetic.

    Attributes
    ----------
    account, epsilon
        The guarantee, and its epsilon before it is rounded up to a float, which the sum of pure epsilons is not in
        general.
    delta, of_rhos, as_zcdp, separately
        For zCDP: the common delta, the epsilon of the sum of rho, that of all counted as zCDP (Theorem 2), and that of
        the pure epsilons added to the first.
    counted
        The measurements, each once.
    """

    account: Account
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    of_rhos: float = 0.0
    as_zcdp: float = 0.0
    separately: float = 0.0
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


def counted_once(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """The costs without those of measurements that are already among them."""
    counted: list[Cost] = []
    for cost in costs:
        if not any(cost.same_measurement(other) for other in counted):
            counted.append(cost)
    return tuple(counted)


def refuse_contradiction(cost: Cost, known: Iterable[Cost]) -> None:
    """Refuse a release that shares its identifier with another although they cannot be of one measurement."""
    for other in known:
        if (what := cost.contradicts(other)) is not None:
            raise BudgetError(
                f"{other.name} and {cost.name} have the same measurement identifier ({cost.measurement}) but differ in "
                f"{what.partition(',')[0]}: the certificate of one was changed. Ask for the original, or leave it out."
            )


def compose(costs: Sequence[Cost], *, delta: Number | None = None) -> Together:
    """Return what measurements of the same people guarantee together; each measurement counts once.

    >>> one, two = (Cost(name=name, accountant="pure", loss=Fraction(1, 2), neighbours="replace-one") for name in "ab")
    >>> compose([one, two]).epsilon
    Fraction(1, 1)
    """
    counted = counted_once(costs)
    if not counted:
        raise BudgetError("no releases to add up. Give at least one.")
    refuse_mixed_neighbours(counted)
    epsilon, rho = (sum((c.loss for c in counted if c.accountant == one), Fraction(0)) for one in ("pure", "zcdp"))
    if not rho:
        return Together(account=Account(epsilon=rounded_up(epsilon)), epsilon=epsilon, counted=counted)
    delta_ = _common_delta(counted, delta)
    alone = epsilon_from_rho(rho, delta_)
    whole = account_of_rho(rho + sum((c.loss**2 / 2 for c in counted if c.accountant == "pure"), Fraction(0)), delta_)
    separately = rounded_up(epsilon + Fraction(alone)) if epsilon else whole.epsilon
    figures = replace(whole, epsilon=min(whole.epsilon, separately))
    return Together(
        account=figures,
        epsilon=Fraction(figures.epsilon) if math.isfinite(figures.epsilon) else Fraction(10) ** 400,
        delta=delta_,
        of_rhos=alone,
        as_zcdp=whole.epsilon,
        separately=separately,
        counted=counted,
    )


def refuse_mixed_neighbours(costs: Iterable[Cost]) -> None:
    """Refuse losses of different kinds, which can neither be added nor compared."""
    if len({cost.neighbours for cost in costs}) > 1:
        raise BudgetError(
            "some releases have replace-one neighbours and some add-or-remove: their losses are of different kinds and "
            "cannot be added. Account for each kind separately."
        )


def _common_delta(costs: Sequence[Cost], delta: Number | None) -> Fraction:
    if delta is not None:
        return exact_delta(delta)
    deltas = {cost.delta for cost in costs if cost.delta is not None}
    if len(deltas) != 1:
        listed = ", ".join(f"{float(value):g}" for value in sorted(deltas)) or "none is known"
        raise BudgetError(f"the releases report at different deltas ({listed}). Choose one: --delta 1e-10")
    return deltas.pop()
