"""What was spent, entry by entry; it must equal the strategy in the end."""

from __future__ import annotations

from fractions import Fraction
from typing import final

from tallyveil.errors import LedgerError
from tallyveil.privacy.strategy import Strategy


@final
class Ledger:
    """A record of spends.

    One spend is a query measured for all units of a level: no two of them hold the same person, so together they cost
    what one does.

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

    @property
    def entries(self) -> tuple[tuple[str, str, Fraction], ...]:
        """Level, query and amount of each spend, in order."""
        return tuple((level, query, amount) for (level, query), amount in self._spent.items())

    def total(self) -> Fraction:
        """All that was spent."""
        return sum(self._spent.values(), Fraction(0))

    def spend(self, level: str, query: str, amount: Fraction) -> None:
        """Record a spend; one that the strategy does not allow is an error."""
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
        """Check that everything was spent that the strategy allows, no more and no less."""
        open_ = [
            f"{spend.level} {spend.query} ({spend.share * self._strategy.budget})"
            for spend in self._strategy.spends()
            if (spend.level, spend.query) not in self._spent
        ]
        if open_:
            raise LedgerError(
                f"{self.total()} of {self._strategy.budget} {self._strategy.unit} is spent; not spent: "
                f"{', '.join(open_)}. Measure it or change the strategy."
            )
        assert self.total() == self._strategy.budget
