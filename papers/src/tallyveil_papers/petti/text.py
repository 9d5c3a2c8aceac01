"""Every figure of error, loss, bias, samples and sizes in the text of petti2020, in the columns of its results."""

from __future__ import annotations

from collections.abc import Mapping
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
from tallyveil_papers.registry import Outcome, Setting

BUDGETS, SHARES = (0.5, 1.0, 2.0), (0.05, 0.5, 0.95)
# Results, "Error and privacy of TopDown": at epsilon 0.5, 1 and 2.
TOPDOWN = {
    ("mae", "tc", "enum_dist"): (29, 15, 8),
    ("mae", "tc", "county"): (45, 24, 13),
    ("mae", "tc", "state"): (0, 0, 0),
    ("mae", "sc", "enum_dist"): (10, 6, 4),
    ("mae", "sc", "county"): (11, 6, 4),
    ("mae", "sc", "state"): (13, 7, 4),
    ("epl", "tc", "enum_dist"): (0.033, 0.064, 0.116),
    ("epl", "tc", "county"): (0.035, 0.048, 0.094),
    ("epl", "sc", "enum_dist"): (0.200, 0.241, 0.280),
    ("epl", "sc", "county"): (0.165, 0.164, 0.253),
    ("epl", "sc", "state"): (0.104, 0.166, 0.300),
}
# Results, "Bias": at epsilon 0.5, 1 and 2, by homogeneity.
BIAS = {
    ("enum_dist", 0): (-31.7, -18.9, -11.6),
    ("enum_dist", 22): (5.4, 3.6, 2.3),
    ("county", 0): (-59.2, -33.9, -18.8),
    ("county", 22): (21.7, 14.5, 11.1),
}
# Results, "Comparison with ... simple random sampling": samples of 5, 50 and 95%.
SAMPLES = {
    ("mae", "tc", "enum_dist"): (74, 17, 4),
    ("mae", "tc", "county"): (388, 90, 20),
    ("mae", "tc", "state"): (3883, 932, 130),
    ("mae", "sc", "enum_dist"): (18, 4, None),
    ("mae", "sc", "county"): (19, 5, None),
    ("mae", "sc", "state"): (41, 9, None),
}
SAMPLE_LOSSES = {
    ("epl", "tc", "enum_dist"): (0.020, 0.079, 0.314),
    ("epl", "sc", "enum_dist"): (0.098, 0.318, 1.333),
    ("epl", "tc", "county"): (0.035, 0.082, 0.429),
    ("epl", "sc", "county"): (0.034, 0.150, 0.612),
}
# Results: median and 95th percentile of the precise counts.
SIZES = {
    ("tc", "enum_dist"): (865, 2342),
    ("tc", "county"): (18_679, 122_710),
    ("tc", "state"): (1_903_133, 7_419_040),
    ("sc", "enum_dist"): (88, 967),
    ("sc", "county"): (47, 17_480),
    ("sc", "state"): (229, 714_208),
}
LARGEST_OF_CAPTION = 23  # Figure 3: "between 0 and 23"
LARGEST_INDEX = 22  # Results, "Bias": "the maximum number of empty cells observed"


def text_table() -> pd.DataFrame:
    """The figures of the text (but the losses of samples) in the columns of the authors' results."""
    rows: list[dict[str, Any]] = []
    for (statistic, count, level), values in TOPDOWN.items():
        rows += [
            {"method": "topdown", "count": count, "level": level, "epsilon": at, "statistic": statistic, "value": value}
            for at, value in zip(BUDGETS, values, strict=True)
        ]
    for (level, index), values in BIAS.items():
        where = {"method": "topdown", "count": "tc", "level": level, "homogeneity": index, "statistic": "bias"}
        rows += [where | {"epsilon": at, "value": value} for at, value in zip(BUDGETS, values, strict=True)]
    rows += _sampled(SAMPLES)
    for (count, level), (median, pct95) in SIZES.items():
        where = {"method": "precise", "count": count, "level": level}
        rows += [where | {"statistic": "median", "value": median}, where | {"statistic": "pct95", "value": pct95}]
    return pd.DataFrame(rows, columns=[*KEYS, "value"])


def losses_table() -> pd.DataFrame:
    """The losses of samples in the text, which are not all those of the results file."""
    return pd.DataFrame(_sampled(SAMPLE_LOSSES), columns=[*KEYS, "value"])


def compute_text(setting: Setting) -> Outcome:
    """Every figure of the text beside ours."""
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
    why = (
        "Losses of samples: the text's figures of totals are not those of the results file (5% of counties: 0.035 and "
        "0.003). They are consistent with the search range of an earlier version of the authors' code (model.py of "
        f"aflaxman/dp_2020_census, commit 08792d2), {TEXT_MULTIPLIER:g} times the "
        f"{TEXT_PERCENTILE:g}th percentile, where single residuals far out make the maximum."
    )
    numbers = dict.fromkeys(("epsilon", "fraction", "homogeneity"), float)
    table = losses_table().assign(statistic=TEXT_LOSS).astype(numbers)
    table = table.merge(ours.astype(numbers), on=KEYS, how="left", suffixes=("_text", ""))
    few = "the maximum hangs on the farthest residuals, of which a smaller country has fewer"
    reason = "" if census.whole else few
    figures = [
        figure_of(row, census, reason)
        for row in table.rename(columns={"value": "ours", "value_text": "published"}).itertuples()
    ]
    near = sum(figure.verdict != DIFFERS for figure in figures)
    return figures, [why] if reason else [f"{why} With that range {near} of {len(figures)} are met here."]


def largest_index(census: Census, definition: Any) -> Figure:
    """The largest homogeneity index of districts, by one of its definitions."""
    index = homogeneity(census.population, level="enumdist", query=STRATA, definition=definition)
    return Figure(
        name="largest homogeneity index of districts",
        at={"product": "24 less the product", "cells": "empty cells"}[definition],
        ours=int(index.max()),
        published=LARGEST_INDEX,
        quote="22 (the maximum number of empty cells observed in the detailed histogram)",
        stand_in=census.stand_in,
        slack=1.0,
        factor=1.0,
        left_out="" if census.whole else "a smaller country may have no such district",
        overstated=not census.stand_in,
        again=None if census.stand_in else LARGEST_OF_CAPTION,
    )


def _sampled(figures: Mapping[tuple[str, str, str], tuple[float | None, ...]]) -> list[dict[str, Any]]:
    return [
        {"method": "srs", "count": count, "level": level, "fraction": at, "statistic": statistic, "value": value}
        for (statistic, count, level), values in figures.items()
        for at, value in zip(SHARES, values, strict=True)
        if value is not None
    ]
