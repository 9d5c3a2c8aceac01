"""Figures SA3 and SA4 of petti2020's appendix: noisy strata that agree with totals and are not negative.

Both depend on how many strata are empty, so a synthetic state is a stand-in; what the optimisation does to the noise is
confirmed on the same state by other means (:mod:`tallyveil_papers.appendix.solvers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats
from tallyveil.mechanisms import geometric, total_and_strata, with_invariant
from tallyveil_papers.appendix.noise import Losses, State, losses_of, state_in_words, state_of, strata_of
from tallyveil_papers.appendix.solvers import counties_kept, epl_by_hand, strata_and_total
from tallyveil_papers.figure import Figure
from tallyveil_papers.losses import authors_z, curve_of, densities, two_panels
from tallyveil_papers.petti.runs import STRATA
from tallyveil_papers.registry import Outcome, Setting

RUNS_SA3, RUNS_SA4, BY_HAND = 40, 10, 10
AUTHORS_ZEROS = 46_358 / 63_912  # residuals of SA4 that round to 0.0 (notebook 010 of the authors, last cell)


# -- SA3: a total and strata


def figure_sa3(setting: Setting) -> Outcome:
    """District totals from noisy totals and strata, reconciled by squares; and by the text's absolute differences."""
    state, runs = state_of(setting), RUNS_SA3
    found = _reconciled(state, Fraction(1, 8), Fraction(3, 8), seed=setting.seed, runs=runs)
    theirs = losses_of(_reconciled(state, authors_z(0.125), authors_z(0.375), seed=setting.seed, runs=runs).sum(axis=2))
    totals = found.sum(axis=2)
    ours, apart = losses_of(totals), losses_of(_absolute(state, seed=setting.seed, runs=runs))
    cells = losses_of(_nonempty(state, found))
    rng = np.random.default_rng((setting.seed, 3))
    again = strata_and_total(strata_of(state), z_total=0.125, z_strata=0.375, runs=BY_HAND, rng=rng)
    second = np.array([epl_by_hand(one) for one in again])
    at = f"epsilon 0.25 and 0.75, district totals, mean of {runs} runs"
    figures = [
        Figure(
            name="EPL, squares",
            at=at,
            ours=_mean(ours),
            published=0.54,
            tolerance=ours.one_draw(0.54) + 0.005,
            as_printed=None if state.stand_in else _mean(theirs),
            again=float(second.mean()),
            again_within=_within(ours, second),
            stand_in=state.stand_in,
        ),
        Figure(
            name="EPL, squares",
            at=at,
            ours=_mean(ours),
            published=1.0,
            relation="<",
            quote="substantially smaller than this sum",
            stand_in=state.stand_in,
            factor=1.0,
        ),
        *_spread(totals, again, at=at),
        Figure(name="EPL, absolute differences", at=at, ours=_mean(apart), stand_in=state.stand_in),
        Figure(name="EPL, squares", at="strata not empty in both", ours=_mean(cells), stand_in=state.stand_in),
    ]
    lines = [("proven epsilon", 1.0), ("published largest", 0.54)]
    chart = two_panels(
        densities(totals[0], bandwidth=0.1),
        curve_of(totals[0]),
        title="Total and strata reconciled",
        lines=lines,
        whose=f"{state.words()}, district totals, one run",
    )
    notes = (
        state_in_words(state),
        f"One run's EPL has a standard deviation of {ours.values.std(ddof=1):.2f}, and 95% of runs lie between "
        f"{ours.statistics()['epl_2_5']:.2f} and {ours.statistics()['epl_97_5']:.2f}. With the notebook's noise, of "
        f"ratio 1 - z (erratum 1), the mean is {_mean(theirs):.2f}.",
        "By absolute differences every cell stays at its noisy value, or at 0: to move one costs 0.75 and wins 0.25. "
        "So the measured total is not used at all, and totals are far too large; the search range, as wide to the left "
        "as to the right, then reaches where there are no residuals, and EPL means nothing.",
        f"Computed again: {BY_HAND} runs with numpy's noise, each district solved by scipy's nnls.",
    )
    return Outcome(figures=figures, charts={"figure_sa3": chart}, notes=notes)


