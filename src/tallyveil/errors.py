"""Everything tallyveil raises on purpose.

::

    TallyveilError
    ├── InputError                an option is wrong, or one of these kinds of input
    │   ├── DataError             a table, column, code, label or codebook
    │   │   └── UnknownUnitError  a code is not among a level's units
    │   ├── StrategyError         a strategy, its queries or its constraints
    │   │   └── BudgetError       a budget, share or delta
    │   ├── FolderError           the folder of a release or of a job
    │   └── UndeterminedError     measurements do not determine what is asked of them
    ├── EndedAfterNoise           a run ended after noise was drawn: its budget counts as spent
    ├── LostCluster               the cluster that work runs on was lost: the same command resumes the work
    ├── LedgerError               what was spent differs from what the strategy allows
    └── SecretError               a key or the truth was about to be shown, copied or stored

Each message says what was wrong, where, and what to do. On the command line an ``InputError`` of any kind ends the
program with that one line and exit code 2. Messages quote files, which may hold anything, so all of them are cut and
escaped here (:func:`one_line`).
"""

from __future__ import annotations

from typing import Self

LONGEST = 500  # characters of a message
_GAP = " ... "


class TallyveilError(Exception):
    """Base class of all errors that tallyveil raises on purpose. Its message is one line of printable text."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


class InputError(TallyveilError, ValueError):
    """Bad input, or a bad option: the message names the value, the place and the remedy."""

    def located(self, place: object) -> Self:
        """The same error with a message that begins with the place of the problem, such as a file's name."""
        return type(self)(f"{place}: {self}")


class DataError(InputError):
    """A table, a column, a code, a label or a codebook is wrong."""


class UnknownUnitError(DataError):
    """A code is not among a level's units; ``row`` counts from 0."""

    def __init__(
        self, message: str, *, row: int = -1, code: str = ""
    ) -> None:  # defaults: it is pickled by its message
        super().__init__(message)
        self.row, self.code = row, code

    def located(self, place: object) -> Self:
        """The same error with a message that begins with the place of the problem."""
        return type(self)(f"{place}: {self}", row=self.row, code=self.code)


class StrategyError(InputError):
    """A strategy, one of its queries or one of its constraints is wrong."""


class BudgetError(StrategyError):
    """A budget, a share or a delta is wrong."""


class FolderError(InputError):
    """The folder of a release, or of a job, is wrong or cannot be used."""


class UndeterminedError(InputError):
    """The measurements of a tree do not determine the requested queries, or not in a problem of a manageable size."""


class EndedAfterNoise(TallyveilError):  # noqa: N818 (it says what happened)
    """A run ended after noise was drawn.

    Whether a run ends can depend on the noise, so the fact that it ended reveals something about the data: its budget
    counts as spent. This is not an ``InputError``, because everything that can be decided from the input is decided
    before any noise is drawn.
    """


class LostCluster(TallyveilError):  # noqa: N818 (it says what happened)
    """The cluster that work runs on was lost, or a worker that joined it is refused. Finished work is kept."""


class LedgerError(TallyveilError):
    """What was spent differs from what the strategy allows."""


class SecretError(TallyveilError, TypeError):
    """A key, or something that can still query the truth, was about to leave the process or enter a release."""


def one_line(text: str, *, longest: int = LONGEST) -> str:
    r"""Text as one printable line: control characters and broken Unicode escaped, a long text cut in its middle.

    A message begins with the place of a problem and ends with its remedy, so both are kept. Doing this twice changes
    nothing more.

    >>> one_line("a\x1b[31m b\n\ud800")
    'a\\x1b[31m b\\n\\ud800'
    >>> one_line("no label " + "z" * 1000 + ". Correct it.", longest=35)
    'no label zzzzzzz ... z. Correct it.'
    """
    last = longest * 2 // 5
    first = longest - last - len(_GAP)
    if len(text) > longest:
        text = text[:longest] + text[-longest:]  # escaping makes a text longer, never shorter
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return text if len(text) <= longest else f"{text[:first]}{_GAP}{text[-last:]}"
