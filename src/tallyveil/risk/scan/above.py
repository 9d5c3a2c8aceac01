"""A scan with the hierarchy: what the count above and the sum of the siblings' counts change, for everybody.

As in kazan2022, section 4.3: the detailed query alone, the sum of the siblings' counts, a flat prior on their true
number. The figures depend on the noise, on the siblings and on how many people of the cell they have (the rest of the
unit above); for more than a few of those no longer, as the prior's edge at 0 is then far away. So a nation has some
thousand different cases, and each is a sum (:mod:`tallyveil.risk.above.hierarchy`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.scan.pieces import pieces
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder

if TYPE_CHECKING:
    import pandas as pd

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
FIGURES = ("alone", "right_decision", "gain", "loss", "tie")
ERRORS = ("right_decision_se", "gain_se", "loss_se", "tie_se")
FAR = 12  # standard deviations of what is known of the rest, beyond which its number does not matter


def scan_above(
    truth: Histogram,
    strategy: Strategy,
    *,
    prior: Number = "1/2",
    level: str | None = None,
    run: Run = map,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """How often people are rightly claimed with the hierarchy, by case, before release.

    The frame has ``measured_at``, ``above``, ``siblings`` (how many), ``others`` (people of the cell in them; of the
    last case, so many or more), ``people``, and ``alone``, ``right_decision``, ``gain``, ``loss``, ``tie``. The columns
    ``right_decision_se``, ``gain_se``, ``loss_se`` and ``tie_se`` are standard errors where figures had to be drawn;
    they are missing where figures are sums.

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
    shares = unit_shares(strategy, spine)
    depths, where, _ = _measured(spine, shares, wanted)
    rows = []
    for depth in np.unique(depths[depths > 0]).tolist():
        at = spine.levels[depth]
        chosen = np.zeros(spine.size(at), dtype=np.bool_)
        chosen[where[depths == depth]] = True
        rows += _cases(truth, strategy, shares, at, chosen, Intruder(prior=prior), run, progress)
    if not rows:
        raise InputError("nobody is measured below the root, so there is no unit above. Give counts of several units.")
    return pd.DataFrame(rows)


def _cases(
    truth: Histogram,
    strategy: Strategy,
    shares: dict[str, UnitShares],
    level: str,
    chosen: Bools,
    intruder: Intruder,
    run: Run,
    progress: Callable[[int, int], None] | None,
) -> list[dict[str, Any]]:
    """The different cases among the chosen units of a level, with how many people each holds for."""
    spine = truth.spine
    upper = spine.levels[spine.depth(level) - 1]
    counts, over, parents = truth.at(level), truth.at(upper), spine.parents(level)
    spans = shares[level].spans.astype(np.int64)
    most = len(spine.levels) + 1
    family = np.zeros((spine.size(upper), most), dtype=np.int64)  # children of each parent by span
    np.add.at(family, (parents, spans), 1)
    families, family_of = np.unique(family, axis=0, return_inverse=True)
    depth_above, _, span_above = _measured(spine, shares, upper)
    shape = (len(families), len(spine.levels), most, most)
    kind = np.ravel_multi_index(
        (family_of.reshape(-1)[parents], depth_above[parents], span_above[parents], spans), shape
    )
    kinds = np.unique(kind[chosen])
    kind_of = np.minimum(np.searchsorted(kinds, kind), len(kinds) - 1)  # of a unit that is not chosen, any
    cases = [
        _case(strategy, shares, level, families[f], (spine.levels[d], int(above)), int(span), intruder)
        for f, d, above, span in zip(*np.unravel_index(kinds, shape), strict=True)
    ]
    far = np.array([case.far for case in cases])
    own_cells = np.arange(counts.cells, dtype=np.int32)

    def number(piece: tuple[int, int]) -> tuple[Integers, Integers]:
        here = slice(int(counts.start[piece[0]]), int(counts.start[piece[1]]))
        unit = np.repeat(np.arange(*piece), np.diff(counts.start[piece[0] : piece[1] + 1]))
        some = chosen[unit]
        unit, cell = unit[some], counts.cell[here][some].astype(np.int64)
        count = counts.count[here][some].astype(np.int64)
        rest = over.looked_up(parents[unit] * counts.cells + cell, own_cells, counts.cells) - count
        key = kind_of[unit] * (far.max() + 1) + np.minimum(rest, far[kind_of[unit]])
        found, inverse = np.unique(key, return_inverse=True)
        return found, np.bincount(inverse, count, minlength=len(found)).astype(np.int64)

    people: dict[int, int] = {}
    for found, held in run(number, pieces(counts)):
        for key, count in zip(found.tolist(), held.tolist(), strict=True):
            people[key] = people.get(key, 0) + count

    def decide(key: int) -> dict[str, Any]:
        which, rest = divmod(key, int(far.max()) + 1)
        place = {"measured_at": level, "above": upper, "siblings": cases[which].siblings, "others": rest}
        return {**place, "people": people[key], **cases[which].figures(rest)}

    rows = []
    for done, key in enumerate(sorted(people), 1):  # one after another: each is a matrix product, on all cores
        rows.append(decide(key))
        if progress is not None:
            progress(done, len(people))
    return rows


def _measured(spine: Spine, shares: dict[str, UnitShares], level: str) -> tuple[Integers, Integers, Integers]:
    """For each unit of a level, by the only-child rule: the depth at which it is measured, where there, its span."""
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

    intruder: Intruder
    own: CountNoise
    above: CountNoise
    others: tuple[CountNoise, ...]

    @property
    def siblings(self) -> int:
        return len(self.others)

    @cached_property
    def hierarchy(self) -> Hierarchy:
        level = Above(noise=self.above, siblings=self.others)
        return Hierarchy(intruder=self.intruder, noise=self.own, above=[level])

    @cached_property
    def far(self) -> int:
        """How many others are as good as any more: the rest is known about so well."""
        if not self.others:
            return 0
        noises = (self.above, self.hierarchy.above[0].together)
        return math.ceil(FAR / math.sqrt(sum(1 / noise.actual_variance() for noise in noises))) + 5

    def figures(self, rest: int) -> dict[str, float]:
        found = self.hierarchy.decision([1 + rest])
        figures = {name: getattr(found, name) for name in FIGURES}
        errors = {name: getattr(found, name) for name in ERRORS}
        return figures | {name: math.nan if error is None else error for name, error in errors.items()}


def _case(
    strategy: Strategy,
    shares: dict[str, UnitShares],
    level: str,
    family: Integers,
    above: tuple[str, int],
    span: int,
    intruder: Intruder,
) -> _Case:
    def noise(at: str, paid: int) -> CountNoise:
        return strategy.noise(at, DETAILED, level_share=shares[at].shares[paid])

    others = family - (np.arange(len(family)) == span)
    siblings = tuple(noise(level, paid) for paid in np.repeat(np.arange(len(others)), others).tolist())
    return _Case(intruder=intruder, own=noise(level, span), above=noise(*above), others=siblings)
