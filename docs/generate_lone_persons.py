"""Whether strata of one person explain the loss of the synthetic census of 1940: lone_persons_1940.csv and .svg.

    python docs/generate_lone_persons.py compute        # 132,404,766 persons: about ten minutes
    python docs/generate_lone_persons.py draw           # the chart of the table

The experiment is described in accuracy_1940.md. Nothing is fitted: copies of the census have other shares of strata of
one person and are otherwise the same (:mod:`tallyveil_papers.petti.lone_persons`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tallyveil as tv
from tallyveil.report.plots import BLUE, GREY, INK, ORANGE, altair, titled
from tallyveil_papers.petti.compare import results
from tallyveil_papers.petti.lone_persons import share_of_one, with_other_lone_persons
from tallyveil_papers.petti.runs import STRATA

PLACE = Path(__file__).parent / "lone_persons_1940"
PERSONS, SEED, REPLICATES = 132_404_766, 1, 2
BUDGETS = ("0.25", "0.5", "0.75", "1", "2")
COPIES = {
    "enumdist": (("", 0), ("grow", 1), ("grow", 0.5), ("shrink", 0.1), ("pair", 1), ("join", 1), ("shrink", 0.3),
                 ("pair", 0.5), ("join", 0.5)),
    "county": (("", 0), ("grow", 1), ("pair", 1), ("join", 1)),
}  # fmt: skip
LEVELS = {"enumdist": "enum_dist", "county": "county"}  # our spelling: the published one
NAMES = {"": "as it is", "pair": "1 becomes 2", "grow": "1 becomes 2 to 12", "join": "1 becomes 0",
         "shrink": "2 to 12 become 1"}  # fmt: skip


def compute() -> None:
    """Run TopDown on every copy; the table is written after each."""
    census = tv.populations.census_1940(persons=PERSONS, seed=SEED)
    rows: list[dict[str, Any]] = []
    for level, copies in COPIES.items():
        for way, fraction in copies:
            people = census.people
            if way:
                people = with_other_lone_persons(people, way, fraction, level=level, seed=SEED)
            rows += losses(replace(census, people=people), level, way, fraction)
            pd.DataFrame(rows).to_csv(PLACE.with_suffix(".csv"), index=False, float_format="%.5g")
            print(f"{level} {way or 'as it is'} {fraction}: done", file=sys.stderr)


def losses(census: Any, level: str, way: str, fraction: float) -> Iterator[dict[str, Any]]:
    """The loss of strata of a level at each budget."""
    counts = census.people.answer(STRATA, level=level).count
    same = {"level": level, "way": way, "fraction": fraction, "persons": census.people.total(),
            "share": share_of_one(census.people, level=level, query=STRATA), "strata": int((counts > 0).sum()),
            "median": float(np.median(counts[counts > 0]))}  # fmt: skip
    for budget in BUDGETS:
        strategy = tv.Strategy.preset("e2e-2018", epsilon=budget)
        released = [tv.protect(census, strategy, seed=SEED, replicate=k).histogram for k in range(REPLICATES)]
        loss = tv.evaluate.epl(tv.evaluate.residuals(census, released, level=level, query=STRATA))
        at = int(loss.curve.epl.abs().argmax())
        yield {**same, "epsilon": float(budget), "epl": loss.epl, "at": float(loss.curve.x.iloc[at])}


def draw() -> None:
    """Draw the loss against the share of strata of one person, with the published losses as lines across."""
    alt = altair()
    table = pd.read_csv(PLACE.with_suffix(".csv"), keep_default_na=False)
    panels = []
    for level, budgets in (("enumdist", (0.5, 1.0, 2.0)), ("county", (0.25, 0.5, 0.75))):
        for epsilon in budgets:
            panels.append(panel(alt, table[(table.level == level) & (table.epsilon == epsilon)], level, epsilon))
    chart = titled(
        alt.concat(*panels, columns=3), "Loss of strata by the share of strata of one person",
        "Copies of the synthetic census of 132,404,766 persons. Dashed: published.",
        "The share of strata of one person in the real census was not published.",
    )  # fmt: skip
    chart.save(str(PLACE.with_suffix(".svg")))


def panel(alt: Any, rows: pd.DataFrame, level: str, epsilon: float) -> Any:
    """One level at one budget."""
    theirs = results(method="topdown", statistic="epl", level=LEVELS[level], count="sc", epsilon=epsilon).value.iloc[0]
    asis = rows[rows.way == ""]
    lines = pd.concat(
        [pd.concat([asis, rows[rows.way == way]]).assign(copy=NAMES[way]) for way in NAMES if way], ignore_index=True
    )
    x = alt.X("share:Q", title="share of strata of one person", axis=alt.Axis(format="%", tickCount=5),
              scale=alt.Scale(domain=[0, 0.2]))  # fmt: skip
    y = alt.Y("epl:Q", title="empirical privacy loss", scale=alt.Scale(domainMin=0))
    domain = list(NAMES.values())
    colour = alt.Color("copy:N", title="strata", sort=domain,
                       scale=alt.Scale(domain=domain, range=[INK, GREY, BLUE, ORANGE, "#009e73"]))  # fmt: skip
    marks = ["circle", "square", "triangle-up", "diamond", "cross"]
    shape = alt.Shape("copy:N", title="strata", sort=domain, scale=alt.Scale(domain=domain, range=marks))
    published = pd.DataFrame({"theirs": [theirs]})
    layers = [
        alt.Chart(published).mark_rule(color=INK, strokeDash=[5, 3]).encode(y=alt.Y("theirs:Q")),
        alt.Chart(lines).mark_line(strokeWidth=1).encode(x=x, y=y, color=colour, detail="copy:N"),
        alt.Chart(rows.assign(copy=rows.way.map(NAMES)))
        .mark_point(size=45, opacity=1, filled=True)
        .encode(x=x, y=y, color=colour, shape=shape),
    ]
    place = "Districts" if level == "enumdist" else "Counties"
    return alt.layer(*layers).properties(width=200, height=190, title=f"{place}, ε = {epsilon:g}")


if __name__ == "__main__":
    {"compute": compute, "draw": draw}[sys.argv[1]]()
