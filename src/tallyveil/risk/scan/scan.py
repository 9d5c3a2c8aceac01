"""Scan: how exposed every person is, in every unit and cell.

Each person is the target in turn, and the intruder knows all others in the unit. Before a release, figures are averages
over the noise, one for each group of people who are measured in the same way (``risk.scan.groups``). After a release,
they use the noise that was drawn, person by person. Everything here is computed from the true counts, for internal use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tallyveil._arrays import Bools
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.privacy.budget import Number
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import StructuralZero
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements
from tallyveil.risk.scan.frames import level_frames
from tallyveil.risk.scan.group_evidence import NO_ALTERNATIVE, GroupEvidence
from tallyveil.risk.scan.groups import Group, grouped
from tallyveil.risk.scan.pieces import Sums, adder, pieces
from tallyveil.risk.scan.result import FRAMES, Scan
from tallyveil.risk.scan.saved import check_counts_match, levels_to_scan, saved_by_level
from tallyveil.risk.target.attacks import Attack
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.several import Several
from tallyveil.runs.batches import Map

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[str, int, int], None]  # called with a level, its pieces that are done, and all its pieces
DEFAULT_ATTACK = Attack()


def scan(
    truth: Histogram,
    strategy: Strategy,
    *,
    priors: Sequence[Number] = ("1/2",),
    measurements: Measurements | None = None,
    levels: Sequence[str] | None = None,
    attack: Attack = DEFAULT_ATTACK,
    facilities: Facilities | None = None,
    unknown: int = 0,
    share: Number | None = None,
    most: int = 20,
    run: Map = map,
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
    unknown, share
        The number of people besides the target whom the intruder does not know, and the probability that one of them
        is counted like the target (by default the prior). Before a release only, where no exact count matters, and
        with geometric noise for a single count only.
    most
        The number of most exposed units that are listed for each level.
    run, progress
        A map over the pieces of a level (the built-in, or a pool's), and a function that progress is reported to.
    """
    import pandas as pd

    _check_inputs(truth, strategy, measurements, attack, facilities)
    if not strategy.calibrated:  # that of a release on an optimised spine is
        strategy = calibrated(strategy, spine=truth.spine, schema=truth.schema)
    strategy = _with_attributes(strategy, truth.schema)
    intruders = _intruders(priors)
    _check_unknown(unknown, share, intruders, measurements)
    scanner = _Scanner(
        truth=truth,
        strategy=strategy,
        attack=attack,
        intruders=intruders,
        measurements=measurements,
        facilities=facilities,
        most=most,
        unknown=unknown,
        share=share,
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
    unknown: int
    share: Number | None

    def frames(self, level: str, run: Map, progress: Progress | None) -> dict[str, pd.DataFrame]:
        """The tables of one level, by name."""
        counts = self.truth.at(level)
        kinds = grouped(self.truth, self.strategy, level, self.facilities)
        evidence = [GroupEvidence.of(group, self.strategy, self.attack, self.saved) for group in kinds.groups]
        if self.unknown:
            _refuse_exact_counts(level, kinds.groups, evidence)
            evidence = [replace(against, unknown=self.unknown, share=self.share) for against in evidence]
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


def _with_attributes(strategy: Strategy, schema: Schema) -> Strategy:
    """The strategy for all attributes of the data: those that no query names are unknown to an intruder too."""
    known = strategy.known_attributes
    return replace(strategy, attributes=(*known, *(name for name in schema.attributes if name not in known)))


def _check_unknown(
    unknown: int,
    share: Number | None,
    intruders: Sequence[Intruder],
    measurements: Measurements | None,
) -> None:
    """Refuse unknown others where nothing is known of what they do."""
    for intruder in intruders:
        Several(intruder=intruder, others=unknown, share=share)
    if not unknown:
        if share is not None:
            raise InputError("a share is that of unknown others. Give their number too (unknown).")
        return
    if measurements is not None:
        raise InputError(
            "after a release, who else is unknown would matter for each person. Scan before the release, or leave out "
            "the number of unknown others."
        )


def _refuse_exact_counts(level: str, groups: Sequence[Group], evidence: Sequence[GroupEvidence]) -> None:
    """Refuse exact counts: they would tell how many of the unknown people are counted, which is not modelled."""
    if any(group.settled or against.certain for group, against in zip(groups, evidence, strict=True)):
        raise InputError(
            f"counts of level {level!r} are published exactly, which would tell how many of the unknown people are "
            f"there; this is not modelled. Scan other levels (--level), or leave out the unknown others."
        )


def _check_saved(level: str, evidence: Sequence[GroupEvidence]) -> None:
    undecided = [against for against in evidence if not against.certain]
    if undecided and not any(against.drawn for against in undecided):
        counts = dict.fromkeys(count for against in evidence for count in against.counts)
        names = ", ".join(f"{query}@{where}" for where, query in counts)
        raise InputError(f"nothing of level {level!r} was saved ({names}). Scan another level, or give the key.")


def _added_up(
    add: Callable[[tuple[int, int]], Sums],
    todo: Sequence[tuple[int, int]],
    level: str,
    run: Map,
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
