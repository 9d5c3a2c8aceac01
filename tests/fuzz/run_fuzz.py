"""Run many fuzz cases, one process per core, with a watchdog: python tests/fuzz/run_fuzz.py [CASES] [FIRST]."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules that all tests share

SECONDS = 60  # of the processor; a case that takes longer counts as a hang
WAITING = 900  # seconds on the clock, for a case that waits for ever (others may use the machine too)


def work(numbers: list[int], results: multiprocessing.Queue) -> None:
    import resource

    from cases import kind_of, run

    with Path(os.devnull).open("w") as nothing, tempfile.TemporaryDirectory(prefix="tallyveil-fuzz-") as place:
        os.dup2(nothing.fileno(), 1)
        for number in numbers:
            results.put(("start", number, None))
            (folder := Path(place) / str(number)).mkdir()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # SIGPROF ends the process
            try:
                outcome = "accepted" if run(number, folder) else "refused"
                results.put((outcome, number, kind_of(number)))
            except BaseException:
                results.put(("found", number, f"{kind_of(number)} {number}: {traceback.format_exc()}"))
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(folder, ignore_errors=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    results.put(("end", -1, usage.ru_utime + usage.ru_stime))


def main(cases: int, first: int) -> int:
    cores = max(1, len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("spawn")
    counts: Counter[str] = Counter()
    findings: list[str] = []
    running, seconds = [], 0.0
    for core in range(cores):
        queue = context.Queue()
        numbers = list(range(first + core, first + cases, cores))
        process = context.Process(target=work, args=(numbers, queue))
        process.start()
        running.append([process, queue, numbers, None, time.monotonic() + WAITING])  # compiling may take minutes
    while running:
        for job in list(running):
            process, queue, numbers = job[:3]
            while not queue.empty():
                what, number, more = queue.get()
                if what == "start":
                    job[3], job[4] = number, time.monotonic() + WAITING
                elif what == "end":
                    seconds += more
                    numbers.clear()
                else:
                    counts[what if what == "found" else f"{more}, {what}"] += 1
                    if what == "found":
                        findings.append(more)
                        print(more, flush=True)
            current = job[3]
            if numbers and (time.monotonic() > job[4] or not process.is_alive()):
                hung = process.is_alive() or process.exitcode == -signal.SIGPROF
                what = "hang" if hung else f"died with {process.exitcode}"
                findings.append(f"case {current}: {what}")
                print(findings[-1], flush=True)
                process.kill()
                left = [number for number in numbers if current is None or number > current]
                queue = context.Queue()
                process = context.Process(target=work, args=(left, queue))
                process.start()
                job[:] = [process, queue, left, None, time.monotonic() + WAITING]
            if not numbers:
                process.join()
                running.remove(job)
        time.sleep(0.2)
    for name, count in sorted(counts.items()):
        print(f"{name:<20} {count:>7,}")
    print(f"{cases:,} cases, {len(findings)} findings, {seconds:,.0f} CPU seconds")
    return 1 if findings else 0


if __name__ == "__main__":
    faulthandler.enable()
    words = sys.argv[1:]
    sys.exit(main(int(words[0]) if words else 20_000, int(words[1]) if len(words) > 1 else 0))