def _spread(totals: Floats, again: Floats, *, at: str) -> list[Figure]:
    """Mean and standard deviation of the totals' residuals: sharper than EPL in what they tell of the optimisation."""
    figures = []
    for name, of in (("mean residual", np.mean), ("standard deviation of residuals", np.std)):
        ours, second = (np.array([float(of(one)) for one in some]) for some in (totals, again))
        within = 4 * float(ours.std(ddof=1)) * (1 / len(ours) + 1 / len(second)) ** 0.5
        figures.append(
            Figure(name=name, at=at, ours=float(ours.mean()), again=float(second.mean()), again_within=within)
        )
    return figures


def _reconciled(state: State, total: Fraction, strata: Fraction, *, seed: int, runs: int) -> Floats:
    """Residuals of strata after reconciling, runs x districts x cells."""
    made = total_and_strata(
        state.people, epsilon_total=2 * total, epsilon_strata=2 * strata, query=STRATA, seed=seed, replicate=range(runs)
    )
    return np.asarray(made.answer(STRATA, level="enumdist") - strata_of(state))


def _absolute(state: State, *, seed: int, runs: int) -> Floats:
    """Residuals of totals where 0.25 |sum x - total| + 0.75 sum |x - strata| is least: x is the strata, cut at 0."""
    noisy = _noisy(state, Fraction(3, 4), seed=seed, runs=runs)
    return np.asarray((np.maximum(noisy, 0) - strata_of(state)).sum(axis=2), dtype=np.float64)


def _noisy(state: State, epsilon: Fraction, *, seed: int, runs: int) -> NDArray[Any]:
    return geometric(
        state.people, epsilon=epsilon, query=STRATA, neighbours="replace-one", seed=seed, replicate=range(runs)
    ).answer(STRATA, level="enumdist")


def _nonempty(state: State, residuals: Floats) -> list[Floats]:
    """Of each run the residuals of cells that are not empty in the truth or in the release."""
    true = strata_of(state)
    return [one[(true != 0) | (one + true != 0)] for one in residuals]


# -- SA4: strata and an invariant


