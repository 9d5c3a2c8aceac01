"""The exhibit of what someone can learn about one person: the bound of the guarantee, and the average over the noise.

It is made from the certificate and the strategy alone.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.privacy.strategy import Strategy
from tallyveil.release.certificate_page import percent, two_decimals_up
from tallyveil.release.declaration import Guarantee
from tallyveil.release.reader_words import most_certain, the_whole
from tallyveil.report.exhibit import Exhibit, a, records
from tallyveil.report.plots import altair
from tallyveil.report.theme import ERROR, PLACE, SOFT
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.intruder import Intruder

PRIORS = np.unique(np.concatenate([np.linspace(0, 1, 51), np.geomspace(1e-6, 0.02, 20)]))  # steep where few know


def learned(guarantee: Guarantee, strategy: Strategy) -> Exhibit:
    """How sure an intruder can become about a person, whatever else they know; and how sure they become on average."""
    table = learned_table(guarantee, strategy)
    everything = table.epsilon.iloc[0]
    lines = [
        {"before": float(prior), "after": posterior_bound(float(prior), epsilon), "about": name}
        for name, epsilon in _curves(table)
        for prior in PRIORS
    ]
    names = list(dict.fromkeys(line["about"] for line in lines))
    alt = altair()
    dashes = alt.Scale(domain=names, range=[[1, 0], [6, 3], [2, 2]][: len(names)])
    colours = alt.Scale(domain=names, range=[ERROR, PLACE, SOFT][: len(names)])
    share = {"axis": alt.Axis(format="%", tickCount=5), "scale": alt.Scale(domain=[0, 1])}
    legend = alt.Legend(direction="vertical", symbolType="stroke", symbolStrokeWidth=3)
    chart = (
        alt.Chart(alt.Data(values=lines))
        .mark_line(strokeWidth=3)
        .encode(
            x=alt.X("before:Q", title="how sure of a fact before the release", **share),
            y=alt.Y("after:Q", title="how sure after it, at most", **share),
            color=alt.Color("about:N", sort=names, scale=colours, title=None, legend=legend),
            strokeDash=alt.StrokeDash("about:N", sort=names, scale=dashes, title=None, legend=legend),
            tooltip=[
                alt.Tooltip("about:N"),
                alt.Tooltip("before:Q", format=".0%"),
                alt.Tooltip("after:Q", title="after, at most", format=".4%"),
            ],
        )
        .properties(height=240)
    )
    chance = f" At most: but for a chance of delta = {guarantee.delta}." if guarantee.delta is not None else ""
    typical = table.typical.max()
    says = f"Whoever gives two possibilities equal odds can become at most {most_certain(everything)} sure of one."
    if typical == typical:
        says += (
            f" That is the worst case over everything that could happen. On average over the noise, someone who knows "
            f"everybody else, and one person but for one attribute, becomes {percent(typical)} sure."
        )
    return Exhibit(
        key="what-can-be-learned",
        title="How much can someone learn about one person?",
        says=says,
        alt=(
            "Lines from 0% to 100% sure before the release, and how sure one can be after it at most. "
            + "; ".join(f"about {row['about']}: from 50% to at most {row['at_most']}" for row in records(table))
            + ". A diagonal line shows someone who learns nothing."
        ),
        definition=(
            "The bound follows from the guarantee alone: with epsilon e, odds can change by a factor of at most "
            "exp(e), "
            "whatever the intruder knows already and however they use the release. A fact is one of two possibilities "
            f"for a person's record, or for one attribute, or for where in a place the person lives.{chance} The "
            "average "
            "is that of a Bayesian intruder with even odds between two values of an attribute, who uses every noisy "
            "count of every level before post-processing; published counts tell no more."
        ),
        chart=chart,
        table=table.drop(columns=["kind", "at_most"]).assign(bound=[posterior_bound(0.5, e) for e in table.epsilon]),
        headings={"about": "about", "epsilon": "epsilon", "bound": "from 50% to at most", "typical": "on average"},
    )


def learned_table(guarantee: Guarantee, strategy: Strategy) -> pd.DataFrame:
    """``kind``, ``about``, ``epsilon``, ``at_most`` (from even odds, in words) and ``typical`` (average posterior)."""
    rows: list[tuple[str, str, float, float]] = [("record", "the whole record", guarantee.epsilon, math.nan)]
    for name, epsilon in (guarantee.per_attribute or {}).items():
        rows.append(("attribute", name, epsilon, _average_posterior(strategy, name)))
    order = list(strategy.levels)
    for level, epsilon in sorted((guarantee.within_level or {}).items(), key=lambda item: order.index(item[0])):
        place = the_whole(level) if level == order[0] else a(level)
        rows.append(("place", f"the place within {place}", epsilon, math.nan))
    table = pd.DataFrame(rows, columns=["kind", "about", "epsilon", "typical"])
    return table.assign(at_most=[most_certain(epsilon) for epsilon in table.epsilon])


def posterior_bound(prior: float, epsilon: float) -> float:
    """The largest posterior that epsilon allows: prior odds times exp(epsilon).

    >>> round(posterior_bound(0.5, 1.0), 3), posterior_bound(0.0, 5.0), posterior_bound(1.0, 0.0)
    (0.731, 0.0, 1.0)
    """
    if prior in (0.0, 1.0):
        return prior
    return 1 / (1 + (1 - prior) / prior * math.exp(-min(epsilon, 700.0)))


def _average_posterior(strategy: Strategy, attribute: str) -> float:
    """The average posterior for a target from even odds, given all noisy counts; missing where none depends on it."""
    if attribute not in strategy.known_attributes:
        return math.nan
    noises = [
        noise
        for level in strategy.levels
        for noise in noises_of(strategy, level, attack="attribute", attribute=attribute)
    ]
    return Intruder(prior=Fraction(1, 2)).against(*noises).marginal_posterior if noises else math.nan


def _curves(table: pd.DataFrame) -> list[tuple[str, float]]:
    """The lines to draw: everything, the attribute that is protected least, and nothing learned."""
    whole = table.iloc[0]
    curves = [(f"about the whole record (epsilon {two_decimals_up(whole.epsilon)})", float(whole.epsilon))]
    single = table[table.kind == "attribute"]
    if len(single):
        least = single.loc[single.epsilon.idxmax()]
        curves.append((f"about {least.about} alone (epsilon {two_decimals_up(least.epsilon)})", float(least.epsilon)))
    return [*curves, ("nothing learned", 0.0)]
