"""The result of ``tv.estimate``: a table of figures with intervals, and their joint distribution where asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import pyarrow as pa

from tallyveil._arrays import Floats
from tallyveil.blue.intervals import count_interval, posterior_interval
from tallyveil.blue.joint import Joint
from tallyveil.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TreeEstimates:
    """Counts with margins.

    Attributes
    ----------
    table
        One row per figure: ``level`` (or ``area``), ``unit``, ``query``, ``cell``, ``estimate``, ``sd``, ``low`` and
        ``high``, the limits of the interval.
    information
        What the estimates were made from, in words.
    confidence
        Of the intervals.
    covariance
        The covariances of all figures, in the order of the rows, if they were asked for.
    """

    table: pa.Table
    information: str
    confidence: float
    covariance: Floats | None = None

    @classmethod
    def of(
        cls, table: pa.Table, *, information: str, confidence: float, covariance: Floats | None = None
    ) -> TreeEstimates:
        """The result from a table with ``estimate`` and ``sd``, to which intervals are added."""
        low, high = count_interval(table.column("estimate").to_numpy(), table.column("sd").to_numpy(), confidence)
        table = table.append_column("low", pa.array(low)).append_column("high", pa.array(high))
        return cls(
            table=table.unify_dictionaries(), information=information, confidence=confidence, covariance=covariance
        )

    def to_arrow(self) -> pa.Table:
        """One row per figure."""
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas frame; codes and labels are categoricals."""
        return self.table.to_pandas()

    def posterior(self) -> pd.DataFrame:
        """``to_pandas`` with the mean and the interval of each count, given that it cannot be negative.

        The estimates stay as they are; ``mean``, ``low`` and ``high`` are those of the normal distribution of each
        estimate, cut at 0. Use it for single small counts: means of many are too large when they are added up.
        """
        frame = self.to_pandas()
        mean, low, high = posterior_interval(frame["estimate"], frame["sd"], self.confidence)
        return frame.assign(mean=mean, low=low, high=high)

    def joint(self) -> Joint:
        """The joint distribution of the figures: shares, ratios, differences, ranks and simultaneous intervals."""
        if self.covariance is None:
            raise InputError("these estimates were made without covariances. Use estimate(..., covariance=True).")
        return Joint(
            estimate=self.table.column("estimate").to_numpy(), covariance=self.covariance, confidence=self.confidence
        )
