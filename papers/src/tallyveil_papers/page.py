"""One self-contained page with all items: our numbers and the published ones, charts and verdicts; no scripts."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tallyveil_papers import papers
from tallyveil_papers.figure import VERDICTS
from tallyveil_papers.registry import Setting
from tallyveil_papers.runner import Done, versions

WORDS = {
    "agrees": "agrees",
    "erratum": "differs as the erratum says",
    "stand-in": "stand-in population",
    "differs": "differs",
    "not compared": "not compared",
    "shown": "no published number",
}
MEANING = {
    "agrees": "within the tolerance",
    "erratum": "ours follows from the definitions; another computation gives what is printed, or a claim is too strong",
    "stand-in": "computed on a synthetic population: direction and a factor of two; never counts as agreement",
    "differs": "anything else, including items that could not be computed",
    "not compared": "the reason is given",
    "shown": "shown for completeness; some are computed a second way",
}
SHORT = 30  # rows of a table that the page shows; longer ones are linked


def page_of(done: Sequence[Done], setting: Setting, *, seconds: float) -> str:
    """The page as text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"figure": figure, "verdict": WORDS.get}
    template = environment.from_string(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    verdicts = [verdict for result in done for verdict in result.figures.verdict]
    return template.render(
        papers=[
            (paper.key, paper.title, [_section(result) for result in done if result.item.paper == paper.key])
            for paper in papers()
        ],
        counts=[(name, sum(result.verdict == name for result in done)) for name in WORDS],
        numbers=[(name, verdicts.count(name)) for name in WORDS],
        compared=sum(verdict in ("agrees", "erratum", "stand-in", "differs") for verdict in verdicts),
        left_out=verdicts.count("not compared"),
        meaning=MEANING,
        setting=setting,
        seconds=seconds,
        today=date.today().isoformat(),
        versions={**versions(), "python": platform.python_version()},
    )


def _section(done: Done) -> dict[str, Any]:
    """What the page shows of an item."""
    rows = _records(done.figures)
    rows.sort(key=lambda row: -VERDICTS.index(row["verdict"]) if row["verdict"] != "not compared" else 1)
    read = {name: pd.read_csv(done.folder / f"{name}.csv") for name in done.tables}
    return {
        "done": done,
        "item": done.item,
        "rows": rows,  # figures that differ come first, those not compared last
        "charts": [(name, Markup((done.folder / f"{name}.svg").read_text(encoding="utf-8"))) for name in done.charts],
        "tables": [(name, list(frame), frame.map(cell).to_numpy().tolist()) for name, frame in read.items()
                   if 0 < len(frame) <= SHORT],
        "has": {name: any(row[name] is not None for row in rows) for name in ("as_printed", "again", "left_out")},
    }  # fmt: skip


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
    return records


def cell(value: Any) -> str:
    """A value of a table: a number to four figures, or words."""
    if isinstance(value, bool | str):
        return str(value)
    return figure(None if pd.isna(value) else float(value))


def figure(value: float | None) -> str:
    """A number to four figures; a dash where there is none.

    >>> figure(0.57386), figure(132404766.0), figure(None), figure(0.0)
    ('0.5739', '132,404,766', '-', '0')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
