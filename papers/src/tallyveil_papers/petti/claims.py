"""What petti2020 says in words of loss, samples, bias and error: directions, which a stand-in population can test.

Each claim is a number of ours with the bound that the words set, beside the same number from the authors' own results
(table ``claims``), so that it can be seen how far the words hold there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_2020
from tallyveil.privacy.strategy import Strategy
from tallyveil_papers.figure import FACTOR, Figure
from tallyveil_papers.petti.census import Census, census_of, nation_of
from tallyveil_papers.petti.compare import COUNTED, PLACES, lay, results
from tallyveil_papers.petti.file import of_the_nation
from tallyveil_papers.petti.runs import FRACTIONS, TEXT_FRACTIONS, sample_runs, size_figures, topdown_runs
from tallyveil_papers.registry import Outcome, Setting

LOW_BUDGET_LOSS, TIMES_LESS = 0.15, 10.0
SIMILAR = 3.0  # "similar magnitude": theirs are up to 4 over 2 persons, which may have been 4.5 over 1.5
DIFFERENT = 10.0  # "substantially different in size"
HALF = 0.5  # a published 0 is below that
SAMPLED = [(level, count) for level in ("county", "enum_dist") for count in ("tc", "sc")]
LOSSES = [*SAMPLED, ("state", "sc")]


class Claim(NamedTuple):
    """A number and the bound that the paper's words set: "<" or ">"; none where the words are of other counts."""

    name: str
    at: str
    value: float
    relation: Any = "="
    bound: float | None = None
    quote: str = ""
    factor: float = 1.0  # of a stand-in


def compute_claims(setting: Setting) -> Outcome:
    """The claims, and how the authors' own figures meet them."""
    census, at = census_of(setting), nation_of(setting)
    runs = topdown_runs(setting)
    of_nation = pd.concat([sample_runs(at).figures, size_figures(census_of(at))], ignore_index=True)
    ours = pd.concat([known(runs.figures, census), known(of_nation, census_of(at))], ignore_index=True)
    mine, theirs = list(claims(ours)), list(claims(results()))
    figures = [_figure(claim, census) for claim in mine]
    lacking = {(claim.name, claim.at): claim for claim in theirs}
    for claim in mine:
        lacking.pop((claim.name, claim.at))
    reason = "what it is made of is not compared here"
    figures += [_figure(claim._replace(value=math.nan), census, reason) for claim in lacking.values()]
    by_theirs, by_ours = (pd.DataFrame(some, columns=Claim._fields)[["name", "at", "value"]] for some in (theirs, mine))
    beside = by_theirs.rename(columns={"value": "from_the_published_figures"})
    table = beside.merge(by_ours.rename(columns={"value": "ours"}), on=["name", "at"], how="left")
    return Outcome(
        figures=[*figures, undefined_figure(runs.figures), *next_census(), seconds(runs.times)],
        tables={"claims": table, "seconds": runs.times},
        notes=[of_the_nation(setting, "Samples and sizes are")],
    )


def known(figures: pd.DataFrame, census: Census) -> pd.DataFrame:
    """Our figures of those published ones that are compared."""
    table = lay(results(method=figures.method.unique().tolist()), figures, census).table
    return table.drop(columns=["published", "verdict"]).rename(columns={"ours": "value"})


def claims(figures: pd.DataFrame) -> Iterator[Claim]:
    """All claims that these figures can say something about."""
    yield from _of_loss(figures)
    yield from _of_samples(figures)
    yield from _of_bias(figures)
    yield from _of_error(figures)


def _of_loss(figures: pd.DataFrame) -> Iterator[Claim]:
    losses = _pick(figures, method="topdown", statistic="epl")
    if len(losses):
        share = float((losses.value / losses.epsilon).max())
        quote = "the empirical privacy loss of TopDown is substantially smaller than the theoretical guarantee"
        yield Claim("largest loss as a share of epsilon", "TopDown, all compared", share, "<", 1.0, quote)
    ratios = {}
    for level, count in LOSSES:
        rows = _pick(losses, level=level, count=count).set_index("epsilon").value
        if len(rows) < 8:
            continue
        at, of_figure_2 = f"{PLACES[level]}, {COUNTED[count]}", (level, count) == ("county", "sc")
        low, high = rows[rows.index < 1], rows[rows.index >= 1]
        ratios[level, count] = rows[1.0] / rows[0.25]
        quote = "all epsilon less than 1.0 have empirical privacy loss around 0.15, independent of epsilon"
        bounds: dict[str, Any] = {"bound": LOW_BUDGET_LOSS, "factor": FACTOR} if of_figure_2 else {}
        yield Claim("mean loss at budgets below 1", at, float(low.mean()), quote=quote, **bounds)
        bounds = {"relation": "<", "bound": FACTOR} if of_figure_2 else {}
        yield Claim("largest over smallest loss below 1", at, float(low.max() / low.min()), quote=quote, **bounds)
        quote = "empirical privacy loss almost 10 times less than epsilon"
        bounds = {"bound": TIMES_LESS, "factor": FACTOR} if of_figure_2 else {}
        yield Claim("epsilon over loss from 1, median", at, float((high.index / high).median()), quote=quote, **bounds)
    if {("enum_dist", "sc"), ("enum_dist", "tc")} <= set(ratios):
        value = float(ratios["enum_dist", "sc"] / ratios["enum_dist", "tc"])
        quote = "for privacy loss budgets of 1.0 and less ... for SC was not as responsive to epsilon"
        yield Claim("growth of the loss from 0.25 to 1, strata over totals", "districts", value, "<", 1.0, quote)


