"""Scan: how exposed everybody is, in every unit and cell.

Each person is a target in turn; the intruder knows all others of the unit. Before release the figures are averages over
the noise, one for each group of people who are measured alike (:mod:`tallyveil.risk.groups`). After release they are
those of the noise that was drawn, person by person. Everything here is made from the precise counts: for internal use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tallyveil.errors import InputError
from tallyveil.facilities import Facilities
from tallyveil.histogram import Histogram
from tallyveil.measurements import Measurements
from tallyveil.privacy.budget import Number
from tallyveil.privacy.distributions import Floats
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.attacks import Attack, noises_of
from tallyveil.risk.groups import Group, grouped
from tallyveil.risk.intruder import Intruder
from tallyveil.risk.scan_pieces import BINS, SIZES, Sums, View, adder, pieces

if TYPE_CHECKING:
    import pandas as pd

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
        What they ask (:mod:`tallyveil.risk.attacks`).
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

    strategy.check(truth.spine, truth.schema)
    if truth.total() == 0:
        raise InputError("nobody is counted, so nobody can be exposed. Give the precise counts.")
    if measurements is not None and attack == "attribute":
        raise InputError("after release the attack 'attribute' would need each person's other cell. Scan before it.")
    if measurements is not None and (measurements.spine != truth.spine or measurements.schema != truth.schema):
        raise InputError("the measurements are of other units or cells than the counts. Give those of one release.")
    intruders = [Intruder(prior=prior) for prior in dict.fromkeys(priors)]
    if not intruders:
        raise InputError("no prior is given. Give one or more.")
    if facilities is not None and facilities.spine != truth.spine:
        raise InputError("the facilities are of other units than the counts. Give those of these units.")
    wanted = truth.spine.levels if levels is None else tuple(dict.fromkeys(levels))
    found: dict[str, list[pd.DataFrame]] = {name: [] for name in FRAMES}
    for level in wanted:
        counts, kinds = truth.at(level), grouped(truth, strategy, level, facilities)
        views = [_view(strategy, group, attack, attribute, queries) for group in kinds.groups]
        work = adder(truth, counts, kinds, views, intruders, measurements, most)
        todo, sums = pieces(counts), None
        for done, part in enumerate(run(work, todo), 1):
            sums = part if sums is None else sums + part
            if progress is not None:
                progress(level, done, len(todo))
        assert sums is not None
        if measurements is None:
            sums.spread[:] = [sums.groups[:, 0] @ [view.spread(one) for view in views] for one in intruders]
        for name, frame in _frames(truth, level, kinds.groups, views, intruders, sums).items():
            found[name].append(frame)
    return Scan(
        when="before" if measurements is None else "after",
        attack=attack,
        attribute=attribute,
        queries=None if queries is None else tuple(queries),
        **{name: pd.concat(frames, ignore_index=True) for name, frames in found.items()},
    )


def _view(
    strategy: Strategy, group: Group, attack: Attack, attribute: str | None, queries: Sequence[str] | None
) -> View:
    told = group.told_by(strategy, queries)
    if attribute is not None:
        told = tuple(query for query in told if attribute in strategy.depends_on(query))
    noises = noises_of(
        strategy, group.measured_at, attack=attack, attribute=attribute, queries=told, level_share=group.share
    )
    return View(queries=told, noises=noises, certain=group.certain(strategy, attack, attribute))


def _frames(
    truth: Histogram,
    level: str,
    groups: Sequence[Group],
    views: Sequence[View],
    intruders: Sequence[Intruder],
    sums: Sums,
) -> dict[str, pd.DataFrame]:
    import pandas as pd

    sizes = [f"{low:,}" if high - low == 1 else f"{low:,} to {high - 1:,}" for low, high in pairwise(SIZES)]
    alike = [  # groups of which nothing else is said are one
        (one.measured_at, float(one.share), ", ".join(sorted(one.settled)), ", ".join(view.queries), view.certain)
        for one, view in zip(groups, views, strict=True)
    ]
    kinds = list(dict.fromkeys(alike))
    by_kind = np.zeros((len(kinds), sums.groups.shape[1]))
    np.add.at(by_kind, [kinds.index(kind) for kind in alike], sums.groups)
    names = ("measured_at", "share", "settled", "queries", "certain")
    by_group = _table(level, intruders, by_kind, dict(zip(names, zip(*kinds, strict=True), strict=True)))
    whole = _table(level, intruders, sums.groups.sum(axis=0, keepdims=True), {})
    certain = int(sums.groups[[view.certain for view in views], 0].sum())
    by_size = {"size": [*sizes, f"{SIZES[-1]:,} or more"]}
    posteriors = [
        pd.DataFrame({"level": level, "prior": str(one.prior), "low": BINS[:-1], "high": BINS[1:], "people": people})
        for one, people in zip(intruders, sums.spread, strict=True)
    ]
    named = sums.exposed[sums.exposed["posterior"] >= 0]
    codes, labels = truth.spine.codes[truth.spine.depth(level)], truth.schema.query("detailed").labels()
    exposed = pd.DataFrame({name: named[name] for name in ("count", "people", "unique", "posterior")})
    exposed.insert(0, "cell", [labels[cell] for cell in named["cell"]])
    exposed.insert(0, "unit", [bytes(codes[unit]).decode() for unit in named["unit"]])
    exposed.insert(0, "prior", str(intruders[0].prior))
    exposed.insert(0, "level", level)
    return {
        "levels": whole.assign(units=truth.spine.size(level), certain=certain),
        "groups": by_group,
        "cells": _table(level, intruders, sums.cells, {"cell": labels}),
        "sizes": _table(level, intruders, sums.sizes, by_size),
        "posteriors": pd.concat(posteriors, ignore_index=True),
        "exposed": exposed,
    }


def _table(level: str, intruders: Sequence[Intruder], sums: Floats, names: dict[str, Any]) -> pd.DataFrame:
    """Averages of each row that has people, one line for each intruder."""
    import pandas as pd

    some = np.flatnonzero(sums[:, 0])
    people = sums[some, 0]
    frames = []
    for number, intruder in enumerate(intruders):
        posterior, right, tie = (sums[some, 2 + 3 * number + i] / people for i in range(3))
        frames.append(
            pd.DataFrame(
                {
                    "level": level,
                    **{name: np.asarray(values, dtype=object)[some] for name, values in names.items()},
                    "prior": str(intruder.prior),
                    "people": people.astype(np.int64),
                    "unique": sums[some, 1].astype(np.int64),
                    "posterior": posterior,
                    "risk": posterior / float(intruder.prior),
                    "right_decision": right,
                    "tie": tie,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)
