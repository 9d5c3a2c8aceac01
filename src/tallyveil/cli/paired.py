"""Releases of the same measurements on the command line: which are paired, and what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.cli.reading import TruthAndReleases
    from tallyveil.nouns.areas import Areas
    from tallyveil.release.release import Release


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of releases of one measurement each, and what the first and the second ones are called."""

    first: str
    second: str
    names: Sequence[tuple[str, str]]

    def table(
        self,
        data: TruthAndReleases,
        *,
        levels: list[str] | None,
        queries: list[str] | None,
        areas: Areas | None = None,
        over: str = "nonempty",
    ) -> pd.DataFrame:
        """The paired differences."""
        from tallyveil.evaluate.paired import paired

        sides = [[data.releases[pair[side]] for pair in self.names] for side in (0, 1)]
        return paired(
            data.truth, sides[0], sides[1], levels=levels, queries=queries, areas=areas,
            over="all" if over == "all" else "nonempty",
        )  # fmt: skip

    def as_json(self, table: pd.DataFrame) -> dict[str, Any]:
        """The pairs and their differences under their JSON keys."""
        from tallyveil.cli.tables import records
        from tallyveil.evaluate.paired import paired_words

        return {
            "first": self.first,
            "second": self.second,
            "pairs": [list(pair) for pair in self.names],
            "conclusion": paired_words(table, self.first, self.second),
            "differences": records(table),
        }


def find_pairs(releases: Mapping[str, Release]) -> list[Pairs]:
    """The pairs among releases, by the identifiers of their measurements.

    If every measurement has two releases, they are replicates of one comparison, first against second. Otherwise all
    others of a measurement are compared with the first that was named.
    """
    from tallyveil.evaluate.paired import measurement_of

    groups: dict[str, list[str]] = {}
    for name, release in releases.items():
        identifier = measurement_of(release)
        if identifier is not None:
            groups.setdefault(identifier, []).append(name)
    shared = [names for names in groups.values() if len(names) > 1]
    if len(shared) > 1 and all(len(names) == 2 for names in shared):
        return [Pairs(first="the first of each pair", second="the second", names=_in_order(shared, releases))]
    return [Pairs(first=names[0], second=other, names=[(names[0], other)]) for names in shared for other in names[1:]]


def _in_order(shared: Sequence[Sequence[str]], releases: Mapping[str, Release]) -> list[tuple[str, str]]:
    """Pairs with the same strategy first in each of them."""
    made = {name: releases[name].strategy for names in shared for name in names}
    lead = made[shared[0][0]]
    return [(one, two) if made[one] == lead or made[two] != lead else (two, one) for one, two in shared]


def show_pairs(pairs: Pairs, table: pd.DataFrame) -> None:
    """Print the differences of every level and query, and the conclusion."""
    from tallyveil.cli.tables import print_table
    from tallyveil.evaluate.paired import paired_words

    rows = table[table.statistic == "mean_abs"].copy()
    rows["change"] = [
        "-" if row.relative != row.relative else f"{100 * row.relative:+.1f} ({100 * row.relative_error:.1f})%"
        for row in rows.itertuples()
    ]
    headings = {"level": "level", "query": "query", "n": "counts", "first": "first", "second": "second"}
    headings |= {"difference": "difference", "standard_error": "std. error", "change": "change (std. error)"}
    print_table(rows, title=f"Mean absolute error of {pairs.second} against {pairs.first}, paired", headings=headings)
    typer.echo(paired_words(table, pairs.first, pairs.second))
