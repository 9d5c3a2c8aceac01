"""kazan2022, two levels: Tables 5 to 7, section 4.3.

The posterior of Eq. 25 is a sum; the paper samples it. Ours is the sum, computed a second time as the long run of a
sampler that keeps the condition x1 <= x2 of Eq. 26. Beside it stands the sampler that leaves the condition out, with
which the published numbers are consistent (erratum 8).
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

import numpy as np
import pandas as pd

from tallyveil.papers.kazan_facts import HALF_A_UNIT, beside, bureau_noise, paper_noise, rho_of, rounding, twice
from tallyveil.papers.registry import Figure, Item, Outcome, Setting
from tallyveil.privacy.budget import Number
from tallyveil.risk import Above, Hierarchy, Intruder
from tallyveil.risk.gibbs import Steps, misfit

OTHERS = 27  # other enumeration districts of Granville County
TABLE_5 = (2, 1, -1)  # x1*, x2*, y1*: one Monte Carlo sample of the paper's
DRAWS = 10_000  # MCMC draws of Tables 6 and 7
EXACT, LONG_RUN = "exact", "condition left out, long run"
ERRATUM_8 = (
    "Erratum 8: the posterior of Eq. 25 is a finite sum. The published numbers are far from it, and consistent with a "
    "sampler whose x1 step leaves out the condition x1 <= x2 of Eq. 26."
)


@lru_cache
def two_levels(rho_2: Number | None = None) -> Hierarchy:
    """The paper's intruder: p = 1/2, rho_1 as in 2020, 27 siblings whose noise adds up as in Eq. 21."""
    own = paper_noise(rho_of("block"))
    above = Above(noise=paper_noise(rho_2 or rho_of("block_group")), siblings=[own] * OTHERS, approximate=True)
    return Hierarchy(intruder=Intruder(prior="1/2"), noise=own, above=[above])


def with_bureaus_noise() -> Hierarchy:
    """The same with the noise of the 2020 file (erratum 9)."""
    own = bureau_noise("block")
    above = Above(noise=bureau_noise("block_group"), siblings=[own] * OTHERS)
    return Hierarchy(intruder=Intruder(prior="1/2"), noise=own, above=[above])


def _table_5(_: Setting) -> Outcome:
    two, rho_2 = two_levels(), rho_of("block_group")
    near = two.above[0]
    again = Decimal(float(rho_2)).quantize(Decimal("0.0001"), ROUND_HALF_UP).quantize(Decimal("0.001"), ROUND_HALF_UP)
    figures = [
        Figure(name="rho_2", at="section 4.3", ours=float(rho_2), published=0.246, tolerance=rounding(3)),
        Figure(name="rho_2", at="section 4.3.1 and captions", ours=float(rho_2), published=0.247, tolerance=rounding(3),
               as_printed=float(again)),
    ]  # fmt: skip
    released = zip(("X1*", "X2*", "Y1*"), (two.noise, near.noise, near.together), (1, 1, 0), TABLE_5, strict=True)
    rows = []
    for name, noise, true, seen in released:
        mass = float(noise.pmf(seen - true))
        figures.append(Figure(name="probability of this released count", at=f"{name}={seen}", ours=mass))
        rows.append({"count": name, "true": true, "released": seen, "standard deviations off":
                     (seen - true) / math.sqrt(noise.actual_variance())})  # fmt: skip
    note = "The data are one Monte Carlo sample of the paper's, the input of Tables 6 and 7. There, d = 27."
    return Outcome(figures=figures, tables={"table 5": pd.DataFrame(rows)}, notes=[note])


