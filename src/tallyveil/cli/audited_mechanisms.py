"""Mechanisms that ``tallyveil audit`` runs, from its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
    from tallyveil.cli.reading import People
    from tallyveil.privacy.strategy import Neighbours

GAUSSIAN_DELTA = 1e-3  # a delta that some thousand runs can still resolve


class AuditedMechanism(StrEnum):
    """Mechanisms that can be audited from the command line."""

    topdown = "topdown"
    geometric = "geometric"
    raked = "raked"
    averaged = "averaged"


def audited_topdown(
    people: People,
    name: str | None,
    *,
    epsilon: str | None,
    rho: str | None,
    delta: float | None,
    invariants: list[str],
    facilities: Path | None,
    neighbours: Neighbours | None,
    seed: int,
) -> TopDownRuns:
    """TopDown with the strategy that was asked for, which must be for the neighbours that were named, if any."""
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.cli.strategies import choose_strategy, find_facilities

    if epsilon is None and rho is None and name is None:
        raise InputError("audit needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
    strategy = choose_strategy(people.counts, name, epsilon=epsilon, rho=rho, invariants=invariants)
    if neighbours not in (None, strategy.neighbours):
        raise InputError(
            f"--neighbours {neighbours}: the strategy is for {strategy.neighbours} neighbours. Leave the option out, "
            f"or change the strategy."
        )
    if delta is None:
        delta = 0.0 if strategy.mechanism == "geometric" else GAUSSIAN_DELTA
    if strategy.mechanism == "gaussian" and not delta > 0:
        raise InputError("Gaussian noise has an epsilon only at a delta above 0. Use --delta 0.001, or leave it out.")
    public = find_facilities(facilities, strategy, people.counts, own=people.facilities)
    return TopDownRuns(strategy=strategy, facilities=public, seed=seed, delta=float(delta))


def audited_simple(
    mechanism: AuditedMechanism,
    epsilon: str | None,
    *,
    query: str,
    neighbours: Neighbours,
    seed: int,
    delta: float | None,
) -> SimpleRuns:
    """A mechanism of flaxman2019."""
    from tallyveil.auditing.mechanism_runs import SimpleRuns
    from tallyveil.privacy.budget import exact

    if epsilon is None:
        raise InputError(f"audit --mechanism {mechanism.value} needs a budget: --epsilon E.")
    return SimpleRuns(
        name=mechanism.value,  # type: ignore[arg-type]
        epsilon=exact(epsilon, "epsilon"),
        query=query,
        neighbours=neighbours,
        seed=seed,
        delta=delta or 0.0,
    )


def refuse_topdown_options(mechanism: AuditedMechanism, *, invariant: list[str] | None, **values: object) -> None:
    """Refuse options of a strategy for a mechanism that has none."""
    for option, value in values.items():
        if value is not None:
            raise InputError(f"--{option} is for --mechanism topdown. {mechanism.value} takes --epsilon only.")
    if invariant:
        raise InputError(f"--invariant is for --mechanism topdown. {mechanism.value} keeps nothing exactly.")
