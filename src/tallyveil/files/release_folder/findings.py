"""The results of checks: each check holds, fails or could not be made, with an explanation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tallyveil.errors import TallyveilError, one_line

T = TypeVar("T")
LONGEST_WORDS = 400  # characters of a finding's words, since files may hold anything


class BrokenError(Exception):
    """Something does not hold; the text says what and where."""


class UncheckedError(Exception):
    """Something cannot be checked; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a check.

    Attributes
    ----------
    name
        The check.
    holds
        True, False, or None where it could not be made.
    words
        What holds, what fails and where, or why it could not be checked.
    """

    name: str
    holds: bool | None
    words: str

    def as_json(self) -> dict[str, Any]:
        """The finding under its JSON keys."""
        return asdict(self)


class Findings:
    """The findings so far, in order."""

    def __init__(self, place: str) -> None:
        self.found: list[Finding] = []
        self._place = place

    def check(self, name: str, work: Callable[[], tuple[str, T]]) -> T | None:
        """Run a check, which returns an explanation and what it read.

        Every check ends in a finding, whatever the files hold: an unforeseen error counts as a failure.
        """
        result: T | None = None
        holds: bool | None = True
        try:
            words, result = work()
        except UncheckedError as unchecked:
            holds, words = None, str(unchecked)
        except (BrokenError, TallyveilError) as problem:
            holds, words = False, str(problem).replace(f"{self._place}/", "")
        except Exception as problem:
            reason = [*str(problem).replace(f"{self._place}/", "").strip().splitlines(), "no reason given"][0]
            holds, words = False, f"cannot be read: {type(problem).__name__}, {reason}"
        self.found.append(Finding(name=name, holds=holds, words=one_line(words, longest=LONGEST_WORDS)))
        return result

    def holds(self, name: str) -> bool:
        """Whether a check was made and holds."""
        return any(finding.holds for finding in self.found if finding.name == name)
