"""Scan: how exposed everybody is, in every unit and cell.

Each person is a target in turn; the intruder knows all others of the unit. Before release the figures are averages over
the noise, one for each group of people who are measured alike (``risk.scan.groups``). After release they are
those of the noise that was drawn, person by person. Everything here is made from the precise counts: for internal use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tallyveil._arrays import Bools
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.privacy.budget import Number
from tallyveil.privacy.constraints import StructuralZero
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements
from tallyveil.risk.scan.frames import level_frames
from tallyveil.risk.scan.groups import Group, grouped
from tallyveil.risk.scan.pieces import Sums, View, adder, pieces
from tallyveil.risk.scan.saved import check_counts_match, saved_by_level
from tallyveil.risk.target.attacks import TWO_CELLS, Attack, noises_of
from tallyveil.risk.target.intruder import Intruder

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # map, or that of a pool
Progress = Callable[[str, int, int], None]  # a level, how many of its pieces are done, and how many there are
FRAMES = ("levels", "groups", "cells", "sizes", "posteriors", "exposed")


@final
@dataclass(frozen=True, kw_only=True)
class Scan:
    """Who is exposed, as tidy frames: averages are over people.

    Attributes
    ----------
    when
        ``"before"`` release (expected over the noise) or ``"after"`` (given what was drawn).
    attack, attribute, queries
        What the intruder asks, and which queries they use (None: all of the level).
    levels
        By level and prior: people, how many are unique in their cell, and their average ``posterior``, ``risk`` (over
        the prior), ``right_decision`` and ``tie``; ``certain`` counts people whom exact counts give away alone.
    groups, cells, sizes
        The same by group of people who are measured alike, by cell, and by the unit's number of people.
    posteriors
        How many people have a posterior in each interval (before release: expected).
    exposed
        The most exposed units. They name units and show precise counts: for the data holder's eyes only.
    """

    when: str
    attack: Attack
    attribute: str | None
    queries: tuple[str, ...] | None
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


def scan(
    truth: Histogram,
    strategy: Strategy,
    *,
    priors: Sequence[Number] = ("1/2",),
    measurements: Measurements | None = None,
    levels: Sequence[str] | None = None,
    attack: Attack = "characteristics",
    attribute: str | None = None,
    queries: Sequence[str] | None = None,
    facilities: Facilities | None = None,
    most: int = 20,
    run: Run = map,
    progress: Progress | None = None,
) -> Scan:
    """How exposed everybody is: before release, or after it where its measurements are given.

    Parameters
    ----------
    truth, strategy
        The precise counts, and the noise they get.
    priors
        The intruders' priors, each an intruder.
    measurements
        What was drawn. Without it, figures are averages over what may be drawn.
    levels
        At which levels the intruder may know all people of a unit but one; all by default.
    attack, attribute
        What they ask (:mod:`tallyveil.risk.target.attacks`).
    queries
        Which queries they use, if not all of the level: ``["detailed"]`` is the paper's intruder.
    facilities
        Public counts of facilities, which may settle somebody's type.
    most
        How many of the most exposed units of each level are named.
    run, progress
        How pieces are worked on (a pool's map), and whom to tell.

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
    import pandas as pd

    intruders = list({one.prior: one for one in (Intruder(prior=prior) for prior in priors)}.values())
    if not intruders:
        raise InputError("no prior is given. Give one or more.")
    _check_inputs(truth, strategy, measurements, attack, facilities)
    asked = None if queries is None else list(dict.fromkeys(queries))
    wanted = _levels(strategy, levels, asked)
    lone = _without_alternative(truth.schema, strategy, attribute)
    saved = {} if measurements is None else saved_by_level(measurements)
    if measurements is not None:
        check_counts_match(truth, measurements, saved)
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in FRAMES}
    for level in wanted:
        kinds = grouped(truth, strategy, level, facilities)
        views = [_view(strategy, group, attack, attribute, asked, saved) for group in kinds.groups]
        if measurements is not None and not any(view.drawn for view in views):
            told = ", ".join(f"{query}@{place}" for place, query in dict.fromkeys(p for v in views for p in v.told))
            raise InputError(f"nothing of level {level!r} was saved ({told}). Scan another level, or give the key.")
        views.append(View(told=(), noises=(), certain=True, drawn=False))  # people who can be nothing else
        work = adder(truth, truth.at(level), kinds, views, intruders, measurements, lone, most)
        sums = _added_up(work, pieces(truth.at(level)), level, run, progress)
        _add_expected(sums, views, intruders)
        for name, frame in level_frames(truth, level, kinds.groups, views, intruders, sums).items():
            tables[name].append(frame)
    return Scan(
        when="before" if measurements is None else "after",
        attack=attack,
        attribute=attribute,
        queries=None if asked is None else tuple(asked),
        **{name: pd.concat(frames, ignore_index=True) for name, frames in tables.items()},
    )


