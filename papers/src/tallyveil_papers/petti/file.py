"""The authors' results file: all 994 published figures of petti2020, compared with ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tallyveil_papers.figure import Figure
from tallyveil_papers.petti import charts
from tallyveil_papers.petti.census import Census, census_of, nation_of
from tallyveil_papers.petti.compare import CLEAR, FEWEST_RESIDUALS, PLACES, lay, name_of, results, signs
from tallyveil_papers.petti.runs import DEFINITIONS, Runs, sample_runs, size_figures, topdown_runs
from tallyveil_papers.petti.typical import (
    beyond_a_factor,
    bias_sizes,
    typical_errors,
    typical_losses,
)
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import notes_of

ERRORS = ["mae", "pct95", "max_ae", "rmse"]
SIBLINGS = 0.3  # relative: what siblings, who share an error, may do to a standard error


def compute_error(setting: Setting) -> Outcome:
    """Error of TopDown: 192 published figures."""
    theirs, ours = results(method="topdown", statistic=ERRORS), topdown_runs(setting).figures
    return _laid(census_of(setting), theirs, ours, "Error of TopDown", typical_errors)


def compute_epl(setting: Setting) -> Outcome:
    """Empirical privacy loss of TopDown: 40 published figures."""
    theirs, ours = results(method="topdown", statistic="epl"), topdown_runs(setting).figures
    laid = _laid(census_of(setting), theirs, ours, "Empirical privacy loss of TopDown", typical_losses)
    table = laid.tables["side_by_side"]
    ratio = (table.ours / table.published)[(table.level == "enum_dist") & (table["count"] == "sc")]
    notes = notes_of("petti2020.epl", least=ratio.min(), most=ratio.max()) if len(ratio) else []
    return replace(laid, notes=[*laid.notes, *notes])


def compute_bias(setting: Setting) -> Outcome:
    """Bias of totals by homogeneity: 168 published figures; and how many have their sign with each definition of it."""
    theirs, ours = results(method="topdown", statistic="bias"), topdown_runs(setting).figures
    laid = _laid(census_of(setting), theirs, ours, "Bias by homogeneity", bias_sizes, log=False)
    by_text = signs(theirs.assign(statistic=DEFINITIONS["cells"]), ours)
    words = [
        f"{word}: {int(table.same_sign.sum())} of {len(table)} have the published sign"
        for word, table in (("the product", signs(theirs, ours)), ("empty cells, as the text has it", by_text))
    ]
    note = f"Where both biases are more than {CLEAR:g} standard errors from 0, by the index of {', '.join(words)}."
    notes = [*laid.notes, beyond_a_factor(laid.tables["side_by_side"]), note]
    checked = _errors_of_bias(topdown_runs(setting)) if census_of(setting).has_persons("bias") else []
    figures = [*laid.figures, *checked]
    return replace(laid, figures=figures, notes=notes, tables={**laid.tables, "index_of_the_text": by_text})


def _errors_of_bias(runs: Runs) -> list[Figure]:
    """Check the standard errors, which decide what is compared, against those of independent residuals."""
    own = runs.figures[(runs.figures.statistic == "bias") & (runs.figures.level == "enum_dist")]
    both = own.merge(
        runs.spreads.astype({"homogeneity": float}), on=["epsilon", "homogeneity"], suffixes=("", "_alone")
    )
    both = both[both.n >= FEWEST_RESIDUALS]
    return [
        Figure(
            name="standard error of the bias, median over indices",
            at=f"districts, epsilon {epsilon:g}; again: residuals taken as independent",
            ours=float(rows.chance.median()),
            again=float(rows.error.median()),
            again_within=SIBLINGS * float(rows.error.median()),
        )
        for epsilon, rows in both.groupby("epsilon")
    ]


def compute_samples(setting: Setting) -> Outcome:
    """Error and loss of simple random samples: 570 published figures."""
    at = nation_of(setting)
    laid = _laid(
        census_of(at), results(method="srs"), sample_runs(at).figures, "Simple random samples", _typical_of_samples
    )
    return replace(laid, notes=[*laid.notes, of_the_nation(setting, "Samples are")])


def compute_sizes(setting: Setting) -> Outcome:
    """Sizes of the precise counts: 24 published figures."""
    census = census_of(nation_of(setting))
    laid = _laid(census, results(method="precise"), size_figures(census), "Sizes of the precise counts")
    return replace(laid, notes=[*laid.notes, of_the_nation(setting, "Sizes are")])


def of_the_nation(setting: Setting, what: str) -> str:
    """A note on the census that was used."""
    census = census_of(nation_of(setting))
    return (
        f"{what} of a {census.words()}, whatever the size of the other items'." if census.stand_in else f"{what} real."
    )


def _typical_of_samples(table: pd.DataFrame, census: Census) -> list[Figure]:
    return [*typical_errors(table, census), *typical_losses(table, census)]


def _laid(
    census: Census, theirs: pd.DataFrame, ours: pd.DataFrame, title: str, typical: Any = None, *, log: bool = True
) -> Outcome:
    """Compare published rows with ours, one by one and in groups, with a chart of one against the other."""
    laid = lay(theirs, ours, census)
    table = laid.table
    if log:
        shown = table.assign(kind=[name_of(row) for row in table.itertuples()], place=table.level.map(PLACES))
    else:
        shown = table.assign(
            kind=table.level.map(PLACES), place=np.where(table.epsilon < 1, "epsilon below 1", "epsilon from 1")
        )[table.level != "state"]
    drawn: dict[str, Any] = {}
    if len(shown):
        drawn["against"] = charts.against(shown, title=f"{title}: ours against published", of=census.words(), log=log)
    return Outcome(
        figures=[*laid.figures, *(typical(table, census) if typical is not None else [])],
        charts=drawn,
        tables={"side_by_side": table, "not_compared": laid.left_out},
        notes=laid.notes(),
    )
