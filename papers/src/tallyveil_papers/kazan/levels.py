"""kazan2022, two levels: Tables 5 to 7, section 4.3.

The posterior of Eq. 25 is a finite sum, which is computed here; the paper samples it. The long-run distribution of a
sampler that omits the condition x1 <= x2 of Eq. 26, which is close to the published Table 7, is shown too (erratum 8).
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy.stats import chi2

from tallyveil._arrays import Floats
from tallyveil.privacy import DiscreteGaussian
from tallyveil.privacy.budget import Number
from tallyveil.risk import Above, Hierarchy, Intruder
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.extract import extract_of, section_4_3_figures
from tallyveil_papers.kazan.facts import beside, bureau_noise, paper_noise, rho_of
from tallyveil_papers.kazan.gibbs import Misfit, Steps, misfit
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

OTHERS = 27  # other enumeration districts of Granville County
TABLE_5 = (2, 1, -1)  # x1*, x2*, y1*: one Monte Carlo sample of the paper's
DRAWS = 10_000  # MCMC draws of Tables 6 and 7
EXACT, LONG_RUN = "exact", "condition left out, long run"


@lru_cache
def two_levels(rho_2: Number | None = None, *, prior: str = "1/2") -> Hierarchy:
    """The paper's intruder: p = 1/2, rho_1 as in 2020, 27 siblings whose noise adds up as in Eq. 21."""
    own = paper_noise(rho_of("block"))
    above = Above(noise=paper_noise(rho_2 or rho_of("block_group")), siblings=[own] * OTHERS, approximate=True)
    return Hierarchy(intruder=Intruder(prior=prior), noise=own, above=[above])


def with_bureaus_noise() -> Hierarchy:
    """The same with the noise of the 2020 file (erratum 9)."""
    own = bureau_noise("block")
    above = Above(noise=bureau_noise("block_group"), siblings=[own] * OTHERS)
    return Hierarchy(intruder=Intruder(prior="1/2"), noise=own, above=[above])


def bureaus_by_hand(count: int) -> tuple[float, float, float]:
    """Right claims, gains and losses with the Bureau's noise, as plain sums."""
    return plain_sums.decided(count, plain_sums.HALF * plain_sums.RHO_1, plain_sums.HALF * plain_sums.RHO_2)


def table_5(_: Setting) -> Outcome:
    """Table 5 and section 4.3: one sample of released counts."""
    two = two_levels()
    near = two.above[0]
    assert isinstance(near.noise, DiscreteGaussian)
    rho_2 = 1 / (2 * float(near.noise.variance))
    twice = Decimal(rho_2).quantize(Decimal("0.0001"), ROUND_HALF_UP).quantize(Decimal("0.001"), ROUND_HALF_UP)
    figures = [
        judge("kazan2022.table5.rho_2", rho_2, again=plain_sums.RHO_2),
        judge("kazan2022.table5.rho_2_rounded_twice", rho_2, as_printed=float(twice)),
        judge("kazan2022.table5.districts", float(len(near.siblings))),
    ]
    laws = (plain_sums.RHO_1, plain_sums.RHO_2, plain_sums.RHO_1 / plain_sums.OTHERS)
    released = zip(("X1*", "X2*", "Y1*"), (two.noise, near.noise, near.together), (1, 1, 0), TABLE_5, laws, strict=True)
    rows = []
    for name, noise, true, seen, rho in released:
        mass = float(noise.pmf(seen - true))
        figures.append(Figure(name="probability of this released count", at=f"{name}={seen}", ours=mass,
                              again=plain_sums.mass(rho, seen - true)))  # fmt: skip
        rows.append({"count": name, "true": true, "released": seen, "standard deviations off":
                     (seen - true) / math.sqrt(noise.actual_variance())})  # fmt: skip
    return Outcome(figures=figures, tables={"table 5": pd.DataFrame(rows)}, notes=notes_of("kazan2022.table5"))


def _samplers() -> tuple[Steps, Steps]:
    """The sampler's steps for the data of Table 5, with the condition and without."""
    kept, left_out = (Steps.of(two_levels(), *TABLE_5, condition=condition) for condition in (True, False))
    return kept, left_out