def _check_inputs(
    truth: Histogram,
    strategy: Strategy,
    measurements: Measurements | None,
    attack: Attack,
    facilities: Facilities | None,
) -> None:
    strategy.check(truth.spine, truth.schema)
    if truth.total() == 0:
        raise InputError("nobody is counted, so nobody can be exposed. Give the precise counts.")
    if measurements is not None and attack in TWO_CELLS:
        raise InputError(f"after release the attack {attack!r} would need each person's other cell. Scan before it.")
    if measurements is not None and (measurements.spine != truth.spine or measurements.schema != truth.schema):
        raise InputError("the measurements are of other units or cells than the counts. Give those of one release.")
    if facilities is not None and facilities.spine != truth.spine:
        raise InputError("the facilities are of other units than the counts. Give those of these units.")


def _added_up(
    work: Callable[[tuple[int, int]], Sums],
    todo: Sequence[tuple[int, int]],
    level: str,
    run: Run,
    progress: Progress | None,
) -> Sums:
    """The sums over all pieces of a level."""
    total: Sums | None = None
    for done, part in enumerate(run(work, todo), 1):
        total = part if total is None else total + part
        if progress is not None:
            progress(level, done, len(todo))
    assert total is not None
    return total


def _add_expected(sums: Sums, views: Sequence[View], intruders: Sequence[Intruder]) -> None:
    """Add the expected posteriors of people whose noise was not drawn."""
    for number, intruder in enumerate(intruders):
        sums.spread[number] += sum(
            people * view.spread(intruder)
            for people, view in zip(sums.groups[:, 0], views, strict=True)
            if people and not view.drawn
        )


def _levels(strategy: Strategy, levels: Sequence[str] | None, queries: Sequence[str] | None) -> list[str]:
    """The levels to scan: those asked for, or all that measure one of the queries."""
    if queries == [] or levels == []:
        raise InputError("no query or no level is left to scan. Name one or more, or leave them out for all.")
    if levels is not None:
        for level in levels:
            for query in queries or ():
                strategy.written(level, query)
            if level not in strategy.levels:
                raise InputError(f"unknown level {level!r}. Known are {', '.join(strategy.levels)}.")
        return list(dict.fromkeys(levels))

    def measures(level: str, query: str) -> bool:
        try:
            return bool(strategy.written(level, query))
        except InputError:
            return False

    found = [level for level in strategy.levels if queries is None or any(measures(level, one) for one in queries)]
    for query in queries or ():
        if not any(measures(level, query) for level in found):
            strategy.written(list(strategy.levels)[-1], query)  # says what is measured instead
    return found


def _without_alternative(schema: Schema, strategy: Strategy, attribute: str | None) -> Bools:
    """Cells of which structural zeros leave no other with another value of the attribute."""
    if attribute not in schema.attributes:
        return np.zeros(schema.cells, dtype=np.bool_)
    zeros = [zero.cells for zero in strategy.constraints if isinstance(zero, StructuralZero)]
    every = Schema(attributes=schema.attributes, zeros=[*schema.zeros, *zeros]).possible.reshape(schema.shape)
    values = every.sum(axis=list(schema.attributes).index(attribute or ""), keepdims=True)
    return np.broadcast_to(values <= 1, schema.shape).reshape(-1)


def _view(
    strategy: Strategy,
    group: Group,
    attack: Attack,
    attribute: str | None,
    queries: Sequence[str] | None,
    saved: Mapping[str, Sequence[str]],
) -> View:
    """What there is against a group: of what was drawn, all that was saved; where nothing was, the noise to expect."""
    told: list[tuple[str, str]] = []
    noises: list[Geometric | DiscreteGaussian] = []
    every = group.told_by(strategy, queries)
    known = [(level, query) for level, query in every if query in saved.get(level, ())]
    for level, query in known or every:
        share = dict(group.measured)[level]
        found = noises_of(strategy, level, attack=attack, attribute=attribute, queries=[query], level_share=share)
        if found:
            told.append((level, query))
            noises += found
    certain = group.certain(strategy, attack, attribute)
    drawn = not certain and bool(known)
    return View(told=tuple(told), noises=tuple(noises), certain=certain, drawn=drawn)
