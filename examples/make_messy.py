"""Make the five messy tables of examples/messy. The people are invented; the seed is fixed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "messy"


def main() -> None:
    """Write all tables."""
    rng = np.random.default_rng(18)
    for make in (schools, persons, output_areas, villages, totals):
        header, *rows = make(rng)
        _write(FOLDER / f"{make.__name__}.csv", header, rows)
    dictionary = [("sexe", "1", "man"), ("sexe", "2", "woman"), ("edu", "1", "none"), ("edu", "2", "primary")]
    dictionary += [("edu", "3", "secondary"), ("edu", "4", "tertiary"), ("edu", "9", "not stated")]
    _write(FOLDER / "persons_dictionary.csv", ("Attribute", "Code", "Label"), dictionary)


def schools(rng: np.random.Generator) -> Iterable[Sequence[object]]:
    """Pupils of schools in three regions, with French labels: one row per school, sex and level, and a rate."""
    yield (
        "région",
        "académie",
        "établissement",
        "nom de l'établissement",
        "sexe",
        "niveau",
        "effectif",
        "taux de réussite",
    )
    academies = {"Bretagne": ["Rennes"], "Normandie": ["Caen", "Rouen"], "Occitanie": ["Montpellier", "Toulouse"]}
    school = 0
    for region, names in academies.items():
        for academy in names:
            for _ in range(int(rng.integers(2, 5))):
                school += 1
                code, name = f"0{school:02}{rng.integers(1000, 9999)}{'ABCDEFGH'[school % 8]}", f"Lycée n° {school}"
                for sex in ("Filles", "Garçons"):
                    for level in ("Seconde", "Première", "Terminale"):
                        rate = f"{rng.uniform(70, 99):.1f}"
                        yield region, academy, code, name, sex, level, int(rng.integers(0, 120)), rate


def persons(rng: np.random.Generator) -> Iterable[Sequence[object]]:
    """One row per person, with coded attributes, a date, an identifier and a remark."""
    yield "id", "district", "chiefdom", "sexe", "edu", "onset", "remark"
    chiefdoms = [(district, f"{district} {i}") for district in ("Bo", "Kenema", "Kono") for i in range(1, 5)]
    for i in range(240):
        district, chiefdom = chiefdoms[int(rng.integers(len(chiefdoms)))]
        onset = np.datetime64("2020-01-01") + int(rng.integers(300))
        remark = "" if rng.random() < 0.7 else f"seen by team {rng.integers(9)} after {rng.integers(30)} days"
        education = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.3, 0.2, 0.1]))
        yield f"P{i:04}", district, chiefdom, int(rng.integers(1, 3)), education, onset, remark


def output_areas(rng: np.random.Generator) -> Iterable[Sequence[object]]:
    """One row per output area: England-like codes, fine to coarse, names of districts, and cells with long names."""
    ages = ("Aged 15 years and under", "Aged 16 to 64 years", "Aged 65 years and over")
    yield "OA21CD", "LSOA21CD", "MSOA21CD", "LAD22CD", "LAD22NM", "RGN22CD", "CTRY22CD", "All persons", *ages
    area = lsoa = msoa = 0
    for region, districts in enumerate(("Ash Beck Cole", "Dale Elm", "Fern Glen Holt"), start=1):
        for name in districts.split():
            for _ in range(int(rng.integers(2, 4))):
                msoa += 1
                for _ in range(int(rng.integers(1, 3))):
                    lsoa += 1
                    for _ in range(int(rng.integers(2, 5))):
                        area += 1
                        counts = rng.integers(0, 120, len(ages)).tolist()
                        codes = f"E00{area:06}", f"E01{lsoa:06}", f"E02{msoa:06}", f"E09{ord(name[0]):06}"
                        yield *codes, name, f"E12{region:06}", "E92000001", sum(counts), *counts


def villages(rng: np.random.Generator) -> Iterable[Sequence[object]]:
    """One row per village; codes repeat under their parents (zone 1 has a village 1, and so has zone 2)."""
    cells = [f"{sex}_{age}" for sex in ("m", "f") for age in ("0-14", "15-64", "65+")]
    yield "prov", "zone", "village", *cells, "tot"
    for province in (1, 2, 3):
        for zone in range(1, int(rng.integers(3, 6))):
            for village in range(1, int(rng.integers(3, 7))):
                counts = rng.integers(0, 60, len(cells))
                yield province, zone, village, *counts.tolist(), int(counts.sum())


def totals(rng: np.random.Generator) -> Iterable[Sequence[object]]:
    """Inhabitants of municipalities, nothing else."""
    yield "Bundesland", "Kreis", "Gemeinde", "Name", "Einwohner"
    for land in (1, 2):
        for county in range(1, 4):
            for place in range(1, int(rng.integers(5, 9))):
                code = f"{land:02}{county:03}{place:03}"
                yield code[:2], code[:5], code, f"Dorf {land}{county}{place}", int(rng.integers(80, 9000))


def _write(path: Path, header: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