def _table_6(_: Setting) -> Outcome:
    two, (x1, x2, y) = two_levels(), TABLE_5
    kept, left_out = (Steps.of(two, x1, x2, y, condition=condition) for condition in (True, False))
    has = twice(two.posterior(x1, [(x2, y)]), float(kept.stationary @ kept.has_given_x2))
    sampler, real = float(left_out.stationary @ left_out.has_given_x2), with_bureaus_noise()
    alone = 100 * float(two.intruder.against(two.noise).posterior(x1))
    figures = [
        beside("Section 4.3", "posterior of X1=1 without hierarchy", "x1=2", alone, digits=2),
        Figure(name="P[X1 = 1 | D], %", at=EXACT, ours=100 * has),
        Figure(name="P[X1 = 1 | D], %", at=LONG_RUN, ours=100 * sampler),
        Figure(name="P[X1 = 1 | D], %, Bureau's noise", at=EXACT, ours=100 * real.posterior(x1, [(x2, y)])),
    ]
    rows = [
        [x, 100 * (1 - p if x == 0 else p), 100 * (1 - q if x == 0 else q)] for p, q in [(has, sampler)] for x in (0, 1)
    ]
    stays = float(left_out.x2_given_x1[1] @ left_out.has_given_x2 - left_out.x2_given_x1[0] @ left_out.has_given_x2)
    chance = math.sqrt(sampler * (1 - sampler) * (1 + stays) / (1 - stays) / DRAWS)
    figures.append(Figure(name="standard error of 10,000 draws, points", at=LONG_RUN, ours=100 * chance))
    notes = [
        "The numbers of Table 6 are missing from the text of the paper that was used. Its words: X1 = 1 is slightly "
        "more probable than X1 = 0, and slightly less than without the level above (57.39%). Without the condition of "
        f"Eq. 26 it is {100 * sampler:.2f}%, with a standard error of {100 * chance:.2f} points for 10,000 draws; by "
        f"the exact sum it is {100 * has:.2f}%."
    ]
    table = pd.DataFrame(rows, columns=["x1", f"{EXACT}, %", f"{LONG_RUN}, %"])
    return Outcome(figures=figures, tables={"table 6": table}, notes=notes)


def _table_7(_: Setting) -> Outcome:
    two, (x1, x2, y) = two_levels(), TABLE_5
    kept, left_out = (Steps.of(two, x1, x2, y, condition=condition) for condition in (True, False))
    exact, again, long_run = two.above_posterior(x1, [(x2, y)]), kept.stationary, left_out.stationary
    chance = np.sqrt(np.diag(left_out.covariance) / DRAWS)
    figures = [
        beside("Table 7", "posterior of X2", f"x2={i}", 100 * twice(exact[i], again[i]), digits=2,
               chance=100 * chance[i], as_printed=100 * float(long_run[i]))
        for i in range(8)
    ]  # fmt: skip
    published = [(figure.published or 0.0) / 100 for figure in figures]
    rows = []
    for name, steps in (("condition kept", kept), ("condition left out", left_out)):
        found = misfit(steps, published, draws=DRAWS)
        figures.append(Figure(name="chi-square of the published row", at=f"{name}, {found.df} degrees of freedom",
                              ours=found.statistic))  # fmt: skip
        figures.append(Figure(name="its p-value", at=name, ours=found.p_value))
        rows += [{"sampler": name, "x2": f"{i}+" if i == found.df else str(i), "expected, %": 100 * found.expected[i],
                  "published, %": 100 * found.published[i], "standard errors off": found.deviations[i]}
                 for i in range(found.df + 1)]  # fmt: skip
    note = (
        "Neither fits perfectly: allowing for dependent draws, the published row is at the edge of what 10,000 draws "
        "without the condition give (mostly its share of 4), and far outside of what they give with it."
    )
    return Outcome(figures=figures, tables={"against both samplers": pd.DataFrame(rows)}, notes=[note])


MONTE_CARLO = "Half a unit of the last printed digit and four standard errors"
ITEMS: tuple[Item, ...] = (
    Item(
        key="kazan2022.table5", title="One sample of released counts", where="Table 5 and section 4.3",
        what="The input of Tables 6 and 7: how probable such counts are; and rho_2.",
        calls=("Strategy.preset", "privacy.DiscreteGaussian.pmf"), tolerance=HALF_A_UNIT, compute=_table_5,
        erratum="The text prints rho_2 as 0.246 and as 0.247. It is 0.24648; the other is "
        "consistent with rounding twice.",
    ),
    Item(
        key="kazan2022.table6", title="Posterior of X1 with the level above", where="Table 6 and section 4.3",
        what="The marginal posterior of X1 for the data of Table 5 (Eq. 25), summed, and as a sampler without the "
        "condition of Eq. 26 has it in the long run.",
        calls=("risk.Hierarchy.posterior", "risk.gibbs.Steps", "risk.Intruder.against"), tolerance=HALF_A_UNIT,
        compute=_table_6, erratum=ERRATUM_8,
    ),
    Item(
        key="kazan2022.table7", title="Posterior of X2", where="Table 7 and section 4.3",
        what="The marginal posterior of X2 for the data of Table 5, in percent: summed, as the long run of both "
        "samplers, and the published row's chi-square against each.",
        calls=("risk.Hierarchy.above_posterior", "risk.gibbs.Steps", "risk.gibbs.misfit"),
        tolerance=f"{MONTE_CARLO} of 10,000 dependent draws.", compute=_table_7, erratum=ERRATUM_8,
    ),
)  # fmt: skip
