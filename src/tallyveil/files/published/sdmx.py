"""A level's tidy table as SDMX-CSV 2.0 [1]_, which statistical offices exchange.

Every row names the structure that it belongs to, and what to do with it (``I``: information). The dimensions are the
level, the unit and the attributes, then follow the observation and its margin of error. Codes of units are their own,
or their path where codes repeat under parents, since a unit must be identified by one code.

References
----------
.. [1] SDMX Technical Working Group, SDMX-CSV field guide, version 2.0, 2021.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tallyveil.errors import DataError
from tallyveil.files.published.level_tables import LevelTables


def sdmx_pieces(tables: LevelTables, *, structure: str) -> Iterator[pa.Table]:
    """The rows of a level; ``structure`` is the identifier of the dataflow, such as ``OFFICE:COUNTS(1.0)``."""
    spine, level = tables.people.spine, tables.level
    dimensions = {factor: concept_of(factor) for factor in tables.factors}
    reserved = {"STRUCTURE", "STRUCTURE_ID", "ACTION", "GEO_LEVEL", "REF_AREA", "OBS_VALUE", "MOE90"}
    names = list(dimensions.values())
    clash = next((name for i, name in enumerate(names) if name in {*reserved, *names[:i]}), None)
    if clash is not None:
        raise DataError(f"two dimensions of SDMX would be called {clash}. Rename an attribute.")
    for units, table in tables.tidy_with_units():
        rows = table.num_rows
        place, distinct = _distinct(units)
        codes = pa.array([spine.labels(level)[unit] for unit in distinct], pa.string())
        columns: dict[str, Any] = {
            "STRUCTURE": _repeated("dataflow", rows),
            "STRUCTURE_ID": _repeated(structure, rows),
            "ACTION": _repeated("I", rows),
            "GEO_LEVEL": _repeated(level, rows),
            "REF_AREA": pa.DictionaryArray.from_arrays(pa.array(place), codes),
        }
        columns |= {concept: table.column(factor) for factor, concept in dimensions.items()}
        columns["OBS_VALUE"] = table.column("count")
        if "moe90" in table.column_names:
            columns["MOE90"] = table.column("moe90")
        yield pa.table(columns)


def concept_of(name: str) -> str:
    """The name of an attribute as SDMX writes identifiers.

    >>> concept_of("voting age"), concept_of("2nd home")
    ('VOTING_AGE', '_2ND_HOME')
    """
    concept = re.sub(r"[^A-Z0-9_]", "_", name.upper())
    return f"_{concept}" if concept[:1].isdigit() else concept


def structure_of(organisation: str | None, name: str) -> str:
    """The identifier of the dataflow of a release.

    >>> structure_of(None, "release 2026")
    'TALLYVEIL:RELEASE_2026(1.0)'
    """
    return f"{concept_of(organisation or 'tallyveil')}:{concept_of(name)}(1.0)"


def _distinct(units: Any) -> tuple[Any, Any]:
    distinct, place = np.unique(units, return_inverse=True)
    return place.astype(np.int32), distinct


def _repeated(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))
