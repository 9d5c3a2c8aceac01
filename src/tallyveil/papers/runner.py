"""Run items one after another and keep what each gave in a folder, so that an interrupted run is gone on with.

A folder ``DIR/key`` has ``item.json`` (verdict, seconds, words), ``figures.csv``, further tables, and charts as SVG and
PNG. It is written whole or not at all; one that was made in the same setting by the same version is not made again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, final

import pandas as pd

from tallyveil import __version__
from tallyveil.files.release_folder import new_folder
from tallyveil.papers.registry import DIFFERS, Item, Outcome, Setting
from tallyveil.report.plots import write_plot

Progress = Callable[[str, str, float], None]  # an item's key, its verdict, and its seconds


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Done:
    """An item that was computed: its folder has the rest."""

    item: Item
    folder: Path
    verdict: str
    seconds: float
    notes: tuple[str, ...]
    failed: str
    charts: tuple[str, ...]
    figures: pd.DataFrame


def run_items(items: Sequence[Item], folder: Path, setting: Setting, progress: Progress | None = None) -> list[Done]:
    """Compute items, or take what was computed before in the same setting."""
    job = job_of(setting)
    done = []
    for item in items:
        place = folder / item.key
        if not _is_made(place, job):
            _make(item, place, setting, job)
        one = read_done(item, place)
        done.append(one)
        if progress is not None:
            progress(item.key, one.verdict, one.seconds)
    return done


def job_of(setting: Setting) -> dict[str, Any]:
    """What must be the same for an item not to be made again."""
    return {
        "persons": setting.persons,
        "replicates": setting.replicates,
        "seed": setting.seed,
        "ipums": setting.ipums is not None,
        "tallyveil": __version__,
    }


def read_done(item: Item, place: Path) -> Done:
    """What an item's folder holds."""
    told = json.loads((place / "item.json").read_text(encoding="utf-8"))
    return Done(
        item=item,
        folder=place,
        verdict=told["verdict"],
        seconds=told["seconds"],
        notes=tuple(told["notes"]),
        failed=told["failed"],
        charts=tuple(told["charts"]),
        figures=pd.read_csv(place / "figures.csv"),
    )


def _is_made(place: Path, job: dict[str, Any]) -> bool:
    try:
        told = json.loads((place / "item.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(told.get("job") == job and not told.get("failed"))


def _make(item: Item, place: Path, setting: Setting, job: dict[str, Any]) -> None:
    """Compute an item and write its folder; one that fails is written down as differing, with what went wrong."""
    start, failed = perf_counter(), ""
    try:
        outcome = item.compute(setting)
    except Exception as problem:  # whatever goes wrong in one item, the others are computed
        outcome, failed = Outcome(figures=[]), f"{type(problem).__name__}: {problem}"
    told = {
        "key": item.key,
        "title": item.title,
        "verdict": DIFFERS if failed else outcome.verdict,
        "failed": failed,
        "seconds": round(perf_counter() - start, 2),
        "notes": list(outcome.notes),
        "charts": list(outcome.charts),
        "job": job,
    }
    if place.exists():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(place) as folder:
        outcome.frame().to_csv(folder / "figures.csv", index=False)
        for name, frame in outcome.tables.items():
            frame.to_csv(folder / f"{name}.csv", index=False)
        for name, chart in outcome.charts.items():
            write_plot(chart, folder / name)
        (folder / "item.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