def table_6(_: Setting) -> Outcome:
    """Table 6 and section 4.3: posterior of X1 with the level above."""
    two, (x1, x2, y) = two_levels(), TABLE_5
    kept, left_out = _samplers()
    has, again = two.posterior(x1, [(x2, y)]), float(plain_sums.given(*TABLE_5)[1].sum())
    long_run = {name: float(steps.stationary @ steps.has_given_x2) for name, steps in
                ((EXACT, kept), (LONG_RUN, left_out))}  # fmt: skip
    sampler = long_run[LONG_RUN]
    alone = float(two.intruder.against(two.noise).posterior(x1))
    real = plain_sums.given(*TABLE_5, plain_sums.HALF * plain_sums.RHO_1, plain_sums.HALF * plain_sums.RHO_2)[1].sum()
    stays = float(left_out.x2_given_x1[1] @ left_out.has_given_x2 - left_out.x2_given_x1[0] @ left_out.has_given_x2)
    chance = math.sqrt(sampler * (1 - sampler) * (1 + stays) / (1 - stays) / DRAWS)
    change, item = 100 * (again - plain_sums.posterior(plain_sums.RHO_1, x1, 0.5)), "kazan2022.table6"
    figures = [
        judge(f"{item}.posterior", 100 * has, at=EXACT),
        judge(f"{item}.change", 100 * (has - alone), at=EXACT, again=change),
        judge(f"{item}.size", 100 * abs(has - alone), at=EXACT, as_printed=100 * abs(sampler - alone),
              again=abs(change)),
        Figure(name="P[X1 = 1 | D], %", at="condition kept, long run", ours=100 * long_run[EXACT], again=100 * again),
        Figure(name="P[X1 = 1 | D], %", at=LONG_RUN, ours=100 * sampler, again=100 * _left_out_by_hand()),
        Figure(name="standard error of 10,000 draws, points", at=LONG_RUN, ours=100 * chance),
        Figure(name="P[X1 = 1 | D], %, Bureau's noise", at=EXACT, again=100 * float(real),
               ours=100 * with_bureaus_noise().posterior(x1, [(x2, y)])),
    ]  # fmt: skip
    notes = notes_of(item, exact=100 * has, sampler=100 * sampler, chance=100 * chance)
    rows = [[x, 100 * (p if x else 1 - p), 100 * (q if x else 1 - q)] for p, q in [(has, sampler)] for x in (0, 1)]
    table = pd.DataFrame(rows, columns=["x1", f"{EXACT}, %", f"{LONG_RUN}, %"])
    return Outcome(figures=figures, tables={"table 6": table}, notes=notes)


def _left_out_by_hand() -> float:
    """The long-run distribution of x1 if Eq. 26 has no condition: a chain of two states."""
    joint, (x1, _, y) = plain_sums.given(*TABLE_5), TABLE_5
    to_has = []
    for shares in joint / joint.sum(axis=1, keepdims=True):  # x2 given x1 = 0 and 1, then x1 given x2
        odds = [
            math.exp(plain_sums.RHO_1 * (2 * x1 - 1) + plain_sums.RHO_1 / 27 * (2 * (x2 - y) - 1)) for x2 in range(61)
        ]
        to_has.append(sum(share * odd / (1 + odd) for share, odd in zip(shares, odds, strict=True)))
    return float(to_has[0] / (to_has[0] + 1 - to_has[1]))


