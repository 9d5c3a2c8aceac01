"""One page with all items: side by side, with charts and verdicts. It needs no script and nothing from elsewhere."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tallyveil import __version__
from tallyveil.papers.registry import VERDICTS, Setting
from tallyveil.papers.runner import Done

PAPERS = {
    "flaxman2019": "Flaxman (2019), Empirical quantification of privacy loss with examples relevant to the 2020 US "
    "Census",
    "petti2020": "Petti & Flaxman (2020), Differential privacy in the 2020 US census: what will it do?",
    "petti2020-appendix": "Petti & Flaxman (2020), Supplementary Methods Appendix",
    "kazan2022": "Kazan & Reiter (2022), Assessing Statistical Disclosure Risk for Differentially Private, "
    "Hierarchical Count Data",
}
WORDS = {
    "agrees": "agrees",
    "erratum": "differs as the erratum says",
    "stand-in": "stand-in population",
    "differs": "differs",
    "not compared": "not compared",
    "shown": "no published number",
}
MOST = 200  # rows of a table that are shown; the rest is in its file


def page_of(done: Sequence[Done], setting: Setting, *, seconds: float) -> str:
    """The page as text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"figure": figure, "verdict": WORDS.get}
    template = environment.from_string(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        papers=[
            (key, title, [_section(one) for one in done if one.item.paper == key]) for key, title in PAPERS.items()
        ],
        counts=[(name, sum(one.verdict == name for one in done)) for name in WORDS],
        setting=setting,
        seconds=seconds,
        versions={
            "tallyveil": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "numba", "pandas")},
        },
        most=MOST,
    )


def _section(done: Done) -> dict[str, Any]:
    """What the page shows of an item."""
    rows = done.figures.astype(object).where(done.figures.notna(), None).to_dict(orient="records")
    rows.sort(key=lambda row: -VERDICTS.index(row["verdict"]))  # what differs is seen first
    charts = [Markup((done.folder / f"{name}.svg").read_text(encoding="utf-8")) for name in done.charts]
    printed = any(row["as_printed"] is not None for row in rows)
    return {"done": done, "item": done.item, "rows": rows, "charts": charts, "printed": printed}


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
