"""What people do with counts, for ``tallyveil evaluate``: segregation indices, funds and survey weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.evaluate.sources import Source
    from tallyveil.nouns.histogram import Histogram


@dataclass(frozen=True, kw_only=True)
class Uses:
    """The uses that the options ask for: groups as (query, group, other)."""

    groups: tuple[tuple[str, str, str | None], ...] = ()

    @classmethod
    def of(cls, people: Histogram, *, segregation: list[str] | None) -> Uses:
        """The uses of the options; unknown names are refused before the work."""
        from tallyveil.evaluate.segregation import row_of

        groups = []
        for word in segregation or []:
            query, group, other = _parse_groups(word)
            for label in (group, other):
                if label is not None:
                    row_of(people.schema.query(query), label)
            groups.append((query, group, other))
        if groups and len(people.spine.levels) < 2:
            raise InputError("--segregation needs units within larger ones, and there is only one level.")
        return cls(groups=tuple(dict.fromkeys(groups)))

    def frames(
        self, people: Histogram, sources: Sequence[Source], *, levels: list[str] | None
    ) -> dict[str, pd.DataFrame]:
        """The tables of a release, by name; those that were not asked for are left out."""
        return self._segregation(people, sources, levels)

    def _segregation(
        self, people: Histogram, sources: Sequence[Source], levels: list[str] | None
    ) -> dict[str, pd.DataFrame]:
        import pandas as pd

        from tallyveil.evaluate.segregation import segregation, segregation_error

        if not self.groups:
            return {}
        within = [level for level in levels or people.spine.levels if level != people.spine.leaf]
        if not within:
            raise InputError(
                f"--segregation describes the units above the finest ones, and only {people.spine.leaf} is asked for. "
                f"Add a --level above it."
            )
        table = pd.concat(
            [
                segregation(people, sources, query=query, group=group, other=other, within=level)
                for query, group, other in self.groups
                for level in within
            ],
            ignore_index=True,
        )
        return {"segregation": table, "segregation_error": segregation_error(table)}


def show_uses(frames: dict[str, pd.DataFrame]) -> None:
    """Print the summaries of the uses that were asked for, each with its conclusion."""
    if "segregation_error" in frames:
        _show_segregation(frames["segregation_error"])


def _show_segregation(rows: pd.DataFrame) -> None:
    from tallyveil.cli.tables import figure, print_table

    headings = {"level": "level", "index": "index", "n": "units", "undefined": "undefined", "mean_true": "mean true"}
    headings |= {"bias": "bias", "median_abs": "median error", "p95_abs": "95th pct.", "moe90": "90% margin"}
    for (query, group, other), part in rows.groupby(["query", "group", "other"], sort=False):
        print_table(part, title=f"Segregation indices, {query}: {group} and {other}", headings=headings)
    known = rows[rows.n > 0]
    if known.empty:
        typer.echo("No index is defined: one of the groups is empty everywhere.\n")
        return
    worst = known.loc[known.bias.abs().idxmax()]
    typer.echo(
        f"The largest bias is {figure(worst.bias)}, of {worst['index']} at level {worst.level}, whose true mean is "
        f"{figure(worst.mean_true)}.\n"
    )


def _parse_groups(word: str) -> tuple[str, str, str | None]:
    """A query, a group and another group from ``QUERY:GROUP[:OTHER]``.

    >>> _parse_groups("race:black:white"), _parse_groups("race:black")
    (('race', 'black', 'white'), ('race', 'black', None))
    """
    query, colon, groups = (part.strip() for part in word.partition(":"))
    group, second, other = (part.strip() for part in groups.partition(":"))
    if not query or not colon or not group or (second and not other):
        raise InputError(f"--segregation {word!r}: write it as QUERY:GROUP or QUERY:GROUP:OTHER, such as race:black.")
    return query, group, other or None
