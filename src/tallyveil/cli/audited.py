"""What ``tallyveil audit`` runs: mechanisms that can be sent to other processes, what they prove, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

from tallyveil.engine.constraints import check_counts, declared_limits, possible_cells
from tallyveil.engine.topdown import topdown
from tallyveil.errors import InputError
from tallyveil.evaluate.audit.views import View, neighbour
from tallyveil.mechanisms.averaged import averaged
from tallyveil.mechanisms.geometric import geometric
from tallyveil.mechanisms.measure import measure
from tallyveil.mechanisms.raked import raked
from tallyveil.nouns.estimates import Estimates
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy import Invariant, RunKey, Strategy, account_of
from tallyveil.privacy.budget import rounded_up
from tallyveil.privacy.strategy import Neighbours

Simple = Literal["geometric", "raked", "averaged"]
SIMPLE: dict[str, Callable[..., Estimates]] = {"geometric": geometric, "raked": raked, "averaged": averaged}
SOURCES, TRIES = 20, 400  # how many persons, and how many moves, are tried for the default neighbour


@final
@dataclass(frozen=True, kw_only=True)
class TopDownRuns:
    """TopDown's two steps, ``measure`` and ``topdown``: what ``protect`` releases, without its certificate."""

    strategy: Strategy
    facilities: Facilities | None
    seed: int
    delta: float

    def __call__(self, people: Histogram, runs: range) -> Iterator[Histogram]:
        """The releases of some runs, one by one."""
        key = RunKey.from_seed(self.seed)
        for run in runs:
            noisy = measure(people, self.strategy, key, replicate=run)
            yield topdown(noisy, facilities=self.facilities)[0]

    def proven(self, people: Histogram, other: Histogram) -> float:
        """The epsilon that holds for these neighbours, at delta; an error where none does."""
        moved = people.total() == other.total()
        if not moved and self.strategy.neighbours == "replace-one":
            raise InputError(
                "the strategy is for replace-one neighbours: how many people there are is exact, so removing one "
                "shows. Compare with a person moved (--move)."
            )
        for constraint in self.strategy.constraints:
            if isinstance(constraint, Invariant):
                one, two = (side.answer(constraint.query, level=constraint.level) for side in (people, other))
                if one != two:
                    raise InputError(
                        f"the neighbours differ in an invariant ({constraint.words()}); the guarantee is for those "
                        f"that agree on all. Move the person within one {constraint.level} (--move)."
                    )
        noisy = measure(other, self.strategy, RunKey.from_seed(self.seed))
        if self.strategy.check_constraints:
            limits = declared_limits(
                other.spine, other.schema, self.strategy, exact=noisy.exact, facilities=self.facilities
            )
            check_counts(other, limits, possible_cells(people.schema, self.strategy), whose="the neighbour")
        budget = self.strategy.budget * (2 if moved and self.strategy.neighbours == "add-or-remove" else 1)
        unit = {self.strategy.unit: budget}
        found = account_of(self.strategy.with_budget(**unit), delta=self.delta or None, pld=False)
        assert found.epsilon is not None
        return found.epsilon


@final
@dataclass(frozen=True, kw_only=True)
class SimpleRuns:
    """A mechanism of flaxman2019; epsilon holds for these ``neighbours``."""

    name: Simple
    epsilon: Fraction
    query: str
    neighbours: Neighbours
    seed: int

    def __call__(self, people: Histogram, runs: range) -> Estimates:
        """The noisy counts of some runs."""
        return SIMPLE[self.name](
            people,
            epsilon=self.epsilon,
            query=self.query,
            neighbours=self.neighbours,
            seed=self.seed,
            replicate=runs,
        )

    def proven(self, people: Histogram, other: Histogram) -> float:
        """The epsilon that holds for these neighbours (erratum 10): a moved person changes two counts, not one."""
        moved = people.total() == other.total()
        z = self.epsilon / (2 if self.neighbours == "replace-one" else 1)
        if moved and self.name == "raked" and people.schema.query(self.query).name == TOTAL:
            levels = len(people.spine.levels)  # the root's total is the same
            return rounded_up(2 * z * Fraction(levels - 1, levels))
        return rounded_up(2 * z if moved else z)


def choose_neighbour(
    people: Histogram, proven: Callable[[Histogram, Histogram], float], *, move: str | None, remove: str | None
) -> tuple[Histogram, float]:
    """The neighbour asked for, or one person moved as far as the constraints allow; and what is proven for it."""
    if move is not None and remove is not None:
        raise InputError("--move and --remove are both given. Give one: each is a comparison of its own.")
    if remove is not None:
        unit, cell = place_of(people, remove, "--remove")
        other = neighbour(people, unit=unit, cell=cell)
        return other, proven(people, other)
    if move is not None:
        before, arrow, after = move.partition("->")
        if not arrow:
            raise InputError(f'--move {move!r}: write it as UNIT:CELL->UNIT:CELL, such as "{_example(people)}".')
        (unit, cell), (to_unit, to_cell) = (place_of(people, part, "--move") for part in (before, after))
        if (unit, cell) == (to_unit, to_cell):
            raise InputError(f"--move {move!r}: the person stays where they are. Name two places.")
        other = neighbour(people, unit=unit, cell=cell, to_unit=to_unit, to_cell=to_cell)
        return other, proven(people, other)
    return _farthest(people, proven)


def place_of(people: Histogram, word: str, option: str) -> tuple[int, int]:
    """A leaf and a cell from ``UNIT:CELL``, the cell's labels joined by ``*``."""
    code, colon, labels = (part.strip() for part in word.partition(":"))
    if not colon or not code or not labels:
        raise InputError(f'{option} {word!r}: write a place as UNIT:CELL, such as "{_example(people).split("->")[0]}".')
    known = people.schema.query(DETAILED).labels()
    cell = "*".join(label.strip() for label in labels.split("*"))
    if cell not in known:
        some = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        raise InputError(f"{option} {word!r}: {cell!r} is not a cell. Cells are {some}")
    try:
        return int(people.spine.locate(people.spine.leaf, [code])[0]), known.index(cell)
    except InputError:
        raise InputError(
            f"{option} {word!r}: {code!r} is not among the {people.leaves.units:,} units of level "
            f"{people.spine.leaf!r}. Name a leaf by its code."
        ) from None


def _farthest(people: Histogram, proven: Callable[[Histogram, Histogram], float]) -> tuple[Histogram, float]:
    """One of the first persons, moved to the last leaf that the constraints allow: most levels see it."""
    tries, problem = 0, "there is nobody, or one leaf only"
    units = people.leaves.unit()
    for entry in range(min(SOURCES, people.leaves.entries)):
        unit, cell = int(units[entry]), int(people.leaves.cell[entry])
        for to_unit in range(people.leaves.units - 1, -1, -1):
            if to_unit == unit or tries == TRIES:
                continue
            tries += 1
            other = neighbour(people, unit=unit, cell=cell, to_unit=to_unit)
            try:
                return other, proven(people, other)
            except InputError as refused:
                problem = str(refused)
    raise InputError(f"no person was found who may move to another leaf ({problem.rstrip('.')}). Name one with --move.")


def _example(people: Histogram) -> str:
    """Two places of these people, as they are written."""
    ends = (View(level=people.spine.leaf, unit=unit, query=DETAILED, row=0) for unit in (0, people.leaves.units - 1))
    cell: Any = people.schema.query(DETAILED).labels()[0]
    codes = people.spine.codes[-1]
    return "->".join(f"{bytes(codes[end.unit]).decode()}:{cell}" for end in ends)