def table_7(_: Setting) -> Outcome:
    """Table 7 and section 4.3: posterior of X2."""
    two, (x1, x2, y) = two_levels(), TABLE_5
    kept, left_out = _samplers()
    exact, long_run = two.above_posterior(x1, [(x2, y)]), left_out.stationary
    chance = [math.sqrt(_variance(left_out, i) / DRAWS) for i in range(8)]
    last = {"again": 100 * float(plain_sums.given(*TABLE_5)[:, 7].sum())}  # which the erratum does not have
    figures = [
        beside("Table 7", "posterior of X2", f"x2={i}", 100 * float(exact[i]), chance=400 * chance[i],
               as_printed=100 * float(long_run[i]), **(last if i == 7 else {}))
        for i in range(8)
    ]  # fmt: skip
    published = [(figure.published or 0.0) / 100 for figure in figures]
    fits = {EXACT: misfit(kept, published, draws=DRAWS), LONG_RUN: misfit(left_out, published, draws=DRAWS)}
    p_values = {name: fit.p_value for name, fit in fits.items()}
    figures.append(judge("kazan2022.table7.p_value", p_values[EXACT], as_printed=p_values[LONG_RUN]))
    rows = []
    for (name, fit), steps in zip(fits.items(), (kept, left_out), strict=True):
        figures += _fit_figures(name, fit, steps)
        rows += [{"sampler": name, "x2": f"{i}+" if i == fit.df else str(i), "expected, %": 100 * fit.expected[i],
                  "published, %": 100 * fit.published[i], "standard errors off": fit.deviations[i]}
                 for i in range(fit.df + 1)]  # fmt: skip
    figures += [
        judge("kazan2022.table7.long_run", 100 * float(long_run[i]), case=f"{i}", at=f"x2={i};{LONG_RUN}")
        for i in range(7)
    ]
    figures += [
        Figure(name="standard error of a share of 10,000 draws, points", at=f"x2={i};{LONG_RUN}", again=100 * chance[i],
               ours=100 * math.sqrt(float(left_out.covariance[i, i]) / DRAWS))
        for i in range(8)
    ]  # fmt: skip
    notes = notes_of("kazan2022.table7", kept=p_values[EXACT], left_out=p_values[LONG_RUN])
    return Outcome(figures=figures, tables={"against both samplers": pd.DataFrame(rows)}, notes=notes)


def _fit_figures(name: str, fit: Misfit, steps: Steps) -> list[Figure]:
    """The chi-square of the published row against a sampler and its p-value, each also by other means."""
    return [
        Figure(name="chi-square of the published row", at=f"{name}, {fit.df} degrees of freedom", ours=fit.statistic,
               again=_chi_square(steps, fit.published)),
        Figure(name="p-value of that chi-square", at=name, ours=fit.p_value,
               again=float(chi2.sf(fit.statistic, fit.df))),
    ]  # fmt: skip


def _variance(steps: Steps, i: int) -> float:
    """Variance of the share of draws with x2 at place i, times the number of draws, in closed form.

    Each step from one x2 to the next goes through x1, so covariances fall by a constant factor from draw to draw.
    """
    shares, (without, given), has = steps.stationary, steps.x2_given_x1, steps.has_given_x2
    stays = float((given - without) @ has)
    later = (has[i] - shares @ has) * (given[i] - without[i]) / (1 - stays)
    return float(shares[i] * (1 - shares[i] + 2 * later))


def section_4_3(setting: Setting) -> Outcome:
    """Section 4.3: the example's posteriors in words."""
    two, (x1, x2, y) = two_levels(), TABLE_5
    left_out = _samplers()[1]
    alone, above = 100 * float(two.intruder.against(two.noise).posterior(x1)), two.above_posterior(x1, [(x2, y)])
    chance = 100 * math.sqrt(_variance(left_out, 1) / DRAWS)
    figures = [
        beside("Section 4.3", "posterior of X1=1 without hierarchy", "x1=2", alone),
        judge("kazan2022.section4.3.weight", 100 * float(above[1]), at=EXACT, chance=2 * chance,
              as_printed=100 * float(left_out.stationary[1])),
        judge("kazan2022.section4.3.tail", 100 * float(above[6:].sum()), at=EXACT,
              again=100 * float(plain_sums.given(*TABLE_5)[:, 6:].sum())),
    ]  # fmt: skip
    if setting.ipums is not None:
        return Outcome(figures=[*figures, *section_4_3_figures(extract_of(setting.ipums))])
    return Outcome(figures=figures, notes=notes_of("kazan2022.section4.3"))


def _chi_square(steps: Steps, observed: Floats) -> float:
    """The chi-square by the pseudo-inverse of the full covariance, with the cells from the last one on merged."""
    cells, p, covariance = len(observed), steps.stationary, steps.covariance
    starts = np.arange(cells)
    merged = np.add.reduceat(np.add.reduceat(covariance, starts, axis=0), starts, axis=1) / DRAWS
    off = observed - np.add.reduceat(p, starts)
    return float(off @ np.linalg.pinv(merged, rcond=1e-10, hermitian=True) @ off)
