"""Compile the kernels of a run before they are needed: once an installation, in two processes side by side.

numba compiles a kernel when it is first called, and keeps the machine code beside the source. Each job of
``protection.kernel_jobs`` calls a few kernels on a very small table, and tells on its standard output about every
kernel it has compiled: ``python -m tallyveil.protection.kernel_jobs JOB``.

A process that compiles a kernel does not run the machine code that it keeps: it calls the parts that it compiled before
the kernel, where the kept code has copies that were fitted to the kernel. Those add floats in another order, so that a
few rounded counts differ. Estimates are therefore made with kept code only (``compile_elsewhere``).
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

import numba

JOBS = ("estimate", "round-and-measure")
COMMAND = [sys.executable, "-P", "-m", "tallyveil.protection.kernel_jobs"]  # -P: nothing from the current folder
ABOUT = 150  # kernels that all jobs compile
_PACKAGE = Path(__file__).parent.parent
_looking, _looked = Lock(), False  # for kept kernels, once a process


def compile_kernels(compiled: Callable[[], object] = lambda: None) -> bool:
    """Compile the kernels of ``protect``; gives whether they are kept for later runs.

    ``compiled`` is called whenever one more kernel is compiled, about ``ABOUT`` times.
    """
    forget_stale_kernels()
    messages: SimpleQueue[bool] = SimpleQueue()
    jobs = [
        subprocess.Popen(
            [*COMMAND, name],
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


def compile_elsewhere() -> None:
    """Have other processes compile the kernels, unless that has been done. The first call may take half a minute."""
    global _looked
    with _looking:
        if not _looked and _marker() is not None and not kernels_are_compiled():
            compile_kernels()
        _looked = True


def compiles_here() -> None:
    """Let this process compile what it calls."""
    global _looked
    _looked = True


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
