"""The exhibits of expected errors: totals beside the places they belong to, and groups.

All of them are made from the release alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tallyveil.privacy.sentences import the_whole
from tallyveil.release.certificate_page import number
from tallyveil.report.exhibit import Exhibit, a, people, plain, query_words, records
from tallyveil.report.expected import Expected
from tallyveil.report.grid import grid
from tallyveil.report.plots import altair
from tallyveil.report.theme import ERROR, INK, MEASURED, PLACE, SOFT, people_axis

SIZES, MARGIN, FOUND = "people in a typical place", "90% margin of its total", "measured: nine in ten within"
LABEL = 30.0  # factor on the scale of people that leaves room for a label


def hero(expected: Expected, measured: pd.DataFrame | None = None) -> Exhibit:
    """How large errors are beside the places that they belong to. ``measured`` has ``level`` and ``within``."""
    table = expected.totals.drop(columns="at_most")
    table = table if measured is None else table.merge(measured, on="level")
    bars = []
    for row in table.itertuples():
        bars.append(_bar(row.level, SIZES, row.low, row.high, number(round(row.median))))
        bars.append(_bar(row.level, MARGIN, 0.0, row.margin, _plus_minus(row.margin)))
        if measured is not None:
            bars.append(_bar(row.level, FOUND, 0.0, row.within, _plus_minus(row.within)))
    chart = _hero_chart(altair(), pd.DataFrame(bars), list(table.level), expected.totals, measured is not None)
    units = "; ".join(
        f"{row.level}: {number(round(row.median))} people in a typical one, margin {_plus_minus(row.margin)}"
        for row in table.itertuples()
    )
    headings = {"level": "level", "units": "places", "low": "10th percentile of totals", "median": "median total"}
    headings |= {"high": "90th percentile", "margin": "90% margin"}
    if measured is not None:
        headings |= {"within": "measured: nine in ten within", "inside": "share within the margin"}
    return Exhibit(
        key="error-by-level",
        title="Published totals and their margins",
        says="",
        alt=f"A bar chart by level, on a logarithmic scale of people. {units}.",
        definition=(
            "The lighter bar spans the published totals of the middle eight in ten places of a level, among those with "
            "people; its mark is the median. The other bar is the 90% margin: nine in ten of these totals are expected "
            f"to be within this many people of the true number. Where margins come from: {expected.source} Errors of "
            "the count itself, such as people who were missed, come on top."
            + (" The third bar was measured: nine in ten errors are no larger." if measured is not None else "")
        ),
        chart=chart,
        table=table,
        headings=headings,
        internal=measured is not None,
    )


def _bar(level: str, what: str, low: float, high: float, label: str) -> dict[str, Any]:
    return {"level": level, "what": what, "low": low, "high": high, "label": label}


def _plus_minus(margin: float) -> str:
    if margin < 0.1:
        return "<0.1" if margin > 0 else "exact"
    return f"\N{PLUS-MINUS SIGN}{people(margin)}"


def _hero_chart(alt: Any, bars: pd.DataFrame, levels: Sequence[str], totals: pd.DataFrame, measured: bool) -> Any:
    kinds = [SIZES, MARGIN, *([FOUND] if measured else [])]
    colours = alt.Scale(domain=kinds, range=[PLACE, ERROR, MEASURED][: len(kinds)])
    most = max(1.5 * float(totals.high.max()), LABEL * float(bars[bars.what != SIZES].high.max()), 10.0)
    bars = bars.assign(before=(bars.what == SIZES) & (bars.high * LABEL > most) & (bars.low > LABEL))
    bars, totals = (frame.assign(level=frame.level.map(plain)) for frame in (bars, totals))
    levels = [plain(level) for level in levels]
    axis = people_axis(alt, "people (logarithmic scale)")
    axis["scale"] = alt.Scale(type="symlog", constant=1, domain=[0, most], nice=False)
    base = alt.Chart(alt.Data(values=records(bars))).encode(
        y=alt.Y("level:N", sort=list(levels), title=None, scale=alt.Scale(paddingInner=0.25)),
        yOffset=alt.YOffset("what:N", sort=kinds),
        color=alt.Color("what:N", scale=colours, sort=kinds, title=None, legend=alt.Legend(direction="vertical")),
        tooltip=[
            alt.Tooltip("level:N", title="level"),
            alt.Tooltip("what:N", title="what"),
            alt.Tooltip("low:Q", title="from", format=",.1f"),
            alt.Tooltip("high:Q", title="to", format=",.1f"),
        ],
    )
    drawn = base.mark_bar(cornerRadius=2).encode(x=alt.X("low:Q", **axis), x2="high:Q")
    medians = (
        alt.Chart(alt.Data(values=records(totals.assign(what=SIZES))))
        .mark_tick(thickness=3, color=SOFT)
        .encode(
            x="median:Q",
            y=alt.Y("level:N", sort=list(levels)),
            yOffset=alt.YOffset("what:N", sort=kinds),
            tooltip=[alt.Tooltip("level:N"), alt.Tooltip("median:Q", title="median total", format=",.0f")],
        )
    )
    text = {"fontWeight": "bold", "color": INK}
    after = base.mark_text(align="left", dx=6, **text).encode(x="high:Q", text="label:N", color=alt.value(INK))
    before = base.mark_text(align="right", dx=-6, **text).encode(x="low:Q", text="label:N", color=alt.value(INK))
    labels = [after.transform_filter("!datum.before"), before.transform_filter("datum.before")]
    return alt.layer(drawn, medians, *labels).properties(height=len(levels) * (24 * len(kinds) + 8))


def groups(expected: Expected) -> Exhibit | None:
    """The margins of counts of groups, by query and level; None where no query but the total has a table."""
    table = expected.groups
    if table.empty:
        return None
    levels = [level for level in expected.totals.level if (table.level == level).any()]
    labelled = table.assign(label=[_plus_minus(margin) for margin in table.margin])
    chart = grid(labelled, levels=levels, value="margin", words="90% margin")
    finest = table[table.level == levels[-1]]
    about = "at most about" if expected.totals.at_most.iloc[-1] else "about"
    place = a(levels[-1]) if len(expected.totals) > 1 else the_whole(levels[-1])
    least, most = finest.margin.min(), finest.margin.max()
    between = people(most) if people(least) == people(most) else f"{people(least)} to {people(most)}"
    return Exhibit(
        key="error-of-groups",
        title="How large are errors in counts of groups?",
        says=f"The count of one group in {place} has a 90% margin of {about} {between} people.",
        alt="A grid with a row for each kind of count and a column for each level; darker cells have larger margins. "
        + "; ".join(
            f"{query_words(row['query'])} at level {plain(row['level'])}: {people(row['margin'])}"
            for row in records(table)
        )
        + ".",
        definition=(
            "A count of a group is the number of people of one label, or of one combination of labels, in one place. "
            "Nine in ten of these counts are expected to be within the margin of "
            f"the true number. Where margins come from: {expected.source_of_groups}"
        ),
        chart=chart,
        table=table,
        words={"query": query_words},
        headings={"level": "level", "query": "counts by", "margin": "90% margin"},
    )
