"""The five messy tables of examples/: each from file to published, evaluated tables in four commands."""

from pathlib import Path

import pandas as pd
import pytest

from command_line import run

MESSY = Path(__file__).parents[2] / "examples" / "messy"
# Who is counted in each table, by a plain sum; the leaf's own columns; and one word that a reader must find in it.
TABLES = {
    "schools": (lambda t: t["effectif"].astype(int).sum(), ["région", "académie", "établissement"], "Lycée n° 1"),
    "persons": (len, ["district", "chiefdom"], "woman"),
    "output_areas": (lambda t: t["All persons"].astype(int).sum(), ["OA21CD"], "Ash"),
    "villages": (lambda t: t["tot"].astype(int).sum(), ["prov", "zone", "village"], "15-64"),
    "totals": (lambda t: t["Einwohner"].astype(int).sum(), ["Gemeinde"], "Dorf 111"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_messy_table_becomes_published_tables_in_four_commands(name, tmp_path):
    people, own_columns, word = TABLES[name]
    data, book, release = MESSY / f"{name}.csv", tmp_path / "book.toml", tmp_path / "release"
    dictionary = ["--dictionary", str(MESSY / "persons_dictionary.csv")] if name == "persons" else []
    for words in (
        ["codebook", str(data), *dictionary, "-o", str(book)],
        ["protect", str(data), "--codebook", str(book), "--epsilon", "2", "--seed", "1", "--threads", "1"],
        ["tables", str(release), "-o", str(tmp_path / "tables")],
        ["evaluate", str(data), str(release), "--query", "total"],
    ):
        done = run(*words, *(["-o", str(release)] if words[0] == "protect" else []))
        assert done.returncode == 0, (words, done.stderr)
    assert book.read_text() == (MESSY / f"{name}.toml").read_text()  # the draft that the manual shows
    original = pd.read_csv(data, dtype=str)
    leaf = own_columns[-1]
    published = pd.read_csv(tmp_path / "tables" / f"{leaf}.csv", dtype=str)
    assert published["total"].astype(int).sum() == people(original)  # the number of people is exact
    joined = original[own_columns].drop_duplicates().merge(published, how="left", on=own_columns)
    assert joined["total"].notna().all()  # every code of the file finds its row
    tidy = (tmp_path / "tables").glob("*_tidy.csv")
    assert any(word in path.read_text() for path in tidy)
    assert f"release: at level {leaf}" in done.stdout


def test_the_script_that_makes_the_tables_makes_these(tmp_path, monkeypatch):
    import runpy

    module = runpy.run_path(str(MESSY.parent / "make_messy.py"))
    monkeypatch.setitem(module["main"].__globals__, "FOLDER", tmp_path)
    module["main"]()
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in MESSY.glob("*.csv")}
