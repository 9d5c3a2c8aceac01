"""A scan with the hierarchy: what the count above and the sum of the siblings' counts change for every person.

As in section 4.3 of kazan2022, the intruder uses the detailed query alone, the sum of the siblings' counts, and a flat
prior on the siblings' true count. They may not know some others in the unit besides the target. The figures depend on
the noise, on the siblings and on how many people of the cell the siblings have. Beyond a certain number of them the
figures no longer change, since the edge of the prior at 0 is far away. So a nation has some thousand different cases,
and each is a sum (:mod:`tallyveil.risk.above.hierarchy`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.scan.pieces import pieces
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.several import Several
from tallyveil.runs.batches import Map

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("alone", "right_decision", "gain", "loss", "tie")
ERRORS = ("right_decision_se", "gain_se", "loss_se", "tie_se")
FAR = 12  # standard deviations of the siblings' count beyond which its value does not matter


def scan_above(
    truth: Histogram,
    strategy: Strategy,
    *,
    prior: Number = "1/2",
    level: str | None = None,
    unknown: int = 0,
    share: Number | None = None,
    run: Map = map,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """How often people are rightly claimed by an intruder who uses the hierarchy, before a release, by case.

    The frame has ``measured_at``, ``above``, ``siblings`` (their number), ``others`` (people of the cell in the
    siblings; in the last case this many or more), ``people``, and ``alone``, ``right_decision``, ``gain``, ``loss``,
    ``tie``. The columns ``right_decision_se``, ``gain_se``, ``loss_se`` and ``tie_se`` are standard errors where
    figures had to be drawn, and missing where figures are sums. ``unknown`` is the number of people of the unit besides
    the target whom the intruder does not know, and ``share`` the probability that one of them is in the cell (by
    default the prior); figures are averages over how many are.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> people = Histogram.from_entries(
    ...     spine, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 0, 1], cell=[0, 1, 1], count=[1, 40, 1]
    ... )
    >>> found = scan_above(people, Strategy.default(spine, people.schema, rho=1))
    >>> found[["siblings", "others", "people", "alone", "right_decision"]].round(3).values.tolist()
    [[2.0, 0.0, 1.0, 0.6, 0.406], [2.0, 1.0, 40.0, 0.6, 0.511], [2.0, 21.0, 1.0, 0.6, 0.616]]
    """
    import pandas as pd

    spine, wanted = truth.spine, level or truth.spine.leaf
    strategy.check(spine, truth.schema)
    strategy = calibrated(strategy, spine=spine, schema=truth.schema)
    shares = unit_shares(strategy, spine)
    depths, where, _ = _where_measured(spine, shares, wanted)
    intruder = Several(intruder=Intruder(prior=prior), others=unknown, share=share)
    rows = []
    for depth in np.unique(depths[depths > 0]).tolist():
        chosen = np.zeros(spine.size(spine.levels[depth]), dtype=np.bool_)
        chosen[where[depths == depth]] = True
        cases = _cases(strategy, spine, shares, spine.levels[depth], chosen, intruder)
        rows += _decided(truth, cases, chosen, run, progress)
    if not rows:
        raise InputError("nobody is measured below the root, so there is no unit above. Give counts of several units.")
    return pd.DataFrame(rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cases:
    """The different cases among the chosen units of a level, and the case of each unit (any for other units)."""

    level: str
    above: str
    cases: tuple[_Case, ...]
    of_unit: Integers

    @cached_property
    def far(self) -> Integers:
        """For each case, the number of others beyond which figures do not change."""
        return np.array([case.far for case in self.cases])

    def figures(self, key: int, people: int) -> dict[str, Any]:
        """The row of a case and a number of others, both in one key."""
        number, others = divmod(key, int(self.far.max()) + 1)
        case = self.cases[number]
        place = {"measured_at": self.level, "above": self.above, "siblings": case.siblings, "others": others}
        return {**place, "people": people, **case.figures(others)}


def _cases(
    strategy: Strategy, spine: Spine, shares: dict[str, UnitShares], level: str, chosen: Bools, intruder: Several
) -> _Cases:
    """The cases of a level: units differ in their own noise, in that of the unit above and in that of the siblings."""
    upper, parents = spine.levels[spine.depth(level) - 1], spine.parents(level)
    spans = shares[level].spans.astype(np.int64)
    most = len(spine.levels) + 1
    family = np.zeros((spine.size(upper), most), dtype=np.int64)  # children of each parent by span
    np.add.at(family, (parents, spans), 1)
    families, family_of = np.unique(family, axis=0, return_inverse=True)
    depth_above, _, span_above = _where_measured(spine, shares, upper)
    shape = (len(families), len(spine.levels), most, most)
    kind = np.ravel_multi_index(
        (family_of.reshape(-1)[parents], depth_above[parents], span_above[parents], spans), shape
    )
    kinds = np.unique(kind[chosen])
    cases = (
        _case(strategy, shares, level, families[f], (spine.levels[d], int(above)), int(span), intruder)
        for f, d, above, span in zip(*np.unravel_index(kinds, shape), strict=True)
    )
    of_unit = np.minimum(np.searchsorted(kinds, kind), len(kinds) - 1)
    return _Cases(level=level, above=upper, cases=tuple(cases), of_unit=of_unit)


def _decided(
    truth: Histogram, cases: _Cases, chosen: Bools, run: Map, progress: Callable[[int, int], None] | None
) -> list[dict[str, Any]]:
    """The figures of each case and number of others, and the number of people that they hold for."""
    people: Counter[int] = Counter()
    for keys, counts in run(_people_counter(truth, cases, chosen), pieces(truth.at(cases.level))):
        people.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
    rows = []
    for done, key in enumerate(sorted(people), 1):  # one at a time, since each is a matrix product on all cores
        rows.append(cases.figures(key, people[key]))
        if progress is not None:
            progress(done, len(people))
    return rows


def _people_counter(
    truth: Histogram, cases: _Cases, chosen: Bools
) -> Callable[[tuple[int, int]], tuple[Integers, Integers]]:
    """A function that counts the people of a piece by case and number of others, both in one key."""
    counts, over, parents = truth.at(cases.level), truth.at(cases.above), truth.spine.parents(cases.level)
    own_cells = np.arange(counts.cells, dtype=np.int32)

    def count_people(piece: tuple[int, int]) -> tuple[Integers, Integers]:
        here = slice(int(counts.start[piece[0]]), int(counts.start[piece[1]]))
        unit = np.repeat(np.arange(*piece), np.diff(counts.start[piece[0] : piece[1] + 1]))
        some = chosen[unit]
        unit, cell = unit[some], counts.cell[here][some].astype(np.int64)
        count = counts.count[here][some].astype(np.int64)
        others = over.looked_up(parents[unit] * counts.cells + cell, own_cells, counts.cells) - count
        case = cases.of_unit[unit]
        keys, inverse = np.unique(
            case * (cases.far.max() + 1) + np.minimum(others, cases.far[case]), return_inverse=True
        )
        return keys, np.bincount(inverse, count, minlength=len(keys)).astype(np.int64)

    return count_people


def _where_measured(spine: Spine, shares: dict[str, UnitShares], level: str) -> tuple[Integers, Integers, Integers]:
    """For each unit of a level under the only-child rule: the depth, position and span with which it is measured."""
    start = spine.depth(level)
    ancestor = np.arange(spine.size(level), dtype=np.int64)
    depth, where = np.full(len(ancestor), start, dtype=np.int64), ancestor.copy()
    span = shares[level].spans.astype(np.int64)
    for up in range(start - 1, -1, -1):
        waiting = span == 0
        if not waiting.any():
            break
        ancestor = spine.parents(spine.levels[up + 1])[ancestor]
        depth[waiting], where[waiting] = up, ancestor[waiting]
        span[waiting] = shares[spine.levels[up]].spans[ancestor[waiting]]
    return depth, where, span


@dataclass(frozen=True, kw_only=True)
class _Case:
    """The noise of a unit, of the one above it and of its siblings."""

    intruder: Several
    own: CountNoise
    above: CountNoise
    sibling_noises: tuple[CountNoise, ...]

    @property
    def siblings(self) -> int:
        return len(self.sibling_noises)

    @cached_property
    def hierarchy(self) -> Hierarchy:
        level = Above(noise=self.above, siblings=self.sibling_noises)
        return Hierarchy(intruder=self.intruder, noise=self.own, above=[level])

    @cached_property
    def far(self) -> int:
        """The number of others beyond which figures do not change, since so much is known about the siblings' count."""
        if not self.sibling_noises:
            return 0
        noises = (self.above, self.hierarchy.above[0].together)
        spread = FAR / math.sqrt(sum(1 / noise.actual_variance() for noise in noises))
        return math.ceil(spread) + 5 + self.intruder.others  # each of whom may seem to be in the siblings

    def figures(self, others: int) -> dict[str, float]:
        """The decision figures of a target with this many others in the siblings."""
        decision = self.hierarchy.decision([1 + others])
        figures = {name: getattr(decision, name) for name in FIGURES}
        errors = {name: getattr(decision, name) for name in ERRORS}
        return figures | {name: math.nan if error is None else error for name, error in errors.items()}


def _case(
    strategy: Strategy,
    shares: dict[str, UnitShares],
    level: str,
    family: Integers,
    above: tuple[str, int],
    span: int,
    intruder: Several,
) -> _Case:
    def noise(at: str, paid: int) -> CountNoise:
        return strategy.noise(at, DETAILED, level_share=shares[at].shares[paid])

    others = family - (np.arange(len(family)) == span)
    siblings = tuple(noise(level, paid) for paid in np.repeat(np.arange(len(others)), others).tolist())
    return _Case(intruder=intruder, own=noise(level, span), above=noise(*above), sibling_noises=siblings)
