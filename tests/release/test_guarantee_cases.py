"""The cases in which a review broke the guarantee, each as a user would meet it: by command line, from a file.

The numbers are those of the review. The others have tests beside what they are about: 2, 16 and 17 in
tests/engine/test_constraints_attacked.py, 3, 4, 8, 14 and 15 in tests/privacy/test_loss.py, 7 in test_verify.py and
test_verify_altered.py beside this file, 10 in test_release_secrets.py, 11 in tests/risk.
"""

import json
from pathlib import Path

import pandas as pd
import pytest

from command_line import Done, run
from tallyveil.files import read_counts, read_release

BOOK = """
[geography]
levels = ["district", "village"]
root = "land"
[attributes]
age = ["child", "adult"]
sex = ["f", "m"]
[table]
layout = "persons"
"""
STRATEGY = """
mechanism = "geometric"
epsilon = "1/2"
{neighbours}
attributes = ["age", "sex"]
[levels]
land = "1/3"
district = "1/3"
village = "1/3"
[queries]
"{pair}" = "1/2"
age = "1/2"
"""


@pytest.fixture
def land(tmp_path) -> Path:
    """Twelve people in four villages, with a list of units and a codebook."""
    rows = [(f"{d}", f"{d}{v}", age, sex) for d in "ab" for v in "12" for age, sex in (("child", "f"), ("adult", "m"))]
    rows += [("a", "a1", "adult", "f")] * 4
    people = pd.DataFrame(rows, columns=["district", "village", "age", "sex"])
    people.to_csv(tmp_path / "people.csv", index=False)
    people[["district", "village"]].drop_duplicates().to_csv(tmp_path / "units.csv", index=False)
    (tmp_path / "book.toml").write_text(BOOK)
    return tmp_path


def protect(land: Path, *words: str, data: str = "people.csv", book: str = "book.toml") -> Done:
    given = [str(land / data), "--codebook", str(land / book), "--units", str(land / "units.csv"), "--threads", "1"]
    return run("protect", *given, *words)


def released(land: Path, name: str, *words: str, **given: str) -> Path:
    done = protect(land, *words, "-o", str(land / name), **given)
    assert done.returncode == 0, done.stderr
    return land / name


def strategy(land: Path, name: str, *, pair: str, neighbours: str = "") -> str:
    (land / name).write_text(STRATEGY.format(pair=pair, neighbours=neighbours))
    return str(land / name)


def test_case_1_two_spellings_of_a_strategy_with_one_key_publish_the_same_answers(land):
    key = ["--key-file", str(land / "key"), "--measurements", "all"]
    spellings = {"one": "age * sex", "two": "sex*age", "three": "age*sex"}
    for name, pair in spellings.items():
        released(land, name, "--strategy", strategy(land, f"{name}.toml", pair=pair), *key)
    folders = [land / name / "measurements" for name in spellings]
    files = sorted(path.relative_to(folders[0]) for path in folders[0].rglob("*.parquet"))
    assert len(files) > 6
    for file in files:
        first, *others = (pd.read_parquet(folder / file) for folder in folders)
        assert all(first.equals(other) for other in others), file


def test_case_5_data_that_break_a_bound_are_refused_or_never_compared_with_it(land):
    bound = '[[constraints]]\nbound = "total"\nlevel = "village"\nmost = {"*" = 5}\n'
    path = strategy(land, "bounded.toml", pair="age * sex")
    Path(path).write_text(Path(path).read_text() + bound)
    refused = protect(land, "--strategy", path, "-o", str(land / "refused"))
    assert refused.returncode == 2
    assert "village 'a1' has 6" in refused.stderr
    folder = released(land, "kept", "--strategy", path, "--unchecked-constraints")
    declared = json.loads((folder / "certificate.json").read_text())["declared"]
    assert "satisfy" not in declared["guarantee"]["holds_for"]
    assert "the data are not compared with it" in declared["constraints"][0]["source_in_words"]
    assert read_release(folder).histogram.answer("total", level="village").dense().max() <= 5


def test_case_6_a_drafted_label_stamps_the_release_until_a_person_removes_the_mark(land):
    people = pd.read_csv(land / "people.csv", dtype=str)
    people.loc[0, "sex"] = "x"
    people.rename(columns={"district": "county", "village": "tract"}).to_csv(land / "drafted.csv", index=False)
    units = people.rename(columns={"district": "county", "village": "tract"})[["county", "tract"]]
    units.drop_duplicates().to_csv(land / "units.csv", index=False)
    done = run("codebook", str(land / "drafted.csv"), "-o", str(land / "draft.toml"))
    assert done.returncode == 0, done.stderr
    draft = (land / "draft.toml").read_text()
    assert 'labels_from = "data"' in draft
    words = {"data": "drafted.csv", "book": "draft.toml"}
    folder = released(land, "marked", "--epsilon", "1", **words)
    stamps = json.loads((folder / "certificate.json").read_text())["declared"]["stamps"]
    assert any(stamp.startswith("labels from data") for stamp in stamps)
    kept = [line for line in draft.splitlines() if not line.startswith(("labels_from", "units_from"))]
    (land / "draft.toml").write_text("\n".join(kept))
    folder = released(land, "checked", "--epsilon", "1", **words)
    assert json.loads((folder / "certificate.json").read_text())["declared"]["stamps"] == []


