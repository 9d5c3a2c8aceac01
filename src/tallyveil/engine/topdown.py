"""TopDown: from the root to the leaves, each level from its own measurements and the level above.

The children of each parent are estimated jointly (``estimate``) and then rounded (``rounding``). An only child copies
its parent, and the children of an empty parent are empty. Parents are independent of each other, and noise is a
function of its place, so the result depends neither on the order of the work nor on where it runs.

Whether the constraints can hold is decided before any noise is drawn. Noise can still bring a parent into conflict with
its children's constraints; such a parent is changed as little as possible (``relax``).
"""

from __future__ import annotations

from tallyveil._workers import Run
from tallyveil.engine.constraints import check_counts
from tallyveil.engine.feasibility import check_feasible
from tallyveil.engine.level import Progress, solve_level, solve_root
from tallyveil.engine.pieces import KeptPieces
from tallyveil.engine.run_limits import RunLimits, run_limits
from tallyveil.engine.set_aside import SetAside
from tallyveil.engine.tree_answers import answers_of
from tallyveil.errors import EndedAfterNoise, LostCluster, TallyveilError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.release.measurements import Measurements
from tallyveil.release.solved import Solved


def topdown(
    measurements: Measurements,
    *,
    facilities: Facilities | None = None,
    limits: RunLimits | None = None,
    failsafe: bool = True,
    run: Run = map,
    progress: Progress | None = None,
    kept: KeptPieces | None = None,
    aside: SetAside | None = None,
) -> tuple[Histogram, tuple[Solved, ...]]:
    """Return the protected counts and how each level was solved, from measurements alone.

    Parameters
    ----------
    measurements
        The noisy answers and the strategy.
    facilities
        The facilities that the strategy's bounds refer to, on the published spine.
    limits
        The limits of the run (``run_limits``), if they have already been computed and found feasible.
    failsafe
        Change a parent as little as possible where its children could not keep their constraints otherwise. Without
        the failsafe the run ends there, which depends on the noise.
    run
        Solves the pieces of a level and returns the results in order, like ``map``.
    progress
        Called with a level, how many of its parents are done, and how many there are.
    kept
        Where finished pieces of levels are kept, so that an interrupted run does not solve them again. The result does
        not depend on it.
    aside
        Where the counts of the leaves wait if they should not fill memory. The release then reads them from there.

    Raises
    ------
    InputError
        The constraints cannot hold. No noise has been drawn.
    EndedAfterNoise
        The run ended after noise was drawn.
    """
    spine, schema = measurements.spine, measurements.schema
    limits = limits or _feasible_limits(measurements, facilities)
    report = progress or (lambda *_: None)
    answers = answers_of(measurements, facilities)
    try:
        counts, how = solve_root(answers, limits, kept)
        solved = [how]
        report(spine.levels[0], 1, 1)
        for level in spine.levels[1:]:
            finest = aside if level == spine.leaf else None
            counts, how = solve_level(answers, level, counts, limits, failsafe, run, report, kept, finest)
            solved.append(how)
        release = Histogram(spine=spine, schema=schema, leaves=counts, stamps=measurements.stamps)
        published = release if limits.optimised is None else limits.optimised.restored(release)
        check_counts(published, limits.declared, limits.possible, whose="the release")
    except (EndedAfterNoise, LostCluster):
        raise
    except TallyveilError as problem:
        raise EndedAfterNoise(str(problem)) from problem
    return release, tuple(solved)


def _feasible_limits(measurements: Measurements, facilities: Facilities | None) -> RunLimits:
    limits = run_limits(
        measurements.published,
        measurements.schema,
        measurements.strategy,
        exact=measurements.exact,
        facilities=facilities,
        optimised=measurements.optimised,
    )
    check_feasible(limits)
    return limits
