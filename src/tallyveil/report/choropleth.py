"""Maps of a report: published totals and their margins by unit, on areas that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.nouns.spine import Spine
from tallyveil.release.certificate_page import number
from tallyveil.report.exhibit import Exhibit, records
from tallyveil.report.expected import CLASSES, Expected
from tallyveil.report.geojson import Areas, LevelAreas
from tallyveil.report.plots import altair
from tallyveil.report.precision_exhibits import CLASS_NAMES
from tallyveil.report.section import Section
from tallyveil.report.theme import PAPER, RAMP, SEQUENCE, STATIC_WIDTH

NAMED = 10  # areas that are no unit, by name


def map_section(areas: Areas, spine: Spine, expected: Expected) -> Section:
    """A map of totals and one of margins for each level that has areas, and which areas are no unit."""
    words = []
    if areas.unmatched:
        some = ", ".join(areas.unmatched[:NAMED])
        more = len(areas.unmatched) - NAMED
        words.append(
            f"Areas of the map that match no unit, and are not drawn: {some}"
            f"{f', and {number(more)} more' if more > 0 else ''}."
        )
    words += [
        f"{number(one.missing)} of the {number(spine.size(one.level))} units at level {one.level} have no area on "
        "the map."
        for one in areas.levels
        if one.missing
    ]
    exhibits = [exhibit for one in areas.levels for exhibit in _maps(one, areas.aspect, spine, expected)]
    return Section(key="map", title="On the map", words=words, exhibits=exhibits)


def _maps(one: LevelAreas, aspect: float, spine: Spine, expected: Expected) -> list[Exhibit]:
    units = list(one.shapes)
    labels, names = spine.labels(one.level), spine.names.get(one.level)
    published = expected.published[one.level][units].astype(np.int64)
    margin = expected.margin[one.level][units]
    share = np.where(published > 0, margin / np.maximum(published, 1), np.where(margin > 0, np.inf, 0.0))
    table = pd.DataFrame({"unit": [labels[unit] for unit in units], "total": published, "margin": margin})
    if names is not None:
        table.insert(1, "name", [str(names.of_unit[unit]) for unit in units])
    table["share"] = np.where(np.isfinite(share), share, np.nan)
    edges = _edges(published)
    sizes = [_size_words(edges, i) for i in range(len(edges) - 1)]
    drawn = table.assign(
        size=[sizes[i] for i in np.clip(np.searchsorted(edges, published, side="right") - 1, 0, len(sizes) - 1)],
        precision=[CLASS_NAMES[i] for i in np.searchsorted(CLASSES, share - 1e-12)],
    )
    shapes = [
        {"type": "Feature", "geometry": one.shapes[unit], "properties": row}
        for unit, row in zip(units, records(drawn), strict=True)
    ]
    headings = {"unit": "unit"} | ({"name": "name"} if names is not None else {})
    headings |= {"total": "published total", "margin": "90% margin", "share": "margin over total"}
    same: dict[str, Any] = {"table": table, "headings": headings}
    matched = f"Areas are matched to units by their property {one.key!r}."
    return [
        Exhibit(
            key=f"map-totals-{spine.depth(one.level)}",
            title=f"Published total of every {one.level}",
            says="",
            alt=f"A map of {len(units)} areas, shaded by their published total. The table has all numbers.",
            definition=f"The published number of people, in classes with about as many areas each. {matched}",
            chart=_choropleth(shapes, "size", sizes, SEQUENCE, "people", aspect),
            **same,
        ),
        Exhibit(
            key=f"map-margins-{spine.depth(one.level)}",
            title=f"Margin of the total of every {one.level}",
            says="",
            alt=f"A map of {len(units)} areas, shaded by the margin of their total as a share of it.",
            definition=f"The 90% margin of the total, divided by the published total. {matched}",
            chart=_choropleth(shapes, "precision", list(CLASS_NAMES), RAMP, "margin, as a share of the total", aspect),
            **same,
        ),
    ]


def _edges(counts: np.ndarray) -> list[int]:
    """Where the classes of published totals start, with about as many areas each; the last edge is past the largest."""
    cuts = np.quantile(counts, np.linspace(0, 1, len(SEQUENCE) + 1)[1:-1], method="higher")
    starts = sorted({int(counts.min()), *(int(cut) for cut in cuts if cut > counts.min())})
    return [*starts, int(counts.max()) + 1]


def _size_words(edges: Sequence[int], i: int) -> str:
    low, high = edges[i], edges[i + 1] - 1
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _choropleth(
    shapes: Sequence[dict[str, Any]],
    field: str,
    classes: Sequence[str],
    colours: Sequence[str],
    title: str,
    aspect: float,
) -> Any:
    alt = altair()
    named = "name" in shapes[0]["properties"]
    return (
        alt.Chart(alt.Data(values=list(shapes)))
        .mark_geoshape(stroke=PAPER, strokeWidth=0.8)
        .encode(
            color=alt.Color(
                f"properties.{field}:N",
                sort=list(classes),
                scale=alt.Scale(domain=list(classes), range=list(colours[: len(classes)])),
                title=title,
                legend=alt.Legend(columns=2, titleLimit=340),
            ),
            tooltip=[
                alt.Tooltip("properties.unit:N", title="unit"),
                *([alt.Tooltip("properties.name:N", title="name")] if named else []),
                alt.Tooltip("properties.total:Q", title="published total", format=",d"),
                alt.Tooltip("properties.margin:Q", title="90% margin", format=",.1f"),
                alt.Tooltip("properties.share:Q", title="margin over total", format=".1%"),
            ],
        )
        .project(type="identity", reflectY=True)
        .properties(height=int(np.clip(STATIC_WIDTH * aspect, 220, 520)), usermeta={"aspect": aspect})
    )
