"""One level of TopDown: its parents in pieces, each estimated and rounded, and the pieces joined.

A piece is the children of a run of consecutive parents. Pieces are independent, so they may be solved in any order and
on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._workers import Run
from tallyveil.engine.answers import Answers
from tallyveil.engine.conflict import Conflict, conflicts
from tallyveil.engine.estimate.problem import Estimated, estimate, estimate_in_passes, unanswered_cells
from tallyveil.engine.nests import Limits, Nests, nests_of_parents, root_nest
from tallyveil.engine.pieces import KeptPieces, Piece, collect, joined
from tallyveil.engine.relax import conflict_in_words, relaxed_parents
from tallyveil.engine.rounding.rounding import round_nests
from tallyveil.engine.run_limits import RunLimits
from tallyveil.engine.set_aside import AsidePiece, SetAside
from tallyveil.engine.ties import lots_of
from tallyveil.errors import EndedAfterNoise
from tallyveil.nouns.counts import Counts
from tallyveil.release.solved import Relaxed, Solved

Progress = Callable[[str, int, int], None]
Span = tuple[int, int]  # parents, from the first up to the last, which is excluded

CHUNK = 1 << 18  # entries of the tables that are solved together


def solve_root(answers: Answers, limits: RunLimits, kept: KeptPieces | None = None) -> tuple[Counts, Solved]:
    """The counts of the root, which has no parent, and how they were found."""
    piece = None if kept is None else kept.get("root")
    if piece is None:
        piece = _solved_root(answers, limits)
        if kept is not None:
            kept.keep("root", piece)
    return joined([piece], answers.measurements.schema.cells)


def _solved_root(answers: Answers, limits: RunLimits) -> Piece:
    measurements = answers.measurements
    level, nests = measurements.spine.levels[0], root_nest(limits.possible)
    how, counts = _solved(nests, level, answers, [limit.of_children(nests.child) for limit in limits.carried[level]], 0)
    table = np.zeros((1, measurements.schema.cells), np.int64)
    table[0, nests.cell] = counts
    root = Counts.from_dense(table)
    return Piece(parents=1, sizes=np.diff(root.start), cell=root.cell, count=root.count, solved=how)


def solve_level(
    answers: Answers,
    level: str,
    above: Counts,
    limits: RunLimits,
    failsafe: bool,
    run: Run,
    report: Progress,
    kept: KeptPieces | None = None,
    aside: SetAside | None = None,
) -> tuple[Counts, Solved]:
    """The counts of a level from those of the level above, and how they were found.

    Pieces in which a parent leaves its children no way to keep their constraints are not solved at first. The failsafe
    changes such parents one after another, so that the result does not depend on the order of the work, and the pieces
    of all parents involved are solved again. ``kept`` has pieces of an interrupted run, and keeps those of this one;
    ``aside`` takes the pieces that should not stay in memory.
    """
    answers.prepare(level, run)
    work = Level(answers, level, above, limits, kept)
    spans = work.spans()
    pieces: dict[Span, Piece | AsidePiece] = {}
    put = (lambda piece: piece) if aside is None else aside.put
    conflicting = work.solve_pieces(spans, pieces, put, run, report)
    relaxed: list[tuple[int, Relaxed]] = []
    if conflicting and failsafe:
        above, relaxed = relaxed_parents(limits, level, above, conflicting, answers.measurements)
        work = replace(work, above=above, relaxed=True)
        parents = {parent for parent, _ in [*conflicting, *relaxed]}
        again = [span for span in spans if any(span[0] <= parent < span[1] for parent in parents)]
        conflicting = work.solve_pieces(again, pieces, put, run, report)
    if conflicting:
        raise EndedAfterNoise(
            f"{conflict_in_words(limits, level, *conflicting[0])} Loosen a constraint, or use the failsafe."
        )
    join: Callable[..., tuple[Counts, Solved]] = joined if aside is None else aside.joined
    counts, how = join([pieces[span] for span in spans], answers.measurements.schema.cells)
    return counts, replace(how, relaxed=tuple(record for _, record in relaxed))


@dataclass(frozen=True, eq=False)
class Level:
    """The work of one level, cut into runs of parents."""

    answers: Answers
    level: str
    above: Counts
    limits: RunLimits
    kept: KeptPieces | None = None
    relaxed: bool = False  # whether ``above`` was changed by the failsafe
    first: int = 0  # the number that the first child has in its level, where this is a part of one

    @property
    def first_child(self) -> Integers:
        """The first child of each parent, and the end of the last parent's children."""
        spine = self.answers.measurements.spine
        return spine.first_child[spine.depth(self.level) - 1]

    def spans(self) -> list[Span]:
        """Runs of parents with about ``CHUNK`` entries each."""
        entries = np.cumsum(np.diff(self.first_child) * np.maximum(1, np.diff(self.above.start)))
        ends = np.unique(np.searchsorted(entries, np.arange(CHUNK, int(entries[-1]) + CHUNK, CHUNK), side="left") + 1)
        ends = np.minimum(ends, len(entries))
        return [(int(first), int(last)) for first, last in zip([0, *ends[:-1]], ends, strict=True)]

    def solve_pieces(
        self,
        spans: Sequence[Span],
        pieces: dict[Span, Piece | AsidePiece],
        put: Callable[[Piece], Piece | AsidePiece],
        run: Run,
        report: Progress,
    ) -> list[tuple[int, Conflict]]:
        """Solve the pieces of some spans into ``pieces``; returns the parents that leave their children no way out.

        ``put`` says what is held of a finished piece.
        """
        conflicting: list[tuple[int, Conflict]] = []
        for span, outcome in zip(spans, run(self.kept_or_solved, spans), strict=True):
            if isinstance(outcome, Piece):
                pieces[span] = put(outcome)
                report(self.level, sum(piece.parents for piece in pieces.values()), len(self.first_child) - 1)
            else:
                conflicting += outcome
        return conflicting

    def name(self, span: Span) -> str:
        """The name of a piece within a run: the level, whether the failsafe has changed the one above, the parents."""
        return f"{self.answers.measurements.spine.depth(self.level)}-{int(self.relaxed)}-{span[0]}-{span[1]}"

    def kept_or_solved(self, span: Span) -> Piece | list[tuple[int, Conflict]]:
        """The piece of a span, which is a function of its name: the kept one, or the one solved now, which is kept."""
        if self.kept is None:
            return self.solve(span)
        name = self.name(span)
        outcome: Piece | list[tuple[int, Conflict]] | None = self.kept.get(name)
        if outcome is None:
            outcome = self.solve(span)
            if isinstance(outcome, Piece):
                self.kept.keep(name, outcome)
        return outcome

    def solve(self, span: Span) -> Piece | list[tuple[int, Conflict]]:
        """Estimate and round the children of the parents ``span[0]`` to ``span[1]``.

        Where the children of some parents cannot keep their constraints, nothing is solved and no noise is asked for:
        these parents are returned instead, each with its conflict.
        """
        (first, last), above = span, self.above
        nests, parent = nests_of_parents(self.first_child, above, first, last)
        how, table = Solved(level=self.level), np.empty(0, np.int64)
        if len(nests):
            limits = [limit.of_children(nests.child) for limit in self.limits.carried[self.level]]
            conflicting = [(int(parent[conflict.nest]), conflict) for conflict in conflicts(nests, limits)]
            if conflicting:
                return conflicting
            how, table = _solved(nests, self.level, self.answers, limits, self.first)
        sizes, cell, count = collect(
            self.first_child, above.start, above.cell, above.count, first, last, parent,
            nests.cell_start, nests.cell, nests.block_start, table,
        )  # fmt: skip
        children, cells = (np.diff(array[first : last + 1]) for array in (self.first_child, above.start))
        return Piece(
            parents=last - first,
            sizes=sizes,
            cell=cell.astype(above.cell.dtype),
            count=count.astype(above.count.dtype),
            solved=replace(how, copied=int((children == 1).sum()), empty=int(((cells == 0) & (children > 1)).sum())),
        )


