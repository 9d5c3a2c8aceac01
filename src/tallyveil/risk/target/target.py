"""A target, the alternative that an intruder considers, and what the measurements of a strategy reveal about the two.

Noise protects the measurements. A release is computed from them, so it cannot reveal more, and their figures bound
those of the release (``simulated`` says which figures).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from tallyveil.errors import InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.intruder import Exposure, Intruder


@final
@dataclass(frozen=True, kw_only=True)
class Target:
    """A person by leaf and cell, and the alternative: another cell in the same leaf, or nobody (None)."""

    leaf: int
    cell: int
    instead: int | None

    def differs(self, schema: Schema, query: str) -> bool:
        """Whether a query counts the target and the alternative in different rows."""
        row = schema.query(query).row_of_cell
        return self.instead is None or bool(row[self.cell] != row[self.instead])

    def gone(self, people: Histogram) -> Histogram:
        """These people with the alternative in the target's place."""
        for name, place, size in (
            ("leaf", self.leaf, people.leaves.units),
            ("cell", self.cell, people.schema.cells),
            ("cell", self.cell if self.instead is None else self.instead, people.schema.cells),
        ):
            if not 0 <= place < size:
                raise InputError(f"{name} {place} is not between 0 and {size - 1:,}. Name one that exists.")
        if self.instead == self.cell:
            raise InputError("the alternative is the same cell as the target's. Name another cell.")
        unit, cell = people.leaves.unit(), people.leaves.cell.astype(np.int64)
        count = people.leaves.count.astype(np.int64)
        here = (unit == self.leaf) & (cell == self.cell)
        if not here.any():
            raise InputError(
                f"{people.spine.leaf} {people.spine.labels(people.spine.leaf)[self.leaf]} has nobody in the cell "
                f"{people.schema.query(DETAILED).labels()[self.cell]!r}. Name the cell of the target."
            )
        count[here] -= 1
        if self.instead is not None:
            unit, cell, count = np.append(unit, self.leaf), np.append(cell, self.instead), np.append(count, 1)
        leaves = Counts.from_entries(unit, cell, count, units=people.leaves.units, cells=people.schema.cells)
        return replace(people, leaves=leaves)


def most_common_other(people: Histogram, *, leaf: int, cell: int) -> int:
    """The most common other possible cell in the leaf's parent; the first one if several are equally common."""
    above = people.spine.levels[max(len(people.spine.levels) - 2, 0)]
    unit = path_of(people.spine, leaf).get(above, 0)
    size = np.where(people.schema.possible, people.at(above).dense(unit, unit + 1)[0], -1)
    size[cell] = -1
    if size.max() < 0:
        raise InputError("the schema has no other possible cell. The target could only be absent.")
    return int(size.argmax())


def path_of(spine: Spine, leaf: int) -> dict[str, int]:
    """The unit of each level that contains a leaf, from the leaf to the root."""
    path, unit = {}, leaf
    for level in reversed(spine.levels):
        path[level] = unit
        unit = int(spine.parents(level)[unit]) if level != spine.levels[0] else unit
    return path


@final
@dataclass(frozen=True, kw_only=True)
class Figures:
    """What an intruder learns on average (see Exposure). ``accuracy`` counts decisions under both hypotheses."""

    marginal_posterior: float
    risk: float
    right_decision: float
    accuracy: float

    @classmethod
    def of(cls, exposure: Exposure) -> Figures:
        """The exact figures of noisy counts."""
        prior, needed = float(exposure.intruder.prior), float(exposure.intruder.odds_needed)
        logs, right = exposure.evidence.logs(), exposure.right_decision
        claims = logs > np.log(needed)  # the decision at a tie does not change the accuracy
        wrong = float(exposure.evidence.probabilities[claims] @ np.exp(-logs[claims]))
        claimed = float(exposure.evidence.probabilities[claims].sum())
        return cls(
            marginal_posterior=exposure.marginal_posterior,
            risk=exposure.risk,
            right_decision=right,
            accuracy=prior * claimed + (1 - prior) * (1 - wrong),
        )

    @classmethod
    def of_nothing(cls, prior: Fraction) -> Figures:
        """The figures if no count distinguishes the hypotheses."""
        p = float(prior)
        claimed = float(prior > Fraction(1, 2))
        return cls(marginal_posterior=p, risk=1.0, right_decision=claimed, accuracy=max(p, 1 - p))

    def as_json(self) -> dict[str, float]:
        """The figures under their JSON keys."""
        names = ("marginal_posterior", "risk", "right_decision", "accuracy")
        return {name: getattr(self, name) for name in names}


def check_target(strategy: Strategy, people: Histogram, target: Target) -> None:
    """Refuse hypotheses that the exact counts of a strategy tell apart with certainty."""
    strategy.check(people.spine, people.schema)
    if target.instead is None and strategy.neighbours == "replace-one":
        raise InputError(
            "the strategy is for replace-one neighbours: the number of people is exact, so an absent target shows. "
            "Name the cell that the target might have instead."
        )
    for constraint in strategy.constraints:
        if isinstance(constraint, Invariant) and target.differs(people.schema, constraint.query):
            raise InputError(
                f"the hypotheses differ in an invariant ({constraint.words()}), which tells them apart with certainty. "
                f"Name a cell for which the invariant is the same."
            )


def before_postprocessing(
    strategy: Strategy, people: Histogram, target: Target, *, prior: Number
) -> tuple[Figures, Figures | None]:
    """What the measurements of a strategy reveal: all of them, which is the bound, and the leaf's detailed count alone.

    The measurements used are those of the leaf and of the units above in which the hypotheses differ: the row of the
    target and the row of the alternative. A unit has the share that the only-child rule gives it. The second result is
    None if the leaf's detailed count is not measured.
    """
    check_target(strategy, people, target)
    strategy = calibrated(strategy, spine=people.spine, schema=people.schema)
    intruder, times = Intruder(prior=prior), 1 if target.instead is None else 2
    shares, path = unit_shares(strategy, people.spine), path_of(people.spine, target.leaf)
    given = {level: shares[level].of(unit) for level, unit in path.items()}
    noises = [
        noise
        for level, share in given.items()
        if share
        for noise in noises_of(
            strategy,
            level,
            queries=[query for query in strategy.queries[level] if target.differs(people.schema, query)],
            level_share=share,
        )
        for _ in range(times)
    ]
    leaf = people.spine.leaf
    measured = given[leaf] > 0 and DETAILED in strategy.queries[leaf]
    alone = strategy.noise(leaf, DETAILED, level_share=given[leaf]) if measured else None
    return (
        Figures.of(intruder.against(*noises)) if noises else Figures.of_nothing(Fraction(intruder.prior)),
        None if alone is None else Figures.of(intruder.against(alone)),
    )