def test_case_8_a_budget_beyond_the_privacy_loss_distribution_says_so_and_a_small_delta_or_rho_does_not(land):
    for words in (["--rho", "1", "--delta", "1e-16"], ["--rho", "1e-12"], ["--rho", "1001"]):
        folder = released(land, f"r{words[1]}", *words)
        guarantee = json.loads((folder / "certificate.json").read_text())["declared"]["guarantee"]
        if words[1] == "1001":
            assert (guarantee["pld_epsilon"], guarantee["pld_reason"]) == (None, "rho is above 1,000")
        else:
            assert 0 < guarantee["pld_epsilon"] < guarantee["epsilon"]


def test_case_9_account_shows_stamps_and_invariants_and_calls_a_seeded_release_no_guarantee(land):
    folder = released(land, "seeded", "--epsilon", "1", "--seed", "1", "--invariant", "total@district")
    said = run("account", "--release", str(folder))
    assert "stamped: seeded: not for publication" in said.stdout
    assert "outside the guarantee: total is exact for every district" in said.stdout
    assert "the guarantee\n" not in said.stdout
    assert said.stdout.strip().endswith("these figures are no guarantee for it as it stands.")
    told = json.loads(run("account", "--release", str(folder), "--json").stdout)
    assert told["stamps"] == {str(folder): ["seeded: not for publication"]}
    assert told["invariants"] == {str(folder): ["total is exact for every district"]}


def test_case_12_a_key_refuses_other_people_and_serves_other_strategies_of_the_same(land):
    key = ["--key-file", str(land / "key")]
    released(land, "first", "--epsilon", "1", *key)
    released(land, "second", "--epsilon", "2", *key)
    people = pd.read_csv(land / "people.csv", dtype=str)
    people.loc[0, "age"] = "adult"
    people.to_csv(land / "changed.csv", index=False)
    refused = protect(land, "--epsilon", "1", *key, "-o", str(land / "third"), data="changed.csv")
    assert (refused.returncode, (land / "third").exists()) == (2, False)
    assert "this key was first used on other people" in refused.stderr


def test_case_13_a_filter_is_declared_and_stamped_unless_it_is_public(land):
    (land / "where.toml").write_text(BOOK.replace('sex = ["f", "m"]\n', "") + 'where = {sex = "f"}\n')
    folder = released(land, "filtered", "--epsilon", "1", book="where.toml")
    declared = json.loads((folder / "certificate.json").read_text())["declared"]
    assert declared["filter"] == {"words": "only rows with sex = 'f' are counted", "public": False}
    assert [stamp.partition(":")[0] for stamp in declared["stamps"]] == ["filtered"]
    with (land / "where.toml").open("a") as book:
        book.write("where_is_public = true\n")
    folder = released(land, "public", "--epsilon", "1", book="where.toml")
    declared = json.loads((folder / "certificate.json").read_text())["declared"]
    assert (declared["filter"]["public"], declared["stamps"]) == (True, [])


def test_case_14_under_add_or_remove_nothing_printed_tells_the_number_of_people(land):
    plan = strategy(land, "free.toml", pair="age * sex", neighbours='neighbours = "add-or-remove"')
    fewer = pd.read_csv(land / "people.csv", dtype=str).iloc[:5]
    fewer.to_csv(land / "fewer.csv", index=False)
    said = {}
    for name in ("people.csv", "fewer.csv"):
        planned = protect(land, "--strategy", plan, "--plan", data=name)
        done = protect(land, "--strategy", plan, "--seed", "1", "-o", str(land / f"r_{name}"), data=name)
        first = done.stderr.splitlines()[0]
        declared = json.loads((land / f"r_{name}" / "certificate.json").read_text())["declared"]
        said[name] = (planned.stdout, planned.stderr, first, declared)
        assert "persons" not in first
    assert said["people.csv"] == said["fewer.csv"]


def test_case_18_stamps_go_along_when_counts_are_written_and_read_again(land):
    folder = released(land, "seeded", "--epsilon", "1", "--seed", "1")
    from tallyveil.files import write_counts

    histogram = read_release(folder).histogram
    write_counts(histogram, land / "copy.csv")
    again = read_counts(land / "copy.csv", land / "copy.codebook.toml", units=land / "copy.units.parquet")
    assert "seeded: not for publication" in again.stamps


def test_case_19_a_key_of_zeros_and_a_count_column_of_persons_are_refused(land):
    (land / "zeros").write_text("0" * 64)
    (land / "zeros").chmod(0o600)
    refused = protect(land, "--epsilon", "1", "--key-file", str(land / "zeros"), "-o", str(land / "r"))
    assert (refused.returncode, "is not random" in refused.stderr) == (2, True)
    people = pd.read_csv(land / "people.csv", dtype=str).assign(count=7)
    people.to_csv(land / "counted.csv", index=False)
    refused = protect(land, "--epsilon", "1", "-o", str(land / "r"), data="counted.csv")
    assert (refused.returncode, "'count'" in refused.stderr) == (2, True)
