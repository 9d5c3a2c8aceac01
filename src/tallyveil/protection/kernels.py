"""Compile the kernels of a run before they are needed: once an installation, in two processes side by side.

numba compiles a kernel when it is first called, and keeps the machine code beside the source. Each job below calls a
few kernels on a very small table, and tells on its standard output about every kernel it has compiled:
``python -m tallyveil.protection.kernels JOB``.
"""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numba
import numpy as np

from tallyveil.engine.nests import Limits, Nests

ABOUT = 150  # kernels that all jobs compile
_PACKAGE = Path(__file__).parent.parent


def compile_kernels(compiled: Callable[[], object] = lambda: None) -> bool:
    """Compile the kernels of ``protect``; gives whether they are kept for later runs.

    ``compiled`` is called whenever one more kernel is compiled, about ``ABOUT`` times.
    """
    forget_stale_kernels()
    messages: SimpleQueue[bool] = SimpleQueue()
    jobs = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "tallyveil.protection.kernels", name],  # -P: nothing from the current folder
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for name in JOBS
    ]
    readers = [Thread(target=_pass_on, args=(job, messages), daemon=True) for job in jobs]
    for reader in readers:
        reader.start()
    try:
        running = len(jobs)
        while running:
            if messages.get():
                compiled()
            else:
                running -= 1
    finally:
        for job, reader in zip(jobs, readers, strict=True):
            job.kill()
            reader.join()
    done = all(job.returncode == 0 for job in jobs)
    if done:
        _mark()
    return done


def kernels_are_compiled() -> bool:
    """Whether the kernels of this installation, on this processor, have been compiled before."""
    marker = _marker()
    return marker is not None and marker.exists()


def forget_stale_kernels() -> None:
    """Remove machine code older than the sources.

    numba compares a cached kernel with the file it stands in, but not with the files of its parts.
    """
    if not kernels_are_compiled():
        for index in _PACKAGE.rglob("*.nbi"):
            index.unlink(missing_ok=True)


def kernel_sources(package: Path) -> list[Path]:
    """The files with kernels, and those whose constants and named tuples the kernels use."""
    files = {path.relative_to(package.parent).with_suffix("").as_posix(): path for path in package.rglob("*.py")}
    found: set[Path] = set()
    for path in files.values():
        source = path.read_text(encoding="utf-8")
        if "tallyveil._compiled import" in source:
            imported = re.findall(r"^from (tallyveil[\w.]*) import", source, re.MULTILINE)
            found.update(
                {path, *(files[name.replace(".", "/")] for name in imported if name.replace(".", "/") in files)}
            )
    return sorted(found)


def _pass_on(job: subprocess.Popen[bytes], messages: SimpleQueue[bool]) -> None:
    assert job.stdout is not None
    with job:
        for _ in job.stdout:
            messages.put(True)
    messages.put(False)


def _marker() -> Path | None:
    """The file that says that the kernels are compiled: its name depends on all that the machine code depends on."""
    from llvmlite.binding import get_host_cpu_name

    from tallyveil.engine.estimate.reductions import solve_nests

    folder = solve_nests.stats.cache_path  # type: ignore[attr-defined]
    if folder is None:
        return None
    sources = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in kernel_sources(_PACKAGE)]
    depends = (numba.__version__, platform.python_version(), get_host_cpu_name(), sources)
    return Path(folder) / f"kernels-{hashlib.sha256(repr(depends).encode()).hexdigest()[:16]}.compiled"


def _mark() -> None:
    marker = _marker()
    if marker is not None:
        for old in marker.parent.glob("kernels-*.compiled"):
            old.unlink(missing_ok=True)
        marker.touch()


def _estimate() -> None:
    from tallyveil.blue.decomposition import Decomposition
    from tallyveil.engine.estimate.problem import Asked, estimate
    from tallyveil.engine.fitted_weights import fitted_weights
    from tallyveil.nouns.schema import Schema

    nests, limits = _small_nest()
    whole = np.zeros(2, np.int32)
    total = Asked(
        row_of_cell=whole, start=np.array([0, 1]), rows=whole[:1], noisy=np.array([1.0, 4.0]), weight=np.ones(2)
    )
    estimate(nests, [total], limits)
    sexes = Schema(attributes={"sex": ["female", "male"]})
    query = sexes.query("detailed")
    decomposition = Decomposition.of(sexes, measured=[query], asked=[query], zeros=set())
    fitted_weights(np.ones((1, 2, 1, 1)), [decomposition.marginal(query)])


def _round_and_measure() -> None:
    from tallyveil.engine.estimate.problem import places_of, rows_of
    from tallyveil.engine.quick_checks import broken_rows, greedily_filled
    from tallyveil.engine.rounding.rounding import round_nests
    from tallyveil.mechanisms.measure import measure
    from tallyveil.nouns.schema import Schema
    from tallyveil.populations import census_1940
    from tallyveil.privacy import RunKey, Strategy

    nests, limits = _small_nest()
    schema = Schema(attributes={"sex": ["female", "male"]})
    round_nests(np.array([0.5, 0.5, 1.5, 2.5]), nests, limits, schema, "margins")
    broken_rows(nests, limits)
    greedily_filled(nests, limits, np.ones(1, np.bool_))
    people = census_1940(persons=500, seed=1).people
    measured = measure(people, Strategy.preset("e2e-2018", epsilon=1), RunKey.from_seed(1))
    start, rows = rows_of(nests, limits[0].row_of_cell, 1)
    measured.ask("us", "detailed", places_of(nests, start, rows, 1))


def _small_nest() -> tuple[Nests, list[Limits]]:
    """One parent with two children and two cells, and the exact total of each child."""
    ends = np.array([0, 2])
    nests = Nests(
        child_start=ends, child=np.arange(2), cell_start=ends, cell=np.arange(2), count=np.array([2, 3]),
        block_start=np.array([0, 4]),
    )  # fmt: skip
    totals = np.array([[1], [4]])
    limits = Limits(name="total", row_of_cell=np.zeros(2, np.int32), least=totals, most=totals, owner=np.arange(2))
    return nests, [limits]


JOBS: dict[str, Callable[[], None]] = {"estimate": _estimate, "round-and-measure": _round_and_measure}


def _run_job(name: str) -> None:
    """Run one job, and print a line for each kernel that was compiled."""
    from numba.core import event

    class Compiled(event.Listener):
        def on_start(self, _: object) -> None:
            pass

        def on_end(self, _: object) -> None:
            os.write(1, b"compiled\n")

    event.register("numba:compile", Compiled())  # type: ignore[no-untyped-call]
    gc.disable()  # looking for garbage takes a sixth of the time, and the process ends soon
    JOBS[name]()


if __name__ == "__main__":
    _run_job(sys.argv[1])
