"""kazan2022, facts of the 1940 census: read from the extract if there is one, on the 864 cells of section 4.1.

IPUMS gives the number of a district of 1940 with a digit appended for its letter: 14 is 0140, and 14A is 0141. In a
county of some thirty districts, numbers from 100 on show that this is so.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from tallyveil._arrays import Integers
from tallyveil.files import read_ipums_1940
from tallyveil.nouns.census_schemas import PERSONS_1940_IPUMS
from tallyveil.nouns.histogram import Histogram
from tallyveil.runs.progress import following_bytes
from tallyveil_papers.figure import Figure
from tallyveil_papers.petti.census import NATION
from tallyveil_papers.verdicts import judge, printed_cases

DARE, GRANVILLE = "370550", "370770"  # North Carolina
APPENDED = 100  # from here on, the last digit of a number stands for a letter
TARGET = {"hhgq": "elderly", "votingage": "minor", "race": "white"}  # section 4.3; Hispanic, whichever origin


@lru_cache(maxsize=1)
def extract_of(path: Path) -> Histogram:
    """The people of an extract on all 864 cells."""
    with following_bytes(path) as progress:
        return read_ipums_1940(path, schema=PERSONS_1940_IPUMS, drop_orphans=True, progress=progress).people


def table_2_figures(people: Histogram) -> tuple[list[Figure], pd.DataFrame]:
    """Table 2 and section 4.2 from the extract: who lives in district 28-21, and who is alone there."""
    counts, missing = _district(people, DARE, 21), _reason(people, "28-21")
    rows = pd.DataFrame(columns=["HHGQ", "VOTINGAGE", "HISPANIC", "CENRACE", "Count"])
    ours: dict[str, float] = dict.fromkeys(["read_persons", "read_unique", "read_known"], math.nan)
    cases = dict.fromkeys(printed_cases("kazan2022.table2.read_count"), math.nan)
    if counts is not None:
        (there,), missing = counts.nonzero(), ""
        labels = [[names[i] for names, i in zip(PERSONS_1940_IPUMS.attributes.values(), at, strict=True)]
                  for at in zip(*np.unravel_index(there, PERSONS_1940_IPUMS.shape), strict=True)]  # fmt: skip
        rows = pd.DataFrame([[*names, int(counts[c])] for names, c in zip(labels, there, strict=True)], columns=[*rows])
        alone = counts[counts == 1]
        ours = {
            "read_persons": float(counts.sum()),
            "read_unique": len(alone),
            "read_known": float(alone[0] - 1) if len(alone) else math.nan,
        }
        found = {" ".join(names): int(counts[c]) for names, c in zip(labels, there, strict=True)}
        cases = {name: found.get(name, 0) for name in cases}
    figures = [judge(f"kazan2022.table2.{name}", float(value), left_out=missing) for name, value in ours.items()]
    for name, value in cases.items():
        figures.append(judge("kazan2022.table2.read_count", float(value), case=name, at=name, left_out=missing))
    return figures, rows


def section_4_3_figures(people: Histogram) -> list[Figure]:
    """Section 4.3 from the extract: district 39-14, its county, and the person who is unique in both."""
    district, missing = _district(people, GRANVILLE, 14), _reason(people, "39-14")
    ours = dict.fromkeys(["persons", "county", "others", "alone", "alone_in_county"], math.nan)
    if district is not None:
        missing, spine = "", people.spine
        unit = int(spine.locate("county", [GRANVILLE])[0])
        county = people.at("county").taken(np.array([unit])).dense()[0]
        ours = {
            "persons": int(district.sum()),
            "county": int(county.sum()),
            "others": len(_numbers(people, GRANVILLE)) - 1,
            "alone": _like_target(district),
            "alone_in_county": _like_target(county),
        }
    return [judge(f"kazan2022.section4.3.{name}", float(value), left_out=missing) for name, value in ours.items()]


def _district(people: Histogram, county: str, number: int) -> Integers | None:
    """The counts of a district of a county by its number; None if there is no such district."""
    numbers = _numbers(people, county)
    code = number * 10 if max(numbers, default=0) >= APPENDED else number
    if code not in numbers:
        return None
    unit = people.spine.locate("enumdist", [f"{county}{code:04d}"])
    return np.asarray(people.leaves.taken(unit).dense()[0])


def _numbers(people: Histogram, county: str) -> list[int]:
    """The numbers of the districts of a county, as the extract has them."""
    return [int(code[6:]) for code in people.spine.labels("enumdist") if code.startswith(county)]


def _reason(people: Histogram, name: str) -> str:
    """Why facts of a district that is not there are not compared; in the whole census they differ."""
    return "" if people.total() == NATION else f"this extract is not the whole census and has no district {name}"


def _like_target(counts: Integers) -> int:
    """How many persons have the characteristics of section 4.3."""
    labels = PERSONS_1940_IPUMS.attributes
    kind, age, race = (labels[name].index(label) for name, label in TARGET.items())
    return int(counts.reshape(PERSONS_1940_IPUMS.shape)[kind, age, 1:, race].sum())
