"""A claim of a page: its figure or fact, what it is about, and the conditions under which it is said to hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from statements import Statement

NUMBER = r"(-?[\d,]*\.?\d+(?:e-?\d+)?(?:/\d+)?)"
# words that restrict a claim to what neighbours may differ in
CONDITIONS = {
    "agree": r"agree on all invariants|agree with (all exact counts|what is exact)|no exact count changes"
    r"|outside the guarantee: |exact counts do not tell it",
    "satisfy": r"satisfy all listed constraints|keeps? all rules|all rules that are kept still hold"
    r"|for neighbours that satisfy: ",
    "filter": r"pass(es)? the filter",
}


ROOT = "@root"


@dataclass(frozen=True)
class Exact:
    """Counts of a query in a level that are said to be exact: `number` in `units` units, or (0) all of them."""

    query: str
    level: str
    number: int = 0
    units: int = 0
    fixed: bool = False  # in the release, whatever the data are


@dataclass(frozen=True)
class Claim:
    """One figure or one fact: `kind` of claim, `scope` it is about, `chance` with which it may fail."""

    kind: str
    value: float
    scope: str
    source: Statement
    chance: float | None = None
    digits: float = 0.0  # one in the last printed digit
    condition: frozenset[str] = frozenset()
    exact: tuple[Exact, ...] = ()
    words: frozenset[str] = frozenset()  # what it says, if that is not a figure

    def __str__(self) -> str:
        return f"[{self.kind} of {self.scope}: {self.value:g}] {self.source}"


def number(text: str) -> tuple[float, float]:
    """A printed number, and one in its last digit."""
    plain = text.replace(",", "")
    if "/" in plain:
        return float(Fraction(plain)), 0.0
    mantissa, _, power = plain.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    return float(plain), 10.0 ** (int(power or 0) - places)


def chance_of(text: str | None) -> float | None:
    if text is None:
        return None
    words = {"million": 1e6, "billion": 1e9, "trillion": 1e12, "thousand": 1e3}
    one_in = re.fullmatch(r"1 in ([\d,.]+)(?: (\w+))?", text.strip())
    if one_in:
        return 1 / (float(one_in[1].replace(",", "")) * words.get(one_in[2] or "", 1.0))
    found = re.search(NUMBER, text)
    return number(found[1])[0] if found else None


def conditions_in(text: str) -> frozenset[str]:
    """To what words restrict a claim."""
    return frozenset(name for name, pattern in CONDITIONS.items() if re.search(pattern, text))
