"""Where the names of points can stand in a chart without covering its line, its points or each other.

The chart is drawn at several widths, so a place must be free at the narrowest and at the widest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LETTER, TALL, NEAR = 7.0, 12.0, 9.0  # pixels of a letter, of a line of text, and from a point to its name
DOT = 6.0  # half of a point's size
STEPS = 40  # of a segment of the line
PLACES = {  # from the point to the middle of the nearest side of the name, in pixels; and where the name begins
    "right": (NEAR, 0.0),
    "above right": (NEAR, -NEAR),
    "below right": (NEAR, NEAR),
    "left": (-NEAR, 0.0),
    "above left": (-NEAR, -NEAR),
    "below left": (-NEAR, NEAR),
    "above": (0.0, -NEAR - 4),
    "below": (0.0, NEAR + 4),
}

Points = NDArray[np.float64]  # (n, 2), from 0 to 1 of width and height, from the lower left


@final
class Canvas:
    """What is drawn at one size, in pixels from the upper left."""

    def __init__(self, line: Points, points: Points, *, width: float, height: float, padding: float) -> None:
        self._size, self._padding = np.array([width, height]), padding
        at = self._at(line)
        steps = np.linspace(0, 1, STEPS)[:, None]
        self._ink = np.concatenate([a + (b - a) * steps for a, b in pairwise(at)] or [at])
        self._points = self._at(points)
        self._names: list[tuple[float, float, float, float]] = []

    def _at(self, points: Points) -> Points:
        flipped = np.column_stack([points[:, 0], 1 - points[:, 1]])
        at: Points = self._padding + flipped * (self._size - 2 * self._padding)
        return at

    def box(self, index: int, text: str, place: str) -> tuple[float, float, float, float]:
        """The left, top, right and bottom of a name beside a point."""
        (x, y), (dx, dy), wide = self._points[index], PLACES[place], LETTER * len(text)
        left = x + dx - (wide if dx < 0 else wide / 2 if dx == 0 else 0)
        return left, y + dy - TALL / 2, left + wide, y + dy + TALL / 2

    def covered(self, index: int, text: str, place: str) -> int:
        """How much a name would cover there, outside the chart counting most."""
        left, top, right, bottom = self.box(index, text, place)
        outside = left < 0 or top < 0 or right > self._size[0] or bottom > self._size[1]
        others = np.delete(self._points, index, axis=0)
        dots = (np.abs(others - np.clip(others, [left, top], [right, bottom])) < DOT).all(axis=1)
        ink = ((self._ink >= [left - 1, top - 1]) & (self._ink <= [right + 1, bottom + 1])).all(axis=1)
        names = [a < right and left < c and b < bottom and top < d for a, b, c, d in self._names]
        return int(ink.sum() + STEPS * dots.sum() + STEPS * sum(names) + STEPS * 100 * outside)

    def write(self, index: int, text: str, place: str) -> None:
        """Keep the place of a name."""
        self._names.append(self.box(index, text, place))


def named_points(
    known: pd.DataFrame,
    text: str,
    fractions: Collection[float],
    *,
    sizes: Sequence[tuple[float, float]],
    padding: float,
) -> pd.DataFrame:
    """Releases and samples of some ``fractions``, each with the ``place`` of its name: where it covers nothing.

    ``known`` has ``method``, ``fraction``, and ``median_abs`` and ``epl``, which are drawn on logarithmic axes;
    ``text`` is the column of names, and ``sizes`` are the widths and heights inside the axes.
    """
    known = known.reset_index(drop=True)
    place = np.log(known[["median_abs", "epl"]].to_numpy(dtype=np.float64))
    place = (place - place.min(axis=0)) / np.maximum(np.ptp(place, axis=0), 1e-9)
    is_sample = (known.method == "sample").to_numpy()
    line = place[is_sample][np.argsort(known.fraction[is_sample].to_numpy())]
    canvases = [Canvas(line, place, width=width, height=height, padding=padding) for width, height in sizes]
    others = np.flatnonzero(~is_sample).tolist()
    samples = np.flatnonzero(is_sample & known.fraction.round(6).isin(fractions)).tolist()
    found = free_places(list(known[text]), [*others, *samples], always=len(others), canvases=canvases)
    return known.loc[list(found)].assign(place=list(found.values()))


def side_of(place: str) -> dict[str, Any]:
    """How the text at a place is set."""
    dx, dy = PLACES[place]
    return {"dx": dx, "dy": dy, "align": "left" if dx > 0 else "right" if dx < 0 else "center", "baseline": "middle"}


def free_places(
    texts: Sequence[str], which: Sequence[int], *, canvases: Sequence[Canvas], always: int = 1
) -> dict[int, str]:
    """By point, where its name is free of everything at all sizes; points without such a place are left out.

    The first of ``which`` are ``always`` named, where they cover least.
    """
    found: dict[int, str] = {}
    for index in which:
        covered = {place: sum(one.covered(index, texts[index], place) for one in canvases) for place in PLACES}
        best = min(covered, key=covered.__getitem__)
        if covered[best] and len(found) >= always:
            continue
        found[index] = best
        for one in canvases:
            one.write(index, texts[index], best)
    return found
