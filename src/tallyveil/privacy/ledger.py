"""A record of what was spent. In the end it must equal the strategy."""

from __future__ import annotations

from fractions import Fraction
from typing import final

from tallyveil.errors import LedgerError
from tallyveil.privacy.strategy import Strategy


@final
class Ledger:
    """A record of the measurements and what they cost.

    One entry is a query measured for all units of a level. No person is in two of these units, so measuring all of them
    costs as much as measuring one (parallel composition).

    >>> queries = {"us": {"total": "1/4", "age": "3/4"}}
    >>> plan = Strategy(mechanism="geometric", budget=2, levels={"us": 1}, queries=queries)
    >>> ledger = Ledger(plan)
    >>> ledger.spend("us", "total", Fraction(1, 2))
    >>> ledger.close()
    Traceback (most recent call last):
    tallyveil.errors.LedgerError: 1/2 of 2 epsilon is spent; not spent: us age (3/2). Measure it or change the strategy.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._spent: dict[tuple[str, str], Fraction] = {}

    def total(self) -> Fraction:
        """Return the sum of all amounts."""
        return sum(self._spent.values(), Fraction(0))

    def spend(self, level: str, query: str, amount: Fraction) -> None:
        """Record an amount, and refuse one that the strategy does not allow."""
        place = f"{level} {query}"
        if query not in self._strategy.queries.get(level, {}):
            raise LedgerError(f"{place}: {amount} {self._strategy.unit} spent, but the strategy does not measure it.")
        if (level, query) in self._spent:
            raise LedgerError(f"{place}: spent a second time. Measure each query of a level once.")
        allowed = self._strategy.budget * self._strategy.share(level, query)
        if amount != allowed:
            raise LedgerError(f"{place}: {amount} {self._strategy.unit} spent, but the strategy allows {allowed}.")
        self._spent[level, query] = amount

    def close(self) -> None:
        """Check that the whole budget of the strategy was spent."""
        unspent = [
            f"{spend.level} {spend.query} ({spend.share * self._strategy.budget})"
            for spend in self._strategy.spends()
            if (spend.level, spend.query) not in self._spent
        ]
        if unspent:
            raise LedgerError(
                f"{self.total()} of {self._strategy.budget} {self._strategy.unit} is spent; not spent: "
                f"{', '.join(unspent)}. Measure it or change the strategy."
            )
        assert self.total() == self._strategy.budget
