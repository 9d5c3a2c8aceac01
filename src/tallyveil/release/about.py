"""What readers of a certificate must know besides the figures: what was released, about whom, by whom and when.

The one who makes a release gives these words. They are part of what a certificate declares, so a signature covers them.
"""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from typing import final

from tallyveil.errors import InputError

LONGEST = 200  # characters of a field; a certificate is two pages
_JOINERS = "\u200c\u200d"  # invisible, but part of the spelling in some scripts


@final
@dataclass(frozen=True, kw_only=True)
class About:
    """Words about a release, each of them optional.

    Attributes
    ----------
    title
        What was released.
    organisation
        Who releases it.
    population
        The people counted, by a name. Releases with the same name are about the same people.
    reference
        A number or name under which the organisation keeps the release.
    approver
        Who approved it.
    date
        The day of the release in UTC, as YYYY-MM-DD.

    >>> About(title="Counts of 2025", date="2026-02-30")
    Traceback (most recent call last):
    tallyveil.errors.InputError: date must be a day written as YYYY-MM-DD. Got '2026-02-30' instead.
    """

    title: str | None = None
    organisation: str | None = None
    population: str | None = None
    reference: str | None = None
    approver: str | None = None
    date: str | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            _refuse_unprintable(name, value)
        if self.date is not None and not _is_day(self.date):
            raise InputError(f"date must be a day written as YYYY-MM-DD. Got {self.date!r} instead.")

    def dated(self) -> About:
        """The same words with a date, today (UTC) if they have none."""
        return self if self.date is not None else replace(self, date=today())


def people_named(population: str) -> str:
    """One spelling for names of a population that readers take for the same one.

    >>> people_named("Residents of  Réunion ") == people_named("residents of Re\u0301union")
    True
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", population).casefold())
    return " ".join("".join(c for c in plain if c not in _JOINERS).split())


def today() -> str:
    """The current day in UTC."""
    return datetime.now(UTC).date().isoformat()


def _refuse_unprintable(name: str, value: str | None) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InputError(f"{name} must be text of 1 to {LONGEST} characters. Got {str(value)[:60]!r} instead.")
    odd = next((c for c in value if unicodedata.category(c).startswith("C") and c not in _JOINERS), None)
    if odd is not None:
        raise InputError(f"{name} has the unprintable character U+{ord(odd):04X}. Write it on one line, as plain text.")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
