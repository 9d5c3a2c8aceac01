"""Line lists: one row per person, as health offices keep them, with serial numbers, names of places and ages."""

import numpy as np
import pandas as pd
import pytest

from tallyveil.files import read_counts
from tallyveil.files.tables.draft import draft_table


def cases(rows: int = 600, *, seed: int = 4) -> pd.DataFrame:
    """People with the names of their places; villages of different wards have the same names."""
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 12, rows)
    village = np.minimum(rng.integers(0, 5, rows), ward % 3 + 2)
    return pd.DataFrame(
        {
            "County": [f"County {'ABC'[w // 4]}" for w in ward],
            "Sub-county": [f"Sub {'ABCDEF'[w // 2]}" for w in ward],
            "Ward": [f"Ward {'abcdefghijkl'[w]}" for w in ward],
            "Village": [("Central", "Market", "North", "Sango", "Lwanda")[v] for v in village],
            "Age (years)": rng.integers(0, 95, rows).astype(str),
            "Sex": rng.choice(["F", "M"], rows),
            "Outcome": rng.choice(["Recovered", "Died"], rows),
        }
    )


LEVELS = ("County", "Sub-county", "Ward", "Village")


@pytest.mark.parametrize("name", ["S/No.", "Form number", "EPID code"])
@pytest.mark.parametrize("further", [{}, {"Days ill": range(60)}])
def test_a_number_of_each_person_is_no_level_beside_ages_in_years(name, further):
    people = cases()
    people.insert(0, name, [f"{i}" for i in range(1, 601)] if name == "S/No." else [f"K{7 * i:05}" for i in range(600)])
    for column, values in further.items():
        people[column] = np.random.default_rng(5).choice(values, 600).astype(str)
    draft = draft_table(people, persons=True)
    assert draft.book.levels == LEVELS
    assert set(draft.book.attributes) == {"Age (years)", "Sex", "Outcome"} | set(further)
    assert name in draft.book.ignore
    assert read_counts(people, draft.book).spine.size("Village") == people.groupby(list(LEVELS)).ngroups
