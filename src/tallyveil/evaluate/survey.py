r"""Survey weights raked to released controls: what errors of the controls do to the estimates of a survey.

A survey is a simple random sample of the people. Its weights start at one over the sampling fraction, and raking
(iterative proportional fitting; Deming & Stephan, On a Least Squares Adjustment of a Sampled Frequency Table, Annals of
Mathematical Statistics 11, 1940) scales them until the weighted counts equal the controls: counts of a query at a
level, such as the persons by race of each county. The same survey is raked to true and to released controls, so the
difference between its estimates is due to the controls alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.derived import tables_at
from tallyveil.evaluate.error import statistics
from tallyveil.evaluate.sources import Source, people_of, sources_of
from tallyveil.mechanisms.sampling import sample
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.privacy.budget import Number

LARGEST = 1 << 27  # counts of a table
ROUNDS = 200  # of raking at most
CLOSE = 1e-8  # relative difference to the controls at which raking stops


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Raked:
    """Raked weights, and how well they meet their controls.

    ``weight`` is the sum of the weights of each entry of the sample. ``missed`` is the largest share of the people of a
    control that have nobody in the sample to stand for them, and ``gap`` the largest difference to any other count of a
    control after ``rounds`` rounds, relative to that count. It is 1 where a count of 0 in another control left nobody.
    """

    weight: Floats
    missed: float
    gap: float
    rounds: int


def rake_weights(weight: Floats, groups: Sequence[Integers], controls: Sequence[Floats]) -> Raked:
    """Scale weights until their sums over the groups of each control equal it.

    ``groups`` gives for each control the group of each weight, and ``controls`` the number wanted in each group.

    >>> found = rake_weights(
    ...     np.ones(4), [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], [np.array([6.0, 4]), np.array([5.0, 5])]
    ... )
    >>> found.weight.round(6).tolist()
    [3.0, 3.0, 2.0, 2.0]
    """
    raked = weight.astype(np.float64)
    reached = [
        np.bincount(group, weights=weight, minlength=len(wanted)) > 0
        for group, wanted in zip(groups, controls, strict=True)
    ]
    lost = [float(wanted[~some].sum()) for wanted, some in zip(controls, reached, strict=True)]
    missed = max((lost[i] / total if (total := float(wanted.sum())) else 0.0) for i, wanted in enumerate(controls))
    gap, rounds = np.inf, 0
    while gap > CLOSE and rounds < ROUNDS:
        rounds += 1
        for group, wanted in zip(groups, controls, strict=True):
            raked *= _factors(raked, group, wanted)[group]
        gap = max(
            _gap(raked, group, wanted, some) for group, wanted, some in zip(groups, controls, reached, strict=True)
        )
    return Raked(weight=raked, missed=missed, gap=gap, rounds=rounds)


def _gap(weight: Floats, group: Integers, wanted: Floats, reached: Bools) -> float:
    """The largest relative difference to a count of a control that somebody in the sample stands for."""
    sums = np.bincount(group, weights=weight, minlength=len(wanted))
    asked = reached & (wanted > 0)
    return float((np.abs(sums[asked] - wanted[asked]) / wanted[asked]).max(initial=0.0))


def _factors(weight: Floats, group: Integers, wanted: Floats) -> Floats:
    """What each group must be multiplied by; 1 where nobody stands for it."""
    sums = np.bincount(group, weights=weight, minlength=len(wanted))
    factors: Floats = np.ones(len(wanted))
    np.divide(wanted, sums, out=factors, where=sums > 0)
    return factors


def survey(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    fraction: Number,
    controls: Sequence[tuple[str, str]],
    estimates: Sequence[tuple[str, str]],
    seed: int = 0,
) -> pd.DataFrame:
    """The error of estimates from a survey whose weights are raked to true controls, to released ones, or not at all.

    Parameters
    ----------
    truth, released
        As for :func:`~tallyveil.evaluate.residuals`. Each release is a replicate with a survey of its own.
    fraction
        The share of the people who are in the survey.
    controls
        The counts to which weights are raked, as (query, level).
    estimates
        The counts that are estimated from the survey, as (query, level).
    seed
        Seed of the samples.

    Returns
    -------
    DataFrame
        ``level``, ``query``, ``controls`` (``none``, ``true`` or ``released``), the statistics of the error over all
        units, rows and replicates, ``n``, and ``missed`` and ``gap``, the largest of :class:`Raked`.
        With ``released``, ``added`` is the root mean squared difference to the estimates with true controls.
    """
    people = people_of(truth)
    if not controls or not estimates:
        raise InputError("a survey needs controls and estimates, each as (query, level). Give at least one of both.")
    _refuse_large(people, [*controls, *estimates])
    errors: dict[tuple[str, str, str], list[Floats]] = {}
    fits: dict[str, list[Raked]] = {"true": [], "released": []}
    number = 0
    for source in sources_of(released):
        tables = [tables_at(source, people, level=level, query=query) for query, level in controls]
        for replicate in range(len(tables[0])):
            drawn = sample(people, fraction, seed=seed, replicate=number)
            number += 1
            wanted = {
                "true": [people.answer(query, level=level).dense().astype(np.float64) for query, level in controls],
                "released": [table[replicate] for table in tables],
            }
            weights = {"none": drawn.people.leaves.count / float(drawn.fraction)}
            for name, aims in wanted.items():
                found = rake_weights(weights["none"], _groups(drawn.people, controls), _checked(aims, controls))
                fits[name].append(found)
                weights[name] = found.weight
            for query, level in estimates:
                true = people.answer(query, level=level).dense().astype(np.float64)
                for name, weight in weights.items():
                    estimate = _weighted(drawn.people, weight, query, level)
                    errors.setdefault((level, query, name), []).append((estimate - true).reshape(-1))
    return _summary(people, errors, fits)


def _refuse_large(people: Histogram, tables: Sequence[tuple[str, str]]) -> None:
    """Refuse tables that would not fit in memory; unknown queries and levels are refused on the way."""
    for query, level in tables:
        numbers = people.schema.query(query).size * people.spine.size(level)
        if numbers > LARGEST:
            raise InputError(
                f"{query}@{level} has {numbers:,} counts, more than the {LARGEST:,} that a survey can estimate. Name "
                f"coarser levels or queries."
            )


def _groups(people: Histogram, controls: Sequence[tuple[str, str]]) -> list[Integers]:
    """For each control, the group (unit x row) of every non-empty entry of the leaves."""
    return [_group(people, query, level) for query, level in controls]


def _group(people: Histogram, query: str, level: str) -> Integers:
    asked = people.schema.query(query)
    unit = np.searchsorted(people.spine.leaves_under(level), people.leaves.unit(), side="right") - 1
    return np.asarray(unit * asked.size + asked.row_of_cell[people.leaves.cell.astype(np.int64)], dtype=np.int64)


def _checked(aims: Sequence[Floats], controls: Sequence[tuple[str, str]]) -> list[Floats]:
    for aim, (query, level) in zip(aims, controls, strict=True):
        if (aim < 0).any():
            raise InputError(f"the control {query}@{level} has negative counts. Rake to counts of a release.")
    return [aim.reshape(-1) for aim in aims]


def _weighted(people: Histogram, weight: Floats, query: str, level: str) -> Floats:
    """The weighted counts of a query at a level, units x rows."""
    size = people.schema.query(query).size
    units = people.spine.size(level)
    counts = np.bincount(_group(people, query, level), weights=weight, minlength=units * size)
    return counts.astype(np.float64).reshape(units, size)


def _summary(
    people: Histogram, errors: dict[tuple[str, str, str], list[Floats]], fits: dict[str, list[Raked]]
) -> pd.DataFrame:
    rows = []
    for (level, query, name), parts in errors.items():
        error = np.concatenate(parts)
        figures = statistics(error)
        del figures["share_exact"]
        made = fits.get(name, [])
        added = np.nan
        if name == "released":
            added = float(np.sqrt(np.mean((error - np.concatenate(errors[level, query, "true"])) ** 2)))
        rows.append(
            {"level": level, "query": people.schema.query(query).name, "controls": name, "n": len(error)}
            | figures
            | {
                "added": added,
                "missed": max((fit.missed for fit in made), default=np.nan),
                "gap": max((fit.gap for fit in made), default=np.nan),
            }
        )
    return pd.DataFrame(rows)
