"""What checks found: each check holds, fails or could not be made, and says so in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from tallyveil.errors import TallyveilError

T = TypeVar("T")
LONGEST_WORDS = 400  # characters of a finding's words: files may hold anything


class BrokenError(Exception):
    """Something does not hold; the text says what and where."""


class UncheckedError(Exception):
    """Something cannot be checked; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found.

    Attributes
    ----------
    name
        The check.
    holds
        True, False, or None where it could not be made.
    words
        What holds, what does not and where, or why nobody can tell.
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
        """Make a check, which gives words on what holds, and what it read.

        Whatever a file holds, the check ends in a finding: an error that nobody foresaw is a failure like any other.
        """
        result: T | None = None
        holds: bool | None = True
        try:
            words, result = work()
        except UncheckedError as reason:
            holds, words = None, str(reason)
        except (BrokenError, TallyveilError) as problem:
            holds, words = False, str(problem).replace(f"{self._place}/", "")
        except Exception as problem:
            reason_given = str(problem).replace(f"{self._place}/", "").strip().splitlines()
            holds, words = (
                False,
                f"cannot be read: {type(problem).__name__}, {(reason_given or ['no reason given'])[0]}",
            )
        self.found.append(Finding(name=name, holds=holds, words=plain(words)))
        return result

    def holds(self, name: str) -> bool:
        """Whether a check was made and holds."""
        return any(finding.holds for finding in self.found if finding.name == name)


def plain(text: str) -> str:
    r"""Text from a file, safe to print: no control characters, no broken Unicode, not too long.

    >>> plain("a\x1b[31mb\ud800")
    'a\\x1b[31mb\\ud800'
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:LONGEST_WORDS])
    return shown if len(text) <= LONGEST_WORDS else f"{shown}..."
