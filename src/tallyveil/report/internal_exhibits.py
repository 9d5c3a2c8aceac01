"""The exhibits of an internal report: what a comparison with the truth shows. None of them is for publication.

The numbers come from :mod:`tallyveil.evaluate` and :mod:`tallyveil.risk`; nothing is computed here but what to show.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd

from tallyveil.errors import InputError
from tallyveil.evaluate.bias import ENOUGH_FOR_INTERVAL, bias
from tallyveil.evaluate.compare import like_a_sample
from tallyveil.evaluate.error import ENOUGH_FOR_TAIL, error, shown_tail
from tallyveil.evaluate.evaluation import Evaluation, evaluation
from tallyveil.evaluate.residuals import residuals
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy.sentences import NOT_A_BOUND
from tallyveil.release.certificate_page import number, percent
from tallyveil.release.release import Release
from tallyveil.report import internal_charts as charts
from tallyveil.report.exhibit import Exhibit, cell_words, people, plain, query_words
from tallyveil.report.expected import Expected
from tallyveil.report.section import Section
from tallyveil.risk.scan.result import Scan
from tallyveil.risk.scan.saved import ReleaseNoise, check_counts_match
from tallyveil.risk.scan.scan import scan

ENOUGH = 20  # units of a level that is compared with samples
STANDS_OUT = 0.02  # by which a unit's posterior exceeds the average
CELL_LINE = 28  # characters of a cell in a line beside a chart
POINTS = 400  # of a curve that is drawn
MOST_EXPOSED = 15  # units that are listed
LEAST_TIES = 0.01  # of the people, about whom an intruder cannot decide
SAME = 1e-3  # posteriors that differ by less are drawn at the same place
AFTER = {"before": "expected over the noise", "after": "given the noise that was drawn"}


def measured_totals(truth: Histogram, release: Release, expected: Expected) -> pd.DataFrame:
    """By level, the number of people that nine in ten totals are ``within``, and the share ``inside`` its margin."""
    table = error(truth, release, queries=[TOTAL], quantiles=[0.9])
    within = table[table.statistic == "p90_abs"].set_index("level").value
    rows = []
    for level in truth.spine.levels:
        compared = residuals(truth, release, level=level, query=TOTAL)
        close = np.abs(compared.value) <= expected.margin[level][compared.unit]
        rows.append({"level": level, "within": within[level], "inside": float(close.mean()) if len(close) else 1.0})
    return pd.DataFrame(rows)


def internal_sections(truth: Histogram, release: Release, expected: Expected) -> list[Section]:
    """Measured errors, bias, empirical privacy loss, the sample that a release is like, and exposed units."""
    result = evaluation(truth, release, housing=release.facilities)
    return [
        Section(key="measured", title="Measured errors", exhibits=[_errors(result, expected)]),
        _bias_section(truth, release, result),
        _loss_section(result),
        _sample_section(truth, release),
        _exposed_section(truth, release),
    ]


def _errors(result: Evaluation, expected: Expected) -> Exhibit:
    table = result.error.pivot_table(index=["level", "query", "n"], columns="statistic", values="value", sort=False)
    table = table.reset_index().merge(result.median_true)
    table.columns.name = None
    table = table.assign(p95_abs=shown_tail(table))
    leaf = expected.totals.level.iloc[-1]
    own = table[(table.level == leaf) & (table["query"] == TOTAL)].iloc[0]
    headings = {"level": "level", "query": "counts by", "n": "counts", "median_true": "median true count"}
    headings |= {"median_abs": "median error", "p95_abs": "95th percentile", "max_abs": "largest", "bias": "bias"}
    return Exhibit(
        key="measured-errors",
        title="How far are published counts from the truth?",
        says=_error_words(own, leaf),
        alt="A grid with a row for each kind of count and a column for each level, with the median and the 95th "
        "percentile of the absolute error.",
        definition="The error is the published minus the true count. Cells show the median of its absolute "
        "value, and in "
        "brackets its 95th percentile, over the counts that are not zero in the truth or in the release. Fewer than "
        f"{ENOUGH_FOR_TAIL} counts have no 95th percentile.",
        chart=charts.error_grid(table, list(expected.totals.level)),
        table=table,
        words={"query": query_words},
        headings=headings,
        internal=True,
    )


def _error_words(own: Any, level: str) -> str:
    if own.n < ENOUGH_FOR_TAIL:
        return f"The largest error of the {number(int(own.n))} totals at level {level} is {people(own.max_abs)} people."
    return (
        f"Half of the totals at level {level} are off by {people(own.median_abs)} people or more, and one in twenty by "
        f"{people(own.p95_abs)} or more."
    )


def _bias_section(truth: Histogram, release: Release, result: Evaluation) -> Section:
    leaf = truth.spine.leaf
    by_empty = result.bias[(result.bias.level == leaf) & result.bias.low.notna()]
    by_size = bias(truth, release, level=leaf, by="size")
    shown = by_size[by_size.low.notna()]
    exhibits, words = [], []
    headings = {"group": "group", "n": "counts", "bias": "bias", "low": "95% interval from", "high": "to"}
    what = (
        "The bias is the mean of published minus true totals, with its 95% interval; siblings share errors, so parents "
    )
    what += f"are the independent units. Groups of fewer than {ENOUGH_FOR_INTERVAL} are not drawn."
    if len(by_empty) > 1:
        exhibits.append(
            Exhibit(
                key="bias-by-homogeneity",
                title="Bias by homogeneity",
                says=_bias_words(by_empty, leaf, "empty cells"),
                alt=f"Dots with intervals: the bias of totals at level {leaf} by the number of empty cells of a unit.",
                definition=f"The homogeneity of a unit is the number of its cells that are empty in the truth. {what}",
                chart=charts.bias_chart(by_empty, "empty cells of a unit (homogeneity)", numbers=True),
                table=result.bias,
                headings={"level": "level", **headings, "group": "empty cells"},
                internal=True,
            )
        )
    if len(shown) > 1:
        exhibits.append(
            Exhibit(
                key="bias-by-size",
                title="Bias by size",
                says=_bias_words(shown, leaf, "people"),
                alt=f"Dots with intervals: the bias of totals at level {leaf} by the true number of people of a unit.",
                definition=f"Units are grouped by their true total. {what}",
                chart=charts.bias_chart(shown, "true number of people in a unit", numbers=False),
                table=by_size,
                headings={**headings, "group": "people"},
                internal=True,
            )
        )
    if not exhibits:
        words.append(f"Too few groups of units at level {leaf} have enough units to compare their biases.")
    return Section(key="bias", title="Bias", words=words, exhibits=exhibits)


def _bias_words(rows: pd.DataFrame, level: str, of: str) -> str:
    least, most = rows.loc[rows.bias.idxmin()], rows.loc[rows.bias.idxmax()]
    return (
        f"At level {level}, units with {least['group']} {of} have a bias of {_signed(least.bias)} people"
        f"{_whether_seen(least)}, and units with {most['group']} {of} one of {_signed(most.bias)}{_whether_seen(most)}."
    )


def _whether_seen(row: pd.Series[Any]) -> str:
    return " (not distinguishable from 0)" if row.low <= 0 <= row.high else ""


def _signed(value: float) -> str:
    """A bias with its sign, to a tenth of a person below 10.

    >>> _signed(-0.79), _signed(12.4), _signed(0.01)
    ('\u22120.8', '+12', '0')
    """
    text = f"{abs(value):,.0f}" if abs(value) >= 9.95 else f"{abs(value):.1f}".removesuffix(".0")
    sign = "+" if value > 0 else "\N{MINUS SIGN}"
    return text if text == "0" else f"{sign}{text}"


def _loss_section(result: Evaluation) -> Section:
    title = "Empirical privacy loss"
    known = {place: loss for place, loss in result.losses.items() if loss.tells}
    if not known:
        return Section(key="loss", title=title, words=["Too few counts were compared to tell it from chance."])
    level = list(known)[-1][0]
    query = DETAILED if (level, DETAILED) in known else next(q for place, q in known if place == level)
    loss = known[level, query]
    curve = loss.curve.iloc[:: max(1, len(loss.curve) // POINTS)]
    assert loss.epl is not None
    known_maximum = "" if loss.corrected is None else f"{loss.corrected:.2g}"
    moved = known_maximum not in ("", f"{loss.epl:.2g}")
    corrected = f" ({known_maximum} corrected for the noise of a maximum)" if moved else ""
    theory = "" if loss.theory is None else f" The noise alone has {loss.theory:.2g} (dashed)."
    return Section(
        key="loss",
        title=title,
        words=[NOT_A_BOUND],
        exhibits=[
            Exhibit(
                key="loss-curve",
                title=f"Log ratio of errors one person apart: {query_words(query)} at level {plain(level)}",
                says=f"The largest log ratio is {loss.epl:.2g}{corrected}.{theory}",
                alt="A line of the log ratio by the size of the error, with its simultaneous 95% band.",
                definition="For each error x, the logarithm of how much more frequent x is than x + 1 among the "
                "errors of "
                "this release, after smoothing. The band contains the whole curve with 95% confidence. " + loss.note,
                chart=charts.loss_chart(curve, loss.theory),
                table=loss.curve,
                headings={"x": "error", "epl": "log ratio", "low": "band from", "high": "to"},
                internal=True,
            )
        ],
    )


def _sample_section(truth: Histogram, release: Release) -> Section:
    levels = truth.spine.levels
    level = levels[-2] if len(levels) > 1 and truth.spine.size(levels[-2]) >= ENOUGH else truth.spine.leaf
    likeness = like_a_sample(truth, release, level=level)
    title = "The sample it resembles"
    words = likeness.words().replace(
        f"counts of {likeness.query!r} at level {likeness.level!r}",
        f"counts by {query_words(likeness.query)} at level {plain(likeness.level)}",
    )
    says = f"{words[0].upper()}{words[1:]}."
    if likeness.low is None:  # no sample is like it, or too few units tell: a picture would show noise
        return Section(key="sample", title=title, words=[says])
    table = likeness.table.assign(
        sample=[_sample_name(row.method, row.fraction) for row in likeness.table.itertuples()]
    )
    exhibit = Exhibit(
        key="like-a-sample",
        title="Error and privacy loss beside those of samples",
        says=says,
        alt="A line of samples from 5% to 95%, by median error and empirical privacy loss, and the release as a point.",
        definition="Simple random samples are drawn without replacement from the truth and scaled up. The "
        "release is like "
        "the sample that is nearest in the logarithms of the median absolute error and of the empirical privacy loss "
        "(Petti & Flaxman 2020, Table 1). The interval is over units and samples.",
        chart=charts.sample_chart(table),
        table=table.drop(columns="sample"),
        headings={"method": "method", "fraction": "fraction", "median_abs": "median error", "epl": "loss"},
        internal=True,
    )
    return Section(key="sample", title=title, exhibits=[exhibit])


def _sample_name(method: str, fraction: float) -> str:
    return percent(fraction) if method == "sample" else "this release"


def _exposed_section(truth: Histogram, release: Release) -> Section:
    found, note = _scan(truth, release)
    level = found.levels.level.iloc[-1]
    words = [
        "Each person is the target of an intruder who knows everybody else in the unit and gives even odds to whether "
        f"the person is counted there as they are. Figures are {AFTER[found.when]}, for the noisy counts of one level."
    ]
    if note:
        words.append(f"{note[0].upper()}{note[1:]}.")
    exhibits = [_posteriors(found, level)]
    if found.when == "before" and not found.exposed[found.exposed.level == level].unique.any():
        words.append(f"Nobody is alone in a cell at level {level}, so no unit is more exposed than another.")
    elif nobody := _nobody_stands_out(found, level):
        words.append(nobody)
    else:
        exhibits.append(_units(found, len(truth.schema.attributes)))
    return Section(key="exposed", title="Exposed units", words=words, exhibits=exhibits)


def _scan(truth: Histogram, release: Release) -> tuple[Scan, str]:
    """The scan of the noise that was drawn where it is known, otherwise of the noise to expect; and what to note."""
    assert release.strategy is not None
    if release.optimised is not None:
        note = "a release on an optimised spine is scanned on the published one, so figures are those to expect there"
        return scan(truth, release.strategy, facilities=release.facilities, most=MOST_EXPOSED), note
    if release.measurements is not None:
        check_counts_match(truth, release.measurements)
    noise = ReleaseNoise.of(release.measurements, None)
    try:
        return scan(
            truth,
            release.strategy,
            measurements=noise.measurements,
            levels=noise.levels,
            facilities=release.facilities,
            most=MOST_EXPOSED,
        ), noise.note
    except InputError:  # what was saved does not tell anybody's noise at one of the levels
        note = "what was saved does not determine the noise at every level, so figures are averages over it"
        return scan(truth, release.strategy, facilities=release.facilities, most=MOST_EXPOSED), note


def _posteriors(found: Scan, level: str) -> Exhibit:
    rows = found.posteriors[found.posteriors.level == level]
    own = found.levels[found.levels.level == level].iloc[0]
    given = int(own.certain) if "certain" in own else 0
    undecided = f" and cannot decide about {own.tie:.0%}" if own.tie >= LEAST_TIES else ""
    away = f" {number(given)} people are given away with certainty." if given else ""
    return Exhibit(
        key="posteriors",
        title=f"What an intruder believes about each person, at level {level}",
        says=f"From even odds, the intruder becomes {percent(own.posterior)} sure on average, and guesses right for "
        f"{percent(own.right_decision)} of the people{undecided}.{away}",
        alt=f"A histogram of people by the intruder's posterior, at level {level}.",
        definition="The posterior is the probability that the person is counted in their own cell, given the "
        "noisy counts "
        "of the unit and everybody else. Bars count people by intervals of it, on a logarithmic scale.",
        chart=charts.posterior_chart(rows),
        table=found.posteriors,
        headings={"level": "level", "low": "posterior from", "high": "to", "people": "people"},
        internal=True,
    )


def _nobody_stands_out(found: Scan, level: str) -> str:
    """A sentence where no unit is much more exposed than others and posteriors differ; nothing otherwise."""
    posteriors = found.exposed[found.exposed.level == level].posterior
    average = float(found.levels[found.levels.level == level].posterior.iloc[0])
    largest, least = float(posteriors.max()), float(posteriors.min())
    if largest - average >= STANDS_OUT or largest - least < SAME:
        return ""
    return (
        f"No unit stands out at level {level}: the largest posterior is {percent(largest)}, against "
        f"{percent(average)} on average."
    )


def _units(found: Scan, attributes: int) -> Exhibit:
    rows = found.exposed.groupby("level", sort=False).tail(len(found.exposed))
    finest = rows[rows.level == rows.level.iloc[-1]].head(MOST_EXPOSED)
    words = [cell_words(cell, attributes) for cell in finest.cell]
    place = [_place_lines(unit, cell) for unit, cell in zip(finest.unit, words, strict=True)]
    top = finest.assign(cell=words, place=place)
    level, largest = finest.level.iloc[0], float(finest.posterior.max())
    alike = found.when == "before" and largest - float(finest.posterior.min()) < SAME
    if alike:  # nobody is more exposed than another before noise is drawn, but some are easier to recognise
        says = (
            f"Before noise is drawn, people who are measured alike are equally exposed: {percent(largest)} sure. Of "
            f"the units at level {level}, these have the most people who are alone in their cell."
        )
        alt = "Bars: the number of people who are alone in their cell, in the units that have the most."
    elif largest - float(finest.posterior.min()) < SAME:
        says = (
            f"At level {level}, {len(finest)} or more units have the largest posterior, {percent(largest)}. These are "
            f"{len(finest)} of them."
        )
        alt = "Dots: the largest posterior in some of the most exposed units, the same in all of them."
    else:
        says = f"Of the units at level {level}, these have the largest posteriors; the largest is {percent(largest)}."
        alt = "Dots: the largest posterior in each of the most exposed units."
    headings = {"level": "level", "unit": "unit", "cell": "cell", "count": "true count", "people": "people in the unit"}
    return Exhibit(
        key="most-exposed",
        title="The most exposed units",
        says=says,
        alt=alt,
        definition="For each unit, the cell whose people have the largest average posterior. Unique is the number of "
        "people who are alone in their cell.",
        chart=charts.unique_chart(top[top.unique > 0]) if alike else charts.exposed_chart(top),
        table=found.exposed,
        words={"cell": lambda cell: cell_words(cell, attributes)},
        headings={**headings, "unique": "unique", "posterior": "posterior"},
        internal=True,
    )


def _place_lines(unit: str, cell: str) -> str:
    r"""A unit and its cell in lines that fit beside a chart.

    >>> _place_lines("010001", "household, minor, not_hispanic, white")
    '010001\nhousehold, minor,\nnot_hispanic, white'
    """
    return "\n".join([unit, *textwrap.wrap(cell, CELL_LINE)])
