"""``tallyveil risk invert``: which measurements a release determines, bounds or hides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("determined", "bounded", "hidden")
WHAT = {
    "": "measurements",
    "unrounded_": "measurements, if rounding were undone",
    "sibling_": "differences to the next sibling",
    "sibling_unrounded_": "differences, if rounding were undone",
}


def invert(
    release: options.ReleaseFolder,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute the range of every measurement (small trees, one pass).")
    ] = False,
    output: options.NewFolder = None,
    as_json: options.Json = False,
) -> None:
    """Say how far post-processing can be undone: what published counts tell about the noisy measurements behind them.

    A released cell above 0 relates measurements to each other, up to rounding; a cell at 0 only bounds them; and what
    siblings have in common is hidden by the parent's count. The command counts these relations level by level. With
    --exact, linear programs give the range of each measurement. Only published files are used.

    [bold]Examples[/bold]

      tallyveil risk invert release

      tallyveil risk invert small_release --exact -o ranges
    """
    from tallyveil.cli.tables import records
    from tallyveil.files.atomic import refuse_unwritable
    from tallyveil.files.release_folder.read_folder import read_release
    from tallyveil.risk import bound_shares, measurement_ranges

    if output is not None:
        refuse_unwritable(output)
    folder = read_release(release)
    if folder.strategy is None:
        raise InputError(f"{release}: the strategy is missing, so nothing is known of the measurements.")
    if folder.optimised is not None:
        raise InputError(f"{release}: measured on an optimised spine, which this command does not cover.")
    frames = {"shares": bound_shares(folder.histogram, folder.strategy)}
    if exact:
        ranges = measurement_ranges(folder.histogram, folder.strategy)
        frames |= {"statuses": _statuses(ranges), "ranges": ranges}
    if output is not None:
        _write(frames, output)
    if as_json:
        finite = {name: frame.replace([math.inf, -math.inf], None) for name, frame in frames.items()}
        options.emit_json({name: records(frame) for name, frame in finite.items()})
        return
    _show(frames)
    if output is not None:
        typer.echo(f"written to {output}")


def _statuses(ranges: pd.DataFrame) -> pd.DataFrame:
    """How many measurements and differences of siblings are determined, bounded and hidden, by level and query."""
    import pandas as pd

    rows = []
    for (level, query), some in ranges.groupby(["level", "query"], sort=False):
        for prefix, what in WHAT.items():
            column = some[f"{prefix}status"].dropna()
            if len(column):
                found = {name: int((column == name).sum()) for name in STATUSES}
                rows.append({"level": level, "query": query, "what": what, "number": len(column), **found})
    return pd.DataFrame(rows)


def _write(frames: dict[str, pd.DataFrame], output: Any) -> None:
    from tallyveil.cli.tables import write_frames
    from tallyveil.files.atomic import new_folder

    with new_folder(output) as folder:
        write_frames(frames, folder, internal=False)


def _show(frames: dict[str, pd.DataFrame]) -> None:
    from tallyveil.cli.tables import print_table

    shares = frames["shares"]
    headings = {"level": "level", "measurements": "measurements", "cells": "cells estimated", "at_zero": "at 0",
                "at_zero_share": "share at 0", "relations": "relations left",
                "relations_share": "of the measurements"}  # fmt: skip
    print_table(shares, title="what the released counts can tell about the measurements, at most", headings=headings)
    if "statuses" in frames:
        table = frames["statuses"]
        names = {name: "" if name == "what" else name for name in table.columns}
        print_table(table, title="measurements, and differences between siblings", headings=names)
        single = table[table.what == WHAT[""]]
        whole = {name: int(single[name].sum()) for name in STATUSES}
        typer.echo(
            f"Of {int(single.number.sum()):,} measurements, the release determines {whole['determined']:,}, "
            f"bounds {whole['bounded']:,} and hides {whole['hidden']:,}."
        )
        return
    known, total = int(shares.relations.sum()), int(shares.measurements.sum())
    words = "cannot be undone" if known < total else "may be undone up to rounding"
    typer.echo(
        f"At most {known:,} relations between {total:,} measurements are left, up to rounding: post-processing {words}."
    )
