"""The tables of a scan, from sums over people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.nouns.histogram import Histogram
from tallyveil.risk.scan.group_evidence import POSTERIOR_BINS, GroupEvidence
from tallyveil.risk.scan.groups import Group
from tallyveil.risk.scan.pieces import SIZES, Sums
from tallyveil.risk.target.intruder import Intruder

if TYPE_CHECKING:
    import pandas as pd


def level_frames(
    truth: Histogram,
    level: str,
    groups: Sequence[Group],
    evidence: Sequence[GroupEvidence],
    intruders: Sequence[Intruder],
    sums: Sums,
) -> dict[str, pd.DataFrame]:
    """The tables of one level, by name."""
    import pandas as pd

    sizes = [f"{low:,}" if high - low == 1 else f"{low:,} to {high - 1:,}" for low, high in pairwise(SIZES)]
    alike = [_words(group, against) for group, against in zip(groups, evidence[:-1], strict=True)]
    alike.append(("", 0.0, "no other value is possible", "", True, False))
    kinds = list(dict.fromkeys(alike))
    by_kind = np.zeros((len(kinds), sums.groups.shape[1]))
    np.add.at(by_kind, [kinds.index(kind) for kind in alike], sums.groups)
    names = ("measured_at", "share", "settled", "queries", "certain", "drawn")
    by_group = _table(level, intruders, by_kind, dict(zip(names, zip(*kinds, strict=True), strict=True)))
    whole = _table(level, intruders, sums.groups.sum(axis=0, keepdims=True), {})
    certain = int(sums.groups[[against.certain for against in evidence], 0].sum())
    by_size = {"size": [*sizes, f"{SIZES[-1]:,} or more"]}
    posteriors = [
        pd.DataFrame(
            {
                "level": level,
                "prior": str(one.prior),
                "low": POSTERIOR_BINS[:-1],
                "high": POSTERIOR_BINS[1:],
                "people": people,
            }
        )
        for one, people in zip(intruders, sums.spread, strict=True)
    ]
    named = sums.exposed[sums.exposed["posterior"] >= 0]
    codes, labels = truth.spine.codes[truth.spine.depth(level)], truth.schema.query("detailed").labels()
    exposed = pd.DataFrame({name: named[name] for name in ("count", "people", "unique", "posterior")})
    exposed.insert(0, "cell", [labels[cell] for cell in named["cell"]])
    exposed.insert(0, "unit", [bytes(codes[unit]).decode() for unit in named["unit"]])
    exposed.insert(0, "prior", str(intruders[0].prior))
    exposed.insert(0, "level", level)
    return {
        "levels": whole.assign(units=truth.spine.size(level), certain=certain),
        "groups": by_group,
        "cells": _table(level, intruders, sums.cells, {"cell": labels}),
        "sizes": _table(level, intruders, sums.sizes, by_size),
        "posteriors": pd.concat(posteriors, ignore_index=True),
        "exposed": exposed,
    }


def _words(group: Group, against: GroupEvidence) -> tuple[str, float, str, str, bool, bool]:
    """What the people of a group have in common. Groups with the same description are merged."""
    levels = [level for level, _ in group.measured]
    queries = (query if len(levels) == 1 else f"{query}@{level}" for level, query in against.counts)
    share = float(sum(share for _, share in group.measured))
    return (
        ", ".join(levels),
        share,
        ", ".join(sorted(group.settled)),
        ", ".join(queries),
        against.certain,
        against.drawn,
    )


def _table(level: str, intruders: Sequence[Intruder], sums: Floats, names: dict[str, Any]) -> pd.DataFrame:
    """Averages for each row of sums that has people, one line for each intruder."""
    import pandas as pd

    some = np.flatnonzero(sums[:, 0])
    people = sums[some, 0]
    frames = []
    for number, intruder in enumerate(intruders):
        posterior, right, tie = (sums[some, 2 + 3 * number + i] / people for i in range(3))
        frames.append(
            pd.DataFrame(
                {
                    "level": level,
                    **{name: np.asarray(values, dtype=object)[some] for name, values in names.items()},
                    "prior": str(intruder.prior),
                    "people": people.astype(np.int64),
                    "unique": sums[some, 1].astype(np.int64),
                    "posterior": posterior,
                    "risk": posterior / float(intruder.prior),
                    "right_decision": right,
                    "tie": tie,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)
