"""Checks of the arguments of synthetic populations."""

from __future__ import annotations

import numpy as np

from tallyveil.errors import InputError


def whole_number(name: str, value: int, *, least: int, most: int | None = None) -> int:
    """Return an argument as an integer, and refuse one that is not a whole number from ``least`` to ``most``.

    >>> whole_number("persons", np.int64(500), least=1)
    500
    """
    limits = f"of {least} or more" if most is None else f"from {least} to {most:,}"
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        raise InputError(f"{name} is {value!r}. Give a whole number {limits}.")
    return int(value)
