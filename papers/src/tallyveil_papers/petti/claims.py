"""The claims of petti2020 about loss, samples, bias and error: directions, which a stand-in population can test.

Each claim is a number of ours with the bound that the words set, beside the same number from the authors' own results
(table ``claims``), so that it can be seen how far the words hold there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_2020
from tallyveil.privacy.strategy import Strategy
from tallyveil_papers.figure import Figure
from tallyveil_papers.petti.census import Census, census_of, nation_of
from tallyveil_papers.petti.compare import COUNTED, PLACES, lay, results
from tallyveil_papers.petti.file import of_the_nation
from tallyveil_papers.petti.runs import FRACTIONS, TEXT_FRACTIONS, sample_runs, size_figures, topdown_runs
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge

HALF = 0.5  # a published 0 is below that
SAMPLED = [(level, count) for level in ("county", "enum_dist") for count in ("tc", "sc")]
LOSSES = [*SAMPLED, ("state", "sc")]


class Claim(NamedTuple):
    """A number, and the key of the bound that the paper's words set (``petti2020.claims`` in the TOML file)."""

    key: str
    at: str
    value: float


def compute_claims(setting: Setting) -> Outcome:
    """The claims, and how the authors' own figures meet them."""
    census, at = census_of(setting), nation_of(setting)
    runs = topdown_runs(setting)
    of_nation = pd.concat([sample_runs(at).figures, size_figures(census_of(at))], ignore_index=True)
    ours = pd.concat([known(runs.figures, census), known(of_nation, census_of(at))], ignore_index=True)
    mine, theirs = list(claims(ours)), list(claims(results()))
    figures = [_figure(claim, census) for claim in mine]
    made = {(claim.key, claim.at) for claim in mine}
    reason = "the figures that it is computed from are not compared here"
    lacking = [claim for claim in theirs if (claim.key, claim.at) not in made]
    figures += [_figure(claim._replace(value=math.nan), census, reason) for claim in lacking]
    by_theirs, by_ours = (
        pd.DataFrame([(_figure(claim, census).name, claim.at, claim.value) for claim in some],
                     columns=["name", "at", value])
        for some, value in ((theirs, "from_the_published_figures"), (mine, "ours"))
    )  # fmt: skip
    table = by_theirs.merge(by_ours, on=["name", "at"], how="left")
    seconds = [judge("petti2020.claims.seconds", float(runs.times.seconds.mean()))] if len(runs.times) else []
    return Outcome(
        figures=[*figures, undefined_figure(runs.figures), *next_census(), *seconds],
        tables={"claims": table} | ({"seconds": runs.times} if seconds else {}),
        notes=[of_the_nation(setting, "Samples and sizes are")],
    )


def known(figures: pd.DataFrame, census: Census) -> pd.DataFrame:
    """Our figures, where the published ones are compared."""
    table = lay(results(method=figures.method.unique().tolist()), figures, census).table
    return table.drop(columns=["published", "verdict"]).rename(columns={"ours": "value"})


def claims(figures: pd.DataFrame) -> Iterator[Claim]:
    """All claims that can be computed from these figures."""
    yield from _of_loss(figures)
    yield from _of_samples(figures)
    yield from _of_bias(figures)
    yield from _of_error(figures)


def _of_loss(figures: pd.DataFrame) -> Iterator[Claim]:
    losses = _pick(figures, method="topdown", statistic="epl")
    if len(losses):
        yield Claim("share_of_epsilon", "TopDown, all compared", float((losses.value / losses.epsilon).max()))
    ratios = {}
    for level, count in LOSSES:
        rows = _pick(losses, level=level, count=count).set_index("epsilon").value
        if len(rows) < 8:
            continue
        at = f"{PLACES[level]}, {COUNTED[count]}"
        low, high = rows[rows.index < 1], rows[rows.index >= 1]
        ratios[level, count] = rows[1.0] / rows[0.25]
        for epsilon, loss in low.items():
            yield Claim("loss_below_1", f"{at}, epsilon {epsilon:g}", float(loss))
        yield Claim("range_below_1", at, float(low.max() / low.min()))
        yield Claim("times_from_1", at, float((high.index / high).median()))
    if {("enum_dist", "sc"), ("enum_dist", "tc")} <= set(ratios):
        yield Claim("growth", "districts", float(ratios["enum_dist", "sc"] / ratios["enum_dist", "tc"]))


