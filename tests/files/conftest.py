"""Fixtures of several files."""

import pytest
from small_tables import COLUMNS, SCHEMA

from tallyveil import Histogram, Spine


@pytest.fixture(scope="session")
def people() -> Histogram:
    """Eleven persons; tract 4400102 is empty."""
    spine = Spine.from_columns(COLUMNS, root="us")
    unit, cell, count = [0, 0, 1, 2, 4, 4], [0, 3, 5, 3, 0, 4], [2, 3, 1, 2, 1, 2]
    return Histogram.from_entries(spine, SCHEMA, unit=unit, cell=cell, count=count)
