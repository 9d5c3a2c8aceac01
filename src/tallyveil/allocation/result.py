"""The result of an allocation: two strategies, and what every level and query gains and loses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from tallyveil.privacy.budget import text
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_comments import commented_toml

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Allocated:
    """A strategy before and after its shares were chosen.

    Attributes
    ----------
    before, after
        The strategies. Those with ``accounting = "pld"`` are calibrated.
    predicted
        ``level``, ``query``, ``sd_before``, ``sd_after`` (root mean square over units and cells; missing if nothing
        determines it) and ``change`` (of the standard deviation, as a share; missing for what is exact before and
        after). Every level and query is there. With public counts also ``released_before`` and ``released_after``: the
        root mean squared error of released counts in simulations.
    goals
        ``goal``, ``before``, ``after`` (what is predicted, in percent) and ``met``.
    gap
        By how much the error (or budget) could still be lower at most, as a share; None if the problem is not convex,
        or after a search for goals.
    risk
        The bound on risk with the figures before and after; None without a bound.
    dropped
        Candidates and queries (level, query) that got no share.
    notes
        What was done, in sentences.
    """

    before: Strategy
    after: Strategy
    predicted: pd.DataFrame
    goals: pd.DataFrame
    gap: float | None
    risk: dict[str, Any] | None
    dropped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    exactness: Exactness

    def __repr__(self) -> str:
        return f"Allocated({'; '.join(self.notes)})"

    def to_pandas(self) -> pd.DataFrame:
        """The table of what every level and query gains and loses."""
        return self.predicted.copy()

    def to_arrow(self) -> pa.Table:
        """The same as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pandas(self.predicted, preserve_index=False)

    def to_toml(self) -> str:
        """The strategy after, as a commented file that ``protect`` takes."""
        return commented_toml(self.after, self.exactness, notes=self.notes)

    def shares(self) -> list[dict[str, Any]]:
        """The share of every measurement of either strategy, as exact fractions of the whole budget in text."""
        rows = []
        for level in self.after.levels:
            names: Sequence[str] = list(dict.fromkeys([*self.before.queries[level], *self.after.queries[level]]))
            for query in names:
                shares = [
                    text(plan.share(level, query)) if query in plan.queries[level] else "0"
                    for plan in (self.before, self.after)
                ]
                rows.append({"level": level, "query": query, "share": shares[1], "share_before": shares[0]})
        return rows

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys, with shares as fractions in text."""
        return {
            "mechanism": self.after.mechanism,
            "budget": {name: text(amount) for name, amount in self.after.budgets.items()},
            "budget_before": {name: text(amount) for name, amount in self.before.budgets.items()},
            "shares": self.shares(),
            "levels": {level: text(share) for level, share in self.after.levels.items()},
            "queries": {
                level: {query: text(share) for query, share in of.items()} for level, of in self.after.queries.items()
            },
            "gap": self.gap,
            "risk": self.risk,
            "dropped": [{"level": level, "query": query} for level, query in self.dropped],
            "notes": list(self.notes),
        }
