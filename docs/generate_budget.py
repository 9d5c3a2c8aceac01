"""What a budget and its division do to real blocks: the figures of how-to/choose_a_budget.md.

python docs/generate_budget.py compute ri_2010_block.parquet    # budget.csv and blocks_of_50.csv; a few minutes
python docs/generate_budget.py draw                             # blocks_of_50.svg, and the table of the page

The counts are those of Rhode Island in the census of 2010 (examples/ri_2010_block.toml), which are public and not part
of this project.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import tallyveil as tv
from tallyveil.report.plots import altair

DOCS = Path(__file__).parent
PAGE = DOCS / "how-to" / "choose_a_budget.md"
TABLE, BLOCKS, PICTURE = (DOCS / "how-to" / name for name in ("budget.csv", "blocks_of_50.csv", "blocks_of_50.svg"))
SEEDS = range(1, 5)
NAMES = {
    "equal": "equal shares (the default)",
    "fewer": "only total and detailed are measured",
    "blocks": "half of it at blocks, three quarters of each level to totals",
    "allocated": "shares by `allocate`, at least 5% to each level",
}
RUNS = [("1", "equal"), ("1", "fewer"), ("1", "blocks"), ("1", "allocated"), ("4", "equal"), ("4", "blocks")]
SHOWN = ["total@county", "total@tract", "total@block", "race@county", "race@tract", "race@block"]
DRAWN = [("1", "equal"), ("1", "allocated"), ("1", "blocks")]
LEAST, MOST = 40, 60  # people of a block of about 50


def compute(data: str) -> None:
    """Protect the counts in every way with every seed, and measure errors."""
    truth = tv.files.read_counts(data, DOCS.parent / "examples" / "ri_2010_block.toml")
    people = getattr(truth, "people", truth)
    rows, totals = [], []
    for epsilon, name in RUNS:
        strategy = divided(people, epsilon, name)
        for seed in SEEDS:
            released = tv.protect(people, strategy, seed=seed).histogram
            rows.append({"epsilon": epsilon, "division": name, "seed": seed, **errors(people, released)})
            if (epsilon, name) in DRAWN:
                totals += [{"epsilon": epsilon, "division": name, **row} for row in tallied(people, released)]
        print(rows[-1], flush=True)
    pd.DataFrame(rows).round(3).to_csv(TABLE, index=False)
    drawn = pd.DataFrame(totals).groupby(["epsilon", "division", "published"], as_index=False).sum()
    drawn.to_csv(BLOCKS, index=False)


def divided(people: tv.Histogram, epsilon: str, name: str) -> tv.Strategy:
    """A strategy with this budget, divided in this way."""
    plan = tv.Strategy.default(people.spine, people.schema, epsilon=epsilon)
    half = Fraction(1, 2)
    if name == "fewer":
        return replace(plan, queries={level: {"total": half, "detailed": half} for level in plan.levels})
    if name == "blocks":
        shares = dict(zip(plan.levels, (Fraction(n, 100) for n in (4, 6, 18, 24, 48)), strict=True))
        queries = {level: {"total": Fraction(3, 4), "detailed": Fraction(1, 4)} for level in plan.levels}
        return replace(plan, levels=shares, queries=queries)
    if name == "allocated":
        # the least share matters: a level that is hardly measured binds those below it to its errors
        wanted = {"weights": dict.fromkeys(SHOWN, 1), "objective": "geometric", "least": "1/20"}
        return tv.allocate(people.spine, people.schema, plan, **wanted).after
    return plan


def errors(people: tv.Histogram, released: tv.Histogram) -> dict[str, float]:
    """The mean absolute error of each figure that the page shows; totals of blocks are those of about 50 people."""
    found = {}
    for name in SHOWN:
        query, level = name.split("@")
        true, ours = (one.answer(query, level=level).dense().astype(np.int64) for one in (people, released))
        chosen = about_50(people) if name == "total@block" else np.ones(len(true), bool)
        found[name] = float(np.abs(ours - true)[chosen].mean())
    return found


def about_50(people: tv.Histogram) -> np.ndarray:
    """Which blocks have about 50 people."""
    total = people.answer("total", level="block").dense()[:, 0]
    return (total >= LEAST) & (total <= MOST)


def tallied(people: tv.Histogram, released: tv.Histogram) -> list[dict[str, int]]:
    """How many of these blocks are published with so many people, in steps of ten; 200 and more together."""
    published = released.answer("total", level="block").dense()[:, 0][about_50(people)]
    step, number = np.unique(np.minimum(published // 10 * 10, 200), return_counts=True)
    return [{"published": int(s), "blocks": int(n)} for s, n in zip(step, number, strict=True)]


def draw() -> None:
    """Draw the published totals of blocks of about 50 people, and write the table of the page."""
    alt = altair()
    table = pd.read_csv(BLOCKS, dtype={"epsilon": str})
    panels = []
    for epsilon, name in DRAWN:
        rows = table[(table.epsilon == epsilon) & (table.division == name)]
        rows = rows.assign(share=rows.blocks / rows.blocks.sum(), to=rows.published + 10)
        x_axis = {"scale": alt.Scale(domain=[0, 210]), "axis": alt.Axis(tickCount=5)}
        y_axis = {"scale": alt.Scale(domain=[0, 0.5]), "axis": alt.Axis(format="%")}
        bars = (
            alt.Chart(rows)
            .mark_bar(color="#8fb3d1", stroke="white", strokeWidth=0.5)
            .encode(
                x=alt.X("published:Q", title="published total", **x_axis),
                x2="to:Q",
                y=alt.Y("share:Q", title="share of these blocks", **y_axis),
                y2=alt.datum(0),
            )
        )
        span = pd.DataFrame({"low": [LEAST], "high": [MOST + 1]})
        true = alt.Chart(span).mark_rect(color="#c04f00", opacity=0.25).encode(x="low:Q", x2="high:Q")
        words = {"equal": "equal shares", "allocated": "allocated", "blocks": "half at blocks"}[name]
        panels.append(alt.layer(true, bars).properties(width=185, height=160, title=f"epsilon {epsilon}, {words}"))
    chart = alt.hconcat(*panels).configure_view(stroke=None).configure_axis(gridColor="#e6e6e6")
    chart.configure(background="white").save(str(PICTURE))
    text = PAGE.read_text()
    PAGE.write_text(re.sub(r"\| epsilon, .*?\n\n", lambda _: f"{page_table()}\n", text, count=1, flags=re.DOTALL))


def page_table() -> str:
    """The table of the page: means over the seeds."""
    heads = (
        "| epsilon, and how it is divided | total: county | tract | block of 40 to 60 | race: county | tract | block |"
    )
    rows = pd.read_csv(TABLE, dtype={"epsilon": str}).groupby(["epsilon", "division"])[SHOWN].mean()
    lines = [heads, "| --- " * 7 + "|"]
    for epsilon, name in RUNS:
        numbers = [f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" for value in rows.loc[epsilon, name]]
        lines.append(f"| {epsilon}, {NAMES[name]} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    compute(sys.argv[2]) if sys.argv[1] == "compute" else draw()
