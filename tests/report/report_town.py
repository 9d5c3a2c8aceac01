"""A small country for reports: five counties of forty blocks, and shapes of the counties on a map."""

import json
import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import numpy as np

import tallyveil as tv

COUNTIES = 5
BLOCKS = [f"{county}{block:02}" for county in range(1, COUNTIES + 1) for block in range(40)]
SPINE = tv.Spine.from_columns({"county": [block[0] for block in BLOCKS], "block": BLOCKS}, root="land")
SCHEMA = tv.Schema(attributes={"age": ["child", "adult"], "home": ["house", "flat"]})


@cache
def town() -> tv.Histogram:
    """Blocks of every size, with many small ones; some are empty."""
    rng = np.random.default_rng(7)
    count = rng.poisson(rng.choice([0, 2, 20, 200], p=[0.1, 0.4, 0.3, 0.2], size=(len(BLOCKS), 1)), (len(BLOCKS), 4))
    unit, cell = np.nonzero(count)
    return tv.Histogram.from_entries(SPINE, SCHEMA, unit=unit, cell=cell, count=count[unit, cell])


@cache
def town_release(*, measurements: bool = True, **budget) -> tv.Release:
    strategy = tv.Strategy.default(SPINE, SCHEMA, **(budget or {"rho": 1}))
    kept = {"measurements": None} if measurements else {}
    return tv.protect(town(), strategy, seed=1, **kept)


def write_areas(folder: Path, codes=("1", "2", "3", "4", "5"), also=("Atlantis",)) -> Path:
    """Squares side by side with the codes of counties as numbers, and areas that are no county."""
    features = [_square(i, {"land": "land", "id": int(code), "name": f"County {code}"}) for i, code in enumerate(codes)]
    features += [_square(i, {"land": "sea", "id": 9000 + i, "name": name}) for i, name in enumerate(also, len(codes))]
    path = folder / "areas.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def _square(i: int, properties: dict) -> dict:
    ring = [[i, 50], [i + 1, 50], [i + 1, 51], [i, 51], [i, 50]]
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": [ring]}}


def words_of(page: str) -> str:
    """The page as one reads it: without scripts, styles, drawings and tags."""
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", text)))


def digits_of(page: str) -> str:
    """All of the page, its scripts and files too, with the digits of every number together however they are grouped."""
    text = unquote(unescape(page))
    return re.sub(r"(?<=\d)[,.'_\s\u2019\u00a0\u2009\u202f](?=\d{3}(?!\d))", "", text)
