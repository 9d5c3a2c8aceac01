"""Table SA1 of petti2020's appendix: EPL of the geometric mechanism by budget, bandwidth and search percentile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.papers.appendix_noise import RUNS, THEIRS, Losses, losses_of, noise_of, state_of
from tallyveil.papers.losses import authors_z
from tallyveil.papers.registry import Figure, Outcome, Setting, published
from tallyveil.report.plots import BLUE, GREY, HEIGHT, INK, ORANGE, WIDTH, _styled, altair

TELLING = 0.05  # from this z on, ratios exp(-z) and 1 - z differ by 2.5% or more, and both are compared
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
            both.append((row, ours, theirs))
        figures += _compared(f"epsilon {row['value']:g}", row, ours, theirs, seed=setting.seed)
        rows += [{"epsilon": row["value"], "by": "published", **{name: row[name] for name in STATISTICS}}]
        rows += [{"epsilon": row["value"], "by": "ours, ratio exp(-z)", **ours.statistics()}]
        rows += [] if theirs is None else [{"epsilon": row["value"], "by": "ours, ratio 1 - z", **theirs.statistics()}]
    figures.append(_together(both, seed=setting.seed))
    many = noise_of(state.people, 0.125, seed=setting.seed, runs=RUNS)
    sizes = [losses_of(many.reshape(RUNS // times, -1)).values for times in (1, 10, 100)]
    by_size = pd.DataFrame(
        {"districts": [times * many.shape[1] for times in (1, 10, 100)], "epl_mean": [one.mean() for one in sizes]}
    ).assign(draws=[len(one) for one in sizes], true_log_ratio=0.125)
    note = (
        "The noise is G(epsilon/2), so the true log ratio is epsilon/2, not epsilon. The mean EPL lies near epsilon at "
        "2,663 districts; with more districts it falls towards epsilon/2 (table by_size), as the maximum of a less "
        "noisy curve does (erratum 5). A row alone can hardly tell the two noises apart; the rows together can."
    )
    return Outcome(
        figures=figures,
        charts={"table_sa1a": _table_chart(pd.DataFrame(rows))},
        tables={"statistics": pd.DataFrame(rows), "by_size": by_size},
        notes=[note],
    )


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
        figures += _compared(f"{option} {row['value']:g}", row, ours, theirs, seed=setting.seed)
        rows.append(
            {option: row["value"], **ours.statistics(), **{f"published_{name}": row[name] for name in STATISTICS}}
        )
    other = _published("b" if part == "c" else "a")
    same = [
        row for row in table[list(STATISTICS)].to_numpy().tolist() if row in other[list(STATISTICS)].to_numpy().tolist()
    ]
    where = "(b)" if part == "c" else "(a)"
    note = (
        "As printed: bandwidth 0.1 and percentile 95 in every row, with the noise of ratio 1 - z. Published rows that "
        f"stand digit by digit in part {where} too: {len(same)} of {len(table)}."
    )
    return Outcome(
        figures=figures,
        charts={f"table_sa1{part}": _option_chart(pd.DataFrame(rows), option)},
        tables={"statistics": pd.DataFrame(rows)},
        notes=[note],
    )


def _published(part: str) -> pd.DataFrame:
    table = published("petti_flaxman_2020_table_sa1")
    return table[table.part == part].reset_index(drop=True)


def _compared(at: str, row: Mapping[str, Any], ours: Losses, theirs: Losses | None, *, seed: int) -> list[Figure]:
    """The three statistics of a row; where ``theirs`` is given it is what the printed number is consistent with."""
    figures, found = [], ours.statistics()
    printed = None if theirs is None else theirs.statistics()
    errors = (theirs or ours).errors(seed)
    for name, words in STATISTICS.items():
        figures.append(
            Figure(
                name=words,
                at=at,
                ours=found[name],
                published=float(row[name]),
                tolerance=4 * errors[name] + 0.00005,
                as_printed=None if printed is None else printed[name],
            )
        )
    return figures


def _together(both: Sequence[tuple[Mapping[str, Any], Losses, Losses]], *, seed: int) -> Figure:
    """Mean EPL over epsilon, averaged over rows: what one row alone cannot tell."""
    budgets = np.array([row["value"] for row, _, _ in both])
    printed = np.array([row["epl_mean"] for row, _, _ in both])
    found = np.array([ours.values.mean() for _, ours, _ in both])
    drawn = np.array([theirs.values.mean() for _, _, theirs in both])
    errors = np.array([theirs.errors(seed)["epl_mean"] for _, _, theirs in both]) / budgets
    return Figure(
        name="mean EPL over epsilon, on average",
        at=f"epsilon {budgets.min():g} to {budgets.max():g}",
        ours=float((found / budgets).mean()),
        published=float((printed / budgets).mean()),
        tolerance=4 * float(np.sqrt((errors**2).sum())) / len(both),
        as_printed=float((drawn / budgets).mean()),
    )


def _table_chart(rows: pd.DataFrame) -> Any:
    alt = altair()
    names = ["published", "ours, ratio exp(-z)", "ours, ratio 1 - z"]
    x = alt.X("epsilon:Q", title="epsilon", scale=alt.Scale(domain=[-0.01, 0.51], nice=False))
    apart = rows.assign(epsilon=rows.epsilon + 0.006 * rows.by.map({names[0]: 0, names[1]: -1, names[2]: 1}))
    base = alt.Chart(apart).encode(
        x=x, color=alt.Color("by:N", title=None, scale=alt.Scale(domain=names, range=[INK, BLUE, ORANGE]))
    )
    bars = base.mark_rule().encode(y=alt.Y("epl_2_5:Q", title="EPL, mean and 95% of draws"), y2="epl_97_5:Q")
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(
        y="epl_mean:Q",
        shape=alt.Shape("by:N", title=None, scale=alt.Scale(domain=names, range=["circle", "square", "triangle-up"])),
    )
    ends = pd.DataFrame({"epsilon": [0, 0.5, 0, 0.5], "y": [0, 0.5, 0, 0.25], "line": ["1", "1", "2", "2"]})
    lines = (
        alt.Chart(ends).mark_line(color=GREY, strokeDash=[5, 4], strokeWidth=1).encode(x=x, y="y:Q", detail="line:N")
    )
    heading = alt.TitleParams(
        text="EPL of the geometric mechanism", subtitle="Dashed: epsilon and epsilon/2.", subtitleColor=GREY, offset=12
    )
    return _styled((lines + bars + dots).properties(width=WIDTH * 3 // 2, height=HEIGHT, title=heading))


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
    scale = alt.Scale(type="log")
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title="EPL, mean and 95% of draws", scale=scale), y2="high:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(
        y="mean:Q", shape=alt.Shape("by:N", title=None, scale=alt.Scale(domain=names, range=["circle", "square"]))
    )
    heading = alt.TitleParams(text=f"EPL by {option}, epsilon 0.25", offset=12)
    return _styled((bars + dots).properties(width=WIDTH, height=HEIGHT, title=heading))
