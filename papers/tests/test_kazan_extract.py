"""kazan2022's facts of the 1940 census, read from an extract that has them, and from one that does not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ipums_extract import write_ipums_1940
from tallyveil import Histogram, Spine
from tallyveil.files import read_ipums_1940
from tallyveil.nouns.census_schemas import PERSONS_1940, PERSONS_1940_IPUMS, TYPES_1940, UNITS_2020
from tallyveil.nouns.facilities import Facilities
from tallyveil_papers import items
from tallyveil_papers.figure import AGREES, DIFFERS, ERRATUM, NOT_COMPARED
from tallyveil_papers.kazan import extract
from tallyveil_papers.registry import Setting

OTHERS = [f"3707700{number}0" for number in range(15, 42)]  # 27 other districts of Granville County
KEYS = ("section4.1", "table2", "section4.3")
ITEMS = {key: items([f"kazan2022.{key}"])[0] for key in KEYS}


def cell(*labels: str) -> int:
    where = [names.index(label) for names, label in zip(PERSONS_1940.attributes.values(), labels, strict=True)]
    return int(np.ravel_multi_index(where, PERSONS_1940.shape))


WHITE, MINOR = cell("household", "adult", "not_hispanic", "white"), cell("household", "minor", "not_hispanic", "white")
BLACK, TARGET = cell("household", "adult", "not_hispanic", "black"), cell("elderly", "minor", "hispanic", "white")
FACTS = {
    ("3705500210", WHITE): 34,
    ("3705500210", MINOR): 10,
    ("3705500210", BLACK): 1,
    ("3705500220", WHITE): 300,  # another district of Dare County
    ("3707700140", WHITE): 208,
    ("3707700140", TARGET): 1,
    **{(code, WHITE): 1000 for code in OTHERS},
    (OTHERS[0], BLACK): 29_364 - 209 - 27_000,
    ("4400100010", TARGET): 5,  # elsewhere
}


def written(facts: dict[tuple[str, int], int], path) -> Setting:
    """An extract with these counts, each type of a district in one unit."""
    codes = sorted({code for code, _ in facts})
    spine = Spine.from_codes(codes, lengths={"state": 2, "county": 6, "enumdist": 10}, root="us")
    unit = [codes.index(code) for code, _ in facts]
    people = Histogram.from_entries(spine, PERSONS_1940, unit=unit, cell=[c for _, c in facts], count=[*facts.values()])
    kinds = sorted({(u, c // 24) for u, (_, c) in zip(unit, facts, strict=True)})
    built = Facilities.from_entries(
        spine, attribute="hhgq", types=TYPES_1940, unit=[u for u, _ in kinds], kind=[k for _, k in kinds],
        count=[1] * len(kinds),
    )  # fmt: skip
    homes = [u for u, kind in kinds if kind == 0]
    housing = Histogram.from_entries(spine, UNITS_2020, unit=homes, cell=[1] * len(homes), count=[1] * len(homes))
    write_ipums_1940(people, built, housing, path)
    return Setting(ipums=path)


def verdicts(setting: Setting, key: str) -> dict[str, str]:
    figures = ITEMS[key].compute(setting).figures
    return {f"{figure.name}, {figure.at}": figure.verdict for figure in figures if "the extract" in figure.name}


def test_every_fact_of_an_extract_that_has_them_agrees(tmp_path):
    setting = written(FACTS, tmp_path / "x.dat")
    assert len(verdicts(setting, "table2")) == 6
    assert len(verdicts(setting, "section4.3")) == 5
    assert {*verdicts(setting, "table2").values(), *verdicts(setting, "section4.3").values()} == {AGREES}
    table = ITEMS["table2"].compute(setting).tables["table 2 from the extract"]
    assert table.to_numpy().tolist() == [
        ["household", "minor", "not_hispanic", "white", 10],
        ["household", "adult", "not_hispanic", "white", 34],
        ["household", "adult", "not_hispanic", "black", 1],
    ]
    counted = {figure.name: figure for figure in ITEMS["section4.1"].compute(setting).figures}
    whole = counted["persons of the extract, counted on 864 combinations"]
    assert whole.ours == whole.again == sum(FACTS.values())
    assert counted["combinations that occur in the extract"].ours == 4
    assert counted["combinations in 1940"].verdict == AGREES


@pytest.mark.parametrize(
    ("more", "key"),
    [
        (("3705500210", BLACK), "table2"),
        (("3705500210", TARGET), "table2"),
        (("3707700140", TARGET), "section4.3"),
        (("3707700410", WHITE), "section4.3"),
        (("3707700420", WHITE), "section4.3"),
    ],
)
def test_one_person_more_differs(tmp_path, more, key):
    setting = written(FACTS | {more: FACTS.get(more, 0) + 1}, tmp_path / "x.dat")
    assert DIFFERS in verdicts(setting, key).values()


def test_numbers_of_districts_without_an_appended_digit_are_understood(tmp_path):
    plain = {(code[:6] + "0" + code[6:9], where): count for (code, where), count in FACTS.items()}
    setting = written(plain, tmp_path / "x.dat")
    assert {*verdicts(setting, "table2").values(), *verdicts(setting, "section4.3").values()} == {AGREES}


def test_an_extract_without_the_districts_is_not_compared_unless_it_is_the_whole_census(tmp_path, monkeypatch):
    setting = written({("4400100010", WHITE): 9}, tmp_path / "x.dat")
    assert set(verdicts(setting, "table2").values()) == {NOT_COMPARED}
    assert ITEMS["section4.3"].compute(setting).verdict == NOT_COMPARED
    monkeypatch.setattr(extract, "NATION", 9)
    assert set(verdicts(setting, "table2").values()) == {DIFFERS}
    assert set(verdicts(setting, "section4.3").values()) == {DIFFERS}


def test_without_an_extract_nothing_changes():
    outcome = ITEMS["section4.3"].compute(Setting())
    assert outcome.verdict == ERRATUM
    assert not any("the extract" in figure.name for figure in outcome.figures)
    assert "--ipums" in outcome.notes[0]
    assert not any(math.isnan(figure.ours) for figure in ITEMS["table2"].compute(Setting()).figures)


def test_whoever_is_hispanic_counts_as_the_target_whatever_the_origin():
    counts = np.zeros(PERSONS_1940_IPUMS.shape, np.int64)
    counts[3, 0, :, 0] = 1
    assert extract._like_target(counts.ravel()) == 5


def test_the_extract_is_read_once_on_all_combinations(tmp_path, monkeypatch):
    setting = written(FACTS, tmp_path / "x.dat")
    calls = []
    monkeypatch.setattr(extract, "read_ipums_1940", lambda *a, **k: calls.append(k) or read_ipums_1940(*a, **k))
    for key in KEYS:
        ITEMS[key].compute(replace(setting, seed=2))
    assert [call["schema"] for call in calls] == [PERSONS_1940_IPUMS]
