"""Figures SA3 and SA4 of petti2020's appendix: noisy strata that agree with totals and are not negative.

Both depend on how many strata are empty, so a synthetic state is a stand-in. The effect of the optimisation on the
noise is confirmed on the same state by a second implementation (:mod:`tallyveil_papers.appendix.solvers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats
from tallyveil.mechanisms import geometric, total_and_strata, with_invariant
from tallyveil_papers.appendix.noise import Losses, State, losses_of, state_in_words, state_of, strata_of
from tallyveil_papers.appendix.solvers import counties_kept, epl_by_hand, strata_and_total
from tallyveil_papers.figure import Figure
from tallyveil_papers.losses import authors_z, curve_of, densities, one_draw, two_panels
from tallyveil_papers.petti.runs import STRATA
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of, printed

RUNS_SA3, RUNS_SA4, BY_HAND = 40, 10, 10


# -- SA3: a total and strata


def figure_sa3(setting: Setting) -> Outcome:
    """District totals from noisy totals and strata, reconciled by squares; and by the text's absolute differences."""
    state, runs, item = state_of(setting), RUNS_SA3, "petti2020-appendix.figure_sa3"
    residuals = _reconciled(state, Fraction(1, 8), Fraction(3, 8), seed=setting.seed, runs=runs)
    totals = residuals.sum(axis=2)
    ours, nonempty = losses_of(totals), losses_of(_nonempty(state, residuals))
    theirs = losses_of(_reconciled(state, authors_z(0.125), authors_z(0.375), seed=setting.seed, runs=runs).sum(axis=2))
    absolute = losses_of(_absolute(state, seed=setting.seed, runs=runs))
    rng = np.random.default_rng((setting.seed, 3))
    again = strata_and_total(strata_of(state), z_total=0.125, z_strata=0.375, runs=BY_HAND, rng=rng)
    at = f"epsilon 0.25 and 0.75, district totals, mean of {runs} runs"
    figures = [
        _published(f"{item}.squares", state, ours, theirs, [epl_by_hand(one) for one in again], at=at),
        judge(f"{item}.proven", ours.mean(), at=at, stand_in=state.stand_in),
        _moment("residual_mean", np.mean, totals, again, at=at),
        _moment("residual_deviation", np.std, totals, again, at=at),
        judge(f"{item}.absolute", absolute.mean(), at=at, stand_in=state.stand_in),
        judge(f"{item}.nonempty", nonempty.mean(), stand_in=state.stand_in),
    ]
    lines = [("proven epsilon", printed(f"{item}.proven")), ("published largest", printed(f"{item}.squares"))]
    chart = two_panels(
        densities(totals[0], bandwidth=0.1),
        curve_of(totals[0]),
        title="Total and strata reconciled",
        lines=lines,
        whose=f"{state.words()}, district totals, one run",
    )
    low, high = (ours.statistics()[name] for name in ("epl_2_5", "epl_97_5"))
    notes = notes_of(item, state=state_in_words(state), deviation=ours.values.std(ddof=1), low=low, high=high,
                     theirs=theirs.mean(), by_hand=BY_HAND)  # fmt: skip
    return Outcome(figures=figures, charts={"figure_sa3": chart}, notes=notes)


def _moment(key: str, moment: Callable[[Floats], Any], totals: Floats, again: Floats, *, at: str) -> Figure:
    """A moment of the totals' residuals: sharper than EPL in what it tells of the optimisation."""
    ours, second = (np.array([float(moment(run)) for run in runs]) for runs in (totals, again))
    within = 4 * float(ours.std(ddof=1)) * (1 / len(ours) + 1 / len(second)) ** 0.5
    mean, confirmed = float(ours.mean()), float(second.mean())
    return judge(f"petti2020-appendix.figure_sa3.{key}", mean, at=at, again=confirmed, again_within=within)


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
    """For each run, the residuals of cells that are not empty in the truth or in the release."""
    true = strata_of(state)
    return [run[(true != 0) | (run + true != 0)] for run in residuals]


# -- SA4: strata and an invariant


