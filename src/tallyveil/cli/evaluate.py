"""``tallyveil evaluate``: what protection did to the counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.evaluate.epl.loss import EmpiricalLoss
    from tallyveil.evaluate.residuals import Over
    from tallyveil.nouns.areas import Areas
    from tallyveil.nouns.facilities import Facilities
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.privacy import Strategy
    from tallyveil.release.release import Release


def evaluate(
    truth: Annotated[Path, typer.Argument(help="The precise counts: a CSV or Parquet file.")],
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Folders of releases, or tables.")],
    codebook: Annotated[Path, typer.Option(help="What the truth's columns mean (TOML).")],
    areas: Annotated[Path | None, typer.Option(help="Areas off the spine: leaf code, area.")] = None,
    level: Annotated[list[str] | None, typer.Option(help="A level; all by default. Can be repeated.")] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(help="A query; by default the total, each attribute and all cells. Can be repeated."),
    ] = None,
    homogeneity: Annotated[
        str, typer.Option(metavar="QUERY", help="Bias is shown by how many of this query's cells are empty.")
    ] = "detailed",
    over: Annotated[str, typer.Option(help="nonempty (in the truth or the release), or all cells.")] = "nonempty",
    units: Annotated[Path | None, typer.Option(help="The list of units, the empty ones too.")] = None,
    housing: Annotated[Path | None, typer.Option(help="Housing units: leaf code, occupied, vacant.")] = None,
    pool: Annotated[bool, typer.Option("--pool", help="Take several releases as replicates of one.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new folder for tables and plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare releases with the truth: error, bias, empirical privacy loss, implausible units. Not for publication.

    [bold]Examples[/bold]

      tallyveil evaluate blocks.parquet release --codebook blocks.toml

      tallyveil evaluate blocks.parquet release --codebook b.toml --query "age * race" --areas towns.csv

      tallyveil evaluate blocks.parquet run0 run1 run2 --codebook blocks.toml --pool -o evaluation
    """
    from tallyveil.cli.reading import find_areas, find_homes, read_given
    from tallyveil.cli.tables import INTERNAL, write_frames
    from tallyveil.files.atomic import new_folder, refuse_existing

    if over not in ("nonempty", "all"):
        raise InputError(f"--over must be nonempty or all. Got {over} instead.")
    if output is not None:
        refuse_existing(output)
    given = read_given(truth, releases, codebook, units=units)
    found_areas = find_areas(areas, given.truth)
    homes = find_homes(housing, given)
    groups = given.groups(pool=pool)
    parts = [
        _evaluate(
            given.truth,
            sources,
            levels=level,
            queries=query,
            areas=found_areas,
            over="all" if over == "all" else "nonempty",
            homogeneity=homogeneity,
            homes=homes,
            strategy=sources[0].strategy,
        )
        for sources in groups.values()
    ]
    names = list(groups)
    if as_json:
        told = [{"release": name, **one.as_json()} for name, one in zip(names, parts, strict=True)]
        typer.echo(
            json.dumps(
                {"note": INTERNAL, "over": over, "releases": told}, indent=2, ensure_ascii=False, allow_nan=False
            )
        )
    else:
        typer.echo(f"{INTERNAL}\n")
        for name, one in zip(names, parts, strict=True):
            one.show(name, given.truth, over=over)
    if output is not None:
        with new_folder(output) as place:
            write_frames(_joined(names, parts), place, internal=True)
            drawn = _write_plots(names, parts, place)
        typer.echo(f"{output}: tables{' and plots' if drawn else ''} (internal: they show the truth)", err=True)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is found about a release, as tidy frames."""

    error: pd.DataFrame
    sizes: pd.DataFrame
    by_size: pd.DataFrame
    bias: pd.DataFrame
    epl: pd.DataFrame
    implausible: pd.DataFrame
    middle: pd.DataFrame
    losses: dict[tuple[str, str], EmpiricalLoss]

    def frames(self) -> dict[str, pd.DataFrame]:
        """The frames by name."""
        names = ("error", "sizes", "by_size", "bias", "epl", "implausible")
        return {name: getattr(self, name) for name in names}

    def as_json(self) -> dict[str, Any]:
        """The frames as lists of rows."""
        from tallyveil.cli.tables import records

        return {name: records(frame) for name, frame in self.frames().items()}

    def show(self, name: str, truth: Histogram, *, over: str) -> None:
        """Print what a demographer looks at first."""
        from tallyveil.cli.tables import print_table

        where = "cells non-empty in the truth or the release" if over == "nonempty" else "all cells"
        typer.echo(f"{name} compared with the truth ({truth.total():,} persons), over {where}\n")
        wide = self.error.pivot_table(index=["level", "query", "n"], columns="statistic", values="value", sort=False)
        wide = wide.reset_index().merge(self.middle)
        headings = {"level": "level", "query": "query", "n": "counts", "median_true": "median true"}
        kinds = {"median_abs": "median", "mean_abs": "mean", "p95_abs": "95th pct.", "max_abs": "largest"}
        more = {"rmse": "RMSE", "exact": "exact"}
        wide = wide.assign(exact=[f"{share:.0%}" for share in wide.share_exact])
        print_table(wide, title="Absolute error, in persons", headings=headings | kinds | more)
        there = [level for level in truth.spine.levels if (self.by_size.level == level).any()][-1:]
        there += [level for level in dict.fromkeys(self.by_size.level) if level not in truth.spine.levels]  # areas
        for level in there:
            self._show_by_size(level)
            self._show_bias(level)
        self._show_losses()
        if not self.implausible.empty:
            headings = {"level": "level", "kind": "", "units": "units", "true": "truth", "released": "release"}
            print_table(self.implausible, title="Implausible units", headings=headings)

    def _show_by_size(self, level: str) -> None:
        from tallyveil.cli.tables import figure, print_table

        rows = self.by_size[self.by_size.level == level]
        rows = rows.assign(relative=["-" if x != x else f"{figure(100 * x)}%" for x in rows.relative])
        headings = {"query": "query", "size": "true size", "n": "counts", "mean_abs": "mean error"}
        more = {"relative": "of size", "bias": "bias"}
        print_table(rows, title=f"Error by true size, level {level}", headings=headings | more)

    def _show_bias(self, level: str) -> None:
        from tallyveil.cli.tables import figure, print_table

        rows = self.bias[self.bias.level == level]
        rows = rows.assign(
            interval=["-" if r.low != r.low else f"{figure(r.low)} to {figure(r.high)}" for r in rows.itertuples()]
        )
        headings = {"group": "empty cells", "n": "counts", "bias": "bias", "interval": "95% interval"}
        print_table(rows, title=f"Bias of totals by homogeneity, level {level}", headings=headings)

    def _show_losses(self) -> None:
        from tallyveil.cli.tables import print_table

        rows = self.epl.assign(
            interval=[
                f"{row.epl_low:.3g} to {row.epl_high:.3g}"
                if row.epl_high == row.epl_high
                else f"{row.epl_low:.3g} or more"
                for row in self.epl.astype({"epl_low": float, "epl_high": float}).itertuples()
            ]
        )
        headings = {"level": "level", "query": "query", "epl": "largest", "corrected": "corrected", "median": "median"}
        more = {"interval": "before smoothing, 95%", "theory": "noise alone"}
        title = "Empirical privacy loss (log ratio of residuals one apart; not a bound on epsilon)"
        if rows.undefined.isna().any():
            print_table(rows[rows.undefined.isna()], title=title, headings=headings | more)
            typer.echo(
                "Largest, corrected and median are of the smoothed curve. The interval is for the largest ratio of\n"
                "the residuals themselves, before smoothing: another figure, which may lie far from the curve's.\n"
            )
        reasons = rows[rows.undefined.notna()].groupby("undefined", sort=False)
        for reason, group in reasons:
            which = "; ".join(f"{row.level} {row.query}" for row in group.itertuples())
            typer.echo(f"Undefined for {which}: {reason}\n")


def _evaluate(
    truth: Histogram,
    sources: list[Release],
    *,
    levels: list[str] | None,
    queries: list[str] | None,
    areas: Areas | None,
    over: Over,
    homogeneity: str,
    homes: Histogram | Facilities | None,
    strategy: Strategy | None,
) -> Evaluation:
    import pandas as pd

    from tallyveil.evaluate import bias, error_by_size, implausible, residuals, sizes
    from tallyveil.evaluate.epl.loss import epl, theory_of
    from tallyveil.evaluate.error import asked_of, error_of
    from tallyveil.evaluate.tally import tally

    errors, by_size, middle, losses = [], [], [], {}
    for level, area, query in asked_of(truth, levels, queries, areas):
        found = residuals(truth, sources, level=level, query=query, areas=area, over=over)
        errors.append(error_of(found))
        by_size.append(error_by_size(found))
        true = tally(found.true, zeros=found.zeros)
        median = true.percentile(50) if true.n else 0.0
        middle.append({"level": found.level, "query": found.query, "median_true": median})
        losses[found.level, found.query] = epl(found, theory=theory_of(strategy, found))
    places: list[tuple[str | None, Areas | None]] = [
        (level, None) for level in (truth.spine.levels if levels is None else levels)
    ]
    places += [] if areas is None else [(None, areas)]
    biases = [bias(truth, sources, level=level, areas=area, of=homogeneity, over=over) for level, area in places]
    rows = [{"level": level, "query": query, **loss.as_json()} for (level, query), loss in losses.items()]
    return Evaluation(
        error=pd.concat(errors, ignore_index=True),
        sizes=sizes(truth, levels=levels, queries=queries, areas=areas),
        by_size=pd.concat(by_size, ignore_index=True),
        bias=pd.concat(biases, ignore_index=True),
        epl=pd.DataFrame(rows).drop(columns=["note", "settings"]),
        implausible=implausible(truth, sources, housing=homes, levels=levels),
        middle=pd.DataFrame(middle),
        losses=losses,
    )


def _joined(names: list[str], parts: list[Evaluation]) -> dict[str, pd.DataFrame]:
    """Each kind of frame, all releases in one, and the curves of the losses."""
    import pandas as pd

    frames: dict[str, pd.DataFrame] = {
        kind: pd.concat(
            [one.frames()[kind].assign(release=name) for name, one in zip(names, parts, strict=True)], ignore_index=True
        )
        for kind in parts[0].frames()
    }
    curves = [
        loss.curve.assign(release=name, level=level, query=query, largest=loss.epl, theory=loss.theory)
        for name, one in zip(names, parts, strict=True)
        for (level, query), loss in one.losses.items()
        if loss.undefined is None
    ]
    if curves:
        frames["epl_curves"] = pd.concat(curves, ignore_index=True)
    return frames


def _write_plots(names: list[str], parts: list[Evaluation], place: Path) -> bool:
    """Draw the error, and for each release bias and loss; without the plotting library, say so and leave them out."""
    from tallyveil.cli.tables import can_draw
    from tallyveil.files.release_folder.measurement_files import safe_name
    from tallyveil.report.plots import bias_plot, epl_plot, error_plot, write_plot

    if not can_draw():
        return False
    frames = _joined(names, parts)
    errors = frames["error"] if len(names) > 1 else frames["error"].drop(columns="release")
    write_plot(error_plot(errors, title=f"Error of {', '.join(names)}"), place / "error")
    for name, one in zip(names, parts, strict=True):
        mark = "" if len(names) == 1 else f"_{safe_name(name)}"
        if (one.bias[one.bias.low.notna() & (one.bias.n >= 10)].groupby("level").size() > 1).any():
            write_plot(bias_plot(one.bias, title=f"Bias of totals, {name}"), place / f"bias{mark}")
        finest = list(dict.fromkeys(level for level, _ in one.losses))[-2:]
        curves = frames.get("epl_curves")
        if curves is not None:
            drawn = curves[(curves.release == name) & curves.level.isin(finest)]
            if not drawn.empty:
                drawn = drawn.assign(panel=drawn.level + ": " + drawn["query"])
                title = f"Empirical privacy loss, {name}, levels {' and '.join(finest)}"
                write_plot(epl_plot(drawn, title=title), place / f"epl{mark}")
    return True
