"""The exhibits of precision: margins beside the counts that they belong to, for totals and for groups.

All of them are made from the release alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tallyveil._arrays import Integers
from tallyveil.privacy.sentences import listed, the_whole
from tallyveil.release.certificate_page import number, percent
from tallyveil.report.exhibit import Exhibit, a, plain, query_words, records
from tallyveil.report.expected import Expected, precision_classes
from tallyveil.report.plots import altair
from tallyveil.report.theme import RAMP

CLASS_NAMES = ("1% or less", "1 to 5%", "5 to 20%", "20 to 100%", "more than the count")  # of expected.CLASSES
FIT = 0.05  # a margin of at most this share of the count


def precision(expected: Expected) -> Exhibit:
    """The share of each level's places by how large the margin of the total is beside the total."""
    levels = list(expected.totals.level)
    rows = [row for level in levels for row in _precision_rows(expected, level)]
    table = pd.DataFrame(rows)
    chart = _share_bars(table, by="level", counted="places", words="places with people", of="total")
    says = _which_are_precise(expected, fit_levels(expected))
    poor = table[(table["class"] == CLASS_NAMES[-1]) & (table.share >= 0.005)]
    if len(poor):
        worst = poor.iloc[-1]
        of = int(table[table.level == worst.level].places.sum())
        where = f"{number(worst.places)} of {number(of)} places at level {plain(worst.level)}"
        says += f" For {where}, it is larger than the total."
    return Exhibit(
        key="precision-of-totals",
        title="Which totals are precise?",
        says=says,
        alt="A stacked bar for each level. "
        + "; ".join(f"{level}: {_precision_words(table[table.level == level])}" for level in levels)
        + ".",
        definition=(
            "For every place that is published with people, the 90% margin of its total is divided by the total. The "
            "bars show how the places of a level divide into classes of that share. Errors do not grow with the place, "
            "so totals of large places are precise and totals of small ones are not. Exact totals are in the first "
            "class."
        ),
        chart=chart,
        table=table.drop(columns="order"),
        headings={"level": "level", "class": "margin", "places": "places", "share": "share"},
    )


def _which_are_precise(expected: Expected, fit: Sequence[str]) -> str:
    """The levels whose totals are precise; those with one unit are named where they are the only ones."""
    several = [level for level in fit if expected.published[level].size > 1]
    if several:
        return (
            f"Totals are precise at {level_words(several)}: for at least nine in ten places the margin is 5% or less."
        )
    if not fit:
        return "At no level do nine in ten totals have a margin of 5% or less."
    root = expected.totals.level.iloc[0]
    single = listed([the_whole(level) if level == root else f"the {plain(level)}" for level in fit])
    return f"The total of {single} is precise. At no other level do nine in ten totals have a margin of 5% or less."


def precision_of_groups(expected: Expected) -> Exhibit | None:
    """The share of the finest level's counts of groups by how large the margin is beside the count."""
    level = expected.totals.level.iloc[-1]
    rows = [
        row for query, counted in expected.precise.items() for row in _class_rows("query", query, "counts", counted)
    ]
    if not rows:
        return None
    table = pd.DataFrame(rows)
    place = a(level) if len(expected.totals) > 1 else the_whole(level)
    return Exhibit(
        key="precision-of-groups",
        title=f"Which counts of groups are precise in {place}?",
        says="Share of the counts that are smaller than their margin: "
        + ", ".join(f"{exceeded(counted):.0%} by {query_words(query)}" for query, counted in expected.precise.items())
        + ".",
        alt="A stacked bar for each kind of count. "
        + "; ".join(
            f"{query_words(query)}: {_precision_words(table[table['query'] == query])}" for query in expected.precise
        )
        + ".",
        definition=(
            f"For every group that is published with people in {place}, the 90% margin of its count is divided by "
            "the count. The bars show how the counts divide into classes of that share. A count that is smaller than "
            f"its margin may be noise alone. Where margins come from: {expected.source_of_groups}"
        ),
        chart=_share_bars(table, by="query", counted="counts", words="counts published with people", of="count"),
        table=table.drop(columns="order"),
        words={"query": query_words},
        headings={"query": "counts by", "class": "margin", "counts": "counts", "share": "share"},
    )


def exceeded(counted: Integers) -> float:
    """The share of counts in the last class: those smaller than their margin."""
    return float(counted[-1] / max(int(counted.sum()), 1))


def _share_bars(table: pd.DataFrame, *, by: str, counted: str, words: str, of: str) -> Any:
    """A stacked bar for each value of ``by``: the shares of the classes of a margin beside its count."""
    alt = altair()
    table = table.assign(**{by: table[by].map(query_words if by == "query" else plain)})
    kinds = list(dict.fromkeys(table[by]))
    axis = alt.Axis(format="%", tickCount=5, title=f"share of the {words}")
    return (
        alt.Chart(alt.Data(values=records(table)))
        .mark_bar()
        .encode(
            y=alt.Y(f"{by}:N", sort=kinds, title=None),
            x=alt.X("share:Q", stack="zero", axis=axis, scale=alt.Scale(domain=[0, 1])),
            order="order:Q",
            color=alt.Color(
                "class:N",
                sort=list(CLASS_NAMES),
                scale=alt.Scale(domain=list(CLASS_NAMES), range=RAMP),
                title=f"margin, as a share of the published {of}",
                legend=alt.Legend(columns=2, titleLimit=340),
            ),
            tooltip=[
                alt.Tooltip(f"{by}:N", title="counts by" if by == "query" else by),
                alt.Tooltip("class:N", title="margin"),
                alt.Tooltip(f"{counted}:Q", format=",d"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(height=30 * len(kinds))
    )


def _precision_rows(expected: Expected, level: str) -> list[dict[str, Any]]:
    classes = precision_classes(expected.published[level], expected.margin[level])
    return _class_rows("level", level, "places", classes)


def _class_rows(by: str, name: str, what: str, counted: Integers) -> list[dict[str, Any]]:
    of = max(int(counted.sum()), 1)
    return [
        {by: name, "class": each, what: int(n), "share": n / of, "order": order}
        for order, (each, n) in enumerate(zip(CLASS_NAMES, counted, strict=True))
    ]


def _precision_words(rows: pd.DataFrame) -> str:
    return ", ".join(f"{percent(row.share)} {row[1]}" for row in rows[["share", "class"]].itertuples() if row.share)


def fit_levels(expected: Expected) -> list[str]:
    """The levels at which at least nine in ten places with people have a total with a margin of 5% or less."""
    fit = []
    for level in expected.totals.level:
        published, margin = expected.published[level], expected.margin[level]
        peopled = published > 0
        if peopled.any() and (margin[peopled] <= FIT * published[peopled]).mean() >= 0.9:
            fit.append(level)
    return fit


def level_words(levels: Sequence[str]) -> str:
    """Levels by their names.

    >>> level_words(["state"]), level_words(["state", "county", "tract"])
    ('level state', 'the levels state, county and tract')
    """
    names = [plain(level) for level in levels]
    return f"level {names[0]}" if len(names) == 1 else f"the levels {listed(names)}"
