"""The releases of TopDown at one budget: read from the Bureau's files, or made now."""

from __future__ import annotations

from time import perf_counter

import pandas as pd

from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect
from tallyveil_papers.petti.census import census_of
from tallyveil_papers.petti.releases import read_releases
from tallyveil_papers.registry import Setting

TIMES = ["epsilon", "seconds"]


def released_at(setting: Setting, epsilon: float) -> tuple[list[Histogram], pd.DataFrame]:
    """The releases at one budget, read from the Bureau's files or made now, and the seconds that making one took.

    Only counts are kept: measurements would be many times as large.
    """
    truth = census_of(setting).population
    if setting.mdf is not None:
        return read_releases(setting.mdf, epsilon, truth.people), pd.DataFrame(columns=TIMES)
    strategy, start = Strategy.preset("e2e-2018", epsilon=str(epsilon)), perf_counter()
    released = [
        protect(truth, strategy, seed=setting.seed, replicate=number).histogram for number in range(setting.replicates)
    ]
    seconds = (perf_counter() - start) / setting.replicates
    return released, pd.DataFrame([[epsilon, seconds]], columns=TIMES)
