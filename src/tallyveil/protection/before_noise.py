"""What is checked before any noise is drawn: that the constraints can hold, that the data keep them, and free space."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pyarrow as pa

from tallyveil._memory import refuse_need
from tallyveil.blue.upward import RUN_NUMBERS
from tallyveil.engine.constraints import check_counts
from tallyveil.engine.feasibility import check_feasible
from tallyveil.engine.run_limits import RunLimits, run_limits
from tallyveil.errors import BudgetError, FolderError
from tallyveil.files.release_folder.layout import LEVEL_PIECE
from tallyveil.files.release_folder.measurement_files import planned_sizes
from tallyveil.mechanisms.measure import exact_answers
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Pair
from tallyveil.release.plan import effort_of, human_bytes, level_queries, public_persons

MACHINE_CODE = 400 << 20  # bytes that compiled kernels and their scratch take, whatever the size of the tables
SURELY = 0.1  # of the estimated size of a release is surely needed: zeros in tables compress well


def checked_limits(
    people: Histogram, strategy: Strategy, facilities: Facilities | None, *, optimised: OptimisedSpine | None = None
) -> RunLimits:
    """The limits of a run, after every check that can be made before noise is drawn.

    Whether bounds and invariants can hold together is decided without the data. The data are compared with the bounds
    only if the strategy says so; the guarantee is then about neighbours that satisfy them.
    """
    exact = exact_answers(people, strategy)
    limits = run_limits(people.spine, people.schema, strategy, exact=exact, facilities=facilities, optimised=optimised)
    check_feasible(limits, exactly=not strategy.check_constraints)
    if strategy.check_constraints:
        if strategy.neighbours == "add-or-remove":
            _refuse_fixed_population(limits)
        check_counts(people, limits.declared, limits.possible, whose="the data")  # data that pass prove feasibility
    return limits


def refuse_full_disk(
    folder: str | PathLike[str],
    people: Histogram,
    strategy: Strategy,
    pairs: Sequence[Pair],
    *,
    optimised: OptimisedSpine | None = None,
) -> None:
    """Refuse to begin where the release surely does not fit; its size is estimated from what is public."""
    effort = effort_of(strategy, people.spine, people.schema, persons=public_persons(people, strategy))
    measurements = planned_sizes(people, strategy, pairs, optimised=optimised).bytes if pairs else 0
    size = effort.release_bytes + effort.levels_bytes + measurements
    free = shutil.disk_usage(Path(folder).absolute().parent).free
    if free < SURELY * size:
        raise FolderError(
            f"{folder}: the release takes about {human_bytes(size)}, and only {human_bytes(free)} are free there. Name "
            f"a folder on a larger disk, or publish fewer measurements."
        )


def refuse_little_memory(people: Histogram, strategy: Strategy, *, threads: int | None = None) -> None:
    """Refuse to begin where protecting and writing would not keep the limit on memory, if there is one."""
    solving = 3 * people.leaves.nbytes  # the level above, a level in pieces, and joined
    if strategy.estimator == "tree":  # on each thread, estimates of a run of units, with what they are made from
        run = min(RUN_NUMBERS, people.leaves.units * people.schema.cells)
        solving += 5 * 8 * run * (threads or os.cpu_count() or 1)
    columns = (
        sum(people.schema.query(query).size for query in level_queries(strategy, people.schema, level)) * units
        for level, units in ((level, people.spine.size(level)) for level in people.spine.levels)
    )
    writing = people.leaves.nbytes + 4 * 8 * min(max(columns), LEVEL_PIECE)
    pa.default_memory_pool().release_unused()  # what reading tables took
    refuse_need(MACHINE_CODE + max(solving, writing), "protecting these counts")  # code stays while files are written


def _refuse_fixed_population(limits: RunLimits) -> None:
    """Refuse bounds that allow only one number of people: no two datasets that differ by one person satisfy them."""
    bounds = [limit.all() for limit in limits.carried[limits.measured.levels[0]]]
    least = max((sum(low.ravel().tolist()) for low, _ in bounds), default=0)
    most = min((sum(high.ravel().tolist()) for _, high in bounds), default=least + 1)
    if least == most:
        raise BudgetError(
            f'neighbours = "add-or-remove", but the constraints leave one number of people, {least:,}: nothing would '
            f'be protected. Drop a constraint, use --unchecked-constraints, or "replace-one".'
        )
