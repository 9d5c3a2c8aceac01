"""Everything tallyveil raises on purpose.

::

    TallyveilError
    ├── InputError            a file, table, code, label or option is wrong
    │   ├── BudgetError       a budget, share, delta or strategy is wrong
    │   └── UnknownUnitError  a code is not among a level's units
    ├── EndedAfterNoise       a run ended itself after noise was drawn: its budget counts as spent
    ├── LedgerError           what was spent is not what the strategy says
    └── SecretError           a key was about to be shown, copied or stored

Each message says what was wrong, where, and what to do. On the command line an InputError ends the program
with that one line and exit code 2.
"""

from __future__ import annotations


class TallyveilError(Exception):
    """Base class of all errors that tallyveil raises on purpose."""


class InputError(TallyveilError, ValueError):
    """Bad input: the message names the value, the place and the remedy."""

    def at(self, place: str) -> InputError:
        """The same problem, its message beginning with the file it was found in."""
        return InputError(f"{place}: {self}")


class BudgetError(InputError):
    """A budget, a share, a delta or a strategy that does not add up."""


class UnknownUnitError(InputError):
    """A code that is not among a level's units; ``row`` counts from 0."""

    def __init__(self, message: str, *, row: int, code: str) -> None:
        super().__init__(message)
        self.row, self.code = row, code

    def at(self, place: str) -> UnknownUnitError:
        """The same problem in a file."""
        return UnknownUnitError(f"{place}: {self}", row=self.row, code=self.code)


class EndedAfterNoise(TallyveilError):  # noqa: N818 (it says what happened)
    """A run ended itself after noise was drawn.

    Whether it ends can depend on the noise, so the ending itself tells something about the data: the budget of the run
    counts as spent. It is not an ``InputError``, since what can be decided from the input is decided before any noise.
    """


class LedgerError(TallyveilError):
    """What was spent differs from what the strategy allows."""


class SecretError(TallyveilError, TypeError):
    """A secret key was about to leave the process."""