def _solved(nests: Nests, level: str, answers: Answers, limits: list[Limits], first: int) -> tuple[Solved, Integers]:
    """Estimate and round the tables of some nests: how it was done, and the counts."""
    measurements = answers.measurements
    estimated = _estimated(nests, level, answers, limits)
    lots = lots_of(measurements.identifier, level, nests.child + first)
    rounded = round_nests(estimated.x, nests, limits, measurements.schema, measurements.strategy.rounding, lots)
    how = Solved(
        level=level,
        parents=len(estimated.gap),
        fast=int((~estimated.general).sum()),
        general=int(estimated.general.sum()),
        informed=len(nests) if answers.informed(level) else 0,
        flows=rounded.flows,
        programs=rounded.programs,
        gap=float(estimated.gap.max()),
        distance=float(estimated.distance.max()),
        violation=float(estimated.violation.max()),
    )
    return how, rounded.counts


def _estimated(nests: Nests, level: str, answers: Answers, limits: Sequence[Limits]) -> Estimated:
    """Get the answers that the nests need, and estimate their tables.

    If nothing is measured at a level, its invariants leave one table, which any objective finds.
    """
    asked = answers.passes(nests, level)
    if not asked:
        cells = answers.measurements.schema.cells
        return estimate(nests, [unanswered_cells(nests, cells, weight=1.0)], limits)
    return estimate(nests, asked[0], limits) if len(asked) == 1 else estimate_in_passes(nests, asked, limits)
