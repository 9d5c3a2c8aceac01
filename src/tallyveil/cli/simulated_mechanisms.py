"""The mechanisms that ``risk simulate`` and ``risk empirical`` run: TopDown and, for comparison, samples and swaps."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.auditing.mechanism_runs import SampleRuns, SwapRuns, TopDownRuns
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram

    SimulatedRuns = TopDownRuns | SampleRuns | SwapRuns


class SimulatedMechanism(StrEnum):
    """What is released."""

    topdown = "topdown"
    sample = "sample"
    swap = "swap"


def topdown_runs(
    people: Histogram,
    strategy: str | None,
    epsilon: str | None,
    rho: str | None,
    invariants: list[str],
    facilities: Path | None,
    seed: int,
    own: Facilities | None = None,
) -> TopDownRuns:
    """The mechanism of the options: TopDown with a seed. Without a file of facilities, ``own`` are used."""
    from tallyveil.auditing.mechanism_runs import TopDownRuns
    from tallyveil.cli.strategies import choose_strategy, find_facilities

    if epsilon is None and rho is None and strategy is None:
        raise InputError("a simulation needs a budget: --epsilon E, --rho R, or a --strategy that has one.")
    chosen = choose_strategy(people, strategy, epsilon=epsilon, rho=rho, invariants=invariants)
    built = find_facilities(facilities, chosen, people, own=own)
    return TopDownRuns(strategy=chosen, facilities=built, seed=seed, delta=float(chosen.delta))


def comparison_runs(
    people: Histogram,
    mechanism: SimulatedMechanism,
    *,
    fraction: str | None,
    rate: str | None,
    match: str | None,
    within: str | None,
    seed: int,
) -> SampleRuns | SwapRuns:
    """Samples or swapping, after checking their options."""
    from tallyveil.auditing.mechanism_runs import SampleRuns, SwapRuns
    from tallyveil.mechanisms.sampling import as_share

    if mechanism is SimulatedMechanism.sample:
        refuse_comparison_options(rate=rate, match=match, within=within)
        if fraction is None:
            raise InputError("a sample needs --fraction F, such as 0.5.")
        if not as_share(fraction, "fraction"):
            raise InputError("--fraction must be above 0: an empty sample reveals nothing.")
        return SampleRuns(fraction=fraction, seed=seed)
    refuse_comparison_options(fraction=fraction)
    if rate is None or match is None or within is None:
        raise InputError('swapping needs --rate R, --match QUERY and --within LEVEL, such as 0.1, "age" and "county".')
    as_share(rate, "rate")
    people.schema.query(match)
    if people.spine.depth(within) == len(people.spine.levels) - 1:
        raise InputError(f"--within {within}: the finest level. Nobody can move within its units; name one above it.")
    return SwapRuns(rate=rate, match=match, level=within, seed=seed)


def refuse_comparison_options(**given: str | None) -> None:
    """Refuse options of another mechanism, since they would be ignored."""
    for name, value in given.items():
        if value is not None:
            owner = "sample" if name == "fraction" else "swap"
            raise InputError(f"--{name} is for --mechanism {owner}. Leave it out, or name that mechanism.")


def refuse_strategy_options(
    mechanism: SimulatedMechanism,
    strategy: str | None,
    epsilon: str | None,
    rho: str | None,
    invariant: list[str] | None,
    facilities: Path | None,
) -> None:
    """Refuse a strategy where none is used."""
    if any(option for option in (strategy, epsilon, rho, invariant, facilities)):
        raise InputError(
            f"--mechanism {mechanism.value} has no privacy-loss budget. Leave out --strategy, --epsilon, --rho, "
            f"--invariant and --facilities."
        )
