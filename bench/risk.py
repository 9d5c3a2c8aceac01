"""Benchmark of Figures 4 to 6 of kazan2022 by exact summation, compared with our implementation of the paper's sampler.

The paper draws 1,000,000 sets of released counts for a point of Figure 5 (500,000 for a point of Figure 6), and 1,000
MCMC samples for each set. The sampler is timed on fewer sets and the time is scaled up; the printed line says so. Every
exact figure is computed anew. Then Table 7 is compared with both versions of the sampler, and the paper's
approximation of a sum of noises with the exact sum.
"""

from __future__ import annotations

from fractions import Fraction
from time import perf_counter

import numpy as np

from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.privacy.sums import approximate_sum, sum_of_noise
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.priors import NegativeBinomial, Poisson
from tallyveil_papers.kazan.gibbs import Steps, gibbs, misfit

RHO_1 = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)  # 0.0992
RHO_2 = Fraction("2.56") * Fraction(1256, 4099) * Fraction(1288, 4099)  # 0.2465
D = 27
TABLE_7 = np.array([10.71, 40.18, 29.74, 13.93, 4.63, 0.72, 0.08, 0.01]) / 100
SETS, MCMC, PAPER_SETS = 2000, 1000, 1_000_000
LIMIT = 10.0  # seconds for the three figures


def noise(rho: Fraction) -> DiscreteGaussian:
    return DiscreteGaussian(variance=1 / (2 * rho))


def two_levels(rho_2: Fraction = RHO_2, **changed: object) -> Hierarchy:
    own = noise(RHO_1)
    above = Above(**{"noise": noise(rho_2), "siblings": [own] * D} | changed)
    return Hierarchy(intruder=Intruder(prior="1/2"), noise=own, above=[above])


def figure_4() -> None:
    """Print the smallest own count for which the characteristics are claimed; without the hierarchy it is 1."""
    two = two_levels()
    print("Figure 4: smallest x1* that is claimed (1 without the hierarchy), by x2* and range of y1*")
    for x2 in range(-3, 6):
        thresholds = [two.threshold([(x2, y)]) for y in range(-30, 31)]
        starts = [i for i in range(61) if i == 0 or thresholds[i] != thresholds[i - 1]]
        runs = [f"{i - 30}..{end - 31}: {thresholds[i]:g}" for i, end in zip(starts, [*starts[1:], 61], strict=True)]
        print(f"  x2* = {x2:>2}   " + "   ".join(runs))


