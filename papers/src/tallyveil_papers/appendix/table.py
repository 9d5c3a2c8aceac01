"""Table SA1 of petti2020's appendix: EPL of the geometric mechanism by budget, bandwidth and search percentile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, ORANGE, WIDTH, altair, titled
from tallyveil_papers.appendix.noise import (
    DISTRICTS,
    RUNS,
    THEIRS,
    Losses,
    State,
    losses_of,
    noise_of,
    state_of,
)
from tallyveil_papers.appendix.solvers import RUNS as BY_HAND
from tallyveil_papers.appendix.solvers import losses_by_hand
from tallyveil_papers.figure import Figure
from tallyveil_papers.losses import authors_z
from tallyveil_papers.registry import Outcome, Setting, published
from tallyveil_papers.verdicts import notes_of

TELLING = 0.05  # from this z on, ratios exp(-z) and 1 - z differ by 2.5% or more, and both are compared
SLOW = 0.025  # noise wider than G of this is taken in proportion in the second computation
SECOND_BY_SIZE = {10: 30, 100: 10}  # draws of the second computation with so many times the districts
STATISTICS = {"epl_mean": "mean EPL", "epl_2_5": "2.5th percentile", "epl_97_5": "97.5th percentile"}


def table_sa1a(setting: Setting) -> Outcome:
    """EPL of the geometric mechanism for 13 budgets."""
    state, table = state_of(setting), _published("a")
    figures, rows, both = [], [], []
    for row in table.to_dict("records"):
        z = row["value"] / 2
        runs = RUNS if z >= 0.01 else THEIRS
        ours = losses_of(noise_of(state.people, z, seed=setting.seed, runs=runs))
        theirs = None
        if z >= TELLING:
            theirs = losses_of(noise_of(state.people, authors_z(z), seed=setting.seed, runs=runs))
            both.append((row, ours, theirs, _second(z, setting)))
        figures += _compared(f"epsilon {row['value']:g}", row, ours, theirs, _second(z, setting), seed=setting.seed)
        rows += [{"epsilon": row["value"], "by": "published", **{name: row[name] for name in STATISTICS}}]
        rows += [{"epsilon": row["value"], "by": "ours, ratio exp(-z)", **ours.statistics()}]
        rows += [] if theirs is None else [{"epsilon": row["value"], "by": "ours, ratio 1 - z", **theirs.statistics()}]
    figures.append(_together(both, seed=setting.seed))
    more, by_size = _more_districts(state, setting)
    return Outcome(
        figures=[*figures, *more],
        charts={"table_sa1a": _table_chart(pd.DataFrame(rows))},
        tables={"statistics": pd.DataFrame(rows), "by_size": by_size},
        notes=notes_of("petti2020-appendix.table_sa1a", by_hand=BY_HAND),
    )


def _more_districts(state: State, setting: Setting) -> tuple[list[Figure], pd.DataFrame]:
    """EPL of ten and of a hundred times as many districts, from the same noise."""
    many = noise_of(state.people, 0.125, seed=setting.seed, runs=RUNS)
    figures, rows = [], []
    for times in (1, 10, 100):
        districts, runs = times * many.shape[1], RUNS // times
        ours = losses_of(many[: runs * times].reshape(runs, -1)).values
        rows.append({"districts": districts, "draws": runs, "epl_mean": ours.mean(), "true_log_ratio": 0.125})
        if times > 1:
            again = losses_by_hand(0.125, seed=setting.seed, districts=districts, runs=SECOND_BY_SIZE[times])
            spread = float(np.concatenate([ours - ours.mean(), again - again.mean()]).std(ddof=2))
            figures.append(
                Figure(
                    name="mean EPL",
                    at=f"epsilon 0.25, {districts:,} districts",
                    ours=float(ours.mean()),
                    again=float(again.mean()),
                    again_within=4 * spread * (1 / len(ours) + 1 / len(again)) ** 0.5,
                )
            )
    return figures, pd.DataFrame(rows)


def _second(z: float, setting: Setting, **option: float) -> Losses:
    """EPL by the second implementation; for noise wider than G(0.025), scaled in proportion."""
    narrow = max(z, SLOW)
    losses = losses_by_hand(narrow, seed=setting.seed, districts=DISTRICTS, runs=BY_HAND, **option)
    return Losses(losses * (z / narrow))


def table_sa1b(setting: Setting) -> Outcome:
    """EPL at epsilon 0.25 for 8 bandwidths: with each, and with 0.1 whatever the row says."""
    return _ignored("b", "bandwidth", setting)


def table_sa1c(setting: Setting) -> Outcome:
    """EPL at epsilon 0.25 for 5 percentiles: with each, and with 95 whatever the row says."""
    return _ignored("c", "percentile", setting)


def _ignored(part: str, option: str, setting: Setting) -> Outcome:
    state, table = state_of(setting), _published(part)
    drawn = noise_of(state.people, 0.125, seed=setting.seed, runs=RUNS)
    theirs = losses_of(noise_of(state.people, authors_z(0.125), seed=setting.seed, runs=RUNS))
    figures, rows = [], []
    for row in table.to_dict("records"):
        ours = losses_of(drawn, **{option: row["value"]})
        second = _second(0.125, setting, **{option: float(row["value"])})
        figures += _compared(f"{option} {row['value']:g}", row, ours, theirs, second, seed=setting.seed)
        rows.append(
            {option: row["value"], **ours.statistics(), **{f"published_{name}": row[name] for name in STATISTICS}}
        )
    printed, other = (
        frame[list(STATISTICS)].to_numpy().tolist() for frame in (table, _published("b" if part == "c" else "a"))
    )
    same = sum(row in other for row in printed)
    return Outcome(
        figures=figures,
        charts={f"table_sa1{part}": _option_chart(pd.DataFrame(rows), option)},
        tables={"statistics": pd.DataFrame(rows)},
        notes=notes_of(f"petti2020-appendix.table_sa1{part}", same=same, rows=len(table)),
    )


def _published(part: str) -> pd.DataFrame:
    table = published("petti_flaxman_2020_table_sa1")
    return table[table.part == part].reset_index(drop=True)


def _compared(
    at: str, row: Mapping[str, Any], ours: Losses, theirs: Losses | None, second: Losses, *, seed: int
) -> list[Figure]:
    """The three statistics of a row; the printed number may be consistent with ``theirs`` instead of ours."""
    figures, statistics, again = [], ours.statistics(), second.statistics()
    printed = None if theirs is None else theirs.statistics()
    errors, pair = (theirs or ours).errors(seed), (ours, second)
    apart = [one.errors(seed, beside=len(other.values)) for one, other in (pair, pair[::-1])]
    for name, words in STATISTICS.items():
        figures.append(
            Figure(
                name=words,
                at=at,
                ours=statistics[name],
                published=float(row[name]),
                tolerance=4 * errors[name] + 0.00005,
                as_printed=None if printed is None else printed[name],
                again=again[name],
                again_within=4 * max(one[name] for one in apart),
            )
        )
    return figures


def _together(both: Sequence[tuple[Mapping[str, Any], Losses, Losses, Losses]], *, seed: int) -> Figure:
    """Mean EPL over epsilon, averaged over rows, which is sharper than a single row."""
    budgets = np.array([row["value"] for row, *_ in both])
    printed = np.array([row["epl_mean"] for row, *_ in both])
    means, drawn, second = (
        np.array([one.values.mean() for one in some])
        for some in ([a for _, a, _, _ in both], [b for _, _, b, _ in both], [c for _, _, _, c in both])
    )
    errors = np.array([theirs.errors(seed)["epl_mean"] for _, _, theirs, _ in both]) / budgets
    tolerance = 4 * float(np.sqrt((errors**2).sum())) / len(both)
    return Figure(
        name="mean EPL over epsilon, on average",
        at=f"epsilon {budgets.min():g} to {budgets.max():g}",
        ours=float((means / budgets).mean()),
        published=float((printed / budgets).mean()),
        tolerance=tolerance,
        as_printed=float((drawn / budgets).mean()),
        again=float((second / budgets).mean()),
        again_within=tolerance,  # the second computation has at least as many draws as theirs is taken to have
    )


def _table_chart(rows: pd.DataFrame) -> Any:
    alt = altair()
    names = ["published", "ours, ratio exp(-z)", "ours, ratio 1 - z"]
    apart = rows.assign(epsilon=rows.epsilon * 1.035 ** rows.by.map({names[0]: 0, names[1]: -1, names[2]: 1}))
    ticks = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    scale, axis = alt.Scale(type="log", nice=False, padding=12), alt.Axis(values=ticks, format="~g")
    x = alt.X("epsilon:Q", title="epsilon", scale=scale, axis=axis)
    base = alt.Chart(apart).encode(
        x=x, color=alt.Color("by:N", title=None, scale=alt.Scale(domain=names, range=[INK, BLUE, ORANGE]))
    )
    y = alt.Y("epl_2_5:Q", title="EPL, mean and 95% of draws", scale=scale, axis=axis)
    bars = base.mark_rule(strokeWidth=1.5).encode(y=y, y2="epl_97_5:Q")
    dots = base.mark_point(filled=True, size=30, opacity=1).encode(
        y="epl_mean:Q",
        shape=alt.Shape("by:N", title=None, scale=alt.Scale(domain=names, range=["circle", "square", "triangle-up"])),
    )
    least, most = rows.epsilon.min(), rows.epsilon.max()
    ends = pd.DataFrame({"epsilon": [least, most] * 2, "y": [least, most, least / 2, most / 2], "line": [*"1122"]})
    lines = (
        alt.Chart(ends).mark_line(color=GREY, strokeDash=[5, 4], strokeWidth=1).encode(x=x, y="y:Q", detail="line:N")
    )
    note = "Dashed: epsilon (above) and epsilon/2, the true log ratio of a count. Both axes are logarithmic."
    chart = (lines + bars + dots).properties(width=WIDTH * 3 // 2, height=HEIGHT * 3 // 2)
    return titled(chart, "EPL of the geometric mechanism", note)


def _option_chart(rows: pd.DataFrame, option: str) -> Any:
    alt = altair()
    names = ["published", "ours, with the row's " + option]
    parts = [
        rows.assign(
            by=names[0], mean=rows.published_epl_mean, low=rows.published_epl_2_5, high=rows.published_epl_97_5
        ),
        rows.assign(by=names[1], mean=rows.epl_mean, low=rows.epl_2_5, high=rows.epl_97_5),
    ]
    base = alt.Chart(pd.concat(parts)).encode(
        x=alt.X(f"{option}:O", title=option, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("by:N", sort=names),
        color=alt.Color("by:N", title=None, scale=alt.Scale(domain=names, range=[INK, BLUE])),
    )
    scale = alt.Scale(type="log", nice=False, padding=12)
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title="EPL, mean and 95% of draws", scale=scale), y2="high:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(
        y="mean:Q", shape=alt.Shape("by:N", title=None, scale=alt.Scale(domain=names, range=["circle", "square"]))
    )
    note = f"Noise G(0.125) of 2,663 districts; the published rows do not depend on the {option}."
    return titled((bars + dots).properties(width=WIDTH, height=HEIGHT), f"EPL by {option}, epsilon 0.25", note)