def _of_samples(figures: pd.DataFrame) -> Iterator[Claim]:
    for level, count in SAMPLED:
        at = f"{PLACES[level]}, {COUNTED[count]}"
        for statistic, name, quote in (
            ("epl", "least growth of the loss", "empirical privacy loss increased as sample size increased"),
            ("mae", "least fall of the median error", "varied with larger sample size in a manner analogous"),
        ):
            rows = _pick(figures, method="srs", level=level, count=count, statistic=statistic)
            value = rows.set_index(rows.fraction.round(2)).value.clip(lower=HALF if statistic == "mae" else None)
            if set(TEXT_FRACTIONS) <= set(value.index):
                steps = [value[b] / value[a] for a, b in pairwise(TEXT_FRACTIONS)]
                least = min(steps) if statistic == "epl" else 1 / max(steps)
                yield Claim(f"{name}, samples of 5 to 50 to 95%", at, float(least), ">", 1.0, quote)
            if statistic == "epl" and len(value) == len(FRACTIONS):
                falls = int((value.sort_index().diff() < 0).sum())
                yield Claim("steps of 5% at which the loss of samples falls", at, falls, quote=quote)


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
            quote, falls = "The size of this bias decreased as a function of epsilon", -means.diff().dropna()
            yield Claim(
                "budgets at which the bias is larger than at the last",
                PLACES[level],
                int((falls < -HALF).sum()),
                "<",
                0.5,
                quote,
            )  # a rise of less than half a person is chance; fmt: skip
            shares[level] = float(means[1.0] / sizes[level]) if level in sizes else math.nan
        for epsilon in (0.5, 1.0, 2.0):
            some = rows[rows.epsilon == epsilon]
            if len(some) > 2:
                rank = float(some.homogeneity.corr(some.value, method="spearman"))
                at = f"{PLACES[level]}, epsilon {epsilon:g}"
                yield Claim("rank correlation of index and bias", at, rank, ">", 0.0, "is positively associated")
    if len(shares) == 2:
        value, quote = (
            shares["county"] / shares["enum_dist"],
            "Counties displayed the same ... it was not as pronounced",
        )
        yield Claim("bias as a share of the mean size, counties over districts", "epsilon 1", value, "<", 1.0, quote)


def _of_error(figures: pd.DataFrame) -> Iterator[Claim]:
    quote = "the error is of similar magnitude even though the counts are substantially different in size"
    median = _pick(figures, method="topdown", statistic="mae", level=["county", "enum_dist"])
    for (count, epsilon), rows in median.groupby(["count", "epsilon"], sort=False):
        if len(rows) == 2:
            value = rows.value.clip(lower=HALF)
            at = f"{COUNTED[str(count)]}, epsilon {epsilon:g}"
            yield Claim("median error, counties over districts or the reverse", at, float(value.max() / value.min()),
                        "<", SIMILAR, quote)  # fmt: skip
    for count in COUNTED:
        mean = _pick(figures, method="precise", statistic="mean", count=count).set_index("level").value
        if {"county", "enum_dist"} <= set(mean.index):
            value = float(mean["county"] / mean["enum_dist"])
            yield Claim("mean size, counties over districts", COUNTED[count], value, ">", DIFFERENT, quote)


def undefined_figure(figures: pd.DataFrame) -> Figure:
    """The loss of state totals is undefined, as they are invariant: all residuals are 0."""
    rows = _pick(figures, method="topdown", level="state", count="tc")
    defined = rows[
        ((rows.statistic == "epl") & rows.value.notna()) | ((rows.statistic == "max_ae") & (rows.value != 0))
    ]
    return Figure(
        name="budgets at which the loss of state totals is defined",
        ours=int(defined.epsilon.nunique()),
        published=0,
        quote="at the state level empirical privacy loss is undefined, since the invariant makes all residuals zero",
    )


def next_census() -> Iterable[Figure]:
    """What the limitations say of 2020, of the schemas and levels that the library has."""
    levels = Strategy.preset("pl94-2020-us-persons").levels
    races = len(PERSONS_2020.attributes["cenrace"]) / len(PERSONS_1940.attributes["race"])
    yield Figure(name="levels in 2020", ours=len(levels), published=6, quote="six geographic levels instead of four")
    yield Figure(
        name="race groups, 2020 over 1940", ours=races, published=10, tolerance=0.5, quote="ten times more race groups"
    )


def seconds(times: pd.DataFrame) -> Figure:
    """How long a run takes."""
    return Figure(
        name="seconds of a run of TopDown, mean over budgets",
        at="on this machine and census",
        ours=float(times.seconds.mean()),
        quote="it takes several hours to complete a single run",
    )


def _figure(claim: Claim, census: Census, left_out: str = "") -> Figure:
    return Figure(
        name=claim.name,
        at=claim.at,
        ours=claim.value,
        published=claim.bound,
        quote=claim.quote,
        relation=claim.relation,
        stand_in=census.stand_in,
        factor=claim.factor,
        tolerance=0.0 if census.stand_in or claim.relation != "=" else (claim.factor - 1) * (claim.bound or 0.0),
        left_out=left_out,
    )


def _pick(figures: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    for name, value in wanted.items():
        figures = figures[figures[name].isin(value if isinstance(value, list) else [value])]
    return figures
