"""``--optimise-spine``: the spine that is measured in place of the published one, from tables of areas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.reading import find_areas
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine
    from tallyveil.privacy import Strategy

HOUSEHOLD = "household"  # the type of facilities that is not group quarters


def optimised_spine(
    people: Histogram, *, places: Path | None, tribal: Path | None, facilities: Facilities | None = None
) -> OptimisedSpine:
    """The optimised spine of these people's units.

    Public facilities that bound the release shape the spine too, as in 2020, if they tell households from group
    quarters.
    """
    shaping = facilities is not None and HOUSEHOLD in facilities.types and not facilities.from_people
    public = facilities if shaping else None
    return people.spine.optimised(
        place=find_areas(places, people), tribal=find_areas(tribal, people), facilities=public
    )


def refuse_unmeasurable(
    people: Histogram, strategy: Strategy, facilities: Facilities | None, optimised: OptimisedSpine
) -> None:
    """Refuse constraints about units that the optimised spine rebuilds or splits, also where only a plan is wanted."""
    from tallyveil.engine.run_limits import run_limits
    from tallyveil.mechanisms.measure import exact_answers

    exact = exact_answers(people, strategy)
    run_limits(people.spine, people.schema, strategy, exact=exact, facilities=facilities, optimised=optimised)


def refuse_without_optimising(places: Path | None, tribal: Path | None) -> None:
    """Refuse areas that nothing would use."""
    for option, file in (("--places", places), ("--tribal", tribal)):
        if file is not None:
            raise InputError(f"{option} {file} shapes the optimised spine only. Add --optimise-spine, or leave it out.")
