"""Every figure of error, loss, bias, samples and sizes in the text of petti2020, in the columns of its results."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tallyveil.evaluate import homogeneity
from tallyveil_papers.figure import DIFFERS, Figure
from tallyveil_papers.petti.census import Census, census_of, nation_of
from tallyveil_papers.petti.compare import Laid, figure_of, lay, results
from tallyveil_papers.petti.file import of_the_nation
from tallyveil_papers.petti.runs import (
    DEFINITIONS,
    KEYS,
    STRATA,
    TEXT_LOSS,
    TEXT_MULTIPLIER,
    TEXT_PERCENTILE,
    sample_runs,
    size_figures,
    topdown_runs,
)
from tallyveil_papers.petti.typical import bias_sizes
from tallyveil_papers.registry import Outcome, Setting, published
from tallyveil_papers.verdicts import judge, notes_of, printed


def text_table() -> pd.DataFrame:
    """The figures of the text (but the losses of samples) in the columns of the authors' results."""
    table = published("petti_flaxman_2020_text")
    return table[~_is_loss_of_sample(table)][[*KEYS, "value"]].reset_index(drop=True)


def losses_table() -> pd.DataFrame:
    """The losses of samples in the text, which are not all those of the results file."""
    table = published("petti_flaxman_2020_text")
    return table[_is_loss_of_sample(table)][[*KEYS, "value"]].reset_index(drop=True)


def compute_text(setting: Setting) -> Outcome:
    """Compare every number of the text with ours."""
    at, text = nation_of(setting), text_table()
    census, nation = census_of(setting), census_of(at)
    protected = lay(text[text.method == "topdown"], topdown_runs(setting).figures, census)
    ours = pd.concat([sample_runs(at).figures, size_figures(nation)], ignore_index=True)
    others = lay(text[text.method != "topdown"], ours, nation)
    losses, why = sample_loss_figures(ours, nation)
    largest = [largest_index(nation, word) for word in DEFINITIONS]
    beside = losses_table().merge(results(), on=KEYS, suffixes=("_text", "_file"))[[*KEYS, "value_text", "value_file"]]
    laid = Laid(
        figures=[*protected.figures, *others.figures],
        left_out=pd.concat([protected.left_out, others.left_out], ignore_index=True),
        table=pd.concat([protected.table, others.table], ignore_index=True),
    )
    return Outcome(
        figures=[
            *laid.figures,
            *bias_sizes(protected.table[protected.table.statistic == "bias"], census),
            *losses,
            *largest,
        ],
        tables={"side_by_side": laid.table, "not_compared": laid.left_out, "sample_losses_text_and_file": beside},
        notes=[*laid.notes(), *why, of_the_nation(setting, "Samples, sizes and the largest index are")],
    )


def sample_loss_figures(ours: pd.DataFrame, census: Census) -> tuple[list[Figure], list[str]]:
    """The losses of samples in the text, with the search range that reproduces them."""
    numbers = dict.fromkeys(("epsilon", "fraction", "homogeneity"), float)
    table = losses_table().assign(statistic=TEXT_LOSS).astype(numbers)
    table = table.merge(ours.astype(numbers), on=KEYS, how="left", suffixes=("_text", ""))
    few = "the maximum depends on the most extreme residuals, of which a smaller country has fewer"
    reason = "" if census.whole else few
    figures = [
        figure_of(row, census, reason)
        for row in table.rename(columns={"value": "ours", "value_text": "published"}).itertuples()
    ]
    near = sum(figure.verdict != DIFFERS for figure in figures)
    met = "" if reason else f" With that range {near} of {len(figures)} are met here."
    return figures, notes_of("petti2020.text", multiplier=TEXT_MULTIPLIER, percentile=TEXT_PERCENTILE, met=met)


def largest_index(census: Census, definition: Any) -> Figure:
    """The largest homogeneity index of districts, by one of its definitions."""
    index = homogeneity(census.population, level="enumdist", query=STRATA, definition=definition)
    confirmed: dict[str, Any] = {} if census.stand_in else {"again": printed("petti2020.text.largest_index_of_caption")}
    left_out = "" if census.whole else "a smaller country may have no such district"
    return judge("petti2020.text.largest_index", int(index.max()), case=definition, stand_in=census.stand_in,
                 left_out=left_out, overstated=not census.stand_in, **confirmed)  # fmt: skip


def _is_loss_of_sample(table: pd.DataFrame) -> pd.Series[bool]:
    return (table.method == "srs") & (table.statistic == "epl")
