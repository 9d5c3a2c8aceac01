"""Areas to draw, from a GeoJSON file that the user gives: which units they are, and shapes fit for a page.

One property of the areas holds the codes of units. It is found by trying: of all properties and levels, the pair that
names the most units is used first, and what is left is tried again, so that a file may hold areas of several levels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, final

from tallyveil.errors import DataError
from tallyveil.nouns.spine import Spine

MOST_AREAS = 3_000  # of one file; more would be a page that browsers open slowly
GRID = 1_000  # steps of a drawing's larger side: about a pixel each


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LevelAreas:
    """The areas of a level: for each unit that has any, its shape on a grid."""

    level: str
    key: str
    shapes: Mapping[int, Mapping[str, Any]]
    missing: int  # units of the level without an area


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Areas:
    """The areas of a file by level, and the names of those that are no unit."""

    levels: Sequence[LevelAreas]
    unmatched: Sequence[str]
    aspect: float  # height over width


def read_shapes(path: str | PathLike[str], spine: Spine) -> Areas:
    """Read the areas of a GeoJSON file and find their units."""
    features = _features(Path(path))
    matched, unmatched = _match(features, spine)
    if not matched:
        raise DataError(_no_match(path, features, spine))
    drawn = [features[i] for _, _, found in matched for i in found]
    flat, aspect = _flattened([feature["geometry"] for feature in drawn])
    shapes = iter(flat)
    levels = []
    for level, key, found in matched:
        by_unit: dict[int, dict[str, Any]] = {}
        for unit in found.values():
            parts = by_unit.setdefault(unit, {"type": "MultiPolygon", "coordinates": []})
            parts["coordinates"] += next(shapes)
        levels.append(LevelAreas(level=level, key=key, shapes=by_unit, missing=spine.size(level) - len(by_unit)))
    order = {level: depth for depth, level in enumerate(spine.levels)}
    levels.sort(key=lambda areas: order[areas.level])
    return Areas(levels=levels, unmatched=[_name(features[i], i + 1) for i in unmatched], aspect=aspect)


def _features(path: Path) -> list[dict[str, Any]]:
    """The areas of a file: features with polygons."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Give a GeoJSON file of areas.") from None
    except (ValueError, OSError) as problem:
        raise DataError(f"{path}: not GeoJSON ({str(problem)[:80]}). Give a GeoJSON file of areas.") from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list) or not features:
        raise DataError(f"{path}: no features are in it. Give a GeoJSON FeatureCollection of polygons.")
    if len(features) > MOST_AREAS:
        raise DataError(
            f"{path}: it has {len(features):,} areas, and a page draws at most {MOST_AREAS:,}. Give those of a coarser "
            f"level, or of one part of the country."
        )
    for number, feature in enumerate(features, 1):
        shape = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(shape, dict) or shape.get("type") not in ("Polygon", "MultiPolygon"):
            kind = shape.get("type") if isinstance(shape, dict) else None
            raise DataError(f"{path}, feature {number}: its geometry is {kind}. Areas are Polygon or MultiPolygon.")
    return features


def _match(
    features: Sequence[Mapping[str, Any]], spine: Spine
) -> tuple[list[tuple[str, str, dict[int, int]]], list[int]]:
    """Levels with their property, and the unit of each of their features; and the features that are no unit."""
    codes = {level: {code: i for i, code in enumerate(spine.labels(level))} for level in spine.levels}
    left = list(range(len(features)))
    found: list[tuple[str, str, dict[int, int]]] = []
    while left:
        best: tuple[str, str, dict[int, int]] | None = None
        for level in spine.levels:
            if any(level == other for other, _, _ in found):
                continue
            for key in dict.fromkeys(key for i in left for key in _properties(features[i])):
                units = {i: codes[level].get(_text(_properties(features[i]).get(key))) for i in left}
                known = {i: unit for i, unit in units.items() if unit is not None}
                if known and (best is None or len(set(known.values())) >= len(set(best[2].values()))):
                    best = (level, key, known)
        if best is None:
            break
        found.append(best)
        left = [i for i in left if i not in best[2]]
    return found, left


def _properties(feature: Mapping[str, Any]) -> Mapping[str, Any]:
    own = feature.get("properties")
    return own if isinstance(own, dict) else {}


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _name(feature: Mapping[str, Any], number: int) -> str:
    """What to call an area that is no unit: by a property that is called a name, since others may hold anything."""
    own = (_text(value) for key, value in _properties(feature).items() if "name" in key.lower())
    return next(filter(None, own), f"feature {number} of the file")


def _no_match(path: str | PathLike[str], features: Sequence[Mapping[str, Any]], spine: Spine) -> str:
    keys = list(dict.fromkeys(key for feature in features for key in _properties(feature)))
    shown = ", ".join(f"{key} ({_text(_properties(features[0]).get(key)) or 'none'})" for key in keys[:5]) or "none"
    codes = ", ".join(f"{level} {spine.labels(level)[0]}" for level in spine.levels)
    return (
        f"{path}: no property of its areas holds codes of units. Its properties are {shown}; codes look like this: "
        f"{codes}. Add a property with these codes, as text."
    )


def _flattened(shapes: Sequence[Mapping[str, Any]]) -> tuple[list[list[list[list[list[int]]]]], float]:
    """Polygons on a plane grid, and the drawing's height over its width.

    Degrees of longitude are made as long as degrees of latitude in the middle of the map. Points of a ring that fall on
    the same place of the grid are drawn once. Coordinates beyond degrees are taken as they are.
    """
    points = [point for shape in shapes for ring in _rings(shape) for point in ring]
    xs, ys = [float(point[0]) for point in points], [float(point[1]) for point in points]
    degrees = min(xs) >= -180 and max(xs) <= 180 and min(ys) >= -90 and max(ys) <= 90
    narrower = math.cos(math.radians((min(ys) + max(ys)) / 2)) if degrees else 1.0
    width, height = max((max(xs) - min(xs)) * narrower, 1e-9), max(max(ys) - min(ys), 1e-9)
    step = max(width, height) / GRID
    west, low = min(xs) * narrower, min(ys)

    def ring_on_grid(ring: Sequence[Sequence[float]]) -> list[list[int]]:
        grid = [[round((float(p[0]) * narrower - west) / step), round((float(p[1]) - low) / step)] for p in ring]
        kept = [point for i, point in enumerate(grid) if i == 0 or point != grid[i - 1]]
        return kept if len(kept) >= 4 else [*kept, *[kept[0]] * (4 - len(kept))]

    flat = [[[ring_on_grid(ring) for ring in polygon] for polygon in _polygons(shape)] for shape in shapes]
    return flat, height / width


def _polygons(shape: Mapping[str, Any]) -> list[Any]:
    return [shape["coordinates"]] if shape["type"] == "Polygon" else list(shape["coordinates"])


def _rings(shape: Mapping[str, Any]) -> Iterator[Any]:
    for polygon in _polygons(shape):
        yield from polygon
