r"""Funds that a formula divides between units: who gains and who loses when released counts are used.

Unit ``i`` gets :math:`A f_i / \sum_j f_j` of an amount ``A``, where ``f`` is a formula over its counts. The amount is
fixed, so what some units gain, others lose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.bias import Definition, homogeneity
from tallyveil.evaluate.derived import tables_at
from tallyveil.evaluate.error import size_classes
from tallyveil.evaluate.formula import Formula, parse_formula
from tallyveil.evaluate.sources import Source, people_of, sources_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.schema import TOTAL


def funds(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    formula: str,
    *,
    level: str,
    amount: float = 1_000_000,
) -> pd.DataFrame:
    """The funds of each unit by true counts and by released counts.

    Parameters
    ----------
    truth, released
        As for :func:`~tallyveil.evaluate.residuals`.
    formula
        What a unit's part is proportional to, such as ``"total"`` or ``"max(0, [age:child] - total / 5)"``; see
        :func:`~tallyveil.evaluate.formula.parse_formula`. A unit where it divides by 0 gets nothing.
    level
        The level of the units.
    amount
        What is divided in all.

    Returns
    -------
    DataFrame
        ``level``, ``unit``, ``size`` (true persons), ``true``, ``released`` and ``gain`` (means over replicates),
        ``abs_gain`` (the mean absolute gain), ``moe90`` (1.645 times the root mean squared gain over replicates,
        missing if there is one), and ``undefined`` (in how many of the truth and the replicates the formula divides by
        0).

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 0], count=[30, 40, 10])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 0], count=[25, 45, 25])
    >>> funds(truth, released, "[age:child]", level="block", amount=100)[["unit", "true", "released", "gain"]]
      unit  true  released  gain
    0    1  75.0      50.0 -25.0
    1    2  25.0      50.0  25.0
    """
    people = people_of(truth)
    if not 0 < amount < np.inf:
        raise InputError(f"the amount to divide must be a number above 0. Got {amount:g} instead.")
    asked = parse_formula(formula, people.schema)
    units = people.spine.labels(level)
    true, bad = _divided(asked, [people], people, level, amount, whose="true")
    parts, worse = _divided(asked, sources_of(released), people, level, amount, whose="released")
    gain = parts - true
    spread = np.sqrt(np.mean(gain**2, axis=0)) if len(parts) > 1 else np.full(len(units), np.nan)
    return pd.DataFrame(
        {
            "level": level,
            "unit": units,
            "size": people.answer(TOTAL, level=level).dense()[:, 0],
            "true": true[0],
            "released": parts.mean(axis=0),
            "gain": gain.mean(axis=0),
            "abs_gain": np.abs(gain).mean(axis=0),
            "moe90": 1.645 * spread,
            "undefined": bad.sum(axis=0) + worse.sum(axis=0),
        }
    )


def funds_by_group(
    table: pd.DataFrame, truth: Histogram | Population, *, of: str = "detailed", definition: Definition = "cells"
) -> pd.DataFrame:
    """Who gains and who loses, by size and by homogeneity, from what :func:`funds` returns.

    Returns
    -------
    DataFrame
        ``by`` (``all``, ``size``, ``homogeneity``), ``group``, ``n``, ``true`` and ``gain`` (sums over the group),
        ``relative`` (gain over true), ``gaining`` and ``losing`` (numbers of units, by their mean gain over
        replicates), ``moved`` (half the sum of absolute gains, the mean over replicates: what goes to other units than
        it should, or for a group, half of what its units gain and lose).
    """
    people = people_of(truth)
    level = str(table.level.iloc[0])
    index = homogeneity(people, level=level, query=of, definition=definition)
    number, names = size_classes(table["size"].to_numpy())
    groupings: list[tuple[str, Integers, list[str]]] = [
        ("all", np.zeros(len(table), dtype=np.int64), ["all"]),
        ("size", number, names),
        ("homogeneity", index, [str(empty) for empty in range(int(index.max(initial=0)) + 1)]),
    ]
    gain, true, distance = table.gain.to_numpy(), table.true.to_numpy(), table.abs_gain.to_numpy()
    rows = []
    for by, group, labels in groupings:
        for which in np.unique(group):
            inside = group == which
            given, gained = float(true[inside].sum()), float(gain[inside].sum())
            gained = 0.0 if abs(gained) < 1e-9 * given else gained  # gains of all units cancel but for rounding
            rows.append(
                {
                    "level": level,
                    "by": by,
                    "group": labels[int(which)],
                    "n": int(inside.sum()),
                    "true": given,
                    "gain": gained,
                    "relative": gained / given if given else np.nan,
                    "gaining": int((gain[inside] > 0).sum()),
                    "losing": int((gain[inside] < 0).sum()),
                    "moved": float(distance[inside].sum()) / 2,
                }
            )
    return pd.DataFrame(rows)


def _divided(
    formula: Formula, sources: Sequence[Source], people: Histogram, level: str, amount: float, *, whose: str
) -> tuple[Floats, Integers]:
    """What each unit gets, replicates x units, and where the formula divides by 0."""
    units = people.spine.labels(level)
    queries = list(dict.fromkeys([TOTAL, *(query for query, _ in formula.names.values())]))
    parts, undefined = [], []
    for source in sources:
        answers = {query: tables_at(source, people, level=level, query=query) for query in queries}
        for replicate in range(len(answers[TOTAL])):
            value = formula.value(lambda query, answers=answers, k=replicate: answers[query][k], len(units))  # type: ignore[misc]
            bad = np.isnan(value)
            value[bad] = 0.0
            if np.isinf(value).any() or np.isinf(value.sum()):
                raise InputError(f"formula {formula.text!r} gives numbers that are too large. Use smaller factors.")
            if (value < 0).any():
                first = int(np.argmax(value < 0))
                raise InputError(
                    f"formula {formula.text!r} gives {value[first]:g} for {level} {units[first]} by its {whose} "
                    f"counts, and nobody can get less than nothing. Use max(0, ...)."
                )
            if not value.sum() > 0:
                raise InputError(f"formula {formula.text!r} gives 0 for every {level} by {whose} counts. Use another.")
            parts.append(amount * (value / value.sum()))
            undefined.append(bad)
    return np.array(parts), np.array(undefined).astype(np.int64)
