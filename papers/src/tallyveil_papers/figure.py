"""One number of a paper, ours, and the verdict on the two.

- ``agrees``: within the tolerance;
- ``erratum``: differs from what is printed as the erratum says: another computation gives the printed number, or the
  paper's words are too strong;
- ``stand-in``: computed on a synthetic population instead of the census itself. Direction and factor are compared, and
  it never counts as agreement;
- ``differs``: anything else, including a stand-in beyond a factor of two;
- ``not compared``: there is a published number, but the comparison would not be fair (the reason is given);
- ``shown``: there is no published number to compare with.

A number that nothing published can confirm is computed a second way (``again``); it differs if the two disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, final

SHOWN, AGREES, ERRATUM, STAND_IN, DIFFERS = "shown", "agrees", "erratum", "stand-in", "differs"
NOT_COMPARED = "not compared"
VERDICTS = (SHOWN, AGREES, ERRATUM, NOT_COMPARED, STAND_IN, DIFFERS)  # from best to worst
FACTOR = 2.0  # beyond which a stand-in differs
_SAME = 1e-6  # relative: two computations of one number


@final
@dataclass(frozen=True, kw_only=True)
class Figure:
    """Our number and the published one.

    Attributes
    ----------
    name, at
        What it is, and for which parameters.
    ours
        Computed now, by the definitions.
    published
        As printed; None where the paper shows a picture and no number.
    quote
        The paper's words, where it has words and no number ("visually consistent").
    relation
        "=", or "<" or ">" where the paper gives a bound ("over 99%").
    tolerance
        How far ours may be from the published figure: half a unit of its last digit, plus any sampling error.
    as_printed
        The computation that reproduces the published number if that does not follow from the definitions (an erratum).
    overstated
        Whether the paper claims too much according to the errata; ``again`` must then confirm ours.
    again, again_within
        Our number by a second computation (a plain sum, a value of the errata), and how far apart the two may be.
    stand_in
        Whether the population is a synthetic one.
    slack
        For a stand-in: a difference this small is ignored, whatever the factor.
    factor
        For a stand-in: the factor beyond which it differs; infinite if only the direction can be compared.
    left_out
        Why it is not compared.
    """

    name: str
    at: str = ""
    ours: float
    published: float | None = None
    quote: str = ""
    relation: Literal["=", "<", ">"] = "="
    tolerance: float = 0.0
    as_printed: float | None = None
    overstated: bool = False
    again: float | None = None
    again_within: float = 0.0
    stand_in: bool = False
    slack: float = 0.0
    factor: float = FACTOR
    left_out: str = ""

    @property
    def verdict(self) -> str:
        """The verdict on the two numbers."""
        if self.left_out:
            return NOT_COMPARED
        if not math.isfinite(self.ours) or not self._is_confirmed():
            return DIFFERS
        if self.published is None:
            return SHOWN
        if self._fits(self.ours):
            return STAND_IN if self.stand_in else AGREES
        if self.stand_in:
            return STAND_IN if self._is_like(self.published) else DIFFERS
        explained = self._fits(self.as_printed) if self.as_printed is not None else self.overstated and bool(self.quote)
        return ERRATUM if explained else DIFFERS

    @property
    def allowed(self) -> str:
        """How far ours may be from the published number, in words."""
        if self.published is None or self.left_out:
            return ""
        if not self.stand_in:
            return f"{self.tolerance:.3g}" if self.tolerance else "exact" if self.relation == "=" else ""
        rule = f"factor {self.factor:g}" if math.isfinite(self.factor) else "direction"
        near = max(self.tolerance, self.slack)
        return f"{rule}, or {near:.3g}" if near else rule

    @property
    def apart(self) -> str:
        """For a figure that differs, by how much."""
        if self.verdict != DIFFERS:
            return ""
        if not self._is_confirmed():
            return "not computed again" if self.again is None else f"computed again: {self.again:.6g}"
        if self.published is None or not math.isfinite(self.ours):
            return "not a number"
        times = f", {self.ours / self.published:.2f} times" if self.ours * self.published > 0 else ""
        return f"by {self.ours - self.published:+.3g}{times}"

    def _is_confirmed(self) -> bool:
        if self.again is None:
            return not self.overstated
        return math.isclose(self.ours, self.again, rel_tol=_SAME, abs_tol=self.again_within)

    def _fits(self, value: float) -> bool:
        """Whether a value agrees with the published one."""
        over = value - (math.nan if self.published is None else self.published)
        return {"=": abs(over) <= self.tolerance, "<": over < self.tolerance, ">": over > -self.tolerance}[
            self.relation
        ]

    def _is_like(self, published: float) -> bool:
        """Whether a stand-in has the published direction and size."""
        if abs(self.ours - published) <= self.slack:
            return True
        return self.ours * published > 0 and 1 / self.factor <= self.ours / published <= self.factor


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts.

    >>> worst(["agrees", "stand-in", "shown"])
    'stand-in'
    """
    return max(verdicts, key=VERDICTS.index, default=SHOWN)
