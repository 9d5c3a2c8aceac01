"""Put the figures of `tallyveil reproduce petti2020 --full -o DIR` into the tables of accuracy_1940.md.

    python docs/generate_accuracy.py DIR

A table is between the lines ``<!-- name -->`` and ``<!-- end -->``; the text around it is written by hand. A figure
that `reproduce` counts as different is set in bold.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

PAGE = Path(__file__).parent / "accuracy_1940.md"
LEVELS = {"state": "state", "county": "county", "enum_dist": "district"}
COUNTS = {"tc": "totals", "sc": "strata"}
STATISTICS = {
    "mae": "median",
    "pct95": "95th percentile",
    "max_ae": "maximum",
    "rmse": "RMSE",
    "median": "median",
    "mean": "mean",
    "std": "standard deviation",
}


def tables(folder: Path) -> dict[str, str]:
    """Return all tables by name."""
    read = {name: pd.read_csv(folder / f"petti2020.{name}" / "side_by_side.csv") for name in ITEMS}
    return {
        "error": by_budget(read["error"], ["level", "count", "statistic"], beside),
        "epl": by_budget(read["epl"], ["level", "count"], beside),
        "bias": by_budget(read["bias"][read["bias"].level != "state"], ["level", "homogeneity", "n"], biased),
        "sizes": sizes(read["sizes"]),
        "sample-error": by_fraction(read["samples"], "mae"),
        "sample-epl": by_fraction(read["samples"], "epl"),
    }


ITEMS = ("error", "epl", "bias", "sizes", "samples")


def beside(row: Any) -> str:
    """Write ours / theirs, in bold if they differ."""
    text = f"{short(row.ours)} / {short(row.published)}"
    return f"**{text}**" if row.verdict == "differs" else text


def biased(row: Any) -> str:
    """Write the same for a bias, with our standard error."""
    text = f"{row.ours:.1f} ± {row.chance:.1f} / {row.published:.1f}"
    return f"**{text}**" if row.verdict == "differs" else text


def short(value: float) -> str:
    """Write a number with three significant digits, or a whole number in full."""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"


def by_budget(table: pd.DataFrame, names: list[str], cell: Any) -> str:
    """Make a table with one row per kind of figure and one column per budget."""
    epsilons = sorted(table.epsilon.unique())
    head = [{"n": "residuals", "homogeneity": "index"}.get(name, name) for name in names]
    known = [*LEVELS, *COUNTS, *STATISTICS]
    table = table.sort_values(names, key=lambda column: column.map(lambda v: known.index(v) if v in known else v))
    rows = []
    for key, group in table.groupby(names, sort=False):
        words = [word(value) for value in key]
        cells = {row.epsilon: cell(row) for row in group.itertuples()}
        rows.append([*words, *(cells.get(epsilon, "-") for epsilon in epsilons)])
    return markdown([*head, *(f"{epsilon:g}" for epsilon in epsilons)], rows, left=len(names))


def by_fraction(table: pd.DataFrame, statistic: str) -> str:
    """Make a table with one row per sampling fraction and one column per level and count."""
    rows = table[table.statistic == statistic]
    places = [(level, count) for level in LEVELS for count in COUNTS]
    head = ["sample", *(f"{LEVELS[level]} {COUNTS[count]}" for level, count in places)]
    lines = []
    for fraction, group in rows.groupby("fraction"):
        cells = {(row.level, row.count): beside(row) for row in group.itertuples(index=False)}
        lines.append([f"{100 * fraction:g}%", *(cells.get(place, "-") for place in places)])
    return markdown(head, lines, left=1)


def sizes(table: pd.DataFrame) -> str:
    """Make a table with one row per level and count and one column per statistic."""
    names = list(dict.fromkeys(table.statistic))
    rows = []
    for level in LEVELS:
        for count in COUNTS:
            group = table[(table.level == level) & (table["count"] == count)].set_index("statistic")
            rows.append([LEVELS[level], COUNTS[count], *(beside(group.loc[name]) for name in names)])
    return markdown(["level", "count", *(STATISTICS[name] for name in names)], rows, left=2)


def word(value: Any) -> str:
    """Write a value of a key as the page shows it."""
    if isinstance(value, str):
        return LEVELS.get(value) or COUNTS.get(value) or STATISTICS.get(value, value)
    return f"{value:,.0f}"


def markdown(head: list[str], rows: Iterable[list[str]], *, left: int) -> str:
    """Write a Markdown table whose first ``left`` columns are text."""
    align = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, align, *rows])


def main() -> None:
    """Rewrite the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(Path(sys.argv[1])).items():
        text, places = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, t=table: f"{m[1]}\n{t}\n\n{m[2]}", text, flags=re.DOTALL
        )
        if places != 1:
            raise SystemExit(f"{PAGE.name}: {places} places for the table {name}; 1 was expected.")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
