"""A release: protected counts, with the strategy and the certificate of how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallyveil.errors import SecretError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.certificate import Certificate
from tallyveil.release.measurements import Measurements, SavedAnswers

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """A protected histogram with its strategy and certificate, and its measurements if they were kept.

    Attributes
    ----------
    histogram
        The protected counts.
    strategy
        The budget and how it was divided; None for counts made by other software.
    certificate
        What was declared before any data were seen, and what was observed; None for counts made by other software.
    facilities
        The public counts of facilities, if bounds come from them.
    measurements
        The noisy answers that were kept, as saved values, which cannot query the truth.
    optimised
        The spine that was measured, if it is not the published one.
    """

    histogram: Histogram
    strategy: Strategy | None = None
    certificate: Certificate | None = None
    facilities: Facilities | None = None
    measurements: Measurements | None = None
    optimised: OptimisedSpine | None = None

    def __post_init__(self) -> None:
        if self.measurements is not None and not isinstance(self.measurements.ask, SavedAnswers):
            raise SecretError(
                "these measurements can still query the truth, and a release must not hold it. Keep saved values: "
                "measurements.saved([(query, level), ...])."
            )

    def to_arrow(self) -> pa.Table:
        """The protected counts that are not zero, one row each (see :meth:`Histogram.to_arrow`)."""
        return self.histogram.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """``to_arrow`` as a pandas frame; codes and labels are categoricals."""
        return self.histogram.to_pandas()

    def __repr__(self) -> str:
        budget = f"{self.strategy.unit} {self.strategy.budget}" if self.strategy else "made elsewhere"
        return f"Release({self.histogram!r}, {budget})"
