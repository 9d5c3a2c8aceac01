"""The Bureau's own releases of the 1940 census: 32 microdata detail files, four runs at each of eight budgets.

The folder of a file names its budget and run, as in ``0.25/run1/MDF_PER.dat`` or, as the Bureau's files are called,
``EXT1940USCB-EPSILON025-RUN1/MDF_PER.dat``, where 025 is 0.25 and 10 is 1.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tallyveil.errors import InputError
from tallyveil.evaluate.sources import aligned
from tallyveil.files import read_mdf_1940
from tallyveil.nouns.histogram import Histogram

EPSILONS = (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 6.0, 8.0)
RUNS = 4  # at each budget, pooled by the authors
EXAMPLE = "Name the folders by budget and run, such as 0.25/run1/MDF_PER.dat"
_SPELLED = {
    text: epsilon
    for epsilon in EPSILONS
    for whole in (f"{epsilon:g}", f"{epsilon:.1f}", f"{epsilon:.2f}")
    if float(whole) == epsilon
    for text in (whole, whole.replace(".", ""))
}
_NUMBER = re.compile(r"\D*(\d+(?:\.\d+)?)\D*")
_BUDGET, _RUN = re.compile(r"eps(?:ilon)?[ _=-]*(\d+(?:\.\d+)?)", re.I), re.compile(r"run[ _=-]*(\d+)", re.I)


@lru_cache(maxsize=2)
def find_releases(folder: Path) -> Mapping[float, tuple[Path, ...]]:
    """The files of persons at each of the eight budgets, in the order of runs."""
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}. Give the folder with the Bureau's releases. {EXAMPLE}.")
    found: dict[tuple[float, int], Path] = {}
    for path in sorted(path for path in folder.rglob("*MDF_PER*") if path.is_file()):
        place = budget_and_run(path.relative_to(folder))
        if place is None:
            known = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
            raise InputError(f"{path}: which of the budgets {known} it has cannot be told from its name. {EXAMPLE}.")
        if place in found:
            raise InputError(f"{path} and {found[place]} are both run {place[1]} at epsilon {place[0]:g}. {EXAMPLE}.")
        found[place] = path
    lacking = [f"{epsilon:g}" for epsilon in EPSILONS if not any(budget == epsilon for budget, _ in found)]
    if lacking:
        raise InputError(f"{folder}: no file MDF_PER.* at epsilon {', '.join(lacking)}. {EXAMPLE}.")
    return {epsilon: tuple(found[key] for key in sorted(found) if key[0] == epsilon) for epsilon in EPSILONS}


def budget_and_run(path: Path) -> tuple[float, int] | None:
    """The budget and the run that a path names; None if it names no budget of the paper.

    >>> budget_and_run(Path("0.25/run1/MDF_PER.dat")), budget_and_run(Path("EXT1940USCB-EPSILON10-RUN4/MDF_PER.dat"))
    ((0.25, 1), (1.0, 4))
    >>> budget_and_run(Path("8.0/3/MDF_PER.dat")), budget_and_run(Path("MDF_PER.dat"))
    ((8.0, 3), None)
    """
    marked, run = _BUDGET.search(str(path)), _RUN.search(str(path))
    numbers = [match[1] for part in path.parts[:-1] if not _RUN.search(part) if (match := _NUMBER.fullmatch(part))]
    if marked is not None:
        numbers = [marked[1], *(number for number in numbers if number != marked[1])]
    if not numbers or numbers[0] not in _SPELLED:
        return None
    second = numbers[1] if len(numbers) > 1 and numbers[1].isdigit() else "1"
    return _SPELLED[numbers[0]], int(run[1] if run is not None else second)


def read_releases(folder: Path, epsilon: float, truth: Histogram) -> list[Histogram]:
    """The counts of every run at a budget, on the districts of the truth."""
    return [aligned(read_mdf_1940(path).people, truth, f"{path}: ") for path in find_releases(folder)[epsilon]]


def are_theirs(folder: Path | None) -> bool:
    """Whether there are the four runs at each budget that the authors pooled, so that chance plays no part."""
    return folder is not None and all(len(runs) == RUNS for runs in find_releases(folder).values())
