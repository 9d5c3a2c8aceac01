"""Benchmark of start-up time and loaded modules, compared with ``import pandas``, each in a new interpreter."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from time import perf_counter

HEAVY = ("numba", "pandas", "pyarrow", "scipy.signal", "scipy.stats", "dp_accounting")
STARTS = {
    "python -c pass": "pass",
    "import pandas": "import pandas",
    "import tallyveil": "import tallyveil",
    "tv.Strategy": "import tallyveil as tv; tv.Strategy",
    "tallyveil account --rho 1": "import sys; sys.argv = ['tallyveil', 'account', '--rho', '1']\n"
    "from tallyveil.cli import main\n"
    "try: main()\nexcept SystemExit: pass",
}


def main() -> None:
    """Print the seconds (median of five), the number of modules, and which heavy modules are loaded."""
    base = 0.0
    for name, code in STARTS.items():
        seconds = median(_seconds(code) for _ in range(5))
        base = seconds if name == "import pandas" else base
        listing = (
            f"{code}\nimport sys; print(len(sys.modules), *(m for m in {HEAVY!r} if m in sys.modules), file=sys.stderr)"
        )
        modules = subprocess.run(
            [sys.executable, "-c", listing], capture_output=True, text=True, check=True
        ).stderr.split()
        ratio = f"{seconds / base:5.2f} x pandas" if base else ""
        print(f"{name:<28} {seconds:6.2f} s  {modules[0]:>5} modules  {ratio}  {', '.join(modules[1:])}")


def _seconds(code: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return perf_counter() - start


if __name__ == "__main__":
    main()
