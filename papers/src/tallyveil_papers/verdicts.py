"""Compare our numbers with the published ones of a paper's TOML file, within its tolerances."""

from __future__ import annotations

from typing import Any

from tallyveil_papers.figure import Figure
from tallyveil_papers.reader import NAMES, Facts, read_paper


def judge(key: str, ours: float, *, case: str = "", chance: float = 0.0, **computed: Any) -> Figure:
    """Compare our number with the published one of that key.

    Parameters
    ----------
    key
        Paper, item and figure, such as ``kazan2022.table4.largest``.
    ours
        Our number.
    case
        Which entry to take of fields that are tables; a field without that entry is left out.
    chance
        Sampling error to add to the tolerance of the file.
    computed
        Further fields of the figure, which take precedence over those of the file.

    >>> judge("flaxman2019.claims.share", 0.98, case="geometric").verdict
    'agrees'
    """
    facts = {name: value for name, value in _facts(key).items() if not isinstance(value, dict)}
    facts |= {name: value[case] for name, value in _facts(key).items() if isinstance(value, dict) and case in value}
    for digits, field in (("digits", "tolerance"), ("again_digits", "again_within")):
        if digits in facts:
            facts[field] = rounding(facts.pop(digits))
    figure: dict[str, Any] = {"tolerance": 0.0, **facts, **computed}
    return Figure(ours=ours, **figure | {"tolerance": figure["tolerance"] + chance})


def printed(key: str, case: str = "") -> float:
    """The published number of that key.

    >>> printed("flaxman2019.figure1b.median")
    0.025
    """
    value = _facts(key)["published"]
    return float(value[case] if isinstance(value, dict) else value)


def printed_cases(key: str) -> dict[str, float]:
    """The published numbers of that key, case by case.

    >>> printed_cases("petti2020.table1.nearest")
    {'1': 0.5, '2': 0.75, '4': 0.9, '6': 0.95}
    """
    return dict(_facts(key)["published"])


def notes_of(item: str, **values: Any) -> list[str]:
    """The notes of an item, with these values filled in."""
    return [note.format(**values) for name in NAMES for note in read_paper(name).notes.get(item, ())]


def rounding(digits: int) -> float:
    """Half a unit of the last digit of a number printed with this many decimals."""
    return 0.5 * 10.0**-digits * (1 + 1e-9)


def _facts(key: str) -> Facts:
    return {name: facts for paper in NAMES for name, facts in read_paper(paper).figures.items()}[key]
