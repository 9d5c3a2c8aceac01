"""What a fuzz case may end in: a refusal of ours in one short line, or a result that plain checks confirm."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tallyveil.errors import InputError, TallyveilError

LONGEST = 600  # characters of a message


class Refused(Exception):  # noqa: N818 (an outcome, not an error)
    """The input was refused as it should be."""


def attempted(action: Callable[[], Any]) -> Any:
    """What an action gives; ``Refused`` if it refuses its input properly. Any other exception is a finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return action()
        except TallyveilError as problem:
            if not isinstance(problem, InputError) and not isinstance(problem.__cause__, TallyveilError | None):
                raise problem.__cause__ from None  # a run that ended after noise, for a reason that is not ours
            check_message(str(problem))
            raise Refused from None


def check_message(text: str) -> None:
    assert 10 < len(text) <= LONGEST, f"a message of {len(text)} characters: {text[:80]!r}"
    assert text.isprintable(), f"a message that cannot be printed: {text[:80]!r}"
