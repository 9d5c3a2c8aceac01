"""Tables on the terminal and in files: the same frames, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


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
    console = Console()
    needed = table.__rich_measure__(console, console.options.update(max_width=1000)).maximum
    console = Console(width=max(console.width, needed))  # a narrow terminal folds lines; no digit is cut off
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    console.print(table)
    console.print()


def figure(value: Any) -> str:
    """A value as people read it: thousands apart, three digits that count, a dash for what is missing.

    >>> [figure(v) for v in (12345, 0.01234, 5.0, 1234.5, 3e-12, float("nan"), None, "county")]
    ['12,345', '0.0123', '5', '1,234', '<1e-9', '-', '-', 'county']
    """
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, str):
        return value
    if float(value) == int(value):
        return f"{int(value):,}"
    if 0 < abs(value) < 1e-9:
        return "<1e-9"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


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


def write_frames(frames: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write each frame as CSV and as Parquet."""
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", index=False)
