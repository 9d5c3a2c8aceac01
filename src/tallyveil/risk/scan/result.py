"""The result of a scan: tidy tables of who is exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tallyveil.risk.target.attacks import Attack

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FRAMES = ("levels", "groups", "cells", "sizes", "posteriors", "exposed")


@final
@dataclass(frozen=True, kw_only=True)
class Scan:
    """Who is exposed, as tidy frames. Averages are over people.

    Attributes
    ----------
    when
        ``"before"`` a release (averages over the noise) or ``"after"`` it (given the noise that was drawn).
    attack
        What the intruder wants to know, and the queries that they use.
    levels
        By level and prior: people, how many are unique in their cell, and their average ``posterior``, ``risk`` (over
        the prior), ``right_decision`` and ``tie``. ``certain`` counts people whom exact counts alone give away.
    groups, cells, sizes
        The same by group of people who are measured in the same way, by cell, and by the number of people in the unit.
    posteriors
        The number of people with a posterior in each interval (before a release: the expected number).
    exposed
        The most exposed units with their true counts, for the data holder only.

    Examples
    --------
    >>> from tallyveil import Histogram, Schema, Spine, Strategy
    >>> from tallyveil.risk import scan
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> people = Histogram.from_entries(
    ...     spine, Schema(attributes={"age": ["child", "adult"]}), unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 1]
    ... )
    >>> found = scan(people, Strategy.default(spine, people.schema, rho=1), levels=["block"])
    >>> found.levels[["level", "people", "unique", "right_decision"]].round(3).values.tolist()
    [['block', 51, 1, 0.571]]
    """

    when: str
    attack: Attack
    levels: pd.DataFrame
    groups: pd.DataFrame
    cells: pd.DataFrame
    sizes: pd.DataFrame
    posteriors: pd.DataFrame
    exposed: pd.DataFrame

    def frames(self) -> dict[str, pd.DataFrame]:
        """The frames by name."""
        return {name: getattr(self, name) for name in FRAMES}

    def to_pandas(self) -> pd.DataFrame:
        """The table by level and prior; ``frames()`` has the others."""
        return self.levels

    def to_arrow(self) -> pa.Table:
        """The table by level and prior as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pandas(self.levels, preserve_index=False)

    def as_json(self) -> dict[str, Any]:
        """What was scanned, under its JSON keys; the frames are separate."""
        attack = self.attack
        return {"when": self.when, "attack": attack.kind, "attribute": attack.attribute, "queries": attack.queries}
