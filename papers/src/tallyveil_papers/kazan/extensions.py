"""kazan2022, other targets and other attacks: sections 3.2 and 5."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import pandas as pd

from tallyveil.risk import Attribute, Hierarchy, Intruder, noises_of
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import PRIORS, bureau, paper_noise, rho_of
from tallyveil_papers.kazan.levels import TABLE_5, two_levels
from tallyveil_papers.kazan.tables import BUREAUS_RHO, exposure
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

OTHERS = 3  # m, the others with the target's characteristics: chosen here
ATTACKS: tuple[Literal["responded", "truthful"], ...] = ("responded", "truthful")


def _with_known(known: int) -> Hierarchy:
    """The two levels of section 4.3 for a target who shares the characteristics with ``known`` others in the unit."""
    two = two_levels()
    return Hierarchy(intruder=Intruder(prior="1/2", known=known), noise=two.noise, above=two.above)


def section_3_2(_: Setting) -> Outcome:
    """Section 3.2: when the level above is informative."""
    two, known = _with_known(5), 5
    figures = []
    for above, siblings in ((5, 0), (100, 95), (100, 94)):
        ours = two.evidence([(above, siblings)])
        x2 = np.arange(61) + max(0, above - 30)
        likely = [
            np.where(
                x2 >= x1,
                np.exp(-plain_sums.RHO_2 * (above - x2) ** 2 - plain_sums.RHO_1 / 27 * (siblings - x2 + x1) ** 2),
                0.0,
            ).sum()
            for x1 in (known, known + 1)
        ]
        again = math.log(likely[1] / likely[0])
        at = f"k1=5;X2*={above};Y1*={siblings}"
        if above == known:
            figures.append(judge("kazan2022.section3.2.less_likely", ours, at=at, again=again))
        else:
            figures.append(judge("kazan2022.section3.2.not_useful", abs(ours), at=at, again=abs(again)))
    return Outcome(figures=figures, notes=notes_of("kazan2022.section3.2"))


def section_5(_: Setting) -> Outcome:
    """Sections 5.1 and 5.2: other attacks, and targets who are not unique."""
    figures = [*_not_unique(), *_not_unique_above()]
    rows = []
    for p in PRIORS:  # Eq. 37, as its text says and as it is printed
        prior = float(Fraction(p))
        text, printed = (
            Attribute(priors={"hispanic": str(one), "not hispanic": str(1 - one)}, noises=paper_noise(rho_of("block")))
            for one in (Fraction(p), 1 - Fraction(p))
        )
        posteriors = [float(one.posterior({"hispanic": 2, "not hispanic": 0})["hispanic"]) for one in (text, printed)]
        log_odds = math.log(prior / (1 - prior)) + (2 * 2 - 1 + 1) * plain_sums.RHO_1  # (2 d - 1) rho of each cell
        again, risk = 1 / (1 + math.exp(-log_odds)), text.risk("hispanic")
        figures += [
            Figure(name="P[hispanic] given (2, 0), Eq. 37 as its text says", at=f"p_v={p}", ours=posteriors[0],
                   again=again),
            Figure(name="risk R of a hispanic target, Eq. 37 as its text says", at=f"p_v={p}", ours=risk,
                   again=_two_cells(prior) / prior),
        ]  # fmt: skip
        rows.append({"p_v": p, "as the text says": posteriors[0], "as Eq. 37 is printed": posteriors[1],
                     "risk R, as the text says": risk})  # fmt: skip
        for attack in ATTACKS:  # Eq. 36 and 38: Eq. 9 with another name for p
            noises = noises_of(bureau(), "block", attack=attack, queries=["detailed"])
            ours = Intruder(prior=p).against(*noises).marginal_posterior
            figures.append(Figure(name=f"marginal posterior, {attack}, Bureau's noise", at=f"p={p}", ours=ours,
                                  again=plain_sums.average(BUREAUS_RHO, prior)))  # fmt: skip
    notes = notes_of("kazan2022.section5", others=OTHERS)
    return Outcome(figures=figures, tables={"unknown attribute": pd.DataFrame(rows)}, notes=notes)


def _not_unique() -> list[Figure]:
    """Section 5.2 with one level: the probabilities stay the same, and counts are shifted by m."""
    figures = []
    for p in PRIORS:
        unique, several = exposure(p), exposure(p, known=OTHERS)
        at = f"p={p};m={OTHERS}"
        figures += [
            Figure(name="marginal posterior, m others having them (identity)", at=at, ours=several.marginal_posterior,
                   again=unique.marginal_posterior),
            Figure(name="P[right decision], m others having them (identity)", at=at, ours=several.right_decision,
                   again=unique.right_decision),
            Figure(name="shift of the smallest count that is claimed (identity)", at=at,
                   ours=several.threshold - unique.threshold, again=OTHERS),
        ]  # fmt: skip
    return figures


def _not_unique_above() -> list[Figure]:
    """Section 5.2 with two levels: the same holds, and the counts above are shifted too."""
    (x1, x2, y), m = TABLE_5, OTHERS
    unique, several = two_levels(), _with_known(m)
    alone, shifted = unique.decision([1]), several.decision([1 + m])
    changes = {
        "P[right decision]": shifted.right_decision - alone.right_decision,
        "gain": shifted.gain - alone.gain,
        "loss": shifted.loss - alone.loss,
        "P[X1 = k1 + 1 | D] of Table 5": several.posterior(x1 + m, [(x2 + m, y)]) - unique.posterior(x1, [(x2, y)]),
        "smallest count that is claimed, less m": several.threshold([(x2 + m, y)]) - m - unique.threshold([(x2, y)]),
    }
    figures = [
        judge(
            "kazan2022.section5.change", value, at=f"two levels;m={m}", name=f"{name}: change when m others have them"
        )
        for name, value in changes.items()
    ]
    right = plain_sums.decided(1)[0]
    return [*figures, Figure(name="P[right decision], m others having them", at=f"two levels;m={m}",
                             ours=shifted.right_decision, again=right)]  # fmt: skip


def _two_cells(prior: float) -> float:
    """Eq. 14 for two cells, the target being counted in the first, as a plain sum."""
    k, p = plain_sums.law(plain_sums.RHO_1)
    likely = p > 1e-16
    k, p = k[likely], p[likely]
    log_odds = plain_sums.RHO_1 * (2.0 * (k[:, None] + 1) - 1 - (2 * k - 1)) + math.log(prior / (1 - prior))
    return float(p @ (1 / (1 + np.exp(-log_odds))) @ p)
