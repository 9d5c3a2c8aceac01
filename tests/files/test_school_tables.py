"""Wide tables with one row per school, of which a few have two rows: a morning and an afternoon shift."""

import numpy as np
import pandas as pd
import pytest

from tallyveil.errors import DataError
from tallyveil.files import read_counts
from tallyveil.files.tables.draft import draft_table

CELLS = [f"Grade{grade}_{sex}" for grade in range(1, 5) for sex in ("Boys", "Girls")]


@pytest.fixture
def schools() -> pd.DataFrame:
    """Codes of districts begin again in each region and are numbers; three schools have two shifts."""
    rng = np.random.default_rng(6)
    rows = [
        (1000 + 7 * (10 * d + s), 1 + d // 4, 1 + d % 4, f"District {'abcdefghijkl'[d]}", shift)
        for d in range(12)
        for s in range(6)
        for shift in (("Morning", "Afternoon") if (s, d % 4) == (5, 1) else ("",))
    ]
    table = pd.DataFrame(rows, columns=["EMIS_No", "Region_Code", "District_Code", "District", "Shift"])
    table[CELLS] = rng.integers(0, 60, (len(table), len(CELLS)))
    table["Total"] = table[CELLS].sum(axis=1)
    table["Teachers"] = rng.integers(3, 20, len(table))
    return table


@pytest.mark.parametrize("asked", [(), ("grade", "sex")])
def test_facts_about_schools_are_no_attributes_of_pupils_though_a_few_schools_have_two_rows(schools, asked):
    draft = draft_table(schools, attributes=asked)
    assert draft.book.levels == ("Region_Code", "District", "EMIS_No")
    assert list(draft.book.attributes) == list(asked or ("attribute_1", "sex"))
    assert {"Teachers", "District_Code"} <= set(draft.book.ignore)
    with pytest.raises(DataError, match=r"EMIS_No '\d+' is listed twice \(rows \d+ and \d+\)"):
        read_counts(schools, draft.book)


def test_a_shift_that_tells_the_rows_of_a_school_apart_can_be_an_attribute(schools):
    draft = draft_table(schools, attributes=("Shift", "grade", "sex"))
    read = read_counts(schools, draft.book)
    assert read.total() == schools["Total"].sum()
    pupils = schools.groupby("Shift")["Total"].sum()
    assert dict(zip(read.schema.attributes["Shift"], read.answer("Shift", level="all").dense()[0], strict=True)) == {
        "Afternoon": pupils["Afternoon"], "Morning": pupils["Morning"], "not stated": pupils[""]
    }  # fmt: skip
