"""The schemas of the censuses that the papers study.

``PERSONS_1940`` is the schema of the 2018 end-to-end test on the 1940 census, with 192 cells.
``PERSONS_1940_IPUMS`` has the codes of IPUMS for the same census as Kazan and Reiter (2022, section 4.1) count them,
with 864 cells. ``PERSONS_2020`` is the schema of the 2020 redistricting file, with 2,016 cells, and ``UNITS_2020`` that
of its housing units. Labels are in the order of the codes.
"""

from __future__ import annotations

from itertools import combinations

from tallyveil.nouns.schema import Grouping, Schema

AGES = ("minor", "adult")
ETHNICITIES = ("not_hispanic", "hispanic")
TYPES_1940 = ("household", "correctional", "mental", "elderly", "military", "college", "rooming", "other")
RACES_1940 = ("white", "black", "aian", "chinese", "japanese", "other_asian")
# HISPAN 0 to 4 and 9, and RACE 1 to 9, of which 7 to 9 do not occur in 1940.
ORIGINS_IPUMS = ("not_hispanic", "mexican", "puerto_rican", "cuban", "other_hispanic", "not_reported")
RACES_IPUMS = (*RACES_1940, "other", "two_races", "three_or_more_races")
TYPES_2020 = (
    "household",
    "correctional",
    "juvenile",
    "nursing",
    "other_institutional",
    "college",
    "military",
    "other_noninstitutional",
)
SINGLE_RACES_2020 = ("white", "black", "aian", "asian", "nhpi", "other")
# CENRACE 1 to 63: first the races alone, then combinations of two, three, four, five and all six.
RACES_2020 = tuple("+".join(races) for size in range(1, 7) for races in combinations(SINGLE_RACES_2020, size))

PERSONS_1940 = Schema(
    attributes={"hhgq": TYPES_1940, "votingage": AGES, "hispanic": ETHNICITIES, "race": RACES_1940},
)
PERSONS_1940_IPUMS = Schema(
    attributes={"hhgq": TYPES_1940, "votingage": AGES, "hispanic": ORIGINS_IPUMS, "race": RACES_IPUMS},
)
PERSONS_2020 = Schema(
    attributes={"hhgq": TYPES_2020, "votingage": AGES, "hispanic": ETHNICITIES, "cenrace": RACES_2020},
    groupings={
        "hhinstlevels": Grouping(
            of="hhgq",
            groups={
                "household": TYPES_2020[:1],
                "institutional": TYPES_2020[1:5],
                "noninstitutional": TYPES_2020[5:],
            },
        )
    },
    zeros=[{"hhgq": ["nursing"], "votingage": ["minor"]}],
)
UNITS_2020 = Schema(attributes={"h1": ("vacant", "occupied")})
