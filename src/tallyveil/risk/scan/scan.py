"""Scan: how exposed every person is, in every unit and cell.

Each person is the target in turn, and the intruder knows all others in the unit. Before a release, figures are averages
over the noise, one for each group of people who are measured in the same way (``risk.scan.groups``). After a release,
they use the noise that was drawn, person by person. Everything here is computed from the true counts, for internal use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tallyveil._arrays import Bools
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.privacy.budget import Number
from tallyveil.privacy.constraints import StructuralZero
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements
from tallyveil.risk.scan.frames import level_frames
from tallyveil.risk.scan.group_evidence import NO_ALTERNATIVE, GroupEvidence
from tallyveil.risk.scan.groups import grouped
from tallyveil.risk.scan.pieces import Sums, adder, pieces
from tallyveil.risk.scan.saved import check_counts_match, levels_to_scan, saved_by_level
from tallyveil.risk.target.attacks import Attack
from tallyveil.risk.target.intruder import Intruder

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # the built-in map, or a pool's
Progress = Callable[[str, int, int], None]  # called with a level, its pieces that are done, and all its pieces
DEFAULT_ATTACK = Attack()
FRAMES = ("levels", "groups", "cells", "sizes", "posteriors", "exposed")


@final
@dataclass(frozen=True, kw_only=True)
class Scan:
    """Who is exposed, as tidy frames. Averages are over people.

    Attributes
    ----------
    when
        ``"before"`` a release (averages over the noise) or ``"after"`` it (given the noise that was drawn).
    attack
        What the intruder wants to know, and the queries that they use.
    levels
        By level and prior: people, how many are unique in their cell, and their average ``posterior``, ``risk`` (over
        the prior), ``right_decision`` and ``tie``. ``certain`` counts people whom exact counts alone give away.
    groups, cells, sizes
        The same by group of people who are measured in the same way, by cell, and by the number of people in the unit.
    posteriors
        The number of people with a posterior in each interval (before a release: the expected number).
    exposed
        The most exposed units with their true counts, for the data holder only.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> people = Histogram.from_entries(
    ...     spine, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 1]
    ... )
    >>> found = scan(people, Strategy.default(spine, people.schema, rho=1), levels=["block"])
    >>> found.levels[["level", "people", "unique", "right_decision"]].round(3).values.tolist()
    [['block', 51, 1, 0.571]]
    """

    when: str
    attack: Attack
    levels: pd.DataFrame
    groups: pd.DataFrame
    cells: pd.DataFrame
    sizes: pd.DataFrame
    posteriors: pd.DataFrame
    exposed: pd.DataFrame

    def frames(self) -> dict[str, pd.DataFrame]:
        """The frames by name."""
        return {name: getattr(self, name) for name in FRAMES}

    def to_pandas(self) -> pd.DataFrame:
        """The table by level and prior; ``frames()`` has the others."""
        return self.levels

    def to_arrow(self) -> pa.Table:
        """The table by level and prior as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pandas(self.levels, preserve_index=False)

    def as_json(self) -> dict[str, Any]:
        """What was scanned, under its JSON keys; the frames are separate."""
        attack = self.attack
        return {"when": self.when, "attack": attack.kind, "attribute": attack.attribute, "queries": attack.queries}


