"""Layouts of microdata files of the Census Bureau (MDF, PPMF), whose fields are separated by ``|`` or commas.

A layout states which columns give the place, which are codes of a cell, and which number a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers

IGNORED, PLACE, CODE, BLOCK_GROUP, UNIT_NUMBER, PERSONS = range(6)  # what a column is for
LARGEST = 1000  # codes are below this


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column that is read.

    Attributes
    ----------
    width
        How many digits it has; 0 if the number of digits varies.
    codes
        What each code adds to the number of the row's combination of codes.
    """

    name: str
    role: int = CODE
    width: int = 0
    codes: Mapping[int, int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class FileLayout:
    """The columns of a file.

    Attributes
    ----------
    what
        What a row is, for messages: ``"persons"``.
    names
        All columns in order.
    columns
        Those that are read.
    cell_of
        The cell of each combination of codes, -1 where the codes contradict each other.
    header
        Whether a header line is needed.
    separators
        What may separate fields; the header decides.
    """

    what: str
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    cell_of: NDArray[np.int32]
    header: bool
    separators: bytes = b"|"

    def listed(self) -> str:
        """All columns as a header names them."""
        return self.separators[:1].decode().join(self.names)


def tables(names: Sequence[str], layout: FileLayout) -> tuple[Integers, NDArray[np.int32]]:
    """Role, width and scale of each column of the file, and what each of its codes adds."""
    columns = np.zeros((len(names), 3), np.int64)
    adds = np.full((len(names), LARGEST), -1, np.int32)
    ten = 1
    for column in reversed(layout.columns):
        place = names.index(column.name)
        columns[place] = column.role, column.width, ten if column.role == PLACE else 1
        if column.role == PLACE:
            ten *= 10**column.width
        for code, more in (column.codes or {}).items():
            adds[place, code] = more
    return columns, adds
