"""Tables on the terminal and in files: the same frames, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.report.internal import INTERNAL as INTERNAL
from tallyveil.report.internal import INTERNAL_CELL

if TYPE_CHECKING:
    import pandas as pd

    from tallyveil.runs.store import FolderStore


def print_table(frame: pd.DataFrame, *, title: str, headings: Mapping[str, str]) -> None:
    """Print some columns under readable headings; numbers to the right, a repeated first column once."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, heading in headings.items():
        numbers = frame[name].dtype.kind in "iuf" or all(str(value).endswith(("%", "-")) for value in frame[name])
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=True)
    last: Any = None
    for row in frame[list(headings)].itertuples(index=False):
        cells = [figure(value) for value in row]
        table.add_row(*("" if i == 0 and row[0] == last else cell for i, cell in enumerate(cells)))
        last = row[0]
    console = Console(markup=False)  # brackets in names are names
    needed = table.__rich_measure__(console, console.options.update(max_width=1000)).maximum
    width = max(console.width, needed)  # a narrow terminal folds lines; no digit is cut off
    console = Console(width=width, markup=False)
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)
    console.print()


def figure(value: Any) -> str:
    """A value as people read it: thousands apart, three digits that count, a dash for what is missing.

    >>> [figure(v) for v in (12345, 0.01234, 5.0, 1234.5, 3e-12, float("nan"), float("inf"), None, "county")]
    ['12,345', '0.0123', '5', '1,234', '<1e-9', '-', 'inf', '-', 'county']
    """
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return f"{value}"
    if float(value) == int(value):
        return f"{int(value):,}"
    if 0 < abs(value) < 1e-9:
        return "<1e-9"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def with_error(value: float, error: float | None) -> str:
    """A figure, with its standard error where it was drawn rather than summed.

    >>> with_error(0.23943, 0.0047), with_error(0.318, None)
    ('0.239 +- 0.005, drawn', '0.318')
    """
    missing = error is None or error != error
    return figure(value) if missing else f"{figure(value)} +- {float(f'{error:.1g}'):g}, drawn"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON: what is missing is null."""
    return [dict(row) for row in frame.astype(object).where(frame.notna(), None).to_dict(orient="records")]


def can_draw() -> bool:
    """Whether plots can be made; where the library is missing, one line says what to install."""
    import typer

    from tallyveil.errors import InputError
    from tallyveil.report.plots import altair

    try:
        altair()
    except InputError as problem:
        typer.echo(f"tallyveil: {problem}", err=True)
        return False
    return True


def write_frames(frames: Mapping[str, pd.DataFrame], folder: Path, *, internal: bool) -> None:
    """Write each frame as CSV and as Parquet.

    Those made from the truth are ``internal``: their last column says so, as does ``INTERNAL.txt`` beside them.
    """
    if internal:
        write_internal(folder)
    for name, frame in frames.items():
        written = marked_internal(frame) if internal else frame
        written.to_csv(folder / f"{name}.csv", index=False)
        written.to_parquet(folder / f"{name}.parquet", index=False)


def marked_internal(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a last column that says that it is internal: a file may travel without its folder."""
    return frame.assign(internal=INTERNAL_CELL)


def write_internal(folder: Path) -> None:
    """Write ``INTERNAL.txt``, which says that all of a folder is internal."""
    from tallyveil.files.tables.write import write_text

    write_text(
        f"{INTERNAL}\nThis is so for every file of this folder and of the folders in it.\n", folder / "INTERNAL.txt"
    )


def open_run_store(folder: Path | None, job: Mapping[str, Any]) -> FolderStore | None:
    """The store of an output folder's runs, marked as internal; None where there is no folder."""
    from tallyveil.runs.store import FolderStore

    if folder is None:
        return None
    store = FolderStore(folder / "runs", job=job)
    write_internal(folder)
    return store


def write_result(value: Mapping[str, Any], folder: Path | None, name: str) -> None:
    """Write a result as JSON into an output folder, if there is one."""
    from tallyveil.cli.options import json_text
    from tallyveil.files.atomic import replacing

    if folder is not None:
        with replacing(folder / name) as file:
            file.write_text(json_text(value) + "\n", encoding="utf-8")
