"""What is checked before any noise is drawn: whether the constraints can hold, and whether the data keep them."""

from __future__ import annotations

from tallyveil.engine.constraints import check_counts
from tallyveil.engine.feasibility import check_feasible
from tallyveil.engine.run_limits import RunLimits, run_limits
from tallyveil.errors import BudgetError
from tallyveil.mechanisms.measure import exact_answers
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.privacy.strategy import Strategy


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
