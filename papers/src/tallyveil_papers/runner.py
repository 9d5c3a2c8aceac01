"""Run items one after another and keep the results in a folder, so that an interrupted run can be resumed.

A folder ``DIR/key`` has ``item.json`` (verdict, seconds, notes), ``figures.csv``, further tables, and charts as SVG and
PNG. It is written completely or not at all. A folder that the same code wrote with the same setting, and that was not
modified since, is not computed again; nor are finished pieces of an item's long work.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any, final, get_type_hints

import pandas as pd

from tallyveil import __version__
from tallyveil.errors import InputError, LostCluster
from tallyveil.files.atomic import new_folder
from tallyveil.report.plots import write_plot
from tallyveil.runs.store import FrameStore, job_folder
from tallyveil_papers.figure import DIFFERS, worst
from tallyveil_papers.registry import Item, Outcome, Setting

Progress = Callable[["Done", bool], None]  # an item's result, and whether it was computed now
PACKAGES = ("numpy", "scipy", "numba", "pandas")
_PIECES = ".pieces"  # of long work


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Done:
    """The result of an item; its tables and charts are in its folder."""

    item: Item
    folder: Path
    verdict: str
    seconds: float
    notes: tuple[str, ...]
    failed: str
    charts: tuple[str, ...]
    tables: tuple[str, ...]
    figures: pd.DataFrame


def run_items(items: Sequence[Item], folder: Path, setting: Setting, progress: Progress | None = None) -> list[Done]:
    """Compute items, or read the results of an earlier run; a folder belongs to one setting."""
    place = job_folder(folder, job_of(setting))
    setting = replace(setting, map=_kept_pieces(place / _PIECES, setting.map))
    done = []
    for item in items:
        earlier = read_done(item, place / item.key)
        done.append(earlier or _make(item, place / item.key, setting))
        if progress is not None:
            progress(done[-1], earlier is None)
    return done


def job_of(setting: Setting) -> dict[str, Any]:
    """What identifies the setting of a folder."""
    job: dict[str, Any] = {"persons": setting.persons, "replicates": setting.replicates, "seed": setting.seed}
    if setting.ipums is not None:
        status = setting.ipums.stat()
        job |= {"ipums": setting.ipums.name, "bytes": status.st_size, "changed": status.st_mtime_ns}
    if setting.mdf is not None:
        files_of = sorted(path for path in setting.mdf.rglob("*MDF_*") if path.is_file())
        stats = [(path.relative_to(setting.mdf).as_posix(), path.stat()) for path in files_of]
        listed = repr([(name, status.st_size, status.st_mtime_ns) for name, status in stats])
        job |= {"mdf": sha256(listed.encode()).hexdigest()[:16]}
    return job


@cache
def code() -> str:
    """A digest of the code that computes: the files of both packages, and the versions of the others."""
    digest = sha256(repr(versions()).encode())
    for root in (Path(str(files(name))) for name in ("tallyveil", __package__)):
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".csv", ".toml")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of this library and of those that it computes with."""
    return {"tallyveil": __version__, **{name: version(name) for name in PACKAGES}}


def read_done(item: Item, place: Path) -> Done | None:
    """The result in an item's folder; None if it is incomplete, failed, or was written by other code."""
    try:
        record = json.loads((place / "item.json").read_text(encoding="utf-8"))
        whole = all(_digest(place / name) == digest for name, digest in record["files"].items())
        if record["failed"] or record["code"] != code() or not whole:
            return None
        return _done(item, place, record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _done(item: Item, place: Path, record: Mapping[str, Any]) -> Done:
    figures = pd.read_csv(place / "figures.csv", dtype={"at": str, "quote": str, "allowed": str})
    return Done(
        item=item,
        folder=place,
        verdict=DIFFERS if record["failed"] else worst(figures.verdict),
        seconds=record["seconds"],
        notes=tuple(record["notes"]),
        failed=record["failed"],
        charts=tuple(record["charts"]),
        tables=tuple(record["tables"]),
        figures=figures,
    )


def _make(item: Item, place: Path, setting: Setting) -> Done:
    """Compute an item and write its folder; an item that fails is recorded as differing, with the error."""
    start, failed = perf_counter(), ""
    try:
        outcome = item.compute(setting)
    except LostCluster:  # no other item could be computed there
        raise
    except Exception as problem:  # an error in one item must not stop the others
        outcome, failed = Outcome(figures=[]), f"{type(problem).__name__}: {problem}"
    seconds = round(perf_counter() - start, 2)
    shutil.rmtree(place, ignore_errors=True)
    with _appearing(place) as folder:
        outcome.frame().to_csv(folder / "figures.csv", index=False)
        for name, frame in outcome.tables.items():
            frame.to_csv(folder / f"{file_name(name)}.csv", index=False)
        for name, chart in outcome.charts.items():
            write_plot(chart, folder / file_name(name))
        record = {
            "key": item.key,
            "title": item.title,
            "verdict": DIFFERS if failed else outcome.verdict,
            "failed": failed,
            "seconds": seconds,
            "notes": list(outcome.notes),
            "charts": [file_name(name) for name in outcome.charts],
            "tables": [file_name(name) for name in outcome.tables],
            "code": code(),
            "versions": versions(),
            "files": {path.name: _digest(path) for path in sorted(folder.iterdir())},
        }
        (folder / "item.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return _done(item, place, record)


@contextmanager
def _appearing(place: Path) -> Iterator[Path]:
    """A new folder; an error if another run is writing the same one."""
    try:
        with new_folder(place) as folder:
            yield folder
    except InputError:
        if place.exists():
            problem = f"{place}: another run is writing it. Wait until that run has finished, then run this again."
            raise InputError(problem) from None
        raise


def file_name(name: str) -> str:
    """The file name for the name of a chart or table.

    >>> file_name("table 6, exact")
    'table_6_exact'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:16]


def _kept_pieces(folder: Path, spread: Callable[..., Iterable[Any]]) -> Callable[..., Iterable[Any]]:
    """A map that stores the result of each piece of work, a dataclass of frames."""

    def kept(work: Callable[..., Any], *pieces: Sequence[Any]) -> Iterator[Any]:
        kind, store = get_type_hints(work)["return"], _store(folder)
        names = [field.name for field in fields(kind)]

        def known(key: str) -> Any:
            """The stored result of a case; None if a part is missing or cannot be read."""
            try:
                return kind(**{name: store[f"{key}-{name}"] for name in names})
            except (KeyError, InputError):
                return None

        cases = {
            f"{work.__name__}-{sha256(repr(case).encode()).hexdigest()[:12]}": case
            for case in zip(*pieces, strict=True)
        }
        new = {key: case for key, case in cases.items() if known(key) is None}
        made = iter(spread(work, *zip(*new.values(), strict=True)) if new else ())
        for key in cases:
            if key in new:
                result = next(made)
                store.update({f"{key}-{name}": getattr(result, name) for name in names})
            yield known(key)
        list(made)  # exhausts the iterator, so that progress ends

    return kept


def _store(folder: Path) -> FrameStore:
    try:
        return FrameStore(folder, job={"code": code()})
    except InputError:  # written by other code
        shutil.rmtree(folder)
        return FrameStore(folder, job={"code": code()})