def figure_sa4(setting: Setting) -> Outcome:
    """Strata pulled to the true totals of counties: a penalty of 100, the invariant itself, and what comes without."""
    state, runs = state_of(setting), RUNS_SA4
    true, quarter = strata_of(state), Fraction(1, 4)
    noisy = _noisy(state, quarter, seed=setting.seed, runs=runs)
    pulled, theirs = (
        _pulled(state, epsilon, seed=setting.seed, runs=runs) for epsilon in (quarter, 2 * authors_z(0.125))
    )
    exact = _pulled(state, quarter, seed=setting.seed, runs=runs, exact=True)
    drawn = losses_of(theirs.reshape(runs, -1))
    steps = {"noise": noisy - true, "cut": np.maximum(noisy, 0) - true, "kept": exact, "pulled": pulled}
    found = {word: losses_of(one.reshape(runs, -1)) for word, one in steps.items()}
    first = state.people.spine.leaves_under("county")
    rng = np.random.default_rng((setting.seed, 4))
    again = list(counties_kept(true, first, z=0.125, runs=BY_HAND, rng=rng))
    second = {word: np.array([epl_by_hand(one[word]) for one in again]) for word in again[0]}
    second["pulled"] = second["kept"]  # a penalty of 100 moves a county's total by a few hundredths of a person
    at = f"epsilon 0.25, strata of districts, mean of {runs} runs"
    means = {word: _mean(one) for word, one in found.items()}
    words = {
        "noise": "EPL, noise alone",
        "cut": "EPL, noise cut at 0, no invariant",
        "kept": "EPL, county totals kept exactly",
    }
    figures = [
        Figure(
            name="EPL, county totals kept by a penalty",
            at=at,
            ours=means["pulled"],
            published=2.3,
            tolerance=found["pulled"].one_draw(2.3) + 0.05,
            as_printed=None if state.stand_in else _mean(drawn),
            again=float(second["pulled"].mean()),
            again_within=_within(found["pulled"], second["pulled"]),
            stand_in=state.stand_in,
        ),
        Figure(
            name="EPL, county totals kept by a penalty",
            at=at,
            ours=means["pulled"],
            published=0.25,
            relation=">",
            quote="the EPL of the optimized count ... is larger the theoretical",
            stand_in=state.stand_in,
            factor=1.0,
        ),
        *(
            Figure(
                name=words[word],
                at=at,
                ours=means[word],
                again=float(second[word].mean()),
                again_within=_within(found[word], second[word]),
                stand_in=state.stand_in,
            )
            for word in words
        ),
        Figure(
            name="share of the rise that comes with the cut at 0",
            at=at,
            ours=(means["cut"] - means["noise"]) / (means["kept"] - means["noise"]),
            stand_in=state.stand_in,
        ),
        *_kept(state, {"by a penalty": pulled, "exactly": exact}),
        Figure(
            name="cells of a district",
            ours=true.shape[1],
            published=24,
            quote="stratified by voting age, race, and ethnicity",
        ),
        Figure(
            name="share of residuals that round to 0.0",
            at=f"{at}, by a penalty; the authors' notebook 010 has {AUTHORS_ZEROS:.3f}",
            ours=float((np.abs(pulled) < 0.05).mean()),
            stand_in=state.stand_in,
        ),
    ]
    chart = two_panels(
        densities(pulled[0].reshape(-1), bandwidth=0.1),
        curve_of(pulled[0].reshape(-1)),
        title="Strata with county totals kept",
        lines=[("epsilon", 0.25), ("published largest", 2.3)],
        whose=f"{state.words()}, strata of districts, one run",
    )
    notes = (
        state_in_words(state),
        f"With the notebook's noise, of ratio 1 - z (erratum 1), the mean is {_mean(drawn):.2f}.",
        "The paper says that the invariant makes EPL larger than epsilon. Most of the rise is there without it: noise "
        f"alone has {means['noise']:.2f}, noise cut at 0 {means['cut']:.2f}, and with the totals of counties kept as "
        f"well it is {means['kept']:.2f}. Most cells are empty in the truth and stay so, and this peak at 0 is what "
        "makes the log ratio of the smoothed density large; keeping totals, which are too large after the cut, moves "
        "more cells to 0. Neither is a loss that a bound on epsilon knows: not being negative costs no privacy.",
        f"Computed again: {BY_HAND} runs with numpy's noise, the nearest strata of a county's total found by sorting.",
    )
    return Outcome(figures=figures, charts={"figure_sa4": chart}, notes=notes)


def _pulled(state: State, epsilon: Fraction, *, seed: int, runs: int, exact: bool = False) -> Floats:
    made = with_invariant(state.people, epsilon=epsilon, query=STRATA, exact=exact, seed=seed, replicate=range(runs))
    return np.asarray(made.answer(STRATA, level="enumdist") - strata_of(state))


def _kept(state: State, residuals: dict[str, Floats]) -> list[Figure]:
    """How far totals of counties are from the truth: less than half a person, so that they round to it."""
    first = state.people.spine.leaves_under("county")[:-1]
    return [
        Figure(
            name="largest difference of a county's total",
            at=f"kept {how}",
            ours=float(np.abs(np.add.reduceat(one.sum(axis=2), first, axis=1)).max()),
            published=0.0,
            quote="invariants of the total population count at the county level",
            tolerance=0.5 if how == "by a penalty" else 1e-6,
            stand_in=state.stand_in,
        )
        for how, one in residuals.items()
    ]


def _mean(found: Losses) -> float:
    return float(found.values.mean())


def _within(found: Losses, second: Sequence[float] | Floats) -> float:
    """Four standard errors of the difference between the means of our runs and of the second computation's."""
    return 4 * float(found.values.std(ddof=1)) * math.sqrt(1 / len(found.values) + 1 / len(second))
