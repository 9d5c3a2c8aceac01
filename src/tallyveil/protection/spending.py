"""The budget of a run in a programme's ledger: reserved before noise is drawn, then confirmed or kept as spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tallyveil.errors import BudgetError, EndedAfterNoise, InputError
from tallyveil.files.ledger.lines import OpenLedger, open_ledger
from tallyveil.files.ledger.of_release import entry_of_folder
from tallyveil.files.ledger.programme import Entry, Programme, programme_of
from tallyveil.files.release_folder.signing import read_signing_key
from tallyveil.privacy import sentences
from tallyveil.release.about import people_named


@final
@dataclass(frozen=True, kw_only=True)
class Spending:
    """The ledger that a run is entered in, and the private key that signs its lines, if any."""

    ledger: Path
    sign_with: Path | None = None

    @property
    def key(self) -> Ed25519PrivateKey | None:
        """The key that signs the lines."""
        return None if self.sign_with is None else read_signing_key(self.sign_with)


@final
class Booking:
    """The budget of one run in a ledger, if there is one: reserved, then confirmed."""

    def __init__(self, given: Spending | None) -> None:
        self._given = given
        self._entry: Entry | None = None
        self._line: int | None = None

    def reserve(self, entry: Entry) -> None:
        """Reserve the budget on disk, before noise is drawn; refused beyond the limit. A seeded run costs nothing."""
        if self._given is None:
            return
        with open_ledger(self._given.ledger) as ledger:
            state = programme_of(ledger.read)
            ledger.refuse_to_spoil(self._given.key)  # a seeded run has its only line after the noise
            if not entry.seeded:
                planned = _interrupted(state, entry) or _planned(state, entry)
                rest = replace(state, entries=tuple(e for e in state.entries if e is not planned))
                rest.refuse_beyond_limit(entry)
                instead = None if planned is None else planned.line
                content = {**entry.to_json(), "certificate": None, "entry": "running", "reservation": instead}
                self._line = ledger.append(content, self._given.key).number
        self._entry = entry

    def confirm(self, folder: Path) -> None:
        """Enter the release, which is complete in its folder, in place of the reservation."""
        if self._given is None or self._entry is None:
            return
        line, self._line = self._line, None
        try:
            entry = entry_of_folder(folder)
            with open_ledger(self._given.ledger) as ledger:
                content = {**entry.to_json(), "entry": "release", "reservation": _still_running(ledger, entry, line)}
                ledger.append(content, self._given.key)
        except InputError as problem:
            raise EndedAfterNoise(
                f"{folder} is complete, but could not be entered: {problem} Its budget stays reserved. "
                f"Run: tallyveil ledger {self._given.ledger} add {folder}"
            ) from None

    def keep_as_spent(self) -> None:
        """Record that the run ended by itself after its budget was reserved.

        A run of the same measurement that began since has taken the reservation over, and settles it.
        """
        if self._given is None or self._entry is None:
            return
        with open_ledger(self._given.ledger) as ledger:
            if (line := _still_running(ledger, self._entry, self._line)) is not None:
                ledger.append({"entry": "spent", "reservation": line}, self._given.key)


def _still_running(ledger: OpenLedger, entry: Entry, line: int | None) -> int | None:
    """The line of a reservation, unless another run took it over, or an older copy of the ledger was restored."""
    entries = programme_of(ledger.read).entries
    return next(
        (e.line for e in entries if e.line == line and e.status == "running" and e.cost.same_measurement(entry.cost)),
        None,
    )


@contextmanager
def booking(given: Spending | None) -> Iterator[Booking]:
    """The budget of a run. If the block ends with an error, it is kept as spent; if the process dies, reserved."""
    made = Booking(given)
    try:
        yield made
    except BaseException:
        with suppress(InputError):  # the reservation stays, and counts; why the run ended is what matters now
            made.keep_as_spent()
        raise


def _interrupted(state: Programme, entry: Entry) -> Entry | None:
    """The reservation of an interrupted run of the same measurement, which this run repeats with the same noise."""
    running = [e for e in state.entries if e.status == "running" and e.population == entry.population]
    return next((e for e in running if e.cost.same_measurement(entry.cost)), None)


def _planned(state: Programme, entry: Entry) -> Entry | None:
    """The reservation that was made for a release in advance, found by its reference."""
    if entry.reference is None:
        return None
    planned = [e for e in state.entries if e.status == "reserved" and e.reference == entry.reference]
    if not planned:
        return None
    mine, theirs = entry.cost, planned[0].cost
    for_whom, counts = planned[0].population, entry.population
    if for_whom is not None and counts is not None and people_named(for_whom) != people_named(counts):
        raise BudgetError(
            f"line {planned[0].line} of the ledger reserves budget for reference {entry.reference!r} and population "
            f"{for_whom!r}, but this release counts {counts!r}. No noise was drawn. Use another reference."
        )
    if (mine.accountant, mine.neighbours) != (theirs.accountant, theirs.neighbours) or mine.loss > theirs.loss:
        raise BudgetError(
            f"line {planned[0].line} of the ledger reserves {sentences.cost(theirs)} ({theirs.neighbours}) for "
            f"reference {entry.reference!r}, but this release costs {sentences.cost(mine)} ({mine.neighbours}). No "
            f"noise was drawn. Reserve again, or use another reference."
        )
    return planned[0]
