"""What an estimate is made from, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.blue.pose import WIDE, variance_ratio
from tallyveil.blue.problem import Problem, available_queries
from tallyveil.release.measurements import Measurements


def information_words(problems: Sequence[Problem], measurements: Measurements) -> str:
    """The measurements and exact answers that estimates use.

    The words name levels whose measurements were not saved, and levels that are too coarsely measured to be used, at
    all or for some of the queries.
    """
    finest = problems[0]
    partly = [level for level in problems[-1].dropped if level not in finest.dropped]
    levels = measurements.spine.levels
    wanted = {level: list(measurements.strategy.queries[level]) for level in levels}
    there = {level: available_queries(measurements, level) for level in levels}
    used = [level for level in levels if there[level] and level not in finest.dropped]
    if all(there[level] == wanted[level] for level in levels) and not finest.dropped:
        words = f"all measurements of all levels ({', '.join(used)})"
    else:
        parts = []
        for level in used:
            some = "all measurements" if there[level] == wanted[level] else _listed(there[level])
            parts.append(f"{some} of {level}")
        words = "; ".join(parts)
        missing = [level for level in levels if wanted[level] and not there[level]]
        if missing:
            words += f"; nothing was saved from {_listed(missing)}"
        if coarse := [level for level in finest.dropped if level not in missing]:
            words += f"; {_listed(coarse)} left out, since what was measured there does not determine these queries"
    if partly:
        words += f"; what was measured at {_listed(partly)} is used only for the queries that it determines"
    coarser = finest.coarser
    if coarser is not None:
        merged = [name for name in measurements.schema.attributes if name in coarser.merged]
        words += f"; on coarser labels of {_listed(merged)}, to which finer queries were summed"
        known = dict.fromkeys(name for level in used for name in there[level])
        apart = [name for name in known if coarser.sums(measurements.schema.query(name)) is None]
        if apart:
            words += f"; {_listed(apart)} left out, which does not nest with the requested queries"
    exact = [
        f"{known.marginal.query.name} of {stage.stage.level or 'whole units'}"
        for stage in finest.stages
        for known in stage.known
    ]
    if exact:
        words += f"; exact: {_listed(exact)}"
    if any(not stage.opened.all() for stage in finest.stages):
        words += "; cells that constraints say are empty"
    if not finest.with_care and (ratio := variance_ratio(measurements)) > WIDE:
        words += (
            f"; the variances differ by a factor of {ratio:.0e}, which costs about as many digits on so large a tree"
        )
    return words


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