def figure_5() -> None:
    right = [two_levels().decision([count]) for count in range(1, 101)]
    print("Figure 5: right decisions by xi_2 (alone " + f"{100 * right[0].alone:.2f} %; published 59.05 % from 4 on)")
    print(
        "  " + "  ".join(f"{n}: {100 * right[n - 1].right_decision:.2f}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 30, 100))
    )
    first = right[0]
    print(f"  at 1: gain {100 * first.gain:.2f} %, loss {100 * first.loss:.2f} % (published 2.48 % and 1.83 %)")


def figure_6() -> None:
    grid = np.geomspace(0.01, 100, 50)
    hierarchies = [two_levels(Fraction(str(round(rho, 9)))) for rho in grid]
    print("Figure 6: right decisions by rho_2, for xi_2 of 1, 10 and 100, and ties for xi_2 = 1")
    for i, two in enumerate(hierarchies):
        found = [two.decision([count]) for count in (1, 10, 100)]
        if i % 7 == 0 or i == 49:
            shown = "  ".join(f"{100 * one.right_decision:6.2f}" for one in found)
            print(f"  rho_2 = {grid[i]:<8.3g} {shown}   ties {100 * found[0].tie:.2f}")


def one_point_as_the_paper() -> float:
    """Return the seconds for PAPER_SETS sets of released counts at xi_2 = 1, extrapolated from SETS sets."""
    two = two_levels(approximate=True)
    rng = np.random.default_rng(1)
    exact = two.decision([1]).right_decision
    seconds = 0.0
    gibbs(two, 1, 1, 0, draws=10)  # compiles
    for condition, words in ((True, f"exact {100 * exact:.2f} %"), (False, "published 59.5 %")):
        released = [draw(one, count, rng) for one, count in ((two.noise, 1), (two.above[0].noise, 1))]
        siblings = draw(two.above[0].together, 0, rng)
        start = perf_counter()
        right = sum(
            gibbs(two, int(x1), int(x2), int(y), draws=MCMC, seed=i, condition=condition)[:, 0].mean() > 0.5
            for i, (x1, x2, y) in enumerate(zip(*released, siblings, strict=True))
        )
        seconds = perf_counter() - start
        share = right / SETS
        error = np.sqrt(share * (1 - share) / SETS)
        print(
            f"  x1 <= x2 {'kept' if condition else 'omitted':<9} {100 * share:.1f} % "
            f"(standard error {100 * error:.1f}; {words}), {seconds:.2f} s for {SETS:,} sets"
        )
    return seconds * PAPER_SETS / SETS


def draw(one: DiscreteGaussian, count: int, rng: np.random.Generator) -> np.ndarray:
    eta = np.arange(-120, 121)
    mass = one.pmf(eta)
    return count + rng.choice(eta, SETS, p=mass / mass.sum())


def table_7() -> None:
    print("Table 7 compared with the stationary distribution of the sampler, for 10,000 dependent draws")
    for condition in (True, False):
        steps = Steps.of(two_levels(approximate=True), 2, 1, -1, condition=condition)
        found = misfit(steps, TABLE_7, draws=10_000)
        print(
            f"  x1 <= x2 {'kept' if condition else 'omitted'}: chi-square {found.statistic:.2f}, "
            f"{found.df} degrees of freedom, p = {found.p_value:.2g}"
        )
        for x2, (expected, published, off) in enumerate(
            zip(found.expected, found.published, found.deviations, strict=True)
        ):
            cell = f"{x2}+" if x2 == found.df else f"{x2} "
            print(f"    x2 = {cell}  {100 * expected:6.2f} %  published {100 * published:6.2f} %  {off:+.2f} s.e.")


def sums() -> None:
    print(
        "Sums of siblings' noise: total variation distance of the paper's DG(d/(2 rho)) from the convolution (Figure 8)"
    )
    for rho in ("0.0992", "1", "2", "5"):
        one = noise(Fraction(rho))
        apart = []
        for d in (5, D):
            exact = sum_of_noise([one] * d)
            k = np.arange(-exact.reach, exact.reach + 1)
            far = np.abs(exact.pmf(k) - approximate_sum([one] * d).pmf(k)).sum() / 2
            apart.append(f"d = {d}: {far:.2g} (+- {exact.error:.1g})")
        print(f"  rho = {rho:<7} {'   '.join(apart)}")
    print("Variance of DG(s) minus s (Figure 7)")
    parameters = ("0.1", "0.25", "0.5", "0.75", "1", "1.5", "2")
    print("  " + "  ".join(f"{s}: {DiscreteGaussian(variance=s).actual_variance() - float(s):.1e}" for s in parameters))


def priors() -> None:
    print("Right decisions by xi_2 of 1, 2, 3, 10 under other priors on the count of the siblings")
    for prior in (None, Poisson(mean=0.1), Poisson(mean=1), Poisson(mean=10), NegativeBinomial(mean=10, variance=100)):
        right = [100 * two_levels(prior=prior).decision([count]).right_decision for count in (1, 2, 3, 10)]
        print(f"  {'flat' if prior is None else prior!s:<40} " + "  ".join(f"{one:6.2f}" for one in right))


def more_levels() -> None:
    own, county = noise(RHO_1), noise(RHO_2)
    levels = [Above(noise=county, siblings=[own] * D)] + [Above(noise=county, siblings=[county] * 3)] * 2
    print("More levels (a target who is alone everywhere; above the county, 3 siblings with its noise)")
    for n in (1, 2, 3):
        hierarchy = Hierarchy(intruder=Intruder(prior="1/2"), noise=own, above=levels[:n])
        hierarchy.decision([1] * n, draws=2)
        start = perf_counter()
        found = hierarchy.decision([1] * n)
        print(
            f"  {n} above: {100 * found.right_decision:.2f} % (standard error {100 * found.standard_error:.2f}, "
            f"truncation {found.truncation:.0e}) in {perf_counter() - start:.4f} s"
        )


def main() -> None:
    start = perf_counter()
    figure_4()
    figure_5()
    figure_6()
    ours = perf_counter() - start
    points = 9 * 61 + 100 + 150
    print(f"Figures 4 to 6, {points} points: {ours:.2f} s in total (at most {LIMIT:g} s)\n")
    print(f"One point of Figure 5 with the method of the paper, {MCMC:,} MCMC samples per set of released counts")
    theirs = one_point_as_the_paper()
    one = two_levels()
    one.decision([1])
    begin = perf_counter()
    for _ in range(20):
        one.decision([1])
    each = (perf_counter() - begin) / 20
    print(f"  {PAPER_SETS:,} sets (timed on {SETS:,}, scaled)  {theirs:>10,.0f} s")
    print(f"  ours: the exact sum                         {each:>10.4f} s {theirs / each:>12,.0f}x\n")
    for part in (table_7, sums, priors, more_levels):
        part()
        print()
    if ours > LIMIT:
        raise SystemExit(f"Figures 4 to 6 took more than {LIMIT:g} seconds")


if __name__ == "__main__":
    main()