def figure_sa4(setting: Setting) -> Outcome:
    """Strata pulled to the true county totals: by a penalty of 100, by an exact invariant, and without either."""
    state, runs, item = state_of(setting), RUNS_SA4, "petti2020-appendix.figure_sa4"
    residuals = _steps(state, seed=setting.seed, runs=runs)
    pulled = residuals["pulled"]
    ours = {step: losses_of(values.reshape(runs, -1)) for step, values in residuals.items()}
    theirs = losses_of(_pulled(state, 2 * authors_z(0.125), seed=setting.seed, runs=runs).reshape(runs, -1))
    second = _steps_by_hand(state, setting.seed)
    at = f"epsilon 0.25, strata of districts, mean of {runs} runs"
    noise, cut, kept = (ours[step].mean() for step in ("noise", "cut", "kept"))
    zeros = float((np.abs(pulled) < 0.05).mean())
    figures = [
        _published(f"{item}.pulled", state, ours["pulled"], theirs, second["pulled"], at=at),
        judge(f"{item}.larger", ours["pulled"].mean(), at=at, stand_in=state.stand_in),
        *(
            judge(f"{item}.step", ours[step].mean(), case=step, at=at, stand_in=state.stand_in,
                  **_confirmed(ours[step], second[step]))
            for step in ("noise", "cut", "kept")
        ),
        judge(f"{item}.rise", (cut - noise) / (kept - noise), at=at, stand_in=state.stand_in),
        _kept(state, pulled, "kept by a penalty"),
        _kept(state, residuals["kept"], "kept exactly"),
        judge(f"{item}.cells", pulled.shape[2]),
        judge(f"{item}.zeros", zeros, at=f"{at}, by a penalty", stand_in=state.stand_in),
    ]  # fmt: skip
    chart = two_panels(
        densities(pulled[0].reshape(-1), bandwidth=0.1),
        curve_of(pulled[0].reshape(-1)),
        title="Strata with county totals kept",
        lines=[("epsilon", printed(f"{item}.larger")), ("published largest", printed(f"{item}.pulled"))],
        whose=f"{state.words()}, strata of districts, one run",
    )
    notes = notes_of(item, state=state_in_words(state), theirs=theirs.mean(), noise=noise, cut=cut, kept=kept,
                     by_hand=BY_HAND)  # fmt: skip
    return Outcome(figures=figures, charts={"figure_sa4": chart}, notes=notes)


def _steps(state: State, *, seed: int, runs: int) -> dict[str, NDArray[Any]]:
    """Residuals of noise alone, of noise cut at 0, and with county totals kept exactly and by a penalty."""
    true, quarter = strata_of(state), Fraction(1, 4)
    noisy = _noisy(state, quarter, seed=seed, runs=runs)
    return {
        "noise": noisy - true,
        "cut": np.maximum(noisy, 0) - true,
        "kept": _pulled(state, quarter, seed=seed, runs=runs, exact=True),
        "pulled": _pulled(state, quarter, seed=seed, runs=runs),
    }


def _steps_by_hand(state: State, seed: int) -> dict[str, list[float]]:
    """EPL of the same steps by the second implementation, run by run."""
    first, rng = state.people.spine.leaves_under("county"), np.random.default_rng((seed, 4))
    runs = list(counties_kept(strata_of(state), first, z=0.125, runs=BY_HAND, rng=rng))
    losses = {step: [epl_by_hand(run[step]) for run in runs] for step in ("noise", "cut", "kept")}
    return losses | {"pulled": losses["kept"]}  # a penalty of 100 moves a county's total by hundredths of a person


def _pulled(state: State, epsilon: Fraction, *, seed: int, runs: int, exact: bool = False) -> Floats:
    made = with_invariant(state.people, epsilon=epsilon, query=STRATA, exact=exact, seed=seed, replicate=range(runs))
    return np.asarray(made.answer(STRATA, level="enumdist") - strata_of(state))


def _kept(state: State, residuals: Floats, how: str) -> Figure:
    """The largest error of a county total: below half a person, so that it rounds to the truth."""
    first = state.people.spine.leaves_under("county")[:-1]
    apart = float(np.abs(np.add.reduceat(residuals.sum(axis=2), first, axis=1)).max())
    return judge("petti2020-appendix.figure_sa4.totals", apart, case=how, at=how, stand_in=state.stand_in)


# -- both


def _published(key: str, state: State, ours: Losses, theirs: Losses, second: Sequence[float], *, at: str) -> Figure:
    """Compare the mean EPL of our runs with one published run; ``theirs`` has the noise that the authors drew."""
    as_printed = None if state.stand_in else theirs.mean()
    return judge(key, ours.mean(), at=at, chance=one_draw(ours.values, printed(key)), as_printed=as_printed,
                 stand_in=state.stand_in, **_confirmed(ours, second))  # fmt: skip


def _confirmed(ours: Losses, second: Sequence[float]) -> dict[str, Any]:
    """The mean of a second computation, and four standard errors of the difference between the two means."""
    error = float(ours.values.std(ddof=1)) * math.sqrt(1 / len(ours.values) + 1 / len(second))
    return {"again": float(np.mean(second)), "again_within": 4 * error}
