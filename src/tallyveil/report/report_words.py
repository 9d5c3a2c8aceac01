"""What a report says in sentences: the three of the first screen, and how to use the numbers and how not to."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from tallyveil.privacy.sentences import the_whole
from tallyveil.release.certificate_page import number
from tallyveil.report.exhibit import a, people, plain, query_words
from tallyveil.report.expected import Expected
from tallyveil.report.precision_exhibits import exceeded, fit_levels, level_words

TWO_PLACES = 2.0  # at most the margin of a difference, in margins of one: errors of siblings can cancel out
LEAST_TOLD = 0.05  # of the counts of an attribute, that are smaller than their margin
PIECES = 100  # places that are added up to an area, for an example


def error_sentence(expected: Expected, measured: pd.DataFrame | None = None) -> str:
    """How large the error is where one lives: at the finest level that has one, and at the coarsest.

    ``measured`` has, by ``level``, the number of people that nine in ten totals are ``within``.
    """
    words = f"{_expected_error(expected)}{_groups_are_less_certain(expected)}"
    if measured is None:
        return words
    finest = measured.iloc[-1]
    return f"{words} Measured at level {finest.level}: nine in ten are within {people(finest.within)}."


def _expected_error(expected: Expected) -> str:
    noisy = expected.totals[expected.totals.margin > 0]
    if noisy.empty:
        return _exact_totals(expected)
    finest, coarsest = noisy.iloc[-1], noisy.iloc[0]
    if finest["units"] == 1:
        return (
            f"The published total of {_place(finest)}, {number(round(finest['median']))}, is expected to be within "
            f"{_about(finest)} {people(finest.margin)} people of the true number, nine times in ten."
        )
    words = (
        f"Nine in ten published totals of {a(finest.level)} are expected to be within {_about(finest)} "
        f"{people(finest.margin)} people of the true number, where a typical {plain(finest.level)} has "
        f"{number(round(finest['median']))}"
    )
    if finest.level == coarsest.level:
        return f"{words}."
    if coarsest["units"] == 1:
        return (
            f"{words}; for {_place(coarsest)}, which has {number(round(coarsest['median']))}, the margin is "
            f"{_about(coarsest)} {people(coarsest.margin)}."
        )
    return (
        f"{words}; for {a(coarsest.level)} the margin is {_about(coarsest)} {people(coarsest.margin)}, where a typical "
        f"one has {number(round(coarsest['median']))}."
    )


def _place(row: Any) -> str:
    """The one unit of a level: the whole by its name, any other by its level."""
    return the_whole(row.level) if row.name == 0 else f"the {plain(row.level)}"


def _in(row: Any) -> str:
    """A place of a level, or the only one."""
    return _place(row) if row["units"] == 1 else a(row.level)


def _groups_are_less_certain(expected: Expected) -> str:
    """A warning where many counts of a single attribute are smaller than their margin; nothing where few are."""
    of = {query: exceeded(counted) for query, counted in expected.precise.items() if query in expected.attributes}
    worst = max(of, key=of.__getitem__, default=None)
    if worst is None or of[worst] < LEAST_TOLD:
        return ""
    return (
        f" Counts of groups are less certain: {of[worst]:.0%} of the counts by {query_words(worst)} in "
        f"{_in(expected.totals.iloc[-1])}, zeros aside, are smaller than their margin."
    )


def _exact_totals(expected: Expected) -> str:
    groups = expected.groups[expected.groups.margin > 0]
    if groups.empty:
        return "Every published count is exact."
    level = groups.level.iloc[-1]
    most = groups[groups.level == level].margin.max()
    of = expected.totals[expected.totals.level == level].iloc[0]
    return (
        f"Totals of all places are exact; the count of one group in {_in(of)} is expected to be within "
        f"{_about(expected.totals.iloc[-1])} {people(most)} people of the true number nine times in ten."
    )


def caution_sentence(expected: Expected) -> str:
    """What must not be concluded."""
    noisy = expected.totals[expected.totals.margin > 0]
    if noisy.empty:
        return (
            "A small count of a group that is not exact does not show that anybody is or is not there: it has an error "
            "of its own."
        )
    finest = noisy.iloc[-1]
    apart = people(TWO_PLACES * finest.margin)
    return (
        f"A small count that is not exact does not show that anybody is or is not there: "
        f"{_small_places(expected, finest)}. A difference "
        f"of fewer than about {apart} people between two places at level {finest.level} may be noise alone."
    )


def _small_places(expected: Expected, finest: Any) -> str:
    """What may be behind the small totals that are published at a level, as far as there are any."""
    published, margin = expected.published[finest.level], expected.margin[finest.level]
    where, words = a(finest.level), []
    if (published == 0).any():
        words.append(f"{where} published with nobody may have people")
        where = "one"
    if ((published > 0) & (published <= margin)).any():
        words.append(f"{where} published with no more people than its margin ({people(finest.margin)}) may have none")
    return " and ".join(words) or "it may be noise"


def _about(row: Any) -> str:
    return "at most about" if row.at_most else "about"


def uses(expected: Expected, *, measurements: bool) -> list[str]:
    """How to use the numbers."""
    noisy = expected.totals[expected.totals.margin > 0]
    words = ["Give the margin with the number, and round the number to it."]
    fit = [level for level in fit_levels(expected) if expected.published[level].size > 1]
    if fit:  # a level with one unit is not a choice
        words.append(
            f"Prefer large places: at {level_words(fit)}, at least nine in ten totals have a margin of 5% or less."
        )
    if not noisy.empty:
        finest = noisy.iloc[-1]
        words.append(
            "Compare two places, or two dates, only where they differ by more than the sum of their margins: by more "
            "than about "
            f"{people(TWO_PLACES * finest.margin)} people for the totals of two places at level {finest.level}."
        )
    if len(expected.totals) > 1:
        words.append(
            "Use the published count of a place instead of adding up its parts: the two agree, and the published one "
            "has its own margin."
        )
    if not noisy.empty and noisy["units"].iloc[-1] >= PIECES:
        finest = noisy.iloc[-1]
        words.append(
            "For an area that is not published, add the squares of the margins of its parts and take the root: for "
            f"{PIECES} places at level {finest.level}, at most about {people(math.sqrt(PIECES) * finest.margin)} "
            "people. “tallyveil estimate” gives the margin itself where the folder keeps the noisy measurements."
        )
    if measurements:
        words.append(
            "Where it matters that errors cancel out, in sums and averages over many small counts, use the unbiased "
            "estimates: the folder keeps the noisy measurements, and “tallyveil estimate” makes any count "
            "of them with its margin."
        )
    return words


def misuses(expected: Expected) -> list[str]:
    """How not to use the numbers."""
    noisy = expected.totals[expected.totals.margin > 0]
    words = [
        "Do not read a published 0 as nobody, or a published 1 as a person, unless the count is exact: both may be "
        "noise.",
        "Do not average many small counts as if their errors cancelled out: counts cannot be negative, so small ones "
        "tend to come out too large and large ones too small.",
        "Do not compute rates with a small count in the denominator: its relative error becomes that of the rate.",
    ]
    small = _mostly_imprecise(expected)
    if small is not None:
        level, share = small
        words.append(
            f"Do not publish or rank single totals at level {level}: for {share:.0%} of its places the margin is "
            f"larger than the total."
        )
    if not noisy.empty:
        words.append(
            "Do not look for anybody in the numbers. Whoever claims to have found a person in them may just as well "
            "have found noise."
        )
    words.append(
        "Do not take the margin for all of the error: people who were missed, counted twice or counted in the wrong "
        "place come on top."
    )
    return words


def _mostly_imprecise(expected: Expected) -> tuple[str, float] | None:
    """The finest level, with its share of places whose margin exceeds their total, if that is one in ten or more."""
    level: Any = expected.totals.level.iloc[-1]
    published, margin = expected.published[level], expected.margin[level]
    peopled = published > 0
    share = float((margin[peopled] > published[peopled]).mean()) if peopled.any() else 0.0
    return (level, share) if share >= 0.1 else None
