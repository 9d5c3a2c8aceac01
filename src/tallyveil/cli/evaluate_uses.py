"""What people do with counts, for ``tallyveil evaluate``: segregation indices, funds and survey weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.evaluate.bias import Definition
    from tallyveil.evaluate.sources import Source
    from tallyveil.nouns.histogram import Histogram

AMOUNT = 1_000_000.0  # what funds divide by default
UNMET = 1e-3  # relative difference to a control from which raking did not converge


@dataclass(frozen=True, kw_only=True)
class Uses:
    """The uses that the options ask for.

    Groups are (query, group, other). ``homogeneity`` is the query whose empty cells describe the units that get funds,
    and ``definition`` how they are counted. ``fraction`` is that of a survey, raked to ``controls`` (query, level).
    """

    groups: tuple[tuple[str, str, str | None], ...] = ()
    formula: str | None = None
    amount: float = AMOUNT
    homogeneity: str = "detailed"
    definition: Definition = "cells"
    fraction: str | None = None
    controls: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        people: Histogram,
        *,
        segregation: list[str] | None,
        formula: str | None,
        amount: float | None,
        homogeneity: str,
        definition: Definition,
        survey: str | None,
        controls: list[str] | None,
    ) -> Uses:
        """The uses of the options; unknown names are refused before the work."""
        from tallyveil.evaluate.formula import parse_formula
        from tallyveil.evaluate.segregation import row_of

        if formula is not None:
            parse_formula(formula, people.schema)
        elif amount is not None:
            raise InputError("--amount is what --funds divides. Give a formula too: --funds FORMULA.")
        groups = []
        for word in segregation or []:
            query, group, other = _parse_groups(word)
            for label in (group, other):
                if label is not None:
                    row_of(people.schema.query(query), label)
            groups.append((query, group, other))
        if groups and len(people.spine.levels) < 2:
            raise InputError("--segregation needs units within larger ones, and there is only one level.")
        return cls(
            groups=tuple(dict.fromkeys(groups)),
            formula=formula,
            amount=AMOUNT if amount is None else amount,
            homogeneity=homogeneity,
            definition=definition,
            fraction=survey,
            controls=_parse_controls(people, survey, controls),
        )

    def frames(
        self, people: Histogram, sources: Sequence[Source], *, levels: list[str] | None, queries: list[str] | None
    ) -> dict[str, pd.DataFrame]:
        """The tables of a release, by name; those that were not asked for are left out."""
        frames = self._segregation(people, sources, levels) | self._funds(people, sources, levels)
        return frames | self._survey(people, sources, levels, queries)

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

    def _funds(self, people: Histogram, sources: Sequence[Source], levels: list[str] | None) -> dict[str, pd.DataFrame]:
        import pandas as pd

        from tallyveil.evaluate.funds import funds, funds_by_group

        if self.formula is None:
            return {}
        divided = [level for level in levels or people.spine.levels if people.spine.size(level) > 1]
        if not divided:
            raise InputError("--funds divides an amount between units, and there is only one. Name a finer --level.")
        tables = [funds(people, sources, self.formula, level=level, amount=self.amount) for level in divided]
        groups = [funds_by_group(table, people, of=self.homogeneity, definition=self.definition) for table in tables]
        return {
            "funds": pd.concat(tables, ignore_index=True),
            "funds_by_group": pd.concat(groups, ignore_index=True),
        }

    def _survey(
        self, people: Histogram, sources: Sequence[Source], levels: list[str] | None, queries: list[str] | None
    ) -> dict[str, pd.DataFrame]:
        from tallyveil.evaluate.error import default_queries
        from tallyveil.evaluate.survey import survey

        if self.fraction is None:
            return {}
        asked = queries or default_queries(people.schema)
        wanted = [(query, level) for level in levels or people.spine.levels for query in asked]
        table = survey(people, sources, fraction=self.fraction, controls=self.controls, estimates=wanted)
        return {"survey": table}


def show_uses(frames: dict[str, pd.DataFrame]) -> None:
    """Print the summaries of the uses that were asked for, each with its conclusion."""
    if "segregation_error" in frames:
        _show_segregation(frames["segregation_error"])
    if "funds_by_group" in frames:
        _show_funds(frames["funds_by_group"], frames["funds"])
    if "survey" in frames:
        _show_survey(frames["survey"])


def _show_segregation(rows: pd.DataFrame) -> None:
    from tallyveil.cli.tables import figure, print_table
    from tallyveil.evaluate.error import shown_tail

    headings = {"level": "level", "index": "index", "n": "units", "undefined": "undefined", "mean_true": "mean true"}
    headings |= {"bias": "bias", "median_abs": "median error", "p95_abs": "95th pct.", "moe90": "90% margin"}
    rows = rows.assign(p95_abs=shown_tail(rows))
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


def _show_funds(rows: pd.DataFrame, units: pd.DataFrame) -> None:
    from tallyveil.cli.tables import figure, print_table

    rows = rows.assign(part=["-" if x != x else f"{figure(100 * x)}%" for x in rows.relative])
    headings = {"by": "by", "group": "group", "n": "units", "true": "due", "gain": "gain", "part": "of due"}
    headings |= {"gaining": "units that gain", "losing": "units that lose"}
    for level, part in rows.groupby("level", sort=False):
        print_table(part, title=f"Funds by the formula, level {level}", headings=headings)
        whole, here = part.iloc[0], units[units.level == level]
        typer.echo(
            f"{figure(whole.moved)} of {figure(whole.true)} ({100 * whole.moved / whole.true:.2g}%) goes to other "
            f"units than it should; {whole.gaining:,} gain and {whole.losing:,} lose."
        )
        if (here.undefined > 0).any():
            typer.echo(
                f"The formula divides by 0 in {int((here.undefined > 0).sum()):,} units, which get nothing there."
            )
        typer.echo()


def _show_survey(rows: pd.DataFrame) -> None:
    from tallyveil.cli.tables import figure, print_table

    headings = {"level": "level", "query": "query", "controls": "weights raked to", "n": "estimates"}
    headings |= {"median_abs": "median error", "rmse": "RMSE", "bias": "bias", "added": "added by release"}
    shown = rows.assign(controls=rows.controls.replace({"none": "nothing"}))
    print_table(shown, title="Error of estimates from a survey, in persons", headings=headings)
    by = rows.pivot_table(index=["level", "query"], columns="controls", values="rmse", sort=False)
    better = int((by.released < by.none).sum())
    typer.echo(f"Raking to the release makes {better:,} of {len(by):,} estimates better than no raking, by their RMSE.")
    raked = rows[rows.controls != "none"]
    if raked.missed.max() > 0:
        typer.echo(f"Nobody in the survey stands for up to {100 * raked.missed.max():.2g}% of the people of a control.")
    if raked.gap.max() > UNMET:
        typer.echo(f"Raking did not converge: a control is missed by up to {figure(100 * raked.gap.max())}%.")
    typer.echo()


def _parse_controls(people: Histogram, survey: str | None, controls: list[str] | None) -> tuple[tuple[str, str], ...]:
    """The controls of a survey as (query, level); unknown ones are refused."""
    from tallyveil.cli.strategies import parse_pair

    if survey is None:
        if controls:
            raise InputError("--control is for the weights of a survey. Give its fraction too: --survey F.")
        return ()
    if not controls:
        raise InputError("--survey needs the counts that weights are raked to: --control QUERY@LEVEL.")
    pairs = [parse_pair(word) for word in controls]
    for query, level in pairs:
        people.schema.query(query)
        people.spine.depth(level)
    return tuple(dict.fromkeys(pairs))


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