def _of_samples(figures: pd.DataFrame) -> Iterator[Claim]:
    for level, count in SAMPLED:
        at = f"{PLACES[level]}, {COUNTED[count]}"
        for statistic, key in (("epl", "epl_of_samples"), ("mae", "mae_of_samples")):
            rows = _pick(figures, method="srs", level=level, count=count, statistic=statistic)
            value = rows.set_index(rows.fraction.round(2)).value.clip(lower=HALF if statistic == "mae" else None)
            if set(TEXT_FRACTIONS) <= set(value.index):
                steps = [value[b] / value[a] for a, b in pairwise(TEXT_FRACTIONS)]
                least = min(steps) if statistic == "epl" else 1 / max(steps)
                yield Claim(key, at, float(least))
            if statistic == "epl" and len(value) == len(FRACTIONS):
                yield Claim("falls", at, int((value.sort_index().diff() < 0).sum()))


def _of_bias(figures: pd.DataFrame) -> Iterator[Claim]:
    biases = _pick(figures, method="topdown", statistic="bias")
    sizes = _pick(figures, method="precise", count="tc", statistic="mean").set_index("level").value
    shares = {}
    for level in ("county", "enum_dist"):
        rows = _pick(biases, level=level)
        whole = rows.groupby("homogeneity").epsilon.transform("nunique") == rows.epsilon.nunique()
        always = rows[whole]  # the same indices at all budgets
        means = always.value.abs().groupby(always.epsilon).mean()
        if len(means) == 8:
            yield Claim("rises", PLACES[level], int((means.diff().dropna() > HALF).sum()))
            shares[level] = float(means[1.0] / sizes[level]) if level in sizes else math.nan
        for epsilon in (0.5, 1.0, 2.0):
            some = rows[rows.epsilon == epsilon]
            if len(some) > 2:
                rank = float(some.homogeneity.corr(some.value, method="spearman"))
                yield Claim("rank", f"{PLACES[level]}, epsilon {epsilon:g}", rank)
    if len(shares) == 2:
        yield Claim("pronounced", "epsilon 1", shares["county"] / shares["enum_dist"])


def _of_error(figures: pd.DataFrame) -> Iterator[Claim]:
    median = _pick(figures, method="topdown", statistic="mae", level=["county", "enum_dist"])
    for (count, epsilon), rows in median.groupby(["count", "epsilon"], sort=False):
        if len(rows) == 2:
            value = rows.value.clip(lower=HALF)
            yield Claim("similar", f"{COUNTED[str(count)]}, epsilon {epsilon:g}", float(value.max() / value.min()))
    for count in COUNTED:
        mean = _pick(figures, method="precise", statistic="mean", count=count).set_index("level").value
        if {"county", "enum_dist"} <= set(mean.index):
            yield Claim("different", COUNTED[count], float(mean["county"] / mean["enum_dist"]))


def undefined_figure(figures: pd.DataFrame) -> Figure:
    """The loss of state totals is undefined, as they are invariant: all residuals are 0."""
    rows = _pick(figures, method="topdown", level="state", count="tc")
    loss, changed = (rows.statistic == "epl") & rows.value.notna(), (rows.statistic == "max_ae") & (rows.value != 0)
    return judge("petti2020.claims.undefined", int(rows[loss | changed].epsilon.nunique()))


def next_census() -> Iterable[Figure]:
    """What the limitations say about 2020, checked on the library's schemas and levels."""
    yield judge("petti2020.claims.levels", len(Strategy.preset("pl94-2020-us-persons").levels))
    races = len(PERSONS_2020.attributes["cenrace"]) / len(PERSONS_1940.attributes["race"])
    yield judge("petti2020.claims.races", races)


def _figure(claim: Claim, census: Census, left_out: str = "") -> Figure:
    figure = judge(f"petti2020.claims.{claim.key}", claim.value, case=claim.at, at=claim.at, left_out=left_out,
                   stand_in=census.stand_in)  # fmt: skip
    if census.stand_in or figure.relation != "=":
        return figure
    return replace(figure, tolerance=max(figure.tolerance, (figure.factor - 1) * (figure.published or 0.0)))


def _pick(figures: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    for name, value in wanted.items():
        figures = figures[figures[name].isin(value if isinstance(value, list) else [value])]
    return figures