def scan(
    truth: Histogram,
    strategy: Strategy,
    *,
    priors: Sequence[Number] = ("1/2",),
    measurements: Measurements | None = None,
    levels: Sequence[str] | None = None,
    attack: Attack = DEFAULT_ATTACK,
    facilities: Facilities | None = None,
    most: int = 20,
    run: Run = map,
    progress: Progress | None = None,
) -> Scan:
    """Measure how exposed every person is, before a release or, with its measurements, after it.

    Parameters
    ----------
    truth, strategy
        The true counts, and the strategy that adds noise to them.
    priors
        The prior of each intruder.
    measurements
        The noisy counts that were drawn. Without them, figures are averages over the noise.
    levels
        The levels at which the intruder may know everybody in a unit but one person; all by default.
    attack
        What the intruder wants to know, and the queries that they use (:mod:`tallyveil.risk.target.attacks`).
        ``Attack(queries=["detailed"])`` is the paper's intruder.
    facilities
        Public counts of facilities, which may settle the type of some people.
    most
        The number of most exposed units that are listed for each level.
    run, progress
        A map over the pieces of a level (the built-in, or a pool's), and a function that progress is reported to.
    """
    import pandas as pd

    _check_inputs(truth, strategy, measurements, attack, facilities)
    scanner = _Scanner(
        truth=truth,
        strategy=strategy,
        attack=attack,
        intruders=_intruders(priors),
        measurements=measurements,
        facilities=facilities,
        most=most,
    )
    by_level = [scanner.frames(level, run, progress) for level in levels_to_scan(strategy, levels, attack.queries)]
    return Scan(
        when="before" if measurements is None else "after",
        attack=attack,
        **{name: pd.concat([frames[name] for frames in by_level], ignore_index=True) for name in FRAMES},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scanner:
    """The settings of a scan, which scans one level after another."""

    truth: Histogram
    strategy: Strategy
    attack: Attack
    intruders: Sequence[Intruder]
    measurements: Measurements | None
    facilities: Facilities | None
    most: int

    def frames(self, level: str, run: Run, progress: Progress | None) -> dict[str, pd.DataFrame]:
        """The tables of one level, by name."""
        counts = self.truth.at(level)
        kinds = grouped(self.truth, self.strategy, level, self.facilities)
        evidence = [GroupEvidence.of(group, self.strategy, self.attack, self.saved) for group in kinds.groups]
        if self.measurements is not None:
            _check_saved(level, evidence)
        evidence.append(NO_ALTERNATIVE)
        lone = _without_alternative(self.truth.schema, self.strategy, self.attack.attribute)
        add = adder(self.truth, counts, kinds, evidence, self.intruders, self.measurements, lone, self.most)
        sums = _added_up(add, pieces(counts), level, run, progress)
        _add_expected(sums, evidence, self.intruders)
        return level_frames(self.truth, level, kinds.groups, evidence, self.intruders, sums)

    @cached_property
    def saved(self) -> Mapping[str, Sequence[str]]:
        """The queries of each level whose noise is known."""
        return {} if self.measurements is None else saved_by_level(self.measurements)


def _intruders(priors: Sequence[Number]) -> list[Intruder]:
    intruders = {intruder.prior: intruder for intruder in (Intruder(prior=prior) for prior in priors)}
    if not intruders:
        raise InputError("no prior is given. Give one or more.")
    return list(intruders.values())


def _check_inputs(
    truth: Histogram,
    strategy: Strategy,
    measurements: Measurements | None,
    attack: Attack,
    facilities: Facilities | None,
) -> None:
    strategy.check(truth.spine, truth.schema)
    if truth.total() == 0:
        raise InputError("nobody is counted, so nobody can be exposed. Give the true counts.")
    if measurements is not None and attack.rows > 1:
        raise InputError(
            f"after a release, the attack {attack.kind!r} would need each person's other cell. Scan before the release."
        )
    if measurements is not None and (measurements.spine != truth.spine or measurements.schema != truth.schema):
        raise InputError("the measurements are of other units or cells than the counts. Give both of one release.")
    if measurements is not None:
        check_counts_match(truth, measurements)
    if facilities is not None and facilities.spine != truth.spine:
        raise InputError("the facilities are of other units than the counts. Give those of these units.")


def _check_saved(level: str, evidence: Sequence[GroupEvidence]) -> None:
    if not any(against.drawn for against in evidence):
        counts = dict.fromkeys(count for against in evidence for count in against.counts)
        names = ", ".join(f"{query}@{where}" for where, query in counts)
        raise InputError(f"nothing of level {level!r} was saved ({names}). Scan another level, or give the key.")


def _added_up(
    add: Callable[[tuple[int, int]], Sums],
    todo: Sequence[tuple[int, int]],
    level: str,
    run: Run,
    progress: Progress | None,
) -> Sums:
    """The sums over all pieces of a level."""
    total: Sums | None = None
    for done, part in enumerate(run(add, todo), 1):
        total = part if total is None else total + part
        if progress is not None:
            progress(level, done, len(todo))
    assert total is not None
    return total


def _add_expected(sums: Sums, evidence: Sequence[GroupEvidence], intruders: Sequence[Intruder]) -> None:
    """Add the expected posteriors of people whose noise was not drawn."""
    for number, intruder in enumerate(intruders):
        sums.spread[number] += sum(
            people * against.posterior_histogram(intruder)
            for people, against in zip(sums.groups[:, 0], evidence, strict=True)
            if people and not against.drawn
        )


def _without_alternative(schema: Schema, strategy: Strategy, attribute: str | None) -> Bools:
    """Cells for which structural zeros leave no cell with another value of the attribute."""
    if attribute not in schema.attributes:
        return np.zeros(schema.cells, dtype=np.bool_)
    zeros = [zero.cells for zero in strategy.constraints if isinstance(zero, StructuralZero)]
    every = Schema(attributes=schema.attributes, zeros=[*schema.zeros, *zeros]).possible.reshape(schema.shape)
    values = every.sum(axis=list(schema.attributes).index(attribute or ""), keepdims=True)
    return np.broadcast_to(values <= 1, schema.shape).reshape(-1)
