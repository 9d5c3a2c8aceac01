"""The exhibit of what someone can learn about one person: the bound of the guarantee, and the average over the noise.

It is made from the certificate and the strategy alone.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.privacy import sentences
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.guarantee import Guarantee, certain_of
from tallyveil.privacy.loss import Loss
from tallyveil.release.release import Release
from tallyveil.report.exhibit import Exhibit, a, records
from tallyveil.report.plots import altair
from tallyveil.report.theme import ERROR, PLACE, SOFT
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.intruder import Intruder

PRIORS = np.unique(np.concatenate([np.linspace(0, 1, 51), np.geomspace(1e-6, 0.02, 20)]))  # steep where few know


def learned(promised: Guarantee, release: Release) -> Exhibit:
    """How sure an intruder can become about a person, whatever else they know; and how sure they become on average."""
    table = learned_table(promised, release)
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
            x=alt.X("before:Q", title="certainty before the release", **share),
            y=alt.Y("after:Q", title="certainty after it, at most", **share),
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
    return Exhibit(
        key="what-can-be-learned",
        title="How much can someone learn about one person?",
        says=sentences.learned(promised, table.typical.max()),
        alt=(
            "Lines from 0% to 100% sure before the release, and how sure one can be after it at most. "
            + "; ".join(f"about {row['about']}: from 50% to at most {row['at_most']}" for row in records(table))
            + ". A diagonal line shows someone who learns nothing."
        ),
        definition=sentences.learned_definition(promised),
        chart=chart,
        table=table.drop(columns=["kind"]).assign(bound=[posterior_bound(0.5, e) for e in table.epsilon]),
        headings={
            "about": "about",
            "epsilon": sentences.learned_heading(promised),
            "at_most": "from 50% to at most",
            "typical": "the truth, on average at most",
        },
        words={"typical": sentences.average},
    )


def learned_table(promised: Guarantee, release: Release) -> pd.DataFrame:
    """``kind``, ``about``, ``epsilon``, ``at_most`` (from even odds, in words) and ``typical`` (average posterior).

    The epsilons hold but for a chance of delta. They are infinite where exact counts tell what an observer asks.
    """
    people = release.histogram
    spine, schema, optimised = people.spine, people.schema, release.optimised
    assert release.strategy is not None
    strategy = calibrated(release.strategy, spine=spine, schema=schema, optimised=optimised)
    most = promised.rows_per_person or 1
    loss = Loss(strategy=strategy, spine=spine, schema=schema, optimised=optimised, rows_per_person=most)
    sure = {name: certain_of(loss, amount) for name, amount in loss.per_attribute().items()}
    rows: list[tuple[str, str, float, float]] = [
        ("record", about, epsilon, math.nan) for about, epsilon in sentences.of_records(promised)
    ]
    for name, epsilon in sure.items():
        bare = promised.bare(name)
        typical = math.nan if bare else _average_posterior(loss, name)
        about = f"{name}, where exact counts do not tell it" if promised.partly(name) and not bare else name
        rows.append(("attribute", about, math.inf if bare else epsilon, typical))
    order = list(promised.levels)
    for level, amount in loss.within_level().items():
        known = promised.known_within(level) is not None
        place = sentences.the_whole(level) if level == order[0] else a(level)
        where = ", where exact counts do not tell it" if promised.partly(within=level) and not known else ""
        rows.append(
            ("place", f"the place within {place}{where}", math.inf if known else certain_of(loss, amount), math.nan)
        )
    table = pd.DataFrame(rows, columns=["kind", "about", "epsilon", "typical"])
    return table.assign(at_most=[sentences.at_most(epsilon) for epsilon in table.epsilon])


def posterior_bound(prior: float, epsilon: float) -> float:
    """The largest posterior that epsilon allows: prior odds times exp(epsilon).

    >>> round(posterior_bound(0.5, 1.0), 3), posterior_bound(0.0, 5.0), posterior_bound(1.0, 0.0)
    (0.731, 0.0, 1.0)
    """
    if prior in (0.0, 1.0):
        return prior
    return 1 / (1 + (1 - prior) / prior * math.exp(-min(epsilon, 700.0)))


def _average_posterior(loss: Loss, attribute: str) -> float:
    """The largest average posterior from even odds, given all noisy counts; missing where none depends on it.

    It is largest over the paths of the measured spine: where a unit has taken over the budget of an only child, its
    noise is smaller. It is not known for a person with several rows.
    """
    strategy, found = loss.strategy, []
    if attribute not in strategy.known_attributes or loss.rows_per_person > 1:
        return math.nan
    shares = list(strategy.levels.values())
    for spans in loss.kinds_of_paths()[0]:
        noises = [
            noise
            for depth, (level, span) in enumerate(zip(strategy.levels, spans, strict=True))
            if span
            for noise in noises_of(
                strategy,
                level,
                attack="attribute",
                attribute=attribute,
                level_share=sum(shares[depth : depth + span], Fraction(0)),
            )
        ]
        found += [Intruder(prior=Fraction(1, 2)).against(*noises).marginal_posterior] if noises else []
    return max(found, default=math.nan)


def _curves(table: pd.DataFrame) -> list[tuple[str, float]]:
    """The lines to draw: everything, the attribute that is protected least, and nothing learned."""
    drawn = [table.iloc[len(table[table.kind == "record"]) - 1]]
    single = table[table.kind == "attribute"]
    if len(single):
        drawn.append(single.loc[single.epsilon.idxmax()])
    curves = [(sentences.curve(row.about, row.epsilon, alone=row.kind != "record"), row.epsilon) for row in drawn]
    return [*curves, ("nothing learned", 0.0)]
